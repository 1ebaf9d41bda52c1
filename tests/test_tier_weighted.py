"""The default ranker against a naive reading of its rules, and what users expect of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Oracle, stemmed
from strategies import (
    TOPICS,
    filters,
    full_scans,
    libraries,
    open_in_memory,
    queries,
    topical_libraries,
    topical_queries,
    with_twins,
)
from support import (
    MakeCatalog,
    MakeIndex,
    MakeLibrary,
    blocks_of,
    build,
    make_fragment,
    markdown,
    needs_logarithm,
)

from orchestr8_sqlite.catalog import TAGS_BY_USE, Catalog
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import fragment_texts, hold, read_typical_lengths, weigh
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import Candidate, MatchRequest
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import Form, Reading, read_parts, read_request
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.holders import AlteredHolders, Holders
from orchestr8_sqlite.tiers.weighted import list_best, rank
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.wordlists import Synonym


def match_weighted(request: MatchRequest, reading: Reading, holders: Holders) -> Found:
    return list_best(rank(request, reading, holders), request, reading, holders)


def match(catalog: Catalog, request: MatchRequest, reading: Reading | None = None) -> Found:
    read = reading or read_request(catalog.db, extract_keywords(request.query))
    return match_weighted(request, read, Holders(catalog.db))


def default(catalog: Catalog, query: str, **options: object) -> list[str]:
    request = MatchRequest(query, min_score=0, **options)  # type: ignore[arg-type]
    return [candidate.id for candidate in match(catalog, request).candidates]


def scores(catalog: Catalog, query: str, **options: object) -> dict[str, float]:
    request = MatchRequest(query, **{"min_score": 0, "max_results": 100, **options})  # type: ignore[arg-type]
    return {candidate.id: candidate.score for candidate in match(catalog, request).candidates}


def others(count: int = 6) -> list[Fragment]:
    return [make_fragment(f"other{number}", "Something else entirely", title="Unlike") for number in range(count)]


def with_forms(catalog: Catalog, reading: Reading, drawn: Sequence[tuple[int, str, str]]) -> Reading:
    """Return *reading* with (word, text, how) as further forms, as far as the index knows the text."""
    forms = []
    for number, text, how in drawn:
        row = catalog.db.execute("SELECT fragment_count FROM term WHERE stem = ?", (stemmed(text),)).fetchone()
        if row and reading.words:
            word = reading.words[number % len(reading.words)]
            rarity = math.log(1 + (reading.size - row[0] + 0.5) / (row[0] + 0.5))
            forms.append(Form(word, text, how, stemmed(text), row[0], rarity, weights.FACTORS[how]))
    return reading._replace(forms=(*reading.forms, *forms))


def drawn_forms() -> st.SearchStrategy[list[tuple[int, str, str]]]:
    """Return (number of a word, text, how) of forms that a request may be looked for by besides."""
    hows = st.sampled_from(sorted(weights.FACTORS))
    return st.lists(st.tuples(st.integers(0, 7), st.sampled_from(TOPICS), hows), max_size=4)


def stand_ins(reading: Reading) -> list[tuple[str, str, str]]:
    """Return (stem of the word, stem of the form, how) of every form but the words themselves."""
    return [(form.word.stem, stemmed(form.text), form.how) for form in reading.forms if form.how != "exact"]


@settings(max_examples=40, deadline=None)
@given(
    library=with_twins(topical_libraries() | libraries()),
    query=topical_queries(),
    drawn=drawn_forms(),
    block=st.sampled_from([2, 3, 8, 1 << 16]),
)
def test_default_scores_what_the_rules_say_of_every_fragment(
    library: list[Fragment], query: str, drawn: list[tuple[int, str, str]], block: int
) -> None:
    """Fragments are numbered from 1 and packed in blocks; typical lengths are those of the first block."""
    request = MatchRequest(query, max_results=100, min_score=0)
    with blocks_of(block), open_in_memory(library) as catalog:
        reading = with_forms(catalog, read_request(catalog.db, extract_keywords(query)), drawn)
        found = match(catalog, request, reading)
    oracle = Oracle(library, measured=block - 1)
    expected = oracle.scores(query, stand_ins(reading))
    assume(oracle.clear)
    assert {c.uri: c.score for c in found.candidates} == pytest.approx(expected, abs=0.011)
    assert found.total == len(expected)


@settings(max_examples=25, deadline=None)
@given(
    library=with_twins(topical_libraries() | libraries()),
    altered=topical_libraries(most=7) | libraries(),
    place=st.integers(0, 30),
    query=topical_queries(),
    drawn=drawn_forms(),
    block=st.sampled_from([3, 1 << 16]),
)
def test_altered_fragment_scores_by_what_it_is_said_to_hold_and_counts_as_before(
    library: list[Fragment],
    altered: list[Fragment],
    place: int,
    query: str,
    drawn: list[tuple[int, str, str]],
    block: int,
) -> None:
    at, instead = place % len(library), altered[0]
    request = MatchRequest(query, max_results=100, min_score=0)
    with blocks_of(block), open_in_memory(library) as catalog:
        reading = with_forms(catalog, read_request(catalog.db, extract_keywords(query)), drawn)
        held = hold(fragment_texts(instead))
        weighed = weigh(held, read_typical_lengths(catalog.meta))
        holders = AlteredHolders(catalog.db, at + 1, weighed, held.name, held.body)
        found = match_weighted(request, reading, holders)
    oracle = Oracle(library, measured=block - 1)
    oracle.alter(at, instead)
    expected = oracle.scores(query, stand_ins(reading))
    assume(oracle.clear)
    assert {c.uri: c.score for c in found.candidates} == pytest.approx(expected, abs=0.011)
    assert found.total == len(expected)


HOLDING = {
    "nothing": make_fragment("m", title="x"),
    "once in the body": make_fragment("m", title="x", body="Retry it."),
    "twice in the body": make_fragment("m", title="x", body="Retry it, retry."),
    "in the title": make_fragment("m", title="Retry", body="Retry it."),
    "in the name": make_fragment("retry-calls", title="x"),
    "as the name": make_fragment("retry", title="x"),
}
"""What a fragment may hold of the word retry."""


@pytest.mark.parametrize("after", HOLDING)
@pytest.mark.parametrize("before", HOLDING)
def test_altered_fragment_is_found_by_what_it_holds_now_alone(make_index: MakeIndex, before: str, after: str) -> None:
    first, last = make_fragment("a", title="Retry"), make_fragment("z", title="x", body="Retry it.")
    library = [first, HOLDING[before], last, *others(9)]
    catalog = make_index(*library)
    held = hold(fragment_texts(HOLDING[after]))
    weighed = weigh(held, read_typical_lengths(catalog.meta))
    holders = AlteredHolders(catalog.db, 2, weighed, held.name, held.body)
    found = match_weighted(MatchRequest("retry", min_score=0), read_request(catalog.db, ["retry"]), holders)
    oracle = Oracle(library)
    oracle.alter(1, HOLDING[after])
    assert {c.uri: c.score for c in found.candidates} == pytest.approx(oracle.scores("retry", []), abs=0.011)
    assert len(found.candidates) == (2 if after == "nothing" else 3)


def rows_of(candidates: Sequence[Candidate], total: int) -> list[tuple[object, ...]]:
    """Return what a statement that finds *candidates* has as its rows."""
    return [
        (c.fragment_id, c.uri, c.category, c.name, c.title, c.token_estimate, c.score, c.scenario, total)
        for c in candidates
    ]


@needs_logarithm
@settings(max_examples=50, deadline=None)
@given(
    library=with_twins(topical_libraries() | libraries()),
    query=queries() | topical_queries(),
    drawn=drawn_forms(),
    options=filters() | st.just({"max_results": 100, "min_score": 0.0}),
)
def test_statement_of_an_answer_has_its_rows(
    library: list[Fragment], query: str, drawn: list[tuple[int, str, str]], options: dict[str, object]
) -> None:
    oracle = Oracle(library)
    with open_in_memory(library) as catalog:
        reading = with_forms(catalog, read_request(catalog.db, extract_keywords(query)), drawn)
        oracle.scores(query, stand_ins(reading))
        assume(oracle.clear)
        found = match(catalog, MatchRequest(query, **options), reading)  # type: ignore[arg-type]
        rows = catalog.db.execute(found.statement.sql, found.statement.parameters).fetchall()
    assert rows == rows_of(found.candidates, found.total)


@needs_logarithm
def test_statement_of_an_answer_of_tier_3_has_its_rows(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("pg", "PostgreSQL vacuum"),
        make_fragment("perf", "Postgresql performance", category="agent", tags=("api",)),
        *others(),
        synonyms=(Synonym((frozenset({"slow"}),), ("perform", "vacuum"), "related"),),
    )
    request = MatchRequest("slow postgres", min_score=0)
    reading = read_parts(catalog.db, read_request(catalog.db, extract_keywords(request.query)))
    assert {form.how for form in reading.forms} == {"related", "part"}
    for asked in (request, request._replace(categories=("agent",)), request._replace(tags=("api",))):
        found = match(catalog, asked, reading)
        rows = catalog.db.execute(found.statement.sql, found.statement.parameters).fetchall()
        assert rows == rows_of(found.candidates, found.total) != []


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries(), query=queries() | topical_queries(), options=filters())
def test_default_filters_the_unfiltered_answer_before_it_cuts_it(
    library: list[Fragment], query: str, options: dict[str, object]
) -> None:
    everything = MatchRequest(query, max_results=100, min_score=0)
    request = everything._replace(**options)  # type: ignore[arg-type]
    tags = {fragment_uri(fragment.id): set(fragment.tags) for fragment in library}
    with open_in_memory(library) as catalog:
        unfiltered = match(catalog, everything).candidates
        assume(all(abs(candidate.score - request.min_score) > 0.01 for candidate in unfiltered))
        kept = [
            (c.uri, c.score)
            for c in unfiltered
            if (not request.categories or c.category in request.categories)
            and set(request.tags) <= tags[c.uri]
            and c.score >= request.min_score
        ]
        found = match(catalog, request)
    assert [(c.uri, c.score) for c in found.candidates] == kept[: request.max_results]
    assert found.total == (len(kept) if found.candidates else 0)


def holding(where: str, tags: set[str], number: int) -> Fragment:
    """Return a fragment with the word retry in one field and with *tags*."""
    texts = {"description": "About retry"} if where == "description" else {"body": f"Some {where} text"}
    own = ("retry",) if where == "tag" else ()
    scenario = "Adding retry" if where == "scenario" else "Something else"
    return make_fragment(f"f{number}", scenario, title="Unlike", tags=(*own, *sorted(tags)), **texts)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(["tag", "scenario", "description", "retry"]),
            st.sets(st.sampled_from(["kafka", "redis", "docker", "helm"])),
        ),
        min_size=5,
        max_size=12,
    ),
    listed=st.integers(1, 4),
    seeds=st.integers(1, 3),
    tags=st.sampled_from([(), (), ("kafka",)]),
    least=st.sampled_from([0.0, 15.0, 30.0, 45.0]),
)
def test_short_list_is_the_beginning_of_a_long_one(
    drawn: list[tuple[str, set[str]]], listed: int, seeds: int, tags: tuple[str, ...], least: float
) -> None:
    """Of a long list every fragment is looked at for what is learnt, of a short one only those that may come up."""
    library = [*(holding(*one, number) for number, one in enumerate(drawn)), *others(20)]
    request = MatchRequest("retry", tags=tags, max_results=100, min_score=least)
    with pytest.MonkeyPatch.context() as patch, open_in_memory(library) as catalog:
        patch.setattr(weights, "FEEDBACK_SEEDS", seeds)
        patch.setattr(weights, "FEEDBACK", 1.5)
        long = match(catalog, request)
        short = match(catalog, request._replace(max_results=listed))
    assert short.candidates == long.candidates[:listed]
    assert short.total == long.total


@settings(max_examples=25, deadline=None)
@given(library=with_twins(libraries() | topical_libraries()), query=queries() | topical_queries())
def test_default_scores_are_percentages_in_order_and_equal_ones_go_by_uri(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        found = match(catalog, MatchRequest(query, max_results=100, min_score=0)).candidates
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
        uris = [c.uri.removeprefix("orchestr8://skills/") for c in match(catalog, MatchRequest("retry")).candidates]
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
        *(make_fragment(f"h{number}", body="Nothing of that kind") for number in range(21)),
    )
    assert set(default(catalog, "retry")) == {f"skills/{name}" for name in ("retry", "b", "c", "d", "e", "f", "g")}


@pytest.mark.parametrize(("holders", "found"), [(2, True), (3, False)])
def test_bodies_are_searched_for_words_that_at_most_a_quarter_of_the_fragments_hold(
    make_catalog: MakeCatalog, holders: int, found: bool
) -> None:
    catalog = make_catalog(
        make_fragment("a", body="Some retry text"),
        *(make_fragment(f"b{number}", title="Retry") for number in range(1, holders)),
        *others(8 - holders),
    )
    assert ("skills/a" in default(catalog, "retry")) is found


def test_synonym_is_not_looked_for_in_bodies(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", body="Some backoff text"), make_fragment("b", "Some backoff"), *others(8))
    reading = read_request(catalog.db, ["backoff"])
    as_synonym = reading._replace(forms=tuple(form._replace(how="synonym") for form in reading.forms))
    request = MatchRequest("backoff")
    assert [c.id for c in match(catalog, request, reading).candidates] == ["skills/b", "skills/a"]
    assert [c.id for c in match(catalog, request, as_synonym).candidates] == ["skills/b"]


def test_default_ranks_a_title_before_a_mention_in_the_body(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Caching", body="Do not retry here."),
        make_fragment("b", title="Retry", body="Do not cache here."),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_more_mentions_in_the_body_rank_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="x", body="Do not retry here."),
        make_fragment("b", title="x", body="Retry once, retry twice, retry again."),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


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


def test_only_the_best_of_a_words_forms_counts(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Retry", title="x"), make_fragment("b", "Retry", "Backoff", title="x"), *others()
    )
    reading = read_request(catalog.db, ["retry"])
    also = Form(reading.words[0], "backoff", "joined", "backoff", 1, math.log(1 + 7.5 / 1.5), 0.9)
    found = match(catalog, MatchRequest("retry"), reading._replace(forms=(*reading.forms, also)))
    plain = match(catalog, MatchRequest("retry"), reading)
    assert [(c.id, c.score) for c in found.candidates] == [(c.id, c.score) for c in plain.candidates]


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
    request = MatchRequest("retry", min_score=0, max_results=100)
    assert "agents/z" not in {c.id for c in match(catalog, request).candidates}
    assert default(catalog, "retry", categories=("agent",)) == ["agents/z"]


def test_total_counts_what_the_limit_leaves_out(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*(make_fragment(f"s{number:03}", title="Retry") for number in range(130)), *others(9))
    found = match(catalog, MatchRequest("retry", min_score=0, max_results=5))
    assert ([c.id for c in found.candidates], found.total) == ([f"skills/s00{n}" for n in range(5)], 130)


def test_total_is_counted_up_to_a_thousand(make_index: MakeIndex) -> None:
    catalog = make_index(
        *(make_fragment(f"s{number}", title="Retry") for number in range(1005)),
        *(make_fragment(f"a{number}", title="Backoff", category="agent") for number in range(999)),
        make_fragment("z", title="Retry", category="agent", tags=("api",)),
    )
    for query, options, total in [
        ("retry", {}, 1000),
        ("backoff", {}, 999),
        ("retry backoff", {"categories": ("agent",)}, 1000),
        ("backoff", {"categories": ("agent",)}, 999),
        ("retry backoff", {"tags": ("api",)}, 1),
    ]:
        assert match(catalog, MatchRequest(query, **options)).total == total  # type: ignore[arg-type]


def test_body_is_counted_up_to_255_mentions(make_catalog: MakeCatalog) -> None:
    """255 mentions give 2 * 255 / 257 of evidence and earn 332 thousandths; 300 would give 2 * 300 / 302."""
    catalog = make_catalog(
        *(make_fragment(f"s{n}", title="x", body="retry " * n) for n in (254, 255, 300)), *others(12)
    )
    assert catalog.db.execute("SELECT count, weight FROM body_posting WHERE stem = 'retri' ORDER BY 1").fetchall() == [
        (254, 332),
        (255, 332),
        (255, 332),
    ]
    assert len(set(scores(catalog, "retry").values())) == 1


def test_scenario_that_holds_most_of_the_request_is_named(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding calls", "Adding backoff to retries", "Backoff"), *others())
    assert match(catalog, MatchRequest("retry backoff")).candidates[0].scenario == "Adding backoff to retries"


def test_long_request_finds_what_its_rare_words_name(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("pgbouncer", "Sharing database connections", tags=("postgresql",)),
        *(make_fragment(f"other{n}", "Calling a service from the app when users wait") for n in range(9)),
    )
    query = (
        "hello, since yesterday evening our app has become slow whenever many users come, the service log is full of "
        "errors from postgresql that say there are too many connections, could somebody look into what is going on"
    )
    assert match(catalog, MatchRequest(query)).candidates[0].id == "skills/pgbouncer"


def test_no_statement_of_a_search_reads_a_whole_table(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", "Adding retry", tags=("api",)),
        make_fragment("b", "Adding retry", tags=("api",), body="Jitter"),
        make_fragment("c", "PostgreSQL", tags=("api",)),
        *others(),
        synonyms=(Synonym((frozenset({"slow"}),), ("retri",), "related"),),
    )
    listed = {TAGS_BY_USE.replace(":limit", "2000")}  # where nothing fits, the nearest tags are sought among all
    ran: set[str] = set()
    catalog.db.set_trace_callback(ran.add)
    for query in ("retry", "jitter adding", "postgres", "slow retrry", "post gresql"):
        for options in ({}, {"categories": ("skill",)}, {"tags": ("api",), "agent_skills": True}):
            find(catalog, MatchRequest(query, explain=True, **options), quick=False)
    catalog.db.set_trace_callback(None)
    asked = [sql for sql in ran if sql.lstrip().startswith(("SELECT", "WITH")) and sql not in listed]
    assert [sql for table in ("evidence", "body_evidence", "topic") for sql in asked if f"JOIN {table} " in sql]
    assert {sql: steps for sql in asked if (steps := full_scans(catalog.db, sql, {}))} == {}


@needs_logarithm
def test_reference_reads_evidence_and_topics_by_primary_key_only(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("api",)))
    statement = match(catalog, MatchRequest("retry", categories=("skill",), tags=("api",))).statement
    assert full_scans(catalog.db, statement.sql, dict(statement.parameters)) == []
    steps = [str(row[3]) for row in catalog.db.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)]
    assert steps.count("SEARCH p USING PRIMARY KEY (stem=?)") == 3  # short texts, bodies, names
    assert steps.count("SEARCH t USING INTEGER PRIMARY KEY (rowid=?)") == 2  # topics of the best, and of who gains
    assert not [step for step in steps if step in ("SCAN t", "SCAN p") or "SCAN byte" in step]
