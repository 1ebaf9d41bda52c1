"""The scores of the classic ranker read level by level from the top, as far down as a request needs."""

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from operator import or_

from orchestr8_sqlite.connections import stop_if_abandoned
from orchestr8_sqlite.model import COUNTED, MatchRequest
from orchestr8_sqlite.tiers.found import Filter
from orchestr8_sqlite.tiers.order import Order
from orchestr8_sqlite.tiers.packed import carry, members
from orchestr8_sqlite.tiers.sets import Scenarios

WHOLE_POINTS = 20
PART_POINTS = 10
SOME = 512
"""Scenarios that are looked at together while it is not yet known how many are needed."""


class Levels:
    """The scenarios that hold a keyword of one request, by how many keywords they hold whole."""

    def __init__(self, db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str]) -> None:
        self._request = request
        self._words = len(keywords)
        self._scenarios = Scenarios(db, keywords)
        self._order = Order(db)
        self._filter = Filter(db, request)
        rare = self._filter.scenarios()
        exact = self._scenarios.exact()
        self._exact = exact if rare is None else [one & rare for one in exact]
        self._levels: list[int] = []
        for one in self._exact:
            stop_if_abandoned(db)
            carry(self._levels, one)

    def best(self) -> list[tuple[int, int, float]]:
        """Return (fragment, scenario, score) of the best fragments, as many as the request asks for, ties by URI."""
        scored: dict[int, int] = {}
        floor = self._request.min_score
        for whole in range(len(self._levels), 0, -1):
            if WHOLE_POINTS * whole + PART_POINTS * (self._words - whole) < floor:
                break
            for parts, reached in self._by_parts(whole, floor):
                score = WHOLE_POINTS * whole + PART_POINTS * parts
                scored[score] = scored.get(score, 0) | reached
            floor = max(floor, self._reached(scored))
        return self._first({score: scored[score] for score in scored if score >= floor})

    def count(self) -> int:
        """Return how many fragments match, up to COUNTED."""
        fitting = 0
        for whole in range(1, len(self._levels) + 1):
            if WHOLE_POINTS * whole >= self._request.min_score:
                fitting |= self._levels[whole - 1]
                break
            for _, reached in self._by_parts(whole, self._request.min_score):
                fitting |= reached
        if not self._request.is_filtered:
            return self._scenarios.fragments(fitting, COUNTED)
        return sum(1 for _ in islice(self._admitted(fitting), COUNTED))

    def _by_parts(self, whole: int, floor: float) -> Iterable[tuple[int, int]]:
        """Return (keywords held in part, scenarios) of those with *whole* keywords whose score is *floor* or more."""
        least = max(0, math.ceil((floor - WHOLE_POINTS * whole) / PART_POINTS))
        left = self._levels[whole - 1] ^ (self._levels[whole] if whole < len(self._levels) else 0)
        kin = list(self._scenarios.kin) if left and whole < self._words else []
        levels: list[int] = []
        few: Sequence[int] | None = None
        for done, word in enumerate(kin):
            missing = least - (len(kin) - done)  # parts that a scenario must have by now
            if missing > 0:
                left &= levels[missing - 1] if missing <= len(levels) else 0
            if not left:
                return []
            if missing > 0 or not done:
                few = members(left) if self._scenarios.pays_to_probe(left, kin[done:]) else None
            part = self._scenarios.partial(word, left, few)
            carry(levels, part ^ (part & self._exact[word]))
        bounds = [left, *(level & left for level in levels), 0]
        return [
            (parts, bounds[parts] ^ bounds[parts + 1])
            for parts in range(least, len(bounds) - 1)
            if bounds[parts] != bounds[parts + 1]
        ]

    def _reached(self, scored: dict[int, int]) -> int:
        """Return the score that as many fragments as the request asks for have or surpass, 0 where there are fewer."""
        unions = list(accumulate((scored[score] for score in sorted(scored, reverse=True)), or_))
        if not unions or not self._reach(unions[-1]):
            return 0
        enough = next((place for place, union in enumerate(unions[:-1]) if self._reach(union)), -1)
        return sorted(scored, reverse=True)[enough]

    def _reach(self, scenarios: int) -> bool:
        """Tell whether as many fragments as the request asks for have any of the *scenarios*."""
        most = self._request.max_results
        if not self._request.is_filtered:
            return self._scenarios.reach(scenarios, most)
        return sum(1 for _ in islice(self._admitted(scenarios), most)) == most

    def _first(self, scored: dict[int, int]) -> list[tuple[int, int, float]]:
        """Return (fragment, the first of its best scenarios, score) of the best fragments among *scored*."""
        best: dict[int, tuple[int, int, float]] = {}
        for score in sorted(scored, reverse=True):
            for fragment, scenario in self._admitted(scored[score]):
                if len(best) == self._request.max_results:
                    return list(best.values())
                best.setdefault(fragment, (fragment, scenario, float(score)))
        return list(best.values())

    def _admitted(self, scenarios: int) -> Iterator[tuple[int, int]]:
        """Yield (fragment, the first of its *scenarios*) of those that the filters admit, by URI."""
        walk = self._order.walk(scenarios)
        if not self._request.is_filtered:
            yield from walk
            return
        while some := list(islice(walk, SOME)):
            admitted = self._filter.admitted({fragment for fragment, _ in some})
            yield from (one for one in some if one[0] in admitted)
