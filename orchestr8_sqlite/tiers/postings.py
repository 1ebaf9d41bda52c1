"""Tier 2 of the classic ranker: scenarios that hold a query keyword, best first."""

import sqlite3
from collections.abc import Sequence

from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers.found import FILTERS, Found, query_parameters
from orchestr8_sqlite.tiers.kept import kept_by
from orchestr8_sqlite.tiers.levels import Levels
from orchestr8_sqlite.tiers.sets import KIN_OF_QUERY

CLASSIC_MATCHES = f"""
WITH RECURSIVE
query (word, keyword) AS MATERIALIZED (SELECT key, value FROM json_each(:keywords)),
{KIN_OF_QUERY},
exact (scenario_id, word) AS MATERIALIZED (
    SELECT p.scenario_id, query.word
      FROM query CROSS JOIN keyword k ON k.text = query.keyword CROSS JOIN posting p ON p.keyword_id = k.id),
partial (scenario_id, word) AS (
    SELECT p.scenario_id, kin.word
      FROM kin CROSS JOIN posting p ON p.keyword_id = kin.keyword_id
     WHERE p.scenario_id IN (SELECT scenario_id FROM exact)
    EXCEPT SELECT scenario_id, word FROM exact),
points (scenario_id, score) AS MATERIALIZED (
    SELECT scenario_id, sum(points)
      FROM (SELECT scenario_id, 20 AS points FROM exact UNION ALL SELECT scenario_id, 10 FROM partial)
     GROUP BY scenario_id),
best (fragment_id, text, score, place) AS (
    SELECT s.fragment_id, s.text, points.score,
           row_number() OVER (PARTITION BY s.fragment_id ORDER BY points.score DESC, s.ordinal)
      FROM points CROSS JOIN scenario s ON s.id = points.scenario_id),
fitting (id, uri, category, name, title, token_estimate, score, scenario) AS MATERIALIZED (
    SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, best.score + 0.0, best.text
      FROM best CROSS JOIN fragment f ON f.id = best.fragment_id
     WHERE best.place = 1 AND best.score >= :min_score AND {FILTERS})
SELECT id, uri, category, name, title, token_estimate, score, scenario,
       (SELECT count(*) FROM (SELECT 1 FROM fitting LIMIT {COUNTED})) AS total
  FROM fitting
 ORDER BY score DESC, uri
 LIMIT :limit
"""
"""The rules in one statement; what answers a request is read from the packed postings, and is the same."""


def match_keywords(db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the fragments with a scenario that holds any of *keywords*, best scenario and fragment first.

    20 points for each keyword that stands in the scenario, 10 for one that a word of it contains or is
    contained in. Ties go by URI. The statement that comes with them finds the same.

    Source: shared/seeds/index-lookup.md, "Scoring Algorithm".
    """
    levels = Levels(db, request, keywords)
    best = levels.best()
    kept = kept_by(db)
    fragments = kept.fragments([fragment for fragment, _, _ in best])
    texts = kept.scenarios([scenario for _, scenario, _ in best])
    candidates = tuple([Candidate(*fragments[fragment], score, texts[one]) for fragment, one, score in best])
    statement = Statement(CLASSIC_MATCHES, lambda: query_parameters(request, keywords))
    return Found(candidates, levels.count() if candidates else 0, statement)
