"""Measures of ranked answers: worked by hand, and equal to an independent scorer on real judgements."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support import (
    GARDENING,
    SHARED,
    CorpusIndex,
    MakeCatalog,
    MakeLibrary,
    build,
    make_fragment,
    markdown,
    needs_shared,
    rows,
)
from typer.testing import CliRunner

from orchestr8_sqlite.cli.app import make_app
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.evaluation.failures import find_failures
from orchestr8_sqlite.evaluation.judgements import JudgedQuery, document_names, present_only, read_qrels, read_queries
from orchestr8_sqlite.evaluation.measures import (
    RunReport,
    StratumScore,
    bootstrap_interval,
    exceeded_bounds,
    false_answers,
    false_refusals,
    format_run,
    run_queries,
    run_self,
    score_run,
    unmet_bounds,
)
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import Ranker

QUERIES = [
    JudgedQuery("q1", "retry", "kw"),
    JudgedQuery("q2", "cache", "nl"),
    JudgedQuery("q3", "bread", "none"),
]
QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"d": 1}}


def report(run: dict[str, list[tuple[str, float]]], weak: Iterable[str] = ()) -> RunReport:
    return RunReport(run, frozenset(weak), 1.0, 1.0, 1.0)


def scores(run: dict[str, list[tuple[str, float]]]) -> dict[str, StratumScore]:
    return {score.stratum: score for score in score_run(QUERIES, QRELS, run)}


def test_measures_of_a_ranking_worked_by_hand() -> None:
    found = scores({"q1": [("c", 9.0), ("b", 8.0), ("a", 7.0)], "q2": [("d", 1.0)]})
    gained = 1 / math.log2(3) + 2 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    kw = found["kw"].means
    assert kw["nDCG@10"] == pytest.approx(gained / ideal)
    assert (kw["MRR@10"], kw["recall@5"], kw["success@1"]) == (0.5, 1.0, 0.0)
    assert set(found["nl"].means.values()) == {1.0}
    assert found["ALL"].means["MRR@10"] == 0.75
    assert (found["ALL"].queries, "none" in found) == (2, False)


def test_query_without_an_answer_counts_nothing() -> None:
    assert set(scores({"q1": [("a", 1.0)]})["nl"].means.values()) == {0.0}


def test_best_grade_is_asked_of_the_first_result() -> None:
    assert scores({"q1": [("b", 2.0), ("a", 1.0)]})["kw"].means["success@1"] == 0.0
    assert scores({"q1": [("a", 2.0), ("b", 1.0)]})["kw"].means["success@1"] == 1.0


def test_false_answers_are_those_to_queries_that_nothing_fits() -> None:
    assert false_answers(QUERIES, report({"q3": [("a", 1.0)]})) == 1.0
    assert false_answers(QUERIES, report({"q3": [("a", 1.0)]}, weak={"q3"})) == 0.0
    assert false_answers(QUERIES, report({"q3": []})) == 0.0
    assert false_answers(QUERIES[:2], report({})) is None


def test_false_refusals_are_answerable_queries_without_an_answer_that_stands() -> None:
    assert false_refusals(QUERIES, report({"q1": [("a", 1.0)], "q2": [("d", 1.0)]})) == 0.0
    assert false_refusals(QUERIES, report({"q1": [("a", 1.0)], "q2": [("d", 1.0)]}, weak={"q2", "q3"})) == 0.5
    assert false_refusals(QUERIES, report({"q1": [("a", 1.0)]})) == 0.5


def test_bounds_are_compared_with_the_means_of_all_queries() -> None:
    found = score_run(QUERIES, QRELS, {"q1": [("c", 9.0), ("b", 8.0), ("a", 7.0)], "q2": [("d", 1.0)]})
    assert unmet_bounds(["mrr@10=0.75", "Recall@5 = 1"], found) == []
    assert unmet_bounds(["success@1=0.6", "recall@15=0.2"], found) == ["success@1 is 0.500, below 0.6"]


def test_a_bound_may_be_for_the_queries_of_one_stratum() -> None:
    found = score_run(QUERIES, QRELS, {"q1": [("a", 9.0)], "q2": [("x", 1.0)]})
    assert unmet_bounds(["kw:success@1=1", "KW:MRR@10=1"], found) == []
    assert unmet_bounds(["nl:success@1=0.5", "success@1=0.6"], found) == [
        "success@1 of nl is 0.000, below 0.5",
        "success@1 is 0.500, below 0.6",
    ]


@pytest.mark.parametrize("bound", ["recall@5", "recall@5=high"])
def test_bound_without_a_number_is_answered_with_an_example(bound: str) -> None:
    with pytest.raises(RequestError, match=r"--fail-under wants a name, = and a number, such as recall@5=0\.9"):
        unmet_bounds([bound], score_run(QUERIES, QRELS, {}))


@pytest.mark.parametrize("bound", ["recall@7=0.5", "=0.5", "kw:=1"])
def test_bound_of_an_unknown_measure_is_answered_with_the_measures_there_are(bound: str) -> None:
    with pytest.raises(RequestError, match=r"knows no measure .* ndcg@10"):
        unmet_bounds([bound], score_run(QUERIES, QRELS, {}))


def test_bound_of_an_unknown_stratum_is_answered_with_the_strata_there_are() -> None:
    with pytest.raises(RequestError, match=r"no queries 'prob'; there are all, kw, nl"):
        unmet_bounds(["prob:recall@5=0.5"], score_run(QUERIES, QRELS, {}))


def test_shares_of_wrong_answers_have_upper_bounds() -> None:
    shares = {"false-answers": 0.25, "false-refusals": 0.0}
    assert exceeded_bounds(["false-answers=0.25", "false-refusals=0"], shares) == []
    assert exceeded_bounds(["False-Answers=0.1"], shares) == ["false-answers is 0.250, above 0.1"]


@pytest.mark.parametrize("bound", ["false-answers=0.1", "recall@5=1"])
def test_upper_bound_of_what_was_not_measured_is_answered_with_what_was(bound: str) -> None:
    with pytest.raises(RequestError, match=r"--fail-over has no .*; it has false-refusals\."):
        exceeded_bounds([bound], {"false-answers": None, "false-refusals": 0.0})


def test_judgements_of_documents_that_the_index_lacks_can_be_left_out(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a"), make_fragment("b"))
    kept, missing = present_only(catalog, {"q1": {"skills/a": 2, "skills/gone": 1}, "q2": {"skills/gone": 2}})
    assert (kept, missing) == ({"q1": {"skills/a": 2}, "q2": {}}, 1)


def test_interval_of_equal_values_is_that_value_and_is_the_same_every_time() -> None:
    assert bootstrap_interval([0.5] * 20) == (0.5, 0.5)
    low, high = bootstrap_interval([0.0, 1.0] * 20)
    assert low < 0.5 < high
    assert bootstrap_interval([0.0, 1.0] * 20) == (low, high)


def test_documents_go_by_the_name_that_the_judgements_use(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a"), make_fragment("b"), make_fragment("c"))
    names = document_names(catalog, {"q": {"orchestr8://skills/a": 1, "skills/b": 1}})
    assert names == {
        "orchestr8://skills/a": "orchestr8://skills/a",
        "orchestr8://skills/b": "skills/b",
        "orchestr8://skills/c": "skills/c",
    }


def test_run_holds_the_documents_in_order_and_its_file_the_trec_form(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", tags=("retry",)),
        make_fragment("b", "Adding retry"),
        make_fragment("z", "Tea"),
    )
    report = run_queries(catalog, QUERIES[:1], document_names(catalog, {}), Ranker.DEFAULT)
    assert [document for document, _ in report.run["q1"]] == ["skills/a", "skills/b"]
    assert report.index_tokens < report.catalog_tokens
    assert format_run(report, "t") == "q1 Q0 skills/a 1 100 t\nq1 Q0 skills/b 2 99 t\n"
    weak = replace(report, weak=frozenset({"q1"}))
    assert format_run(weak, "t") == "q1 Q0 skills/a 1 100 t-weak\nq1 Q0 skills/b 2 99 t-weak\n"


def test_self_asks_every_scenario_without_its_line_and_the_authors_queries(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    root = make_library(
        {
            "skills/one.md": markdown("tags: [retry]\nuseWhen:\n  - Adding retry to calls\n  - Waiting zebra"),
            "skills/two.md": markdown("useWhen:\n  - Brewing tea\nqueries:\n  - a cup of tea\n  - 7"),
            "queries.jsonl": '{"text": "call retry", "documents": ["skills/one"]}\n'
            '{"text": "it hangs", "documents": ["skills/two"], "terms": ["brewing", "teapot"]}\n'
            '{"text": "sourdough", "documents": []}\n'
            '{"text": "lost", "documents": ["skills/lost"]}\n'
            "no json\n"
            '{"text": "odd", "documents": [{}]}\n'
            '{"text": "odd", "documents": [], "terms": "tea"}\n' + "[" * 100_000,
        }
    )
    index = build(root, tmp_path / "index.db")
    with Catalog.open(index) as catalog:
        queries, qrels, found = run_self(catalog, Ranker.DEFAULT)
    asked = {(query.text, query.stratum): tuple(qrels[query.id]) for query in queries}
    assert asked == {
        ("Adding retry to calls", "scenario"): ("skills/one",),
        ("Waiting zebra", "scenario"): ("skills/one",),
        ("Brewing tea", "scenario"): ("skills/two",),
        ("a cup of tea", "queries"): ("skills/two",),
        ("call retry", "queries.jsonl"): ("skills/one",),
        ("it hangs", "queries.jsonl"): ("skills/two",),
        ("sourdough", "none"): (),
    }
    answers = {query.text: [document for document, _ in found.run[query.id]] for query in queries}
    assert answers["Adding retry to calls"] == ["skills/one"]  # by its tag
    assert answers["Waiting zebra"] == answers["Brewing tea"] == []  # nothing but the hidden line says so
    assert answers["a cup of tea"] == ["skills/two"]  # nothing is hidden here
    assert answers["it hangs"] == ["skills/two"]  # by its terms
    problems = rows(index, "SELECT path, line, code FROM diagnostic WHERE code LIKE 'queries%' ORDER BY path, line")
    assert problems == [
        ("queries.jsonl", 4, "queries-document"),
        ("queries.jsonl", 5, "queries-form"),
        ("queries.jsonl", 6, "queries-form"),
        ("queries.jsonl", 7, "queries-form"),
        ("queries.jsonl", 8, "queries-form"),
        ("skills/two.md", None, "queries-form"),
    ]


def test_eval_of_the_library_itself_fails_under_its_bound(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"skills/one.md": markdown("tags: [retry]\nuseWhen:\n  - Adding retry to calls")})
    index = str(build(root, tmp_path / "index.db"))
    run = CliRunner().invoke(make_app(), ["eval", "--self", "--db", index, "--fail-under", "recall@5=0.9"])
    assert (run.exit_code, "scenario" in run.output) == (0, True)
    root = make_library({"skills/one.md": markdown("useWhen:\n  - Adding retry to calls")})
    index = str(build(root, tmp_path / "other.db"))
    run = CliRunner().invoke(make_app(), ["eval", "--self", "--db", index, "--fail-under", "recall@5=0.9"])
    assert (run.exit_code, "recall@5 is 0.000, below 0.9" in run.output) == (1, True)


@pytest.mark.parametrize("options", [[], ["--self", "--queries", "q.jsonl"], ["--queries", "q.jsonl"]])
def test_eval_wants_judged_queries_or_the_library_itself(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "text": "x"}\n', encoding="utf-8")
    run = CliRunner().invoke(make_app(), ["eval", *(str(tmp_path / o) if o.endswith("l") else o for o in options)])
    assert isinstance(run.exception, RequestError)
    assert str(run.exception) == "Give either --queries and --qrels, or --self."


def test_self_without_anything_to_answer_says_so(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"skills/a.md": "# A\n", "queries.jsonl": '{"text": "sourdough", "documents": []}\n'})
    with (
        Catalog.open(build(root, tmp_path / "index.db")) as catalog,
        pytest.raises(RequestError, match="neither scenarios nor queries with an answer"),
    ):
        run_self(catalog, Ranker.DEFAULT)


def test_input_that_is_not_of_the_form_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "text": "x"}\n{"id": "2"}\n', encoding="utf-8")
    with pytest.raises(RequestError, match=r"q\.jsonl:2: expected"):
        read_queries(tmp_path / "q.jsonl")
    (tmp_path / "qrels.tsv").write_text("# comment\nq1\ta\tgood\n", encoding="utf-8")
    with pytest.raises(RequestError, match=r"qrels\.tsv:2: expected"):
        read_qrels(tmp_path / "qrels.tsv")


SCORER = {"recall@5": "R@5", "recall@15": "R@15", "success@1": "S@1"}
"""How the independent scorer calls some measures."""


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("ranker", list(Ranker))
def test_figures_equal_those_of_the_independent_scorer(
    corpus_index: CorpusIndex, tmp_path: Path, ranker: Ranker
) -> None:
    judged = SHARED / "eval" / "dev" / "orchestr8"
    queries, qrels = read_queries(judged / "queries.jsonl"), read_qrels(judged / "qrels.tsv")
    with Catalog.open(corpus_index("orchestr8")) as catalog:
        report = run_queries(catalog, queries, document_names(catalog, qrels), ranker)
    (tmp_path / "o8.run").write_text(format_run(report, "t"), encoding="utf-8")
    scorer = str(SHARED / "eval" / "score.py")
    command = [sys.executable, scorer, "--set", str(judged), "--run", str(tmp_path / "o8.run")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    header = next(line for line in printed.splitlines() if line.startswith("stratum")).split()
    for score in score_run(queries, qrels, report.run):
        row = next(line for line in printed.splitlines() if line.startswith(score.stratum)).split()
        theirs = dict(zip(header, row, strict=True))
        assert {name: float(theirs[SCORER.get(name, name)]) for name in score.means} == pytest.approx(
            score.means, abs=0.00051
        )
    low, high = score_run(queries, qrels, report.run)[0].interval
    interval = re.search(r"nDCG@10 95% bootstrap CI \[([\d.]+), ([\d.]+)\]", printed)
    assert interval is not None
    assert (low, high) == pytest.approx(tuple(map(float, interval.groups())), abs=0.00051)


@needs_shared
@pytest.mark.slow
def test_default_ranker_is_far_better_than_the_classic_one_on_judged_queries(corpus_index: CorpusIndex) -> None:
    judged = SHARED / "eval" / "dev" / "orchestr8"
    queries, qrels = read_queries(judged / "queries.jsonl"), read_qrels(judged / "qrels.tsv")
    with Catalog.open(corpus_index("orchestr8")) as catalog:
        names = document_names(catalog, qrels)
        default, classic = (run_queries(catalog, queries, names, ranker).run for ranker in Ranker)
    reached = score_run(queries, qrels, default)[0].means["nDCG@10"]
    assert reached > score_run(queries, qrels, classic)[0].means["nDCG@10"] + 0.3


def test_eval_says_how_many_judged_documents_the_index_lacks(make_library: MakeLibrary, tmp_path: Path) -> None:
    index = build(make_library({"skills/retry.md": markdown("useWhen: [retrying]")}), tmp_path / "index.db")
    queries, qrels = tmp_path / "queries.jsonl", tmp_path / "qrels.tsv"
    queries.write_text('{"id": "q", "text": "retrying"}', encoding="utf-8")
    qrels.write_text("q\tskills/retry\t2\nq\tskills/gone\t1\n", encoding="utf-8")
    arguments = ["eval", "--queries", str(queries), "--qrels", str(qrels), "--db", str(index)]
    out = CliRunner().invoke(make_app(["eval", "path"]), arguments).output
    assert "\nThe index lacks 1 judged document; --present-only ignores such judgements.\n" in out


def test_failed_queries_come_worst_first_with_what_won_instead() -> None:
    strata = {"denied": "kw", "first": "kw", "sixth": "kw", "lost": "kw", "invented": "none", "unfit": "none"}
    queries = [JudgedQuery(name, f"asks {name}", stratum) for name, stratum in strata.items()]
    qrels = {name: {"right": 1, "other": 0} for name in ("denied", "first", "sixth", "lost")}
    others = [(f"wrong{number}", 9.0 - number) for number in range(5)]
    run = {
        "denied": [("right", 3.0)],
        "first": [("right", 9.0), *others],
        "sixth": [*others, ("right", 1.0)],
        "lost": [("other", 5.0)],
        "invented": [("wrong", 5.0)],
        "unfit": [("wrong", 1.0)],
    }
    answered = report(run, ["denied", "unfit"])
    found = [(one.query.id, one.what, one.wanted, one.first) for one in find_failures(queries, qrels, answered)]
    assert found == [
        ("denied", "false refusal", ("right",), None),
        ("invented", "false answer", (), "wrong"),
        ("lost", "not found", ("right",), "other"),
        ("sixth", "place 6", ("right",), "wrong0"),
    ]


def test_eval_lists_requests_whose_first_result_is_wrong_where_a_bound_on_that_is_missed(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    root = make_library(
        {
            "skills/roses.md": markdown("useWhen: [pruning roses, pruning old roses in a garden]"),
            "skills/trees.md": markdown("useWhen: [pruning trees in a garden, pruning trees]"),
            "queries.jsonl": '{"text": "pruning roses", "documents": ["skills/trees"]}\n',
        }
    )
    index = str(build(root, tmp_path / "index.db"))

    def listed(bound: str) -> list[str]:
        arguments = ["eval", "--self", "--db", index, "--json", "--fail-under", bound]
        failures = json.loads(CliRunner().invoke(make_app(["eval", "path"]), arguments).stdout)["failures"]
        return [f"{one['what']}: {one['text']}, not {one['first']}" for one in failures]

    assert listed("recall@5=1") == listed("queries.jsonl:success@1=0") == []
    assert listed("queries.jsonl:success@1=1") == ["place 2: pruning roses, not skills/roses"]


def test_eval_lists_what_failed_and_names_measures_as_its_bounds_do(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library(
        {
            **GARDENING,
            "skills/a.md": markdown("useWhen: [walnut]"),
            "queries.jsonl": '{"text": "pruning roses week", "documents": ["skills/a"]}\n',
        }
    )
    arguments = ["eval", "--self", "--db", str(build(root, tmp_path / "index.db")), "--failures", "1"]
    done = CliRunner().invoke(make_app(["eval", "path"]), arguments)
    assert f"\nasked: {tmp_path / 'index.db'}, {len(GARDENING) + 1} fragments\n" in done.stdout
    head, _, failed = done.stdout.partition("\n\n")
    assert head.split("\n")[0].split("\t")[2:8] == ["nDCG@10", "nDCG@5", "MRR@10", "recall@5", "recall@15", "success@1"]
    assert "\nfalse-refusals " in head
    assert failed.startswith("failed\tquery\twanted\tfirst instead\n")
    read = json.loads(CliRunner().invoke(make_app(["eval", "path"]), [*arguments[:-1], "99", "--json"]).stdout)
    [asked] = [one for one in read["failures"] if one["stratum"] == "queries.jsonl"]
    assert (asked["text"], asked["wanted"]) == ("pruning roses week", ["skills/a"])
    assert asked["first"].startswith("guides/g")
    assert read["failed"] == len(read["failures"])
