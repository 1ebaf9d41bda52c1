"""Tier 1: answers that were computed when the index was built, fetched by primary key."""

from collections.abc import Sequence

from orchestr8_sqlite.index.connections import Reader
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.model.requests import MatchRequest, Statement
from orchestr8_sqlite.ranking.filters import Found, read_candidate

DEPTH = 15
"""Candidates kept for each query: as many as a request returns by default."""

QUICK_MATCHES = gathered(
    """
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, q.score, q.scenario, q.coverage, q.total
  FROM quick_lookup q CROSS JOIN fragment f ON f.id = q.fragment_id
 WHERE q.ranker = :ranker AND q.query = :query AND q.rank <= :limit
 ORDER BY q.rank
""",
    order=[-7, 2],
)


def match_quick(db: Reader, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the precomputed answer to *request*, empty if there is none.

    The caller ensures that the request has no filters, the default score bound, and asks for at most DEPTH candidates.
    """
    parameters: dict[str, object] = {
        "ranker": request.ranker.value,
        "query": " ".join(keywords),
        "limit": request.max_results,
    }
    statement = Statement(QUICK_MATCHES, parameters)
    rows = db.execute(statement.sql, statement.parameters).fetchall()
    candidates = tuple(read_candidate(row[:6], row[6], row[7]) for row in rows)
    coverage, total = rows[0][-2:] if rows else (1.0, 0)
    return Found(candidates, total, statement, coverage)
