"""Checks a finished index before it is put in place: counts, links and pages of the file itself must agree."""

import sqlite3
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestr8_sqlite.errors import CheckError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import LookupResult
from orchestr8_sqlite.ranking.precomputed import match_quick

HOLDING = {"fragment": ("fragment", "fragment_body", "rank_length"), "prompt": ("prompt",)}
"""By outcome of a file, the tables that have one row for it."""

COUNTED = {"posting": "scenario_count", "field_posting": "fragment_count"}
"""Each table of keyword postings, with the column of `keyword` that counts its rows."""

DANGLING = """
SELECT 1 FROM sqlite_schema s JOIN pragma_foreign_key_check(s.name)
 WHERE s.type = 'table' AND s.name <> 'posting'
"""
"""Skips `posting`: comparing postings and scenarios as sets is faster than its foreign key check."""

SCENARIOS = "SELECT fragment_id, ordinal FROM scenario"
POSTED = "SELECT DISTINCT fragment_id, ordinal FROM posting"
UNKNOWN_STEM = "SELECT 1 FROM keyword k WHERE NOT EXISTS (SELECT 1 FROM rank_stem s WHERE s.stem = k.stem)"
BROKEN_SKILLS = """
SELECT count(*) FROM skill s
 WHERE '/' || s.path NOT LIKE '%/' || json_extract(s.frontmatter, '$.name')
    OR NOT EXISTS (SELECT 1 FROM skill_file WHERE fragment_id = s.fragment_id AND path = 'SKILL.md')
"""


def check_counts(db: sqlite3.Connection) -> None:
    """Raise CheckError if the index lacks something that was read, or its posting counts are wrong."""
    for outcome, tables in HOLDING.items():
        expected = db.execute("SELECT count(*) FROM source WHERE outcome = ?", (outcome,)).fetchone()[0]
        for table in tables:
            count = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - names from HOLDING
            _require(count == expected, f"{table} has {count} rows instead of {expected}")
    for table, column in COUNTED.items():
        rows, counted = db.execute(
            f"SELECT (SELECT count(*) FROM {table}), coalesce(sum({column}), 0) FROM keyword"  # noqa: S608 - from COUNTED
        ).fetchone()
        _require(rows == counted, f"{table} has {rows} rows, and the keywords count {counted}")


def check_links(db: sqlite3.Connection) -> None:
    """Raise CheckError if a row points nowhere, or no keyword leads to one of the scenarios."""
    _require(db.execute(DANGLING).fetchone() is None, "a foreign key points nowhere")
    scenarios, posted = set(db.execute(SCENARIOS)), set(db.execute(POSTED))
    _require(scenarios <= posted, f"{len(scenarios - posted)} scenarios cannot be reached by any keyword")
    _require(posted <= scenarios, "a posting leads to no scenario")
    _require(db.execute(UNKNOWN_STEM).fetchone() is None, "a keyword has a stem that is not counted")
    broken = db.execute(BROKEN_SKILLS).fetchone()[0]
    _require(broken == 0, f"{broken} skills lack their SKILL.md or have another name than their path")


def check_index(db: sqlite3.Connection, path: Path) -> None:
    """Raise CheckError if the index at *path* lacks something that was read, or contradicts itself.

    A second thread checks the pages meanwhile, so the file must not change. SQLite runs in both threads at once.
    """
    with ThreadPoolExecutor(1) as other:
        pages = other.submit(check_pages, path)
        check_counts(db)
        check_links(db)
        for table in ("fragment_text", "keyword_text"):
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")  # noqa: S608 - names from here
        pages.result()


def check_pages(path: Path) -> None:
    """Raise CheckError if the tables and indexes of the database at *path* fail SQLite's integrity check."""
    with Catalog.open(path, is_finished=False) as catalog:
        verdict = catalog.db.execute("PRAGMA integrity_check").fetchone()[0]
    _require(verdict == "ok", f"integrity_check says: {verdict}")


def check_quick_lookups(db: sqlite3.Connection, answers: Iterable[LookupResult]) -> None:
    """Raise CheckError if a precomputed answer differs from the one that a search gives."""
    for live in answers:
        quick = match_quick(db, live.request, live.keywords)
        searched = tuple(one._replace(copies=()) for one in live.candidates)  # near-copies are looked up for any answer
        same = quick.candidates == searched and quick.total == (live.total if live.candidates else 0)
        _require(same, f"the precomputed answer to {live.request.query!r} differs from the live one")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise CheckError(f"The finished index failed a check and was not put in place: {problem}. Please report this.")
