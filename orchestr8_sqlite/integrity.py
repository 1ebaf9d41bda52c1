"""Checks of a finished index before it is put in place: what it promises must hold in the file itself."""

import sqlite3
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.errors import CheckError
from orchestr8_sqlite.model import LookupResult
from orchestr8_sqlite.tiers.shortcut import match_quick

DANGLING = """
SELECT 1 FROM sqlite_schema s JOIN pragma_foreign_key_check(s.name)
 WHERE s.type = 'table' AND s.name NOT IN ('posting', 'keyword_suffix', 'keyword_part')
"""
MISCOUNTED_KEYWORDS = """
SELECT count(*) FROM keyword k
 WHERE scenario_count <> (SELECT count(*) FROM posting WHERE keyword_id = k.id)
"""
COUNTED_POSTINGS = "SELECT (SELECT count(*) FROM posting) = (SELECT coalesce(sum(scenario_count), 0) FROM keyword)"
LAST_SCENARIO = "SELECT coalesce(max(id), 0) FROM scenario"
SCENARIOS = "SELECT id FROM scenario"
LAST_HELD = "SELECT coalesce(max(scenario_id), 0) FROM posting"
HELD_SCENARIOS = "SELECT scenario_id FROM posting"
FOREIGN_SUFFIXES = """
WITH
first (id) AS (SELECT min(id) FROM keyword),
gap (id) AS (SELECT min(id) FROM keyword k WHERE NOT EXISTS (SELECT 1 FROM keyword WHERE id = k.id + 1))
SELECT 1 FROM keyword_suffix
 WHERE CASE WHEN keyword_id BETWEEN (SELECT id FROM first) AND (SELECT id FROM gap) THEN 0
            ELSE keyword_id NOT IN (SELECT id FROM keyword) END
"""
"""Endings of no keyword. Up to the first gap in the numbers of the keywords, none needs to be looked up."""
BROKEN_SKILLS = """
SELECT count(*) FROM skill s
 WHERE '/' || s.path NOT LIKE '%/' || json_extract(s.frontmatter, '$.name')
    OR NOT EXISTS (SELECT 1 FROM skill_file WHERE fragment_id = s.fragment_id AND path = 'SKILL.md')
"""
HOLDING = {"fragment": ("fragment", "fragment_body", "fragment_text", "topic"), "prompt": ("prompt",)}
"""What became of a file, and the tables that have a row of it then."""


def check_counts(db: sqlite3.Connection) -> None:
    """Raise CheckError where the index does not hold what was read."""
    for outcome, tables in HOLDING.items():
        expected = db.execute("SELECT count(*) FROM source WHERE outcome = ?", (outcome,)).fetchone()[0]
        for table in tables:
            count = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - names from HOLDING
            _require(count == expected, f"{table} has {count} rows instead of {expected}")


def check_links(db: sqlite3.Connection) -> None:
    """Raise CheckError where a row points to none, or no keyword leads to a scenario."""
    _require(db.execute(DANGLING).fetchone() is None, "a foreign key points nowhere")
    _require(db.execute(FOREIGN_SUFFIXES).fetchone() is None, "an ending belongs to no keyword")
    _check_postings(db)
    broken = db.execute(BROKEN_SKILLS).fetchone()[0]
    _require(broken == 0, f"{broken} skills lack their SKILL.md or have another name than their path")


def _check_postings(db: sqlite3.Connection) -> None:
    """Raise CheckError where the postings of a keyword or a scenario are not what they should be.

    Looking up both ends of each of so many rows takes longer than all other foreign keys together. So the scenarios
    are marked, a byte for each, and the postings of the keywords counted.
    """
    scenarios, held = _marked(db, LAST_SCENARIO, SCENARIOS), _marked(db, LAST_HELD, HELD_SCENARIOS)
    unreachable = (scenarios & ~held).bit_count()
    _require(unreachable == 0, f"{unreachable} scenarios cannot be reached by any keyword")
    _require(held & ~scenarios == 0, "a posting leads to no scenario")
    miscounted = db.execute(MISCOUNTED_KEYWORDS).fetchone()[0]
    _require(miscounted == 0, f"{miscounted} keywords have another number of postings than they say")
    _require(db.execute(COUNTED_POSTINGS).fetchone()[0], "a posting belongs to no keyword")


def _marked(db: sqlite3.Connection, last: str, numbers: str) -> int:
    """Return an integer with a bit set for each of the *numbers* that a statement gives, *last* the highest of them."""
    marks = bytearray(db.execute(last).fetchone()[0] + 1)
    deque(map(marks.__setitem__, chain.from_iterable(db.execute(numbers)), repeat(1)), maxlen=0)
    return int.from_bytes(marks, "little")


def check_index(db: sqlite3.Connection, path: Path) -> None:
    """Raise CheckError where the index at *path* does not hold what was read, or contradicts itself.

    A thread goes over the pages of the file meanwhile, which must not change. SQLite works in both at once.
    """
    with ThreadPoolExecutor(1) as other:
        pages = other.submit(check_pages, path)
        check_counts(db)
        check_links(db)
        db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('integrity-check')")
        pages.result()


def check_pages(path: Path) -> None:
    """Raise CheckError where the tables and indexes in the database at *path* are not in order."""
    with Catalog.open(path, is_finished=False) as catalog:
        verdict = catalog.db.execute("PRAGMA integrity_check").fetchone()[0]
    _require(verdict == "ok", f"integrity_check says: {verdict}")


def check_quick_lookups(db: sqlite3.Connection, answers: Iterable[LookupResult]) -> None:
    """Raise CheckError where the precomputed answers to some requests are not what a search answers."""
    for live in answers:
        quick = match_quick(db, live.request, live.keywords)
        same = quick.candidates == live.candidates and quick.total == live.total
        _require(same, f"the precomputed answer to {live.request.query!r} differs from the live one")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise CheckError(f"The finished index failed a check and was not put in place: {problem}. Please report this.")
