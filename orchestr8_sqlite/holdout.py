"""How an index answers its own scenarios when their lines are hidden from it, and requests that it cannot answer.

Hiding a line takes its words out of the fragment's evidence, wherever the same line stands in its other texts too; how
many fragments hold a word stays as it was counted. The index is not touched: only the lists read from it are altered.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.evidence import Texts, hold, read_typical_lengths, searched_texts, weigh
from orchestr8_sqlite.lookup import cover
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.parameters import MAX_QUERY_LENGTH
from orchestr8_sqlite.processes import map_in_processes, nothing
from orchestr8_sqlite.tiers.holders import AlteredHolders, Holders
from orchestr8_sqlite.tiers.weights import CAPABILITY, SCENARIO, TAG
from orchestr8_sqlite.wordlists import foreign_requests

SAMPLE = 100
"""Scenarios that calibration asks for, spread evenly over the library.

With half of them the threshold varies by half as much again from sample to sample (a standard deviation of 0.043
instead of 0.028 in libraries of 239 to 50,000 fragments); with half of the foreign requests by a tenth more.
"""

WRONG_ANSWER = 1.5
"""What a foreign request that is answered counts beside one of the library's own that is refused: a refusal still names
the closest fragments. docs/ranking.md has what comes of it (`make eval`)."""

REFUSED = 0.05
"""Share of the held-out scenarios that may be refused at most, however many foreign requests that lets pass: fragments
of one sentence cover too little of long requests to be told from foreign ones."""

NEAR_BEST = 0.01
"""How far the two shares of mistakes may add up to more than at the best threshold: the middle of all such thresholds
hangs less on which requests happen to be asked."""

ROUNDING = 1e-9
FEWEST, MOST = 0.1, 0.6
"""Bounds of the threshold, whatever is measured."""

LAST_SCENARIO = "SELECT coalesce(max(id), 0) FROM scenario"
SCENARIOS = "SELECT fragment_id, text FROM scenario ORDER BY id"
SAMPLED = """
SELECT fragment_id, text FROM scenario
 WHERE id IN (SELECT (SELECT min(id) FROM scenario WHERE id >= value) FROM json_each(?)) ORDER BY id
"""
LINES = """
SELECT :tag, tag, ordinal FROM tag WHERE fragment_id = :id
UNION ALL SELECT :capability, text, ordinal FROM capability WHERE fragment_id = :id
UNION ALL SELECT :scenario, text, ordinal FROM scenario WHERE fragment_id = :id
ORDER BY 1, 3
"""
TEXTS = """
SELECT f.name, f.title, f.description, b.body FROM fragment f JOIN fragment_body b ON b.fragment_id = f.id
 WHERE f.id = :id
"""


LARGE = 100
"""Fragments from which on several processes ask the requests."""

PARTS = 4
"""Tasks that the requests are cut into there."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of a library and the fragment that it belongs to."""

    fragment_id: int
    text: str


class HeldOut:
    """The scenarios of an index, and its lists as they would be without one of them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._typical = read_typical_lengths(catalog.meta)

    def scenarios(self) -> list[Scenario]:
        """Return all scenarios, in the order of the fragments."""
        return [Scenario(*row) for row in self._catalog.db.execute(SCENARIOS)]

    def sample(self) -> list[Scenario]:
        """Return up to twice SAMPLE scenarios whose numbers lie evenly, all where there are no more."""
        last = self._catalog.db.execute(LAST_SCENARIO).fetchone()[0]
        numbers = range(1, last + 1, max(1, last // SAMPLE))
        return [Scenario(*row) for row in self._catalog.db.execute(SAMPLED, (str([*numbers]),))]

    def without(self, scenario: Scenario) -> Holders:
        """Return the lists of the index as they would be had its author not written *scenario*."""
        held = hold(_without(self._texts(scenario.fragment_id), scenario.text))
        return AlteredHolders(self._catalog.db, scenario.fragment_id, weigh(held, self._typical), held.name, held.body)

    def _texts(self, fragment_id: int) -> Texts:
        db = self._catalog.db
        name, title, description, body = db.execute(TEXTS, {"id": fragment_id}).fetchone()
        lines: dict[int, list[str]] = {TAG: [], CAPABILITY: [], SCENARIO: []}
        numbers = {"id": fragment_id, "tag": TAG, "capability": CAPABILITY, "scenario": SCENARIO}
        for field, text, _ in db.execute(LINES, numbers):
            lines[field].append(text)
        return searched_texts(name, title, description, body, lines)


def measure_least_coverage(catalog: Catalog, meanwhile: Callable[[], None] = nothing) -> float:
    """Return the share of a request that an answer must cover to stand, by what the index makes of its own library.

    It tells what the foreign requests reach from what the held-out scenarios reach, and refuses few of the latter.
    Of a large index in a file several processes ask the requests.

    Args:
        meanwhile: What else is to be done, while other processes ask if there are any.
    """
    if catalog.size < LARGE or not catalog.path.is_file():
        meanwhile()
        foreign, own = _coverages(catalog, 0, 1)
    else:
        parts = [(catalog.path, at) for at in range(PARTS)]
        measured = zip(*map_in_processes(_measure_part, parts, meanwhile), strict=True)
        foreign, own = (list(chain.from_iterable(kind)) for kind in measured)
    bearable = sorted(own)[int(REFUSED * len(own))] if own else MOST
    return round(min(max(min(threshold_between(foreign, own), bearable), FEWEST), MOST), 3)


def _measure_part(part: tuple[Path, int]) -> tuple[list[float], list[float]]:
    """Return the coverages of every so many requests of each kind, asked of the index at a path."""
    path, first = part
    with Catalog.open(path, is_finished=False) as catalog:
        return _coverages(catalog, first, PARTS)


def _coverages(catalog: Catalog, first: int, step: int) -> tuple[list[float], list[float]]:
    """Return what an index covers of every so many foreign requests, from a first one on, and of its own scenarios."""
    held_out = HeldOut(catalog)
    foreign = [_coverage(catalog, text, Holders(catalog.db)) for text in foreign_requests()[first::step]]
    own = [_coverage(catalog, one.text, held_out.without(one)) for one in held_out.sample()[first::step]]
    return foreign, own


def threshold_between(below: Sequence[float], above: Sequence[float]) -> float:
    """Return the value that best has *below* under it and *above* not: the middle of those within NEAR_BEST of best.

    What is best is judged by the sum of both shares of mistakes, that of *below* times WRONG_ANSWER, so the size of
    neither sample counts; without *above* the value is the highest of *below*.

    Source: W. J. Youden, Index for rating diagnostic tests (1950), here with unequal costs.
    """
    lower, upper = sorted(below), sorted(above)
    ends = sorted({*lower, *upper, math.nextafter(lower[-1], math.inf)})
    answered = [1 - bisect_left(lower, end) / len(lower) for end in ends]
    refused = [bisect_left(upper, end) / len(upper) if upper else 0.0 for end in ends]
    mistakes = [WRONG_ANSWER * one + other for one, other in zip(answered, refused, strict=True)]
    bound = min(mistakes) + NEAR_BEST + ROUNDING
    near = [number for number, sum_ in enumerate(mistakes) if sum_ <= bound]
    return (ends[max(near[0] - 1, 0)] + ends[near[-1]]) / 2  # as good as an end is all that lies above the one before


def _coverage(catalog: Catalog, text: str, holders: Holders) -> float:
    return cover(catalog, MatchRequest(" ".join(text.split())[:MAX_QUERY_LENGTH]), holders)


def _without(texts: Mapping[int, str], line: str) -> Texts:
    """Return *texts* without *line*, in any case and however it is wrapped, but never in the middle of a word."""
    words = r"\s+".join(re.escape(word) for word in line.split())
    pattern = re.compile(rf"(?<![A-Za-z0-9]){words}(?![A-Za-z0-9])", re.IGNORECASE)
    return {field: pattern.sub(" ", text) for field, text in texts.items()}
