"""Times contenders in turn, so that whatever disturbs the machine disturbs all of them alike."""

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

RUNS = 5
"""Runs of everything that does not take LONG."""

LONG, TOO_LONG = 30.0, 120.0
"""Seconds of one run: three runs are enough above LONG, one above TOO_LONG."""

TURN_SECONDS = 10.0
"""How long a contender may answer in one turn; a slow one answers only the first few queries."""

WARM_UP = 20
"""Queries asked before the first that counts."""


Clock = Callable[[], float]
"""Returns seconds since an arbitrary moment."""


class Contender(Protocol):
    """Something that answers queries."""

    def times(self, queries: Sequence[str], seconds: float) -> list[float]:
        """Return the milliseconds that each of *queries* takes; those not begun within *seconds* are left out."""
        ...


class InProcess:
    """A contender that is a function in this process."""

    def __init__(self, answer: Callable[[str], object], clock: Clock = time.perf_counter) -> None:
        self._answer = answer
        self._clock = clock

    def times(self, queries: Sequence[str], seconds: float) -> list[float]:
        """Return the milliseconds that each of *queries* takes; those not begun within *seconds* are left out."""
        times: list[float] = []
        end = time.perf_counter() + seconds
        for query in queries:
            if times and time.perf_counter() >= end:
                break
            started = self._clock()
            self._answer(query)
            times.append((self._clock() - started) * 1000)
        return times


def race(
    contenders: Mapping[str, Contender], queries: Sequence[str], *, runs: int = RUNS, seconds: float = TURN_SECONDS
) -> dict[str, list[float]]:
    """Return the milliseconds of each query for each contender: the median over *runs*, which they take in turn.

    The list of a contender that was too slow for all queries is shorter: it covers only the first ones.
    """
    asked: dict[str, Sequence[str]] = {}
    for name, contender in contenders.items():
        contender.times(queries[:WARM_UP], seconds / RUNS)
        asked[name] = queries
    # What the contenders have built is large: a collection that walks it would be timed with some query.
    gc.collect()
    gc.freeze()
    columns: dict[str, list[list[float]]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            columns[name].append(contender.times(asked[name], seconds))
            # The median needs a time from every run: do not ask for more than the contender has answered so far.
            asked[name] = asked[name][: len(columns[name][-1])]
    gc.unfreeze()
    return {name: medians(column) for name, column in columns.items()}


def medians(rounds: Iterable[Sequence[float]]) -> list[float]:
    """Return the median of each query over the rounds, for the queries that every round answered."""
    return [statistics.median(column) for column in zip(*rounds, strict=False)]


def take_turns(actions: Mapping[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """Return the median of what each action returns; all of them run *runs* times, in turn."""
    columns: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(runs):
        for name, action in actions.items():
            columns[name].append(action())
    return {name: statistics.median(column) for name, column in columns.items()}


def timed(action: Callable[[], object], clock: Clock = time.perf_counter) -> Callable[[], float]:
    """Return a function that runs *action* and returns the seconds it took by *clock*."""

    def measure() -> float:
        started = clock()
        action()
        return clock() - started

    return measure


def children_time() -> float:
    """Return the CPU seconds of the finished child processes of this one, with their own children."""
    used = os.times()
    return used.children_user + used.children_system


def runs_for(seconds: float) -> int:
    """Return how often to run something that takes *seconds*."""
    return RUNS if seconds <= LONG else 3 if seconds <= TOO_LONG else 1


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of *values* such that at least *share* of them are no larger (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
