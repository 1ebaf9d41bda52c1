"""What every tier returns, and the filters that every tier applies before its limit."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from orchestr8_sqlite.index.connections import Reader
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.model.requests import Candidate, MatchRequest, Statement

FILTERS = """
       (:categories = '[]' AND NOT :agent_skills
        OR f.category IN (SELECT value FROM json_each(:categories))
        OR :agent_skills AND f.id IN (SELECT fragment_id FROM skill_file WHERE path = 'SKILL.md'))
   AND (:tags = '[]'
        OR f.id IN (SELECT t.fragment_id FROM json_each(:tags) wanted CROSS JOIN tag t ON t.tag = wanted.value
                     GROUP BY t.fragment_id HAVING count(*) = json_array_length(:tags)))
"""
"""A condition on `f`, a row of fragment: it has any of the categories or its own SKILL.md, and all of the tags.
A filter that is not asked for costs nothing, and each list of fragments is computed once per statement."""

ADMITTED = gathered(
    f"""
SELECT count(*)
  FROM (SELECT DISTINCT t.fragment_id AS id FROM json_each(:tags) wanted CROSS JOIN tag t ON t.tag = wanted.value) named
 CROSS JOIN fragment f ON f.id = named.id
 WHERE {FILTERS}
""",
    added=0,
)


class Found(NamedTuple):
    """The candidates of one tier, best first; `total` counts the fragments that match, listed or not.

    `coverage` is how much of the request they cover, if the build computed it. `statement` is the one that ran.
    """

    candidates: tuple[Candidate, ...]
    total: int
    statement: Statement
    coverage: float = 1.0


def count_admitted(db: Reader, request: MatchRequest) -> int:
    """Return the number of fragments that the filters of *request* admit, tags among them."""
    count: int = db.execute(ADMITTED, filter_parameters(request)).fetchall()[0][0]
    return count


def filter_parameters(request: MatchRequest) -> dict[str, object]:
    """Return the parameters for the filters and the limit of *request*."""
    return {
        "categories": json.dumps(request.categories),
        "tags": json.dumps(request.tags, ensure_ascii=False),
        "agent_skills": request.agent_skills,
        "is_filtered": request.is_filtered,
        "limit": request.max_results,
    }


def read_candidate(described: Sequence[Any], score: float, scenario: str | None) -> Candidate:
    """Return a candidate from the columns that every tier selects first: `id, uri, category, name, title, tokens`."""
    id_, uri, category, name, title, token_estimate = described
    return Candidate(
        fragment_id=id_,
        uri=uri,
        category=category,
        name=name,
        title=title,
        token_estimate=token_estimate,
        score=score,
        scenario=scenario,
    )
