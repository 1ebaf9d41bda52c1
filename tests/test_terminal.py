"""No text of a library commands the terminal of whoever reads it; a pipe gets it byte for byte."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import Invoke, build, markdown, write_files

from orchestr8_sqlite.cli.terminal import harmless
from orchestr8_sqlite.server.log import FORMATTERS

pty = pytest.importorskip("pty")

COMMANDS = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp\u2066\x08\x0b"
"""Clear the screen, name the window, turn red, turn letters around, go back: as bodies and fields may hold it."""

DANGEROUS = set("\x1b\x07\x9b\u202e\u2066\x08\x0b")
SHOWN = json.dumps(f"Retrying {COMMANDS}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    front = f"title: {SHOWN}\ndescription: {SHOWN}\ntags: [{SHOWN}]\nuseWhen: [{SHOWN}]"
    files = {
        "skills/retry.md": markdown(front, f"# Retry {COMMANDS}\n\nWait\tlong {COMMANDS}.\n"),
        "skills/other.md": markdown(f"useWhen: [{SHOWN}]\ncategory: {SHOWN}\ntags: {{}}"),
        "skills/bad.md": markdown(f"bad{COMMANDS}: 1"),
    }
    root = write_files(tmp_path_factory.mktemp("terminal") / "library", files)
    build(root, root.parent / "index.db")
    return root


def on_terminal(*arguments: str) -> str:
    """Return what the command writes to both streams where both are a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "orchestr8_sqlite", *arguments]
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                chunk = os.read(ours, 65_536)
            except OSError:  # how Linux tells the end
                break
            if not chunk:
                break
            written += chunk
        process.wait(60)
    os.close(ours)
    return written.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "retrying"),
        ("search", "retrying", "--mode", "full"),
        ("search", "retrying", "--json"),
        ("search", "retrying", "--sql"),
        ("search", f"zzyzx {COMMANDS}"),
        ("load", "orchestr8://skills/retry"),
        ("load", "orchestr8://skills/retry", "--json"),
        ("load", f"orchestr8://skills/{COMMANDS}"),
        ("sql", "SELECT f.title, t.tag, b.body FROM fragment f, tag t, fragment_body b"),
        ("sql", "SELECT title FROM fragment", "--json"),
        ("sql", f'SELECT 1 AS "{COMMANDS}"'),
        ("sql", f'SELECT "a{COMMANDS}" FROM nowhere'),
        ("stats",),
        ("stats", "--json"),
        ("lint",),
        ("lint", "--json"),
    ],
)
def test_nothing_on_a_terminal_commands_it(library: Path, arguments: tuple[str, ...]) -> None:
    where = [str(library)] if arguments[0] == "lint" else ["--db", str(library.parent / "index.db")]
    shown = on_terminal(*arguments, *where)
    assert shown
    assert "Traceback" not in shown
    assert not DANGEROUS & set(shown)


@pytest.mark.parametrize("options", [("cursor",), ("codex",), ("cursor", "--write")])
def test_no_name_of_a_folder_commands_the_terminal_where_a_client_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    home = tmp_path / f"home{COMMANDS}"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    shown = on_terminal("install", *options, "--root", str(home))
    assert "home" in shown
    assert not DANGEROUS & set(shown)


def test_a_pipe_gets_the_text_as_it_is(library: Path, invoke: Invoke) -> None:
    index = library.parent / "index.db"
    _, out, _ = invoke("load", "orchestr8://skills/retry", "--db", index)
    assert f"Wait\tlong {COMMANDS}." in out
    _, out, _ = invoke("sql", "SELECT body FROM fragment_body", "--db", index, "--json")
    assert COMMANDS in "".join(row["body"] for row in json.loads(out))


def test_json_on_a_terminal_means_the_same(library: Path) -> None:
    index = str(library.parent / "index.db")
    shown = on_terminal("sql", "SELECT body FROM fragment_body ORDER BY 1", "--json", "--db", index)
    assert COMMANDS in "".join(row["body"] for row in json.loads(shown))


def test_what_is_taken_away_can_be_seen_and_letters_stay() -> None:
    assert harmless("a\x1b[31mb\r\nc\rd\te") == "a\ufffd[31mb\nc\ufffdd\te"
    assert harmless("नमस्‍ते 👩‍💻 café 再試行") == "नमस्‍ते 👩‍💻 café 再試行"


@pytest.mark.parametrize("form", FORMATTERS)
def test_no_line_of_the_log_commands_a_terminal(form: str) -> None:
    record = logging.makeLogRecord({"msg": f"asked {COMMANDS}\n", "levelname": "INFO", "query": f"a{COMMANDS}é再"})
    line = FORMATTERS[form]().format(record)
    assert line.isprintable()
    assert "é再" in line
    if form == "json":
        assert json.loads(line)["query"] == f"a{COMMANDS}é再"
