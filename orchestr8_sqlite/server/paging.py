"""Pages of a list: opaque cursors that hold the list, the generation of the index, and the end of the last page.

A cursor is refused for another list, and once the library has changed.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_types import PaginatedRequestParams

from orchestr8_sqlite.errors import RequestError

PAGE_SIZE = 100
"""Entries per page; ask the index for one more to learn whether another page follows."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of the list *name* (such as `resources`, or a folder's URI) of one generation of the index."""

    name: str
    generation: str

    def after(self, params: PaginatedRequestParams | None) -> str | None:
        """Return the sort key after which the requested page starts, or None for the first page.

        Raises:
            RequestError: The cursor is not from this list, or the library has changed since.
        """
        cursor = params.cursor if params else None
        if cursor is None:
            return None
        try:
            name, generation, key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
            str(key).encode()  # a lone surrogate is valid JSON, but SQLite refuses it
        except (binascii.Error, ValueError, TypeError, RecursionError):
            name = generation = key = None
        if name != self.name or not isinstance(key, str):
            raise RequestError("The cursor is not from this list; list again without it.")
        if generation != self.generation:
            raise RequestError("The library has changed since this cursor was issued; list again without it.")
        return key

    def next_cursor(self, keys: Sequence[str]) -> str | None:
        """Return the cursor after the first page of the sort keys *keys*, or None if no key follows."""
        return self.cursor_behind(keys[PAGE_SIZE - 1]) if len(keys) > PAGE_SIZE else None

    def cursor_behind(self, key: str) -> str:
        """Return the cursor of the page that starts after the sort key *key*."""
        state = json.dumps([self.name, self.generation, key])
        return base64.urlsafe_b64encode(state.encode()).decode()
