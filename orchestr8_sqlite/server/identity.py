"""Who the server is and what it can do, known without the SDK: its answer to a handshake is built from this."""

import logging
from typing import Any

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.model import CATEGORY_FOLDERS
from orchestr8_sqlite.service import Service

logger = logging.getLogger(__name__)

NAME = "orchestr8"
TITLE = "Orchestr8 library"
DESCRIPTION = "Finds the right skill, agent, pattern or example for a task, just in time"

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
EXTENSIONS: dict[str, dict[str, Any]] = {SKILLS_EXTENSION: {"directoryRead": True}}
"""Protocol extensions and their settings. Source: SEP-2640, stable specification, "Capability Negotiation"."""


def instructions(service: Service) -> str:
    """Return what a client tells its model about this server: what is here, and the two steps to use it."""
    try:
        counts = service.catalog.category_counts()
    except CatalogError as problem:
        logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
        return "The library's index cannot be read at the moment."
    here = ", ".join(f"{count} {CATEGORY_FOLDERS[category]}" for category, count in counts.items())
    return (
        f"A library of {here}. Before work in an area, call `search` with the task in a few words, then `load` "
        "the one or two URIs that fit. `search` says when nothing fits; then go on without."
    )
