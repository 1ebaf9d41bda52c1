"""Sets of scenarios in the order of the URIs, read from its beginning and only as far as somebody asks."""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from orchestr8_sqlite.connections import kept_of
from orchestr8_sqlite.packing import PLACED
from orchestr8_sqlite.tiers.numbers import Numbers
from orchestr8_sqlite.tiers.packed import members_of

ORDER = "SELECT place, block FROM scenario_order ORDER BY place, block"
BYTES = PLACED >> 3
NOTHING = bytes(BYTES)

Part = tuple[int, int, bytes]
"""The least place of any fragment of a block, the block, and which of its scenarios are in a set."""


class Order:
    """The scenarios of an index in blocks, these by the least place that any of their fragments has."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._owners, self._places = Numbers(db, "owners"), Numbers(db, "places")

    def walk(self, scenarios: int) -> Iterator[tuple[int, int]]:
        """Yield (fragment, the first of its scenarios among *scenarios*), by URI."""
        parts = self._parts(scenarios)
        waiting: list[tuple[int, int, int]] = []
        together, last = 1, -1
        while True:
            following = list(islice(parts, together))
            end = bisect_left(waiting, (following[0][0], 0, 0)) if following else len(waiting)
            for place, scenario, fragment in waiting[:end]:
                if place != last:
                    yield fragment, scenario
                    last = place
            if not following:
                return
            waiting = sorted(waiting[end:] + self._placed(following))
            together *= 2

    def _parts(self, scenarios: int) -> Iterator[Part]:
        """Yield the blocks that have any of *scenarios*."""
        packed = scenarios.to_bytes((scenarios.bit_length() + PLACED - 1) // PLACED * BYTES, "little")
        for least, block in self._blocks():
            part = packed[block * BYTES : (block + 1) * BYTES]
            if part != NOTHING and part:
                yield least, block, part

    def _placed(self, parts: Sequence[Part]) -> list[tuple[int, int, int]]:
        """Return (place, scenario, fragment) of the scenarios in *parts*."""
        rows = [block * PLACED + member for _, block, part in sorted(parts, key=_block) for member in members_of(part)]
        owners = self._owners.of(rows)
        fragments = sorted(set(owners))
        places = dict(zip(fragments, self._places.of(fragments), strict=True))
        return [(places[owner], row, owner) for owner, row in zip(owners, rows, strict=True)]

    def _blocks(self) -> list[tuple[int, int]]:
        """Return (least place, block) of all blocks."""
        kept: dict[str, list[tuple[int, int]]] = kept_of(self._db, "order")
        if "blocks" not in kept:
            kept["blocks"] = self._db.execute(ORDER).fetchall()
        return kept["blocks"]


def _block(part: Part) -> int:
    return part[1]
