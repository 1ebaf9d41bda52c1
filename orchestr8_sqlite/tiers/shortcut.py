"""Tier 1: answers that were computed when the index was built, fetched by primary key."""

import sqlite3
from collections.abc import Sequence

from orchestr8_sqlite.model import Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers.found import Found

DEPTH = 100
"""Answers kept for each query: as many as a request may ask for."""

QUICK_MATCHES = """
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, q.score, s.text AS scenario, q.coverage, q.total
  FROM quick_lookup q
  JOIN fragment f ON f.id = q.fragment_id
  LEFT JOIN scenario s ON s.id = q.scenario_id
 WHERE q.ranker = :ranker AND q.query = :query AND q.rank <= :limit
 ORDER BY q.rank
"""


def match_quick(db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the precomputed answer to *request*, empty where there is none.

    The caller sees to it that the request has no filters and the score bound of the build.
    """
    parameters: dict[str, object] = {
        "ranker": request.ranker.value,
        "query": " ".join(keywords),
        "limit": request.max_results,
    }
    rows = db.execute(QUICK_MATCHES, parameters).fetchall()
    *_, coverage, total = rows[0] if rows else (1.0, 0)
    return Found(
        tuple(Candidate(*row[:-2]) for row in rows), total, Statement(QUICK_MATCHES, lambda: parameters), coverage
    )
