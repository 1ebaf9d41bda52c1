"""Faults that are injected on purpose, and whether anything was lost or answered wrongly after each.

`python -m torture.run` (with PYTHONPATH=tests; `make torture`) finds every module of this package that has a function

    def cases(seed: int, *, bounded: bool) -> Iterator[Case]

and runs what it yields, in processes that inherit what was prepared. A case does its fault in a fresh empty folder and
looks at what became of it: it returns where all is well (what it Tried, where that is more than one input), and raises

    Lost     something that was there is gone, cannot be opened, hangs, or cannot be repaired
    Wrong    an answer is neither the one before nor the one after
    Skipped  the fault cannot be injected on this machine, or was not reached; the message says why

Any other exception counts as `Lost`. The same seed yields the same cases; bounded ones together take 90 seconds a
module at most. What is dear to prepare is made at the first use and kept, see `functools.cache`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Lost(Exception):
    """Something that was there is gone, cannot be opened, hangs, or cannot be repaired."""


class Wrong(Exception):
    """An answer is neither the one before nor the one after."""


class Skipped(Exception):
    """The fault cannot be injected on this machine, or was not reached."""


class Tried(NamedTuple):
    """The inputs that a case stood for, and what else is worth knowing of it."""

    inputs: int
    said: str


class Case(NamedTuple):
    """One fault: the line of the table that it counts in, what it is called there, and what injects and judges it."""

    fault: str
    name: str
    run: Callable[[Path], Tried | None]
