"""What every tier returns, and the filters that every tier applies before its limit."""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from orchestr8_sqlite.model import Candidate, MatchRequest, Statement
from orchestr8_sqlite.packing import pack_bits

FILTERS = """
       (:categories = '[]' OR f.category IN (SELECT value FROM json_each(:categories)))
   AND (:tags = '[]'
        OR NOT EXISTS (SELECT 1 FROM json_each(:tags) wanted
                        WHERE NOT EXISTS (SELECT 1 FROM tag t WHERE t.fragment_id = f.id AND t.tag = wanted.value)))
   AND (NOT :agent_skills OR EXISTS (SELECT 1 FROM skill_file b WHERE b.fragment_id = f.id AND b.path = 'SKILL.md'))
"""
"""SQL over the alias `f` of fragment: any of the categories, all of the tags, with a SKILL.md of its own.
What is not asked for costs nothing."""


ADMITTED = f"SELECT f.id FROM json_each(:ids) wanted CROSS JOIN fragment f ON f.id = wanted.value WHERE {FILTERS}"
LAST_FRAGMENT = "SELECT max(id) FROM fragment"
OF_CATEGORIES = """
SELECT f.id FROM json_each(:categories) wanted CROSS JOIN fragment f ON f.category = wanted.value LIMIT :most
"""
OF_TAG = "SELECT fragment_id FROM tag WHERE tag = :tag LIMIT :most"
OF_AGENT_SKILLS = "SELECT fragment_id FROM skill_file WHERE path = 'SKILL.md' LIMIT :most"
SCENARIOS_OF = "SELECT s.id FROM json_each(:ids) wanted CROSS JOIN scenario s ON s.fragment_id = wanted.value"

SELECTIVE = 64
"""A filter that admits less than one fragment in so many is applied first."""


class Found(NamedTuple):
    """The candidates of one tier, best first; `total` counts the fragments that match, listed or not, up to COUNTED.

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


def query_parameters(request: MatchRequest, keywords: Sequence[str]) -> dict[str, object]:
    """Return the parameters of a statement over the *keywords* of *request*."""
    return {"keywords": json.dumps(list(keywords), ensure_ascii=False), **filter_parameters(request)}


class Filter:
    """What the filters of one request admit."""

    def __init__(self, db: sqlite3.Connection, request: MatchRequest) -> None:
        self._db = db
        self._request = request
        self._known: dict[int, bool] = {}

    def admitted(self, fragments: set[int]) -> set[int]:
        """Return those of *fragments* that the filters admit."""
        if not self._request.is_filtered:
            return fragments
        new = fragments - self._known.keys()
        if new:
            parameters = {"ids": json.dumps(sorted(new)), **filter_parameters(self._request)}
            fitting = {id_ for (id_,) in self._db.execute(ADMITTED, parameters)}
            self._known |= {id_: id_ in fitting for id_ in new}
        return {id_ for id_ in fragments if self._known[id_]}

    def scenarios(self) -> int | None:
        """Return the scenarios of a superset of what the filters admit, as a set; None where that is not small."""
        fragments = self.few()
        if fragments is None:
            return None
        rows = [row for (row,) in self._db.execute(SCENARIOS_OF, {"ids": json.dumps(fragments)})]
        return int.from_bytes(pack_bits(rows), "little")

    def few(self) -> list[int] | None:
        """Return the fragments that the most selective of the filters admits, None where these are many."""
        request = self._request
        if not request.is_filtered:
            return None
        most = (self._db.execute(LAST_FRAGMENT).fetchone()[0] or 0) // SELECTIVE
        asked: list[tuple[str, dict[str, object]]] = [(OF_TAG, {"tag": tag}) for tag in request.tags]
        if request.categories:
            asked.append((OF_CATEGORIES, {"categories": json.dumps(request.categories)}))
        if request.agent_skills:
            asked.append((OF_AGENT_SKILLS, {}))
        sets = [self._db.execute(sql, {**values, "most": most + 1}).fetchall() for sql, values in asked]
        smallest = min(sets, key=len)
        return [row[0] for row in smallest] if len(smallest) <= most else None
