"""What was measured, one figure each, and what it must show."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from clock import percentile

EVERY = 0
"""Size of a bound that holds at every size."""

TAIL = 0.99
FEWEST_OF_TAIL = 100
"""Queries below which the 99th percentile is but the slowest of them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value at a size of the library, beside what it is compared with in the same run (`base`).

    `runs` says of how many runs it is the median, 0 where it is the same in every run; `queries` over how many queries
    it is.
    """

    name: str
    size: int
    value: float
    unit: str
    against: str = ""
    base: float | None = None
    runs: int = 0
    queries: int = 0

    @property
    def ratio(self) -> float | None:
        """Return the value as a multiple of what it is compared with."""
        return self.value / self.base if self.base else None

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, and the ratio."""
        return {**asdict(self), "ratio": self.ratio}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the figure that `as_json` gave."""
        return cls(**{name: value for name, value in content.items() if name != "ratio"})


@dataclass(frozen=True, slots=True)
class Bound:
    """What a figure must not exceed, or must reach where `at_least`: its ratio where it is `against` something."""

    name: str
    size: int
    limit: float
    against: str = ""
    at_least: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bound, and what was measured at a size; `missed` is the share by which the limit was missed."""

    bound: Bound
    size: int
    measured: float
    missed: float

    def __str__(self) -> str:
        return "held" if self.missed <= 0 else f"missed by {self.missed:.0%}"

    def as_json(self) -> dict[str, Any]:
        """Return the bound, what was measured, and whether it was held."""
        return {**asdict(self.bound), "size": self.size, "measured": self.measured, "held": self.missed <= 0}


LATENCIES: Mapping[str, Mapping[int, tuple[float, float]]] = {
    "tier 2": {400: (0.3, 1.5), 5_000: (0.6, 3), 50_000: (2, 10), 500_000: (10, 40)},
    "default search": {400: (1.5, 5), 5_000: (3, 12), 50_000: (12, 60), 500_000: (60, 300)},
}
"""Milliseconds at the median and the 99th percentile, by size."""

BOUNDS = (
    Bound("build", 5_000, 2.2, "read and parse YAML"),
    Bound("build, peak memory", 5_000, 250, unit="MB"),
    Bound("build, peak memory", 500_000, 600, unit="MB"),
    Bound("no-change rebuild", 50_000, 1.7, "stat the files"),
    Bound("one changed file", 5_000, 150, unit="ms"),
    Bound("one changed file", 50_000, 0.03, "build"),
    Bound("tier 1, precomputed, p50", EVERY, 0.020, unit="ms"),
    Bound("tier 1, remembered, p50", EVERY, 0.020, unit="ms"),
    *(
        Bound(f"{name}, {part}", size, limit, unit="ms")
        for name, sizes in LATENCIES.items()
        for size, limits in sizes.items()
        for part, limit in zip(("p50", "p99"), limits, strict=True)
    ),
    Bound("tier 2, p50", 50_000, 1.0, "bm25s"),
    Bound("default search, p50", 50_000, 1.5, "FTS5 bm25"),
    Bound("default search, p50", 500_000, 1.5, "FTS5 bm25"),
    *(Bound("default search, p50", size, 1 / 20, "fuzzy scan") for size in (5_000, 50_000, 500_000)),
    Bound("agreement, default", EVERY, 0.98, at_least=True),
    Bound("agreement, classic", EVERY, 1.0, at_least=True),
    Bound("server memory", 500_000, 200, unit="MB"),
    Bound("default search, growth from 5,000", 500_000, 20),
)
"""What must hold, where it was measured."""


def judge(figures: Sequence[Figure], bounds: Sequence[Bound] = BOUNDS) -> list[Verdict]:
    """Return a verdict for each bound at each size where its figure was measured."""
    verdicts = []
    for bound in bounds:
        for figure in figures:
            if (figure.name, figure.against) != (bound.name, bound.against) or bound.size not in (EVERY, figure.size):
                continue
            measured = figure.ratio if bound.against else figure.value
            if measured is not None:
                verdicts.append(Verdict(bound, figure.size, measured, _missed(bound, measured)))
    return verdicts


def compare(
    name: str, size: int, columns: Mapping[str, Sequence[float]], ours: str, others: Sequence[str], runs: int
) -> list[Figure]:
    """Return p50 and p99 of the times *ours* by themselves and beside each of *others*, over the same queries.

    Where too few queries were answered for a p99 that says something, it is not compared.
    """
    figures = []
    for part, share in (("p50", 0.5), ("p99", TAIL)):
        for other in ("", *(one for one in others if columns.get(one))):
            theirs = columns[other] if other else columns[ours]
            count = min(len(columns[ours]), len(theirs))
            if share == TAIL and other and count < FEWEST_OF_TAIL:
                continue
            value = percentile(columns[ours][:count], share)
            base = percentile(theirs[:count], share) if other else None
            figures.append(Figure(f"{name}, {part}", size, value, "ms", other, base, runs, count))
    return figures


def growth(figures: Sequence[Figure], name: str, smallest: int) -> list[Figure]:
    """Return how much *name* costs at each size as a multiple of what it costs at *smallest*."""
    costs = {figure.size: figure.value for figure in figures if figure.name == f"{name}, p50" and not figure.against}
    if smallest not in costs:
        return []
    title = f"{name}, growth from {smallest:,}"
    return [Figure(title, size, cost / costs[smallest], "×") for size, cost in costs.items() if size > smallest]


def _missed(bound: Bound, measured: float) -> float:
    if bound.at_least:
        return (bound.limit - measured) / bound.limit
    return (measured - bound.limit) / bound.limit
