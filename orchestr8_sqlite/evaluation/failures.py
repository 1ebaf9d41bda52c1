"""Finds the queries that an index answers wrongly, for a person to review."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from orchestr8_sqlite.evaluation.judgements import ELSEWHERE, NO_ANSWER, JudgedQuery, Qrels
from orchestr8_sqlite.evaluation.measures import RunReport

FIRST = 5
"""A right document must be among this many first results, as in recall@5, unless a stricter measure is missed."""


class Failure(NamedTuple):
    """A failed query and the documents `wanted`, none if nothing fits.

    `place` is the rank of the best right document, and `first` the document that came first instead. `refused` is true
    if the answer said that nothing fits.
    """

    query: JudgedQuery
    wanted: tuple[str, ...]
    place: int | None
    first: str | None
    score: float
    refused: bool

    @property
    def what(self) -> str:
        """Return what went wrong, in two words."""
        if self.refused:
            return "false refusal"
        if self.query.stratum == ELSEWHERE:
            return "false trigger"
        if not self.wanted:
            return "false answer"
        return f"place {self.place}" if self.place else "not found"


def find_failures(queries: Iterable[JudgedQuery], qrels: Qrels, report: RunReport, most: int = FIRST) -> list[Failure]:
    """Return the failed queries: no right document among the first, falsely refused, falsely answered or triggered.

    The worst come first: false refusals, false answers, documents not found, then documents found further down.

    Args:
        most: How many first results may hold the right document.
    """
    failures = [failure for query in queries if (failure := _failure(query, qrels, report, most)) is not None]
    return sorted(failures, key=_badness)


def _failure(query: JudgedQuery, qrels: Qrels, report: RunReport, most: int) -> Failure | None:
    found: Sequence[tuple[str, float]] = report.run.get(query.id, ())
    refused = query.id in report.weak or not found
    wanted = tuple(sorted(document for document, grade in qrels.get(query.id, {}).items() if grade > 0))
    place = next((place for place, (document, _) in enumerate(found, start=1) if document in wanted), None)
    if not _fails(query, qrels, found, refused=refused, is_among_first=place is not None and place <= most):
        return None
    right_first = place == 1
    first, score = (None, 0.0) if right_first or not found else found[0]
    return Failure(query, wanted, place, first, score, refused)


def _fails(
    query: JudgedQuery, qrels: Qrels, found: Sequence[tuple[str, float]], *, refused: bool, is_among_first: bool
) -> bool:
    if query.stratum == NO_ANSWER:
        return not refused
    if query.stratum == ELSEWHERE:
        return not refused and found[0][0] in qrels[query.id]
    return refused or not is_among_first


def _badness(failure: Failure) -> tuple[bool, bool, float, float]:
    place = float("inf") if failure.place is None else failure.place
    return not failure.refused, bool(failure.wanted), -place, -failure.score
