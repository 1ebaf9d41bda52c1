"""Terms that a caller adds to its request: how they order, what they cover, how they are explained."""

import json
from pathlib import Path

import pytest
from support import Invoke, MakeCatalog, MakeIndex, MakeLibrary, build, make_fragment, markdown

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.evaluation.judgements import read_queries
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Mode
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.wordlists import Synonym


def others(count: int = 8) -> list[Fragment]:
    return [make_fragment(f"other{number}", "Something else entirely", title="Unlike") for number in range(count)]


def search(catalog: Catalog, query: str, *terms: str, **options: object) -> LookupResult:
    request = MatchRequest(query, terms=terms, **{"min_score": 0.0, **options})  # type: ignore[arg-type]
    return find(catalog, request, quick=False)


def ids(result: LookupResult) -> list[str]:
    return [candidate.id.removeprefix("skills/") for candidate in result.candidates]


def test_term_finds_what_the_words_of_the_request_do_not(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("breaker", tags=("circuit-breaker",)), *others())
    assert ids(search(catalog, "calls pile up")) == []
    assert ids(search(catalog, "calls pile up", "circuit breaker")) == ["breaker"]


def test_one_broad_term_does_not_drown_an_exact_name(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("kafka"), make_fragment("streaming", tags=("streaming",)), *others())
    assert ids(search(catalog, "kafka", "event streaming", "kafka"))[0] == "kafka"


def test_many_terms_together_do_not_drown_an_exact_name(make_catalog: MakeCatalog) -> None:
    terms = ("broker", "streaming", "queue", "topic", "partition")
    catalog = make_catalog(make_fragment("kafka"), make_fragment("other", title=" ".join(terms)), *others())
    assert ids(search(catalog, "kafka", *terms))[0] == "kafka"


def test_word_that_a_term_repeats_counts_more(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", title="Tracing"), make_fragment("b", title="Billing"), *others())
    assert ids(search(catalog, "tracing billing", "billing"))[:2] == ["b", "a"]
    assert ids(search(catalog, "tracing billing", "tracing"))[:2] == ["a", "b"]


def test_best_word_of_a_term_counts_alone(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", title="Circuit"), make_fragment("b", title="Circuit breaker"), *others())
    one, both = (search(catalog, "hangs", term, explain=True) for term in ("circuit", "circuit breaker"))
    parts = {c.id: [p for p in both.parts[c.fragment_id] if p.how == "term"] for c in both.candidates}
    assert ids(one)[0] == "a"
    assert {id_: len(found) for id_, found in parts.items()} == {"skills/a": 1, "skills/b": 1}


def test_term_is_searched_by_its_other_names_but_not_by_what_may_meet_a_need(make_index: MakeIndex) -> None:
    catalog = make_index(make_fragment("a", tags=("kubernetes",)), make_fragment("b", tags=("profiling",)), *others())
    lines = (
        Synonym((frozenset({"k8"}),), ("kubernet",), "synonym"),
        Synonym((frozenset({"freez"}),), ("profil",), "related"),
    )
    write_synonyms(catalog.db, lines)
    assert ids(search(catalog, "zzyzx", "k8s")) == ["a"]
    assert ids(search(catalog, "zzyzx", "freezes")) == []
    assert ids(search(catalog, "freezes")) == ["b"]


def test_terms_make_an_answer_stand_whose_request_alone_is_not_covered(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("pool", tags=("postgres", "connection-pooling"), body="Many people."),
        *others(),
        least_coverage=0.5,
    )
    assert not search(catalog, "freezes when people connect").confident
    found = search(catalog, "freezes when people connect", "Postgres", "connection pooling")
    assert (found.confident, ids(found)) == (True, ["pool"])


def test_terms_that_the_library_lacks_do_not_refuse_what_the_request_alone_finds(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("kafka"), *others(), least_coverage=0.5)
    found = search(catalog, "kafka", "cobol", "fortran", "mumps", "simula", "snobol")
    assert (found.confident, ids(found)) == (True, ["kafka"])


def test_unknown_words_are_those_of_the_terms_or_without_terms_those_of_the_topic(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("kafka"), *others())
    assert search(catalog, "kafka sandwich tomorrow").uncovered == ("sandwich",)
    assert search(catalog, "kafka sandwich tomorrow", "kafka", "cobol job").uncovered == ("cobol", "job")


def test_terms_that_the_library_lacks_refuse_what_the_request_alone_hardly_finds(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("pool"), *others(), least_coverage=0.22)
    assert search(catalog, "bake bread pool").confident
    assert not search(catalog, "bake bread pool", "sourdough", "fermentation", "proofing").confident


def test_term_is_explained_as_one_with_the_word_of_it_that_was_met(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", title="Breakers"), *others())
    (candidate,) = (found := search(catalog, "hangs", "Circuit Breaker", explain=True)).candidates
    (part,) = (part for part in found.parts[candidate.fragment_id] if part.how == "term")
    assert (part.word, part.form, part.fields) == ("Circuit Breaker", "breakers", ("title",))


@pytest.mark.parametrize("mode", [Mode.CATALOG, Mode.INDEX])
def test_scenario_shown_is_the_one_that_holds_most_of_the_terms(make_catalog: MakeCatalog, mode: Mode) -> None:
    catalog = make_catalog(make_fragment("a", "Brewing tea", "Adding retry with jitter", title="Retry"), *others())
    assert search(catalog, "hangs", "retry", "jitter", mode=mode).candidates[0].scenario == "Adding retry with jitter"


def test_order_of_terms_does_not_matter(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", title="Retry jitter"), make_fragment("b", title="Backoff"), *others())
    one, other = search(catalog, "hangs", "retry", "backoff"), search(catalog, "hangs", "backoff", "retry")
    assert one.candidates == other.candidates


def test_command_takes_terms_between_commas(invoke: Invoke, make_library: MakeLibrary, tmp_path: Path) -> None:
    index = build(make_library({"skills/a.md": markdown("title: Circuit breaker")}), tmp_path / "index.db")
    code, out, _ = invoke("search", "hangs", "--terms", "circuit breaker, bulkhead", "--db", index, "--json")
    answer = json.loads(out)
    assert (code, answer["terms"]) == (0, ["circuit breaker", "bulkhead"])
    assert [match["uri"] for match in answer["matches"]] == ["orchestr8://skills/a"]
    assert "circuit breaker" in invoke("explain", "hangs", "--terms", "circuit breaker", "--db", index)[1]


def test_judged_query_may_have_terms(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": 1, "text": "hangs", "terms": ["circuit breaker"]}\n{"id": 2, "text": "a"}\n')
    assert [query.terms for query in read_queries(path)] == [("circuit breaker",), ()]
    path.write_text('{"id": 1, "text": "hangs", "terms": "circuit breaker"}\n')
    with pytest.raises(RequestError, match=r"q\.jsonl:1: expected .*terms"):
        read_queries(path)
