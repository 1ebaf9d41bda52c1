"""What every fragment earns of a request, added up: in plain Python, or with NumPy where that is loaded.

All add the same numbers in the same order, so they give the same sums to the last bit. NumPy pays from some thousands
of fragments on, but not for a single request: its import takes as long as that. A server of a large index loads it
with `load_arrays`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from operator import sub
from typing import NamedTuple, TypeVar

from orchestr8_sqlite.model import COUNTED

LARGE = 4_000
"""Fragments from which on arrays pay."""

SCARCE = 8
"""A request that names less than one fragment in so many is added up in a dictionary."""

MANY = 4
SAMPLE = 512
"""Where there are so many times as many values as are wanted, so many of them tell which are worth sorting."""


DECIMALS = 12
"""Of sums that are looked at; the rest is the order of adding."""

CLOSE = 2e-12
"""Sums that differ by more differ in their DECIMALS."""

K = TypeVar("K", int, str)


class Points(NamedTuple):
    """What one form of a word gives to some fragments, each once: `first + members[i]` earns `gain * weights[i]`."""

    first: int
    members: Sequence[int]
    weights: Sequence[int]
    gain: float


class Sums(ABC):
    """The sum of what each fragment earns: of each word the most that any of its forms gives."""

    @abstractmethod
    def add_word(self, points: Sequence[Points]) -> None:
        """Add for each fragment the most that *points* give it."""

    def add_apart(self, points: Sequence[Points]) -> None:
        """Add what *points* give, of which no two give anything to the same fragment."""
        for one in points:
            self.add_word((one,))

    @abstractmethod
    def new_shares(self) -> "Sums":
        """Return sums of nothing yet that these can be `raised` by."""

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

    def add_word(self, points: Sequence[Points]) -> None:
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

    def new_shares(self) -> Sums:
        """Return sums of nothing yet that these can be `raised` by."""
        return PlainSums()

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


LEAST = 5e-324
"""The least number above 0."""


class ListSums(Sums):
    """In a list with a place for every fragment, 0 where it has earned nothing: for most of a small index."""

    def __init__(self, sums: list[float]) -> None:
        self._sums = sums
        self._reached: list[float] = []

    def add_word(self, points: Sequence[Points]) -> None:
        """Add for each fragment the most that *points* give it."""
        sums, best = self._sums, [0.0] * len(self._sums)
        _add(best, points[0])
        for one in points[1:]:
            for number, value in _given(one):
                if value > best[number]:  # noqa: PLR1730 - a call of `max` takes four times as long
                    best[number] = value
        for one in points:
            for number in _numbers(one):
                sums[number] += best[number]
                best[number] = 0.0

    def add_apart(self, points: Sequence[Points]) -> None:
        """Add what *points* give, of which no two give anything to the same fragment."""
        for one in points:
            _add(self._sums, one)

    def new_shares(self) -> Sums:
        """Return sums of nothing yet that these can be `raised` by: few fragments have a share."""
        return PlainSums()

    def raised(self, shares: Sums, bonus: float) -> Sums:
        """Return each sum raised by *bonus* times its share (1 at most) of itself."""
        assert isinstance(shares, PlainSums)
        raised, most = self._sums.copy(), 1 + bonus
        for number, share in shares._sums.items():  # noqa: SLF001 - of a class beside this one
            raised[number] *= most if share >= 1.0 else 1 + bonus * share
        return ListSums(raised)

    def of(self, number: int) -> float:
        """Return the sum of a fragment, 0 where it has earned nothing."""
        return self._sums[number]

    def best(self, depth: int) -> dict[int, float]:
        """Return the *depth* highest sums, and those that equal the last of them, by fragment."""
        values = self._reached if len(self._reached) >= depth else [value for value in self._sums if value]
        if len(values) > depth:
            least = highest(values, depth)
            values = [value for value in values if value >= least]
        best: dict[int, float] = {}
        number, place = -1, self._sums.index
        for value in values:  # these are in the order of their places
            number = place(value, number + 1)
            best[number] = value
        return best

    def among(self, numbers: Iterable[int]) -> Sums:
        """Return the sums of the fragments *numbers* alone."""
        return PlainSums({number: sum_ for number in numbers if (sum_ := self._sums[number])})

    def count(self, least: float) -> int:
        """Return how many sums reach *least*, COUNTED for that many or more."""
        least = max(least, LEAST)
        self._reached = [value for value in self._sums if value >= least]
        return min(COUNTED, len(self._reached))

    def below(self, value: float) -> Sums:
        """Return the sums that are lower than *value*."""
        return ListSums([sum_ if sum_ < value else 0.0 for sum_ in self._sums])


def highest(values: Sequence[float], place: int) -> float:
    """Return the value in *place* (1 for the first) of *values* from the highest down.

    Of many values only those are sorted that surpass what the place is likely to have, judged by some of them.
    """
    if len(values) > MANY * place:
        some = sorted(values[:: 1 + len(values) // SAMPLE], reverse=True)
        likely = some[likely_place(place, len(some), len(values))]
        few = [value for value in values if value >= likely]
        if len(few) >= place:
            values = few
    return sorted(values, reverse=True)[place - 1]


def likely_place(place: int, some: int, many: int) -> int:
    """Return the place (0 for the first) among *some* of *many* that is hardly above *place* (1 for the first)."""
    return min(2 * place * some // many + 4, some - 1)


def in_order(values: Mapping[K, float], places: Callable[[list[K]], list[K]]) -> list[K]:
    """Return the keys of *values*, the highest first, equal ones by the *places* of keys that ascend."""
    order = sorted(values, key=values.__getitem__, reverse=True)
    sums = list(map(values.__getitem__, order))
    apart = list(map(sub, sums, islice(sums, 1, None)))
    if min(apart, default=1.0) > CLOSE:
        return order
    close = {place for place, one in enumerate(apart) if one <= CLOSE}
    where = sorted(close | {place + 1 for place in close})
    tied = sorted([order[at] for at in where])
    ranks = {key: (-round(values[key], DECIMALS), place) for key, place in zip(tied, places(tied), strict=True)}
    for at, key in zip(where, sorted(tied, key=ranks.__getitem__), strict=True):
        order[at] = key
    return order


def _given(points: Points) -> Iterator[tuple[int, float]]:
    """Return (fragment, what it earns) of each."""
    return zip(_numbers(points), map(points.gain.__mul__, points.weights), strict=True)


def _numbers(points: Points) -> Iterable[int]:
    return points.members if points.first == 0 else map(points.first.__add__, points.members)


def _add(sums: list[float], points: Points) -> None:
    """Add to each of *sums* what *points* give it."""
    gain = points.gain
    for number, weight in zip(_numbers(points), points.weights, strict=True):
        sums[number] += gain * weight


def new_sums(size: int, named: int, last_fragment: Callable[[], int]) -> Sums:
    """Return sums of nothing yet for a request that names fragments of an index of *size* *named* times.

    Args:
        last_fragment: Tells the highest number of a fragment.
    """
    if size >= LARGE and "numpy" in sys.modules:
        from orchestr8_sqlite.tiers.arrays import ArraySums

        return ArraySums.of_nothing(last_fragment() + 1)
    if named * SCARCE < size:
        return PlainSums()
    return ListSums([0.0] * (last_fragment() + 1))


def load_arrays(size: int) -> bool:
    """Import NumPy where it pays for an index of *size* fragments; tell whether what pays is there."""
    if size < LARGE:
        return True
    try:
        import_module("numpy")
    except ImportError:
        return False
    return True
