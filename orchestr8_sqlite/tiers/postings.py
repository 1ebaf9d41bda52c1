"""Tier 2 of the classic ranker: scenarios that hold a query keyword, in one SQL statement."""

import json
import sqlite3
from collections.abc import Sequence

from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers.found import FILTERS, Found, filter_parameters, run

CLASSIC_MATCHES = f"""
WITH RECURSIVE
query (keyword) AS (SELECT value FROM json_each(:keywords)),
number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < (SELECT max(length(keyword)) FROM query)),
exact (scenario_id, keyword) AS (
    SELECT p.scenario_id, query.keyword
      FROM query JOIN keyword k ON k.text = query.keyword JOIN posting p ON p.keyword_id = k.id),
kin (keyword, keyword_id) AS (       -- vocabulary that contains a query keyword, or is contained in one
    SELECT query.keyword, x.keyword_id
      FROM query JOIN keyword_suffix x ON x.suffix >= query.keyword AND x.suffix < query.keyword || char(1114111)
    UNION
    SELECT query.keyword, k.id
      FROM query
      JOIN number start ON start.n <= length(query.keyword)
      JOIN number span ON span.n <= length(query.keyword) - start.n + 1
      JOIN keyword k ON k.text = substr(query.keyword, start.n, span.n)),
partial (scenario_id, keyword) AS (
    SELECT p.scenario_id, kin.keyword
      FROM kin JOIN posting p ON p.keyword_id = kin.keyword_id
     WHERE p.scenario_id IN (SELECT scenario_id FROM exact)
    EXCEPT SELECT scenario_id, keyword FROM exact),
points (scenario_id, score) AS (
    SELECT scenario_id, sum(points)
      FROM (SELECT scenario_id, 20 AS points FROM exact UNION ALL SELECT scenario_id, 10 FROM partial)
     GROUP BY scenario_id),
best AS (
    SELECT s.fragment_id, s.text, points.score,
           row_number() OVER (PARTITION BY s.fragment_id ORDER BY points.score DESC, s.ordinal) AS place
      FROM points JOIN scenario s ON s.id = points.scenario_id)
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate,
       best.score + 0.0 AS score, best.text AS scenario, count(*) OVER () AS total
  FROM best JOIN fragment f ON f.id = best.fragment_id
 WHERE best.place = 1 AND best.score >= :min_score AND {FILTERS}
 ORDER BY best.score DESC, f.uri
 LIMIT :limit
"""


def match_keywords(db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the fragments with a scenario that holds any of *keywords*, best scenario and fragment first.

    20 points for each keyword that stands in the scenario, 10 for one that a word of it contains or is
    contained in. Ties go by URI.

    Source: shared/seeds/index-lookup.md, "Scoring Algorithm".
    """
    parameters = {"keywords": json.dumps(list(keywords), ensure_ascii=False), **filter_parameters(request)}
    return run(db, CLASSIC_MATCHES, parameters)
