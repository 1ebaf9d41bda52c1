"""The command line: what it prints where, and its exit codes."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support import GARDENING, Invoke, MakeLibrary, build, markdown, needs_sqlite_shell, write_files

from orchestr8_sqlite.cli.app import COMMANDS

RETRY = markdown(
    "title: Retrying\ntags: [retry, http]\ncapabilities:\n  - Backoff with jitter\nuseWhen:\n  - Retrying a flaky call",
    "# Retrying\n\nWait longer each time.\n",
)
BREAKER = markdown("tags: [retry]\nuseWhen:\n  - Retry storms bring a service down\nrelatedResources: [skills/retry]")
FILES = {"skills/retry.md": RETRY, "skills/breaker.md": BREAKER, "agents/api.md": markdown("tags:")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """Return an index of FILES that the test may change."""
    return Path(shutil.copy(built, tmp_path))


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of FILES among other fragments, so that its words are rare."""
    folder = tmp_path_factory.mktemp("larger")
    again = markdown("useWhen:\n  - Retry what failed, calls above all")
    files = {**FILES, **GARDENING, "skills/again.md": again}
    return build(write_files(folder / "library", files), folder / "larger.db")


def test_build_prints_diagnostics_on_stderr_and_a_summary_on_stdout(
    invoke: Invoke, make_library: MakeLibrary, tmp_path: Path
) -> None:
    root = make_library(FILES)
    code, out, err = invoke("build", root, "-o", tmp_path / "out.db")
    assert code == 0
    assert "3 fragments, 2 scenarios" in out
    assert "0 errors, 1 warning;" in out
    assert err == f"{root}/agents/api.md:2: warning: tags is empty [null-list]; give it items or remove it\n"


def test_one_of_a_kind_is_named_in_the_singular(invoke: Invoke, make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"skills/retry.md": markdown("useWhen: [retrying]"), "prompts/ask.md": "Ask."})
    index = tmp_path / "one.db"
    built, stats = invoke("build", root, "-o", index)[1], invoke("stats", "--db", index)[1]
    assert re.search(r"one\.db: 1 fragment, 1 scenario, \d+ keywords, 1 prompt from 2 files\n", built)
    assert re.search(r"\n1 fragment \(~.*\), 1 scenario, \d+ keywords, 1 prompt\n", stats)
    assert invoke("lint", root)[1].startswith("1 fragment, 1 prompt: ")


def test_build_counts_the_further_diagnostics_of_a_kind(
    invoke: Invoke, make_library: MakeLibrary, tmp_path: Path
) -> None:
    files = {f"agents/a{number}.md": markdown("tags:") for number in range(5)}
    _, _, err = invoke("build", make_library(files), "-o", tmp_path / "out.db")
    assert err.count("null-list") == 4
    assert "… and 2 more [null-list]" in err


def test_strict_build_of_a_library_with_warnings_fails_with_code_1(
    invoke: Invoke, make_library: MakeLibrary, tmp_path: Path
) -> None:
    code, out, err = invoke("build", make_library(FILES), "-o", tmp_path / "out.db", "--strict")
    assert (code, out) == (1, "")
    assert "Not built: 1 problem, and strict mode allows none." in err
    assert not (tmp_path / "out.db").exists()


def test_build_as_json_holds_report_and_diagnostics(invoke: Invoke, make_library: MakeLibrary, tmp_path: Path) -> None:
    _, out, _ = invoke("build", make_library(FILES), "-o", tmp_path / "out.db", "--json")
    report = json.loads(out)
    assert (report["fragments"], report["scenarios"], report["rejected"]) == (3, 2, 0)
    assert [diagnostic["code"] for diagnostic in report["diagnostics"]] == ["null-list"]


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict"], 1)])
def test_lint_fails_on_warnings_only_where_asked(
    invoke: Invoke, make_library: MakeLibrary, options: list[str], code: int
) -> None:
    assert invoke("lint", make_library(FILES), *options)[0] == code


def test_lint_fails_where_something_would_be_left_out(invoke: Invoke, make_library: MakeLibrary) -> None:
    code, out, _ = invoke("lint", make_library({**FILES, "agents/bad.md": b"caf\xe9"}))
    assert code == 1
    assert "agents/bad.md:1: error: byte 0xe9 is not UTF-8 [encoding]" in out


def test_search_prints_the_answer_in_the_mode_asked_for(invoke: Invoke, index: Path) -> None:
    code, out, err = invoke("search", "retry", "calls", "--db", index, "--mode", "index")
    assert (code, err) == (0, "")
    assert re.search(r"^\d\. orchestr8://skills/retry ~\d+$", out, re.MULTILINE)


def test_search_filters_by_category_and_tag(invoke: Invoke, index: Path) -> None:
    _, out, _ = invoke("search", "retry", "--db", index, "-c", "skills", "-t", "HTTP", "--json")
    assert [match["uri"] for match in json.loads(out)["matches"]] == ["orchestr8://skills/retry"]


def test_search_says_when_nothing_fits_and_that_is_no_failure(invoke: Invoke, index: Path) -> None:
    code, out, _ = invoke("search", "zxqv plugh", "--db", index, "--category", "agent")
    assert code == 0
    assert out.startswith("Nothing fits 'zxqv plugh' within agent; not covered: zxqv, plugh")


@pytest.mark.parametrize("mode", ["index", "catalog", "full"])
def test_search_says_when_what_it_found_covers_too_little(invoke: Invoke, larger: Path, mode: str) -> None:
    query = "retry cobol fortran pascal haskell erlang prolog"
    code, out, err = invoke("search", query, "--db", larger, "--mode", mode)
    assert (code, err) == (0, "")
    assert out.startswith(f"Nothing fits '{query}'; not covered: cobol, fortran, pascal, haskell, erlang, prolog")
    assert out.count("\n") == 2
    assert "\nClosest, but weak (" in out
    value = json.loads(invoke("search", query, "--db", larger, "--mode", mode, "--json")[1])
    assert (value["confident"], value["matches"]) == (False, [])
    names = ("again", "breaker", "retry")
    assert sorted(match["uri"] for match in value["closest"]) == [f"orchestr8://skills/{name}" for name in names]
    classic = json.loads(invoke("search", query, "--db", larger, "--ranker", "classic", "--json")[1])
    assert (classic["confident"], classic["closest"]) == (True, [])
    assert classic["matches"] != []


def test_search_explains_each_score_on_request(invoke: Invoke, larger: Path) -> None:
    query = ["search", "retry flaky calls", "--db", larger]
    _, out, _ = invoke(*query, "--explain")
    whys = re.findall(r"^   why: (.*)$", out, re.MULTILINE)
    scores = re.findall(r"^\d+\. \S+ · (\S+) · ", out, re.MULTILINE)
    assert len(whys) == len(scores) > 1
    for why, score in zip(whys, scores, strict=True):
        assert sum(float(part.split(" ")[0]) for part in why.split(" + ")) == pytest.approx(float(score))
    assert "why: " not in invoke(*query)[1]
    matches = json.loads(invoke(*query, "--explain", "--json")[1])["matches"]
    assert [match["score"] for match in matches] == [float(score) for score in scores]
    assert [len(match["parts"]) for match in matches] == [why.count(" + ") + 1 for why in whys]


@needs_sqlite_shell
@pytest.mark.parametrize("ranker", ["default", "classic"])
@pytest.mark.parametrize(
    ("query", "tier"),
    [("retry", "quick"), ("retry flaky calls", "index"), ('it\'s a "retry" -- of calls; drop table', "index")],
)
def test_printed_sql_gives_the_same_answer_in_the_sqlite_shell(
    invoke: Invoke, larger: Path, ranker: str, query: str, tier: str
) -> None:
    _, sql, _ = invoke("search", query, "--db", larger, "--ranker", ranker, "--sql")
    _, answer, _ = invoke("search", query, "--db", larger, "--ranker", ranker, "--json")
    done = subprocess.run(
        [shutil.which("sqlite3") or "", "-readonly", larger], input=sql, capture_output=True, text=True, check=True
    )
    printed = [line.split("|") for line in done.stdout.splitlines()]
    result = json.loads(answer)
    assert result["tier"] == tier
    assert len(result["matches"]) > 1
    assert [(row[1], float(row[6])) for row in printed] == [(m["uri"], m["score"]) for m in result["matches"]]


def test_printed_sql_of_a_fuzzy_answer_says_that_its_rows_are_scored_afterwards(invoke: Invoke, index: Path) -> None:
    assert invoke("search", "jitte", "--db", index, "--sql", "--ranker", "classic")[1].startswith(
        "-- tier: fuzzy; Python scores its rows"
    )


def test_load_prints_the_body_and_its_neighbours(invoke: Invoke, index: Path) -> None:
    _, out, _ = invoke("load", "orchestr8://skills/retry", "--db", index, "--related")
    assert out == "~~~~\n# Retrying\n\nWait longer each time.\n~~~~\nRelated: orchestr8://skills/breaker\n"


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["search", "x", "--mode", "brief"], "'mode' must be one of index, catalog, full, not 'brief'."),
        (["search", "x", "--max-results", "0"], "'maxResults' must be a whole number from 1 to 100, not 0."),
        (["search", "x", "-c", "skils"], "Unknown category 'skils'. Did you mean 'skills'?"),
        (
            ["load", "orchestr8://skills/retri"],
            "There is no orchestr8://skills/retri. Nearest: orchestr8://skills/retry",
        ),
        (["sql", "SELECT nope FROM fragment"], "SQLite says: no such column: nope."),
        (["sql", ""], "The statement is empty; write a SELECT."),
        (["sql", " ;\t-- a\n/* b */"], "The statement is empty; write a SELECT."),
        (["export", "--format", "xml"], "--format must be json or datasette, not 'xml'."),
    ],
)
def test_wrong_call_is_one_sentence_and_code_2(invoke: Invoke, index: Path, arguments: list[str], advice: str) -> None:
    code, out, err = invoke(*arguments, "--db", index)
    assert (code, out) == (2, "")
    assert err.startswith(advice)
    assert err.count("\n") == 1


def test_file_that_cannot_be_written_is_one_sentence(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x", encoding="utf-8")
    code, _, err = invoke("export", "--db", index, "-o", tmp_path / "taken")
    assert (code, err.count("\n")) == (1, 1)
    assert "taken cannot be used: File exists." in err


def test_unknown_option_is_a_usage_error(invoke: Invoke) -> None:
    assert invoke("search", "x", "--colour")[0] == 2


def test_missing_index_is_one_sentence_and_code_1(invoke: Invoke, tmp_path: Path) -> None:
    code, _, err = invoke("search", "x", "--db", tmp_path / "none.db")
    assert code == 1
    assert err == f"There is no index at {tmp_path / 'none.db'}; build it with: orchestr8-sqlite build ROOT -o INDEX.\n"


@pytest.mark.parametrize("known", ["cp1252", "ascii", "utf-8"])
def test_pipe_gets_every_character_whatever_the_system_has(
    make_library: MakeLibrary, tmp_path: Path, known: str
) -> None:
    index = build(make_library({"guides/arrow.md": "# From → to ✓ 再\n\nText.\n"}), tmp_path / "arrow.db")
    command = [sys.executable, "-m", "orchestr8_sqlite", "load", "orchestr8://guides/arrow", "--db", str(index)]
    environment = {**os.environ, "PYTHONIOENCODING": known}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert "# From → to ✓ 再" in done.stdout.decode("utf-8")


def test_sql_prints_tab_separated_rows_in_a_pipe_and_json_on_request(invoke: Invoke, index: Path) -> None:
    query = "SELECT uri, tags FROM fragment_detail WHERE category = 'skill' ORDER BY uri"
    assert invoke("sql", query, "--db", index)[1] == (
        "uri\ttags\norchestr8://skills/breaker\tretry\norchestr8://skills/retry\tretry, http\n"
    )
    assert json.loads(invoke("sql", query, "--db", index, "--json")[1])[1]["tags"] == "retry, http"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM fragment",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode = WAL",
        "CREATE TEMP TABLE t (x)",
        "VACUUM INTO 'copy.db'",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM fragment",
    ],
)
def test_sql_runs_nothing_but_reading(
    invoke: Invoke, index: Path, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, _, err = invoke("sql", statement, "--db", index)
    assert code == 2
    assert err.startswith("SQLite says: ")
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_sql_can_search_the_full_text(invoke: Invoke, index: Path) -> None:
    query = "SELECT count(*) AS n FROM fragment_text WHERE fragment_text MATCH '\"retry\"'"
    assert invoke("sql", query, "--db", index)[1] == "n\n2\n"


def test_stats_shows_totals_and_categories(invoke: Invoke, index: Path) -> None:
    _, out, _ = invoke("stats", "--db", index)
    assert "3 fragments (~" in out
    assert "warning\tnull-list\t1" in out
    totals = json.loads(invoke("stats", "--db", index, "--json")[1])
    assert [(row["category"], row["fragments"]) for row in totals["categories"]] == [("agent", 1), ("skill", 2)]


def test_stats_lists_the_tables_with_their_rows_and_columns(invoke: Invoke, index: Path) -> None:
    tables = {row["name"]: row for row in json.loads(invoke("stats", "--tables", "--db", index, "--json")[1])}
    assert tables["fragment"]["rows"] == 3
    assert tables["tag"]["columns"] == "fragment_id, tag, ordinal"
    assert (tables["fragment_text"]["kind"], tables["fragment_detail"]["kind"]) == ("virtual table", "view")
    assert not any(name.startswith("fragment_text_") for name in tables)


def test_path_is_that_of_the_index_in_use(
    invoke: Invoke, index: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert invoke("path", "--db", index)[1] == f"{index}\n"
    monkeypatch.setenv("ORCHESTR8_DB", str(index))
    assert invoke("path")[1] == f"{index}\n"
    monkeypatch.delenv("ORCHESTR8_DB")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("ORCHESTR8_DB=index.db\n", encoding="utf-8")
    code, out, err = invoke("path")
    assert (code, out != "index.db\n") == (0, True)
    assert err == ".env sets ORCHESTR8_DB without effect; if it is yours, set ORCHESTR8_ENV_FILE=.env\n"
    monkeypatch.setenv("ORCHESTR8_ENV_FILE", ".env")
    assert invoke("path")[1] == f"{index}\n"


def test_argument_that_is_no_text_is_one_sentence(invoke: Invoke) -> None:
    for arguments in (["build", "bad\udcff", "-o", "x.db"], ["sql", "SELECT '\udcff'"], ["search", "\udcff"]):
        code, out, err = invoke(*arguments)
        assert (code, out) == (2, "")
        assert "is not UTF-8" in err


def test_folder_whose_name_is_no_text_is_one_sentence(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    (folder / "a.md").write_text("# A\n")
    monkeypatch.chdir(folder)
    code, _, err = invoke("build", ".", "-o", tmp_path / "x.db")
    assert (code, "is not UTF-8; rename it" in err) == (1, True)


def test_export_writes_three_files_and_names_them(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    _, out, _ = invoke("export", "--db", index, "--format", "json", "-o", tmp_path / "out")
    assert [Path(line).name for line in out.splitlines()] == [
        "usewhen-index.json",
        "keyword-index.json",
        "quick-lookup.json",
    ]


def test_search_answers_from_the_bundled_index_without_any_setting(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORCHESTR8_DB", raising=False)
    code, out, _ = invoke("search", "jwt refresh tokens", "--mode", "index")
    assert code == 0
    assert "orchestr8://skills/security-authentication-jwt" in out


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_shows_an_example_in_its_help(invoke: Invoke, command: str) -> None:
    _, out, _ = invoke(command, "--help")
    assert "Example: " in out


def test_database_can_be_read_while_another_program_holds_it_open(invoke: Invoke, index: Path) -> None:
    connection = sqlite3.connect(index)
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM fragment").fetchall()
    assert invoke("search", "retry", "--db", index)[0] == 0
    connection.close()
