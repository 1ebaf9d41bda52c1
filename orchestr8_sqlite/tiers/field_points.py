"""The points that fragments earn by the fields whose words contain the keywords of a request, best first.

In plain Python, or with NumPy where that is loaded and pays: the points are whole numbers, so both give the same.
"""

import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from orchestr8_sqlite.packing import BLOCK, unpack_members
from orchestr8_sqlite.tiers.numbers import Numbers
from orchestr8_sqlite.tiers.sums import LARGE

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int], np.dtype[Any]]

FIELD_POINTS = {1: 10, 2: 8, 4: 5}
"""Points for a query keyword in a tag, a capability, a scenario; the keys are bits of field_block.fields."""

MASK_POINTS = tuple(sum(points for bit, points in FIELD_POINTS.items() if mask & bit) for mask in range(64))

FIRST_PIECE, LARGEST_PIECE = 128, 16_384
"""Fragments that are put in order together: so many at first, then twice as many and so on, up to a bound."""

MOST_JOINED = 1 << 17
"""Members of blocks that are joined before NumPy looks at them; it takes as long for one as for some hundreds."""

Row = tuple[int, bytes, bytes]
"""A block of fragments, which of these hold a keyword, and in which fields each of them does: see field_block."""

Placed = tuple[int, int, int]
"""The points of a fragment below zero, its place in the order of the URIs, and its number: what is best is least."""


class FieldPoints(ABC):
    """The points of all fragments that have any."""

    @abstractmethod
    def add(self, rows: Iterable[Row]) -> None:
        """Add what a keyword earns by those of the index that contain it: in each field once."""

    @abstractmethod
    def keep(self, fragments: Sequence[int]) -> None:
        """Forget the points of all but *fragments*."""

    @abstractmethod
    def counts(self) -> Mapping[int, int]:
        """Return how many fragments have so many points, more than none."""

    @abstractmethod
    def between(self, least: int, most: int) -> Sequence[int]:
        """Return the fragments with *least* points to *most*, more than none, by number."""

    @abstractmethod
    def _in_order(self, fragments: Sequence[int], places: Numbers) -> Callable[[int, int], list[Placed]]:
        """Return what lists some of *fragments*, from one place to before another, once they are in order."""

    def best_first(self, places: Numbers) -> Iterator[list[Placed]]:
        """Yield all fragments in pieces, those with most points first, equal ones by URI."""
        levels = sorted(self.counts().items())
        size = FIRST_PIECE
        while levels:
            most, together = levels[-1][0], 0
            while levels and together < size:
                least, count = levels.pop()
                together += count
            listed = self._in_order(self.between(least, most), places)
            start = 0
            while start < together:
                yield listed(start, start + size)
                start, size = start + size, min(2 * size, LARGEST_PIECE)


class PlainFieldPoints(FieldPoints):
    """In a dictionary."""

    def __init__(self) -> None:
        self._points: dict[int, int] = defaultdict(int)

    def add(self, rows: Iterable[Row]) -> None:
        """Add what a keyword earns by those of the index that contain it: in each field once."""
        masks: dict[int, int] = {}
        for block, members, fields in rows:
            first = block * BLOCK
            for member, mask in zip(unpack_members(members), fields, strict=True):
                fragment = first + member
                masks[fragment] = masks.get(fragment, 0) | mask
        for fragment, mask in masks.items():
            if MASK_POINTS[mask]:
                self._points[fragment] += MASK_POINTS[mask]

    def keep(self, fragments: Sequence[int]) -> None:
        """Forget the points of all but *fragments*."""
        self._points = {fragment: self._points[fragment] for fragment in fragments if fragment in self._points}

    def counts(self) -> Mapping[int, int]:
        """Return how many fragments have so many points, more than none."""
        return Counter(self._points.values())

    def between(self, least: int, most: int) -> Sequence[int]:
        """Return the fragments with *least* points to *most*, more than none, by number."""
        return sorted([fragment for fragment, points in self._points.items() if least <= points <= most])

    def _in_order(self, fragments: Sequence[int], places: Numbers) -> Callable[[int, int], list[Placed]]:
        points = [-self._points[fragment] for fragment in fragments]
        ordered = sorted(zip(points, places.of(fragments), fragments, strict=True))
        return lambda start, end: ordered[start:end]


class ArrayFieldPoints(FieldPoints):
    """In a NumPy array with a place for every fragment."""

    def __init__(self, places: int) -> None:
        """Hold no points yet of the fragments below *places*."""
        self._np = np = import_module("numpy")
        self._points = np.zeros(places, np.int32)
        self._masks = np.zeros(places, np.uint8)
        self._worth = np.array(MASK_POINTS, np.int32)

    def add(self, rows: Iterable[Row]) -> None:
        """Add what a keyword earns by those of the index that contain it: in each field once."""
        reached: Array | slice | None = None
        for some in _joined(rows):
            numbers = self._mark(some)
            few = reached is None and len(numbers) < len(self._points)
            reached = numbers if few else slice(None)
        if reached is not None:
            # a fragment that is named twice is given the same points twice
            self._points[reached] = self._points[reached] + self._worth[self._masks[reached]]
            self._masks[reached] = 0

    def _mark(self, rows: Sequence[Row]) -> "Array":
        """Note the fields of *rows* and return the fragments in them."""
        np = self._np
        sizes = [len(fields) for _, _, fields in rows]
        numbers = np.frombuffer(b"".join([members for _, members, _ in rows]), "<u2").astype(np.int64)
        numbers += np.repeat(np.array([block * BLOCK for block, _, _ in rows], np.int64), sizes)
        fields = np.frombuffer(b"".join([fields for _, _, fields in rows]), np.uint8)
        for bit in FIELD_POINTS:  # one after the other, as a fragment may be there in several rows
            self._masks[numbers[(fields & bit).astype(bool)]] |= bit
        return cast("Array", numbers)

    def keep(self, fragments: Sequence[int]) -> None:
        """Forget the points of all but *fragments*."""
        places = self._np.array(fragments, self._np.int64)
        kept = self._np.zeros_like(self._points)
        kept[places] = self._points[places]
        self._points = kept

    def counts(self) -> Mapping[int, int]:
        """Return how many fragments have so many points, more than none."""
        counts = self._np.bincount(self._points)
        held = self._np.flatnonzero(counts[1:]) + 1
        return dict(zip(held.tolist(), counts[held].tolist(), strict=True))

    def between(self, least: int, most: int) -> Sequence[int]:
        """Return the fragments with *least* points to *most*, more than none, by number."""
        wanted = (self._points >= max(1, least)) & (self._points <= most)
        return cast("Sequence[int]", self._np.flatnonzero(wanted))

    def _in_order(self, fragments: Sequence[int], places: Numbers) -> Callable[[int, int], list[Placed]]:
        np = self._np
        numbers = np.asarray(fragments)
        parts = places.parts(cast("Sequence[int]", numbers))
        where = np.concatenate([np.asarray(placed)[np.asarray(part) - first] for first, placed, part in parts])
        points = -self._points[numbers]
        order = np.lexsort((where, points))

        def listed(start: int, end: int) -> list[Placed]:
            some = order[start:end]
            return list(zip(points[some].tolist(), where[some].tolist(), numbers[some].tolist(), strict=True))

        return listed


def _joined(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield *rows* in lists of MOST_JOINED members, or as many as one row may have beyond."""
    together: list[Row] = []
    members = 0
    for row in rows:
        together.append(row)
        members += len(row[2])
        if members >= MOST_JOINED:
            yield together
            together, members = [], 0
    if together:
        yield together


def new_field_points(size: int, last_fragment: Callable[[], int]) -> FieldPoints:
    """Return no points yet for a request to an index of *size* fragments.

    Args:
        last_fragment: Tells the highest number of a fragment.
    """
    if size >= LARGE and "numpy" in sys.modules:
        return ArrayFieldPoints(last_fragment() + 1)
    return PlainFieldPoints()
