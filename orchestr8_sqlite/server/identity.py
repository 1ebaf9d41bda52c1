"""Who the server is and what it can do, known without the SDK: its answer to a handshake is built from this."""

import logging
from pathlib import Path
from typing import Any, Final

from orchestr8_sqlite import __version__
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.model import CATEGORY_FOLDERS
from orchestr8_sqlite.wording import counted

logger = logging.getLogger(__name__)

NAME = "orchestr8"
TITLE = "Orchestr8 library"
DESCRIPTION = "Finds the right skill, agent, pattern or example for a task, just in time"

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
EXTENSIONS: dict[str, dict[str, Any]] = {SKILLS_EXTENSION: {"directoryRead": True}}
"""Protocol extensions and their settings. Source: SEP-2640, stable specification, "Capability Negotiation"."""

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_REVISIONS = ("2026-07-28",)

FRESH_MS = 60_000
"""Milliseconds for which a client of 2026-07-28 may take an answer for current; changes are announced besides."""

CACHE_SCOPE: Final = "public"
"""An answer is the same for everybody who asks."""


def read_instructions(database: Path, *, is_built: bool = False) -> str:
    """Return what a client tells its model about a server over the index at *database*, wherever that stands now.

    Args:
        is_built: Whether the server builds the index itself, so that a missing one is on its way.
    """
    try:
        with Catalog.open(database) as catalog:
            counts = catalog.category_counts()
    except CatalogError as problem:
        if not is_built:
            logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
            return "The library's index cannot be read at the moment."
        counts = {}
    here = ", ".join(counted(count, one, CATEGORY_FOLDERS[one]) for one, count in counts.items())
    return (
        f"A library of {here or 'instructions, being indexed now'}. Before work in an area, call `search` with the "
        "task in a few words, then `load` the one or two URIs that fit. `search` says when nothing fits; then go on "
        "without."
    )


def capabilities(revision: str) -> dict[str, Any]:
    """Return the capabilities that the server declares at *revision*, in the order of the wire."""
    lists = {
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    }
    if revision in MODERN_REVISIONS:
        return {"completions": {}, "extensions": EXTENSIONS, **lists}
    return {"completions": {}, **lists, "extensions": EXTENSIONS}


def initialize_result(revision: str, introduction: str) -> dict[str, Any]:
    """Return the result of `initialize` for a client that asks for *revision*, as it goes over the wire."""
    agreed = revision if revision in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
    return {
        "capabilities": capabilities(agreed),
        "instructions": introduction,
        "protocolVersion": agreed,
        "serverInfo": {"description": DESCRIPTION, "name": NAME, "title": TITLE, "version": __version__},
    }


def discover_result(introduction: str, fresh_ms: int) -> dict[str, Any]:
    """Return the result of `server/discover`, as it goes over the wire; it is current for *fresh_ms*."""
    me = {"name": NAME, "title": TITLE, "version": __version__, "description": DESCRIPTION}
    return {
        "cacheScope": CACHE_SCOPE,
        "capabilities": capabilities(MODERN_REVISIONS[-1]),
        "instructions": introduction,
        "resultType": "complete",
        "supportedVersions": list(MODERN_REVISIONS),
        "ttlMs": fresh_ms,
        "_meta": {"io.modelcontextprotocol/serverInfo": me},
    }
