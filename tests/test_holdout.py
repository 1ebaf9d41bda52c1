"""Hiding a scenario from its own index, and the share of a request that an answer must cover to stand."""

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from statistics import mean
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import open_in_memory
from support import MakeCatalog, make_fragment

from orchestr8_sqlite import holdout
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.holdout import NEAR_BEST, WRONG_ANSWER, HeldOut, measure_least_coverage, threshold_between
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import LookupResult, MatchRequest
from orchestr8_sqlite.tiers.expansion import Form, Reading, Word
from orchestr8_sqlite.tiers.holders import Evidence, Holders
from orchestr8_sqlite.wordlists import foreign_requests

LINE = "Retrying flaky uploads"
TABLES = ("fragment", "fragment_body", "scenario", "term", "evidence", "body_evidence", "topic", "meta")

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


def evidence(holders: Holders, path: str = "skills/uploads") -> dict[str, Evidence]:
    """Return what a fragment holds of each term of the index."""
    (id_,) = holders.db.execute("SELECT id FROM fragment WHERE path = ?", (path,)).fetchone()
    words = [Word(stem, stem, 1, 1.0, False) for (stem,) in holders.db.execute("SELECT stem FROM term ORDER BY 1")]
    forms = tuple(Form(word, word.text, "exact", word.stem, word.fragment_count, word.rarity, 1.0) for word in words)
    reading = Reading(tuple(words), forms, size=1000)
    holders.read(reading)
    return {form.stem: held for form in forms for _, held in holders.held(form, reading, [id_])}


def hidden(catalog: Catalog, text: str = LINE) -> Holders:
    """Return the lists of an index without the first scenario of that text."""
    held_out = HeldOut(catalog)
    return held_out.without(next(one for one in held_out.scenarios() if one.text == text))


def answer(catalog: Catalog, query: str, holders: Holders, **options: object) -> LookupResult:
    return find(catalog, MatchRequest(query, **options), quick=False, holders=holders)  # type: ignore[arg-type]


def contents(db: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


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
    make_catalog: MakeCatalog, texts: dict[str, object]
) -> None:
    expected = evidence(Holders(make_catalog(*library(texts, hidden=True)).db))
    catalog = make_catalog(*library(texts))
    assert evidence(Holders(catalog.db)) != expected
    assert evidence(hidden(catalog)) == expected


def test_words_of_a_hidden_line_that_stand_elsewhere_keep_their_fields(make_catalog: MakeCatalog) -> None:
    texts: dict[str, object] = {"tags": ("uploads",), "body": "Flaky networks."}
    left = evidence(hidden(make_catalog(*library(texts))))
    tag, other_scenario, name, body_alone = 1, 4, 32, 0
    assert left["upload"].fields == tag + other_scenario + name
    assert left["flaki"].fields == body_alone
    assert "retri" not in left


@pytest.mark.parametrize(
    ("line", "body", "kept"),
    [
        ("Go", "Good algorithms, long ago.", ["good", "algorithm"]),
        ("Go", "go! (GO)", []),
        ("Retrying flaky uploads", "Why retrying\n  flaky uploads fails.", ["fail"]),
        ("再試行", "再試行する", []),
    ],
)
def test_line_is_hidden_in_any_case_and_wrapping_but_not_inside_words(
    make_catalog: MakeCatalog, line: str, body: str, kept: list[str]
) -> None:
    rest = [make_fragment(f"other-{number}") for number in range(9)]
    catalog = make_catalog(make_fragment("a", line, title="", body=body), *rest)
    left = evidence(hidden(catalog, line), "skills/a").keys()
    assert left >= set(kept)
    assert not left & {"go", "retri", "flaki", "upload", "再試", "試行"}


def test_hidden_title_teaches_nothing(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*library({"title": "LINE"}), make_fragment("z-twin", title=LINE))
    numbers = {name: id_ for id_, name in catalog.db.execute("SELECT id, name FROM fragment")}
    topics = hidden(catalog).topics([numbers["uploads"], numbers["z-twin"]])
    assert {number: set(stems) for number, stems in topics.items()} == {
        numbers["uploads"]: {"upload"},
        numbers["z-twin"]: {"twin", "retri", "flaki", "upload"},
    }


def test_other_fragments_are_untouched_while_a_line_is_hidden(make_catalog: MakeCatalog) -> None:
    twin = make_fragment("z-twin", LINE, "Sending uploads again", description=LINE, body=LINE)
    catalog = make_catalog(*library({"description": "LINE"}), twin)
    paths = [path for (path,) in catalog.db.execute("SELECT path FROM fragment")]
    holders, altered = Holders(catalog.db), hidden(catalog)
    changed = [path for path in paths if evidence(altered, path) != evidence(holders, path)]
    assert changed == ["skills/uploads"]


def test_hiding_lines_leaves_the_index_as_it_was(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*library({"description": "LINE", "body": "LINE"}))
    before, held_out = contents(catalog.db), HeldOut(catalog)
    own = evidence(Holders(catalog.db))
    for one in held_out.scenarios():
        answer(catalog, one.text, held_out.without(one))
    assert contents(catalog.db) == before
    assert evidence(Holders(catalog.db)) == own


def test_sample_lies_evenly_over_the_scenarios_whatever_their_numbers(make_catalog: MakeCatalog) -> None:
    lines = [f"Scenario of number {number}" for number in range(1, 351)]
    catalog = make_catalog(*(make_fragment(f"f{at}", *lines[at : at + 50]) for at in range(0, 350, 50)))
    assert [one.text for one in HeldOut(catalog).sample()] == lines[::3]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        catalog.db.backup(db)
        db.execute("DELETE FROM scenario WHERE id BETWEEN 2 AND 8 OR id > 200")
        db.execute("UPDATE scenario SET id = 700 WHERE id = 200")
        sample = [one.text for one in HeldOut(Catalog(db, catalog.path, (0, 0, 0))).sample()]
    assert sample == [lines[0], lines[8], *lines[14:199:7], lines[199]]


def test_sample_of_a_small_library_is_all_of_its_scenarios(make_catalog: MakeCatalog) -> None:
    held_out = HeldOut(make_catalog(*subjects()))
    assert held_out.sample() == held_out.scenarios()
    assert HeldOut(make_catalog()).sample() == []


def test_one_process_measures_what_several_do_and_each_time_the_rest_is_done_once(
    make_catalog: MakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdout, "SAMPLE", 8)
    catalog = make_catalog(*subjects()[:9])
    done: list[str] = []
    alone = measure_least_coverage(catalog, lambda: done.append("alone"))
    monkeypatch.setattr(holdout, "LARGE", 9)
    assert measure_least_coverage(catalog, lambda: done.append("in several")) == alone
    assert done == ["alone", "in several"]


def test_hidden_scenario_no_longer_finds_its_fragment(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*library())
    found = answer(catalog, "retrying flaky", Holders(catalog.db), min_score=0)
    assert [candidate.name for candidate in found.candidates] == ["uploads"]
    assert answer(catalog, "retrying flaky", hidden(catalog), min_score=0).candidates == ()


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


def test_least_coverage_lies_above_most_requests_of_other_fields(calibrated: tuple[Catalog, float]) -> None:
    catalog, least = calibrated
    reached = [find(catalog, MatchRequest(text)).coverage for text in foreign_requests()]
    assert sum(coverage >= least for coverage in reached) <= len(reached) * 0.05


def reached_by_own_scenarios(catalog: Catalog) -> list[float]:
    """Return how much of each scenario the answer covers that is found without it."""
    held_out = HeldOut(catalog)
    return [answer(catalog, one.text, held_out.without(one)).coverage for one in held_out.scenarios()]


def test_least_coverage_lies_below_most_scenarios_that_the_index_was_not_told(
    calibrated: tuple[Catalog, float],
) -> None:
    catalog, least = calibrated
    reached = reached_by_own_scenarios(catalog)
    assert len(reached) == 60
    assert sum(coverage < least for coverage in reached) <= len(reached) * 0.05


def test_threshold_lies_in_the_middle_between_samples_that_do_not_meet() -> None:
    assert threshold_between([0.1, 0.2], [0.6, 0.9]) == pytest.approx(0.4)
    assert threshold_between([0.1] * 90 + [0.5] * 10, [0.6] * 100) == pytest.approx(0.55)
    assert threshold_between([0.1] * 300 + [0.5, 0.7], [0.6] * 9) == pytest.approx(0.35)  # two of 302 are let pass
    assert threshold_between([0.1, 0.2], []) == pytest.approx(0.2)


SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(below=SHARES, above=SHARES)
def test_no_threshold_makes_far_fewer_mistakes_than_the_middle_of_the_best(
    below: list[float], above: list[float]
) -> None:
    def mistakes(value: float) -> float:
        return WRONG_ANSWER * mean(one >= value for one in below) + mean(one < value for one in above)

    ends = sorted({*below, *above, math.nextafter(max(below), 2)})
    least = min(map(mistakes, ends))
    good = [end for end in ends if mistakes(end) <= least + NEAR_BEST + 1e-9]
    start = max((end for end in ends if end < good[0]), default=ends[0])
    assert threshold_between(below, above) == pytest.approx((start + good[-1]) / 2)


def test_few_scenarios_are_refused_however_badly_the_samples_can_be_told_apart(
    calibrated: tuple[Catalog, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdout, "threshold_between", lambda *_: 1.0)
    catalog, _ = calibrated
    least = measure_least_coverage(catalog)
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
        assert 0.1 <= measure_least_coverage(catalog) <= 0.6
