"""What an index holds beside the rows of its library: precomputed answers, and what an answer must cover to stand.

Both take long, and neither is wrong at once where a few fragments change: a build may leave them for a quiet moment.
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
"""Fragments below which a build cannot tell what an answer must cover: there, every answer stands."""

FEWEST_SHARED = 1000
"""Fragments from which on other processes help to measure: below, to start them takes as long."""

MOST_DRIFT = 0.1
"""Share of the fragments that may change before what an answer must cover is measured again."""

QUICK_LOOKUPS = 20
"""Keywords with a precomputed answer: those that most fragments hold, as in the original design."""

OWN_QUERIES = 200
"""Requests with a precomputed answer that the library's authors list (`queries:`, queries.jsonl), the first of them.
Each takes a build what a search takes, a millisecond or two. Scenarios and titles are not precomputed: there are seven
times as many of them as fragments, and of 744 judged requests none is one of them."""

MOST_USED = "SELECT text FROM keyword ORDER BY fragment_count DESC, text LIMIT :limit"
LISTED = """
SELECT text FROM library_query ORDER BY origin DESC, iif(origin = 'queries', text, id), text LIMIT :limit
"""
"""Requests of queries.jsonl in their order, then those of front matter by the alphabet: an updated index numbers them
differently than a new one, and both must precompute the same."""

LEAST, OF, DRIFT = "least_coverage", "least_coverage_of", "least_coverage_drift"
"""Rows of `meta`: what an answer must cover, the generation that was measured, files that have changed since."""

CAN_ROLL_BACK = "PRAGMA journal_mode = MEMORY"
"""Measuring hides scenarios in transactions that are taken back."""

UNSETTLED = "unsettled"
"""Row of `meta` in an index whose precomputed answers are left for a quiet moment."""


def drop_answers(db: sqlite3.Connection, changed: int) -> None:
    """Drop the precomputed answers after *changed* files have changed, and note that they are missing."""
    db.execute("DELETE FROM quick_lookup")
    drift = int(_catalog(db).meta.get(DRIFT, 0)) + changed
    db.executemany(SET_META, ((DRIFT, str(drift)), (UNSETTLED, "1")))


def settle_rows(db: sqlite3.Connection, path: Path) -> None:
    """Write the answers that the index at *path* lacks, and measure what an answer must cover if that is due.

    What is written before is committed.
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
    """Return the requests whose answers are computed beforehand."""
    used = [text for (text,) in db.execute(MOST_USED, {"limit": QUICK_LOOKUPS})]
    listed = [text for (text,) in db.execute(LISTED, {"limit": OWN_QUERIES})]
    return [*used, *listed]


def _is_unmeasured(catalog: Catalog) -> bool:
    """Tell whether what an answer must cover was never measured, or of another library."""
    least, drift = catalog.least_coverage, int(catalog.meta.get(DRIFT, 0))
    is_other = drift > MOST_DRIFT * catalog.size or (least > 0) != (catalog.size >= FEWEST_MEASURED)
    return OF not in catalog.meta or is_other


def _write_answers(catalog: Catalog, ranker: Ranker, queries: Iterable[str]) -> None:
    """Write what a ranker answers to each of *queries*, and see that it is what a search finds.

    An answer that says how a word was read, or that the library lacks it, is left to search: its rows cannot say so.
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
    """Write finished answers by their queries."""
    columns = ("ranker", "query", "rank", "fragment_id", "score", "scenario", "total", "coverage")
    rows = (
        (ranker.value, query, rank, c.fragment_id, c.score, c.scenario, answer.total, answer.coverage)
        for query, answer in sorted(answers.items())
        for rank, c in enumerate(answer.candidates, start=1)
    )
    insert_rows(db, "quick_lookup", columns, rows)


def _catalog(db: sqlite3.Connection) -> Catalog:
    return Catalog(db, Path(), identity=(0, 0, 0))
