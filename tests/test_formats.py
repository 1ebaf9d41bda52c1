"""`eval` on judged requests in the forms that teams already have, and its badge."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import GARDENING, Invoke, build, markdown, write_files

from orchestr8_sqlite.evaluation.badge import make_badge
from orchestr8_sqlite.evaluation.measures import StratumScore

PDF = markdown("name: pdf-forms\ndescription: Fills in PDF forms from a script", "# PDF\n\nForms.\n")
CSV = markdown(
    "name: csv-profiling\ndescription: Profiles a CSV export and finds broken columns", "# CSV\n\nColumns.\n"
)
TRIGGERS = [
    {"query": "fill in a pdf form", "should_trigger": True},
    {"query": "profile the columns of a csv export", "should_trigger": False},
    {"query": "pruning roses", "should_trigger": False},
]
EVALS = {"skill_name": "csv-profiling", "evals": [{"id": 1, "prompt": "which columns of this csv are broken?"}]}

Eval = Callable[..., tuple[int, Any, str]]
"""`evaluate(path, *options)` runs `eval --queries path --json`: (exit code, what it printed, stderr)."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    files = {"skills/pdf-forms/SKILL.md": PDF, "skills/csv-profiling/SKILL.md": CSV, **GARDENING}
    return write_files(folder / "library", files)


@pytest.fixture(scope="module")
def index(library: Path) -> Path:
    return build(library, library.parent / "index.db")


@pytest.fixture
def evaluate(invoke: Invoke, index: Path) -> Eval:
    def run(path: Path, *options: str | Path) -> tuple[int, Any, str]:
        code, out, err = invoke("eval", "--queries", path, "--db", index, "--json", *options)
        return code, json.loads(out) if out else None, err

    return run


def scores(printed: dict[str, Any]) -> dict[str, tuple[int, float]]:
    return {row["stratum"]: (row["queries"], row["success@1"]) for row in printed["scores"]}


def test_triggers_in_a_skills_folder_are_about_that_skill(evaluate: Eval, tmp_path: Path) -> None:
    write_files(tmp_path, {"pdf-forms/evals/trigger_eval.json": json.dumps(TRIGGERS)})
    code, printed, _ = evaluate(tmp_path / "pdf-forms" / "evals" / "trigger_eval.json")
    assert code == 0
    assert scores(printed) == {"ALL": (1, 1.0), "triggers": (1, 1.0)}
    assert (printed["false-triggers"], printed["false-refusals"], printed["failures"]) == (0.0, 0.0, [])


def test_request_that_must_not_begin_with_a_skill_and_does_is_a_false_trigger(evaluate: Eval, tmp_path: Path) -> None:
    triggers = [*TRIGGERS, {"prompt": "a script that fills in pdf forms", "should_trigger": False}]
    write_files(tmp_path, {"pdf-forms/triggers.json": json.dumps(triggers)})
    code, printed, _ = evaluate(tmp_path / "pdf-forms" / "triggers.json", "--fail-over", "false-triggers=0.3")
    assert (code, printed["unmet"]) == (1, ["false-triggers is 0.333, above 0.3"])
    (failure,) = printed["failures"]
    assert (failure["what"], failure["first"]) == ("false trigger", "skills/pdf-forms")
    assert evaluate(tmp_path / "pdf-forms" / "triggers.json", "--fail-over", "false-triggers=0.4")[0] == 0


def test_refusal_of_a_request_that_is_for_no_skill_of_the_index_is_right(evaluate: Eval, tmp_path: Path) -> None:
    foreign = {"query": "pdf okapi quagga zebra gnu eland kudu nyala", "should_trigger": False}
    write_files(tmp_path, {"pdf-forms/triggers.json": json.dumps([*TRIGGERS, foreign])})
    printed = evaluate(tmp_path / "pdf-forms" / "triggers.json")[1]
    assert (printed["false-triggers"], printed["false-refusals"], printed["failures"]) == (0.0, 0.0, [])


def test_evals_name_their_skill_and_their_prompts_are_for_it(evaluate: Eval, tmp_path: Path) -> None:
    write_files(tmp_path, {"elsewhere/evals.json": json.dumps(EVALS)})
    printed = evaluate(tmp_path / "elsewhere" / "evals.json")[1]
    assert scores(printed)["triggers"] == (1, 1.0)
    assert printed["false-triggers"] is None


def test_file_may_be_named_like_its_skill(evaluate: Eval, tmp_path: Path) -> None:
    write_files(tmp_path, {"sets/PDF-Forms.json": json.dumps(TRIGGERS)})
    assert scores(evaluate(tmp_path / "sets" / "PDF-Forms.json")[1])["triggers"] == (1, 1.0)


def test_every_such_file_below_a_folder_is_read_and_others_are_not(evaluate: Eval, tmp_path: Path) -> None:
    files = {
        "pdf-forms/evals/trigger_eval.json": json.dumps(TRIGGERS),
        "csv-profiling/evals/evals.json": json.dumps(EVALS),
        "csv-profiling/evals/eval_metadata.json": '{"runs": 3}',
        "csv-profiling/evals/broken-eval.json": "{",
        "csv-profiling/package.json": json.dumps(TRIGGERS),
    }
    printed = evaluate(write_files(tmp_path / "skills", files))[1]
    assert scores(printed)["triggers"] == (2, 1.0)


def test_beir_folder_is_asked_where_it_has_judgements(evaluate: Eval, tmp_path: Path) -> None:
    queries = [
        {"_id": "1", "text": "fill in a pdf form"},
        {"_id": "2", "text": "unjudged"},
        {"_id": "3", "text": "csv"},
    ]
    folder = write_files(
        tmp_path / "beir",
        {
            "corpus.jsonl": '{"_id": "skills/pdf-forms", "title": "", "text": ""}\n',
            "queries.jsonl": "".join(json.dumps(query) + "\n" for query in queries),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\tskills/pdf-forms\t1\n3\tskills/gone\t1\n",
        },
    )
    printed = evaluate(folder)[1]
    assert scores(printed) == {"ALL": (2, 0.5)}
    assert printed["missingDocuments"] == 1


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"x/eval.json": "[]"}, "eval.json is neither a list of queries with should_trigger nor evals of a skill."),
        ({"x/eval.json": '[{"query": 5, "should_trigger": true}]'}, "eval.json is neither a list"),
        ({"x/eval.json": '[{"query": "a"}]'}, "eval.json is neither a list"),  # whether it triggers is not said
        ({"x/eval.json": json.dumps(TRIGGERS)}, "eval.json names no skill, and lies in no skill's folder"),
        ({"x/eval.json": '{"skill_name": "gone", "evals": [{"prompt": "a"}]}'}, "eval.json names the skill 'gone'"),
        ({"pdf-forms/eval.json": '[{"query": "a", "should_trigger": false}]'}, "eval.json holds no query that has"),
    ],
)
def test_file_that_cannot_be_judged_is_refused_with_the_reason(
    evaluate: Eval, tmp_path: Path, files: dict[str, str], said: str
) -> None:
    write_files(tmp_path, files)
    code, printed, err = evaluate(tmp_path / next(iter(files)))
    assert (code, printed) == (2, None)
    assert err.startswith(said)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"queries.jsonl": "{}\n", "qrels/test.tsv": ""}, 'queries.jsonl:1: expected {"_id": …, "text": …}.'),
        ({"queries.jsonl": ""}, "beir has queries.jsonl but no judgements; they belong in qrels/test.tsv."),
        (
            {"queries.jsonl": '{"_id": "1", "text": "a"}', "qrels/test.tsv": "h\th\th\n1\ta\tgood\n"},
            "test.tsv:2: expected query, document and grade between tabs.",
        ),
        ({"notes.json": "{}"}, "beir holds no query that has an answer."),
    ],
)
def test_folder_that_cannot_be_judged_is_refused_with_the_reason(
    evaluate: Eval, tmp_path: Path, files: dict[str, str], said: str
) -> None:
    code, printed, err = evaluate(write_files(tmp_path / "beir", files))
    assert (code, printed, err) == (2, None, f"{said}\n")


def test_folder_with_judgements_beside_it_is_refused(evaluate: Eval, tmp_path: Path) -> None:
    (tmp_path / "qrels.tsv").write_text("", encoding="utf-8")
    code, _, err = evaluate(tmp_path, "--qrels", tmp_path / "qrels.tsv")
    assert code == 2
    assert err.startswith("With --qrels, --queries must be a file of JSON Lines")


@pytest.mark.parametrize(("bound", "colour", "code"), [(None, "blue", 0), ("0.9", "brightgreen", 0), ("1.1", "red", 1)])
def test_badge_shows_recall_and_whether_the_bounds_hold(
    evaluate: Eval, tmp_path: Path, bound: str | None, colour: str, code: int
) -> None:
    write_files(tmp_path, {"pdf-forms/triggers.json": json.dumps(TRIGGERS)})
    options = ["--fail-under", f"recall@5={bound}"] if bound else []
    badge = tmp_path / "badge.json"
    assert evaluate(tmp_path / "pdf-forms" / "triggers.json", "--badge", badge, *options)[0] == code
    assert json.loads(badge.read_text(encoding="utf-8")) == {
        "schemaVersion": 1,
        "label": "recall@5",
        "message": "1.00",
        "color": colour,
    }


def test_badge_has_two_decimals() -> None:
    score = StratumScore("ALL", 3, {"recall@5": 2 / 3}, (0.0, 1.0))
    assert make_badge([score], bounded=False, unmet=[])["message"] == "0.67"
