"""Tier 2 of the classic ranker against the worked example of the design and a naive reading of its rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TOPICS, filters, libraries, open_in_memory, queries, topical_libraries, topical_queries
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import MatchRequest, Ranker
from orchestr8_sqlite.model.uris import fragment_uri
from orchestr8_sqlite.ranking.classic import match_scenarios
from orchestr8_sqlite.ranking.filters import Found
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.keywords import extract_keywords

IMPLEMENTING_RETRY = "Implementing retry logic with exponential backoff for API calls with timeouts"
BUILDING_BREAKER = "Building circuit breaker pattern for services to prevent failures"
ERROR_STRATEGIES = "Error handling, retry strategies and resilience"

Ranked = list[tuple[str, float, str | None]]
"""(URI, score, scenario), best first."""


def match(catalog: Catalog, request: MatchRequest) -> Found:
    return match_scenarios(catalog.db, request, extract_keywords(request.query))


def classic(catalog: Catalog, query: str, **options: object) -> list[tuple[str, float]]:
    request = MatchRequest(query, ranker=Ranker.CLASSIC, **options)  # type: ignore[arg-type]
    return [(candidate.id, candidate.score) for candidate in match(catalog, request).candidates]


def naive_points(scenario: str, keywords: list[str]) -> float | None:
    """Return the classic score of one scenario, None where it holds no keyword exactly.

    Among more than eight words those of two letters are not looked for inside others.
    """
    held = extract_keywords(scenario)
    if not set(held) & set(keywords):
        return None
    points = 0.0
    for keyword in keywords:
        is_told = len(keyword) > 2 or len(keywords) <= 8
        if keyword in held:
            points += 20
        elif any(other in keyword or (is_told and keyword in other) for other in held):
            points += 10
    return points


def naive_classic(fragments: list[Fragment], request: MatchRequest) -> tuple[Ranked, int]:
    """Return what the rules rank, and how many fragments match in all, by looking at every scenario."""
    keywords = extract_keywords(request.query)
    ranked: Ranked = []
    for fragment in fragments:
        scored = [(points, text) for text in fragment.use_when if (points := naive_points(text, keywords)) is not None]
        wanted = not request.categories or fragment.category in request.categories
        if scored and wanted and set(request.tags) <= set(fragment.tags):
            points, text = max(scored, key=lambda pair: pair[0])
            if points >= request.min_score:
                ranked.append((fragment_uri(fragment.id), points, text))
    ranked.sort(key=lambda row: (-row[1], row[0]))
    return ranked[: request.max_results], len(ranked)


def test_worked_example_of_the_design_scores_70_and_20(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("one", IMPLEMENTING_RETRY),
        make_fragment("two", BUILDING_BREAKER),
        make_fragment("three", ERROR_STRATEGIES),
    )
    found = classic(catalog, "retry exponential backoff timeout")
    assert found == [("skills/one", 70), ("skills/three", 20)]


@settings(max_examples=80)
@given(
    library=libraries() | topical_libraries(),
    asked=st.lists(
        st.tuples(
            queries() | topical_queries() | st.sampled_from(["go", "db 行", "再 s", "kubernetesrollout", "apirapid"]),
            filters(),
        ),
        min_size=3,
        max_size=6,
    ),
)
def test_classic_ranks_what_a_look_at_every_scenario_ranks(
    library: list[Fragment], asked: list[tuple[str, dict[str, object]]]
) -> None:
    with open_in_memory(library) as catalog:
        for query, options in asked:
            request = MatchRequest(query, ranker=Ranker.CLASSIC, **options)  # type: ignore[arg-type]
            found = match(catalog, request)
            ranked = [(c.uri, c.score, c.scenario) for c in found.candidates]
            expected, total = naive_classic(library, request)
            assert ranked == expected
            assert found.total == (total if expected else 0)


def test_classic_never_finds_a_scenario_that_holds_keywords_in_part_only(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("one", "Tuning timeouts"))
    assert classic(catalog, "timeout") == []


def test_sign_that_stands_alone_is_contained_in_a_pair(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("one", "Adding retry 試"), make_fragment("two", "Adding retry"))
    assert classic(catalog, "retry 試行") == [("skills/one", 30), ("skills/two", 20)]


def test_classic_counts_the_best_scenario_of_a_fragment_once(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("one", "Adding retry", "Adding retry with backoff", "Tuning backoff"))
    assert classic(catalog, "retry backoff") == [("skills/one", 40)]


def test_classic_ties_go_by_uri_not_by_id(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("b c", "Adding retry"), make_fragment("b!c", "Adding retry"))
    assert [uri for uri, _ in classic(catalog, "retry")] == ["skills/b!c", "skills/b%20c"]


def test_filters_apply_before_the_limit(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry with backoff"),
        make_fragment("z", "Adding retry", category="agent", tags=("api",)),
    )
    assert classic(catalog, "retry backoff", max_results=1, categories=("agent",)) == [("agents/z", 20)]
    assert classic(catalog, "retry backoff", max_results=1, tags=("api",)) == [("agents/z", 20)]


def test_score_bound_is_met_by_an_equal_score(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("one", "Adding retry"))
    assert classic(catalog, "retry", min_score=20) == [("skills/one", 20)]
    assert classic(catalog, "retry", min_score=20.5) == []
    assert classic(catalog, "retry", min_score=19.5) == [("skills/one", 20)]


@settings(max_examples=30)
@given(
    words=st.lists(st.sampled_from(["retry", "node.js", "c++", "error-handling", "timeout"]), min_size=1, unique=True),
    noise=st.lists(st.sampled_from(['"', "*", "^", "(", ")", ":", "-", "AND", "OR", "NOT", '""', "{", "}"])),
)
def test_operators_and_quotes_in_a_query_have_no_effect(words: list[str], noise: list[str]) -> None:
    library = [make_fragment(word.strip("+"), f"Using {word}") for word in ("retry", "node.js", "c++", "timeout")]
    decorated = " ".join(f"{mark} {word}" for mark, word in zip([*noise, *[""] * 9], words, strict=False))
    with open_in_memory(library) as catalog:
        for ranker in Ranker:
            plain = find(catalog, MatchRequest(" ".join(words), ranker=ranker))
            noisy = find(catalog, MatchRequest(" ".join([decorated, *noise[len(words) :]]), ranker=ranker))
            assert noisy.candidates == plain.candidates


@settings(max_examples=15)
@given(asked=st.lists(st.text(min_size=1, max_size=40), min_size=5))
def test_no_query_breaks_the_statement(asked: list[str]) -> None:
    with open_in_memory([make_fragment("a", "Adding retry")]) as catalog:
        for query in asked:
            for ranker in Ranker:
                find(catalog, MatchRequest(query, ranker=ranker))


@pytest.mark.parametrize("query", ["title:retry", "retry NEAR(timeout)", "fragment_text", '"retry', "retry*", "don't"])
def test_full_text_syntax_is_read_as_words(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("a", "Don't retry"))
    for ranker in Ranker:
        find(catalog, MatchRequest(query, ranker=ranker))


def test_of_a_long_request_the_24_words_that_fewest_scenarios_hold_count(make_catalog: MakeCatalog) -> None:
    rare = [f"{one}{other}" for one in TOPICS[:6] for other in TOPICS[8:12]]
    catalog = make_catalog(
        make_fragment("all", " ".join(rare)), *(make_fragment(f"b{number}", "zeppelin") for number in range(3))
    )
    assert len(rare) == 24
    assert classic(catalog, " ".join(["zeppelin", *rare])) == [("skills/all", 24 * 20)]
    assert len(classic(catalog, " ".join(["zeppelin", *rare[1:]]))) == 4
