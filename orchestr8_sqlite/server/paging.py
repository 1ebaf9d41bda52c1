"""Pages of a list: opaque cursors that hold where the last page ended, of which list, in which index.

A cursor survives nothing it should not: it is refused for another list, and once the library has changed.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_types import PaginatedRequestParams

from orchestr8_sqlite.errors import RequestError

PAGE_SIZE = 100
"""Entries of one page; ask the index for one more to know whether another page follows."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of the list *name* (such as `resources`, or a folder's URI) of one generation of the index."""

    name: str
    generation: str

    def after(self, params: PaginatedRequestParams | None) -> str | None:
        """Return the sort key behind which the asked page starts; None for the first page.

        Raises:
            RequestError: The cursor is not one of this server, of another list, or of a library that has changed.
        """
        cursor = params.cursor if params else None
        if cursor is None:
            return None
        try:
            name, generation, key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
            str(key).encode()  # half of a surrogate pair is valid JSON, but no text that SQLite takes
        except (binascii.Error, ValueError, TypeError, RecursionError):
            name = generation = key = None
        if name != self.name or not isinstance(key, str):
            raise RequestError("The cursor is not one that this list gave; list again without it.")
        if generation != self.generation:
            raise RequestError("The library has changed since that cursor was given; list again without it.")
        return key

    def next_cursor(self, keys: Sequence[str]) -> str | None:
        """Return the cursor behind the first page of the sort keys *keys*; None where they hold no entry more."""
        return self.cursor_behind(keys[PAGE_SIZE - 1]) if len(keys) > PAGE_SIZE else None

    def cursor_behind(self, key: str) -> str:
        """Return the cursor of the page that starts behind the sort key *key*."""
        state = json.dumps([self.name, self.generation, key])
        return base64.urlsafe_b64encode(state.encode()).decode()
