"""What makes the terminal pleasant: a beginning, completion, lists, a shell, tables from which one can copy."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Invoke, MakeLibrary, build, markdown

from orchestr8_sqlite.cli.app import COMMANDS
from orchestr8_sqlite.cli.options import print_rows
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS

OnTerminal = Callable[..., str]
RUN = [sys.executable, "-m", "orchestr8_sqlite"]


@pytest.fixture
def index(make_library: MakeLibrary, tmp_path: Path) -> Path:
    files = {
        "skills/retry.md": markdown("title: Retry, or not\ntags: [http, retry]"),
        "skills/cache.md": markdown("title: Cache\ntags: [http]"),
        "agents/api.md": markdown("title: API\ntags: [http]"),
        "commands/fix.md": markdown("argument-hint: [ticket]\ntitle: Fix", "Fix $ARGUMENTS."),
    }
    return build(make_library(files), tmp_path / "index.db")


@pytest.fixture
def on_terminal() -> OnTerminal:
    """Return a function that runs a command on a terminal of some width, types lines, and returns what is shown."""
    pty = pytest.importorskip("pty")

    def run(*arguments: object, width: int = 80, typed: str = "") -> str:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": str(width), "TERM": "dumb", "NO_COLOR": "1"}
        command = [*RUN, *map(str, arguments)]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
            os.close(theirs)
            os.write(ours, typed.encode())
            shown = b""
            while True:
                try:
                    part = os.read(ours, 65_536)
                except OSError:  # how Linux tells the end
                    break
                if not part:
                    break
                shown += part
            process.wait(60)
        os.close(ours)
        return shown.decode().replace("\r\n", "\n")

    return run


def test_beginning_is_a_library_with_each_category_that_has_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = invoke("init", "team")
    assert code == 0
    for folder in CATEGORY_FOLDERS.values():
        [file] = (tmp_path / "team" / folder).glob("*.md")
        assert f"team/{folder}/{file.name}\n" in out
    assert invoke("lint", "team", "--strict")[1] == "7 fragments, 0 prompts: 0 errors, 0 warnings\n"
    assert invoke("build", "team")[0] == 0
    assert (
        "orchestr8://skills/git-undo" in invoke("search", "undo my last commit", "--db", "index.db")[1].split("\n2.")[0]
    )


def test_beginning_writes_over_nothing(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "git-undo.md").write_text("mine")
    code, _, err = invoke("init", tmp_path)
    assert (code, "git-undo.md exists already, so nothing was written" in err) == (2, True)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["git-undo.md"]
    assert json.loads(invoke("init", tmp_path / "new", "--json")[1])["files"]


def test_lists_tell_categories_tags_fragments_and_prompts(index: Path, invoke: Invoke) -> None:
    def listed(*arguments: str) -> list[list[str]]:
        _, out, _ = invoke("list", *arguments, "--db", index)
        return [line.split("\t") for line in out.splitlines()[1:]]

    assert [row[:2] for row in listed()] == [["agent", "1"], ["skill", "2"]]
    assert listed("tags") == [["http", "3"], ["retry", "1"]]
    assert [row[0] for row in listed("fragments")] == [
        "orchestr8://agents/api",
        "orchestr8://skills/cache",
        "orchestr8://skills/retry",
    ]
    assert [row[0] for row in listed("skill", "--tag", "HTTP", "-t", "retry")] == ["orchestr8://skills/retry"]
    assert [row[0] for row in listed("--tag", "retry")] == ["orchestr8://skills/retry"]
    assert listed("prompts") == [["fix", "ticket", "Fix"]]
    assert json.loads(invoke("list", "tags", "--json", "--db", index)[1])[0] == {"tag": "http", "fragments": 3}
    code, _, err = invoke("list", "skils", "--db", index)
    assert (code, "Did you mean 'skills'" in err) == (2, True)


def test_rows_as_csv_are_what_csv_reads(index: Path, invoke: Invoke) -> None:
    statement = (
        "SELECT title, 'a \"b\"' || char(10) || 'c' AS text, NULL AS none, x'00ff' AS bytes FROM fragment ORDER BY uri"
    )
    _, out, _ = invoke("sql", statement, "--csv", "--db", index)
    head, *found = csv.reader(io.StringIO(out))
    assert head == ["title", "text", "none", "bytes"]
    assert found[2] == ["Retry, or not", 'a "b"\nc', "", "x'00ff'"]
    assert invoke("sql", statement, "--csv", "--json", "--db", index)[0] == 2


def test_statement_may_come_from_standard_input(index: Path) -> None:
    asked = "SELECT count(*) AS n\n  FROM fragment;\n"
    done = subprocess.run([*RUN, "sql", "--db", index], input=asked, capture_output=True, text=True, check=True)
    assert done.stdout == "n\n3\n"


def test_shell_runs_what_is_complete_says_what_is_wrong_and_goes_on(index: Path, on_terminal: OnTerminal) -> None:
    typed = (
        "SELECT\n40 + 2 AS n;\nSELECT nope;\nDELETE FROM tag;\n.schema meta\n.tables\nSELECT 7 * 6 AS again;\n.quit\n"
    )
    shown = on_terminal("sql", "--db", index, typed=typed)
    assert "│ 42 │" in shown
    assert "no such column: nope" in shown
    assert "Only reading is allowed here" in shown
    assert "CREATE TABLE meta (" in shown
    assert "fragment_detail" in shown
    assert "│    42 │" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_tables_cut_nothing_that_is_to_be_copied(on_terminal: OnTerminal, width: int) -> None:
    shown = on_terminal("install", "--list", width=width)
    assert f"{Path.cwd()}/.cursor/mcp.json" in shown.replace("\n", "" if width < 80 else "\n")
    assert "…" not in shown


def test_numbers_are_on_the_right_and_no_word_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_rows(("name", "count"), [("one of many words in a long row that wraps", 5), ("two", "1,234")])
    shown = capsys.readouterr().out
    assert "│     5 │" in shown
    assert "│ 1,234 │" in shown
    print_rows(("path", "count"), [("/a/long/path/without/a/place/to/wrap.md", 5)])
    assert capsys.readouterr().out == "path   /a/long/path/without/a/place/to/wrap.md\ncount  5\n"


def test_help_begins_with_what_to_do_first_and_cuts_no_summary(invoke: Invoke) -> None:
    _, out, _ = invoke("--help")
    assert out.index("Start here:") < out.index("Options:") < out.index("Commands:")
    assert "..." not in out.partition("Commands:")[2]
    listed = [line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line[2:3].isalpha()]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "orchestr8-sqlite li", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "orchestr8-sqlite li"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "orchestr8-sqlite li", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_complete_commands(shell: str, asked: dict[str, str]) -> None:
    program = Path(sys.executable).with_name("orchestr8-sqlite")
    environment = {**os.environ, **asked, "_ORCHESTR8_SQLITE_COMPLETE": f"complete_{shell}"}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert {word for word in ("lint", "list", "path") if word in done.stdout} == {"lint", "list"}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("lint --format ", ["github", "json", "sarif", "text"]),
        ("search --mode ", ["catalog", "full", "index"]),
        ("build --category best", ["best-practice"]),
        ("list t", ["tags"]),
    ],
)
def test_shells_complete_values(line: str, values: list[str]) -> None:
    program = Path(sys.executable).with_name("orchestr8-sqlite")
    words = f"orchestr8-sqlite {line}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_ORCHESTR8_SQLITE_COMPLETE": "complete_bash"}
    done = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert sorted(done.stdout.split()) == values
