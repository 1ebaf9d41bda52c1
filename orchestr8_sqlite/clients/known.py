"""The clients, and where and how each is configured.

If a client has kept its file in several places, the newest comes first; the first whose folder exists counts.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Self, TypeVar

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.settings import Places

T = TypeVar("T")
PathsOf = Callable[[Places], Sequence[Path]]


class Dialect(Enum):
    """The format of a configuration file."""

    JSON = "json"  # without comments and trailing commas, which the client cannot read
    JSONC = "jsonc"
    TOML = "toml"


class Scope(Enum):
    """Who a configuration is for: this user everywhere, everyone in the project, or this user in the project."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Client:
    """One client; `keys` lead to the object that holds its servers.

    It counts as installed if its file, one of its `programs` on PATH, or one of the folders in `traces` exists.
    """

    id: str
    title: str
    dialect: Dialect
    user_files: PathsOf
    project_files: PathsOf | None = None
    local_keys: Callable[[Places], tuple[str, ...]] | None = None  # to this user's servers for the project
    keys: tuple[str, ...] = ("mcpServers",)
    says_type: bool = False  # entries carry "type": "stdio"
    programs: tuple[str, ...] = ()
    traces: PathsOf | None = None  # default: the folders of user_files
    afterwards: str = ""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the client's scopes; the first is the default, and later ones win over earlier ones."""
        known = {Scope.USER: True, Scope.PROJECT: self.project_files, Scope.LOCAL: self.local_keys}
        return tuple(scope for scope, has in known.items() if has)

    def within(self, places: Places, scope: Scope) -> Self:
        """Return the client with the keys that lead to the servers of *scope*."""
        if scope is not Scope.LOCAL or self.local_keys is None:
            return self
        return replace(self, keys=self.local_keys(places))

    def path(self, places: Places, scope: Scope = Scope.USER) -> Path:
        """Return the file for *scope*, which need not exist.

        Raises:
            RequestError: The client has no such scope.
        """
        files = self.project_files if scope is Scope.PROJECT else self.user_files
        if files is None or scope not in self.scopes:
            known = " or ".join(each.value for each in self.scopes)
            raise RequestError(f"{self.title} has no scope {scope.value}; use --scope {known}.")
        candidates = files(places)
        return next((path for path in candidates if path.parent.is_dir()), candidates[0])

    def is_installed(self, places: Places) -> bool:
        """Tell whether this user seems to have the client: its program, its file or its folder exists."""
        if self.path(places).is_file() or any(shutil.which(each, path=places.search) for each in self.programs):
            return True
        folders = self.traces(places) if self.traces else [path.parent for path in self.user_files(places)]
        return any(folder.is_dir() for folder in folders)


def application_support(places: Places, name: str) -> Path:
    """Return the folder of the application *name*: roaming, Application Support, or XDG."""
    if places.platform == "win32":
        return places.roaming / name
    if places.platform == "darwin":
        return places.home / "Library" / "Application Support" / name
    return places.config / name


def dotted_config(places: Places, name: str, windows: str) -> Path:
    """Return the folder of a program that follows XDG on macOS too."""
    return places.roaming / windows if places.platform == "win32" else places.config / name


def _claude_code(places: Places) -> Sequence[Path]:
    """Return the only file of Claude Code; with CLAUDE_CONFIG_DIR it is in that folder."""
    return [(places.claude or places.home) / ".claude.json"]


def claude_project(folder: Path) -> Path:
    """Return the folder whose path is Claude Code's key for the project that contains *folder*.

    That is the root of the checkout (of the main one for a linked worktree), or *folder* itself outside a checkout.

    Source: what Claude Code 2.1.197 wrote when `claude mcp add` was called in each of these.
    """
    here = folder.resolve()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    try:
        git = root / (root / ".git").read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        shared = (git / (git / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, UnicodeError):  # not a linked worktree
        return root
    return shared.parent


def _claude_local(places: Places) -> tuple[str, ...]:
    return ("projects", claude_project(places.project).as_posix(), "mcpServers")


def _claude_desktop(places: Places) -> Sequence[Path]:
    """Return the places of Claude Desktop's file; versions from the Windows Store have their own data folders."""
    name = "claude_desktop_config.json"
    stores: list[Path] = []
    if places.platform == "win32":
        stores += sorted((places.local / "Claude-Data").glob("claude*"))
        stores += sorted((places.local / "Packages").glob("Claude_*/LocalCache/Roaming/Claude"))
    return [*(store / name for store in stores), application_support(places, "Claude") / name]


def _windsurf(places: Places) -> Sequence[Path]:
    return [
        dotted_config(places, "devin", "devin") / "mcp_config.json",
        places.home / ".codeium" / "windsurf" / "mcp_config.json",
    ]


CLIENTS = {
    client.id: client
    for client in (
        # Source: code.claude.com/docs/en/mcp, "MCP installation scopes"; code.claude.com/docs/en/env-vars.
        Client(
            "claude-code",
            "Claude Code",
            Dialect.JSON,
            _claude_code,
            lambda places: [places.project / ".mcp.json"],
            _claude_local,
            says_type=True,
            programs=("claude",),
            traces=lambda places: [places.claude or places.home / ".claude"],
            afterwards="New sessions have it; /mcp shows it.",
        ),
        # Source: modelcontextprotocol.io/docs/develop/connect-local-servers. For the Windows Store: findings of
        # programs that edit this file; packages keep it below LocalCache, newer ones in Claude-Data.
        Client(
            "claude-desktop",
            "Claude Desktop",
            Dialect.JSON,
            _claude_desktop,
            afterwards="Quit Claude Desktop and start it again.",
        ),
        # Source: cursor.com/docs/mcp, "Configuration locations" and "STDIO server configuration".
        Client(
            "cursor",
            "Cursor",
            Dialect.JSONC,
            lambda places: [places.home / ".cursor" / "mcp.json"],
            lambda places: [places.project / ".cursor" / "mcp.json"],
            programs=("cursor",),
            says_type=True,
            afterwards="Restart Cursor and turn the server on under MCP.",
        ),
        # Source: code.visualstudio.com/docs/agents/reference/mcp-configuration, "Configuration file"; the user's
        # profile folder: code.visualstudio.com/docs/configure/settings, "User settings.json location".
        Client(
            "vscode",
            "VS Code",
            Dialect.JSONC,
            lambda places: [application_support(places, "Code") / "User" / "mcp.json"],
            lambda places: [places.project / ".vscode" / "mcp.json"],
            keys=("servers",),
            says_type=True,
            programs=("code",),
            traces=lambda places: [application_support(places, "Code")],
            afterwards="Run “MCP: List Servers” and start it there.",
        ),
        # Source: developers.openai.com/codex/mcp and /codex/config-reference; a project's file counts once trusted.
        Client(
            "codex",
            "Codex CLI",
            Dialect.TOML,
            lambda places: [places.codex / "config.toml"],
            lambda places: [places.project / ".codex" / "config.toml"],
            keys=("mcp_servers",),
            programs=("codex",),
            afterwards="New sessions have it; /mcp shows it. A project must be trusted first.",
        ),
        # Source: geminicli.com/docs/reference/configuration, "Settings files", mcpServers and GEMINI_CLI_HOME.
        Client(
            "gemini",
            "Gemini CLI",
            Dialect.JSONC,
            lambda places: [places.gemini / ".gemini" / "settings.json"],
            lambda places: [places.project / ".gemini" / "settings.json"],
            programs=("gemini",),
            afterwards="New sessions have it; /mcp shows it.",
        ),
        # Source: docs.devin.ai/desktop/cascade/mcp, docs.devin.ai/cli/extensibility/mcp/configuration and
        # vaadin.com/docs (Devin Desktop): Windsurf became Devin Desktop in June 2026; older versions read .codeium.
        Client(
            "windsurf",
            "Windsurf (Devin Desktop)",
            Dialect.JSONC,
            _windsurf,
            lambda places: [places.project / ".devin" / "mcp_config.json"],
            programs=("windsurf", "devin"),
            afterwards="Refresh the list of MCP servers in the agent's panel.",
        ),
        # Source: zed.dev/docs/ai/mcp, "As Custom Servers"; zed.dev/docs/configuring-zed, "User Settings File";
        # zed.dev/docs/worktree-trust: a project's servers start once the worktree is trusted.
        Client(
            "zed",
            "Zed",
            Dialect.JSONC,
            lambda places: [dotted_config(places, "zed", "Zed") / "settings.json"],
            lambda places: [places.project / ".zed" / "settings.json"],
            keys=("context_servers",),
            programs=("zed", "zeditor"),
            afterwards="Zed reads the file at once. A project's servers start once the worktree is trusted.",
        ),
    )
}


def find_client(name: str) -> Client:
    """Return the client *name*, as `find_named` reads it.

    Raises:
        RequestError: There is no such client; the message names the nearest or all.
    """
    return find_named(name, CLIENTS, f"Unknown client {name!r}.")


def find_named(name: str, known: Mapping[str, T], unknown: str) -> T:
    """Return which of *known* has the *name*, in upper or lower case, with hyphens, spaces or underscores.

    Raises:
        RequestError: None has it; the message is *unknown*, and names the nearest or all.
    """
    wanted = name.casefold().replace(" ", "-").replace("_", "-")
    if wanted in known:
        return known[wanted]
    near = get_close_matches(wanted, known, 1)
    advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    raise RequestError(f"{unknown} {advice}")
