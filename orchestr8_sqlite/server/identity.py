"""The server's name, and its instructions for a client's model."""

import logging
from typing import Any, Final

from orchestr8_sqlite.errors import CatalogError, MissingIndex, Unreachable
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS
from orchestr8_sqlite.settings import Place, Profile
from orchestr8_sqlite.text.wording import counted

logger = logging.getLogger(__name__)

NAME = "orchestr8"
TITLE = "Orchestr8 library"
DESCRIPTION = "Finds the right skill, agent, pattern or example for a task, just in time"

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
EXTENSIONS: dict[str, dict[str, Any]] = {SKILLS_EXTENSION: {"directoryRead": True}}
"""Protocol extensions and their settings. Source: SEP-2640, stable specification, "Capability Negotiation"."""

FRESH_MS = 60_000
"""Milliseconds for which a client of 2026-07-28 may treat an answer as current; changes are also announced."""

CACHE_SCOPE: Final = "public"
"""Every client gets the same answers."""


UNREADABLE = "The library's index cannot be read; see the server's log."
SILENT = "A database of the library does not answer; try again in a moment."
ABSENT = (
    "There is no library to answer from: the index file is missing, or the folder it is built from is missing or "
    "has no Markdown files; the server's log says which, and so does `orchestr8-sqlite doctor`."
)


def said_of(problem: Exception) -> str:
    """Return what to tell a client about an index that cannot be read; it names no path and no address."""
    if isinstance(problem, Unreachable):
        return SILENT
    return ABSENT if isinstance(problem, MissingIndex) else UNREADABLE


def read_instructions(database: Place, profile: Profile = Profile.LIBRARY, *, is_built: bool = False) -> str:
    """Return what a client tells its model about the server, from the current state of the index at *database*.

    Args:
        profile: The profile of tools that the server offers.
        is_built: Whether the server builds the index itself, so that a missing index is being built.
    """
    try:
        with Catalog.open(database) as catalog:
            counts, language = catalog.category_counts(), catalog.language
    except CatalogError as problem:
        if not is_built:
            logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
            return said_of(problem)
        counts, language = {}, ""
    is_whole = profile is Profile.LIBRARY
    search, load = ("search", "load") if is_whole else ("search_skill", "load_skill")
    names = " and the `terms` an expert would use" if is_whole else ""
    tongue = f" in {language}" if language else ""
    here = ", ".join(counted(count, one, CATEGORY_FOLDERS[one]) for one, count in counts.items())
    return (
        f"A library{tongue} of {here or 'instructions, being indexed now'}. Before work in an area, call `{search}` "
        f"with the task{names}, then `{load}` the one or two that fit. Take from them what changes your work, and do "
        f"all that the task asks. `{search}` says when nothing fits; then go on without."
    )
