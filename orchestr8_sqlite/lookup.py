"""Which tier answers a request.

1  a precomputed answer, for requests without filters
2  the keyword index; enough where two fragments match
3  wider: words inside other words; the classic ranker weighs them by points of its own,
   the default one on the scale of tier 2
"""

import difflib
from collections.abc import Sequence
from dataclasses import replace

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import LookupResult, MatchRequest, Ranker, Tier
from orchestr8_sqlite.tiers.expansion import expand, expand_parts
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.fuzzy import match_fuzzy
from orchestr8_sqlite.tiers.postings import match_keywords
from orchestr8_sqlite.tiers.shortcut import match_quick
from orchestr8_sqlite.tiers.weighted import document_frequencies, match_weighted

ENOUGH = 2
"""Fragments that tier 2 must find; with fewer, tier 3 is asked. Source: shared/seeds/index-lookup.md."""

QUICK_MIN_SCORE = 10.0
"""The score bound that precomputed answers were made with: the default of a request."""

NEAREST_TAGS = 5


def find(catalog: Catalog, request: MatchRequest, *, quick: bool = True) -> LookupResult:
    """Return the answer to *request*: candidates best first, and how they were found.

    Args:
        quick: Whether precomputed answers may be used; the build that makes them says no.

    Raises:
        CatalogError: The index is damaged.
    """
    with catalog.reading():
        return _find(catalog, request, quick=quick)


def _find(catalog: Catalog, request: MatchRequest, *, quick: bool) -> LookupResult:
    keywords = tuple(extract_keywords(request.query))

    def result(tier: Tier, found: Found, unknown: tuple[str, ...] = ()) -> LookupResult:
        return _result(catalog, request, keywords, tier, found, unknown)

    if quick and not request.categories and not request.tags and request.min_score == QUICK_MIN_SCORE:
        found = match_quick(catalog.db, request, keywords)
        if found.candidates:
            return result(Tier.QUICK, found)
    counts = document_frequencies(catalog.db, keywords)
    unknown = tuple(word for word in keywords if not counts[word])
    if request.ranker is Ranker.CLASSIC:
        return result(*_classic(catalog, request, keywords), unknown)
    expansions = expand(catalog.db, keywords, counts)
    read_as = {expansion.word: expansion.form for expansion in expansions if expansion.how == "typo"}
    unknown = tuple(word for word in unknown if all(expansion.word != word for expansion in expansions))
    tier, found = Tier.INDEX, match_weighted(catalog.db, request, keywords, counts, expansions)
    if found.total < ENOUGH:
        expansions += expand_parts(catalog.db, keywords)
        tier, found = Tier.FUZZY, match_weighted(catalog.db, request, keywords, counts, expansions)
    return replace(result(tier, found, unknown), read_as=read_as)


def _classic(catalog: Catalog, request: MatchRequest, keywords: Sequence[str]) -> tuple[Tier, Found]:
    """Return the answer of tier 2 where it is enough, else that of tier 3 unless it knows even less."""
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
    uncovered: tuple[str, ...],
) -> LookupResult:
    lists = catalog.lists([candidate.fragment_id for candidate in found.candidates])
    candidates = tuple(
        replace(candidate, tags=lists[candidate.fragment_id][0], capabilities=lists[candidate.fragment_id][1])
        for candidate in found.candidates
    )
    return LookupResult(
        request=request,
        keywords=keywords,
        tier=tier,
        candidates=candidates,
        total=found.total,
        uncovered=uncovered,
        nearest_tags=() if candidates else _nearest_tags(catalog, keywords),
        statement=found.statement,
    )


def _nearest_tags(catalog: Catalog, keywords: Sequence[str]) -> tuple[str, ...]:
    """Return known tags that look like the keywords, the nearest of each keyword first."""
    tags = catalog.frequent_tags()
    nearest = [tag for keyword in keywords[:NEAREST_TAGS] for tag in difflib.get_close_matches(keyword, tags, n=2)]
    return tuple(dict.fromkeys(nearest))[:NEAREST_TAGS]
