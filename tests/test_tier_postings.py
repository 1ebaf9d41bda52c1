"""Tier 2 against the worked example of the design and a naive reading of its rules."""

from support import MakeCatalog, make_fragment

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.model import MatchRequest, Ranker
from orchestr8_sqlite.tiers.postings import document_frequencies, match_keywords

IMPLEMENTING_RETRY = "Implementing retry logic with exponential backoff for API calls with timeouts"
BUILDING_BREAKER = "Building circuit breaker pattern for services to prevent failures"
ERROR_STRATEGIES = "Error handling, retry strategies and resilience"


def classic(catalog: Catalog, query: str, **options: object) -> list[tuple[str, float]]:
    request = MatchRequest(query, ranker=Ranker.CLASSIC, **options)  # type: ignore[arg-type]
    keywords = query.split()
    found = match_keywords(catalog.db, request, keywords, document_frequencies(catalog.db, keywords))
    return [(candidate.id, candidate.score) for candidate in found.candidates]


def test_worked_example_of_the_design_scores_70_and_20(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("one", IMPLEMENTING_RETRY),
        make_fragment("two", BUILDING_BREAKER),
        make_fragment("three", ERROR_STRATEGIES),
    )
    found = classic(catalog, "retry exponential backoff timeout")
    assert found == [("skills/one", 70), ("skills/three", 20)]
