"""What an index holds beside the rows of its library: precomputed answers, and what an answer must cover to stand.

Both take long, and neither is wrong at once where a few fragments change: a build may leave them for a quiet moment.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.holdout import measure_least_coverage
from orchestr8_sqlite.integrity import check_quick_lookups
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import QUICK_MIN_SCORE, find
from orchestr8_sqlite.model import LookupResult, MatchRequest, Ranker, Tier
from orchestr8_sqlite.processes import nothing
from orchestr8_sqlite.tiers.expansion import SEARCHED_WHOLE, Reading, read_parts, read_request
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.kept import Kept
from orchestr8_sqlite.tiers.shortcut import DEPTH
from orchestr8_sqlite.tiers.weighted import best_scenarios
from orchestr8_sqlite.tiers.weights import ENOUGH, FEEDBACK_DEPTH
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

COUNTED_KEYWORDS = {
    Ranker.DEFAULT: """
SELECT k.text, sum(length(b.fields))
  FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value JOIN field_block b ON b.keyword_id = k.id
 GROUP BY k.text
""",
    Ranker.CLASSIC: """
SELECT k.text, k.fragment_count FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value
""",
}
"""How many fragments hold keywords, counted in the same way."""

ANSWERED = "SELECT DISTINCT query FROM quick_lookup WHERE ranker = ?"
TOTALS = "SELECT query, total FROM quick_lookup WHERE ranker = 'default' AND rank = 1"
LISTED = """
SELECT q.fragment_id, s.text FROM quick_lookup q LEFT JOIN scenario s ON s.id = q.scenario_id
 WHERE q.ranker = 'default' AND q.query = ?
"""

SET_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


class Effect(NamedTuple):
    """What a change of a library does to the answers that are computed beforehand.

    `fragments` is how many have changed, `altered` the numbers of those that are about other things or have other
    scenarios. `stems` are those that fragments hold otherwise than before, and `topics` those of them that came or went
    where it stands what a fragment is about; None where fragments came or went, or all are weighed anew. `classic` are
    the keywords by which the classic ranker finds the fragments of which it can tell anything, `keywords` those that
    another number of fragments may hold. Requests may be read otherwise where the change `is_wide`.
    """

    fragments: int
    altered: frozenset[int]
    stems: frozenset[str] | None
    topics: frozenset[str]
    classic: frozenset[str]
    keywords: frozenset[str]
    is_wide: bool


class Answers:
    """The precomputed answers of the default ranker in an index as it was, and what a change does to them."""

    def __init__(self, db: sqlite3.Connection, effect: Effect) -> None:
        self.effect = effect
        self._db = db
        self._kept = Kept(db)
        self._totals: dict[str, int] = dict(db.execute(TOTALS))

    def are_touched(self, db: sqlite3.Connection) -> Iterator[str]:
        """Yield the queries whose answer may be another one in *db*, the index as it is.

        An answer hangs on how the request is read and on the evidence of the forms that it is looked for by: where
        none of these stems is held otherwise, everything earns what it earned. It hangs further on what the best
        fragments are about, and lists them all where it is as long as can be. And it names scenarios.
        """
        stems = self.effect.stems
        if stems is None:
            yield from self._totals
            return
        kept = Kept(db)
        together = read_request(db, " ".join(self._totals).split(), kept)  # has all forms of each, and more
        are_known = all(word.fragment_count for word in together.words)
        may_earn = self.effect.is_wide or not are_known or not stems.isdisjoint(_stems_of(together))
        for query, total in self._totals.items():
            is_few = total < ENOUGH
            is_touched = (is_few and self.effect.is_wide) or self._is_about_touched(query, kept)
            if (is_few or may_earn) and not is_touched:
                reading = read_request(db, query.split(), kept)
                forms = read_parts(db, reading) if is_few else reading
                is_read_otherwise = self.effect.is_wide and reading != self._reading(query)
                is_touched = is_read_otherwise or not stems.isdisjoint(_stems_of(forms))
            if is_touched:
                yield query

    def scenarios(self, query: str, reading: Reading) -> Mapping[int, str | None]:
        """Return the scenarios that fragments have in the answer to *query* and must have in one of that *reading*.

        Of the fragments that are as they were, these hang on the terms that the request is looked for by.
        """
        if self._totals.get(query, 0) < ENOUGH or _whole_stems(self._reading(query)) != _whole_stems(reading):
            return {}
        return {number: text for number, text in self._listed(query).items() if number not in self.effect.altered}

    def _listed(self, query: str) -> dict[int, str | None]:
        return dict(self._db.execute(LISTED, (query,)))

    def _reading(self, query: str) -> Reading:
        return read_request(self._db, query.split(), self._kept)

    def _is_about_touched(self, query: str, kept: Kept) -> bool:
        """Tell whether anything that the answer to *query* lists is about other things or what others became about."""
        if not self.effect.altered:
            return False
        listed = self._listed(query)
        if not self.effect.altered.isdisjoint(listed):
            return True
        if not self.effect.topics or len(listed) < FEEDBACK_DEPTH:  # others may have been among the best
            return bool(self.effect.topics)
        return any(not self.effect.topics.isdisjoint(topics) for topics in kept.topics([*listed]).values())


def _stems_of(reading: Reading) -> set[str]:
    return {word.stem for word in reading.words} | {form.stem for form in reading.forms}


def _whole_stems(reading: Reading) -> set[str]:
    """Return the stems that scenarios are looked through for."""
    return {form.stem for form in reading.forms if form.how in SEARCHED_WHOLE}


def drop_answers(db: sqlite3.Connection, answers: Answers) -> None:
    """Drop the precomputed answers that a change, which is written, may concern, and note that it was there.

    An answer of the classic ranker lists fragments with a keyword that is one of the request or contains it, and hangs
    on these alone.
    """
    effect = answers.effect
    gone = [(Ranker.DEFAULT.value, query) for query in answers.are_touched(db)]
    gone += [
        (Ranker.CLASSIC.value, query)
        for query in _queries(db, Ranker.CLASSIC)
        if any(word in keyword for keyword in effect.classic for word in query.split())
    ]
    db.executemany("DELETE FROM quick_lookup WHERE ranker = ? AND query = ?", gone)
    catalog = _catalog(db)
    uncounted = [
        (f"{MOST_USED}{ranker.value}",) for ranker in Ranker if _is_recounted(catalog, ranker, effect.keywords)
    ]
    db.executemany("DELETE FROM meta WHERE key = ?", uncounted)
    drift = int(catalog.meta.get(DRIFT, 0)) + effect.fragments
    db.execute(SET_META, (DRIFT, str(drift)))
    if gone or uncounted or _is_unmeasured(_catalog(db)):
        db.execute(SET_META, (UNSETTLED, "1"))


def _is_recounted(catalog: Catalog, ranker: Ranker, keywords: Collection[str]) -> bool:
    """Tell whether other keywords may be most used where another number of fragments holds *keywords*."""
    if not keywords:
        return False
    known: list[str] = json.loads(catalog.meta.get(f"{MOST_USED}{ranker.value}", "[]"))
    if len(known) < QUICK_LOOKUPS or not set(keywords).isdisjoint(known):
        return True
    asked = json.dumps([known[-1], *keywords], ensure_ascii=False)
    counts: dict[str, int] = dict(catalog.db.execute(COUNTED_KEYWORDS[ranker], {"keywords": asked}))
    least = counts.pop(known[-1])
    return max(counts.values(), default=0) >= least


def _queries(db: sqlite3.Connection, ranker: Ranker) -> list[str]:
    """Return the queries that have precomputed answers."""
    return [query for (query,) in db.execute(ANSWERED, (ranker.value,))]


def settle_rows(
    db: sqlite3.Connection, path: Path, meanwhile: Callable[[], None] = nothing, before: Answers | None = None
) -> None:
    """Write the answers that the database at *path* lacks, and measure what an answer must cover where that is due.

    What is written before is committed.

    Args:
        meanwhile: What else is to be done once nothing is missing but what is measured, and while that is.
        before: The answers that were there.
    """
    db.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))
    catalog = _catalog(db)
    for ranker in Ranker:
        _settle_answers(catalog, ranker, before)
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


def _settle_answers(catalog: Catalog, ranker: Ranker, before: Answers | None) -> None:
    """Let the answers of a ranker be there that should be, and no others."""
    db = catalog.db
    wanted = {" ".join(extract_keywords(keyword)): keyword for keyword in _most_used(catalog, ranker)}
    there = set(_queries(db, ranker))
    answers: dict[str, LookupResult] = {}
    kept = Kept(db)
    for query, keyword in wanted.items():
        if query not in there:
            request = MatchRequest(keyword, max_results=DEPTH, min_score=QUICK_MIN_SCORE, ranker=ranker)
            answers[query] = _answer(catalog, request, query, kept, before)
    gone = ((ranker.value, query) for query in there - wanted.keys())
    db.executemany("DELETE FROM quick_lookup WHERE ranker = ? AND query = ?", gone)
    write_quick_lookups(db, ranker, answers)
    check_quick_lookups(db, answers.values())


def _answer(catalog: Catalog, request: MatchRequest, query: str, kept: Kept, before: Answers | None) -> LookupResult:
    """Return the answer to *request*, with the scenarios that it named *before* where these must be the same."""
    holders = Holders(catalog.db, kept)
    if before is not None and request.ranker is Ranker.DEFAULT:
        reading = read_request(catalog.db, query.split(), kept)
        if known := before.scenarios(query, reading):
            answer = find(catalog, request, quick=False, lists=False, scenarios=False, holders=holders)
            if answer.tier is Tier.INDEX:
                new = [one.fragment_id for one in answer.candidates if one.fragment_id not in known]
                scenarios = {**known, **best_scenarios(new, reading, holders)}
                candidates = (one._replace(scenario=scenarios.get(one.fragment_id)) for one in answer.candidates)
                return answer._replace(candidates=tuple(candidates))
    return find(catalog, request, quick=False, lists=False, holders=holders)


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
