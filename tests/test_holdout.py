"""Hiding a scenario from its own index, and the share of a request that an answer must cover to stand."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Oracle
from strategies import libraries, open_in_memory, queries, topical_libraries, topical_queries, with_twins
from support import MakeCatalog, MakeIndex, make_fragment

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest
from orchestr8_sqlite.ranking import holdout
from orchestr8_sqlite.ranking.holdout import (
    HeldOut,
    Scenario,
    measure_least_coverage,
)
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.wordlists import foreign_requests

LINE = "Retrying flaky uploads"
TABLES = (
    "fragment fragment_body scenario keyword posting field_posting rank_stem rank_topic rank_length meta "
    "fragment_text_data fragment_text_docsize keyword_text_data"
).split()
HELD = """
SELECT 'field', k.text, p.fields, p.weight FROM field_posting p JOIN keyword k ON k.id = p.keyword_id
 WHERE p.fragment_id = :id
 UNION ALL SELECT 'scenario', k.text, p.ordinal, 0 FROM posting p JOIN keyword k ON k.id = p.keyword_id
 WHERE p.fragment_id = :id
 UNION ALL SELECT 'topic', stem, share, 0 FROM rank_topic WHERE fragment_id = :id
 UNION ALL SELECT 'body', i.term, count(*), 0 FROM temp.instance i WHERE doc = :id AND col IN ('body', 'also')
 GROUP BY i.term
"""
"""What a fragment is found by, its body by the words that the full text has of it."""

SUBJECTS = {
    "retry-backoff": "Retrying failed calls with exponential backoff; Spacing retries of failed calls with jitter",
    "circuit-breaker": "Stopping calls to a broken service; Opening a circuit when a service fails",
    "response-caching": "Caching responses of an api; Expiring cached responses on time",
    "redis-sessions": "Storing sessions in redis; Sharing sessions of users between servers",
    "postgres-indexes": "Choosing indexes for postgres queries; Reading the plan of postgres queries",
    "schema-migrations": "Migrating a database schema without downtime; Rolling back a schema migration",
    "docker-images": "Building small docker images; Layering docker images for fast builds",
    "kubernetes-rollouts": "Rolling out a kubernetes deployment; Pausing a kubernetes rollout on errors",
    "helm-charts": "Writing helm charts; Templating values of helm charts",
    "pytest-fixtures": "Sharing pytest fixtures between modules; Scoping pytest fixtures",
    "property-tests": "Testing properties with generated inputs; Shrinking generated inputs of tests",
    "structured-logging": "Logging structured records as json; Adding request ids to structured logs",
    "distributed-tracing": "Tracing requests across services; Sampling traces of services",
    "metrics-dashboards": "Drawing dashboards of metrics; Choosing metrics for alerts on dashboards",
    "oauth-tokens": "Refreshing oauth tokens; Revoking oauth tokens of a client",
    "secret-rotation": "Rotating secrets in a vault; Reading secrets from a vault at start",
    "cursor-pagination": "Paginating lists by cursor; Encoding the cursor of a page",
    "webhook-signatures": "Verifying signatures of webhooks; Signing webhooks with a shared key",
    "message-queues": "Consuming messages from queues; Dead lettering messages of queues",
    "event-sourcing": "Replaying events into a projection; Storing events of an aggregate",
    "grpc-streaming": "Streaming replies over grpc; Cancelling grpc streams",
    "graphql-resolvers": "Batching graphql resolvers; Limiting the depth of graphql queries",
    "css-grid": "Laying out pages with css grid; Naming areas of a css grid",
    "react-hooks": "Writing react hooks for data; Testing react hooks",
    "form-validation": "Validating forms in the browser; Showing errors of form validation",
    "image-compression": "Compressing images for the web; Resizing and compressing uploaded images",
    "csv-parsing": "Parsing large csv files; Parsing csv with quoted fields",
    "feature-flags": "Releasing behind feature flags; Removing stale feature flags",
    "code-review": "Reviewing code changes; Writing comments in a code review",
    "branching-model": "Choosing a branching model for git; Merging branches of git",
}


def library(texts: Mapping[str, object] = MappingProxyType({}), *, hidden: bool = False) -> list[Fragment]:
    """Return twelve fragments, of which the first says LINE in its scenarios and where *texts* say so.

    Args:
        hidden: LINE is said by the last fragment instead, in the same fields, so that these are as long on average.
    """

    def said(text: object, *, here: bool) -> object:
        if isinstance(text, tuple):
            return tuple(said(part, here=here) for part in text)
        return str(text).replace("LINE", LINE if here else "")

    other, own = "Serving files to clients", "Sending uploads again"
    fields = {"description": "", "body": "", "tags": (), "capabilities": (), "title": "plain", **texts}
    mine = {name: said(text, here=not hidden) for name, text in fields.items()}
    theirs = {name: said(text, here=hidden) for name, text in fields.items() if "LINE" in str(text) and name != "body"}
    first = make_fragment("uploads", own, *(() if hidden else (LINE,)))
    last = make_fragment("z", other, *((LINE,) if hidden else ()), title="plain")
    rest = [make_fragment(f"other-{number}", "Something else", tags=("files",)) for number in range(10)]
    return [replace(first, **mine), *rest, replace(last, **theirs)]  # type: ignore[arg-type]


def evidence(catalog: Catalog, path: str = "skills/uploads") -> set[tuple[str, str, int, int]]:
    """Return what a fragment is found by: (where, word, fields or place or share or count, weight)."""
    db = catalog.db
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instance USING fts5vocab (main, fragment_text, instance)")
    (id_,) = db.execute("SELECT id FROM fragment WHERE path = ?", (path,)).fetchone()
    return set(db.execute(HELD, {"id": id_}))


def words_of(held: set[tuple[str, str, int, int]]) -> set[str]:
    return {word for _, word, _, _ in held}


@contextmanager
def hidden(catalog: Catalog, text: str = LINE) -> Iterator[Catalog]:
    """Yield an index without the first scenario of that text."""
    with HeldOut.copy(catalog) as held_out, held_out.without(scenario_of(held_out, text)):
        yield held_out.catalog


def test_hidden_line_lets_no_answer_stand_that_its_words_in_a_row_would(make_catalog: MakeCatalog) -> None:
    line = "Storing zebra crossing lights of towns in redis"
    catalog = make_catalog(*subjects(), make_fragment("zebra", line), least_coverage=0.5)
    assert find(catalog, MatchRequest(line)).confident
    with HeldOut.copy(catalog) as held_out, held_out.without(scenario_of(held_out, line), whole=True):
        result = find(held_out.catalog, MatchRequest(line), quick=False)
        assert result.candidates
        assert not result.confident
        assert "crossing" in result.uncovered


def scenario_of(held_out: HeldOut, text: str) -> Scenario:
    return next(one for one in held_out.scenarios() if one.text == text)


def answer(catalog: Catalog, query: str, **options: object) -> LookupResult:
    return find(catalog, MatchRequest(query, **options), quick=False)  # type: ignore[arg-type]


def contents(db: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {table: sorted(db.execute(f"SELECT * FROM {table}")) for table in TABLES}


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"description": "LINE. Made for clerks with flaky lines."},
        {"body": "# Uploads\n\nLINE, again and again. A flaky line is no excuse.\n"},
        {"capabilities": ("LINE", "Counting uploads"), "tags": ("uploads", "retrying")},
        {"title": "LINE", "description": "LINE", "body": "LINE\n\nLINE\n"},
    ],
)
def test_hidden_line_leaves_the_evidence_of_a_library_without_it(
    make_index: MakeIndex, texts: dict[str, object]
) -> None:
    expected = evidence(make_index(*library(texts, hidden=True)))
    catalog = make_index(*library(texts))
    assert evidence(catalog) != expected
    with hidden(catalog) as left:
        assert evidence(left) == expected


@settings(max_examples=60)
@given(
    library=with_twins(topical_libraries() | libraries()),
    query=queries() | topical_queries(),
    chosen=st.integers(0, 99),
)
def test_index_without_a_line_answers_what_the_rules_say_of_its_other_texts(
    library: list[Fragment], query: str, chosen: int
) -> None:
    """How many fragments hold a word stays as it was counted."""
    scenarios = [(at, line) for at, fragment in enumerate(library) for line in fragment.use_when]
    assume(scenarios)
    at, line = scenarios[chosen % len(scenarios)]
    request = MatchRequest(query, max_results=100, min_score=0)
    oracle = Oracle(library)
    oracle.hide(at, line)
    expected = oracle.answer(request)
    with open_in_memory(library) as catalog:
        held_out = HeldOut(catalog)
        one = next(one for one in held_out.scenarios() if (one.fragment_id, one.text) == (at + 1, line))
        with held_out.without(one):
            found = find(catalog, request)
    assume(oracle.clear)
    assert [c.uri for c in found.candidates] == [uri for uri, _, _ in expected.rows]
    assert [c.score for c in found.candidates] == pytest.approx([score for _, score, _ in expected.rows], abs=0.011)


def test_words_of_a_hidden_line_that_stand_elsewhere_keep_their_fields(make_index: MakeIndex) -> None:
    texts: dict[str, object] = {"tags": ("uploads",), "body": "Flaky networks."}
    with hidden(make_index(*library(texts))) as catalog:
        left = evidence(catalog)
    tag, other_scenario, name = 1, 4, 32
    assert {(word, fields) for where, word, fields, _ in left if where == "field"} == {
        ("uploads", tag + other_scenario + name), ("sending", other_scenario), ("again", other_scenario), ("plain", 16),
    }  # fmt: skip
    assert ("body", "flaki", 1, 0) in left
    assert "retrying" not in words_of(left)


@pytest.mark.parametrize(
    ("line", "body", "kept"),
    [
        ("Go", "Good algorithms, long ago.", {"good", "algorithm"}),
        ("Go", "go! (GO)", set()),
        ("Retrying flaky uploads", "Why retrying\n  flaky uploads fails.", {"fail"}),
        ("再試行", "再試行する", {"する"}),
        ("setUserId, twice", "A user.", {"user"}),
    ],
)
def test_line_is_hidden_in_any_case_and_wrapping_but_not_inside_words(
    make_index: MakeIndex, line: str, body: str, kept: set[str]
) -> None:
    rest = [make_fragment(f"other-{number}") for number in range(9)]
    with hidden(make_index(make_fragment("a", line, title="", body=body), *rest), line) as catalog:
        left = words_of(evidence(catalog, "skills/a"))
    assert left >= kept
    assert not left & ({"go", "retri", "flaki", "upload", "再試", "試行", "set", "id", "setuserid", "twice"} - kept)


def test_hidden_line_is_not_found_by_the_words_that_stand_beside_its_text(make_index: MakeIndex) -> None:
    rest = [make_fragment(f"other-{number}") for number in range(9)]
    for line in ("再試行の設計", "Calling setUserId"):
        catalog = make_index(make_fragment("a", line, title="x"), *rest)
        assert [one.id for one in answer(catalog, line, min_score=0).candidates] == ["skills/a"]
        with hidden(catalog, line) as left:
            assert answer(left, line, min_score=0).candidates == ()


def test_hidden_title_teaches_nothing(make_index: MakeIndex) -> None:
    catalog = make_index(*library({"title": "LINE"}), make_fragment("z-twin", title=LINE))
    with hidden(catalog) as left:
        topics = {
            path: {word for where, word, _, _ in evidence(left, path) if where == "topic"}
            for path in ("skills/uploads", "skills/z-twin")
        }
    assert topics == {"skills/uploads": {"upload"}, "skills/z-twin": {"twin", "retri", "flaki", "upload"}}


def test_other_fragments_are_untouched_while_a_line_is_hidden(make_index: MakeIndex) -> None:
    twin = make_fragment("z-twin", LINE, "Sending uploads again", description=LINE, body=LINE)
    catalog = make_index(*library({"description": "LINE"}), twin)
    paths = [path for (path,) in catalog.db.execute("SELECT path FROM fragment")]
    before = {path: evidence(catalog, path) for path in paths}
    with hidden(catalog) as left:
        assert [path for path in paths if evidence(left, path) != before[path]] == ["skills/uploads"]


def test_hiding_lines_leaves_the_index_as_it_was() -> None:
    with open_in_memory(library({"description": "LINE", "body": "LINE"})) as catalog:
        before, held_out = contents(catalog.db), HeldOut(catalog)
        for one in held_out.scenarios():
            with held_out.without(one):
                answer(catalog, one.text)
                assert contents(catalog.db) != before
        assert contents(catalog.db) == before


def test_copy_leaves_an_index_that_cannot_be_written_as_it_is(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*library())
    before = contents(catalog.db)
    with hidden(catalog) as left:
        assert contents(left.db) != before
    assert contents(catalog.db) == before


def test_sample_lies_evenly_over_the_scenarios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdout, "SAMPLE", 100)
    lines = [f"Scenario of number {number}" for number in range(1, 351)]
    with open_in_memory([make_fragment(f"f{at:03}", *lines[at : at + 50]) for at in range(0, 350, 50)]) as catalog:
        assert [one.text for one in HeldOut(catalog).sample()] == lines[::3]


def test_sample_of_a_small_library_is_all_of_its_scenarios(make_index: MakeIndex) -> None:
    held_out = HeldOut(make_index(*subjects()))
    assert held_out.sample() == held_out.scenarios()
    assert len(held_out.scenarios()) == 60
    assert HeldOut(make_index()).sample() == []


def test_several_processes_measure_what_one_does(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*subjects()[:9])
    with HeldOut.copy(catalog) as one, HeldOut.copy(catalog) as other:
        assert measure_least_coverage(one.catalog, catalog.path) == measure_least_coverage(other.catalog)


def test_hidden_scenario_no_longer_finds_its_fragment(make_index: MakeIndex) -> None:
    catalog = make_index(*library())
    found = answer(catalog, "retrying flaky", min_score=0)
    assert [candidate.name for candidate in found.candidates] == ["uploads"]
    with hidden(catalog) as left:
        assert answer(left, "retrying flaky", min_score=0).candidates == ()


def subjects() -> list[Fragment]:
    """Return thirty fragments on a subject each, with two scenarios that share words with their names."""
    return [
        make_fragment(name, *lines.split("; "), title=name.replace("-", " ").title(), tags=tuple(name.split("-")))
        for name, lines in SUBJECTS.items()
    ]


@pytest.fixture(scope="module")
def calibrated() -> Iterator[tuple[Catalog, float]]:
    """Return the index of thirty subjects, and what an answer of it must cover."""
    with open_in_memory(subjects()) as catalog:
        yield catalog, measure_least_coverage(catalog)


def test_least_coverage_is_the_least_that_answers_one_in_50_requests_of_other_fields(
    calibrated: tuple[Catalog, float],
) -> None:
    catalog, least = calibrated
    reached = [find(catalog, MatchRequest(text)).coverage for text in foreign_requests()]
    assert sum(coverage >= least for coverage in reached) <= 4 < sum(coverage >= least - 0.001 for coverage in reached)
    assert len(reached) == 200


def reached_by_own_scenarios(catalog: Catalog) -> list[float]:
    """Return how much of each scenario the answer covers that is found without it."""
    held_out, reached = HeldOut(catalog), []
    for one in held_out.scenarios():
        with held_out.without(one):
            reached.append(answer(catalog, one.text).coverage)
    return reached


def test_least_coverage_lies_below_most_scenarios_that_the_index_was_not_told(
    calibrated: tuple[Catalog, float],
) -> None:
    catalog, least = calibrated
    reached = reached_by_own_scenarios(catalog)
    assert len(reached) == 60
    assert sum(coverage < least for coverage in reached) <= len(reached) * 0.05


def test_few_scenarios_are_refused_in_a_library_of_a_field_that_counts_as_foreign() -> None:
    fragments = [*subjects(), make_fragment("foreign", body="\n".join(foreign_requests()))]
    with open_in_memory(fragments) as catalog:
        least = measure_least_coverage(catalog)
        reached = [find(catalog, MatchRequest(text)).coverage for text in foreign_requests()]
        assert sum(coverage >= least for coverage in reached) > len(reached) * 0.25  # of other libraries .02
        assert sum(coverage < least for coverage in reached_by_own_scenarios(catalog)) <= 60 * 0.05


def test_least_coverage_is_the_same_every_time_and_measuring_changes_nothing(
    calibrated: tuple[Catalog, float],
) -> None:
    with open_in_memory(subjects()[::-1]) as again:
        before = contents(again.db)
        assert measure_least_coverage(again) == calibrated[1]
        assert contents(again.db) == before


@pytest.mark.parametrize(
    "fragments",
    [
        [],
        [make_fragment("a", LINE)],
        [make_fragment(f"s{number}", LINE) for number in range(9)],
        [make_fragment("all", body="\n".join(foreign_requests()))],
        [make_fragment("all", *foreign_requests()[:20])],
    ],
)
def test_least_coverage_keeps_its_bounds_however_odd_the_library(fragments: list[Fragment]) -> None:
    with open_in_memory(fragments) as catalog:
        assert 0.1 <= measure_least_coverage(catalog) <= 0.54


def test_single_misspelt_word_stands_in_the_strictest_library(make_catalog: MakeCatalog) -> None:
    fragments = [make_fragment(word, title=word, tags=(word,)) for word in ("kubernetes", "terraform", "postgres")]
    catalog = make_catalog(*fragments, *(make_fragment(f"other{n}") for n in range(9)), least_coverage=0.54)
    found = find(catalog, MatchRequest("kuberentes"))
    assert (found.confident, found.candidates[0].id) == (True, "skills/kubernetes")
