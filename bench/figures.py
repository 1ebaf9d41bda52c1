"""Defines figures, one per measurement, and the bounds that they must keep."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from clock import percentile

TAIL = 0.99
FEWEST_OF_TAIL = 100
"""With fewer queries the 99th percentile is simply the slowest one."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value at one size of the library, and the value that it is compared with in the same run (`base`).

    `runs` is the number of runs whose median it is, 0 if every run gives the same value; `queries` is the number of
    queries behind it.
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
        """Return the value as a multiple of `base`; None without one."""
        return self.value / self.base if self.base else None

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, and the ratio."""
        return {**asdict(self), "ratio": self.ratio}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the figure that `as_json` turned into *content*."""
        return cls(**{name: value for name, value in content.items() if name != "ratio"})


@dataclass(frozen=True, slots=True)
class Bound:
    """The limit of a figure at one size: of its ratio if it is compared `against` something, else of its value."""

    name: str
    size: int
    limit: float
    against: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bound, and the measured value, if there is one."""

    bound: Bound
    measured: float | None

    @property
    def is_held(self) -> bool | None:
        """Tell whether the bound holds; None if nothing was measured."""
        return None if self.measured is None else self.measured <= self.bound.limit

    def __str__(self) -> str:
        if self.measured is None:
            return "not measured"
        return "held" if self.is_held else f"missed by {self.measured / self.bound.limit - 1:.0%}"

    def as_json(self) -> dict[str, Any]:
        """Return the bound, the measured value, and whether the bound holds."""
        return {**asdict(self.bound), "measured": self.measured, "held": self.is_held}


SMALL, MEDIUM, LARGE = 413, 5_000, 50_000
"""Sizes of the measured libraries, in fragments."""

SKILLS = 2_294
"""Agent Skills in the library of the reload measurement, where a file is saved while a server watches."""

LIMITS: Mapping[tuple[str, str], Mapping[int, float]] = {
    ("default search, p50", "ms"): {SMALL: 1.3, MEDIUM: 2.5, LARGE: 18},
    ("classic tier 2, p50", "ms"): {SMALL: 0.5, MEDIUM: 2.5, LARGE: 18},
    ("hardest request, default", "ms"): {SMALL: 30, MEDIUM: 60, LARGE: 600},
    ("hardest request, classic", "ms"): {SMALL: 30, MEDIUM: 60, LARGE: 600},
    ("saved file, answered", "ms"): {SKILLS: 400},
    ("server memory", "MB"): {SMALL: 95, MEDIUM: 110, LARGE: 150},
}
"""(figure, unit) → size → the largest value allowed."""

RATIOS: Mapping[tuple[str, str], Mapping[int, float]] = {
    ("ranking statement, p50", "FTS5 bm25"): {SMALL: 1.7, MEDIUM: 0.5, LARGE: 0.4},
    ("build", "read and parse YAML"): {MEDIUM: 5, LARGE: 5},
    ("index", "text of the library"): {MEDIUM: 2, LARGE: 2},
    ("no-change rebuild", "stat the files"): {MEDIUM: 2},
    ("CLI, first answer", "import sqlite3, typer"): {SMALL: 1.7, MEDIUM: 1.8},
    ("server, first list", "server that does nothing"): {SMALL: 1.15, MEDIUM: 1.25},
}
"""(figure, what it is compared with) → size → the largest ratio allowed."""

BOUNDS = (
    *(Bound(name, size, limit, unit=unit) for (name, unit), at in LIMITS.items() for size, limit in at.items()),
    *(Bound(name, size, limit, other) for (name, other), at in RATIOS.items() for size, limit in at.items()),
)
"""All bounds, those of values first."""


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
    """Return p50 and p99 of the times of *ours*, alone and against each of *others*, over the same queries.

    The p99 is compared only over at least FEWEST_OF_TAIL queries.
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
