"""Maps the folders where coding assistants keep Markdown in a repository to the folders of a library.

Only folders of agents, skills or commands are read. Rules and instructions are not: their client adds them to its
context itself.

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
"""Folder of a client → folder inside it → the library folder it corresponds to."""

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv"})
OF_PROGRAMS = frozenset({".git", ".hg", ".svn", ".jj", ".tox", ".nox", ".idea"})
"""Hidden folders where authors keep no text of their own."""

MARKDOWN = (".md", ".mdc")
MOST_SEEN = 1_000
"""Files of a hidden folder that are searched for Markdown at most."""

HOME = re.compile(
    rf"(?P<around>(?:[^/]+/)*?)(?P<client>{'|'.join(map(re.escape, CLIENT_FOLDERS))})/(?P<kind>[^/]+)/(?P<rest>.+)"
)
SUFFIX = re.compile(r"\.(?:agent|chatmode|prompt)(?=\.md$)")
"""Marks before the suffix by which GitHub Copilot and VS Code name the kind of a file."""


def library_path(path: str) -> str:
    """Return the path that a file would have in a library: `.claude/agents/a.md` → `agents/a.md`; others unchanged."""
    found = HOME.match(path) if path[0] == "." or "/." in path else None
    folder = CLIENT_FOLDERS[found["client"]].get(found["kind"]) if found else None
    home = f"{folder}/{found['around']}{found['rest']}" if found and folder else path
    return SUFFIX.sub("", home) if home.startswith(("agents/", "prompts/")) else home


def is_skipped(name: str) -> bool:
    """Tell whether a file or folder of this name is skipped; folders of clients are exceptions."""
    return name.startswith(".") or name in SKIPPED_FOLDERS


def is_passed_over(parts: Sequence[str]) -> bool:
    """Tell whether a path below a root is not read."""
    return any(_is_closed(parts, place) for place, name in enumerate(parts) if is_skipped(name))


def _is_closed(parts: Sequence[str], place: int) -> bool:
    inside = CLIENT_FOLDERS.get(parts[place])
    return inside is None or (len(parts) > place + 1 and parts[place + 1] not in inside)


def count_markdown(folder: str) -> int:
    """Return the number of Markdown files seen in a skipped folder; 0 if no author would have put them there."""
    name = Path(folder).name
    if name in OF_PROGRAMS or name in SKIPPED_FOLDERS or "cache" in name or Path(folder, "pyvenv.cfg").exists():
        return 0
    names = (name for _, _, files in os.walk(folder) for name in files)
    return sum(name.endswith(MARKDOWN) for name in islice(names, MOST_SEEN))
