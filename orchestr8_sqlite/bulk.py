"""Rows into a table, many with one statement.

Blobs are best given as bytearrays: for bytes, Python looks for an adapter each time, which takes as long as all else.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

ROWS = 60
"""Rows that one statement writes: with narrow rows a third of the time that a statement a row takes, and more rows
save little."""


def insert_rows(db: sqlite3.Connection, insert: str, rows: Iterable[Sequence[object]]) -> None:
    """Write *rows* by *insert*, the statement for one row, in which nothing but its placeholders is in brackets."""
    start = insert.index("(?")
    end = insert.index(")", start) + 1
    row = insert[start:end]
    following = iter(rows)
    rest: list[Sequence[object]] = []

    def full() -> Iterator[list[object]]:
        while len(batch := list(islice(following, ROWS))) == ROWS:
            yield list(chain.from_iterable(batch))
        rest.extend(batch)

    db.executemany(insert[:start] + ", ".join([row] * ROWS) + insert[end:], full())
    db.executemany(insert, rest)
