"""How a request is read: its words, repaired typos, joined neighbours, synonyms, words inside words."""

import math

import pytest
from strategies import repaired
from support import MakeCatalog, MakeIndex, make_fragment

from orchestr8_sqlite.answers.render import render
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Tier
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.reading import Form, Reading, read_parts, read_request
from orchestr8_sqlite.text.keywords import extract_keywords
from orchestr8_sqlite.text.wordlists import Synonym


def others(count: int = 6) -> list[Fragment]:
    return [make_fragment(f"other{number}", "Something else entirely", title="Unlike") for number in range(count)]


def read(catalog: Catalog, query: str) -> Reading:
    return read_request(catalog.db, extract_keywords(query), catalog.size)


def stand_ins(reading: Reading) -> set[tuple[str, str, str]]:
    """Return (word, form, how) of every form that is not the word itself."""
    return {(form.word.text, form.text, form.how) for form in reading.forms if form.how != "exact"}


def only_form(reading: Reading, how: str) -> Form:
    (form,) = [form for form in reading.forms if form.how == how]
    return form


def rarity(size: int, count: int) -> float:
    return math.log(1 + (size - count + 0.5) / (count + 0.5))


def synonym(slots: str, forms: str, how: str = "related") -> Synonym:
    """Return a synonym from stems: slots apart by a space and their alternatives by a slash, forms by a space."""
    return Synonym(tuple(frozenset(slot.split("/")) for slot in slots.split()), tuple(forms.split()), how)


# The words of a request


def test_word_in_two_inflections_is_one_word_as_it_was_written_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Retrying calls"), *others())
    words = read(catalog, "retries call retry retrying").words
    assert [(word.text, word.stem) for word in words] == [("retries", "retri"), ("call", "call")]


def test_word_is_as_rare_as_few_fragments_hold_it_and_an_unknown_one_as_can_be(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Retry"), make_fragment("b", body="A retry"), *others(6))
    retry, unknown = read(catalog, "retry zzyzx").words
    assert retry.rarity == pytest.approx(rarity(8, 2))
    assert (retry.fragment_count, unknown.fragment_count) == (2, 0)
    assert unknown.rarity == pytest.approx(rarity(8, 0))


def test_everyday_words_count_less_beside_others_only(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Retry every month"), *others())
    assert [(word.text, word.everyday) for word in read(catalog, "month retry help").words] == [
        ("month", True),
        ("retry", False),
        ("help", True),
    ]
    assert [word.everyday for word in read(catalog, "help month").words] == [False, False]


def test_unknown_hyphenated_word_is_left_to_its_parts(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Error-handling of a queue"), *others())
    reading = read(catalog, "qvrx-queue error-handling")
    assert [word.text for word in reading.words] == ["qvrx", "queue", "error-handling", "error", "handling"]
    assert reading.unknown == ("qvrx",)


def test_index_that_holds_nothing_understands_nothing(make_catalog: MakeCatalog) -> None:
    reading = read(make_catalog(), "retry backoff")
    assert (reading.forms, reading.unknown) == ((), ("retry", "backoff"))


# Typos


@pytest.mark.parametrize(
    ("typo", "kind"),
    [
        ("kuberntes", "a letter less"),
        ("kubernettes", "a letter more"),
        ("kubernates", "another letter"),
        ("kubrenetes", "two swapped"),
        ("ubernetes", "no first letter"),
        ("kubernetes1", "a digit more"),
    ],
)
def test_every_edit_of_a_long_word_is_repaired(make_catalog: MakeCatalog, typo: str, kind: str) -> None:
    catalog = make_catalog(make_fragment("a", "Kubernetes rollout"), *others())
    reading = read(catalog, f"{typo} rollout")
    assert (stand_ins(reading), reading.read_as) == ({(typo, "kubernetes", "typo")}, {typo: "kubernetes"})
    assert only_form(reading, "typo").factor == 0.9


def test_two_edits_are_not_repaired(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Kubernetes rollout"), *others())
    assert repaired(catalog, ["kubrntes", "kubbernettes"]) == {}


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("bread", None),
        ("brake", None),
        ("reak", None),
        ("brek", "break"),
        ("brea", "break"),
        ("breaak", "break"),
        ("berak", "break"),
        ("rbeak", "break"),
    ],
)
def test_no_letter_is_taken_for_another_in_a_short_word(make_catalog: MakeCatalog, word: str, form: str | None) -> None:
    catalog = make_catalog(make_fragment("a", "A break of the circuit"), *others())
    assert repaired(catalog, [word]).get(word) == form


@pytest.mark.parametrize(("word", "form"), [("kernal", "kernel"), ("gti", None), ("gitt", "git"), ("sqll", "sql")])
def test_words_from_six_letters_take_another_letter_and_words_below_four_no_repair(
    make_catalog: MakeCatalog, word: str, form: str | None
) -> None:
    catalog = make_catalog(make_fragment("a", "The kernel in git and sql"), *others())
    assert repaired(catalog, [word]).get(word) == form


def test_repair_keeps_the_first_letter_before_it_asks_for_the_most_used(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Latches"),
        *(make_fragment(f"b{n}", "Patches") for n in range(3)),
        make_fragment("c", "Batch"),
    )
    assert repaired(catalog, ["lpatches"]) == {"lpatches": "latches"}
    assert repaired(catalog, ["zatches"]) == {"zatches": "patches"}


@pytest.mark.parametrize(
    ("query", "form"),
    [("kuberntes rollout", "kubernetes"), ("kuberentes rollout", "kubernetes"), ("rollouts kubernete", None)],
)
def test_unknown_word_is_read_as_its_neighbour_and_the_answer_says_so(
    make_catalog: MakeCatalog, query: str, form: str | None
) -> None:
    catalog = make_catalog(make_fragment("k8s", "Kubernetes rollout"), make_fragment("b", "A rollout"), *others())
    found = find(catalog, MatchRequest(query, mode=Mode.INDEX))
    assert found.candidates[0].id == "skills/k8s"
    if form:
        assert f"Read {query.split(maxsplit=1)[0]} as {form}." in render(found, catalog.body).text


def test_known_word_is_never_repaired(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("cache", "Caching"), make_fragment("cash", "Cash flow", body="A caches page."), *others()
    )
    assert stand_ins(read(catalog, "cache flow")) == set()
    body_only = make_catalog(make_fragment("a", "Latches"), make_fragment("b", body="Some patches."), *others())
    assert read(body_only, "patches").read_as == {}


def test_everyday_word_is_never_repaired(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "A moth and a retry"), *others())
    assert repaired(catalog, ["month"]) == {"month": "moth"}
    assert read(catalog, "retry month").read_as == {}


def test_word_with_a_synonym_is_never_repaired(make_index: MakeIndex) -> None:
    fragments = [make_fragment("a", "Author of a login"), make_fragment("b", "Authentication"), *others()]
    assert read(make_index(*fragments), "authr login").read_as == {"authr": "author"}
    catalog = make_index(*fragments, synonyms=(synonym("authr/authent", "authr authent", "synonym"),))
    assert stand_ins(read(catalog, "authr login")) == {("authr", "authentication", "synonym")}


def test_words_that_meet_a_synonym_together_are_never_repaired(make_index: MakeIndex) -> None:
    catalog = make_index(
        make_fragment("a", "Dirigible ballon"), *others(), synonyms=(synonym("airship balloon", "dirig"),)
    )
    reading = read(catalog, "airship balloon")
    assert reading.read_as == {}


@pytest.mark.parametrize(
    ("query", "repaired"),
    [
        ("kuberntes", True),
        ("kuberntes zxqv", False),
        ("kuberntes rollout", True),
        ("kuberntes rollout zxqv", True),
        ("kuberntes rollout zxqv wvvw", False),
        ("kuberntes rolloutt zxqv", False),
    ],
)
def test_repairs_are_given_up_where_most_of_the_request_is_not_understood(
    make_catalog: MakeCatalog, query: str, repaired: bool
) -> None:
    catalog = make_catalog(make_fragment("a", "Kubernetes rollout"), *others())
    assert bool(read(catalog, query).read_as) is repaired


def test_one_lucky_neighbour_makes_no_sense_of_nonsense(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Writing a plug for it"), *others())
    assert find(catalog, MatchRequest("zxqv plugh")).candidates == ()


# Joined words


def test_two_words_find_the_name_that_they_are_together(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("ts", "TypeScript generics"), make_fragment("s", "A shell script"), *others())
    reading = read(catalog, "type script generics")
    assert stand_ins(reading) == {("type", "typescript", "joined"), ("script", "typescript", "joined")}
    assert {form.factor for form in reading.forms if form.how == "joined"} == {0.9}
    assert reading.unknown == ()
    assert find(catalog, MatchRequest("type script generics")).candidates[0].id == "skills/ts"


@pytest.mark.parametrize("query", ["script type", "type generics script", "type 12 script"])
def test_only_neighbours_in_their_order_are_joined(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("ts", "TypeScript generics"), *others())
    assert stand_ins(read(catalog, query)) == set()


def test_name_that_the_request_holds_already_is_not_joined_again(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("ts", "TypeScript generics"), *others())
    assert stand_ins(read(catalog, "typescript, type script")) == set()


def test_joined_name_is_found_in_a_body_too(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", body="Mostly typescript."), make_fragment("b", "TypeScript"), *others(9))
    found = find(catalog, MatchRequest("type script", min_score=0)).candidates
    assert [candidate.id for candidate in found] == ["skills/b", "skills/a"]


# Synonyms

SLOW_SITE = synonym("slow/laggi websit/page", "perform lighthous")
SPEED = [make_fragment("p", "Performance"), make_fragment("l", "Lighthouse")]


@pytest.mark.parametrize("query", ["website slow", "slow websites", "my page is so laggy", "slowing down of pages"])
def test_slots_are_met_in_any_order_and_inflection(make_index: MakeIndex, query: str) -> None:
    reading = read(make_index(*SPEED, *others(), synonyms=(SLOW_SITE,)), query)
    assert {(form, how) for _, form, how in stand_ins(reading)} == {
        ("performance", "related"),
        ("lighthouse", "related"),
    }


@pytest.mark.parametrize("query", ["slow", "website", "slow laggy", "page website", "slow train"])
def test_every_slot_must_be_met(make_index: MakeIndex, query: str) -> None:
    assert stand_ins(read(make_index(*SPEED, *others(), synonyms=(SLOW_SITE,)), query)) == set()


@pytest.mark.parametrize(("query", "met"), [("load", False), ("load render", True), ("load loading", False)])
def test_one_word_does_not_meet_two_slots_alone(make_index: MakeIndex, query: str, met: bool) -> None:
    catalog = make_index(*SPEED, *others(), synonyms=(synonym("load load/render", "perform"),))
    assert bool(stand_ins(read(catalog, query))) is met


def test_one_word_does_not_meet_two_slots_beside_two_words_for_the_third(make_index: MakeIndex) -> None:
    catalog = make_index(*SPEED, *others(), synonyms=(synonym("slow slow/laggi load/render", "perform"),))
    assert stand_ins(read(catalog, "slow load render")) == set()


def test_rarest_of_the_words_that_meet_a_synonym_is_the_one_stood_in_for(make_index: MakeIndex) -> None:
    often = [make_fragment(f"s{number}", "A slow thing") for number in range(4)]
    catalog = make_index(*SPEED, make_fragment("w", "A website"), *often, *others(), synonyms=(SLOW_SITE,))
    assert {word for word, _, _ in stand_ins(read(catalog, "slow website"))} == {"website"}
    assert {word for word, _, _ in stand_ins(read(catalog, "slow page"))} == {"page"}


def test_related_forms_decay_by_their_place_in_the_line_where_the_index_lacks_some(make_index: MakeIndex) -> None:
    line = synonym("slow", "absent perform missing lighthous")
    reading = read(make_index(*SPEED, *others(), synonyms=(line,)), "slow")
    factors = {form.text: form.factor for form in reading.forms}
    assert factors == pytest.approx({"performance": 0.7 * 0.85, "lighthouse": 0.7 * 0.85**3})


def test_other_names_do_not_decay(make_index: MakeIndex) -> None:
    names = synonym("perf/perform/lighthous", "perf perform lighthous", "synonym")
    reading = read(make_index(*SPEED, *others(), synonyms=(names,)), "perf")
    assert {(form.text, form.how, form.factor) for form in reading.forms} == {
        ("performance", "synonym", 0.8),
        ("lighthouse", "synonym", 0.8),
    }


def test_form_that_several_lines_name_counts_by_the_best_of_them(make_index: MakeIndex) -> None:
    lines = (synonym("slow", "lighthous perform"), synonym("slow", "perform"), synonym("slow", "x perform"))
    reading = read(make_index(*SPEED, *others(), synonyms=lines), "slow")
    assert sorted((form.text, form.factor) for form in reading.forms) == [("lighthouse", 0.7), ("performance", 0.7)]


def test_word_of_the_request_stands_in_for_no_other(make_index: MakeIndex) -> None:
    catalog = make_index(*SPEED, *others(), synonyms=(SLOW_SITE,))
    assert {form for _, form, _ in stand_ins(read(catalog, "slow page performance"))} == {"lighthouse"}


def test_form_that_no_short_field_holds_stands_in_for_nothing(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("p", body="Performance"), *others(), synonyms=(SLOW_SITE,))
    reading = read(catalog, "slow website")
    assert (reading.forms, reading.unknown) == ((), ("slow", "website"))


def test_form_is_as_rare_as_few_fragments_hold_it_anywhere(make_index: MakeIndex) -> None:
    bodies = [make_fragment(f"b{number}", body="Performance") for number in range(2)]
    catalog = make_index(*SPEED, *bodies, *others(), synonyms=(synonym("slow", "perform"),))
    form = only_form(read(catalog, "slow"), "related")
    assert form.fragment_count == 3
    assert form.rarity == pytest.approx(rarity(10, 3))


# What a form counts


@pytest.mark.parametrize(("word_in", "form_in", "counted"), [(3, 1, 3), (1, 3, 3), (0, 2, 2)])
def test_form_counts_no_rarer_than_the_word_it_stands_in_for(
    make_index: MakeIndex, word_in: int, form_in: int, counted: int
) -> None:
    holders = [make_fragment(f"w{number}", "A zeppelin") for number in range(word_in)]
    forms = [make_fragment(f"f{number}", "A blimp") for number in range(form_in)]
    rest = others(10 - word_in - form_in)
    catalog = make_index(*holders, *forms, *rest, synonyms=(synonym("zeppelin/blimp", "zeppelin blimp", "synonym"),))
    form = only_form(read(catalog, "zeppelin"), "synonym")
    assert form.rarity == pytest.approx(rarity(10, form_in))
    assert form.gain == pytest.approx(0.8 * rarity(10, counted))


def test_form_of_an_everyday_word_counts_less_beside_others(make_index: MakeIndex) -> None:
    catalog = make_index(*SPEED, *others(), synonyms=(synonym("wait", "perform"),))
    assert only_form(read(catalog, "wait"), "related").gain == pytest.approx(0.7 * rarity(8, 1))
    assert only_form(read(catalog, "wait lighthouse"), "related").gain == pytest.approx(0.7 * 0.7 * rarity(8, 1))


def test_stand_in_counts_less_than_the_word_itself(make_catalog: MakeCatalog) -> None:
    whole = make_fragment("a", "Postgres tuning")
    catalog = make_catalog(whole, make_fragment("b", "Postgresql tuning"), *others())
    found = find(catalog, MatchRequest("postgres tuning"))
    assert [candidate.id for candidate in found.candidates[:2]] == ["skills/a", "skills/b"]
    assert found.candidates[0].score > found.candidates[1].score


# Words inside words


def test_word_inside_another_is_found_where_nothing_else_is(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("pg", "PostgreSQL vacuum"), *others())
    found = find(catalog, MatchRequest("postgres"))
    assert (found.tier, [candidate.id for candidate in found.candidates]) == (Tier.FUZZY, ["skills/pg"])


def test_parts_are_further_forms_beside_those_that_are_known(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("pg", "PostgreSQL and MySQL", "Postgres, SQL"), *others())
    reading = read(catalog, "sql postgres my")
    parts = read_parts(catalog.db, reading)
    assert parts.forms[: len(reading.forms)] == reading.forms
    assert stand_ins(parts) == {
        ("sql", "postgresql", "part"),
        ("sql", "mysql", "part"),
        ("postgres", "postgresql", "part"),
    }
    assert {form.factor for form in parts.forms if form.how == "part"} == {0.5}


def test_keyword_that_is_looked_for_already_is_no_part(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "The log, logic and login"), *others())
    parts = read_parts(catalog.db, read(catalog, "log logic"))
    assert stand_ins(parts) == {("log", "login", "part")}


def test_only_the_most_used_of_many_parts_are_taken(make_catalog: MakeCatalog) -> None:
    rare = [f"sql{first}{second}" for first in "abcde" for second in "bcdfg"]
    catalog = make_catalog(
        make_fragment("a", " ".join(rare)), make_fragment("b", "zsql"), make_fragment("c", "zsql"), *others()
    )
    parts = {form for _, form, _ in stand_ins(read_parts(catalog.db, read(catalog, "sql")))}
    assert parts == {"zsql", *rare[:19]}


def test_lists_of_words_in_any_script_reach_the_index_unharmed(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "再試行 Müller c++ don't"), *others())
    reading = read(catalog, "再試行 müller c++ don't")
    assert reading.unknown == ()
    assert {form.how for form in reading.forms} == {"exact"}
