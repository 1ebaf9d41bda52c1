"""What an index holds beside the rows of its library: precomputed answers, and what an answer must cover to stand.

Both take long, and neither is wrong at once where a few fragments change: a build may leave them for a quiet moment.
"""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.holdout import measure_least_coverage
from orchestr8_sqlite.integrity import check_quick_lookups
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import QUICK_MIN_SCORE, find
from orchestr8_sqlite.model import LookupResult, MatchRequest, Ranker
from orchestr8_sqlite.processes import nothing
from orchestr8_sqlite.tiers.expansion import read_parts, read_request
from orchestr8_sqlite.tiers.shortcut import DEPTH
from orchestr8_sqlite.writer import write_quick_lookups

FEWEST_MEASURED = 20
"""Fragments below which a build cannot tell what an answer must cover: there, every answer stands."""

MOST_DRIFT = 0.1
"""Share of the fragments that may change before what an answer must cover is measured anew."""

QUICK_LOOKUPS = 20
"""Keywords with a precomputed answer: those that most fragments hold. Source: shared/seeds/index-lookup.md."""

MOST_USED_KEYWORDS = {
    Ranker.DEFAULT: """
WITH held (keyword_id, fragments) AS MATERIALIZED (
    SELECT keyword_id, sum(length(fields)) FROM field_block GROUP BY keyword_id)
SELECT k.text FROM held CROSS JOIN keyword k ON k.id = held.keyword_id
 WHERE held.fragments >= (SELECT min(fragments) FROM (SELECT fragments FROM held ORDER BY 1 DESC LIMIT :limit))
 ORDER BY held.fragments DESC, k.text
 LIMIT :limit
""",
    Ranker.CLASSIC: """
SELECT text FROM keyword WHERE fragment_count ORDER BY fragment_count DESC, text LIMIT :limit
""",
}
"""Those that most fragments hold in a field that the ranker searches: any of the short texts, or what is listed."""

LEAST, OF, DRIFT = "least_coverage", "least_coverage_of", "least_coverage_drift"
"""Rows of `meta`: what an answer must cover, the generation that was measured, fragments that have changed since."""

UNSETTLED = "unsettled"
"""Row of `meta` in an index some of whose precomputed answers are left for a quiet moment."""

MOST_USED = "most_used_"
"""Rows of `meta`, with the name of a ranker behind: the keywords whose answers are computed beforehand."""

ANSWERED = "SELECT DISTINCT query FROM quick_lookup WHERE ranker = ?"

SET_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


class Effect(NamedTuple):
    """What a change of a library does to the answers that are computed beforehand.

    `fragments` is how many have changed. `stems` are those that a fragment holds otherwise in its body, where that is
    all that the default ranker can tell; None where it is more. `classic` are the keywords by which the classic ranker
    finds the fragments of which it can tell anything. Keywords have another number of fragments where `is_counted`.
    """

    fragments: int
    stems: frozenset[str] | None
    classic: frozenset[str]
    is_counted: bool


def drop_answers(db: sqlite3.Connection, effect: Effect) -> None:
    """Drop the precomputed answers that a change, which is written, may concern, and note that it was there.

    The others are what they were. An answer of the default ranker hangs on how the request is read, on the evidence of
    its forms and on what the best fragments have in common. Where no fragment and no keyword has come, gone, or moved
    from field to field, that is another one only where a body has more or less of a word or a form of the request:
    which forms there are, the table of keywords tells, and how many fragments have a term in a field. An answer of the
    classic ranker lists fragments with a keyword that is one of the request or contains it, and hangs on these alone.
    """
    gone = [(Ranker.DEFAULT.value, query) for query in _queries(db, Ranker.DEFAULT) if _is_touched(db, query, effect)]
    gone += [
        (Ranker.CLASSIC.value, query)
        for query in _queries(db, Ranker.CLASSIC)
        if any(word in keyword for keyword in effect.classic for word in query.split())
    ]
    db.executemany("DELETE FROM quick_lookup WHERE ranker = ? AND query = ?", gone)
    if effect.is_counted:
        db.execute("DELETE FROM meta WHERE key LIKE ? || '%'", (MOST_USED,))
    drift = int(_catalog(db).meta.get(DRIFT, 0)) + effect.fragments
    db.execute(SET_META, (DRIFT, str(drift)))
    if gone or effect.is_counted or _is_unmeasured(_catalog(db)):
        db.execute(SET_META, (UNSETTLED, "1"))


def _queries(db: sqlite3.Connection, ranker: Ranker) -> list[str]:
    """Return the queries that have precomputed answers."""
    return [query for (query,) in db.execute(ANSWERED, (ranker.value,))]


def _is_touched(db: sqlite3.Connection, query: str, effect: Effect) -> bool:
    """Tell whether a change may concern what the default ranker answers to *query*."""
    if not effect.stems:
        return effect.stems is None
    reading = read_parts(db, read_request(db, query.split()))
    return not effect.stems.isdisjoint({word.stem for word in reading.words} | {form.stem for form in reading.forms})


def settle_rows(db: sqlite3.Connection, path: Path, meanwhile: Callable[[], None] = nothing) -> None:
    """Write the answers that the database at *path* lacks, and measure what an answer must cover where that is due.

    What is written before is committed.

    Args:
        meanwhile: What else is to be done once nothing is missing but what is measured, and while that is.
    """
    db.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))
    catalog = _catalog(db)
    for ranker in Ranker:
        _settle_answers(catalog, ranker)
    db.execute("COMMIT")
    if _is_unmeasured(catalog):
        measured = least_coverage(Catalog(db, path, identity=(0, 0, 0)), meanwhile)
        db.executemany(SET_META, ((LEAST, measured), (OF, catalog.generation), (DRIFT, "0")))
    else:
        meanwhile()


def _is_unmeasured(catalog: Catalog) -> bool:
    """Tell whether what an answer must cover was never measured, or of another library."""
    least, drift = catalog.least_coverage, int(catalog.meta.get(DRIFT, 0))
    is_other = drift > MOST_DRIFT * catalog.size or (least > 0) != (catalog.size >= FEWEST_MEASURED)
    return OF not in catalog.meta or is_other


def least_coverage(catalog: Catalog, meanwhile: Callable[[], None] = nothing) -> str:
    """Return what an answer must cover for `meta`, measured where the library is large enough for that."""
    if catalog.size >= FEWEST_MEASURED:
        return str(measure_least_coverage(catalog, meanwhile))
    meanwhile()
    return "0.0"


def _settle_answers(catalog: Catalog, ranker: Ranker) -> None:
    """Let the answers of a ranker be there that should be, and no others."""
    db = catalog.db
    wanted = {" ".join(extract_keywords(keyword)): keyword for keyword in _most_used(catalog, ranker)}
    there = set(_queries(db, ranker))
    answers: dict[str, LookupResult] = {}
    for query, keyword in wanted.items():
        if query not in there:
            request = MatchRequest(keyword, max_results=DEPTH, min_score=QUICK_MIN_SCORE, ranker=ranker)
            answers[query] = find(catalog, request, quick=False, lists=False)
    gone = ((ranker.value, query) for query in there - wanted.keys())
    db.executemany("DELETE FROM quick_lookup WHERE ranker = ? AND query = ?", gone)
    write_quick_lookups(db, ranker, answers)
    check_quick_lookups(db, answers.values())


def _most_used(catalog: Catalog, ranker: Ranker) -> list[str]:
    """Return the keywords whose answers are computed beforehand; where they are not known they are counted."""
    key = f"{MOST_USED}{ranker.value}"
    if key in catalog.meta:
        return list(json.loads(catalog.meta[key]))
    rows = catalog.db.execute(MOST_USED_KEYWORDS[ranker], {"limit": QUICK_LOOKUPS})
    keywords = [keyword for (keyword,) in rows]
    catalog.db.execute(SET_META, (key, json.dumps(keywords, ensure_ascii=False)))
    return keywords


def _catalog(db: sqlite3.Connection) -> Catalog:
    return Catalog(db, Path(), identity=(0, 0, 0))
