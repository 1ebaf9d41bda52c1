"""Tier 2 against the worked example of the design and a naive reading of its rules."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import filters, full_scans, libraries, open_in_memory, queries
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import Fragment, MatchRequest, Ranker
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.postings import CLASSIC_MATCHES, DEFAULT_MATCHES, document_frequencies, match_keywords
from orchestr8_sqlite.uris import fragment_uri

IMPLEMENTING_RETRY = "Implementing retry logic with exponential backoff for API calls with timeouts"
BUILDING_BREAKER = "Building circuit breaker pattern for services to prevent failures"
ERROR_STRATEGIES = "Error handling, retry strategies and resilience"

Ranked = list[tuple[str, float, str | None]]
"""(URI, score, scenario), best first."""


def match(catalog: Catalog, request: MatchRequest) -> Found:
    keywords = extract_keywords(request.query)
    return match_keywords(catalog.db, request, keywords, document_frequencies(catalog.db, keywords))


def classic(catalog: Catalog, query: str, **options: object) -> list[tuple[str, float]]:
    request = MatchRequest(query, ranker=Ranker.CLASSIC, **options)  # type: ignore[arg-type]
    return [(candidate.id, candidate.score) for candidate in match(catalog, request).candidates]


def default(catalog: Catalog, query: str, **options: object) -> list[str]:
    request = MatchRequest(query, min_score=0, **options)  # type: ignore[arg-type]
    return [candidate.id for candidate in match(catalog, request).candidates]


def naive_points(scenario: str, keywords: list[str]) -> float | None:
    """Return the classic score of one scenario, None where it holds no keyword exactly."""
    held = extract_keywords(scenario)
    if not set(held) & set(keywords):
        return None
    points = 0.0
    for keyword in keywords:
        if keyword in held:
            points += 20
        elif any(keyword in other or other in keyword for other in held):
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


@settings(max_examples=50, deadline=None)
@given(library=libraries(), asked=st.lists(st.tuples(queries(), filters()), min_size=3, max_size=6))
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
    assert default(catalog, "retry backoff", max_results=1, categories=("agent",)) == ["agents/z"]
    assert default(catalog, "retry backoff", max_results=1, tags=("api",)) == ["agents/z"]


def test_score_bound_is_met_by_an_equal_score(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("one", "Adding retry"))
    assert classic(catalog, "retry", min_score=20) == [("skills/one", 20)]
    assert classic(catalog, "retry", min_score=20.5) == []


@settings(max_examples=30, deadline=None)
@given(library=libraries(), query=queries(), options=filters())
def test_default_filters_the_unfiltered_answer_before_it_cuts_it(
    library: list[Fragment], query: str, options: dict[str, object]
) -> None:
    everything = MatchRequest(query, max_results=100, min_score=0)
    request = replace(everything, **options)  # type: ignore[arg-type]
    tags = {fragment_uri(fragment.id): set(fragment.tags) for fragment in library}
    with open_in_memory(library) as catalog:
        kept = [
            (c.uri, c.score)
            for c in match(catalog, everything).candidates
            if (not request.categories or c.category in request.categories)
            and set(request.tags) <= tags[c.uri]
            and c.score >= request.min_score
        ]
        found = match(catalog, request)
    assert [(c.uri, c.score) for c in found.candidates] == kept[: request.max_results]
    assert found.total == len(kept)


@settings(max_examples=30, deadline=None)
@given(library=libraries(), query=queries())
def test_default_scores_are_percentages_in_order_and_ties_go_by_uri(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        found = match(catalog, MatchRequest(query, max_results=100, min_score=0)).candidates
    assert all(0 <= candidate.score <= 100 for candidate in found)
    order = [(-candidate.score, candidate.uri) for candidate in found]
    assert order == sorted(order)


def test_default_finds_a_word_in_any_field(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", title="x"),
        make_fragment("b", title="Retry"),
        make_fragment("c", tags=("retry",)),
        make_fragment("d", capabilities=("Retry calls",)),
        make_fragment("e", "Adding retry"),
        make_fragment("f", description="About retry"),
        make_fragment("g", body="Some retry text"),
        make_fragment("h", body="Nothing of that kind"),
    )
    assert set(default(catalog, "retry")) == {f"skills/{name}" for name in ("retry", "b", "c", "d", "e", "f", "g")}


def test_default_ranks_a_title_before_a_mention_in_the_body(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Caching", body="Do not retry here."),
        make_fragment("b", title="Retry", body="Do not cache here."),
        *(make_fragment(f"other{n}", body="Something else entirely.") for n in range(4)),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_default_ranks_more_of_the_query_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry"),
        make_fragment("b", "Adding retry with backoff"),
        *(make_fragment(f"other{n}", "Something else entirely") for n in range(6)),
    )
    assert default(catalog, "retry backoff")[0] == "skills/b"


@pytest.mark.parametrize("query", ["retries", "retry", "retrying", "retried"])
def test_default_finds_inflections(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("a", "Retrying failed calls"), make_fragment("b", "Something else"))
    assert default(catalog, query) == ["skills/a"]


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=15, deadline=None)
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


def test_no_statement_reads_a_whole_table(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("api",)))
    parameters: dict[str, object] = {
        "keywords": '["retry"]',
        "categories": '["skill"]',
        "tags": '["api"]',
        "min_score": 10,
        "limit": 5,
        "match": '"retry"',
        "ideal": 1.0,
    }
    for sql in (CLASSIC_MATCHES, DEFAULT_MATCHES):
        assert full_scans(catalog.db, sql, parameters) == []
    plan = [str(row[3]) for row in catalog.db.execute(f"EXPLAIN QUERY PLAN {DEFAULT_MATCHES}", parameters)]
    assert any("fragment_text VIRTUAL TABLE INDEX" in step and "M" in step.rpartition(":")[2] for step in plan)
