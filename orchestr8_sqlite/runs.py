"""Lists of postings that are gathered by key in bounded memory: sorted runs of them wait in a temporary file."""

import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby, repeat
from operator import itemgetter
from typing import Generic, TypeVar

from orchestr8_sqlite.bulk import insert_rows

K = TypeVar("K", int, str)

MOST_KEYS = 1 << 17
"""Keys of one list that are held in memory; each takes some 250 bytes."""

MOST_POSTINGS = 1 << 22
"""Postings that are held in memory, four bytes each."""

CREATE = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE run (
    key    ANY NOT NULL,
    number INTEGER NOT NULL,
    first  BLOB NOT NULL,
    second BLOB NOT NULL,
    third  BLOB NOT NULL,
    PRIMARY KEY (key, number)
) STRICT, WITHOUT ROWID;
BEGIN;
"""
PUT = "INSERT INTO run VALUES (?, ?, ?, ?, ?)"
TAKE = "SELECT key, first, second, third FROM run ORDER BY key, number"

NOTHING = array("I")
Gathered = tuple[K, "array[int]", "array[int]", "array[int]"]
"""A key with its three lists."""


class Runs(Generic[K]):
    """Three lists of postings for each key: whoever gathers them appends to `lists` and then says how many it were."""

    def __init__(self) -> None:
        self.lists: tuple[defaultdict[K, array[int]], ...] = tuple(defaultdict(lambda: array("I")) for _ in range(3))
        self._postings = 0
        self._aside: sqlite3.Connection | None = None
        self._runs = 0

    def count(self, postings: int) -> None:
        """Take note of *postings* that were appended, and put all aside where it is too much for the memory."""
        self._postings += postings
        if self._postings > MOST_POSTINGS or max(map(len, self.lists)) > MOST_KEYS:
            self._put_aside()

    def drain(self) -> Iterator[Gathered[K]]:
        """Yield every key, ascending, with what was appended to its lists, in that order; then they are empty."""
        if self._aside is None:
            yield from self._held()
            self._clear()
            return
        self._put_aside()
        with closing(self._aside) as aside:
            self._aside = None
            for key, parts in groupby(aside.execute(TAKE), key=itemgetter(0)):
                _, *columns = zip(*parts, strict=True)
                first, second, third = (array("I", b"".join(column)) for column in columns)
                yield key, first, second, third

    def _held(self) -> Iterator[Gathered[K]]:
        """Return what is in memory, by ascending keys."""
        keys = sorted(set().union(*self.lists))
        first, second, third = (map(known.get, keys, repeat(NOTHING)) for known in self.lists)
        return zip(keys, first, second, third, strict=True)

    def _put_aside(self) -> None:
        """Move what is in memory into the temporary file, which SQLite removes when its connection is closed."""
        if self._aside is None:
            self._aside = sqlite3.connect("", isolation_level=None)
            self._aside.executescript(CREATE)
        self._runs += 1
        insert_rows(self._aside, PUT, ((key, self._runs, *map(bytearray, lists)) for key, *lists in self._held()))
        self._clear()

    def _clear(self) -> None:
        for known in self.lists:
            known.clear()
        self._postings = 0
