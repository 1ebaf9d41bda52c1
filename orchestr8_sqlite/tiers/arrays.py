"""What every fragment earns of a request, added up with NumPy, which the caller has loaded."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from orchestr8_sqlite.model import COUNTED
from orchestr8_sqlite.tiers.sums import LEAST, MANY, SAMPLE, Points, Sums, likely_place

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int], np.dtype[Any]]

ROWS = 3
"""Sums, what they are raised by, and where `add_word` works or what they are then: one piece of memory for a request.

Several would be given back to the system after each request, and be fetched anew, page by page, for the next one.
"""


class ArraySums(Sums):
    """In a NumPy array with a place for every fragment."""

    @classmethod
    def of_nothing(cls, places: int) -> Self:
        """Return sums of nothing yet for fragments below *places*."""
        rows = list(import_module("numpy").empty((ROWS, places)))
        rows[0].fill(0.0)
        return cls(rows[0], rows[1:])

    def __init__(self, sums: "Array", spare: "Sequence[Array]" = ()) -> None:
        """Hold *sums*, with as much room for others in *spare*."""
        self._np = import_module("numpy")
        self._sums = sums
        self._spare = spare or [self._np.empty_like(sums) for _ in range(ROWS - 1)]
        self._reached: Array | None = None

    def add_word(self, points: Sequence[Points]) -> None:
        """Add for each fragment the most that *points* give it."""
        best = self._spare[0]
        best.fill(0.0)
        for number, one in enumerate(points):
            numbers, values = self._given(one)
            best[numbers] = self._np.maximum(best[numbers], values) if number else values
        self._sums += best

    def add_apart(self, points: Sequence[Points]) -> None:
        """Add what *points* give, of which no two give anything to the same fragment."""
        for one in points:
            numbers, values = self._given(one)
            self._sums[numbers] += values

    def _given(self, points: Points) -> "tuple[Array, Array]":
        """Return the fragments and what each of them earns."""
        np = self._np
        first, members, weights, gain = points
        numbers = np.asarray(members, dtype=np.int64)
        return numbers + first if first else numbers, gain * np.asarray(weights)

    def new_shares(self) -> Sums:
        """Return sums of nothing yet that these can be `raised` by."""
        shares = self._spare[1]
        shares.fill(0.0)
        return ArraySums(shares, self._spare)

    def raised(self, shares: Sums, bonus: float) -> Sums:
        """Return each sum raised by *bonus* times its share (1 at most) of itself; those returned before are gone.

        They stand where `add_word` works, so nothing more may be added to either.
        """
        assert isinstance(shares, ArraySums)
        raised = self._np.minimum(1.0, shares._sums, out=self._spare[0])  # noqa: SLF001 - another of this class
        raised *= bonus
        raised += 1.0
        raised *= self._sums
        return ArraySums(raised, self._spare)

    def of(self, number: int) -> float:
        """Return the sum of a fragment, 0 where it has earned nothing."""
        return float(self._sums[number])

    def best(self, depth: int) -> dict[int, float]:
        """Return the *depth* highest sums, and those that equal the last of them, by fragment."""
        np, numbers = self._np, self._reached
        if numbers is None or len(numbers) < depth:
            numbers = np.flatnonzero(self._sums > 0)
        values = self._sums[numbers]
        if len(values) > MANY * depth:
            some = np.sort(values[:: 1 + len(values) // SAMPLE])
            chosen = values >= some[-1 - likely_place(depth, len(some), len(values))]
            if np.count_nonzero(chosen) >= depth:
                numbers, values = numbers[chosen], values[chosen]
        if len(values) > depth:
            chosen = values >= np.partition(values, len(values) - depth)[len(values) - depth]
            numbers, values = numbers[chosen], values[chosen]
        return dict(zip(numbers.tolist(), values.tolist(), strict=True))

    def among(self, numbers: Iterable[int]) -> Sums:
        """Return the sums of the fragments *numbers* alone."""
        kept = self._np.zeros_like(self._sums)
        places = self._np.fromiter(numbers, dtype=self._np.int64)
        kept[places] = self._sums[places]
        return ArraySums(kept, self._spare)

    def count(self, least: float) -> int:
        """Return how many sums reach *least*, COUNTED for that many or more."""
        self._reached = self._np.flatnonzero(self._sums >= max(least, LEAST))
        return min(COUNTED, len(self._reached))

    def below(self, value: float) -> Sums:
        """Return the sums that are lower than *value*."""
        return ArraySums(self._np.where(self._sums < value, self._sums, 0.0), self._spare)
