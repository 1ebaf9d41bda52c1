"""Tier order, thresholds, and what an answer says about words that nothing fits."""

import difflib
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

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
from support import (
    GARDENING,
    Invoke,
    MakeCatalog,
    MakeLibrary,
    build,
    make_fragment,
    markdown,
    needs_sqlite_shell,
    write_files,
)

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Ranker, Statement, Tier
from orchestr8_sqlite.ranking.lookup import find, may_be_alike
from orchestr8_sqlite.text.wordlists import Synonym

CLASSIC = Ranker.CLASSIC


def ids(result: LookupResult) -> list[str]:
    return [candidate.id for candidate in result.candidates]


def without_numbers(result: LookupResult) -> LookupResult:
    """Return *result* without the numbers of its fragments, which go by the order that they were read in."""
    return result._replace(candidates=tuple(c._replace(fragment_id=0) for c in result.candidates))


def test_precomputed_answer_comes_before_the_index(make_library: MakeLibrary) -> None:
    root = make_library({f"skills/s{n}.md": markdown("title: S\nuseWhen: [Adding retry]") for n in range(3)})
    with Catalog.open(build(root, root.parent / "index.db")) as catalog:
        assert find(catalog, MatchRequest("retry")).tier is Tier.QUICK
        assert find(catalog, MatchRequest("retry"), quick=False).tier is Tier.INDEX


@pytest.mark.parametrize("ranker", list(Ranker))
def test_two_matching_fragments_are_enough_for_the_index(make_catalog: MakeCatalog, ranker: Ranker) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry"),
        make_fragment("b", "Removing retry"),
        *(make_fragment(f"other{n}", "Something else") for n in range(4)),
    )
    found = find(catalog, MatchRequest("retry", ranker=ranker))
    assert (found.tier, ids(found), found.total) == (Tier.INDEX, ["skills/a", "skills/b"], 2)


def test_two_scenarios_of_one_fragment_are_not_enough(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", "Removing retry"), make_fragment("b", tags=("retrying",)))
    found = find(catalog, MatchRequest("retry", ranker=CLASSIC))
    assert (found.tier, ids(found)) == (Tier.FUZZY, ["skills/b", "skills/a"])


def test_threshold_counts_what_the_filters_leave(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry"), make_fragment("b", "Adding retry", category="agent"))
    found = find(catalog, MatchRequest("retry", categories=("agent",), ranker=CLASSIC))
    assert (found.tier, ids(found)) == (Tier.FUZZY, ["agents/b"])


def test_answer_with_all_that_have_the_tags_is_not_widened(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", tags=("net",)),
        make_fragment("b", "Adding retryable calls", tags=("net",)),
        make_fragment("c", "Adding retry", tags=("rare",)),
    )
    assert find(catalog, MatchRequest("retry", tags=("rare",))).tier is Tier.INDEX
    widened = find(catalog, MatchRequest("retry", tags=("net",)))
    assert (widened.tier, ids(widened)) == (Tier.FUZZY, ["skills/a", "skills/b"])


def test_limit_does_not_make_a_sufficient_answer_insufficient(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*(make_fragment(name, "Adding retry") for name in "abc"))
    found = find(catalog, MatchRequest("retry", max_results=1, ranker=CLASSIC))
    assert (found.tier, ids(found), found.total) == (Tier.INDEX, ["skills/a"], 3)


@pytest.mark.parametrize("ranker", list(Ranker))
@pytest.mark.parametrize(
    "options", [{}, {"categories": ("skill",)}, {"tags": ("api",)}, {"categories": ("skill",), "min_score": 0.0}]
)
def test_nonsense_gets_nothing(make_catalog: MakeCatalog, ranker: Ranker, options: dict[str, object]) -> None:
    catalog = make_catalog(*(make_fragment(name, "Adding retry", tags=("api",)) for name in "abc"))
    found = find(catalog, MatchRequest("xyzabc qwrtzp", ranker=ranker, **options))  # type: ignore[arg-type]
    assert (found.candidates, found.total, found.uncovered) == ((), 0, ("xyzabc", "qwrtzp"))


@pytest.mark.parametrize("query", ["what is the", "???", "how do I do this"])
def test_query_without_a_keyword_gets_nothing(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry"), make_fragment("b", "What is the retry"))
    found = find(catalog, MatchRequest(query, min_score=0))
    assert (found.candidates, found.keywords, found.uncovered) == ((), (), ())


@pytest.mark.parametrize("ranker", list(Ranker))
def test_whole_stack_trace_is_answered_by_its_rarest_words(make_catalog: MakeCatalog, ranker: Ranker) -> None:
    catalog = make_catalog(
        make_fragment("pool", "Hikari connection pool exhausted", "Finding a leaked connection"),
        make_fragment("deadlock", "Two transactions deadlock", "A connection pool behind a proxy"),
        *(make_fragment(f"worker{n}", f"Thread {n} of a worker", "Runner of a task") for n in range(40)),
    )
    frames = "".join(f"\n  at com.shop.worker.Task.run(Thread.java:{n})" for n in range(1000))
    trace = f"{frames}\nSQLTransientException: hikari pool exhausted, connection is not available{frames[:9000]}"
    assert ids(find(catalog, MatchRequest(trace, ranker=ranker)))[0] == "skills/pool"


def test_words_that_stand_nowhere_are_named_and_inflections_are_not(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Retrying failed calls"), make_fragment("b", body="How retries work in Terraform.")
    )
    found = find(catalog, MatchRequest("retry terraform cobol fortran", min_score=0))
    assert found.uncovered == ("cobol", "fortran")


def test_nearest_tags_are_named_where_nothing_fits(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", tags=("postgresql", "indexes")), make_fragment("b", tags=("kubernetes", "helm"))
    )
    found = find(catalog, MatchRequest("postgressqll"))
    assert (found.candidates, found.nearest_tags) == ((), ("postgresql",))


@settings(max_examples=300)
@given(st.text("abcdeé", min_size=1, max_size=9), st.text("abcdeé", min_size=1, max_size=9), st.floats(0.3, 1))
def test_tags_left_out_before_they_are_compared_are_not_alike(word: str, tag: str, cutoff: float) -> None:
    if difflib.SequenceMatcher(None, tag, word).ratio() >= cutoff:
        assert may_be_alike(word, tag, cutoff)


def test_no_tags_are_suggested_where_something_fits(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("retry",)), make_fragment("b", tags=("retries",)))
    assert find(catalog, MatchRequest("retry", ranker=CLASSIC)).nearest_tags == ()


def test_typo_in_a_request_that_is_otherwise_understood_is_repaired(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Deploying to Kubernetes", tags=("kubernetes",)),
        *(make_fragment(f"other{n}", "Something else") for n in range(3)),
    )
    found = find(catalog, MatchRequest("kuberntes deploying"))
    assert (ids(found), found.read_as, found.uncovered) == (["skills/a"], {"kuberntes": "kubernetes"}, ())


def test_one_lucky_neighbour_makes_no_sense_of_nonsense(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry"), make_fragment("b", "Removing retry"))
    assert ids(find(catalog, MatchRequest("retrx qqwwq zzyzx vvkkv"))) == []


def test_classic_ranker_repairs_nothing(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry"), make_fragment("b", "Removing retry"))
    assert ids(find(catalog, MatchRequest("retrx", ranker=CLASSIC))) == []


def test_candidates_carry_their_tags_and_capabilities_in_the_authors_order(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", tags=("z", "a"), capabilities=("Second to none", "Also that")),
        make_fragment("b", "Adding retry"),
    )
    first, second = find(catalog, MatchRequest("retry", ranker=CLASSIC)).candidates
    assert (first.tags, first.capabilities) == (("z", "a"), ("Second to none", "Also that"))
    assert (second.tags, second.capabilities) == ((), ())


@settings(max_examples=25)
@given(
    library=with_twins(libraries()),
    asked=st.lists(st.tuples(queries(), filters(), st.sampled_from(list(Ranker))), min_size=2, max_size=6),
)
def test_answer_depends_on_nothing_but_index_and_request(
    library: list[Fragment], asked: list[tuple[str, dict[str, object], Ranker]]
) -> None:
    requests = [MatchRequest(query, ranker=ranker, **options) for query, options, ranker in asked]  # type: ignore[arg-type]
    with open_in_memory(library) as one, open_in_memory(list(reversed(library))) as other:
        forwards = [without_numbers(find(one, request)) for request in requests]
        backwards = [without_numbers(find(other, request)) for request in reversed(requests)]
    assert forwards == backwards[::-1]


@settings(max_examples=25)
@given(library=libraries(), query=queries(), options=filters(), ranker=st.sampled_from(list(Ranker)))
def test_every_candidate_passes_the_filters_and_has_a_row_of_its_own(
    library: list[Fragment], query: str, options: dict[str, object], ranker: Ranker
) -> None:
    request = MatchRequest(query, ranker=ranker, **options)  # type: ignore[arg-type]
    with open_in_memory(library) as catalog:
        found = find(catalog, request)
    assert len({candidate.uri for candidate in found.candidates}) == len(found.candidates) <= request.max_results
    assert found.total >= len(found.candidates)
    for candidate in found.candidates:
        assert candidate.score >= request.min_score
        assert set(request.tags) <= set(candidate.tags)
        assert not request.categories or candidate.category in request.categories


def test_answer_that_covers_too_little_names_what_is_missing_and_the_nearest_tags(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry"),
        make_fragment("b", "Removing retry", tags=("fortress",)),
        *(make_fragment(f"other{n}", "Something else") for n in range(4)),
        least_coverage=0.5,
    )
    found = find(catalog, MatchRequest("retry fortran cobol"))
    assert (found.confident, ids(found), found.total) == (False, ["skills/a", "skills/b"], 2)
    assert (found.uncovered, found.nearest_tags) == (("fortran", "cobol"), ("fortress",))


@pytest.mark.parametrize(("least", "stands"), [(0.32, True), (0.33, False)])
def test_answer_stands_from_the_least_coverage_on(make_catalog: MakeCatalog, least: float, stands: bool) -> None:
    """By the definition of rarity, "retry" in 1 of 3 fragments weighs ln(1 + 2.5/1.5), an unknown word ln(1 + 3.5/.5).

    The first is .3205 of both.
    """
    library = (make_fragment("a", tags=("retry",)), make_fragment("b"), make_fragment("c"))
    found = find(make_catalog(*library, least_coverage=least), MatchRequest("retry cobol"))
    assert found.coverage == pytest.approx(0.3205, abs=0.001)
    assert found.confident == stands


def test_word_in_the_body_alone_is_half_covered(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", body="How to retry."), *(make_fragment(name) for name in "bcde"))
    assert find(catalog, MatchRequest("retry")).coverage == 0.5


def test_body_is_looked_at_only_if_the_short_texts_cover_too_little(make_catalog: MakeCatalog) -> None:
    library = (make_fragment("a", tags=("retry",), body="With jitter."), *(make_fragment(name) for name in "bcde"))
    short, whole = (
        find(make_catalog(*library, least_coverage=one), MatchRequest("retry jitter")) for one in (0.5, 0.6)
    )
    assert (short.coverage, short.confident) == (0.5, True)
    assert (whole.coverage, whole.confident) == (0.75, True)


def test_request_with_more_words_than_matter_is_covered_by_six_rare_ones(make_catalog: MakeCatalog) -> None:
    words = "retry backoff jitter timeout cache circuit".split()
    catalog = make_catalog(*(make_fragment(name, tags=tuple(words)) for name in "ab"), *map(make_fragment, "cdefghij"))
    whole = find(catalog, MatchRequest(" ".join(words)))
    longer = find(catalog, MatchRequest(" ".join([*words, "cobol"])))
    assert whole.coverage == 1.0
    assert 0.6 < longer.coverage < 1.0
    assert longer.uncovered == ("cobol",)


def test_everyday_words_are_neither_missed_nor_named(make_catalog: MakeCatalog) -> None:
    others = (make_fragment(f"other{n}", "Something else") for n in range(4))
    catalog = make_catalog(make_fragment("a", tags=("retry",)), *others, least_coverage=0.7)
    found = find(catalog, MatchRequest("please help me find a good retry"))
    assert (found.confident, ids(found)) == (True, ["skills/a"])
    weak = find(catalog, MatchRequest("please help me find a good retry in cobol"))
    assert (weak.confident, weak.uncovered) == (False, ("cobol",))


def test_answer_is_judged_by_what_the_filters_leave(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry with backoff"),
        make_fragment("b", "Adding retry", category="agent"),
        *(make_fragment(f"other{n}", "Something else") for n in range(4)),
        least_coverage=0.6,
    )
    assert find(catalog, MatchRequest("retry backoff")).confident
    filtered = find(catalog, MatchRequest("retry backoff", categories=("agent",)))
    assert (filtered.confident, ids(filtered), filtered.uncovered) == (False, ["agents/b"], ("backoff",))


@settings(max_examples=25)
@given(library=libraries(), query=queries(), options=filters())
def test_classic_ranker_is_never_judged(library: list[Fragment], query: str, options: dict[str, object]) -> None:
    request = MatchRequest(query, ranker=CLASSIC, **options)  # type: ignore[arg-type]
    with open_in_memory(library) as catalog:
        catalog.meta = {**catalog.meta, "least_coverage": "1.0"}
        assert find(catalog, request).confident


@settings(max_examples=25)
@given(library=libraries(), query=queries(), options=filters())
def test_judging_and_explaining_change_no_ranking(
    library: list[Fragment], query: str, options: dict[str, object]
) -> None:
    request = MatchRequest(query, **options)  # type: ignore[arg-type]
    with open_in_memory(library) as catalog:
        plain = find(catalog, request)
        catalog.meta = {**catalog.meta, "least_coverage": "1.0"}
        judged = find(catalog, request._replace(explain=True))
    assert (judged.candidates, judged.total, judged.tier) == (plain.candidates, plain.total, plain.tier)
    assert judged.coverage == plain.coverage
    assert judged.confident == (judged.coverage == 1.0 and judged.candidates != ())
    assert set(judged.parts) == {candidate.fragment_id for candidate in judged.candidates}


@settings(max_examples=50)
@given(library=libraries(), query=queries())
def test_answer_that_covers_as_much_as_is_asked_for_stands(library: list[Fragment], query: str) -> None:
    """The bound that a build measures is a coverage as it is printed."""
    with open_in_memory(library) as catalog:
        printed = find(catalog, MatchRequest(query)).coverage
        catalog.meta = {**catalog.meta, "least_coverage": str(printed)}
        found = find(catalog, MatchRequest(query))
    assert found.confident == bool(found.candidates)


# The statements that an answer names


def ran(db: sqlite3.Connection, statement: Statement) -> str:
    """Return what SQLite says that it runs where it runs *statement*: its SQL with its parameters."""
    seen: list[str] = []
    db.set_trace_callback(seen.append)
    db.execute(statement.sql, statement.parameters).fetchall()
    db.set_trace_callback(None)
    return next(sql for sql in seen if is_ranking(sql))


def is_ranking(sql: str) -> bool:
    """Tell statements that find fragments from those that look up words and lists."""
    return sql.lstrip().startswith("WITH")


@settings(max_examples=60)
@given(
    library=with_twins(libraries() | topical_libraries()),
    asked=with_synonyms(queries() | topical_queries()),
    options=filters(),
    ranker=st.sampled_from(list(Ranker)),
    explain=st.booleans(),
)
def test_statements_of_an_answer_are_what_ran_and_have_its_rows(
    library: list[Fragment],
    asked: tuple[str, tuple[Synonym, ...]],
    options: dict[str, object],
    ranker: Ranker,
    explain: bool,
) -> None:
    query, lines = asked
    request = MatchRequest(query, ranker=ranker, explain=explain, **options)  # type: ignore[arg-type]
    seen: list[str] = []
    with open_in_memory(library) as catalog:
        write_synonyms(catalog.db, lines)
        catalog.db.set_trace_callback(seen.append)
        result = find(catalog, request, quick=False)
        catalog.db.set_trace_callback(None)
        named = [ran(catalog.db, statement) for statement in result.statements]
        rows = catalog.db.execute(result.statements[0].sql, result.statements[0].parameters).fetchall()
    ranking = [sql for sql in seen if is_ranking(sql)]
    assert len(named) == (2 if explain and ranker is Ranker.DEFAULT else 1)
    if ranker is Ranker.DEFAULT or result.tier is Tier.FUZZY:
        assert ranking[-len(named) :] == named
    else:
        assert ranking[: len(named)] == named
    if ranker is Ranker.DEFAULT or result.tier is not Tier.FUZZY:
        assert [(row[1], row[6], row[7]) for row in rows] == [(c.uri, c.score, c.scenario) for c in result.candidates]
        assert {row[8] for row in rows} <= {result.total}
    else:
        assert {row[1] for row in rows} >= {c.uri for c in result.candidates}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of four skills beside a garden."""
    folder = tmp_path_factory.mktemp("shown")
    files = {
        "skills/pg.md": markdown("title: PostgreSQL\ntags: [sql]\nuseWhen: [Tuning PostgreSQL, 'It''s \"slow\"']"),
        "skills/retry.md": markdown("tags: [retry]\nuseWhen: [Adding retry]", "# Retry\n\nJitter, and node.js.\n"),
        "skills/breaker.md": markdown("tags: [retry, it's]\nuseWhen: [Stopping retries; really]"),
        "agents/müller.md": markdown("useWhen: [再試行 of c++ builds]"),
    }
    return build(write_files(folder / "library", {**files, **GARDENING}), folder / "index.db")


@needs_sqlite_shell
@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("ranker", list(Ranker))
@pytest.mark.parametrize(
    ("query", "options", "tier"),
    [
        ("pruning", {"max_results": 3}, Tier.QUICK),
        ("retry jitter", {}, Tier.INDEX),
        ("retry", {"categories": ("skill",), "tags": ("retry",)}, Tier.INDEX),
        ("it's \"slow\" -- DROP TABLE meta; 'sql'", {}, Tier.FUZZY),
        ("retry", {"tags": ("it's",)}, Tier.INDEX),
        ("pos", {"tags": ("it's",)}, Tier.FUZZY),
        ("postgre", {}, Tier.FUZZY),
        ("再試行 c++ müller", {"min_score": 0.5}, Tier.FUZZY),
        ("zzyzx", {}, Tier.FUZZY),
        ("slow calls", {"terms": "circuit breaker, retry it's"}, Tier.INDEX),
    ],
)
def test_printed_sql_has_the_rows_of_the_answer_in_the_sqlite_shell(
    invoke: Invoke, index: Path, query: str, options: dict[str, object], tier: Tier, ranker: Ranker, explain: bool
) -> None:
    terms = tuple(filter(None, str(options.get("terms", "")).split(", ")))
    request = MatchRequest(query, ranker=ranker, explain=explain)._replace(**{**options, "terms": terms})  # type: ignore[arg-type]
    with Catalog.open(index) as catalog:
        result = find(catalog, request)
        assert explain or ranker is Ranker.CLASSIC or result.tier is tier
        expected = [catalog.db.execute(one.sql, one.parameters).fetchall() for one in result.statements]
    _, sql, _ = invoke(
        "search", query, "--db", index, "--ranker", ranker.value, "--sql", *flags_of(options, explain=explain)
    )
    shell = [shutil.which("sqlite3") or "", "-readonly", "-json", str(index)]
    printed = subprocess.run(shell, input=sql, capture_output=True, text=True, check=True, encoding="utf-8")
    assert printed.stderr == ""
    found = [[tuple(row.values()) for row in rows] for rows in json_values(printed.stdout)]
    wanted = [rows for rows in expected if rows]  # the shell prints nothing where there is no row
    assert [list(map(printed_row, rows)) for rows in found] == [list(map(printed_row, rows)) for rows in wanted]


def flags_of(options: Mapping[str, object], *, explain: bool) -> list[str]:
    """Return the options of a request as they are given to `search`."""
    named = {"categories": "-c", "tags": "-t", "terms": "--terms"}
    named |= {"min_score": "--min-score", "max_results": "--max-results"}
    flags = ["--explain"] if explain else []
    for name, value in options.items():
        for one in value if isinstance(value, tuple) else (value,):
            flags += [named[name], str(one)]
    return flags


def printed_row(row: Iterable[object]) -> list[object]:
    """Return a row with as many digits of its numbers as the shell prints surely."""
    return [float(f"{value:.12g}") if isinstance(value, float) else value for value in row]


def json_values(text: str) -> list[list[dict[str, object]]]:
    """Return the values that stand behind each other in *text*."""
    values, decoder = [], json.JSONDecoder()
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        values.append(value)
        text = text.lstrip()[end:]
    return values
