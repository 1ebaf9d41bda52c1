"""Tier 3 of the classic ranker against the design and a full scan, and the repair of typos against a plain check."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import is_one_edit, likeliest
from strategies import filters, libraries, open_in_memory, queries, repaired, topical_libraries, topical_queries
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.model.uris import fragment_uri
from orchestr8_sqlite.ranking import classic, typos
from orchestr8_sqlite.ranking.classic import match_fields
from orchestr8_sqlite.text.keywords import extract_keywords


def fuzzy(catalog: Catalog, query: str, **options: object) -> list[tuple[str, float]]:
    request = MatchRequest(query, **options)  # type: ignore[arg-type]
    found = match_fields(catalog.db, request, extract_keywords(query))
    return [(candidate.id, candidate.score) for candidate in found.candidates]


def naive_score(fragment: Fragment, request: MatchRequest) -> float:
    """Return the score of one fragment by the rules of the design, 0 where it has no evidence or is disqualified.

    Among more than eight words those of two letters say nothing.
    """
    asked = extract_keywords(request.query)
    told = [keyword for keyword in asked if len(keyword) > 2 or len(asked) <= 8]
    if request.categories and fragment.category not in request.categories:
        return 0
    if not set(request.tags) <= set(fragment.tags):
        return 0
    points = 0
    for texts, worth in ((fragment.tags, 10), (fragment.capabilities, 8), (fragment.use_when, 5)):
        words = extract_keywords("\n".join(texts))
        points += sum(worth for keyword in told if any(keyword in word for word in words))
    if points == 0:
        return 0
    points += 15 if fragment.category in request.categories else 0
    return points + (5 if fragment.token_estimate < 1000 else 0)


def naive_fuzzy(fragments: list[Fragment], request: MatchRequest) -> list[tuple[str, float]]:
    scored = [(fragment_uri(fragment.id), naive_score(fragment, request)) for fragment in fragments]
    kept = [row for row in scored if row[1] > 0 and row[1] >= request.min_score]
    return sorted(kept, key=lambda row: (-row[1], row[0]))


def test_worked_example_of_the_design_scores_56_by_its_rules(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment(
            "typescript-async-patterns",
            "Building async TypeScript applications",
            "Need error handling for promises",
            tags=("typescript", "async", "patterns", "promises"),
            capabilities=("Async/await error handling", "Promise composition patterns"),
            token_estimate=800,
        )
    )
    tags, capabilities, scenarios, short = 10 + 10, 8 + 8, 5 + 5 + 5, 5
    assert tags + capabilities + scenarios + short == 56
    assert fuzzy(catalog, "typescript async error") == [("skills/typescript-async-patterns", 56)]


@settings(max_examples=80)
@given(
    library=libraries() | topical_libraries(),
    asked=st.lists(
        st.tuples(
            queries() | topical_queries() | st.sampled_from(["go", "行 oc", "ti er r", "試行 c++"]),
            filters(),
        ),
        min_size=3,
        max_size=6,
    ),
)
def test_fuzzy_ranks_what_a_full_scan_ranks(
    library: list[Fragment], asked: list[tuple[str, dict[str, object]]]
) -> None:
    with open_in_memory(library) as catalog:
        for query, options in asked:
            filtered = MatchRequest(query, **options)  # type: ignore[arg-type]
            for request in (filtered, filtered._replace(categories=(), tags=())):
                found = match_fields(catalog.db, request, extract_keywords(query))
                expected = naive_fuzzy(library, request)
                assert [(c.uri, c.score) for c in found.candidates] == expected[: request.max_results]
                assert found.total == len(expected)


def test_of_words_that_stand_inside_very_many_only_the_rarest_counts(
    make_catalog: MakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classic, "MOST_ROWS", 3)
    many = [make_fragment(f"m{number}", tags=("caches",), token_estimate=1000) for number in range(5)]
    few = [make_fragment(f"f{number}", tags=("retries",), token_estimate=1000) for number in range(4)]
    catalog = make_catalog(*many, *few, make_fragment("x", tags=("timeouts",), token_estimate=1000))
    assert {uri for uri, _ in fuzzy(catalog, "cache retr")} == {f"skills/f{number}" for number in range(4)}
    assert [uri for uri, _ in fuzzy(catalog, "cache retr timeout")] == ["skills/x"]
    monkeypatch.setattr(classic, "MOST_ROWS", 5)
    assert len(fuzzy(catalog, "cache retr timeout")) == 5


def test_each_field_counts_once_per_keyword(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Cache reads", "Cache writes", tags=("cache", "cache-aside"), token_estimate=1000)
    )
    assert fuzzy(catalog, "cache") == [("skills/a", 10 + 5)]


@pytest.mark.parametrize(("tokens", "points"), [(999, 15), (1000, 10)])
def test_fewer_than_1000_tokens_earn_5_points(make_catalog: MakeCatalog, tokens: int, points: float) -> None:
    catalog = make_catalog(make_fragment("a", tags=("cache",), token_estimate=tokens))
    assert fuzzy(catalog, "cache") == [("skills/a", points)]


def test_named_category_earns_15_points_and_shuts_others_out(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", tags=("cache",), token_estimate=1000),
        make_fragment("b", tags=("cache",), token_estimate=1000, category="agent"),
    )
    assert fuzzy(catalog, "cache", categories=("skill",)) == [("skills/a", 25)]


def test_fragment_without_a_required_tag_is_disqualified(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", tags=("cache", "redis"), token_estimate=1000),
        make_fragment("b", tags=("cache", "redis", "python"), token_estimate=1000),
    )
    assert fuzzy(catalog, "cache", tags=("redis", "python")) == [("skills/b", 10)]


def test_bonuses_alone_never_make_a_match(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("cache",), token_estimate=10))
    assert fuzzy(catalog, "zzyzx", categories=("skill",), tags=("cache",), min_score=0) == []


def test_keyword_inside_a_longer_word_matches_but_not_the_other_way_round(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("long", tags=("microservices",)), make_fragment("short", tags=("micro",)))
    assert [found for found, _ in fuzzy(catalog, "service")] == ["skills/long"]
    assert [found for found, _ in fuzzy(catalog, "microservices")] == ["skills/long"]


def test_scenario_that_holds_most_keywords_is_named(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", "Adding retry with backoff", tags=("retry",)), make_fragment("b")
    )
    found = match_fields(catalog.db, MatchRequest("retry backoff"), ["retry", "backoff"])
    assert [candidate.scenario for candidate in found.candidates] == ["Adding retry with backoff"]


def test_fuzzy_ties_go_by_uri_not_by_id(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("b c", tags=("cache",)), make_fragment("b!c", tags=("cache",)))
    assert [uri for uri, _ in fuzzy(catalog, "cache")] == ["skills/b!c", "skills/b%20c"]


# One edit

LETTERS = st.text(alphabet="kqxz", min_size=3, max_size=7)
FAR = st.text(alphabet="abé再k8", min_size=6, max_size=12)
"""Longer words, in letters of several scripts."""


@settings(max_examples=200)
@given(
    vocabulary=st.lists(st.lists(LETTERS | FAR, min_size=1, max_size=8), min_size=1, max_size=4),
    typed=st.lists(LETTERS | FAR, min_size=5),
    edits=st.lists(
        st.tuples(st.integers(0, 99), st.integers(0, 12), st.sampled_from(["less", "more", "other", "swap"]))
    ),
)
def test_repair_finds_the_likeliest_word_one_edit_away(
    vocabulary: list[list[str]], typed: list[str], edits: list[tuple[int, int, str]]
) -> None:
    fragments = [make_fragment(str(number), " ".join(words), title="") for number, words in enumerate(vocabulary)]
    used = Counter(keyword for words in vocabulary for keyword in extract_keywords(" ".join(words)))
    known = sorted(used)
    slips = [edited(known[word % len(known)], place, edit) for word, place, edit in edits if known]
    unknown = [word for word in dict.fromkeys([*typed, *slips]) if word and word not in used]
    expected = {word: text for word in unknown if (text := likeliest(word, known, used))}
    with open_in_memory(fragments) as catalog:
        assert repaired(catalog, unknown) == expected


def edited(word: str, place: int, edit: str) -> str:
    """Return *word* with one slip at a place of it."""
    at = place % len(word)
    return {
        "less": word[:at] + word[at + 1 :],
        "more": f"{word[:at]}q{word[at:]}",
        "other": f"{word[:at]}q{word[at + 1 :]}",
        "swap": word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
    }[edit]


@given(LETTERS, LETTERS)
def test_one_edit_is_one_letter_less_more_or_other_or_two_swapped(word: str, other: str) -> None:
    assert typos.is_one_edit(word, other) == is_one_edit(word, other)


@pytest.mark.parametrize("typo", ["kuberntes", "kuberneetes", "kubernites", "kubenretes"])
def test_repair_knows_a_letter_less_more_other_or_swapped(make_catalog: MakeCatalog, typo: str) -> None:
    catalog = make_catalog(make_fragment("a", "Deploying to Kubernetes"))
    assert repaired(catalog, [typo]) == {typo: "kubernetes"}


def test_repair_leaves_words_below_four_letters_and_two_edits_alone(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Calling an API over gRPC"))
    assert repaired(catalog, ["apa", "ap", "ggrrpc"]) == {}
