"""What every tier returns, and the filters that every tier applies before its limit."""

import json
import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from orchestr8_sqlite.model import Candidate, MatchRequest, Statement

FILTERS = """
       (:categories = '[]' OR f.category IN (SELECT value FROM json_each(:categories)))
   AND (:tags = '[]'
        OR NOT EXISTS (SELECT 1 FROM json_each(:tags) wanted
                        WHERE NOT EXISTS (SELECT 1 FROM tag t WHERE t.fragment_id = f.id AND t.tag = wanted.value)))
   AND (NOT :agent_skills OR EXISTS (SELECT 1 FROM skill_file b WHERE b.fragment_id = f.id AND b.path = 'SKILL.md'))
"""
"""SQL over the alias `f` of fragment: any of the categories, all of the tags, with a SKILL.md of its own.
What is not asked for costs nothing."""


class Found(NamedTuple):
    """The candidates of one tier, best first; `total` counts the fragments that match, listed or not.

    `coverage` is how much of the request they cover, where that was computed before.
    """

    candidates: tuple[Candidate, ...]
    total: int
    statement: Statement
    coverage: float = 1.0


def filter_parameters(request: MatchRequest) -> dict[str, object]:
    """Return the parameters that FILTERS, the score bound and the limit of *request* need."""
    return {
        "categories": json.dumps(request.categories),
        "tags": json.dumps(request.tags, ensure_ascii=False),
        "agent_skills": request.agent_skills,
        "min_score": request.min_score,
        "limit": request.max_results,
    }


def run(db: sqlite3.Connection, sql: str, parameters: Mapping[str, object]) -> Found:
    """Run a statement whose rows are the columns of `Candidate` and, last, the total."""
    rows = db.execute(sql, parameters).fetchall()
    candidates = tuple(Candidate(*row[:-1]) for row in rows)
    return Found(candidates, rows[0][-1] if rows else 0, Statement(sql, dict(parameters)))
