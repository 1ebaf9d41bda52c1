"""Tier 1: answers that were computed when the index was built, fetched by primary key."""

import sqlite3
from collections.abc import Sequence

from orchestr8_sqlite.model import Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.kept import kept_by

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
"""The answer in one statement; what answers is the first of these tables alone, the others are kept."""

PRECOMPUTED = """
SELECT fragment_id, score, scenario_id, coverage, total
  FROM quick_lookup
 WHERE ranker = :ranker AND query = :query AND rank <= :limit
 ORDER BY rank
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
    statement = Statement(QUICK_MATCHES, lambda: parameters)
    rows = db.execute(PRECOMPUTED, parameters).fetchall()
    if not rows:
        return Found((), 0, statement)
    kept = kept_by(db)
    fragments = kept.fragments([row[0] for row in rows])
    texts = kept.scenarios([row[2] for row in rows if row[2] is not None])
    candidates = [Candidate(*fragments[one], score, texts.get(scenario)) for one, score, scenario, *_ in rows]
    return Found(tuple(candidates), rows[0][-1], statement, rows[0][-2])
