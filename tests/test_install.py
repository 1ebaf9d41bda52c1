"""`install`: what it prints, what it writes, and what it refuses."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, write_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these places are Linux'; test_clients has the others")


@pytest.fixture
def index(home: Path) -> Path:
    path = home / "index.db"
    path.write_bytes(b"")
    return path


def servers(path: Path, key: str = "mcpServers") -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))[key]
    assert isinstance(found, dict)
    return found


def test_without_write_the_configuration_is_on_stdout_and_the_place_on_stderr(invoke: Invoke, home: Path) -> None:
    code, out, err = invoke("install", "cursor")
    assert code == 0
    assert err == f"Cursor reads {home}/.cursor/mcp.json; add this to it, or run again with --write:\n"
    entry = json.loads(out)["mcpServers"]["orchestr8"]
    assert (entry["type"], entry["args"][-1]) == ("stdio", "serve")
    assert Path(entry["command"]).is_absolute()
    assert [path.name for path in home.iterdir()] == ["project"]


def test_index_and_roots_are_named_with_absolute_paths(invoke: Invoke, home: Path, index: Path) -> None:
    (home / "project" / "library").mkdir()
    _, out, _ = invoke("install", "zed", "--db", "../index.db", "--root", "library", "--root", home)
    assert json.loads(out)["context_servers"]["orchestr8"]["args"][-7:] == [
        "serve",
        "--db",
        f"{home}/project/../index.db",
        "--root",
        f"{home}/project/library",
        "--root",
        str(home),
    ]


@pytest.mark.usefixtures("home")
def test_profile_is_written_too_and_one_that_does_not_exist_is_refused(invoke: Invoke) -> None:
    _, out, _ = invoke("install", "zed", "--profile", "skills")
    assert json.loads(out)["context_servers"]["orchestr8"]["args"][-3:] == ["serve", "--profile", "skills"]
    code, _, err = invoke("install", "zed", "--profile", "skill")
    assert (code, err) == (1, "--profile must be one of library, skills, not 'skill'.\n")


def test_write_keeps_what_is_there_and_leaves_a_backup(invoke: Invoke, home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    old = '{\n  // mine\n  "theme": "dark",\n  "mcpServers": {\n    "b": {"command": "x"}\n  }\n}\n'
    path.write_text(old, encoding="utf-8")
    code, out, err = invoke("install", "gemini", "--write")
    assert (code, err) == (0, "")
    assert out.startswith(f"Gemini CLI: orchestr8 is written to {path} (backup: {path}.bak). ")
    assert Path(f"{path}.bak").read_text(encoding="utf-8") == old
    new = path.read_text(encoding="utf-8")
    assert new.startswith('{\n  // mine\n  "theme": "dark",\n  "mcpServers": {\n    "b": {"command": "x"},\n')


def test_second_write_says_that_it_is_already_there_and_changes_nothing(invoke: Invoke, home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"a": 1}', encoding="utf-8")
    invoke("install", "claude-code", "--write")
    before = {file: file.read_bytes() for file in home.iterdir() if file.is_file()}
    code, out, _ = invoke("install", "claude-code", "--write")
    assert (code, out) == (0, f"Claude Code: orchestr8 is already in {path}.\n")
    assert {file: file.read_bytes() for file in home.iterdir() if file.is_file()} == before


def test_what_a_user_has_added_to_the_entry_stays(invoke: Invoke, home: Path, index: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    invoke("install", "cursor", "--write")
    document = json.loads(path.read_text(encoding="utf-8"))
    document["mcpServers"]["orchestr8"]["env"] = {"LOG_LEVEL": "debug"}
    path.write_text(json.dumps(document), encoding="utf-8")
    assert invoke("install", "cursor", "--write")[1] == f"Cursor: orchestr8 is already in {path}.\n"
    assert invoke("install", "cursor", "--write", "--db", index, "--force")[0] == 0
    assert servers(path)["orchestr8"]["env"] == {"LOG_LEVEL": "debug"}
    assert servers(path)["orchestr8"]["args"][-2:] == ["--db", str(index)]


def test_a_client_that_seems_absent_gets_its_file_and_a_note(invoke: Invoke, home: Path) -> None:
    path = home / ".codex" / "config.toml"
    code, out, err = invoke("install", "codex", "--write")
    assert code == 0
    assert err == f"Codex CLI does not seem to be installed here; writing {path} anyway.\n"
    assert out.startswith(f"Codex CLI: orchestr8 is written to {path}. ")
    assert tomllib.loads(path.read_text(encoding="utf-8"))["mcp_servers"]["orchestr8"]["args"][-1] == "serve"


def test_another_server_of_that_name_stays_unless_forced(invoke: Invoke, home: Path, index: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"orchestr8": {"command": "theirs"}}}', encoding="utf-8")
    code, out, err = invoke("install", "cursor", "--write")
    assert (code, out) == (1, "")
    assert err == (f"{path} has another server named 'orchestr8'; replace it with --force, or choose another --name.\n")
    assert list(path.parent.iterdir()) == [path]
    assert invoke("install", "cursor", "--write", "--name", "library", "--db", index)[0] == 0
    assert servers(path)["orchestr8"] == {"command": "theirs"}
    assert servers(path)["library"]["args"][-2:] == ["--db", str(index)]
    assert invoke("install", "cursor", "--write", "--force")[0] == 0
    assert servers(path)["orchestr8"]["args"][-1] == "serve"
    assert sorted(file.name for file in path.parent.iterdir()) == ["mcp.json", "mcp.json.bak", "mcp.json.bak.1"]


def test_a_file_that_cannot_be_parsed_is_left_alone(invoke: Invoke, home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"a": ', encoding="utf-8")
    code, out, err = invoke("install", "claude-code", "--write")
    assert (code, out) == (1, "")
    assert err.startswith(f"{path} cannot be parsed (")
    assert err.count("\n") == 1
    assert path.read_text(encoding="utf-8") == '{"a": '


def test_a_projects_file_is_written_in_the_working_folder(invoke: Invoke, home: Path) -> None:
    code, out, err = invoke("install", "vscode", "--scope", "project", "--write")
    assert (code, err) == (0, "")
    assert "orchestr8" in servers(home / "project" / ".vscode" / "mcp.json", "servers")
    assert out.endswith("if others share the file, install with uvx from a URL that they can reach too.\n")


def test_the_local_scope_of_claude_code_is_written_for_this_folder(invoke: Invoke, home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"mcpServers": {}}', encoding="utf-8")
    code, out, err = invoke("install", "claude-code", "--scope", "local", "--write")
    assert (code, err) == (0, "")
    assert out.startswith(f"Claude Code: orchestr8 is written to {path} (backup: {path}.bak). ")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["projects"][str(home / "project")]["mcpServers"]["orchestr8"]["args"][-1] == "serve"
    assert document["mcpServers"] == {}
    assert "is already in" in invoke("install", "claude-code", "--scope", "local", "--write")[1]


def test_another_scope_that_counts_instead_is_told(invoke: Invoke, home: Path, index: Path) -> None:
    path = home / ".claude.json"
    path.write_text("{}", encoding="utf-8")
    invoke("install", "claude-code", "--scope", "local", "--write")
    assert invoke("install", "claude-code", "--write")[2] == ""  # the same in both
    (home / "project" / ".mcp.json").write_text("{", encoding="utf-8")  # no reason to fail here
    code, _, err = invoke("install", "claude-code", "--write", "--db", index, "--force")
    assert (code, err) == (
        0,
        f"Claude Code has another orchestr8 in its local scope ({path}); the local scope wins here.\n",
    )


def test_a_client_whose_program_is_on_the_path_is_installed(invoke: Invoke, home: Path) -> None:
    write_program(home / "bin" / "codex")
    assert invoke("install", "codex", "--write")[2] == ""


def test_from_an_ephemeral_environment_uvx_is_written(
    invoke: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(home / "environment"))
    _, out, _ = invoke("install", "claude-code", "--scope", "project")
    assert json.loads(out)["mcpServers"]["orchestr8"] == {
        "type": "stdio",
        "command": "uvx",
        "args": ["--from", str(Path(__file__).parents[1]), "orchestr8-sqlite", "serve"],
    }


@pytest.mark.parametrize(
    ("variable", "client", "path"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", "moved/.claude.json"),
        ("CODEX_HOME", "codex", "moved/config.toml"),
        ("GEMINI_CLI_HOME", "gemini", "moved/.gemini/settings.json"),
        ("XDG_CONFIG_HOME", "zed", "moved/zed/settings.json"),
    ],
)
def test_variables_that_move_a_clients_files_are_followed(
    invoke: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, client: str, path: str
) -> None:
    monkeypatch.setenv(variable, str(home / "moved"))
    assert json.loads(invoke("install", client, "--json")[1])["path"] == str(home / path)


@pytest.mark.parametrize("arguments", [["install"], ["install", "zed", "--list"]])
def test_the_list_shows_every_client_with_its_files(invoke: Invoke, home: Path, arguments: list[str]) -> None:
    (home / ".cursor").mkdir()
    (home / "project" / ".mcp.json").write_text("{}", encoding="utf-8")
    code, out, _ = invoke(*arguments)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "client\tscope\tinstalled\texists\tfile"
    assert len(lines) == 1 + 8 + 7 + 1
    assert f"cursor\tuser\tyes\tno\t{home}/.cursor/mcp.json" in lines
    assert f"claude-code\tproject\tno\tyes\t{home}/project/.mcp.json" in lines
    rows = json.loads(invoke(*arguments, "--json")[1])
    assert [row["path"] for row in rows] == [line.split("\t")[4] for line in lines[1:]]


def test_json_says_what_was_done(invoke: Invoke, home: Path) -> None:
    printed = json.loads(invoke("install", "zed", "--json")[1])
    assert (printed["written"], printed["exists"]) == (False, False)
    assert json.loads(printed["configuration"]) == {"context_servers": {"orchestr8": printed["entry"]}}
    path = home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}", encoding="utf-8")
    written = json.loads(invoke("install", "zed", "--json", "--write")[1])
    assert (written["written"], written["backup"], written["path"]) == (True, f"{path}.bak", str(path))
    again = json.loads(invoke("install", "zed", "--json", "--write")[1])
    assert (again["written"], again["backup"]) == (False, None)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["curser"], "Unknown client 'curser'. Did you mean 'cursor'?"),
        (["cursor", "--scope", "team"], "--scope must be one of user, project, local, not 'team'."),
        (["cursor", "--scope", "local"], "Cursor has no scope local; use --scope user or project."),
        (["claude-desktop", "--scope", "project"], "Claude Desktop has no scope project;"),
        (["cursor", "--name", "a b"], "--name must be 1 to 64 letters, digits, hyphens and underscores, not 'a b'."),
        (["cursor", "--db", "none.db"], "There is no index at none.db; build it with: orchestr8-sqlite build ROOT"),
        (["cursor", "--root", "none"], "There is no folder none; --root must name a folder of Markdown files."),
        (["--write"], "Name the client to write for, such as: orchestr8-sqlite install cursor --write"),
    ],
)
def test_wrong_call_is_one_sentence_and_code_2(invoke: Invoke, home: Path, arguments: list[str], advice: str) -> None:
    code, out, err = invoke("install", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(advice)
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["install", "doctor"])
def test_help_shows_an_example(invoke: Invoke, command: str) -> None:
    assert "Example: orchestr8-sqlite" in invoke(command, "--help")[1]
