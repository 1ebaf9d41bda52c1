"""Numbers that the index keeps of every scenario or fragment, packed in blocks."""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from orchestr8_sqlite.connections import kept_of
from orchestr8_sqlite.packing import PLACED, unpack_numbers
from orchestr8_sqlite.tiers.recent import MEBIBYTE, Recent

NUMBERS = {
    "owners": "SELECT o.block, o.owners FROM json_each(:blocks) CROSS JOIN scenario_owner o ON o.block = value",
    "places": "SELECT p.block, p.places FROM json_each(:blocks) CROSS JOIN fragment_place p ON p.block = value",
}

MOST_KEPT = 2 * MEBIBYTE
"""Bytes that are kept of the blocks of each kind."""

ARRAY_BYTES = 100
"""What an array takes beside its numbers."""


class Numbers:
    """Numbers that the index keeps in blocks: the owners of scenarios or the places of fragments, read as needed."""

    def __init__(self, db: sqlite3.Connection, kind: str) -> None:
        self._db = db
        self._sql = NUMBERS[kind]
        known: dict[str, Recent[int, array[int]]] = kept_of(db, kind)
        self._blocks = known.get(kind) or known.setdefault(kind, Recent(MOST_KEPT, _bytes_of_block))

    def of(self, wanted: Sequence[int]) -> list[int]:
        """Return what is kept of each of *wanted*, which ascend."""
        if wanted and wanted[0] // PLACED == wanted[-1] // PLACED:
            block = wanted[0] // PLACED
            first, numbers = block * PLACED, self._blocks.of((block,), self._read)[block]
            return [numbers[number - first] for number in wanted]
        found: list[int] = []
        for first, numbers, part in self.parts(wanted):
            found += [numbers[number - first] for number in part]
        return found

    def parts(self, wanted: Sequence[int]) -> list[tuple[int, "array[int]", Sequence[int]]]:
        """Return *wanted*, which ascend, by block: its first number, what is kept of each from that one on, and which.

        A part is a slice of *wanted*.
        """
        parts = list(_cut(wanted))
        blocks = self._blocks.of([block for block, _ in parts], self._read)
        return [(block * PLACED, blocks[block], part) for block, part in parts]

    def _read(self, blocks: list[int]) -> "dict[int, array[int]]":
        rows = self._db.execute(self._sql, {"blocks": str(blocks)})
        return {block: unpack_numbers(packed) for block, packed in rows}


def _bytes_of_block(numbers: "array[int]") -> int:
    return ARRAY_BYTES + numbers.itemsize * len(numbers)


def _cut(numbers: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield (block, those of *numbers* in it) for numbers that ascend."""
    start = 0
    while start < len(numbers):
        block = int(numbers[start]) // PLACED
        end = bisect_left(numbers, (block + 1) * PLACED, start)
        yield block, numbers[start:end]
        start = end
