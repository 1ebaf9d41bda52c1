"""What was measured, one figure each, and what it must show."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from clock import percentile

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
    """What a figure must not exceed at a size: its ratio where it is `against` something."""

    name: str
    size: int
    limit: float
    against: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bound, and what was measured, if anything."""

    bound: Bound
    measured: float | None

    @property
    def is_held(self) -> bool | None:
        """Tell whether the limit was not exceeded; None where nothing was measured."""
        return None if self.measured is None else self.measured <= self.bound.limit

    def __str__(self) -> str:
        if self.measured is None:
            return "not measured"
        return "held" if self.is_held else f"missed by {self.measured / self.bound.limit - 1:.0%}"

    def as_json(self) -> dict[str, Any]:
        """Return the bound, what was measured, and whether it was held."""
        return {**asdict(self.bound), "measured": self.measured, "held": self.is_held}


SMALL, MEDIUM, LARGE = 413, 5_000, 50_000
"""Fragments that a library is measured with."""

SKILLS = 2_294
"""Agent Skills of the library that a file is saved in while a server watches."""

LIMITS: Mapping[tuple[str, str], Mapping[int, float]] = {
    ("default search, p50", "ms"): {SMALL: 1.3, MEDIUM: 2.5, LARGE: 18},
    ("classic tier 2, p50", "ms"): {SMALL: 0.5, MEDIUM: 2.5, LARGE: 18},
    ("hardest request, default", "ms"): {SMALL: 30, MEDIUM: 60, LARGE: 600},
    ("hardest request, classic", "ms"): {SMALL: 30, MEDIUM: 60, LARGE: 600},
    ("saved file, answered", "ms"): {SKILLS: 400},
    ("server memory", "MB"): {SMALL: 95, MEDIUM: 110, LARGE: 150},
}
"""(figure, unit) → the most that it may be, by size."""

RATIOS: Mapping[tuple[str, str], Mapping[int, float]] = {
    ("ranking statement, p50", "FTS5 bm25"): {SMALL: 1.7, MEDIUM: 0.5, LARGE: 0.4},
    ("build", "read and parse YAML"): {MEDIUM: 5, LARGE: 5},
    ("index", "text of the library"): {MEDIUM: 2, LARGE: 2},
    ("no-change rebuild", "stat the files"): {MEDIUM: 2},
    ("CLI, first answer", "import sqlite3, typer"): {SMALL: 1.7, MEDIUM: 1.8},
    ("server, first list", "server that does nothing"): {SMALL: 1.15, MEDIUM: 1.25},
}
"""(figure, what it is beside) → the most that their ratio may be, by size."""

BOUNDS = (
    *(Bound(name, size, limit, unit=unit) for (name, unit), at in LIMITS.items() for size, limit in at.items()),
    *(Bound(name, size, limit, other) for (name, other), at in RATIOS.items() for size, limit in at.items()),
)
"""What must hold."""


def judge(figures: Sequence[Figure], bounds: Sequence[Bound] = BOUNDS) -> list[Verdict]:
    """Return a verdict for each bound."""
    found = {
        (figure.name, figure.size, figure.against): figure.ratio if figure.against else figure.value
        for figure in figures
    }
    return [Verdict(bound, found.get((bound.name, bound.size, bound.against))) for bound in bounds]


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
