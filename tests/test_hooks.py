"""`install --hook`: the entry in a client's settings, what it leaves alone, and how it is taken back."""

import json
import sys
from pathlib import Path
from typing import Any

import json5
import pytest
from support import Invoke, write_program

from orchestr8_sqlite.clients import jsonc
from orchestr8_sqlite.clients.hooks import HOOKS, command_line
from orchestr8_sqlite.settings import index_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these places are Linux'")

THEIRS = """{
  "model": "opus",  // mine
  "hooks": {
    /* before each prompt */
    "BeforeAgent": [
      {"hooks": [{"type": "command", "command": "date"}]}, // keep
    ],
    "AfterAgent": []
  }
}
"""


@pytest.fixture
def index(home: Path) -> Path:
    path = home / "my index.db"
    path.write_bytes(b"")
    return path


def hooks(path: Path, event: str = "UserPromptSubmit") -> list[dict[str, Any]]:
    found = json5.loads(path.read_text(encoding="utf-8"))["hooks"][event]
    assert isinstance(found, list)
    return found


def command_of(path: Path, event: str = "UserPromptSubmit") -> str:
    return str(hooks(path, event)[-1]["hooks"][0]["command"])


@pytest.mark.parametrize(
    ("client", "scope", "file", "event", "timeout"),
    [
        ("claude-code", "user", ".claude/settings.json", "UserPromptSubmit", 5),
        ("claude-code", "project", "project/.claude/settings.json", "UserPromptSubmit", 5),
        ("claude-code", "local", "project/.claude/settings.local.json", "UserPromptSubmit", 5),
        ("codex", "user", ".codex/hooks.json", "UserPromptSubmit", 5),
        ("codex", "project", "project/.codex/hooks.json", "UserPromptSubmit", 5),
        ("gemini", "user", ".gemini/settings.json", "BeforeAgent", 5000),
        ("gemini", "project", "project/.gemini/settings.json", "BeforeAgent", 5000),
    ],
)
def test_hook_is_written_where_the_client_keeps_its_own(
    invoke: Invoke, home: Path, index: Path, client: str, scope: str, file: str, event: str, timeout: int
) -> None:
    code, out, err = invoke("install", client, "--hook", "--write", "--scope", scope, "--db", index)
    assert (code, err) == (0, "")
    assert f"the hook `suggest` is written to {home / file}. " in out
    (group,) = hooks(home / file, event)
    (hook,) = group["hooks"]
    assert (hook["type"], hook["timeout"]) == ("command", timeout)
    assert hook["command"].endswith(f"suggest --db '{index}'")


def test_without_write_the_settings_are_on_stdout_and_the_place_on_stderr(invoke: Invoke, home: Path) -> None:
    code, out, err = invoke("install", "claude-code", "--hook")
    assert code == 0
    assert err == f"Claude Code reads {home}/.claude/settings.json; add this to it, or run again with --write:\n"
    assert json.loads(out)["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].endswith(" suggest")
    assert not (home / ".claude").exists()


def test_hooks_and_comments_of_others_stay_as_they_are(invoke: Invoke, home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(THEIRS, encoding="utf-8")
    assert invoke("install", "gemini", "--hook", "--write")[0] == 0
    text = path.read_text(encoding="utf-8")
    assert [group["hooks"][0]["command"] for group in hooks(path, "BeforeAgent")] == [
        "date",
        command_of(path, "BeforeAgent"),
    ]
    for kept in ('"model": "opus",  // mine\n', "/* before each prompt */", "// keep\n", '"AfterAgent": []'):
        assert kept in text
    code, out, _ = invoke("install", "gemini", "--hook", "--remove")
    assert code == 0
    assert f"is removed from {path} (backup: {path}.bak.1)." in out
    assert path.read_text(encoding="utf-8") == THEIRS
    assert invoke("install", "gemini", "--hook", "--remove")[1] == f"Gemini CLI: the hook `suggest` is not in {path}.\n"


def test_second_write_changes_nothing_and_another_index_replaces_the_first(
    invoke: Invoke, home: Path, index: Path
) -> None:
    path = home / ".claude" / "settings.json"
    invoke("install", "claude-code", "--hook", "--write")
    before = path.read_bytes()
    out = invoke("install", "claude-code", "--hook", "--write")[1]
    assert (out, path.read_bytes()) == (f"Claude Code: the hook `suggest` is already in {path}.\n", before)
    path.write_text(json.dumps(json.loads(before), indent=8), encoding="utf-8")  # as another editor lays it out
    assert "is already in" in invoke("install", "claude-code", "--hook", "--write")[1]
    settings = json.loads(before)
    settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["timeout"] = 9
    settings["hooks"]["UserPromptSubmit"].append({"hooks": [{"type": "command", "command": "date"}]})
    path.write_text(json.dumps(settings), encoding="utf-8")
    invoke("install", "claude-code", "--hook", "--write", "--db", index)
    ours, theirs = (group["hooks"][0] for group in hooks(path))
    assert ours["command"].endswith(f"--db '{index}'")
    assert ours["timeout"] == 9
    assert theirs["command"] == "date"


def test_removing_the_first_of_two_leaves_the_second(invoke: Invoke, home: Path) -> None:
    path = home / ".codex" / "hooks.json"
    invoke("install", "codex", "--hook", "--write")
    text = path.read_text(encoding="utf-8").replace("}]}]", '}]}, {"hooks": [{"command": "suggest --db x"}]}]')
    path.write_text(text, encoding="utf-8")
    assert invoke("install", "codex", "--hook", "--remove")[0] == 0
    assert hooks(path) == [{"hooks": [{"command": "suggest --db x"}]}]


def test_hook_of_a_served_folder_asks_the_index_that_its_server_builds(invoke: Invoke, home: Path) -> None:
    (home / "library").mkdir()
    assert invoke("install", "claude-code", "--hook", "--write", "--root", home / "library")[0] == 0
    assert command_of(home / ".claude" / "settings.json").endswith(f"suggest --db {index_of([home / 'library'])}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hooks": []}', "hooks in {path} is not a table of lists; fix it, then try again."),
        ('{"hooks": {"UserPromptSubmit": {}}}', "hooks in {path} is not a table of lists; fix it, then try again."),
        ('{"hooks": {"UserPromptSubmit": ["x"]}}', "hooks in {path} is not a table of lists; fix it, then try again."),
        ('{"hooks": ', "{path} cannot be parsed"),
        ("{} // mine", "{path} contains comments or trailing commas, which Claude Code cannot read"),
        (
            '{"hooks": {"UserPromptSubmit": [{"hooks": [{"command": "a"}, {"command": "orchestr8-sqlite suggest"}]}]}}',
            "{path} has this hook in one group with others; change it by hand.",
        ),
    ],
)
def test_settings_that_cannot_be_edited_safely_are_left_alone(invoke: Invoke, home: Path, text: str, said: str) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    for option in ("--write", "--remove"):
        code, out, err = invoke("install", "claude-code", "--hook", option)
        assert (code, out) == (1, "")
        assert err.startswith(said.format(path=path))
    assert path.read_text(encoding="utf-8") == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("cursor", "--hook"), "Cursor has no hook that adds to a prompt; these have: claude-code, codex, gemini."),
        (("codex", "--hook", "--scope", "local"), "Codex CLI keeps no hooks for the scope local"),
        (("claude-code", "--remove"), "--remove takes back what --hook has written; use them together."),
        (("--hook",), "Name the client to write for"),
        (("claude-code", "--hook", "--db", "none.db"), "There is no index at none.db"),
    ],
)
def test_what_has_no_hook_is_refused(invoke: Invoke, options: tuple[str, ...], said: str) -> None:
    code, out, err = invoke("install", *options)
    assert (code, out) == (2, "")
    assert err.startswith(said)


def test_json_says_what_was_done(invoke: Invoke, home: Path) -> None:
    path = home / ".claude" / "settings.json"
    shown = json.loads(invoke("install", "claude-code", "--hook", "--json")[1])
    assert (shown["written"], json.loads(shown["configuration"])["hooks"].keys()) == (False, {"UserPromptSubmit"})
    written = json.loads(invoke("install", "claude-code", "--hook", "--write", "--json")[1])
    assert (written["written"], written["path"], written["backup"]) == (True, str(path), None)
    removed = json.loads(invoke("install", "claude-code", "--hook", "--remove", "--json")[1])
    assert (removed["removed"], removed["backup"]) == (True, f"{path}.bak")


def test_command_line_survives_the_shell_of_its_platform() -> None:
    words = ["C:\\My Programs\\orchestr8-sqlite.exe", "suggest", "--db", "C:\\i.db"]
    assert command_line(words, "win32") == '"C:\\My Programs\\orchestr8-sqlite.exe" suggest --db C:\\i.db'
    assert (
        command_line(["/my programs/orchestr8-sqlite", "suggest"], "darwin")
        == "'/my programs/orchestr8-sqlite' suggest"
    )


def test_hook_with_blanks_in_its_path_is_found_again(
    invoke: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write_program(home / "my programs" / "orchestr8-sqlite")
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    theirs = {"hooks": [{"type": "command", "command": f"'{program}' suggest"}]}
    path.write_text(json.dumps({"hooks": {"UserPromptSubmit": [theirs]}}), encoding="utf-8")
    invoke("install", "claude-code", "--hook", "--write")
    assert len(hooks(path)) == 1
    assert "my programs" not in command_of(path)


@pytest.mark.parametrize(
    "text", ['{"a": [1, 2, 3]}', '{"a": [\n  1,\n  2, // b\n  3,\n]}', '{"a": [/* x */ 1 /* , */, 2, 3]}']
)
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_one_item_of_a_list_is_set_or_removed_and_comments_stay(text: str, place: int) -> None:
    wanted = [1, 2, 3]
    wanted[place : place + 1] = [9]
    edited = jsonc.with_item(text, ("a",), place, 9)
    assert jsonc.parse(edited) == {"a": wanted}
    removed = jsonc.without_item(edited, ("a",), place)
    assert jsonc.parse(removed) == {"a": [1, 2, 3][:place] + [1, 2, 3][place + 1 :]}
    for comment in ("// b", "/* x */", "/* , */"):
        assert (comment in text) == (comment in removed)


def test_every_hook_belongs_to_a_client_that_install_knows() -> None:
    from orchestr8_sqlite.clients.known import CLIENTS

    assert {*HOOKS} <= {*CLIENTS}
