"""How often an answer is the one that its reference gives."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from figures import Figure
from floors import open_bare

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import Candidate, MatchRequest, Ranker, Statement
from orchestr8_sqlite.tiers.postings import match_keywords

TOP = 10

SECONDS = 120.0
"""How long queries are compared: statements without the packed lists take seconds each in a large index."""

Reference = Callable[[Catalog, MatchRequest], Sequence[int]]
"""Returns the ids of the fragments that a request should be answered with, best first."""


def measure_agreement(size: int, index: Path, queries: Sequence[str]) -> list[Figure]:
    """Return the share of the queries whose best TOP are those of the reference, in the same order."""
    with Catalog.open(index) as catalog, closing(open_bare(index)) as bare:
        references = {Ranker.DEFAULT: by_default_sql(bare), Ranker.CLASSIC: by_classic_sql(bare)}
        found = {ranker: agreement(catalog, queries, ranker, by_sql) for ranker, by_sql in references.items()}
    return [
        Figure(f"agreement, {ranker.value}", size, share, "of the queries", queries=asked)
        for ranker, (share, asked) in found.items()
    ]


def agreement(
    catalog: Catalog, queries: Sequence[str], ranker: Ranker, reference: Reference, seconds: float = SECONDS
) -> tuple[float, int]:
    """Return the share of queries whose best TOP are those of *reference*, 0 to 1, and how many were asked.

    These are the first of *queries*, at least one, until the *seconds* are over.
    """
    same = asked = 0
    end = time.perf_counter() + seconds
    for query in queries:
        request = MatchRequest(query, max_results=TOP, ranker=ranker)
        same += list(reference(catalog, request)) == [one.fragment_id for one in _answered(catalog, request)]
        asked += 1
        if time.perf_counter() >= end:
            break
    return same / asked, asked


def by_default_sql(db: sqlite3.Connection) -> Reference:
    """Return the reference of the default ranker: the statement that its answer carries, run on *db*."""
    return lambda catalog, request: _ids(db, find(catalog, request, quick=False).statement)


def by_classic_sql(db: sqlite3.Connection) -> Reference:
    """Return the reference of the classic tier 2: the statement that its answer carries, run on *db*."""
    return lambda catalog, request: _ids(
        db, match_keywords(catalog.db, request, extract_keywords(request.query)).statement
    )


def _answered(catalog: Catalog, request: MatchRequest) -> Sequence[Candidate]:
    if request.ranker is Ranker.CLASSIC:
        return match_keywords(catalog.db, request, extract_keywords(request.query)).candidates
    return find(catalog, request, quick=False).candidates


def _ids(db: sqlite3.Connection, statement: Statement | None) -> list[int]:
    return [row[0] for row in db.execute(statement.sql, statement.parameters)] if statement else []
