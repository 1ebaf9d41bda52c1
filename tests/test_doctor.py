"""`doctor`: what it finds in an index, in a server that misbehaves, and in the clients' files."""

import json
import shutil
import sqlite3
import sys
import time
from pathlib import Path

import pytest
from support import Invoke, MakeCatalog, build, markdown, rows, write_files, write_program

from orchestr8_sqlite.clients.launch import own_command
from orchestr8_sqlite.doctor.configurations import check_clients
from orchestr8_sqlite.doctor.index import check_index, check_installation, typical_query
from orchestr8_sqlite.doctor.report import Check, CheckVerdict
from orchestr8_sqlite.doctor.server import check_server
from orchestr8_sqlite.settings import read_places

FILES = {
    "skills/retry.md": markdown("title: Retrying\nuseWhen:\n  - Retrying a flaky call", "# Retrying\n\nWait.\n"),
    "skills/pdf/SKILL.md": markdown("name: pdf\ndescription: Reads PDF files", "# PDF\n\nRead.\n"),
    "prompts/workflows/fix.md": markdown("title: Fix\ndescription: Fixes", "Fix $ARGUMENTS\n"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """Return an index of FILES that the test may change."""
    return Path(shutil.copy(built, tmp_path))


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


# --- the index


def test_a_sound_index_is_opened_checked_and_counted(index: Path) -> None:
    checks = list(check_index(index))
    assert [(check.name, check.verdict) for check in checks] == [
        ("index", CheckVerdict.OK),
        ("integrity", CheckVerdict.OK),
        ("contents", CheckVerdict.OK),
    ]
    version = rows(index, "SELECT value FROM meta WHERE key = 'schema_version'")[0][0]
    assert checks[0].finding.startswith(f"{index}: schema {version}, from today, ")
    assert checks[2].finding == "2 fragments, 1 prompt, 1 skill"


def test_a_missing_index_is_found_with_what_to_run(tmp_path: Path) -> None:
    first, *others = check_index(tmp_path / "none.db")
    assert first == Check(
        "index",
        CheckVerdict.PROBLEM,
        f"There is no index at {tmp_path / 'none.db'}",
        "build it with: orchestr8-sqlite build ROOT -o INDEX",
    )
    assert {check.verdict for check in others} == {CheckVerdict.OMITTED}


def test_an_index_of_another_schema_version_is_found(index: Path) -> None:
    connection = sqlite3.connect(index)
    connection.execute("PRAGMA user_version = 990000")
    connection.close()
    first = next(iter(check_index(index)))
    assert first.verdict is CheckVerdict.PROBLEM
    assert "has the newer schema version 99" in first.finding
    assert first.advice == "upgrade orchestr8-sqlite"


def test_a_file_that_is_no_index_is_found(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database at all, " * 100, encoding="utf-8")
    assert next(iter(check_index(tmp_path / "notes.db"))).verdict is CheckVerdict.PROBLEM


def test_a_damaged_index_is_found(index: Path) -> None:
    page = 4096
    data = bytearray(index.read_bytes())
    damaged = len(data) // page // 2 * page
    data[damaged : damaged + page] = b"\xff" * page
    index.write_bytes(data)
    found, integrity, _ = check_index(index)
    assert (found.verdict, integrity.verdict) == (CheckVerdict.PROBLEM, CheckVerdict.OMITTED)
    assert found.advice == "build it again with: orchestr8-sqlite build ROOT -o INDEX --full"


def test_an_index_without_contents_is_found(make_catalog: MakeCatalog) -> None:
    contents = named(list(check_index(make_catalog().path)), "contents")
    assert (contents.verdict, contents.finding) == (CheckVerdict.PROBLEM, "0 fragments, 0 prompts, 0 skills")


def test_the_search_to_try_is_a_title_of_the_index_else_any_word(index: Path, tmp_path: Path) -> None:
    assert typical_query(index) in {"Retrying", "PDF", "pdf"}
    assert typical_query(tmp_path / "none.db") == "test"


def test_sqlite_without_fts5_or_too_old_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check.verdict for check in check_installation()] == [CheckVerdict.OK, CheckVerdict.OK]
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    assert named(list(check_installation()), "sqlite").advice == "use a Python whose SQLite is 3.37 or newer"


# --- the server

FAKE = """
import json, os, sys, threading
faults = sys.argv[1].split(",")

def say(value):
    print(value, flush=True)

def answer(request, result):
    say(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))

if "unset" in faults and os.environ.get("FAKE") != "set" or "here" in faults and not os.path.exists("here.txt"):
    sys.exit("This is not where it works")
if "dies" in faults:
    sys.exit("Traceback: no module named mcp")
if "prints" in faults:
    say("Welcome to the server")
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"]
    if "silent" in faults or "id" not in request:
        continue
    if method == "initialize":
        name = "other" if "other" in faults else "orchestr8"
        revision = "2024-11-05" if "old" in faults else request["params"]["protocolVersion"]
        say(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
        answer(request, {"protocolVersion": revision, "serverInfo": {"name": name, "version": "1"}})
    elif method == "server/discover":
        answer(request, {"supportedVersions": ["2025-11-25"] if "old" in faults else ["2026-07-28"]})
    elif method == "tools/list" and "indexless" in faults:
        error = {"code": -32603, "message": "The index cannot be read."}
        say(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))
    elif method == "tools/list":
        text = "word " * 1000 if "wordy" in faults else "Finds"
        answer(request, {"tools": [] if "toolless" in faults else [{"name": "search", "description": text}]})
    elif method == "tools/call":
        answer(request, {"content": [{"type": "text", "text": "It broke"}], "isError": "failing" in faults})
if "prints" in faults:
    say("Goodbye")
if "stays" in faults:
    threading.Event().wait()
sys.exit(3 if "fails" in faults else 0)
"""
ROWS = ["initialize 2025-11-25", "tools", "search", "stdout", "exit", "server/discover 2026-07-28"]


def examine(tmp_path: Path, faults: str, patience: float = 20) -> dict[str, Check]:
    """Return what is said of a server with these *faults*, by row."""
    script = tmp_path / "fake.py"
    script.write_text(FAKE, encoding="utf-8")
    checks = list(check_server([sys.executable, "-I", "-S", str(script), faults], "retry", patience=patience))
    assert [check.name for check in checks] == ROWS
    return {check.name: check for check in checks}


def problems(checks: dict[str, Check]) -> dict[str, str]:
    return {check.name: check.finding for check in checks.values() if check.verdict is CheckVerdict.PROBLEM}


def test_a_server_that_does_all_right_has_no_problem(tmp_path: Path) -> None:
    checks = examine(tmp_path, "none")
    assert problems(checks) == {}
    assert checks["initialize 2025-11-25"].finding.startswith("orchestr8 1 after ")
    assert checks["tools"].finding.startswith("search: ~")
    assert checks["exit"].finding.startswith("0, ")


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ("prints", {"stdout": "2 lines besides the messages, first b'Welcome to the server\\n'"}),
        ("fails", {"exit": "exit code 3"}),
        ("failing", {"search": "It broke"}),
        ("toolless", {"tools": "the server offers none"}),
        ("indexless", {"tools": "error -32603: The index cannot be read."}),
        (
            "old",
            {
                "initialize 2025-11-25": "revision 2024-11-05",
                "server/discover 2026-07-28": "it supports 2025-11-25",
            },
        ),
        ("wordy", {"tools": "more than 900"}),
    ],
)
def test_each_fault_of_a_server_is_found_and_no_other(tmp_path: Path, faults: str, found: dict[str, str]) -> None:
    said = problems(examine(tmp_path, faults))
    assert said.keys() == found.keys()
    for name, words in found.items():
        assert words in said[name]


def test_a_server_that_does_not_answer_is_found_in_bounded_time(tmp_path: Path) -> None:
    checks = examine(tmp_path, "silent", patience=0.2)
    assert problems(checks)["initialize 2025-11-25"].startswith("no answer after 0.2 s")
    assert problems(checks)["server/discover 2026-07-28"].startswith("no answer after 0.2 s")
    assert checks["tools"].verdict is CheckVerdict.OMITTED


def test_a_server_that_dies_is_found_with_its_last_words(tmp_path: Path) -> None:
    found = problems(examine(tmp_path, "dies"))
    told = "it ended before it answered; it last wrote: Traceback: no module named mcp"
    assert found["initialize 2025-11-25"] == told
    assert found["exit"] == "exit code 1"
    advice = examine(tmp_path, "dies")["exit"].advice
    assert advice.startswith(f"see what it writes to standard error: {sys.executable} -I -S ")


@pytest.mark.slow
def test_a_server_that_does_not_exit_is_found_and_ended(tmp_path: Path) -> None:
    assert problems(examine(tmp_path, "stays", patience=2)) == {"exit": "still running 2 s after the end of input"}


def test_a_server_that_cannot_be_started_is_found(tmp_path: Path) -> None:
    (only,) = check_server([str(tmp_path / "none")], "retry", patience=1)
    assert only.verdict is CheckVerdict.PROBLEM
    assert only.finding == f"{tmp_path / 'none'} cannot be started: No such file or directory"


# --- the clients


def looked_at(home: Path, *, patience: float = 20, trusts_project: bool = False) -> list[Check]:
    assert home == Path.home()
    return list(check_clients(read_places("linux"), patience=patience, trusts_project=trusts_project))


def found_in(home: Path, name: str) -> Check:
    return named(looked_at(home), name)


def fake(home: Path, faults: str, **entry: object) -> dict[str, object]:
    """Return a client's entry that starts a server with these *faults*."""
    script = write_files(home, {"orchestr8_sqlite": FAKE}) / "orchestr8_sqlite"
    return {"command": sys.executable, "args": ["-I", "-S", str(script), faults], **entry}


def configure(path: Path, servers: dict[str, object]) -> Path:
    """Write a client's file with these *servers* and return it."""
    return write_files(path.parent, {path.name: json.dumps({"mcpServers": servers})}) / path.name


def test_clients_that_are_not_here_are_named_in_one_line(home: Path) -> None:
    (only,) = looked_at(home)
    assert only.verdict is CheckVerdict.OMITTED
    assert only.finding.startswith("not found here: Claude Code, Claude Desktop, Cursor, VS Code, Codex CLI, Gemini")


def test_an_entry_that_starts_this_server_is_started_and_found_good(home: Path) -> None:
    path = configure(home / ".cursor" / "mcp.json", {"library": fake(home, "none")})
    check = found_in(home, "cursor, user")
    assert (check.verdict, check.advice) == (CheckVerdict.OK, "")
    assert check.finding.startswith(f"library in {path}: orchestr8 1 after ")


def test_an_entry_is_started_with_its_own_environment_and_in_its_own_folder(home: Path) -> None:
    (home / "here.txt").touch()
    entry = fake(home, "unset,here", env={"FAKE": "set"}, cwd=str(home))
    configure(home / ".cursor" / "mcp.json", {"library": entry})
    assert found_in(home, "cursor, user").verdict is CheckVerdict.OK
    configure(home / ".cursor" / "mcp.json", {"library": {**entry, "env": {}}})
    assert found_in(home, "cursor, user").verdict is CheckVerdict.PROBLEM
    configure(home / ".cursor" / "mcp.json", {"library": {**entry, "cwd": str(home / "bin")}})
    check = found_in(home, "cursor, user")
    assert check.finding.endswith(f": {home / 'bin'} does not exist")


@pytest.mark.parametrize(
    ("faults", "finding", "advice"),
    [
        ("other", "other 1 after ", ""),
        ("dies", "it ended before it answered; it last wrote: Traceback: no module named mcp", ", or see what it wri"),
        ("failing", "It broke", ", or see what it writes to standard error: "),
        ("prints", "2 lines besides the messages", ", or find what prints: "),
    ],
)
def test_an_entry_whose_server_fails_is_a_problem_that_says_how(
    home: Path, faults: str, finding: str, advice: str
) -> None:
    path = configure(home / ".cursor" / "mcp.json", {"library": fake(home, faults)})
    check = found_in(home, "cursor, user")
    assert check.verdict is CheckVerdict.PROBLEM
    assert check.finding.startswith(f"library in {path}: {finding}")
    again = "orchestr8-sqlite install cursor --write --name library --force"
    assert check.advice.startswith(again + advice)
    assert (check.advice == again) is (not advice)


def test_advice_to_install_again_keeps_what_the_entry_serves(home: Path) -> None:
    arguments = ["serve", "--watch", "--root", "/team/my library"]
    configure(home / ".cursor" / "mcp.json", {"team": {"command": "orchestr8-sqlite", "args": arguments}})
    advice = "orchestr8-sqlite install cursor --write --name team --root '/team/my library' --force"
    assert found_in(home, "cursor, user").advice == advice


def test_advice_to_install_again_keeps_the_source_and_not_what_a_runner_installs(home: Path) -> None:
    arguments = ["--from", "team.whl", "orchestr8-sqlite", "serve", "--from", "https://host/x", "--channel", "beta"]
    configure(home / ".cursor" / "mcp.json", {"team": {"command": "uvx", "args": arguments}})
    kept = "--name team --from https://host/x --channel beta --force"
    assert f" {kept}" in f" {found_in(home, 'cursor, user').advice}"
    assert "team.whl" not in found_in(home, "cursor, user").advice.partition(", or ")[0]


def test_an_entry_whose_program_is_missing_is_a_problem(home: Path) -> None:
    path = configure(home / ".cursor" / "mcp.json", {"library": {"command": "orchestr8-sqlite", "args": ["serve"]}})
    assert found_in(home, "cursor, user") == Check(
        "cursor, user",
        CheckVerdict.PROBLEM,
        f"library in {path}: orchestr8-sqlite does not exist",
        "orchestr8-sqlite install cursor --write --name library --force",
    )
    configure(home / ".cursor" / "mcp.json", {"library": {"command": str(home), "args": ["orchestr8-sqlite"]}})
    assert found_in(home, "cursor, user").finding == f"library in {path}: {home} cannot be started: Permission denied"


def test_an_entry_that_does_not_answer_is_a_problem_in_bounded_time_and_nothing_of_it_is_left(home: Path) -> None:
    sleeper = write_program(
        home / "bin" / "orchestr8-sqlite", f"#!/bin/sh\n/bin/sleep 600 & echo $! > {home}/pid; wait\n"
    )
    configure(home / ".cursor" / "mcp.json", {"library": {"command": str(sleeper)}})
    check = named(looked_at(home, patience=0.5), "cursor, user")
    assert check.verdict is CheckVerdict.PROBLEM
    assert ": no answer after 0.5 s" in check.finding
    child = int((home / "pid").read_text(encoding="utf-8"))
    deadline = time.monotonic() + 5
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(child)


def is_running(process: int) -> bool:
    """Tell whether *process* runs; one that has ended, and was not waited for, does not."""
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("name", "entry", "finding"),
    [
        (
            "library",
            {"command": "${workspaceFolder}/.venv/bin/orchestr8-sqlite"},
            "that only Cursor can fill in; it was",
        ),
        ("library", {"command": "none", "args": ["orchestr8-sqlite"], "env": {"A": "${env:B}"}}, "it was not started"),
        ("library", {"command": sys.executable, "args": ["other"]}, "does not name this server"),
        ("library", {"url": "https://example.com"}, "does not name this server"),
        ("orchestr8", {"url": "https://example.com"}, "has a URL instead of a command; it was not checked"),
    ],
)
def test_an_entry_that_is_not_ours_or_known_to_its_client_alone_is_not_started(
    home: Path, name: str, entry: dict[str, object], finding: str
) -> None:
    configure(home / ".cursor" / "mcp.json", {name: entry})
    check = found_in(home, "cursor, user")
    assert check.verdict is CheckVerdict.OMITTED
    assert finding in check.finding
    assert (check.advice == "orchestr8-sqlite install cursor --write") is ("does not name" in finding)


@pytest.mark.parametrize(
    "arguments",
    [
        ["orchestr8-sqlite@0.1", "serve"],
        ["--from", "/x.whl", "orchestr8-sqlite", "serve"],
        ["C:\\orchestr8-sqlite.exe"],
    ],
)
def test_an_entry_is_known_by_the_program_among_its_arguments(home: Path, arguments: list[str]) -> None:
    configure(home / ".cursor" / "mcp.json", {"library": {"command": "uvx", "args": arguments}})
    assert found_in(home, "cursor, user").finding.endswith(": uvx does not exist")


def test_an_entry_of_this_name_that_starts_something_else_is_a_problem(home: Path) -> None:
    entry = fake(home, "other")
    assert isinstance(entry["args"], list)
    entry["args"][2] = str((home / "orchestr8_sqlite").rename(home / "theirs"))
    configure(home / ".cursor" / "mcp.json", {"orchestr8": entry})
    assert ", which is another server" in found_in(home, "cursor, user").finding


def test_the_local_scope_of_claude_code_is_looked_at_and_makes_another_needless(home: Path) -> None:
    servers = {"orchestr8": {"command": "gone/orchestr8-sqlite"}}
    document = {"projects": {str(home / "project"): {"mcpServers": servers}, str(home): {"mcpServers": {}}}}
    (home / ".claude.json").write_text(json.dumps(document), encoding="utf-8")
    check, others = looked_at(home)
    assert (check.name, check.verdict) == ("claude-code, local", CheckVerdict.PROBLEM)
    assert check.advice == "orchestr8-sqlite install claude-code --scope local --write --name orchestr8 --force"
    assert others.name == "other clients"


def test_a_clients_file_that_cannot_be_parsed_is_a_problem_once(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {,}}', encoding="utf-8")
    check, others = looked_at(home)
    assert (check.name, check.verdict) == ("claude-code, user", CheckVerdict.PROBLEM)
    assert check.finding.startswith(f"{home / '.claude.json'} cannot be parsed (")
    assert others.name == "other clients"


def test_what_a_projects_file_names_is_started_only_when_the_user_says_so(home: Path) -> None:
    mark = home / "started"
    command = write_program(home / "project" / "orchestr8-sqlite", f"#!/bin/sh\n> {mark}\n")
    path = configure(home / "project" / ".mcp.json", {"o": {"command": str(command)}})
    check = found_in(home, "claude-code, project")
    assert check == Check(
        "claude-code, project",
        CheckVerdict.OMITTED,
        f"o in {path} was not started: others may have written it",
        "read it, then run: orchestr8-sqlite doctor --trust-project",
    )
    assert not mark.exists()
    check = named(looked_at(home, trusts_project=True), "claude-code, project")
    assert check.verdict is CheckVerdict.PROBLEM
    assert check.advice.startswith("orchestr8-sqlite install claude-code --scope project --write --name o --force, or ")
    assert mark.exists()


# --- the command


@pytest.mark.slow
def test_doctor_finds_nothing_wrong_with_a_sound_installation(invoke: Invoke, home: Path, index: Path) -> None:
    code, out, err = invoke("doctor", "--db", index, "--json")
    report = json.loads(out)
    assert (code, err, report["ok"]) == (0, "", True)
    verdicts = {row["check"]: row["verdict"] for row in report["checks"]}
    assert list(verdicts) == ["python", "sqlite", "index", "integrity", "contents", *ROWS, "other clients"]
    assert set(verdicts.values()) == {"ok", "-"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "verdict", "finding"),
    [
        ((), "ok", "orchestr8 0.1.0 after "),
        (("--db", "none.db"), "problem", "There is no index at none.db; build it with: "),
        (("--root", "none"), "problem", "none is not a folder: name the library's folders with --root"),
    ],
)
def test_doctor_starts_what_claude_code_starts_here_and_its_exit_code_says_what_came_of_it(
    invoke: Invoke, home: Path, index: Path, options: tuple[str, ...], verdict: str, finding: str
) -> None:
    command, *arguments = own_command()
    entry = {"command": command, "args": [*arguments, "serve", *options], "env": {"XDG_CACHE_HOME": str(home)}}
    document = {"projects": {str(home / "project"): {"mcpServers": {"orchestr8": entry}}}}
    (home / ".claude.json").write_text(json.dumps(document), encoding="utf-8")
    code, out, _ = invoke("doctor", "--db", index, "--json")
    found = next(row for row in json.loads(out)["checks"] if row["check"] == "claude-code, local")
    assert (code, found["verdict"]) == (0 if verdict == "ok" else 1, verdict)
    assert found["finding"].startswith(f"orchestr8 in {home / '.claude.json'}: {finding}")


@pytest.mark.slow
def test_doctor_fails_where_the_index_is_missing(invoke: Invoke, home: Path) -> None:
    code, out, _ = invoke("doctor", "--db", home / "none.db")
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 1
    assert lines[0] == ["check", "verdict", "finding", "what to do"]
    verdicts = {line[0]: line[1] for line in lines[1:]}
    assert (verdicts["index"], verdicts["search"], verdicts["exit"]) == ("problem", "problem", "ok")
    search = next(line[2] for line in lines if line[0] == "search")
    assert f"There is no index at {home / 'none.db'}; build it with: orchestr8-sqlite build" in search


def test_doctor_refuses_a_root_that_is_missing(invoke: Invoke, home: Path) -> None:
    code, out, err = invoke("doctor", "--root", home / "none")
    assert (code, out) == (2, "")
    assert err == f"There is no folder {home / 'none'}; --root must name a folder of Markdown files.\n"
