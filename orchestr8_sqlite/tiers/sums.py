"""What every fragment earns of a request, added up: in plain Python, or with NumPy where that is loaded.

Both add the same numbers in the same order, so they give the same sums to the last bit. NumPy pays from some tens of
thousands of fragments on, but not for a single request: its import takes as long as that. A server of a large index
loads it with `load_arrays`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from orchestr8_sqlite.model import COUNTED

if TYPE_CHECKING:
    import numpy as np

LARGE = 20_000
"""Fragments from which on arrays pay."""

MANY = 4
SAMPLE = 512
"""Where there are so many times as many values as are wanted, so many of them tell which are worth sorting."""


class Points(NamedTuple):
    """What one form of a word gives to some fragments, each once: number `first + members[i]` earns `given[i]`.

    `table` says what each of `given` is worth.
    """

    first: int
    members: Sequence[int]
    given: Sequence[int]
    table: Sequence[float] | float


class Sums(ABC):
    """The sum of what each fragment earns: of each word the most that any of its forms gives."""

    @abstractmethod
    def add_word(self, points: Iterable[Points]) -> None:
        """Add for each fragment the most that *points* give it."""

    @abstractmethod
    def raised(self, shares: "Sums", bonus: float) -> "Sums":
        """Return each sum raised by *bonus* times its share (1 at most) of itself."""

    @abstractmethod
    def of(self, number: int) -> float:
        """Return the sum of a fragment, 0 where it has earned nothing."""

    @abstractmethod
    def best(self, depth: int) -> dict[int, float]:
        """Return the *depth* highest sums, and those that equal the last of them, by fragment."""

    @abstractmethod
    def among(self, numbers: Iterable[int]) -> "Sums":
        """Return the sums of the fragments *numbers* alone."""

    @abstractmethod
    def count(self, least: float) -> int:
        """Return how many sums reach *least*, COUNTED for that many or more."""

    @abstractmethod
    def below(self, value: float) -> "Sums":
        """Return the sums that are lower than *value*."""


class PlainSums(Sums):
    """In a dictionary."""

    def __init__(self, sums: dict[int, float] | None = None) -> None:
        self._sums = {} if sums is None else sums

    def add_word(self, points: Iterable[Points]) -> None:
        """Add for each fragment the most that *points* give it."""
        best: dict[int, float] = {}
        for one in points:
            if not best:
                best = dict(_given(one))
                continue
            get = best.get
            for number, value in _given(one):
                if value > get(number, 0.0):
                    best[number] = value
        if self._sums:
            get = self._sums.get
            self._sums.update({number: get(number, 0.0) + value for number, value in best.items()})
        else:
            self._sums = best

    def raised(self, shares: Sums, bonus: float) -> Sums:
        """Return each sum raised by *bonus* times its share (1 at most) of itself."""
        assert isinstance(shares, PlainSums)
        raised = self._sums.copy()
        for number, share in shares._sums.items():  # noqa: SLF001 - another of this class
            if number in raised:  # a form that earns nothing is no evidence
                raised[number] *= 1 + bonus * min(1.0, share)
        return PlainSums(raised)

    def of(self, number: int) -> float:
        """Return the sum of a fragment, 0 where it has earned nothing."""
        return self._sums.get(number, 0.0)

    def best(self, depth: int) -> dict[int, float]:
        """Return the *depth* highest sums, and those that equal the last of them, by fragment."""
        if len(self._sums) <= depth:
            return self._sums
        least = highest(list(self._sums.values()), depth)
        return {number: value for number, value in self._sums.items() if value >= least}

    def among(self, numbers: Iterable[int]) -> Sums:
        """Return the sums of the fragments *numbers* alone."""
        return PlainSums({number: self._sums[number] for number in numbers if number in self._sums})

    def count(self, least: float) -> int:
        """Return how many sums reach *least*, COUNTED for that many or more."""
        return len(list(islice(filter(least.__le__, self._sums.values()), COUNTED)))

    def below(self, value: float) -> Sums:
        """Return the sums that are lower than *value*."""
        return PlainSums({number: sum_ for number, sum_ in self._sums.items() if sum_ < value})


def highest(values: Sequence[float], place: int) -> float:
    """Return the value in *place* (1 for the first) of *values* from the highest down.

    Of many values only those are sorted that surpass what the place is likely to have, judged by some of them.
    """
    if len(values) > MANY * place:
        some = sorted(values[:: 1 + len(values) // SAMPLE], reverse=True)
        likely = some[min(2 * place * len(some) // len(values) + 4, len(some) - 1)]
        few = [value for value in values if value >= likely]
        if len(few) >= place:
            values = few
    return sorted(values, reverse=True)[place - 1]


def _given(points: Points) -> Iterator[tuple[int, float]]:
    """Return (fragment, what it earns) of each."""
    first, members, given, table = points
    numbers = members if first == 0 else map(first.__add__, members)
    return zip(numbers, map(table.__mul__ if isinstance(table, float) else table.__getitem__, given), strict=True)


class ArraySums(Sums):
    """In a NumPy array with a place for every fragment."""

    def __init__(self, sums: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
        self._np = import_module("numpy")
        self._sums = sums

    @cached_property
    def _best(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Return where `add_word` works; to make it anew for each word would take longer than to use it."""
        return cast("np.ndarray[tuple[int], np.dtype[np.float64]]", self._np.zeros_like(self._sums))

    def add_word(self, points: Iterable[Points]) -> None:
        """Add for each fragment the most that *points* give it."""
        np = self._np
        best = self._best
        best.fill(0.0)
        empty = True
        for first, members, given, table in points:
            numbers = np.asarray(members, dtype=np.int64) + first
            counts = np.frombuffer(given, dtype=np.uint8) if isinstance(given, bytes) else np.asarray(given)
            values = table * counts if isinstance(table, float) else np.asarray(table)[counts]
            best[numbers] = values if empty else np.maximum(best[numbers], values)
            empty = False
        if not empty:
            self._sums += best

    def raised(self, shares: Sums, bonus: float) -> Sums:
        """Return each sum raised by *bonus* times its share (1 at most) of itself."""
        assert isinstance(shares, ArraySums)
        raised = self._np.minimum(1.0, shares._sums)  # noqa: SLF001 - another of this class
        raised *= bonus
        raised += 1.0
        raised *= self._sums
        return ArraySums(raised)

    def of(self, number: int) -> float:
        """Return the sum of a fragment, 0 where it has earned nothing."""
        return float(self._sums[number])

    def best(self, depth: int) -> dict[int, float]:
        """Return the *depth* highest sums, and those that equal the last of them, by fragment."""
        np = self._np
        numbers = np.flatnonzero(self._sums > 0)
        values = self._sums[numbers]
        if len(numbers) > depth:
            chosen = values >= np.partition(values, len(values) - depth)[len(values) - depth]
            numbers, values = numbers[chosen], values[chosen]
        return dict(zip(numbers.tolist(), values.tolist(), strict=True))

    def among(self, numbers: Iterable[int]) -> Sums:
        """Return the sums of the fragments *numbers* alone."""
        kept = self._np.zeros_like(self._sums)
        places = self._np.fromiter(numbers, dtype=self._np.int64)
        kept[places] = self._sums[places]
        return ArraySums(kept)

    def count(self, least: float) -> int:
        """Return how many sums reach *least*, COUNTED for that many or more."""
        reached = (self._sums >= least) & (self._sums > 0)
        return min(COUNTED, int(self._np.count_nonzero(reached)))

    def below(self, value: float) -> Sums:
        """Return the sums that are lower than *value*."""
        return ArraySums(self._np.where(self._sums < value, self._sums, 0.0))


def new_sums(size: int, last_fragment: Callable[[], int]) -> Sums:
    """Return sums of nothing yet for an index of *size* fragments; *last_fragment* tells the highest number of one."""
    if size >= LARGE and "numpy" in sys.modules:
        return ArraySums(import_module("numpy").zeros(last_fragment() + 1))
    return PlainSums()


def load_arrays(size: int) -> bool:
    """Import NumPy where it pays for an index of *size* fragments; tell whether what pays is there."""
    if size < LARGE:
        return True
    try:
        import_module("numpy")
    except ImportError:
        return False
    return True
