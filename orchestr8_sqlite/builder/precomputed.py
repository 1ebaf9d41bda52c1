"""Precomputed answers, and the least coverage that an answer needs.

Both are slow to compute, and a change of a few fragments does not make them wrong at once: a build may leave them for
a quiet moment.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestr8_sqlite.builder.checks import check_quick_lookups
from orchestr8_sqlite.builder.job import SET_META
from orchestr8_sqlite.builder.writer import insert_rows
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Ranker
from orchestr8_sqlite.ranking.holdout import measure_least_coverage
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.precomputed import DEPTH
from orchestr8_sqlite.text.keywords import extract_keywords

FEWEST_MEASURED = 20
"""With fewer fragments a build cannot measure the least coverage, and every answer stands."""

FEWEST_SHARED = 1000
"""From this many fragments on, other processes help to measure; with fewer, starting them takes as long."""

MOST_DRIFT = 0.1
"""Share of the fragments that may change before the least coverage is measured again."""

QUICK_LOOKUPS = 20
"""Number of keywords with a precomputed answer: those that most fragments contain, as in the original design."""

OWN_QUERIES = 200
"""Number of requests by the library's authors (`queries:`, queries.jsonl) with a precomputed answer, the first ones.
Each costs the build one search, a millisecond or two. Scenarios and titles are not precomputed: there are seven times
as many of them as fragments, and none of 744 judged requests equals one."""

MOST_USED = "SELECT text FROM keyword ORDER BY fragment_count DESC, text LIMIT :limit"
LISTED = """
SELECT text FROM library_query ORDER BY origin DESC, iif(origin = 'queries', text, id), text LIMIT :limit
"""
"""Requests of queries.jsonl in file order, then those of front matter in alphabetical order: an updated index numbers
them differently from a new one, and both must precompute the same answers."""

LEAST, OF, DRIFT = "least_coverage", "least_coverage_of", "least_coverage_drift"
"""Rows of `meta`: the least coverage, the generation it was measured on, the number of files changed since."""

CAN_ROLL_BACK = "PRAGMA journal_mode = MEMORY"
"""Measuring hides scenarios in transactions that it rolls back."""

UNSETTLED = "unsettled"
"""Row of `meta` in an index whose precomputed answers are still to be written."""


def drop_answers(db: sqlite3.Connection, changed: int) -> None:
    """Drop the precomputed answers after *changed* files have changed, and record that they are missing."""
    db.execute("DELETE FROM quick_lookup")
    drift = int(_catalog(db).meta.get(DRIFT, 0)) + changed
    db.executemany(SET_META, ((DRIFT, str(drift)), (UNSETTLED, "1")))


def settle_rows(db: sqlite3.Connection, path: Path) -> None:
    """Write the precomputed answers of the index at *path*, and measure the least coverage if that is due.

    This commits the open transaction.
    """
    db.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))
    catalog = _catalog(db)
    queries = quick_queries(db)
    for ranker in Ranker:
        _write_answers(catalog, ranker, queries)
    db.execute("COMMIT")
    if _is_unmeasured(catalog):
        db.execute(CAN_ROLL_BACK)
        shared = path if catalog.size >= FEWEST_SHARED else None
        least = measure_least_coverage(catalog, shared) if catalog.size >= FEWEST_MEASURED else 0.0
        db.executemany(SET_META, ((LEAST, str(least)), (OF, catalog.generation), (DRIFT, "0")))


def quick_queries(db: sqlite3.Connection) -> list[str]:
    """Return the requests that get a precomputed answer."""
    used = [text for (text,) in db.execute(MOST_USED, {"limit": QUICK_LOOKUPS})]
    listed = [text for (text,) in db.execute(LISTED, {"limit": OWN_QUERIES})]
    return [*used, *listed]


def _is_unmeasured(catalog: Catalog) -> bool:
    """Tell whether the least coverage was never measured, or on a library that was too different."""
    least, drift = catalog.least_coverage, int(catalog.meta.get(DRIFT, 0))
    is_other = drift > MOST_DRIFT * catalog.size or (least > 0) != (catalog.size >= FEWEST_MEASURED)
    return OF not in catalog.meta or is_other


def _write_answers(catalog: Catalog, ranker: Ranker, queries: Iterable[str]) -> None:
    """Write the answers of *ranker* to *queries*, and check that they equal those of a search.

    An answer that tells how a word was read, or that the library lacks it, is left to search: the rows cannot say so.
    """
    answers: dict[str, LookupResult] = {}
    for query in queries:
        key = " ".join(extract_keywords(query))
        if key and key not in answers:
            request = MatchRequest(query, max_results=DEPTH, ranker=ranker)
            answer = find(catalog, request, quick=False, lists=False)
            if not (answer.uncovered or answer.read_as):
                answers[key] = answer
    write_quick_lookups(catalog.db, ranker, answers)
    check_quick_lookups(catalog.db, answers.values())


def write_quick_lookups(db: sqlite3.Connection, ranker: Ranker, answers: Mapping[str, LookupResult]) -> None:
    """Write finished answers, given by query."""
    columns = ("ranker", "query", "rank", "fragment_id", "score", "scenario", "total", "coverage")
    rows = (
        (ranker.value, query, rank, c.fragment_id, c.score, c.scenario, answer.total, answer.coverage)
        for query, answer in sorted(answers.items())
        for rank, c in enumerate(answer.candidates, start=1)
    )
    insert_rows(db, "quick_lookup", columns, rows)


def _catalog(db: sqlite3.Connection) -> Catalog:
    return Catalog(db, Path(), identity=(0, 0, 0))
