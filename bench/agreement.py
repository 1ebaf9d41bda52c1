"""How often an answer is the one that its reference gives."""

import sqlite3
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

Reference = Callable[[Catalog, MatchRequest], Sequence[int]]
"""Returns the ids of the fragments that a request should be answered with, best first."""


def measure_agreement(size: int, index: Path, queries: Sequence[str]) -> list[Figure]:
    """Return the share of the queries whose best TOP are those of the reference, in the same order."""
    with Catalog.open(index) as catalog, closing(open_bare(index)) as bare:
        default = share_of_agreement(catalog, queries, Ranker.DEFAULT, by_default_sql(bare))
        classic = share_of_agreement(catalog, queries, Ranker.CLASSIC, by_classic_sql(bare))
    return [
        Figure("agreement, default", size, default, "of the queries", queries=len(queries)),
        Figure("agreement, classic", size, classic, "of the queries", queries=len(queries)),
    ]


def share_of_agreement(catalog: Catalog, queries: Sequence[str], ranker: Ranker, reference: Reference) -> float:
    """Return the share of *queries* whose best TOP are those of *reference*, 0 to 1."""
    same = 0
    for query in queries:
        request = MatchRequest(query, max_results=TOP, ranker=ranker)
        same += list(reference(catalog, request)) == [one.fragment_id for one in _answered(catalog, request)]
    return same / len(queries)


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
