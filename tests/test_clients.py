"""The clients' configuration: where it lies, how it looks, and that an edit changes nothing else."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from support import write_program

from orchestr8_sqlite.clients import files, jsonc
from orchestr8_sqlite.clients.documents import make_entry, servers_of, snippet, with_server
from orchestr8_sqlite.clients.files import Edited, edit_text, read_text
from orchestr8_sqlite.clients.known import CLIENTS, Scope, claude_project, find_client
from orchestr8_sqlite.clients.launch import client_command, is_ephemeral, own_command, requirement_of, serve_arguments
from orchestr8_sqlite.errors import ClientFileError, RequestError
from orchestr8_sqlite.settings import Places, SourceSettings

ROOT = Path(__file__).parents[1]
"""Where the environment that runs the tests has this package from."""

FILE = Path("settings.json")
COMMAND, ARGUMENTS = ["/opt/bin/orchestr8-sqlite"], ["serve", "--db", "/data/index.db"]
PLAIN = {"command": "/opt/bin/orchestr8-sqlite", "args": ["serve", "--db", "/data/index.db"]}
TYPED = {"type": "stdio", **PLAIN}


def places(platform: str, home: Path, **changes: Path) -> Places:
    """Return the places of a user whose environment moves nothing but *changes*."""
    defaults: dict[str, Any] = {
        "config": home / ".config",
        "roaming": home / "AppData/Roaming",
        "local": home / "AppData/Local",
        "claude": None,
        "codex": home / ".codex",
        "gemini": home,
        "project": home / "project",
    }
    return Places(platform=platform, home=home, search=str(home / "bin"), **{**defaults, **changes})


@pytest.mark.parametrize(
    ("client", "linux", "macos", "windows"),
    [
        ("claude-code", ".claude.json", ".claude.json", ".claude.json"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            "AppData/Roaming/Code/User/mcp.json",
        ),
        ("codex", ".codex/config.toml", ".codex/config.toml", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json", ".gemini/settings.json", ".gemini/settings.json"),
        (
            "windsurf",
            ".config/devin/mcp_config.json",
            ".config/devin/mcp_config.json",
            "AppData/Roaming/devin/mcp_config.json",
        ),
        ("zed", ".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    ],
)
def test_each_platform_has_its_own_place_for_a_users_file(client: str, linux: str, macos: str, windows: str) -> None:
    home = Path("/users/ada")
    found = [CLIENTS[client].path(places(platform, home)) for platform in ("linux", "darwin", "win32")]
    assert found == [home / linux, home / macos, home / windows]


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("windsurf", ".devin/mcp_config.json"),
        ("zed", ".zed/settings.json"),
    ],
)
def test_a_projects_file_lies_in_the_project(client: str, path: str) -> None:
    here = places("linux", Path("/users/ada"))
    assert CLIENTS[client].path(here, Scope.PROJECT) == Path("/users/ada/project") / path


def test_a_client_without_files_for_projects_says_so() -> None:
    with pytest.raises(RequestError, match=r"^Claude Desktop has no scope project; use --scope user\.$"):
        CLIENTS["claude-desktop"].path(places("linux", Path("/users/ada")), Scope.PROJECT)


def test_the_store_versions_of_claude_desktop_are_found_on_windows(tmp_path: Path) -> None:
    here = places("win32", tmp_path)
    older = here.local / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming" / "Claude"
    older.mkdir(parents=True)
    assert CLIENTS["claude-desktop"].path(here) == older / "claude_desktop_config.json"
    newer = here.local / "Claude-Data" / "claude_main"
    newer.mkdir(parents=True)
    assert CLIENTS["claude-desktop"].path(here) == newer / "claude_desktop_config.json"


def test_windsurf_from_before_its_new_name_keeps_its_old_file(tmp_path: Path) -> None:
    here = places("linux", tmp_path)
    (tmp_path / ".codeium" / "windsurf").mkdir(parents=True)
    assert CLIENTS["windsurf"].path(here) == tmp_path / ".codeium" / "windsurf" / "mcp_config.json"
    (tmp_path / ".config" / "devin").mkdir(parents=True)
    assert CLIENTS["windsurf"].path(here) == tmp_path / ".config" / "devin" / "mcp_config.json"


def test_a_client_is_installed_where_its_file_or_folder_is(tmp_path: Path) -> None:
    here = places("linux", tmp_path)
    assert not any(client.is_installed(here) for client in CLIENTS.values())
    for folder in (".claude", ".config/Claude", ".cursor", ".config/Code", ".codex", ".gemini", ".codeium/windsurf"):
        (tmp_path / folder).mkdir(parents=True)
    assert [client.id for client in CLIENTS.values() if not client.is_installed(here)] == ["zed"]


@pytest.mark.parametrize(
    ("program", "client"),
    [("claude", "claude-code"), ("code", "vscode"), ("codex", "codex"), ("gemini", "gemini"), ("zed", "zed")],
)
def test_a_client_is_installed_where_its_program_is_on_the_path(tmp_path: Path, program: str, client: str) -> None:
    write_program(tmp_path / "bin" / (f"{program}.exe" if os.name == "nt" else program))
    here = places("linux", tmp_path)
    assert [each.id for each in CLIENTS.values() if each.is_installed(here)] == [client]


def test_claude_code_alone_has_a_scope_for_one_user_in_one_project() -> None:
    assert CLIENTS["claude-code"].scopes == (Scope.USER, Scope.PROJECT, Scope.LOCAL)
    others = [client for client in CLIENTS.values() if client.id != "claude-code"]
    assert not any(Scope.LOCAL in client.scopes for client in others)
    with pytest.raises(RequestError, match=r"^Cursor has no scope local; use --scope user or project"):
        CLIENTS["cursor"].path(places("linux", Path("/users/ada")), Scope.LOCAL)


def test_the_local_scope_is_a_table_of_the_project_in_the_users_file(tmp_path: Path) -> None:
    here = places("linux", tmp_path)
    claude = CLIENTS["claude-code"].within(here, Scope.LOCAL)
    text = '{"projects": {"/else": {"mcpServers": {"a": {}}}}, "mcpServers": {"b": {}}}'
    edited = with_server(claude, text, "orchestr8", TYPED, path=FILE)
    assert json.loads(edited) == {
        "projects": {
            "/else": {"mcpServers": {"a": {}}},
            str(tmp_path / "project"): {"mcpServers": {"orchestr8": TYPED}},
        },
        "mcpServers": {"b": {}},
    }
    assert servers_of(claude, edited, FILE) == {"orchestr8": TYPED}
    assert servers_of(CLIENTS["claude-code"], edited, FILE) == {"b": {}}
    with pytest.raises(ClientFileError, match=r"^projects in settings\.json is not a table of servers"):
        servers_of(claude, '{"projects": []}', FILE)


def test_claude_code_knows_a_project_by_the_root_of_its_main_checkout(tmp_path: Path) -> None:
    """Source: `claude mcp add` of Claude Code 2.1.197, called in each of these folders."""
    plain = tmp_path / "plain" / "deep"
    plain.mkdir(parents=True)
    assert claude_project(plain) == plain
    (tmp_path / "link").symlink_to(plain)
    assert claude_project(tmp_path / "link") == plain
    root = tmp_path / "checkout"
    (root / "src").mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(root)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "--quiet", str(tmp_path / "linked")], check=True, capture_output=True)
    assert claude_project(root / "src") == root
    assert claude_project(tmp_path / "linked") == root


@pytest.mark.parametrize(("name", "client"), [("Claude Code", "claude-code"), ("VSCODE", "vscode"), ("zed", "zed")])
def test_a_client_is_found_by_name_in_any_case(name: str, client: str) -> None:
    assert find_client(name).id == client


@pytest.mark.parametrize(
    ("name", "advice"), [("curser", "Did you mean 'cursor'?"), ("emacs", "Known: claude-code, claude-desktop, cursor,")]
)
def test_an_unknown_client_is_answered_with_the_nearest_or_all(name: str, advice: str) -> None:
    with pytest.raises(RequestError) as refused:
        find_client(name)
    assert advice in str(refused.value)


@pytest.mark.parametrize(
    ("client", "document"),
    [
        ("claude-code", {"mcpServers": {"orchestr8": TYPED}}),
        ("claude-desktop", {"mcpServers": {"orchestr8": PLAIN}}),
        ("cursor", {"mcpServers": {"orchestr8": TYPED}}),
        ("vscode", {"servers": {"orchestr8": TYPED}}),
        ("codex", {"mcp_servers": {"orchestr8": PLAIN}}),
        ("gemini", {"mcpServers": {"orchestr8": PLAIN}}),
        ("windsurf", {"mcpServers": {"orchestr8": PLAIN}}),
        ("zed", {"context_servers": {"orchestr8": PLAIN}}),
    ],
)
def test_the_snippet_of_each_client_has_its_shape(client: str, document: dict[str, object]) -> None:
    chosen = CLIENTS[client]
    text = snippet(chosen, "orchestr8", make_entry(chosen, COMMAND, ARGUMENTS))
    assert (tomllib.loads(text) if client == "codex" else json.loads(text)) == document


def test_further_words_of_the_command_become_arguments() -> None:
    entry = make_entry(CLIENTS["zed"], ["uvx", "orchestr8-sqlite"], ["serve"])
    assert entry == {"command": "uvx", "args": ["orchestr8-sqlite", "serve"]}


# --- editing JSON


def edit(client: str, text: str, *, force: bool = False) -> str:
    chosen = CLIENTS[client]
    return with_server(chosen, text, "orchestr8", make_entry(chosen, COMMAND, ARGUMENTS), path=FILE, force=force)


ZED = """\
// Zed settings
{
    "theme": "One Dark", // dark
    /* servers */
    "context_servers": {
        "other": {"command": "x", "args": []}, // keep me
    },
    "vim_mode": true,
    // the end
}
"""


def test_comments_trailing_commas_and_layout_survive_an_edit() -> None:
    assert edit("zed", ZED) == ZED.replace(
        " // keep me\n",
        " // keep me\n"
        '        "orchestr8": {\n'
        '            "command": "/opt/bin/orchestr8-sqlite",\n'
        '            "args": ["serve", "--db", "/data/index.db"]\n'
        "        },\n",
    )


def test_a_missing_table_of_servers_is_added_after_the_last_comment() -> None:
    text = '{\n\t"a": 1 // one\n\t// last\n}\n'
    assert edit("gemini", text) == (
        '{\n\t"a": 1, // one\n\t// last\n'
        '\t"mcpServers": {\n\t\t"orchestr8": {\n'
        '\t\t\t"command": "/opt/bin/orchestr8-sqlite",\n'
        '\t\t\t"args": ["serve", "--db", "/data/index.db"]\n'
        "\t\t}\n\t}\n}\n"
    )


@pytest.mark.parametrize("text", ["", "  \n", "{}", "\ufeff{}\n", "{ }", "// nothing yet", "/* a */\n"])
def test_a_file_without_settings_gets_the_entry_and_keeps_its_comments(text: str) -> None:
    edited = edit("cursor", text)
    assert jsonc.parse(edited) == {"mcpServers": {"orchestr8": TYPED}}
    assert edited.startswith(text.rstrip("{} \n"))


def test_an_object_on_one_line_gets_its_brace_on_a_line_of_its_own() -> None:
    assert edit("zed", '{"context_servers": {}, "a": [1, 2]}') == (
        '{"context_servers": {\n'
        '  "orchestr8": {\n'
        '    "command": "/opt/bin/orchestr8-sqlite",\n'
        '    "args": ["serve", "--db", "/data/index.db"]\n'
        '  }\n}, "a": [1, 2]}'
    )


def test_windows_line_ends_are_kept_and_used() -> None:
    edited = edit("vscode", '{\r\n  "servers": {\r\n    "a": {"command": "x"}\r\n  }\r\n}\r\n')
    assert edited.count("\n") == edited.count("\r\n") > 5


def test_braces_and_slashes_in_strings_are_no_structure() -> None:
    text = '{"a": "} // no", "mcpServers": {"x": {"command": "/*", "args": ["\\"},"]}}}'
    assert jsonc.parse(edit("cursor", text)) == {
        "a": "} // no",
        "mcpServers": {"x": {"command": "/*", "args": ['"},']}, "orchestr8": TYPED},
    }


def test_the_last_of_two_equal_keys_counts_as_it_does_for_the_client() -> None:
    edited = edit("claude-desktop", '{"mcpServers": {"a": {}}, "mcpServers": {"b": {}}}')
    assert json.loads(edited)["mcpServers"] == {"b": {}, "orchestr8": PLAIN}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
GAPS = st.sampled_from(["", " ", "\n", "\r\n", "\t", "\n  ", " // it's } , a \" comment\n", '/* { " , */'])


@st.composite
def json_texts(draw: st.DrawFn, value: object, *, comments: bool) -> str:
    """Draw a way to write *value*: gaps anywhere and, where *comments* is set, comments and trailing commas."""

    def gap() -> str:
        drawn = draw(GAPS)
        return drawn if comments or "/" not in drawn else " "

    def end(written: list[str]) -> str:
        return ("," + gap()) if comments and written and draw(st.booleans()) else ""

    def write(value: object) -> str:
        if isinstance(value, dict):
            members = [
                f"{gap()}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{gap()}:{gap()}{write(each)}{gap()}"
                for key, each in value.items()
            ]
            return "{" + ",".join(members) + end(members) + gap() + "}"
        if isinstance(value, list):
            items = [f"{gap()}{write(each)}{gap()}" for each in value]
            return "[" + ",".join(items) + end(items) + gap() + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    return gap() + write(value) + gap()


@st.composite
def configurations(draw: st.DrawFn, *, comments: bool) -> tuple[dict[str, Any], str]:
    """Draw the settings of a client that has other servers, or none, and a text of them."""
    settings = draw(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
    settings.pop("mcpServers", None)
    if draw(st.booleans()):
        servers = draw(st.dictionaries(st.text().filter(lambda name: name != "orchestr8"), JSON_VALUES, max_size=3))
        items = [*settings.items(), ("mcpServers", servers)]
        settings = dict(draw(st.permutations(items)))
    return settings, draw(json_texts(settings, comments=comments))


def is_within(old: str, new: str) -> bool:
    """Tell whether *new* is *old* with insertions only."""
    rest = iter(new)
    return all(character in rest for character in old)


def check_edit(client: str, settings: dict[str, Any], text: str) -> None:
    edited = edit(client, text)
    result = jsonc.parse(edited)
    assert isinstance(result, dict)
    entry = TYPED if CLIENTS[client].says_type else PLAIN
    assert result == {**settings, "mcpServers": {**settings.get("mcpServers", {}), "orchestr8": entry}}
    assert [key for key in result if key in settings] == list(settings)
    assert is_within(re.sub(r"[ \t]+(?=})", "", text), edited)
    assert edit(client, edited) == edited


@given(configurations(comments=False))
def test_any_settings_come_out_with_the_entry_and_otherwise_unchanged(drawn: tuple[dict[str, Any], str]) -> None:
    settings, text = drawn
    check_edit("claude-desktop", settings, text)
    assert json.loads(edit("claude-desktop", text)) == jsonc.parse(edit("claude-desktop", text))


@given(configurations(comments=True))
def test_any_settings_with_comments_keep_every_byte_of_them(drawn: tuple[dict[str, Any], str]) -> None:
    check_edit("cursor", *drawn)


@given(st.text())
def test_no_text_at_all_makes_an_edit_fail_in_another_way_than_by_refusing(text: str) -> None:
    try:
        edited = edit("gemini", text)
    except ClientFileError:
        return
    assert servers_of(CLIENTS["gemini"], edited, FILE)["orchestr8"] == PLAIN


def test_comments_in_a_file_that_its_client_reads_as_strict_json_are_a_problem() -> None:
    with pytest.raises(ClientFileError) as refused:
        edit("claude-code", '{"a": 1, // one\n}')
    assert str(refused.value) == (
        "settings.json contains comments or trailing commas, which Claude Code cannot read; remove them."
    )


@pytest.mark.parametrize(
    ("client", "text", "problem"),
    [
        ("cursor", '{"a": ', "settings.json cannot be parsed (Expecting value: line 1 column 7 (char 6)); fix it"),
        ("cursor", '{"a": [1,,]}', "settings.json cannot be parsed (Expecting value: line 1 column 10"),
        ("cursor", '{"mcpServers": {,}}', "settings.json cannot be parsed (Expecting property name enclosed in"),
        ("cursor", '{"a": [ /* b */ , ]}', "settings.json cannot be parsed (Expecting value: line 1 column 17"),
        ("cursor", "[" * 100_000, "settings.json cannot be parsed (maximum recursion depth exceeded"),
        ("cursor", "[1]", "settings.json does not contain a JSON object; fix it, then try again."),
        ("cursor", '{"mcpServers": [1]}', "mcpServers in settings.json is not a table of servers; fix it"),
        ("codex", "a = ", "settings.json cannot be parsed (Invalid value"),
        ("codex", "mcp_servers = 1", "mcp_servers in settings.json is not a table of servers; fix it"),
        ("codex", 'mcp_servers = {a = {command = "x"}}', "settings.json is written in a way that cannot be edited"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused_in_one_sentence(client: str, text: str, problem: str) -> None:
    with pytest.raises(ClientFileError) as refused:
        edit(client, text)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{"mcpServers": {"orchestr8": {"command": "theirs"}, "b": 1}} // c'),
        ("codex", '[mcp_servers.orchestr8]\ncommand = "theirs" # c\ncwd = "/x"\n\n[b]\nc = 1 # d\n'),
    ],
)
def test_another_server_of_that_name_is_replaced_only_by_force(client: str, text: str) -> None:
    with pytest.raises(ClientFileError) as refused:
        edit(client, text)
    assert str(refused.value) == (
        "settings.json has another server named 'orchestr8'; replace it with --force, or choose another --name."
    )
    edited = edit(client, text, force=True)
    assert servers_of(CLIENTS[client], edited, FILE)["orchestr8"] == (TYPED if client == "cursor" else PLAIN)
    assert "theirs" not in edited
    assert edited.endswith(text[-9:])


UNITS = [
    '"',
    '"\\',
    "\\",
    "/*",
    "/* ",
    "/",
    "//",
    "*/",
    "{",
    "[",
    "[,",
    ", ",
    ": ,",
    " ",
    "\n",
    "\n ",
    '{"a":',
    "[[",
    "a=",
    '"""',
    "#\n",
]


@pytest.mark.parametrize("start", ["", '{"a": ', "a = "])
@pytest.mark.parametrize("unit", UNITS)
def test_hostile_text_of_any_length_is_read_or_refused_in_bounded_time(unit: str, start: str) -> None:
    """100,000 times the unit; what takes time by the square takes a minute for it."""
    text = start + unit * 100_000
    began = time.process_time()
    for client in ("cursor", "codex"):
        with contextlib.suppress(ClientFileError):
            edit(client, text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ['{"a": 1} /* b', '{"a": 1} /*/', '{"a": "b', '{"a": "b\\'])
def test_comment_or_string_without_an_end_is_a_problem(text: str) -> None:
    with pytest.raises(ClientFileError, match="cannot be parsed"):
        edit("cursor", text)


# --- editing TOML

TOML_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(min_size=1).filter(lambda key: key != "mcp_servers"), TOML_VALUES, max_size=4),
    st.dictionaries(
        st.text(min_size=1).filter(lambda key: key != "orchestr8"),
        st.fixed_dictionaries({"command": st.text()}),
        max_size=3,
    ),
)
def test_any_toml_keeps_every_byte_before_the_new_table(settings: dict[str, Any], servers: dict[str, Any]) -> None:
    text = tomlkit.dumps({**settings, **({"mcp_servers": servers} if servers else {})}) + "# the end"
    before = tomllib.loads(text)
    edited = edit("codex", text)
    assert edited.startswith(text)
    expected = {**before, "mcp_servers": {**before.get("mcp_servers", {}), "orchestr8": PLAIN}}
    assert tomllib.loads(edited) == expected


@pytest.mark.parametrize("end", ["", "\r\n"])
def test_a_table_is_added_to_toml_after_a_blank_line_with_the_files_line_ends(end: str) -> None:
    assert edit("codex", f"a = 1\r\nb = 2{end}") == (
        "a = 1\r\nb = 2\r\n\r\n[mcp_servers.orchestr8]\r\n"
        'command = "/opt/bin/orchestr8-sqlite"\r\nargs = ["serve", "--db", "/data/index.db"]\r\n'
    )


# --- files


def put(path: Path, text: str) -> Path | None:
    """Write *text* to *path* and return the backup."""
    return edit_text(path, lambda _: text).backup


posix_only = pytest.mark.skipif(os.name != "posix", reason="access rights, owners and links as POSIX has them")
root_only = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away")


def test_each_change_leaves_a_backup_under_a_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert put(path, "one") is None
    (tmp_path / "settings.json.bak").write_text("older", encoding="utf-8")
    assert put(path, "two") == tmp_path / "settings.json.bak.1"
    assert put(path, "three") == tmp_path / "settings.json.bak.2"
    assert {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()} == {
        "settings.json": "three",
        "settings.json.bak": "older",
        "settings.json.bak.1": "one",
        "settings.json.bak.2": "two",
    }


def test_edit_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one", encoding="utf-8")
    before = path.stat()
    assert edit_text(path, lambda text: text) == Edited(changed=False)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [*tmp_path.iterdir()] == [path]


@posix_only
def test_access_rights_and_symbolic_links_stay(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "settings.json"
    kept.parent.mkdir()
    kept.write_text("one", encoding="utf-8")
    kept.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(kept)
    backup = put(link, "two")
    assert link.is_symlink()
    assert kept.read_text(encoding="utf-8") == "two"
    assert kept.stat().st_mode & 0o777 == 0o640
    assert backup is not None
    assert backup.parent == tmp_path
    assert backup.stat().st_mode & 0o777 == 0o640


@root_only
def test_files_and_folders_stay_and_become_those_of_the_user_whose_folder_it_is(tmp_path: Path) -> None:
    """As with sudo: the user's client must be able to read them, their backups too."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4711, 4712)
    path = home / ".config" / "client" / "settings.json"
    put(path, "one")
    put(path, "two")
    owned = [path, Path(f"{path}.bak"), path.parent, path.parent.parent]
    assert {(one.stat().st_uid, one.stat().st_gid) for one in owned} == {(4711, 4712)}
    os.chown(path, 4713, 4714)
    assert put(path, "three") is not None
    assert (path.stat().st_uid, path.stat().st_gid) == (4713, 4714)


@posix_only
def test_file_of_another_user_is_left_alone_where_it_would_not_stay_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one", encoding="utf-8")
    monkeypatch.setattr(files, "give", lambda *_: False)
    with pytest.raises(
        ClientFileError, match=r"settings\.json belongs to another user, and the edit would make it yours;"
    ):
        put(path, "two")
    assert path.read_text(encoding="utf-8") == "one"
    assert [*tmp_path.iterdir()] == [path]


def test_read_only_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one", encoding="utf-8")
    path.chmod(0o444)
    with pytest.raises(ClientFileError, match=r"settings\.json is read-only; make it writable, or paste"):
        put(path, "two")
    assert path.read_text(encoding="utf-8") == "one"
    assert [*tmp_path.iterdir()] == [path]
    assert edit_text(path, lambda text: text) == Edited(changed=False)
    path.chmod(0o644)


@posix_only
@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "socket"])
def test_what_is_no_regular_file_is_neither_waited_for_nor_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "settings.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(path))
        bound.close()
    before = path.lstat()
    for act in (lambda: read_text(path), lambda: put(path, "two")):
        with pytest.raises((ClientFileError, OSError)) as refused:
            act()
        assert kind == "socket" or "is not a regular file; put one in its place" in str(refused.value)
    assert path.lstat() == before


def test_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    path = tmp_path / "settings.json"
    path.write_text("0123456789", encoding="utf-8")
    assert read_text(path) == "0123456789"
    path.write_text("0123456789a", encoding="utf-8")
    with pytest.raises(ClientFileError, match=r"settings\.json has more than 10 bytes; paste the entry by hand\.$"):
        read_text(path)


def test_a_failed_write_leaves_the_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one", encoding="utf-8")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        put(path, "two")
    assert path.read_text(encoding="utf-8") == "one"
    assert [*tmp_path.iterdir()] == [path]


def test_what_another_program_writes_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients write to their files as well, and know no lock."""
    path = tmp_path / "settings.json"
    path.write_text("one", encoding="utf-8")
    texts = iter(["two", "three"])

    def change(text: str) -> str:
        if (by_client := next(texts, None)) is not None:
            path.write_text(by_client, encoding="utf-8")
        return text + " and ours"

    edited = edit_text(path, change)
    assert path.read_text(encoding="utf-8") == "three and ours"
    assert edited.backup is not None
    assert edited.backup.read_text(encoding="utf-8") == "three"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["settings.json", "settings.json.bak"]


def test_file_that_never_stands_still_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"

    def change(text: str) -> str:
        path.write_text(text + "x", encoding="utf-8")
        return text + "ours"

    with pytest.raises(ClientFileError, match=r"Another program keeps changing .*settings\.json; quit"):
        edit_text(path, change)
    assert set(path.read_text(encoding="utf-8")) == {"x"}
    assert [*tmp_path.iterdir()] == [path]


@posix_only
@pytest.mark.parametrize("folder", ["", "not/there/yet"])
def test_edits_at_the_same_time_all_come_to_be(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "settings.json"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom orchestr8_sqlite.clients.files import edit_text\n"
        "sys.stdin.readline()\n"
        "def change(text):\n    time.sleep(0.01)\n    return text + sys.argv[2] + ' '\n"
        "for _ in range(5):\n    edit_text(Path(sys.argv[1]), change)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)], stdin=subprocess.PIPE)
        for number in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
    assert [process.wait(30) for process in processes] == [0] * 4
    assert sorted(path.read_text(encoding="utf-8").split()) == sorted("0123" * 5)
    assert not [file for file in path.parent.iterdir() if file.suffix == ".tmp"]


@posix_only
def test_folder_that_another_program_keeps_locked_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 0.05)
    number = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    try:
        with pytest.raises(ClientFileError, match=r"^Another program is editing a file in .*; try again"):
            put(tmp_path / "settings.json", "one")
    finally:
        os.close(number)
    assert [*tmp_path.iterdir()] == []
    put(tmp_path / "settings.json", "one")


def test_text_is_read_with_its_line_ends_and_refused_where_it_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert read_text(path) == ""
    path.write_bytes(b"\xef\xbb\xbf{}\r\n")
    assert read_text(path) == "\ufeff{}\r\n"
    path.write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(ClientFileError, match=r"settings\.json is not UTF-8 \(byte 7\); fix it, then try again\.$"):
        read_text(path)


# --- the command

TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# a cache\n"


@pytest.fixture
def make_prefix(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes an environment, with a cache's tag in the folders that are named."""

    def make(*tagged: str) -> Path:
        prefix = tmp_path / "store" / "environments" / "one"
        prefix.mkdir(parents=True)
        for folder in tagged:
            (tmp_path / folder / "CACHEDIR.TAG").write_text(TAG, encoding="utf-8")
        return prefix

    return make


@pytest.mark.parametrize(
    ("tagged", "ephemeral"),
    [
        ((), False),
        (("store/environments/one",), False),
        (("store",), True),
        (("store/environments", "store/environments/one"), True),
    ],
)
def test_an_environment_below_a_tagged_cache_is_ephemeral_and_its_own_tag_says_nothing(
    make_prefix: Callable[..., Path], tagged: tuple[str, ...], ephemeral: bool
) -> None:
    assert is_ephemeral(make_prefix(*tagged)) is ephemeral


def test_a_file_that_only_has_the_tags_name_marks_no_cache(make_prefix: Callable[..., Path], tmp_path: Path) -> None:
    prefix = make_prefix()
    (tmp_path / "store" / "CACHEDIR.TAG").write_text("mine", encoding="utf-8")
    assert not is_ephemeral(prefix)


def test_an_installed_program_is_named_by_its_absolute_path(make_prefix: Callable[..., Path]) -> None:
    command = client_command(Scope.USER, make_prefix())
    assert Path(command[0]).is_absolute()
    assert Path(command[0]).exists()


def test_a_program_that_is_not_there_is_started_as_a_module_of_no_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert own_command() == [str(tmp_path / "python3"), "-P", "-m", "orchestr8_sqlite"]


def test_an_ephemeral_program_is_started_with_uvx(
    make_prefix: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = make_prefix("store")
    monkeypatch.setenv("PATH", str(tmp_path))
    rest = ["--from", str(ROOT), "orchestr8-sqlite"]
    assert client_command(Scope.USER, prefix) == ["uvx", *rest]
    uvx = write_program(tmp_path / ("uvx.exe" if os.name == "nt" else "uvx"))
    assert client_command(Scope.USER, prefix) == client_command(Scope.LOCAL, prefix) == [str(uvx), *rest]
    assert client_command(Scope.PROJECT, prefix) == ["uvx", *rest]


def test_a_program_of_pipx_run_is_started_with_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    prefix = tmp_path / "pipx" / "0123456789abcde"
    prefix.mkdir(parents=True)
    (prefix.parent / "CACHEDIR.TAG").write_text(TAG, encoding="utf-8")
    assert client_command(Scope.USER, prefix) == ["pipx", "run", "--spec", str(ROOT), "orchestr8-sqlite"]


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (
            {"url": "file:///data/my%20dist/x-1-py3-none-any.whl", "archive_info": {}},
            "/data/my dist/x-1-py3-none-any.whl",
        ),
        (
            {"url": "https://example.org/x-1-py3-none-any.whl", "archive_info": {}},
            "https://example.org/x-1-py3-none-any.whl",
        ),
        ({"url": "file:///src/x", "dir_info": {}}, "/src/x"),
        (
            {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "git+https://example.org/x.git@c0ffee",
        ),
        (
            {
                "url": "ssh://git@example.org/x.git",
                "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "c0ffee"},
                "subdirectory": "py",
            },
            "git+ssh://git@example.org/x.git@v1#subdirectory=py",
        ),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="these are paths of POSIX")
def test_what_an_installer_recorded_is_what_it_is_given_again(origin: dict[str, Any], requirement: str) -> None:
    assert requirement_of(origin) == requirement


def test_paths_of_index_and_roots_are_written_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "library").mkdir()
    (tmp_path / "index.db").write_bytes(b"")
    assert serve_arguments(Path("index.db"), [Path("library")]) == [
        "serve",
        "--db",
        str(tmp_path / "index.db"),
        "--root",
        str(tmp_path / "library"),
    ]
    assert serve_arguments(Path("later.db"), [Path("library")])[2] == str(tmp_path / "later.db")


def test_a_client_can_be_connected_to_a_server_that_pulls_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "share").mkdir()
    (tmp_path / "team.pub").touch()
    web = SourceSettings("https://host/x", "beta", "RWQ")
    assert serve_arguments(None, [], "", web)[1:] == [
        *("--from", "https://host/x", "--channel", "beta", "--require-signature", "RWQ")
    ]
    assert serve_arguments(Path("later.db"), [], "", SourceSettings("share", key="team.pub"))[3:] == [
        *("--from", str(tmp_path / "share"), "--require-signature", str(tmp_path / "team.pub"))
    ]


def test_an_index_or_root_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"^There is no folder .*none; --from must name a folder or an http"):
        serve_arguments(None, [], "", SourceSettings(str(tmp_path / "none")))
    with pytest.raises(RequestError, match=r"^There is no index at .*none\.db; build it with: orchestr8-sqlite build"):
        serve_arguments(tmp_path / "none.db", [])
    with pytest.raises(RequestError, match=r"^There is no folder .*none; --root must name a folder of Markdown"):
        serve_arguments(None, [tmp_path / "none"])
