"""Checks of a finished index before it is put in place: what it promises must hold in the file itself."""

import sqlite3

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.lookup import QUICK_MIN_SCORE, find
from orchestr8_sqlite.model import MatchRequest, Ranker

DANGLING = """
SELECT 1 FROM sqlite_schema s JOIN pragma_foreign_key_check(s.name)
 WHERE s.type = 'table' AND s.name NOT IN ('posting', 'keyword_part')
"""
MISCOUNTED_KEYWORDS = """
SELECT count(*) FROM keyword k
 WHERE scenario_count <> (SELECT count(*) FROM posting WHERE keyword_id = k.id)
"""
COUNTED_POSTINGS = "SELECT (SELECT count(*) FROM posting) = (SELECT coalesce(sum(scenario_count), 0) FROM keyword)"
LAST_SCENARIO = "SELECT coalesce(max(id), 0) FROM (SELECT id FROM scenario UNION ALL SELECT scenario_id FROM posting)"
SCENARIOS = "SELECT id FROM scenario"
HELD_SCENARIOS = "SELECT scenario_id FROM posting"
IS_SCENARIO, IS_HELD = 1, 2
BROKEN_SKILLS = """
SELECT count(*) FROM skill s
 WHERE '/' || s.path NOT LIKE '%/' || json_extract(s.frontmatter, '$.name')
    OR NOT EXISTS (SELECT 1 FROM skill_file WHERE fragment_id = s.fragment_id AND path = 'SKILL.md')
"""
HOLDING = {"fragment": ("fragment", "fragment_body", "fragment_text", "topic"), "prompt": ("prompt",)}
"""What became of a file, and the tables that have a row of it then."""

QUICK_QUERIES = "SELECT DISTINCT ranker, query FROM quick_lookup ORDER BY ranker, query"
QUICK_RESULTS = 15


def check_counts(db: sqlite3.Connection) -> None:
    """Raise BuildError where the index does not hold what was read."""
    for outcome, tables in HOLDING.items():
        expected = db.execute("SELECT count(*) FROM source WHERE outcome = ?", (outcome,)).fetchone()[0]
        for table in tables:
            count = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - names from HOLDING
            _require(count == expected, f"{table} has {count} rows instead of {expected}")


def check_links(db: sqlite3.Connection) -> None:
    """Raise BuildError where a row points to none, or no keyword leads to a scenario."""
    _require(db.execute(DANGLING).fetchone() is None, "a foreign key points nowhere")
    _check_postings(db)
    broken = db.execute(BROKEN_SKILLS).fetchone()[0]
    _require(broken == 0, f"{broken} skills lack their SKILL.md or have another name than their path")


def _check_postings(db: sqlite3.Connection) -> None:
    """Raise BuildError where the postings of a keyword or a scenario are not what they should be.

    Looking up both ends of each of so many rows takes longer than all other foreign keys together. So the scenarios
    are marked, a byte for each, and the postings of the keywords counted.
    """
    marks = bytearray(db.execute(LAST_SCENARIO).fetchone()[0] + 1)
    for (id_,) in db.execute(SCENARIOS):
        marks[id_] = IS_SCENARIO
    for (id_,) in db.execute(HELD_SCENARIOS):
        marks[id_] |= IS_HELD
    unreachable = marks.count(IS_SCENARIO)
    _require(unreachable == 0, f"{unreachable} scenarios cannot be reached by any keyword")
    _require(IS_HELD not in marks, "a posting leads to no scenario")
    miscounted = db.execute(MISCOUNTED_KEYWORDS).fetchone()[0]
    _require(miscounted == 0, f"{miscounted} keywords have another number of postings than they say")
    _require(db.execute(COUNTED_POSTINGS).fetchone()[0], "a posting belongs to no keyword")


def check_index(catalog: Catalog) -> None:
    """Raise BuildError where the index does not hold what was read, or contradicts itself."""
    db = catalog.db
    check_counts(db)
    check_links(db)
    verdict = db.execute("PRAGMA integrity_check").fetchone()[0]
    _require(verdict == "ok", f"integrity_check says: {verdict}")
    db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('integrity-check')")
    _check_quick_lookups(catalog)


def _check_quick_lookups(catalog: Catalog) -> None:
    for ranker, query in catalog.db.execute(QUICK_QUERIES).fetchall():
        request = MatchRequest(query, max_results=QUICK_RESULTS, min_score=QUICK_MIN_SCORE, ranker=Ranker(ranker))
        quick, live = find(catalog, request), find(catalog, request, quick=False)
        same = quick.candidates == live.candidates and quick.total == live.total
        _require(same, f"the precomputed answer to {query!r} differs from the live one")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise BuildError(f"The finished index failed a check and was not put in place: {problem}. Please report this.")
