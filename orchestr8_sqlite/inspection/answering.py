"""Answers one request for the page: what the ranker finds, and what the first scores are made of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.inspection.data import LiveAnswer, ShownAnswer, ShownPart, ShownRequest
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import Candidate, LookupResult, MatchRequest
from orchestr8_sqlite.ranking.explanation import explain
from orchestr8_sqlite.ranking.lookup import find

DEPTH = 15
"""Places of an answer that are looked at for the wanted fragments: as many as a search lists."""

SHOWN = 5
"""Places of an answer that come with their parts: as many as an assistant sees."""

LIVE = "live"
PLACES = "SELECT id, uri FROM fragment ORDER BY uri"


class Question(NamedTuple):
    """A request of a library, and the URIs of the fragments that should answer it.

    A scenario is asked as if its fragment, the only one of `expected`, did not have it.
    """

    text: str
    terms: tuple[str, ...]
    origin: str
    expected: tuple[str, ...]


def answer_live(catalog: Catalog, text: str) -> LiveAnswer:
    """Return what the index answers to a request that somebody types into the page.

    Raises:
        RequestError: The text is empty or too long.
    """
    question = Question(make_request({"query": text}).query, (), LIVE, ())
    places = {uri: place for place, (_, uri) in enumerate(catalog.rows(PLACES))}
    request = show_answer(catalog, question, find_answer(catalog, question), places)
    return {"generation": catalog.generation, "request": request}


def find_answer(catalog: Catalog, question: Question) -> LookupResult:
    """Return what the ranker finds for *question*, DEPTH places at most."""
    text = " ".join(question.text.split())
    request = MatchRequest(text, max_results=DEPTH, terms=question.terms)
    return find(catalog, request, quick=False, lists=False)


def show_answer(catalog: Catalog, question: Question, result: LookupResult, places: Mapping[str, int]) -> ShownRequest:
    """Return *question* with its answer, whose first places have their parts; *places* are those of the URIs."""
    shown = result.candidates[:SHOWN]
    parts, _ = explain(catalog.reader, result.statements[0], shown)
    return {
        "text": question.text,
        "terms": [*question.terms],
        "origin": question.origin,
        "expected": [places[uri] for uri in question.expected],
        "rank": _rank(result, question.expected),
        "is_met": is_met(result, question.expected),
        "confident": result.confident,
        "coverage": result.coverage,
        "read_as": dict(result.read_as),
        "uncovered": [*result.uncovered],
        "tier": result.tier.value,
        "total": result.total,
        "answers": [
            _answer(one, [(p.word, p.form, p.how, [*p.fields], p.points) for p in parts[one.fragment_id]], places)
            for one in shown
        ],
    }


def is_met(result: LookupResult, expected: Sequence[str]) -> bool:
    """Tell whether one of *expected* comes first, or nothing fits and none is expected."""
    answers = result.confident and bool(result.candidates)
    return _rank(result, expected) == 1 if answers and expected else answers == bool(expected)


def _answer(candidate: Candidate, parts: list[ShownPart], places: Mapping[str, int]) -> ShownAnswer:
    return {
        "fragment": places[candidate.uri],
        "score": candidate.score,
        "scenario": candidate.scenario,
        "copies": [places[uri] for uri in candidate.copies],
        "parts": parts,
    }


def _rank(result: LookupResult, expected: Sequence[str]) -> int | None:
    ranks = (
        rank for rank, one in enumerate(result.candidates, start=1) if not {one.uri, *one.copies}.isdisjoint(expected)
    )
    return next(ranks, None)
