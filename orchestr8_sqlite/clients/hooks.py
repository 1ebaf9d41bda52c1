"""The hook that asks this library before each prompt: where each client keeps its hooks, and edits of those files."""

import itertools
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from orchestr8_sqlite.clients import jsonc
from orchestr8_sqlite.clients.documents import parse
from orchestr8_sqlite.clients.known import Client, Dialect, Scope
from orchestr8_sqlite.clients.launch import PROGRAM
from orchestr8_sqlite.errors import ClientFileError, RequestError
from orchestr8_sqlite.settings import Places

COMMAND = "suggest"
MODULE = "orchestr8_sqlite"


@dataclass(frozen=True, slots=True)
class Hook:
    """Where a client keeps its hooks: the `event` before a prompt, the file of each scope; `timeout` is in its unit."""

    event: str
    files: dict[Scope, Callable[[Places], Path]]
    timeout: int
    dialect: Dialect = Dialect.JSON
    afterwards: str = "New sessions have it; /hooks shows it."


HOOKS = {
    # Source: code.claude.com/docs/en/hooks and /settings. Timeouts are seconds.
    "claude-code": Hook(
        "UserPromptSubmit",
        {
            Scope.USER: lambda places: (places.claude or places.home / ".claude") / "settings.json",
            Scope.PROJECT: lambda places: places.project / ".claude" / "settings.json",
            Scope.LOCAL: lambda places: places.project / ".claude" / "settings.local.json",
        },
        timeout=5,
    ),
    # Source: developers.openai.com/codex/hooks; schemastore.org/codex-hooks.json. Timeouts are seconds.
    "codex": Hook(
        "UserPromptSubmit",
        {
            Scope.USER: lambda places: places.codex / "hooks.json",
            Scope.PROJECT: lambda places: places.project / ".codex" / "hooks.json",
        },
        timeout=5,
        afterwards="Codex runs it once you trust it: call /hooks in a new session.",
    ),
    # Source: geminicli.com/docs/hooks/reference, "BeforeAgent". Timeouts are milliseconds.
    "gemini": Hook(
        "BeforeAgent",
        {
            Scope.USER: lambda places: places.gemini / ".gemini" / "settings.json",
            Scope.PROJECT: lambda places: places.project / ".gemini" / "settings.json",
        },
        timeout=5000,
        dialect=Dialect.JSONC,
    ),
}
"""Clients whose hooks are known to add to a prompt; docs/suggest.md says why others are left out."""


def find_hook(client: Client, scope: Scope) -> Hook:
    """Return the hook of a client.

    Raises:
        RequestError: Its hooks cannot add to a prompt, or it keeps none for that scope.
    """
    if client.id not in HOOKS:
        raise RequestError(f"{client.title} has no hook that adds to a prompt; these have: {', '.join(HOOKS)}.")
    hook = HOOKS[client.id]
    if scope not in hook.files:
        known = " or ".join(each.value for each in hook.files)
        raise RequestError(f"{client.title} keeps no hooks for the scope {scope.value}; use --scope {known}.")
    return hook


def command_line(words: Sequence[str], platform: str) -> str:
    """Return *words* as the shell of the platform reads them."""
    return subprocess.list2cmdline(words) if platform == "win32" else shlex.join(words)


def snippet(hook: Hook, command: str) -> str:
    """Return settings with only this hook, ready to paste."""
    return jsonc.with_member("", ("hooks", hook.event), [_group(hook, command)])


def with_hook(client: Client, hook: Hook, text: str, command: str, *, path: Path) -> str:
    """Return *text* with the hook; if one of this program is there, with its *command*, and else unchanged.

    Args:
        path: The file that contains the text, for errors.

    Raises:
        ClientFileError: The text cannot be parsed or cannot be edited safely.
    """
    groups = _groups(client, hook, text, path)
    place = _place(groups, path)
    wanted = _group(hook, command)
    if place < len(groups):
        own = groups[place]
        wanted = {**own, "hooks": [{**own["hooks"][0], "command": command}]}  # keep what the user has added
        if wanted == own:
            return text
    if place or groups:
        edited = jsonc.with_item(text, ("hooks", hook.event), place, wanted)
    else:
        edited = jsonc.with_member(text, ("hooks", hook.event), [wanted])
    return _checked(client, hook, edited, path, [*groups[:place], wanted, *groups[place + 1 :]])


def without_hook(client: Client, hook: Hook, text: str, *, path: Path) -> str:
    """Return *text* without the hook; unchanged if it has none.

    Raises:
        ClientFileError: The text cannot be parsed or cannot be edited safely.
    """
    groups = _groups(client, hook, text, path)
    place = _place(groups, path)
    if place == len(groups):
        return text
    edited = jsonc.without_item(text, ("hooks", hook.event), place)
    return _checked(client, hook, edited, path, [*groups[:place], *groups[place + 1 :]])


def _group(hook: Hook, command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": hook.timeout}]}


def _groups(client: Client, hook: Hook, text: str, path: Path) -> list[dict[str, Any]]:
    hooks = parse(replace(client, dialect=hook.dialect), text, path).get("hooks", {})
    groups = hooks.get(hook.event, []) if isinstance(hooks, dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ClientFileError(f"hooks in {path} is not a table of lists; fix it, then try again.")
    return groups


def _place(groups: Sequence[dict[str, Any]], path: Path) -> int:
    """Return the place of this program's group; the number of groups if there is none."""
    for place, group in enumerate(groups):
        hooks = group.get("hooks")
        listed = hooks if isinstance(hooks, list) else []
        if any(isinstance(one, dict) and _is_ours(one.get("command")) for one in listed):
            if len(listed) > 1:
                raise ClientFileError(f"{path} has this hook in one group with others; change it by hand.")
            return place
    return len(groups)


def _is_ours(command: object) -> bool:
    """Tell whether a command line starts this program's `suggest`."""
    if not isinstance(command, str):
        return False
    words = command.replace('"', " ").replace("'", " ").split()
    return any(
        second == COMMAND and PurePath(first.replace("\\", "/")).stem in (PROGRAM, MODULE)
        for first, second in itertools.pairwise(words)
    )


def _checked(client: Client, hook: Hook, edited: str, path: Path, wanted: list[dict[str, Any]]) -> str:
    """Return the *edited* text if its groups are as *wanted*."""
    if _groups(client, hook, edited, path) != wanted:
        raise ClientFileError(f"{path} is written in a way that cannot be edited safely; edit it by hand.")
    return edited
