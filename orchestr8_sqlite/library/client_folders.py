"""Where coding assistants keep their own Markdown in a repository, and what it would be in a library.

Only folders whose files are agents, skills or commands are read. Rules and instructions are not: their client puts
them into its context by itself.

Source: the documentation of each client, as of 2026: Claude Code (`.claude`), Agent Skills (`.agents`), GitHub Copilot
and VS Code (`.github`), Cursor, Gemini CLI (its commands are TOML), Codex, OpenCode, and Windsurf, whose workflows are
commands.
"""

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

CLIENT_FOLDERS = {
    ".agents": {"skills": "skills"},
    ".claude": {"agents": "agents", "commands": "commands", "skills": "skills"},
    ".codex": {"skills": "skills"},
    ".cursor": {"agents": "agents", "commands": "commands", "skills": "skills"},
    ".gemini": {"agents": "agents", "skills": "skills"},
    ".github": {"agents": "agents", "chatmodes": "agents", "prompts": "prompts", "skills": "skills"},
    ".opencode": {
        "agent": "agents",
        "agents": "agents",
        "command": "commands",
        "commands": "commands",
        "skill": "skills",
        "skills": "skills",
    },
    ".windsurf": {"skills": "skills", "workflows": "commands"},
}
"""Folder of a client → folder in it → what that is in a library."""

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv"})
OF_PROGRAMS = frozenset({".git", ".hg", ".svn", ".jj", ".tox", ".nox", ".idea"})
"""Hidden folders in which nobody looks for a text of their own."""

MARKDOWN = (".md", ".mdc")
MOST_SEEN = 1_000
"""Files of a hidden folder among which Markdown is looked for."""

HOME = re.compile(
    rf"(?P<around>(?:[^/]+/)*?)(?P<client>{'|'.join(map(re.escape, CLIENT_FOLDERS))})/(?P<kind>[^/]+)/(?P<rest>.+)"
)
SUFFIX = re.compile(r"\.(?:agent|chatmode|prompt)(?=\.md$)")
"""What GitHub Copilot and VS Code put before the suffix of a file to say what it is."""


def library_path(path: str) -> str:
    """Return where a file would lie in a library: `.claude/agents/a.md` is `agents/a.md`; other paths as they are."""
    found = HOME.match(path) if path[0] == "." or "/." in path else None
    folder = CLIENT_FOLDERS[found["client"]].get(found["kind"]) if found else None
    home = f"{folder}/{found['around']}{found['rest']}" if found and folder else path
    return SUFFIX.sub("", home) if home.startswith(("agents/", "prompts/")) else home


def is_skipped(name: str) -> bool:
    """Tell whether a file or folder of that name is never read, unless it is the folder of a client."""
    return name.startswith(".") or name in SKIPPED_FOLDERS


def is_passed_over(parts: Sequence[str]) -> bool:
    """Tell whether nothing is read at a path below a root."""
    return any(_is_closed(parts, place) for place, name in enumerate(parts) if is_skipped(name))


def _is_closed(parts: Sequence[str], place: int) -> bool:
    inside = CLIENT_FOLDERS.get(parts[place])
    return inside is None or (len(parts) > place + 1 and parts[place + 1] not in inside)


def count_markdown(folder: str) -> int:
    """Return how many Markdown files are seen in a folder that is not read, 0 where they are no author's."""
    name = Path(folder).name
    if name in OF_PROGRAMS or name in SKIPPED_FOLDERS or "cache" in name or Path(folder, "pyvenv.cfg").exists():
        return 0
    names = (name for _, _, files in os.walk(folder) for name in files)
    return sum(name.endswith(MARKDOWN) for name in islice(names, MOST_SEEN))
