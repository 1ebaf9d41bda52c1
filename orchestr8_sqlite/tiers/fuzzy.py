"""Tier 3 of the classic ranker: every fragment with any evidence in tags, capabilities or scenarios, weighed in Python.

SQL returns all rows whose field keywords contain a query keyword (not a ranked guess at the best),
so nothing that a full scan would rank is lost.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence

from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers.found import FILTERS, Found, filter_parameters

EVIDENCE = f"""
WITH
query (keyword) AS (SELECT value FROM json_each(:keywords)),
containing (keyword, keyword_id) AS (
    SELECT DISTINCT query.keyword, x.keyword_id
      FROM query JOIN keyword_suffix x ON x.suffix >= query.keyword AND x.suffix < query.keyword || char(1114111))
SELECT c.keyword, p.fields, f.id, f.uri, f.category, f.name, f.title, f.token_estimate, 0.0 AS score, NULL AS scenario
  FROM containing c
  JOIN field_posting p ON p.keyword_id = c.keyword_id
  JOIN fragment f ON f.id = p.fragment_id
 WHERE p.fields & 7 AND {FILTERS}
"""

BEST_SCENARIOS = """
SELECT s.fragment_id, s.text, s.ordinal
  FROM scenario s JOIN json_each(:ids) wanted ON s.fragment_id = wanted.value
 ORDER BY s.fragment_id, s.ordinal
"""

FIELD_POINTS = {1: 10, 2: 8, 4: 5}
"""Points for a query keyword in a tag, a capability, a scenario; the keys are bits of field_posting.fields."""

CATEGORY_POINTS = 15
SHORT_POINTS = 5
SHORT_TOKENS = 1000


def match_fuzzy(db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the fragments with any of *keywords* inside a tag, capability or scenario word, best first.

    For each keyword: 10 points in a tag, 8 in a capability, 5 in a scenario, each once; 15 more where
    the request names categories, 5 more below 1,000 tokens. Ties go by URI.

    Source: shared/seeds/system-design.md, "Scoring Algorithm".
    """
    parameters = {"keywords": json.dumps(list(keywords), ensure_ascii=False), **filter_parameters(request)}
    fields: dict[Candidate, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for keyword, mask, *fragment in db.execute(EVIDENCE, parameters):
        fields[Candidate(*fragment)][keyword] |= mask
    weighed = (fragment._replace(score=_weigh(fragment, masks.values(), request)) for fragment, masks in fields.items())
    enough = [candidate for candidate in weighed if candidate.score >= request.min_score]
    enough.sort(key=lambda candidate: (-candidate.score, candidate.uri))
    listed = _with_scenarios(db, enough[: request.max_results], keywords)
    return Found(tuple(listed), len(enough), Statement(EVIDENCE, parameters))


def _weigh(fragment: Candidate, masks: Iterable[int], request: MatchRequest) -> float:
    points = sum(points for mask in masks for bit, points in FIELD_POINTS.items() if mask & bit)
    points += CATEGORY_POINTS if fragment.category in request.categories else 0
    points += SHORT_POINTS if fragment.token_estimate < SHORT_TOKENS else 0
    return float(points)


def _with_scenarios(
    db: sqlite3.Connection, candidates: Sequence[Candidate], keywords: Sequence[str]
) -> list[Candidate]:
    """Return the candidates with the scenario that holds most of the keywords."""
    best: dict[int, tuple[int, str]] = {}
    wanted = json.dumps([candidate.fragment_id for candidate in candidates])
    for fragment_id, text, _ in db.execute(BEST_SCENARIOS, {"ids": wanted}):
        words = extract_keywords(text)
        held = sum(any(keyword in word for word in words) for keyword in keywords)
        if held > best.get(fragment_id, (-1, ""))[0]:
            best[fragment_id] = held, text
    return [c._replace(scenario=best[c.fragment_id][1]) if c.fragment_id in best else c for c in candidates]
