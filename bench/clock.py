"""Times of things that are done in turn, so that whatever disturbs the machine disturbs all of them."""

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

RUNS = 5
"""Times that everything is done, where that does not take too long."""

LONG, TOO_LONG = 30.0, 120.0
"""Seconds of one run above which three and above which one must do."""

TURN_SECONDS = 10.0
"""How long one contender may answer before it is the turn of the next; a slow one answers the first few queries."""

WARM_UP = 20
"""Queries that are asked before the first one that counts."""


Clock = Callable[[], float]
"""Returns seconds since some moment."""


class Contender(Protocol):
    """Something that answers queries."""

    def times(self, queries: Sequence[str], seconds: float) -> list[float]:
        """Return the milliseconds that each of *queries* takes; those not begun within *seconds* are left out."""
        ...


class InProcess:
    """A contender that is a function of the query."""

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

    Who is too slow for all queries has answered the first so many of them.
    """
    asked: dict[str, Sequence[str]] = {}
    for name, contender in contenders.items():
        contender.times(queries[:WARM_UP], seconds / RUNS)
        asked[name] = queries
    gc.collect()
    gc.freeze()
    columns: dict[str, list[list[float]]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            columns[name].append(contender.times(asked[name], seconds))
            asked[name] = asked[name][: len(columns[name][-1])]
    gc.unfreeze()
    return {name: medians(column) for name, column in columns.items()}


def medians(rounds: Iterable[Sequence[float]]) -> list[float]:
    """Return the median of each place of the rounds, over the places that all of them have."""
    return [statistics.median(column) for column in zip(*rounds, strict=False)]


def take_turns(actions: Mapping[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """Return the median of what each action measures, *runs* times in turn."""
    columns: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(runs):
        for name, action in actions.items():
            columns[name].append(action())
    return {name: statistics.median(column) for name, column in columns.items()}


def timed(action: Callable[[], object], clock: Clock = time.perf_counter) -> Callable[[], float]:
    """Return an action that returns the seconds that *action* takes by *clock*."""

    def measure() -> float:
        started = clock()
        action()
        return clock() - started

    return measure


def children_time() -> float:
    """Return the seconds of CPU that finished processes of this one have used, theirs included."""
    used = os.times()
    return used.children_user + used.children_system


def runs_for(seconds: float) -> int:
    """Return how often something is done that takes so many *seconds*."""
    return RUNS if seconds <= LONG else 3 if seconds <= TOO_LONG else 1


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of *values* that at least the *share* of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
