"""Tier 3 against the worked example of the design, a full scan, and a plain check of one edit."""

import sqlite3
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import filters, full_scans, libraries, open_in_memory, queries, repaired
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers import field_points
from orchestr8_sqlite.tiers import fuzzy as fuzzy_module
from orchestr8_sqlite.tiers.field_points import FIRST_PIECE, Placed
from orchestr8_sqlite.tiers.fuzzy import BEST_SCENARIOS, EVIDENCE, match_fuzzy
from orchestr8_sqlite.tiers.typos import KNOWN_WORDS
from orchestr8_sqlite.uris import fragment_uri


def fuzzy(catalog: Catalog, query: str, **options: object) -> list[tuple[str, float]]:
    request = MatchRequest(query, **options)  # type: ignore[arg-type]
    found = match_fuzzy(catalog.db, request, extract_keywords(query))
    return [(candidate.id, candidate.score) for candidate in found.candidates]


def naive_score(fragment: Fragment, request: MatchRequest) -> float:
    """Return the score of one fragment by the rules of the design, 0 where it has no evidence or is disqualified."""
    if request.categories and fragment.category not in request.categories:
        return 0
    if not set(request.tags) <= set(fragment.tags):
        return 0
    points = 0
    for texts, worth in ((fragment.tags, 10), (fragment.capabilities, 8), (fragment.use_when, 5)):
        words = extract_keywords("\n".join(texts))
        points += sum(worth for keyword in extract_keywords(request.query) if any(keyword in word for word in words))
    if points == 0:
        return 0
    points += 15 if fragment.category in request.categories else 0
    return points + (5 if fragment.token_estimate < 1000 else 0)


def naive_fuzzy(fragments: list[Fragment], request: MatchRequest) -> list[tuple[str, float]]:
    scored = [(fragment_uri(fragment.id), naive_score(fragment, request)) for fragment in fragments]
    kept = [row for row in scored if row[1] > 0 and row[1] >= request.min_score]
    return sorted(kept, key=lambda row: (-row[1], row[0]))


def is_one_edit(first: str, second: str) -> bool:
    """Tell whether one letter more, less, other, or two neighbours swapped make *second* of *first*."""
    if len(first) > len(second):
        first, second = second, first
    if len(second) - len(first) == 1:
        return any(second[:at] + second[at + 1 :] == first for at in range(len(second)))
    if len(first) != len(second):
        return False
    differing = [at for at in range(len(first)) if first[at] != second[at]]
    if len(differing) == 2:
        left, right = differing
        return right == left + 1 and (first[left], first[right]) == (second[right], second[left])
    return len(differing) == 1


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


@pytest.mark.parametrize("arrays", [False, True])
@settings(max_examples=50, deadline=None)
@given(
    library=libraries(),
    asked=st.lists(st.tuples(queries(), filters()), min_size=3, max_size=6),
    piece=st.sampled_from([1, 2, FIRST_PIECE]),
)
def test_fuzzy_ranks_what_a_full_scan_ranks(
    arrays: bool, library: list[Fragment], asked: list[tuple[str, dict[str, object]]], piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, open_in_memory(library) as catalog:
        if arrays:
            pytest.importorskip("numpy")
            patch.setattr(field_points, "LARGE", 0)
        patch.setattr(field_points, "FIRST_PIECE", piece)
        patch.setattr(field_points, "MOST_JOINED", piece)
        for query, options in asked:
            filtered = MatchRequest(query, **options)  # type: ignore[arg-type]
            for request in (filtered, filtered._replace(categories=(), tags=())):
                found = match_fuzzy(catalog.db, request, extract_keywords(query))
                expected = naive_fuzzy(library, request)
                assert [(c.uri, c.score) for c in found.candidates] == expected[: request.max_results]
                assert found.total == len(expected)


@pytest.mark.parametrize("arrays", [False, True])
def test_of_many_alike_no_more_are_looked_at_than_settle_the_list(
    arrays: bool, make_catalog: MakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    if arrays:
        pytest.importorskip("numpy")
        monkeypatch.setattr(field_points, "LARGE", 0)
    monkeypatch.setattr(field_points, "FIRST_PIECE", 8)
    long = [make_fragment(f"a{number:03}", tags=("cache",), token_estimate=1000) for number in range(12)]
    short = [make_fragment(f"b{number:03}", tags=("cache",), token_estimate=999) for number in range(300)]
    catalog = make_catalog(*reversed([*long, *short]))
    looked_at: list[int] = []
    weigh = fuzzy_module._weigh

    def weigh_and_note(
        db: sqlite3.Connection, request: MatchRequest, piece: Sequence[Placed], bonus: int
    ) -> list[Placed]:
        looked_at.append(len(piece))
        return weigh(db, request, piece, bonus)

    monkeypatch.setattr(fuzzy_module, "_weigh", weigh_and_note)
    found = match_fuzzy(catalog.db, MatchRequest("cache", max_results=5), ["cache"])
    assert [candidate.id for candidate in found.candidates] == [f"skills/b{number:03}" for number in range(5)]
    assert found.total == 312
    assert looked_at == [8, 16]


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
    found = match_fuzzy(catalog.db, MatchRequest("retry backoff"), ["retry", "backoff"])
    assert [candidate.scenario for candidate in found.candidates] == ["Adding retry with backoff"]


def test_fuzzy_ties_go_by_uri_not_by_id(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("b c", tags=("cache",)), make_fragment("b!c", tags=("cache",)))
    assert [uri for uri, _ in fuzzy(catalog, "cache")] == ["skills/b!c", "skills/b%20c"]


def test_evidence_is_found_without_reading_a_whole_table(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("api",)))
    filtered: dict[str, object] = {
        "keyword": "retry",
        "categories": '["skill"]',
        "tags": '["api"]',
        "agent_skills": True,
    }
    assert full_scans(catalog.db, EVIDENCE, filtered) == []
    assert full_scans(catalog.db, BEST_SCENARIOS, {"ids": "[1]"}) == []
    assert full_scans(catalog.db, KNOWN_WORDS, {"words": '["retry"]'}) == []


def is_slip(word: str, known: str) -> bool:
    """Return whether *word* is taken for *known*: one edit away.

    Below six letters no letter is taken for another, and the first stays, unless it is swapped with the second.
    """
    other_letters = len(word) == len(known) and Counter(word) != Counter(known)
    kept = word[0] == known[0] or len(word) == len(known)
    return is_one_edit(word, known) and (len(word) >= 6 or (kept and not other_letters))


WORDS = st.text(alphabet="kqxz", min_size=2, max_size=7)


@settings(max_examples=40, deadline=None)
@given(
    vocabulary=st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=4),
    typed=st.lists(WORDS, min_size=5),
)
def test_repair_finds_the_likeliest_word_one_edit_away(vocabulary: list[list[str]], typed: list[str]) -> None:
    used = Counter(word for words in vocabulary for word in set(words))
    unknown = [word for word in typed if word not in used]
    expected = {
        word: min(near, key=lambda known, word=word: (known[0] != word[0], -used[known], known))  # type: ignore[misc]
        for word in unknown
        if len(word) >= 4 and (near := [known for known in used if is_slip(word, known)])
    }
    with open_in_memory([make_fragment(str(n), " ".join(words)) for n, words in enumerate(vocabulary)]) as catalog:
        assert repaired(catalog, unknown) == expected


@pytest.mark.parametrize("typo", ["kuberntes", "kuberneetes", "kubernites", "kubenretes"])
def test_repair_knows_a_letter_less_more_other_or_swapped(make_catalog: MakeCatalog, typo: str) -> None:
    catalog = make_catalog(make_fragment("a", "Deploying to Kubernetes"))
    assert repaired(catalog, [typo]) == {typo: "kubernetes"}


def test_repair_leaves_words_below_four_letters_and_two_edits_alone(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Calling an API over gRPC"))
    assert repaired(catalog, ["apa", "ap", "ggrrpc"]) == {}
