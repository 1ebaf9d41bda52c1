"""Why a fragment has its score: the parts add up, say what met which word where, and how much of it is covered."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
from support import MakeIndex, make_fragment

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Part, Tier
from orchestr8_sqlite.ranking import weights
from orchestr8_sqlite.ranking.explanation import coverage, covered_share, held_anywhere, held_forms
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.reading import read_parts, read_request
from orchestr8_sqlite.text.keywords import extract_keywords
from orchestr8_sqlite.text.wordlists import Synonym

PERF = Synonym((frozenset({"perf", "perform"}),), ("perf", "perform"), "synonym")
HOWS = {"exact", "stem", "typo", "joined", "synonym", "related", "part", "name", "learnt", "focus"}
SLOW = Synonym((frozenset({"slow", "laggi"}),), ("absent", "perform", "cach"), "related")


def others(count: int = 8) -> list[Fragment]:
    return [make_fragment(f"other{number}", "Something else entirely", title=f"Own{number}") for number in range(count)]


def explained(catalog: Catalog, query: str, **options: object) -> LookupResult:
    request = MatchRequest(query, explain=True, **{"min_score": 0.0, "max_results": 100, **options})  # type: ignore[arg-type]
    return find(catalog, request)


def beside_focus(result: LookupResult, id_: str) -> tuple[Part, ...]:
    return tuple(part for part in parts_of(result, id_) if part.how != "focus")


def parts_of(result: LookupResult, id_: str) -> tuple[Part, ...]:
    (candidate,) = [candidate for candidate in result.candidates if candidate.id == id_]
    return result.parts[candidate.fragment_id]


def why(catalog: Catalog, query: str, id_: str) -> set[tuple[str | None, str, str, tuple[str, ...]]]:
    """Return (word, form, how, fields) of every part of a fragment's score but its focus."""
    parts = beside_focus(explained(catalog, query), id_)
    return {(part.word, part.form, part.how, part.fields) for part in parts}


def met(catalog: Catalog, query: str, id_: str) -> set[tuple[str | None, str, str, tuple[str, ...]]]:
    """Return the same without what belongs to no word."""
    return {part for part in why(catalog, query, id_) if part[0] is not None}


def covered(catalog: Catalog, query: str, id_: str, *, parts: bool = False) -> tuple[dict[str, float], float]:
    """Return how much of each word of *query* a fragment covers, and how much of the request."""
    reading = read_request(catalog.db, extract_keywords(query), catalog.size)
    if parts:
        reading = read_parts(catalog.db, reading)
    (number,) = catalog.db.execute("SELECT id FROM fragment WHERE path = ?", (id_,)).fetchone()
    held = held_anywhere(catalog.db, reading, held_forms(catalog.db, reading, [number]))
    shares = coverage(reading, held[number])
    return shares, covered_share(reading, [held[number]])


def rarity(size: int, count: int) -> float:
    return math.log(1 + (size - count + 0.5) / (count + 0.5))


# The parts of a score


@settings(max_examples=60)
@given(
    library=with_twins(libraries() | topical_libraries()),
    asked=with_synonyms(queries() | topical_queries()),
    options=filters(),
)
def test_parts_add_up_to_the_printed_score(
    library: list[Fragment], asked: tuple[str, tuple[Synonym, ...]], options: dict[str, object]
) -> None:
    query, lines = asked
    with open_in_memory(library) as catalog:
        write_synonyms(catalog.db, lines)
        result = explained(catalog, query, **options)
        plain = find(catalog, MatchRequest(query, **options), quick=False)  # type: ignore[arg-type]
    assert [(c.uri, c.score) for c in result.candidates] == [(c.uri, c.score) for c in plain.candidates]
    assert set(result.parts) == {candidate.fragment_id for candidate in result.candidates}
    words_asked = set(extract_keywords(query))
    for candidate in result.candidates:
        parts = result.parts[candidate.fragment_id]
        assert sum(round(100 * part.points) for part in parts) == round(100 * candidate.score)
        assert all(part.points > 0 for part in parts)
        assert [part.points for part in parts] == sorted((part.points for part in parts), reverse=True)
        words = [part.word for part in parts if part.word is not None]
        in_fields = [part.word for part in parts if part.word is not None and part.fields != ("body",)]
        assert len(in_fields) == len(set(in_fields))
        assert set(words) <= words_asked
        assert {part.how for part in parts} <= HOWS
        assert all((part.word is None) == (part.how in ("name", "learnt", "focus")) for part in parts)


@settings(max_examples=100)
@given(
    library=with_twins(topical_libraries() | libraries()),
    asked=with_synonyms(topical_queries()),
    options=filters(),
    raised=st.sampled_from([1, 3, 30]),
    chosen=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
def test_rows_of_parts_add_up_to_the_score_of_any_two_fragments_before_they_are_rounded(
    library: list[Fragment],
    asked: tuple[str, tuple[Synonym, ...]],
    options: dict[str, object],
    raised: int,
    chosen: tuple[int, int],
) -> None:
    """The statement that finds the parts is run again for two of all that match, in any order."""
    query, lines = asked
    with pytest.MonkeyPatch.context() as patch, open_in_memory(library) as catalog:
        patch.setattr(weights, "RAISED", raised)
        write_synonyms(catalog.db, lines)
        result = explained(catalog, query, **{**options, "max_results": 100, "min_score": 0.0})
        if not result.candidates:
            return
        (_, statement) = result.statements
        two = [result.candidates[place % len(result.candidates)] for place in chosen]
        ids = str(list({candidate.fragment_id for candidate in two}))
        rows = catalog.db.execute(statement.sql, {**statement.parameters, "ids": ids}).fetchall()
    points = {candidate.uri: sum(row[-1] for row in rows if row[1] == candidate.uri) for candidate in two}
    assert points == pytest.approx({candidate.uri: candidate.score for candidate in two}, abs=0.00501)
    assert {row[1] for row in rows} == {candidate.uri for candidate in two}


@settings(max_examples=25)
@given(library=libraries() | topical_libraries(), query=queries() | topical_queries())
def test_name_adds_at_most_its_bonus_and_common_words_at_most_theirs(library: list[Fragment], query: str) -> None:
    """A name adds up to .4 of what the words earn; what the best have in common up to .3 of the best sum."""
    with open_in_memory(library) as catalog:
        result = explained(catalog, query)
    for candidate in result.candidates:
        parts = result.parts[candidate.fragment_id]
        rounding = 0.01 * len(parts) + 0.005
        earned = sum(part.points for part in parts if part.word is not None)
        name = [part.points for part in parts if part.how == "name"]
        assert len(name) <= 1
        assert sum(name) <= 0.4 * earned + rounding
        assert len([part for part in parts if part.how == "learnt"]) <= 10
    if result.candidates:
        best = result.parts[result.candidates[0].fragment_id]
        learnt = sum(part.points for part in best if part.how == "learnt")
        assert learnt <= 0.3 / 0.7 * sum(part.points for part in best) + 0.01 * len(best)


def test_word_is_shown_as_it_was_asked_for_where_the_fragment_has_it_so_and_else_as_it_is_inflected_there(
    make_index: MakeIndex,
) -> None:
    catalog = make_index(
        make_fragment("a", "Retrying calls", title="x", tags=("retry",), description="Retries"),
        make_fragment("b", title="Retry", capabilities=("Retried calls",)),
        make_fragment("c", title="y", body="A retry."),
        *others(20),
    )
    for query in ("retry", "retrying"):
        assert why(catalog, query, "skills/a") == {(query, query, "exact", ("tag", "scenario", "description"))}
        assert why(catalog, query, "skills/c") == {(query, query, "exact", ("body",))}
    assert why(catalog, "retry", "skills/b") == {("retry", "retry", "exact", ("title", "capability"))}
    assert why(catalog, "retrying", "skills/b") == {("retrying", "retried", "stem", ("title", "capability"))}


def test_covered_name_is_a_part_of_its_own(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("retry", title="x"), make_fragment("retry-calls", title="y"), *others())
    assert why(catalog, "retry", "skills/retry") == {
        ("retry", "retry", "exact", ("name",)),
        (None, "", "name", ("name",)),
    }
    word, name = beside_focus(explained(catalog, "retry"), "skills/retry")
    assert (word.how, name.how) == ("exact", "name")
    assert name.points / word.points == pytest.approx(0.4, abs=0.001)
    word, name = beside_focus(explained(catalog, "retry"), "skills/retry-calls")
    assert name.points / word.points == pytest.approx(0.4 * 5 / 9, abs=0.001)  # "retri" of "retri" and "call"


def test_focus_is_a_part_of_its_own_in_proportion_to_the_largest(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", title="Retry"), make_fragment("b", title="Retry", tags=("cache", "queue")), *others()
    )
    shares = {}
    for id_ in ("skills/a", "skills/b"):
        word, focus = parts_of(explained(catalog, "retry"), id_)
        assert (word.how, focus.word, focus.how, focus.fields) == ("exact", None, "focus", ())
        shares[id_] = focus.points / word.points
    norms = dict(catalog.db.execute("SELECT f.path, l.norm FROM rank_length l JOIN fragment f ON f.id = l.fragment_id"))
    assert shares["skills/a"] == pytest.approx(0.6, abs=0.001)
    assert shares["skills/b"] == pytest.approx(0.6 * norms["skills/a"] / norms["skills/b"], abs=0.001)


def test_typo_is_shown_as_the_word_that_it_was_read_as(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", "Kubernetes rollout", title="x"), *others())
    assert why(catalog, "kuberntes rollout", "skills/a") == {
        ("kuberntes", "kubernetes", "typo", ("scenario",)),
        ("rollout", "rollout", "exact", ("scenario",)),
    }


def test_joined_words_are_shown_as_the_name_that_they_are(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", title="TypeScript"), *others())
    assert why(catalog, "type script", "skills/a") == {
        ("type", "typescript", "joined", ("title",)),
        ("script", "typescript", "joined", ("title",)),
    }


def test_other_name_and_need_are_shown_as_a_word_that_the_fragment_holds(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", title="Performance"),
        make_fragment("b", title="Performing"),
        make_fragment("c", title="Caching"),
        *others(),
        synonyms=(PERF, SLOW),
    )
    assert met(catalog, "perf", "skills/a") == {("perf", "performance", "synonym", ("title",))}
    assert met(catalog, "slow", "skills/b") == {("slow", "performing", "related", ("title",))}
    assert met(catalog, "laggy", "skills/c") == {("laggy", "caching", "related", ("title",))}


def test_word_that_is_met_in_two_forms_is_shown_by_the_better_one(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", title="Performance, perf"),
        make_fragment("b", title="Caching, performance"),
        make_fragment("c", title="Performance"),
        make_fragment("d", title="perf"),
        *others(),
        synonyms=(PERF, SLOW),
    )
    assert met(catalog, "perf", "skills/a") == {("perf", "perf", "exact", ("title",))}
    assert met(catalog, "slow", "skills/b") == {("slow", "caching", "related", ("title",))}


def test_word_in_a_body_is_a_part_beside_that_of_the_short_texts(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", "Retrying", title="x", body="Retries of a retry"), *others())
    assert why(catalog, "retried", "skills/a") == {
        ("retried", "retrying", "stem", ("scenario",)),
        ("retried", "retried", "exact", ("body",)),
    }


def test_part_of_a_word_is_shown_with_the_whole_word(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", "PostgreSQL", title="x"), *others())
    assert explained(catalog, "postgres").tier is Tier.FUZZY
    assert why(catalog, "postgres", "skills/a") == {("postgres", "postgresql", "part", ("scenario",))}


def test_what_the_best_have_in_common_is_shown_where_a_fragment_has_it(make_index: MakeIndex) -> None:
    tagged = [make_fragment(name, "Retry", title=f"Own{name}", tags=("resilience",)) for name in ("a", "b")]
    catalog = make_index(*tagged, make_fragment("c", "Retry", title="z"), *others())
    retry = ("retry", "retry", "exact", ("scenario",))
    assert why(catalog, "retry", "skills/a") == {retry, (None, "resilience", "learnt", ())}
    assert why(catalog, "retry", "skills/c") == {retry}
    word, learnt = beside_focus(explained(catalog, "retry"), "skills/a")
    assert learnt.points / word.points == pytest.approx(0.3, abs=0.001)


def test_what_all_fragments_have_in_common_adds_nothing(make_index: MakeIndex) -> None:
    catalog = make_index(*(make_fragment(name, "Retry", title=f"Own{name}", tags=("api",)) for name in "ab"))
    assert why(catalog, "retry", "skills/a") == {("retry", "retry", "exact", ("scenario",))}


def test_ten_words_are_learnt_at_most(make_index: MakeIndex) -> None:
    tags = tuple(f"tag{letter}" for letter in "abcdefghijkl")
    catalog = make_index(*(make_fragment(name, "Retry", title=f"Own{name}", tags=tags) for name in "ab"), *others())
    learnt = {form for _, form, how, _ in why(catalog, "retry", "skills/a") if how == "learnt"}
    assert learnt == set(tags[:10])


def test_word_of_the_request_is_not_learnt(make_index: MakeIndex) -> None:
    catalog = make_index(*(make_fragment(name, title="Retry", tags=("backoff",)) for name in "ab"), *others())
    assert {how for _, _, how, _ in why(catalog, "retry backoff", "skills/a")} == {"exact"}


def test_answer_is_explained_only_where_it_is_asked_for(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", "Retry"), *others())
    assert find(catalog, MatchRequest("retry")).parts == {}
    assert explained(catalog, "zzyzx").parts == {}


# How much of a request is covered


@pytest.mark.parametrize(
    ("query", "shares"),
    [
        ("retry", {"retry": 1.0}),
        ("retrying", {"retrying": 1.0}),
        ("jitter", {"jitter": 0.5}),
        ("retry zzyzx", {"retry": 1.0, "zzyzx": 0.0}),
        ("kuberntes", {"kuberntes": 0.9 * 0.6}),
        ("type script", {"type": 0.9, "script": 0.9}),
        ("perf", {"perf": 0.8}),
        ("slow", {"slow": 0.7 * 0.85 * 0.5}),
        ("retry month", {"retry": 1.0, "month": 0.0}),
    ],
)
def test_word_is_covered_as_far_as_its_best_form_is_sure(
    make_index: MakeIndex, query: str, shares: dict[str, float]
) -> None:
    catalog = make_index(
        make_fragment("a", tags=("retry", "kubernetes", "typescript", "performance"), body="jitter retry"),
        *others(),
        synonyms=(PERF, SLOW),
    )
    assert covered(catalog, query, "skills/a")[0] == pytest.approx(shares)


@pytest.mark.parametrize(
    "fragment",
    [
        make_fragment("a", "Retry later"),
        make_fragment("a", capabilities=("Retry",)),
        make_fragment("a", description="Retry.", body="retry"),
    ],
)
def test_word_outside_name_title_and_tags_is_covered_by_four_fifths(make_index: MakeIndex, fragment: Fragment) -> None:
    catalog = make_index(fragment, *others())
    assert covered(catalog, "retry", "skills/a")[0] == {"retry": 0.8}


def test_number_that_the_index_does_not_know_counts_as_an_everyday_word(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", tags=("retry",)), make_fragment("b"), *others())
    rare = rarity(10, 1)
    assert covered(catalog, "retry 300k", "skills/a")[1] == pytest.approx(rare / (rare + 0.05 * rarity(10, 0)))
    assert covered(catalog, "300k 400k", "skills/a") == ({"300k": 0.0, "400k": 0.0}, 0.0)


def test_repaired_word_in_a_body_alone_is_covered_by_half_of_that(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", body="Kubernetes"), make_fragment("b", "Kubernetes"), *others())
    assert covered(catalog, "kuberntes", "skills/a")[0] == pytest.approx({"kuberntes": 0.5 * 0.9 * 0.6})


def test_part_of_a_word_covers_half(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", tags=("postgresql",)), *others())
    assert covered(catalog, "postgres", "skills/a", parts=True) == ({"postgres": 0.5}, 0.5)


def test_covered_share_weighs_words_by_their_rarity(make_index: MakeIndex) -> None:
    often = [make_fragment(f"s{number}", "Retry", title=f"Own{number}") for number in range(3)]
    catalog = make_index(
        make_fragment("a", tags=("retry",), title="x", body="Jitter"), *often, make_fragment("c", "Backoff"), *others(5)
    )
    wanted = rarity(10, 4), rarity(10, 1), rarity(10, 1), rarity(10, 0)
    share = covered(catalog, "retry jitter backoff zzyzx", "skills/a")[1]
    assert share == pytest.approx((wanted[0] + 0.5 * wanted[1]) / sum(wanted))


def test_everyday_words_hardly_count_beside_others(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", tags=("retry",)), make_fragment("b", tags=("month",)), *others())
    rare = rarity(10, 1)
    assert covered(catalog, "retry month", "skills/a")[1] == pytest.approx(rare / (1.05 * rare))
    assert covered(catalog, "retry month", "skills/b")[1] == pytest.approx(0.05 * rare / (1.05 * rare))
    assert covered(catalog, "month", "skills/b")[1] == pytest.approx(1.0)


def test_beyond_its_six_rarest_words_a_long_request_asks_for_a_tenth_of_what_the_others_weigh(
    make_index: MakeIndex,
) -> None:
    words = ["retry", "backoff", "jitter", "queue", "shard", "proxy", "vault", "token"]
    catalog = make_index(
        make_fragment("a", tags=tuple(words)), make_fragment("b", tags=tuple(words[:3]), title="x"), *others()
    )
    query = " ".join(words)
    assert covered(catalog, query, "skills/a")[1] == 1.0
    common, rare = rarity(10, 2), rarity(10, 1)  # three words are held twice, five once
    assert covered(catalog, query, "skills/b")[1] == pytest.approx(3 * common / (5 * rare + common + 0.1 * 2 * common))


def test_words_that_only_the_body_holds_cover_as_much_as_one_and_a_half_of_the_rarest_at_most(
    make_index: MakeIndex,
) -> None:
    catalog = make_index(make_fragment("a", "Retry", title="x", body="backoff jitter queue shard"), *others(9))
    rare, absent = rarity(10, 1), rarity(10, 0)
    shares, share = covered(catalog, "retry backoff jitter queue shard", "skills/a")
    assert [shares[word] for word in ("backoff", "jitter", "queue", "shard")] == [0.5] * 4
    assert share == pytest.approx((shares["retry"] + 1.5) / 5)
    assert covered(catalog, "retry backoff zzyzx", "skills/a")[1] == pytest.approx(
        (shares["retry"] + 0.5) * rare / (2 * rare + absent)
    )


def test_request_without_words_is_not_covered(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", "Retry"), *others())
    assert covered(catalog, "what is it", "skills/a") == ({}, 0.0)


@settings(max_examples=25)
@given(library=libraries() | topical_libraries(), query=topical_queries(), seed=st.integers(0, 30))
def test_coverage_is_a_share_of_each_word_and_of_the_request(library: list[Fragment], query: str, seed: int) -> None:
    id_ = library[seed % len(library)].id
    with open_in_memory(library) as catalog:
        result = explained(catalog, query)
        shares, whole = covered(catalog, query, id_, parts=result.tier is Tier.FUZZY)
    assert all(0 <= share <= 1 for share in shares.values())
    assert 0 <= whole <= 1
    if id_ in [candidate.id for candidate in result.candidates]:
        assert {part.word for part in parts_of(result, id_) if part.word} <= {w for w, share in shares.items() if share}
        assert whole > 0
    if id_ in [candidate.id for candidate in result.candidates[:5]]:
        assert result.coverage >= round(whole, 3)
