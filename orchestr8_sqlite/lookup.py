"""Which tier answers a request.

1  a precomputed answer, for requests without filters
2  the keyword index; enough where two fragments match
3  wider: words inside other words; the classic ranker weighs them by points of its own,
   the default one on the scale of tier 2
"""

import difflib
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import Candidate, LookupResult, MatchRequest, Ranker, Tier
from orchestr8_sqlite.tiers.expansion import Reading, read_parts, read_request, read_words
from orchestr8_sqlite.tiers.explanation import Held, coverage, covered_share, explain, held_forms
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.kept import kept_by
from orchestr8_sqlite.tiers.shortcut import match_quick
from orchestr8_sqlite.tiers.sums import PlainSums
from orchestr8_sqlite.tiers.weighted import Ranked, list_best, order_best, rank
from orchestr8_sqlite.tiers.weights import ENOUGH

logger = logging.getLogger(__name__)

QUICK_MIN_SCORE = 10.0
"""The score bound that precomputed answers were made with: the default of a request."""

JUDGED = 5
"""Best candidates of which one must cover enough of the request for an answer to stand."""

NEAREST_TAGS = 5
SPELLED_ALIKE = 0.8
"""Share of letters that a tag has in common with a word it may have been meant by."""


def find(
    catalog: Catalog,
    request: MatchRequest,
    *,
    quick: bool = True,
    lists: bool = True,
    scenarios: bool = True,
    holders: Holders | None = None,
) -> LookupResult:
    """Return the answer to *request*: candidates best first, and how they were found.

    Where SQLite cannot read the tables of the first two tiers though the file is what was built, the third answers by
    the classic rules.

    Args:
        quick: Whether precomputed answers may be used; the build that makes them says no.
        lists: Whether candidates come with their tags and capabilities.
        scenarios: Whether those that are ranked now come with the scenario that matched best.
        holders: Where the default ranker reads its lists, if not from the index as it is.

    Raises:
        CatalogError: The index is damaged, or SQLite cannot read what the third tier needs either.
    """
    with catalog.reading():
        try:
            result = _find(catalog, request, holders, quick=quick, scenarios=scenarios)
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise  # nobody waits for the answer any more
            catalog.verify(fully=True)
            logger.warning("the index is damaged, answering by tags, capabilities and scenarios alone: %s", problem)
            from orchestr8_sqlite.tiers.fuzzy import match_fuzzy

            keywords = tuple(extract_keywords(request.query))
            result = _result(catalog, request, keywords, Tier.FUZZY, match_fuzzy(catalog.db, request, keywords))
        return _with_lists(catalog, result) if lists else result


def _find(
    catalog: Catalog, request: MatchRequest, holders: Holders | None, *, quick: bool, scenarios: bool
) -> LookupResult:
    keywords = tuple(extract_keywords(request.query))
    plain = not request.is_filtered and not request.explain
    if quick and plain and request.min_score == QUICK_MIN_SCORE:
        found = match_quick(catalog.db, request, keywords)
        if found.candidates and found.coverage >= catalog.least_coverage:
            return _result(catalog, request, keywords, Tier.QUICK, found)._replace(coverage=found.coverage)
    holders = holders or Holders(catalog.db, kept_by(catalog.db))
    if request.ranker is Ranker.CLASSIC:
        words = read_words(holders.kept, keywords)
        unknown = tuple(word.text for word in words if not word.fragment_count)
        return _result(catalog, request, keywords, *_classic(catalog, request, keywords), unknown)
    tier, reading, ranked = _ranked(catalog, request, keywords, holders)
    found = list_best(ranked, request, reading, holders, scenarios=scenarios)
    result = _result(catalog, request, keywords, tier, found, reading.unknown)
    if request.explain:
        result = result._replace(parts=explain(reading, holders, ranked.ranking, result.candidates))
    return _judged(catalog, result._replace(read_as=reading.read_as), reading, holders)


def cover(catalog: Catalog, request: MatchRequest, holders: Holders) -> float:
    """Return how much of *request* the best answers of the default ranker cover, as `find` does, 0 to 1."""
    judged = request._replace(max_results=JUDGED)
    _, reading, ranked = _ranked(catalog, judged, extract_keywords(request.query), holders)
    best = order_best(holders, PlainSums(ranked.scores), JUDGED)
    return _coverage(reading, held_forms(reading, holders, list(best)))


def _ranked(
    catalog: Catalog, request: MatchRequest, keywords: Sequence[str], holders: Holders
) -> tuple[Tier, Reading, Ranked]:
    reading = read_request(catalog.db, keywords, holders.kept)
    ranked = rank(request, reading, holders)
    if ranked.total >= ENOUGH:
        return Tier.INDEX, reading, ranked
    reading = read_parts(catalog.db, reading)
    return Tier.FUZZY, reading, rank(request, reading, holders)


def _judged(catalog: Catalog, result: LookupResult, reading: Reading, holders: Holders) -> LookupResult:
    """Return *result* with how much of the request it covers, and so whether it stands."""
    if not result.candidates:
        return result._replace(confident=False, coverage=0.0)
    held = held_forms(reading, holders, [candidate.fragment_id for candidate in result.candidates[:JUDGED]])
    result = result._replace(coverage=_coverage(reading, held))
    if result.coverage >= catalog.least_coverage:
        return result
    reached = {text for forms in held.values() for text, share in coverage(reading, forms).items() if share}
    missing = [word for word in reading.words if word.text not in reached and not word.everyday]
    closest = _with_lists(catalog, result._replace(candidates=result.candidates[:NEAREST_TAGS]))
    return result._replace(
        confident=False,
        uncovered=tuple(word.text for word in sorted(missing, key=lambda word: -word.rarity)),
        nearest_tags=_nearest_tags(catalog, result.keywords, closest.candidates),
    )


def _coverage(reading: Reading, held: Mapping[int, Sequence[Held]]) -> float:
    """Return the most that any of the fragments covers, as it is printed."""
    return round(covered_share(reading, (coverage(reading, forms) for forms in held.values())), 3)


def _classic(catalog: Catalog, request: MatchRequest, keywords: Sequence[str]) -> tuple[Tier, Found]:
    """Return the answer of tier 2 where it is enough, else that of tier 3 unless it knows even less."""
    from orchestr8_sqlite.tiers.fuzzy import match_fuzzy
    from orchestr8_sqlite.tiers.postings import match_keywords

    indexed = match_keywords(catalog.db, request, keywords)
    if indexed.total >= ENOUGH:
        return Tier.INDEX, indexed
    fuzzy = match_fuzzy(catalog.db, request, keywords)
    return (Tier.FUZZY, fuzzy) if fuzzy.total >= indexed.total else (Tier.INDEX, indexed)


def _result(
    catalog: Catalog,
    request: MatchRequest,
    keywords: tuple[str, ...],
    tier: Tier,
    found: Found,
    uncovered: tuple[str, ...] = (),
) -> LookupResult:
    return LookupResult(
        request=request,
        keywords=keywords,
        tier=tier,
        candidates=found.candidates,
        total=found.total,
        uncovered=uncovered,
        nearest_tags=() if found.candidates else _nearest_tags(catalog, keywords),
        statement=found.statement,
    )


def _with_lists(catalog: Catalog, result: LookupResult) -> LookupResult:
    """Return *result* with the tags and capabilities of its candidates."""
    lists = catalog.lists([candidate.fragment_id for candidate in result.candidates])
    candidates = (
        candidate._replace(tags=lists[candidate.fragment_id][0], capabilities=lists[candidate.fragment_id][1])
        for candidate in result.candidates
    )
    return result._replace(candidates=tuple(candidates))


def _nearest_tags(catalog: Catalog, keywords: Sequence[str], closest: Sequence[Candidate] = ()) -> tuple[str, ...]:
    """Return known tags that are spelled like the keywords, then those of the *closest* fragments; else any alike."""

    def alike(cutoff: float) -> Iterator[str]:
        for word in keywords[:NEAREST_TAGS]:  # compared with tags of the same first letter alone: comparing takes long
            tags = [tag for tag in catalog.frequent_tags.get(word[0], ()) if may_be_alike(word, tag, cutoff)]
            yield from difflib.get_close_matches(word, tags, n=2, cutoff=cutoff)

    nearest = [*alike(SPELLED_ALIKE), *(tag for candidate in closest for tag in candidate.tags[:2])] or alike(0.6)
    return tuple(dict.fromkeys(nearest))[:NEAREST_TAGS]


def may_be_alike(word: str, tag: str, cutoff: float) -> bool:
    """Tell whether the letters of *tag* that *word* has too, or all of *word*, suffice for difflib's *cutoff*."""
    whole = len(word) + len(tag)
    if 2.0 * min(len(word), len(tag)) / whole < cutoff:
        return False
    return 2.0 * (len(tag) - len(set(tag).difference(word))) / whole >= cutoff
