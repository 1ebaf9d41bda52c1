"""Numbers that the index keeps of every scenario or fragment, packed in blocks."""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from orchestr8_sqlite.connections import kept_of
from orchestr8_sqlite.packing import PLACED, unpack_numbers

NUMBERS = {
    "owners": "SELECT o.block, o.owners FROM json_each(:blocks) CROSS JOIN scenario_owner o ON o.block = value",
    "places": "SELECT p.block, p.places FROM json_each(:blocks) CROSS JOIN fragment_place p ON p.block = value",
}

MOST_KEPT = 128
"""Blocks of each kind that a connection keeps, 8 KiB each."""


class Numbers:
    """Numbers that the index keeps in blocks: the owners of scenarios or the places of fragments, read as needed."""

    def __init__(self, db: sqlite3.Connection, kind: str) -> None:
        self._db = db
        self._sql = NUMBERS[kind]
        self._blocks: dict[int, array[int]] = kept_of(db, kind)
        if len(self._blocks) > MOST_KEPT:
            self._blocks.clear()

    def of(self, wanted: Sequence[int]) -> list[int]:
        """Return what is kept of each of *wanted*, which ascend."""
        found: list[int] = []
        for first, numbers, part in self.parts(wanted):
            found.extend([numbers[number - first] for number in part])
        return found

    def parts(self, wanted: Sequence[int]) -> Iterator[tuple[int, "array[int]", Sequence[int]]]:
        """Yield *wanted*, which ascend, by block: its first number, what is kept of each from that one on, and which.

        A part is a slice of *wanted*.
        """
        parts = list(_cut(wanted))
        missing = [block for block, _ in parts if block not in self._blocks]
        if missing:
            rows = self._db.execute(self._sql, {"blocks": str(missing)})
            self._blocks |= {block: unpack_numbers(packed) for block, packed in rows}
        for block, part in parts:
            yield block * PLACED, self._blocks[block], part


def _cut(numbers: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield (block, those of *numbers* in it) for numbers that ascend."""
    start = 0
    while start < len(numbers):
        block = int(numbers[start]) // PLACED
        end = bisect_left(numbers, (block + 1) * PLACED, start)
        yield block, numbers[start:end]
        start = end
