"""Asks an index the requests of its own library, and an older index the same; in several processes if they are many."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple, Self

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.evaluation.measures import LIBRARY_QUERIES
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.inspection.answering import PLACES, Question, find_answer, is_met, show_answer
from orchestr8_sqlite.inspection.data import ShownRequest
from orchestr8_sqlite.processes import map_in_processes
from orchestr8_sqlite.ranking.holdout import HeldOut, Scenario

MOST_SCENARIOS = 3000
"""Scenarios that are asked at most; of a larger library a sample, spread evenly. They take most of the time and of the
page: bench/inspection.py."""

FEWEST_PER_PROCESS = 100
"""With fewer requests, starting a process takes longer than it saves."""

SCENARIO = "scenario"
SCENARIOS = """
SELECT f.uri, s.text FROM scenario s JOIN fragment f ON f.id = s.fragment_id ORDER BY f.uri, s.ordinal
"""


class FirstAnswer(NamedTuple):
    """What a search gave: the URI that comes first, None if nothing fits, and whether that is as wanted."""

    first: str | None
    is_met: bool


class Share(NamedTuple):
    """What one process asks the index of this `generation` at `path`, and the older one at `since`, if there is one."""

    path: Path
    generation: str
    since: Path | None
    questions: Sequence[Question]


Asked = tuple[ShownRequest, FirstAnswer | None]
"""A request and its answer, and what the older index gives."""


def read_questions(catalog: Catalog, most: int = MOST_SCENARIOS) -> list[Question]:
    """Return the requests that authors list, then the scenarios in the order of their URIs, *most* at most."""
    uris = dict(catalog.rows(PLACES))
    listed = [
        Question(text, tuple(json.loads(terms)), origin, tuple(sorted(uris[id_] for id_ in json.loads(answers))))
        for _, text, origin, terms, answers in catalog.rows(LIBRARY_QUERIES)
    ]
    scenarios = [Question(text, (), SCENARIO, (uri,)) for uri, text in catalog.rows(SCENARIOS)]
    asked = min(most, len(scenarios))
    return [*listed, *(scenarios[place * len(scenarios) // asked] for place in range(asked))]


def ask_all(catalog: Catalog, questions: Sequence[Question], since: Path | None = None) -> list[Asked]:
    """Return what an index answers to each question, and what the older one at *since* gives.

    Raises:
        CatalogError: One of the indexes is not usable, or the file was replaced since it was opened.
    """
    count = max(1, min(os.cpu_count() or 1, len(questions) // FEWEST_PER_PROCESS))
    shares = [Share(catalog.path, catalog.generation, since, questions[first::count]) for first in range(count)]
    parts = [_ask(shares[0])] if count == 1 else list(map_in_processes(_ask, shares))
    return [parts[place % count][place // count] for place in range(len(questions))]


def _ask(share: Share) -> list[Asked]:
    with ExitStack() as stack:
        here = stack.enter_context(_Library.open(share.path))
        if here.generation != share.generation:
            raise CatalogError(f"The index {share.path} was replaced while it was read; inspect it again.")
        there = share.since and stack.enter_context(_Library.open(share.since))
        return [(here.answer(one), there.outcome(one) if there else None) for one in share.questions]


class _Library:
    """An index of which lines can be hidden.

    Use::

        with _Library.open(path) as library:
            library.answer(Question("retry a flaky call", (), "queries", ("orchestr8://skills/retry",)))
    """

    def __init__(self, held_out: HeldOut) -> None:
        self._held_out = held_out
        self._catalog = held_out.catalog
        rows = self._catalog.rows(PLACES)
        self._ids = {uri: id_ for id_, uri in rows}
        self._places = {uri: place for place, (_, uri) in enumerate(rows)}

    @property
    def generation(self) -> str:
        """Return the generation of the index."""
        return self._catalog.generation

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Yield the index at *path*, copied into memory."""
        with Catalog.open(path) as catalog, HeldOut.copy(catalog) as held_out:
            yield cls(held_out)

    def answer(self, question: Question) -> ShownRequest:
        """Return *question* with its answer, whose first places have their parts."""
        with self._without(question):
            return show_answer(self._catalog, question, find_answer(self._catalog, question), self._places)

    def outcome(self, question: Question) -> FirstAnswer:
        """Return what comes first; the index need not have the fragments of *question*, nor the scenario."""
        with self._without(question):
            result = find_answer(self._catalog, question)
        first = result.candidates[0].uri if result.confident and result.candidates else None
        return FirstAnswer(first, is_met(result, question.expected))

    def _without(self, question: Question) -> AbstractContextManager[None]:
        own = self._ids.get(question.expected[0]) if question.origin == SCENARIO else None
        return nullcontext() if own is None else self._held_out.without(Scenario(own, question.text), whole=True)
