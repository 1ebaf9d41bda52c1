"""Words that a query word may stand for: repaired typos, joined neighbours, words inside words."""

import pytest
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest, Mode, Tier
from orchestr8_sqlite.render import render


def others(count: int = 6) -> list[object]:
    return [make_fragment(f"other{number}", "Something else entirely") for number in range(count)]


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
        assert f"Read {query.split(maxsplit=1)[0]} as {form}." in render(found, catalog.body)


def test_known_word_is_never_repaired(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("cache", "Caching"), make_fragment("cash", "Cash flow", "Cash reports"), *others()
    )
    found = find(catalog, MatchRequest("cache"))
    assert (found.candidates[0].id, found.read_as) == ("skills/cache", {})


def test_one_lucky_neighbour_makes_no_sense_of_nonsense(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Writing a plug for it"), *others())
    assert find(catalog, MatchRequest("zxqv plugh")).candidates == ()


def test_two_words_find_the_name_that_they_are_together(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("ts", "TypeScript generics"), make_fragment("s", "A shell script"), *others())
    assert find(catalog, MatchRequest("type script generics")).candidates[0].id == "skills/ts"


def test_word_inside_another_is_found_where_nothing_else_is(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("pg", "PostgreSQL vacuum"), *others())
    found = find(catalog, MatchRequest("postgres"))
    assert (found.tier, [candidate.id for candidate in found.candidates]) == (Tier.FUZZY, ["skills/pg"])


def test_stand_in_counts_less_than_the_word_itself(make_catalog: MakeCatalog) -> None:
    whole = make_fragment("a", "Postgres tuning")
    catalog = make_catalog(whole, make_fragment("b", "Postgresql tuning"), *others())
    found = find(catalog, MatchRequest("postgres tuning"))
    assert [candidate.id for candidate in found.candidates[:2]] == ["skills/a", "skills/b"]
    assert found.candidates[0].score > found.candidates[1].score
