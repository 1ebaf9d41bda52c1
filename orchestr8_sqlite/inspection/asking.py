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
from orchestr8_sqlite.inspection.data import ShownAnswer, ShownPart, ShownRequest
from orchestr8_sqlite.model.requests import Candidate, LookupResult, MatchRequest
from orchestr8_sqlite.processes import map_in_processes
from orchestr8_sqlite.ranking.explanation import explain
from orchestr8_sqlite.ranking.holdout import HeldOut, Scenario
from orchestr8_sqlite.ranking.lookup import find

MOST_SCENARIOS = 3000
"""Scenarios that are asked at most; of a larger library a sample, spread evenly. They take most of the time and of the
page: bench/inspection.py."""

DEPTH = 15
"""Places of an answer that are looked at for the wanted fragments: as many as a search lists."""

SHOWN = 5
"""Places of an answer that come with their parts: as many as an assistant sees."""

FEWEST_PER_PROCESS = 100
"""With fewer requests, starting a process takes longer than it saves."""

SCENARIO = "scenario"
PLACES = "SELECT id, uri FROM fragment ORDER BY uri"
SCENARIOS = """
SELECT f.uri, s.text FROM scenario s JOIN fragment f ON f.id = s.fragment_id ORDER BY f.uri, s.ordinal
"""


class Question(NamedTuple):
    """A request of a library, and the URIs of the fragments that should answer it.

    A scenario is asked as if its fragment, the only one of `expected`, did not have it.
    """

    text: str
    terms: tuple[str, ...]
    origin: str
    expected: tuple[str, ...]


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
            result = self._find(question)
            shown = result.candidates[:SHOWN]
            parts, _ = explain(self._catalog.db, result.statements[0], shown)
        answers = [
            self._answer(one, [(p.word, p.form, p.how, [*p.fields], p.points) for p in parts[one.fragment_id]])
            for one in shown
        ]
        return {
            "text": question.text,
            "terms": [*question.terms],
            "origin": question.origin,
            "expected": [self._places[uri] for uri in question.expected],
            "rank": _rank(result, question.expected),
            "is_met": _is_met(result, question.expected),
            "confident": result.confident,
            "coverage": result.coverage,
            "read_as": dict(result.read_as),
            "uncovered": [*result.uncovered],
            "tier": result.tier.value,
            "total": result.total,
            "answers": answers,
        }

    def outcome(self, question: Question) -> FirstAnswer:
        """Return what comes first; the index need not have the fragments of *question*, nor the scenario."""
        with self._without(question):
            result = self._find(question)
        first = result.candidates[0].uri if result.confident and result.candidates else None
        return FirstAnswer(first, _is_met(result, question.expected))

    def _without(self, question: Question) -> AbstractContextManager[None]:
        own = self._ids.get(question.expected[0]) if question.origin == SCENARIO else None
        return nullcontext() if own is None else self._held_out.without(Scenario(own, question.text), whole=True)

    def _find(self, question: Question) -> LookupResult:
        text = " ".join(question.text.split())
        request = MatchRequest(text, max_results=DEPTH, terms=question.terms)
        return find(self._catalog, request, quick=False, lists=False)

    def _answer(self, candidate: Candidate, parts: list[ShownPart]) -> ShownAnswer:
        return {
            "fragment": self._places[candidate.uri],
            "score": candidate.score,
            "scenario": candidate.scenario,
            "copies": [self._places[uri] for uri in candidate.copies],
            "parts": parts,
        }


def _rank(result: LookupResult, expected: Sequence[str]) -> int | None:
    ranks = (
        rank for rank, one in enumerate(result.candidates, start=1) if not {one.uri, *one.copies}.isdisjoint(expected)
    )
    return next(ranks, None)


def _is_met(result: LookupResult, expected: Sequence[str]) -> bool:
    answers = result.confident and bool(result.candidates)
    return _rank(result, expected) == 1 if answers and expected else answers == bool(expected)
