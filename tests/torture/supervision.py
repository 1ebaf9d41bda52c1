"""Servers in a simulated world, from other seeds than those of the tests; `simulation` says what happens in it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from simulation.run import broken_of

from torture import Case, Lost, Tried

EACH, PARTS = 250, 40
APART = 1_000_000
"""So far apart are the first runs of two seeds; the tests play those from 0 on."""


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield the runs in parts."""
    for part in range(2 if bounded else PARTS):
        first = APART * (seed + 1) + part * EACH
        yield Case("supervision", f"runs from {first} on", partial(_play, first=first))


def _play(_: Path, *, first: int) -> Tried:
    if found := broken_of(range(first, first + EACH)):
        raise Lost("\n".join(found))
    return Tried(EACH, "")
