"""Checks of this installation and of an index, without a server."""

import platform
import sqlite3
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import yaml

from orchestr8_sqlite import __version__
from orchestr8_sqlite.doctor.report import Check, ok, omitted, problem
from orchestr8_sqlite.errors import CatalogError, ShippingError
from orchestr8_sqlite.index.catalog import MINIMUM_SQLITE, Catalog
from orchestr8_sqlite.index.checksums import REBUILD
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.settings import Address, Place
from orchestr8_sqlite.shipping.shelf import folder_of, read_state
from orchestr8_sqlite.shipping.statement import hash_of
from orchestr8_sqlite.text.wording import counted

THOROUGH_BYTES = 200 * 1024 * 1024
"""Larger files get SQLite's quick check, which does not compare each table with its indexes."""

COUNTS = gathered(
    """
SELECT (SELECT count(*) FROM fragment), (SELECT count(*) FROM prompt),
       (SELECT count(DISTINCT fragment_id) FROM skill_file)
""",
    Step("fragment", "SELECT id FROM fragment"),
    Step("skill_file", "SELECT DISTINCT fragment_id FROM skill_file"),
)
FIRST_TITLE = gathered(
    "SELECT title, uri FROM fragment ORDER BY uri LIMIT 1",
    order=[2],
)
SECONDS_A_DAY = 86_400


def check_installation() -> Iterator[Check]:
    """Yield the checks of Python, SQLite and PyYAML."""
    yield ok("python", f"{platform.python_version()} on {platform.system()}, orchestr8-sqlite {__version__}")
    found, needed = sqlite3.sqlite_version, ".".join(map(str, MINIMUM_SQLITE[:2]))
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        yield problem("sqlite", f"{found} is too old", f"use a Python whose SQLite is {needed} or newer")
    elif not _has_fts5():
        yield problem("sqlite", f"{found} lacks FTS5", "use a Python whose SQLite was built with FTS5")
    else:
        yield ok("sqlite", f"{found} with FTS5")
    if not yaml.__with_libyaml__:
        yield omitted("yaml", "PyYAML lacks libyaml, so it reads ten times slower", "install a wheel of PyYAML")


def _has_fts5() -> bool:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (text)")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def check_index(path: Place) -> Iterator[Check]:
    """Yield the checks of the index at *path*: it opens, is as it was built, and is not empty."""
    try:
        if isinstance(path, Address):
            yield from _check_published(path)
            return
        with Catalog.open(path) as catalog:
            catalog.verify(fully=True)
            found = f"{path}: schema {catalog.meta.get('schema_version', '?')}, {_age(path)}, {_size(path)}"
            checks = [ok("index", found), _check_integrity(catalog), _check_contents(catalog)]
    except CatalogError as error:
        finding, _, advice = str(error).rstrip(".").rpartition("; ")
        yield problem("index", finding or advice, advice if finding else f"make {path} readable")
        yield omitted("integrity", "there is no index to check")
        yield omitted("contents", "there is no index to count")
        return
    yield from checks


def _check_published(address: Address) -> Iterator[Check]:
    with Catalog.open(address) as catalog:
        found = f"{address}: schema {catalog.meta.get('schema_version', '?')}, generation {catalog.generation}"
        contents = _check_contents(catalog)
    yield ok("index", found)
    yield omitted("integrity", "the publisher has compared every row with the index")
    yield contents


def check_source(path: Path) -> Iterator[Check]:
    """Yield what is known of where the index at *path* was pulled from, and how old it is, if it was pulled."""
    if not folder_of(path).is_dir():
        return
    try:
        state = read_state(path)
    except ShippingError as error:
        finding, _, advice = str(error).rstrip(".").rpartition("; ")
        yield problem("source", finding, advice)
        return
    found = state.find(hash_of(path)) if path.is_file() else None
    if found is None:
        advice = f"pull again, unless you built this index here: orchestr8-sqlite pull SOURCE -o {path}"
        yield omitted("source", "the index in use is none that was pulled", advice)
        return
    finding = (
        f"serial {found.release.serial} of {found.channel} from {found.source}, published "
        f"{_ago(found.release.published)}, asked for a newer one {_ago(state.checked)}"
    )
    yield ok("source", finding)


def _ago(moment: str) -> str:
    """Return how long ago a moment was that a channel or a pull has written."""
    seconds = max(0, time.time() - datetime.fromisoformat(moment).timestamp())
    for size, unit in ((SECONDS_A_DAY, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{counted(int(seconds // size), unit)} ago"
    return "just now"


def _check_integrity(catalog: Catalog) -> Check:
    small = catalog.path.stat().st_size <= THOROUGH_BYTES
    pragma = "PRAGMA integrity_check(1)" if small else "PRAGMA quick_check(1)"
    try:
        verdict = str(catalog.db.execute(pragma).fetchone()[0])
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    return ok("integrity", "ok") if verdict == "ok" else problem("integrity", verdict.replace("\n", " "), REBUILD)


def _check_contents(catalog: Catalog) -> Check:
    try:
        fragments, prompts, skills = catalog.rows(COUNTS)[0]
    except CatalogError as error:
        return problem("contents", str(error), REBUILD)
    finding = ", ".join(counted(*one) for one in ((fragments, "fragment"), (prompts, "prompt"), (skills, "skill")))
    if fragments or prompts:
        return ok("contents", finding)
    return problem("contents", finding, "build the index from folders that contain Markdown files")


def typical_query(path: Place) -> str:
    """Return a search that the index at *path* should answer: the title of its first fragment, else any word."""
    try:
        with Catalog.open(path) as catalog:
            rows = catalog.rows(FIRST_TITLE)
    except CatalogError:
        rows = []
    title = str(rows[0][0])[:200].strip() if rows else ""
    return title or "test"


def _age(path: Path) -> str:
    days = int((time.time() - path.stat().st_mtime) // SECONDS_A_DAY)
    return "from today" if days < 1 else f"{counted(days, 'day')} old"


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1_048_576:.1f} MiB"
