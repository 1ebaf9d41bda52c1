"""Who the server is and what it can do, known without the SDK: its answer to a handshake is built from this."""

import logging
from pathlib import Path
from typing import Any, Final, Protocol

from orchestr8_sqlite import __version__
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.model import CATEGORY_FOLDERS

logger = logging.getLogger(__name__)

NAME = "orchestr8"
TITLE = "Orchestr8 library"
DESCRIPTION = "Finds the right skill, agent, pattern or example for a task, just in time"

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
EXTENSIONS: dict[str, dict[str, Any]] = {SKILLS_EXTENSION: {"directoryRead": True}}
"""Protocol extensions and their settings. Source: SEP-2640, stable specification, "Capability Negotiation"."""

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_REVISIONS = ("2026-07-28",)

ANNOUNCES_CHANGES: Final[bool] = False
"""Whether clients are told of changes: `listChanged` of every list, and subscriptions to resources."""

COMPLETES: Final[bool] = False
"""Whether arguments of prompts and templates are completed."""

EXTENDS: Final[bool] = False
"""Whether the methods of EXTENSIONS are served."""

DISCOVER_TTL_MS = 0
DISCOVER_SCOPE = "private"
"""How long, and by whom, the answer to `server/discover` may be kept."""


class Indexed(Protocol):
    """Whatever holds an open index, such as a `Service`."""

    @property
    def catalog(self) -> Catalog:
        """Return the open index, or raise CatalogError."""


def read_instructions(database: Path) -> str:
    """Return the instructions of a server over the index at *database*, wherever that stands at the moment."""
    try:
        with Catalog.open(database) as catalog:
            return _describe(catalog)
    except CatalogError as problem:
        return _say_unreadable(problem)


def instructions(holder: Indexed) -> str:
    """Return what a client tells its model about this server: what is here, and the two steps to use it."""
    try:
        return _describe(holder.catalog)
    except CatalogError as problem:
        return _say_unreadable(problem)


def _say_unreadable(problem: CatalogError) -> str:
    logger.error("%s", problem)
    return "The library's index cannot be read at the moment."


def _describe(catalog: Catalog) -> str:
    counts = catalog.category_counts()
    here = ", ".join(f"{count} {CATEGORY_FOLDERS[category]}" for category, count in counts.items())
    return (
        f"A library of {here}. Before work in an area, call `search` with the task in a few words, then `load` "
        "the one or two URIs that fit. `search` says when nothing fits; then go on without."
    )


def capabilities(revision: str) -> dict[str, Any]:
    """Return the capabilities that the server declares at *revision*, in the order of the wire.

    Extensions have a place in them since 2026-07-28 only.
    """
    declared: dict[str, Any] = {"completions": {}} if COMPLETES else {}
    if EXTENDS and revision in MODERN_REVISIONS:
        declared["extensions"] = EXTENSIONS
    declared["prompts"] = {"listChanged": ANNOUNCES_CHANGES}
    declared["resources"] = {"listChanged": ANNOUNCES_CHANGES, "subscribe": ANNOUNCES_CHANGES}
    declared["tools"] = {"listChanged": ANNOUNCES_CHANGES}
    return declared


def initialize_result(revision: str, introduction: str) -> dict[str, Any]:
    """Return the result of `initialize` for a client that asks for *revision*, as it goes over the wire."""
    agreed = revision if revision in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
    return {
        "capabilities": capabilities(agreed),
        "instructions": introduction,
        "protocolVersion": agreed,
        "serverInfo": {"description": DESCRIPTION, "name": NAME, "title": TITLE, "version": __version__},
    }


def discover_result(introduction: str) -> dict[str, Any]:
    """Return the result of `server/discover`, as it goes over the wire."""
    me = {"name": NAME, "title": TITLE, "version": __version__, "description": DESCRIPTION}
    return {
        "cacheScope": DISCOVER_SCOPE,
        "capabilities": capabilities(MODERN_REVISIONS[-1]),
        "instructions": introduction,
        "resultType": "complete",
        "supportedVersions": list(MODERN_REVISIONS),
        "ttlMs": DISCOVER_TTL_MS,
        "_meta": {"io.modelcontextprotocol/serverInfo": me},
    }
