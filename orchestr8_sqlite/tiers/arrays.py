"""What every fragment earns of a request, added up with NumPy, which the caller has loaded."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

from orchestr8_sqlite.model import COUNTED
from orchestr8_sqlite.tiers.sums import Points, Sums

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int], np.dtype[Any]]


class ArraySums(Sums):
    """In a NumPy array with a place for every fragment."""

    @classmethod
    def of_nothing(cls, places: int) -> Self:
        """Return sums of nothing yet for fragments below *places*."""
        return cls(import_module("numpy").zeros(places))

    def __init__(self, sums: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
        self._np = import_module("numpy")
        self._sums = sums

    @cached_property
    def _best(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Return where `add_word` works; to make it anew for each word would take longer than to use it."""
        return cast("np.ndarray[tuple[int], np.dtype[np.float64]]", self._np.zeros_like(self._sums))

    def add_word(self, points: Sequence[Points]) -> None:
        """Add for each fragment the most that *points* give it."""
        best = self._best
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
        first, members, given, table = points
        counts = np.frombuffer(given, dtype=np.uint8) if isinstance(given, bytes) else np.asarray(given)
        values = table * counts if isinstance(table, float) else np.asarray(table)[counts]
        return np.asarray(members, dtype=np.int64) + first, values

    def new_shares(self) -> Sums:
        """Return sums of nothing yet that these can be `raised` by."""
        return ArraySums(self._np.zeros_like(self._sums))

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
