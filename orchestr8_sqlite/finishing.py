"""What an index holds beside the rows of its library: precomputed answers, and what an answer must cover to stand.

Both take long, and neither is wrong at once where a few fragments change: a build may leave them for a quiet moment.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.holdout import measure_least_coverage
from orchestr8_sqlite.integrity import check_quick_lookups
from orchestr8_sqlite.lookup import QUICK_MIN_SCORE, find
from orchestr8_sqlite.model import LookupResult, MatchRequest, Ranker
from orchestr8_sqlite.processes import nothing
from orchestr8_sqlite.tiers.shortcut import DEPTH
from orchestr8_sqlite.writer import write_quick_lookups

FEWEST_MEASURED = 20
"""Fragments below which a build cannot tell what an answer must cover: there, every answer stands."""

MOST_DRIFT = 0.1
"""Share of the fragments that may change before what an answer must cover is measured anew."""

QUICK_LOOKUPS = 20
"""Keywords with a precomputed answer: those that most fragments hold. Source: shared/seeds/index-lookup.md."""

MOST_USED_KEYWORDS = """
SELECT k.text FROM keyword k
 WHERE k.fragment_count OR :fields = 63
 ORDER BY iif(:fields = 63, (SELECT sum(length(fields)) FROM field_block WHERE keyword_id = k.id), k.fragment_count)
          DESC, k.text
 LIMIT :limit
"""
SEARCHED_FIELDS = {Ranker.DEFAULT: 63, Ranker.CLASSIC: 7}
"""Bits of field_posting.fields that a ranker searches."""

LEAST, OF, DRIFT = "least_coverage", "least_coverage_of", "least_coverage_drift"
"""Rows of `meta`: what an answer must cover, the generation that was measured, fragments that have changed since."""

UNSETTLED = "unsettled"
"""Row of `meta` in an index whose precomputed answers are left for a quiet moment."""

SET_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


def leave_unsettled(db: sqlite3.Connection, changed: int) -> None:
    """Note that so many fragments have changed, and drop the precomputed answers."""
    drift = int(_catalog(db).meta.get(DRIFT, 0)) + changed
    db.executemany(SET_META, ((DRIFT, str(drift)), (UNSETTLED, "1")))
    db.execute("DELETE FROM quick_lookup")


def settle_rows(db: sqlite3.Connection, path: Path, meanwhile: Callable[[], None] = nothing) -> None:
    """Write the precomputed answers to the database at *path*, and measure what must be where too much has changed.

    What is written before is committed.

    Args:
        meanwhile: What else is to be done once nothing is missing but what is measured, and while that is.
    """
    db.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))
    db.execute("DELETE FROM quick_lookup")
    catalog = _catalog(db)
    for ranker in Ranker:
        answers = _quick_answers(catalog, ranker)
        write_quick_lookups(db, ranker, answers)
        check_quick_lookups(db, answers.values())
    db.execute("COMMIT")
    meta = catalog.meta
    least, drift = float(meta.get(LEAST, 0)), int(meta.get(DRIFT, 0))
    if OF not in meta or drift > MOST_DRIFT * catalog.size or (least > 0) != (catalog.size >= FEWEST_MEASURED):
        measured = least_coverage(Catalog(db, path, identity=(0, 0, 0)), meanwhile)
        db.executemany(SET_META, ((LEAST, measured), (OF, catalog.generation), (DRIFT, "0")))
    else:
        meanwhile()


def least_coverage(catalog: Catalog, meanwhile: Callable[[], None] = nothing) -> str:
    """Return what an answer must cover for `meta`, measured where the library is large enough for that."""
    if catalog.size >= FEWEST_MEASURED:
        return str(measure_least_coverage(catalog, meanwhile))
    meanwhile()
    return "0.0"


def _quick_answers(catalog: Catalog, ranker: Ranker) -> dict[str, LookupResult]:
    answers: dict[str, LookupResult] = {}
    parameters = {"fields": SEARCHED_FIELDS[ranker], "limit": QUICK_LOOKUPS}
    for (keyword,) in catalog.db.execute(MOST_USED_KEYWORDS, parameters).fetchall():
        request = MatchRequest(keyword, max_results=DEPTH, min_score=QUICK_MIN_SCORE, ranker=ranker)
        result = find(catalog, request, quick=False, lists=False)
        answers[" ".join(result.keywords)] = result
    return answers


def _catalog(db: sqlite3.Connection) -> Catalog:
    return Catalog(db, Path(), identity=(0, 0, 0))
