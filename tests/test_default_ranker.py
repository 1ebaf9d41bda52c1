"""The default ranker against a naive reading of its rules, and what users expect of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Oracle
from strategies import (
    filters,
    libraries,
    open_in_memory,
    queries,
    topical_libraries,
    topical_queries,
    with_synonyms,
    with_twins,
)
from support import MakeCatalog, MakeIndex, MakeLibrary, build, make_fragment, markdown

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Tier
from orchestr8_sqlite.ranking import reading, weights
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.wordlists import Synonym


def search(catalog: Catalog, query: str, **options: object) -> LookupResult:
    request = MatchRequest(query, **{"min_score": 0.0, "max_results": 100, **options})  # type: ignore[arg-type]
    return find(catalog, request, quick=False)


def default(catalog: Catalog, query: str, **options: object) -> list[str]:
    return [candidate.id for candidate in search(catalog, query, **options).candidates]


def scores(catalog: Catalog, query: str, **options: object) -> dict[str, float]:
    return {candidate.id: candidate.score for candidate in search(catalog, query, **options).candidates}


def others(count: int = 6) -> list[Fragment]:
    return [make_fragment(f"other{number}", "Something else entirely", title="Unlike") for number in range(count)]


def limits() -> st.SearchStrategy[dict[str, int]]:
    """Return how many of the best fragments are looked at closely, in how many a word may stand, how many count."""
    return st.fixed_dictionaries(
        {
            "RAISED": st.sampled_from([1, 3, 30]),
            "FEEDBACK_SEEDS": st.sampled_from([1, 2, 20]),
            "FEEDBACK_WORDS": st.sampled_from([1, 10]),
            "BODY_FEW": st.sampled_from([1, 10]),
            "LEAST_WORDS": st.sampled_from([1, 3, 24]),
            "MOST_WORDS": st.sampled_from([24, 64]),
            "MOST_HELD": st.sampled_from([1, 2, 5]),
        }
    )


@settings(max_examples=200)
@given(
    library=with_twins(topical_libraries() | libraries()),
    asked=with_synonyms(topical_queries()),
    options=filters() | st.just({"max_results": 100, "min_score": 0.0}),
    terms=st.just(()) | st.lists(topical_queries() | queries(), max_size=3, unique=True).map(tuple),
    limits=limits(),
)
def test_default_answers_what_the_rules_say_of_every_fragment(
    library: list[Fragment],
    asked: tuple[str, tuple[Synonym, ...]],
    options: dict[str, object],
    terms: tuple[str, ...],
    limits: dict[str, int],
) -> None:
    query, lines = asked
    request = MatchRequest(query, terms=terms, **options)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch, open_in_memory(library) as catalog:
        for name, value in limits.items():
            patch.setattr(weights, name, value)
        for name in ("BODY_FEW", "LEAST_WORDS", "MOST_WORDS", "MOST_HELD"):
            patch.setattr(reading, name, limits[name])
        write_synonyms(catalog.db, lines)
        oracle = Oracle(library, lines)
        expected = oracle.answer(request)
        found = find(catalog, request)
    assume(oracle.clear)
    assert [c.uri for c in found.candidates] == [uri for uri, _, _ in expected.rows]
    assert [c.score for c in found.candidates] == pytest.approx([score for _, score, _ in expected.rows], abs=0.011)
    assert [c.scenario for c in found.candidates] == [scenario for _, _, scenario in expected.rows]
    assert [{*c.copies} for c in found.candidates] == [oracle.copies(c.uri, request) for c in found.candidates]
    assert (found.total, found.tier) == (expected.total, Tier.FUZZY if expected.is_wider else Tier.INDEX)


@settings(max_examples=30)
@given(
    library=with_twins(libraries() | topical_libraries()), query=queries() | topical_queries(), listed=st.integers(1, 9)
)
def test_short_list_is_the_beginning_of_a_long_one(library: list[Fragment], query: str, listed: int) -> None:
    with pytest.MonkeyPatch.context() as patch, open_in_memory(library) as catalog:
        patch.setattr(weights, "RAISED", 3)
        long, short = search(catalog, query), search(catalog, query, max_results=listed)
    assert short.candidates == long.candidates[:listed]
    assert short.total == long.total == sum(1 + len(one.copies) for one in long.candidates)


@settings(max_examples=25)
@given(library=with_twins(libraries() | topical_libraries()), query=queries() | topical_queries())
def test_default_scores_are_percentages_in_order_and_equal_ones_go_by_uri(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        found = search(catalog, query).candidates
    assert all(0 < candidate.score < 100 for candidate in found)
    assert list(found) == sorted(found, key=lambda candidate: (-candidate.score, candidate.uri))


def test_equal_scores_go_by_uri(make_catalog: MakeCatalog) -> None:
    names = ("m", "b", "z", "a", "k")
    catalog = make_catalog(*(make_fragment(name, "Adding retry", title="x") for name in names), *others())
    assert default(catalog, "retry") == [f"skills/{name}" for name in "abkmz"]


def test_equal_scores_go_by_uri_where_the_uri_escapes_a_sign(make_library: MakeLibrary, tmp_path: Path) -> None:
    text = markdown("title: Some\nuseWhen: [Adding retry]")
    root = make_library({f"skills/{name}.md": text for name in ("b c", "b!c", "ü", "z", "b~c")})
    with Catalog.open(build(root, tmp_path / "index.db")) as catalog:
        uris = [c.uri.removeprefix("orchestr8://skills/") for c in search(catalog, "retry").candidates]
    assert uris == ["%C3%BC", "b!c", "b%20c", "b~c", "z"]


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


# Bodies


@pytest.mark.parametrize(("size", "holders", "found"), [(20, 10, True), (20, 11, False), (130, 13, True)])
def test_bodies_are_searched_for_words_that_ten_fragments_hold_or_a_tenth_of_all(
    make_catalog: MakeCatalog, size: int, holders: int, found: bool
) -> None:
    catalog = make_catalog(
        make_fragment("a", body="Some retry text"),
        *(make_fragment(f"b{number:03}", title="Retry") for number in range(1, holders)),
        *others(size - holders),
    )
    assert ("skills/a" in default(catalog, "retry")) is found


@pytest.mark.parametrize("word", ["technology", "js", "k8s", "o11y", "Müller", "node", "c++", "再試行", "HTTPServer"])
def test_word_that_stands_in_bodies_alone_is_found(make_catalog: MakeCatalog, word: str) -> None:
    """FTS5 stems some of these otherwise than we do, reads others without accents, and cannot cut the last two."""
    catalog = make_catalog(make_fragment("a", body=f"Some {word}, too."), make_fragment("j", body="J."), *others())
    assert default(catalog, word) == ["skills/a"]


def test_word_that_is_stemmed_otherwise_in_bodies_is_as_common_there(make_catalog: MakeCatalog) -> None:
    """Twelve of thirteen hold it, so bodies are not searched for it."""
    for word in ("js", "k8s", "o11y"):
        bodies = [make_fragment(f"b{number}", body=f"Some {word}") for number in range(11)]
        catalog = make_catalog(make_fragment("a", tags=(word,)), *bodies, make_fragment("z"))
        assert default(catalog, word) == ["skills/a"]


def test_synonym_is_looked_for_in_bodies_too(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", body="Some backoff text"),
        make_fragment("b", title="Backoff"),
        *others(8),
        synonyms=(Synonym((frozenset({"retri"}),), ("backoff",), "synonym"),),
    )
    assert default(catalog, "backoff") == ["skills/b", "skills/a"]
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_default_ranks_a_title_before_a_mention_in_the_body(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Caching", body="Do not retry here."),
        make_fragment("b", title="Retry", body="Do not cache here."),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_body_adds_the_same_however_often_it_holds_the_word(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="x", body="Do not retry here."),
        make_fragment("b", title="x", body="Retry once, retry twice, retry again."),
        make_fragment("c", "Retry", title="x", body="Retry."),
        make_fragment("d", "Retry", title="x"),
        *others(),
    )
    found = scores(catalog, "retry")
    assert found["skills/c"] > found["skills/d"]
    assert found["skills/a"] == found["skills/b"]


# What words, and other forms of them, count


def test_word_among_few_counts_more_than_among_many(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Retry, timeout, circuit, bulkhead, shedding"),
        make_fragment("b", title="Retry"),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_default_ranks_more_of_the_query_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry"), make_fragment("b", "Adding retry with backoff"), *others()
    )
    assert default(catalog, "retry backoff")[0] == "skills/b"


@pytest.mark.parametrize("query", ["retries", "retry", "retrying", "retried"])
def test_default_finds_inflections(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("a", "Retrying failed calls"), make_fragment("b", "Something else"))
    assert default(catalog, query) == ["skills/a"]


def test_everyday_word_earns_less_beside_a_topic_and_all_of_its_rarity_alone(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Month", title="x"), make_fragment("b", "Retry", title="x"), *others())
    both = scores(catalog, "month retry")
    assert both["skills/b"] > both["skills/a"]
    assert scores(catalog, "month") == {"skills/a": scores(catalog, "retry")["skills/b"]}


def test_only_the_best_of_a_words_forms_counts_and_the_others_add_to_the_focus(make_index: MakeIndex) -> None:
    fragments = (
        make_fragment("a", title="Retry cache"),
        make_fragment("b", title="Retry backoff"),
        make_fragment("c", title="Backoff cache"),
        *others(),
    )
    other_name = Synonym((frozenset({"retri"}),), ("backoff",), "synonym")
    catalog = make_index(*fragments, synonyms=(other_name,))
    found = scores(catalog, "retry")
    assert found["skills/b"] > found["skills/a"] > found["skills/c"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "FOCUS", 0.0)
        found = scores(catalog, "retry")
    assert found["skills/a"] == found["skills/b"] > found["skills/c"]


def test_fragment_that_says_less_beside_what_is_asked_comes_first(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", title="x", capabilities=("Retry calls", "Charts of sales", "Letters to banks")),
        make_fragment("b", title="x", capabilities=("Retry calls",), tags=("invoices",)),
        *others(),
    )
    alone = scores(catalog, "retry")
    assert alone["skills/b"] > alone["skills/a"]


def test_of_a_long_request_the_24_rarest_words_count(make_catalog: MakeCatalog) -> None:
    """And one more, as long as all together are held by at most five times the library's fragments."""
    common = [f"common{letter}" for letter in "abcdefgh"]
    rare = [f"rare{first}{second}" for first in "abc" for second in "abcdefgh"]
    filled = [make_fragment(f"c{number}", " ".join(rare[1:])) for number in range(2)]
    catalog = make_catalog(
        make_fragment("all", " ".join(rare)),
        *(make_fragment(f"b{number}", " ".join(common)) for number in range(4)),
        *filled,
    )  # 24 words are held 1 + 23 * 3 = 70 times, twice what 7 fragments allow
    assert default(catalog, " ".join([*common, *rare])) == ["skills/all", "skills/c0", "skills/c1"]
    assert len(default(catalog, " ".join([*common, *rare[:-1]]))) == 7


def test_of_a_long_request_more_words_count_that_few_fragments_hold(make_catalog: MakeCatalog) -> None:
    words = [f"word{first}{second}" for first in "abcdefgh" for second in "abcdefghi"]
    catalog = make_catalog(*(make_fragment(f"f{number:02}", word) for number, word in enumerate(words, start=10)))
    assert len(default(catalog, " ".join(words))) == 64


# Names, and what the best have in common


def test_fragment_whose_whole_name_is_asked_for_comes_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", "Calls that fail"),
        make_fragment("retry-storms-in-clusters", "Calls that fail"),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/retry", "skills/retry-storms-in-clusters"]


@pytest.mark.parametrize("name", ["retry-storms", "retry_storms"])
def test_name_is_read_in_words(make_catalog: MakeCatalog, name: str) -> None:
    catalog = make_catalog(make_fragment(name, title="x"), *others())
    spaced = make_catalog(make_fragment("retry storms", title="x"), *others())
    assert list(scores(catalog, "storms retry").values()) == list(scores(spaced, "storms retry").values())


def test_only_the_best_thirty_and_who_earns_as_much_gain_by_their_names(make_catalog: MakeCatalog) -> None:
    """Of 31 that earn the same all are looked at; where 30 earn more than the last, it gains nothing."""
    alike = [make_fragment(f"retry-{number:02}", title="x") for number in range(31)]
    assert len(set(scores(make_catalog(*alike, *others()), "retry").values())) == 1
    found = make_catalog(*(replace(one, tags=("retry",)) for one in alike[:30]), alike[30], *others())
    result = search(found, "retry", explain=True)
    hows = {c.id: {part.how for part in result.parts[c.fragment_id]} for c in result.candidates}
    assert [id_ for id_, how in hows.items() if "name" not in how] == ["skills/retry-30"]


def test_fragment_gains_by_what_the_best_ones_have_in_common(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", title="x", tags=("resilience",)),
        make_fragment("b", "Adding retry", title="x", tags=("resilience",)),
        make_fragment("c", "Adding retry", title="x", tags=("cooking",)),
        *others(),
    )
    found = scores(catalog, "retry")
    assert found["skills/a"] == found["skills/b"] > found["skills/c"]


def test_word_of_one_fragment_alone_is_not_learnt(make_catalog: MakeCatalog) -> None:
    tagged = [make_fragment(name, "Adding retry", title="x", tags=(tag,)) for name, tag in ("ak", "bl", "cm")]
    catalog = make_catalog(*tagged, *(make_fragment(f"y{n}", title=f"Only{n}") for n in range(6)))
    assert len(set(scores(catalog, "retry").values())) == 1


@pytest.mark.parametrize(("strong", "learnt"), [(20, False), (12, True)])
def test_only_the_best_twenty_are_asked_for_what_they_have_in_common(
    make_catalog: MakeCatalog, strong: int, learnt: bool
) -> None:
    first = [make_fragment(f"a{n:02}", "Adding retry", title=f"Retry {n:02}") for n in range(strong)]
    last = [make_fragment(f"b{n}", "Adding retry", title=f"Some{n}", tags=("kiwi",)) for n in range(8)]
    catalog = make_catalog(*first, *last, make_fragment("c", "Adding retry", title="Some9", tags=("plum",)))
    found = scores(catalog, "retry")
    assert (found["skills/b0"] > found["skills/c"]) is learnt


@pytest.mark.parametrize(("holders", "learnt"), [(1, False), (3, True)])
def test_word_is_learnt_where_a_tenth_of_the_votes_is_for_it(
    make_catalog: MakeCatalog, holders: int, learnt: bool
) -> None:
    found = [make_fragment(f"a{n:02}", "Adding retry", title=f"Some{n}", tags=(f"own{n}",)) for n in range(20)]
    tagged = [replace(fragment, tags=("kiwi",)) for fragment in found[:holders]]
    elsewhere = make_fragment("z", "Something else", tags=("kiwi",))
    points = scores(make_catalog(*tagged, *found[holders:], elsewhere), "retry")
    assert (points["skills/a00"] > points["skills/a19"]) is learnt


# Filters, limits, totals


def test_filters_apply_before_the_limit(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry with backoff"),
        make_fragment("z", "Adding retry", category="agent", tags=("api",)),
    )
    assert default(catalog, "retry backoff", max_results=1, categories=("agent",)) == ["agents/z"]
    assert default(catalog, "retry backoff", max_results=1, tags=("api",)) == ["agents/z"]


def test_filter_finds_what_a_hundred_better_ones_hide(make_catalog: MakeCatalog) -> None:
    better = [make_fragment(f"s{number:03}", title="Retry") for number in range(110)]
    catalog = make_catalog(*better, make_fragment("z", "Adding a retry to it", category="agent", title="Many"))
    assert "agents/z" not in default(catalog, "retry")
    assert default(catalog, "retry", categories=("agent",)) == ["agents/z"]


def test_what_a_filter_shuts_out_teaches_nothing(make_catalog: MakeCatalog) -> None:
    tagged = [make_fragment(f"s{number}", "Retry", title=f"Own{number}", tags=("resilience",)) for number in range(3)]
    agents = [
        make_fragment("a", "Retry", title="x", tags=("resilience",), category="agent"),
        make_fragment("b", "Retry", title="y", tags=("kitchen",), category="agent"),
        make_fragment("c", "Tea", title="z", tags=("kitchen",), category="agent"),
    ]
    catalog = make_catalog(*tagged, *agents, *others(9))
    found, filtered = scores(catalog, "retry"), scores(catalog, "retry", categories=("agent",))
    assert found["agents/a"] > found["agents/b"]
    assert filtered["agents/b"] > filtered["agents/a"]  # half of the votes each, and fewer are about kitchens


def test_total_counts_what_the_limit_leaves_out(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*(make_fragment(f"s{number:03}", title="Retry") for number in range(130)), *others(9))
    found = search(catalog, "retry", max_results=5)
    assert ([c.id for c in found.candidates], found.total) == ([f"skills/s00{n}" for n in range(5)], 130)


def test_total_is_exact_however_many_match(make_index: MakeIndex) -> None:
    catalog = make_index(
        *(make_fragment(f"s{number}", title="Retry") for number in range(1005)),
        *(make_fragment(f"a{number}", title="Backoff", category="agent") for number in range(999)),
        make_fragment("z", title="Retry", category="agent", tags=("api",)),
    )
    for query, options, total in [
        ("retry", {}, 1006),
        ("backoff", {}, 999),
        ("retry backoff", {"categories": ("agent",)}, 1000),
        ("backoff", {"categories": ("agent",)}, 999),
        ("retry backoff", {"tags": ("api",)}, 1),
    ]:
        assert search(catalog, query, **{"max_results": 15, **options}).total == total


def test_scenario_that_holds_most_of_the_request_is_named(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding calls", "Adding backoff to retries", "Backoff"), *others())
    assert search(catalog, "retry backoff").candidates[0].scenario == "Adding backoff to retries"


def test_long_request_finds_what_its_rare_words_name(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("pgbouncer", "Sharing database connections", tags=("postgresql",)),
        *(make_fragment(f"other{n}", "Calling a service from the app when users wait") for n in range(9)),
    )
    query = (
        "hello, since yesterday evening our app has become slow whenever many users come, the service log is full of "
        "errors from postgresql that say there are too many connections, could somebody look into what is going on"
    )
    assert default(catalog, query)[0] == "skills/pgbouncer"
