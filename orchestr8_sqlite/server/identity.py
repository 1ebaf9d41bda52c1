"""Who the server is, and what it tells a client's model of itself."""

import logging
from pathlib import Path
from typing import Any, Final

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS
from orchestr8_sqlite.text.wording import counted

logger = logging.getLogger(__name__)

NAME = "orchestr8"
TITLE = "Orchestr8 library"
DESCRIPTION = "Finds the right skill, agent, pattern or example for a task, just in time"

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
EXTENSIONS: dict[str, dict[str, Any]] = {SKILLS_EXTENSION: {"directoryRead": True}}
"""Protocol extensions and their settings. Source: SEP-2640, stable specification, "Capability Negotiation"."""

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
        "task and the `terms` an expert would use, then `load` the one or two URIs that fit. `search` says when "
        "nothing fits; then go on without."
    )
