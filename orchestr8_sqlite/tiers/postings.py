"""Tier 2: the keyword index, one SQL statement for each ranker.

classic   scenarios that hold a query keyword, +20 for each keyword found whole, else +10 found in part
default   full text over all fields, BM25 with a weight for each field
"""

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence

from orchestr8_sqlite.model import MatchRequest, Ranker
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

FIELD_WEIGHTS = {
    "name": 10.0,
    "title": 6.0,
    "tags": 4.0,
    "capabilities": 2.0,
    "scenarios": 3.0,
    "description": 3.0,
    "body": 0.5,
}
"""How much a word counts in each field of fragment_text."""

DOCUMENT_FREQUENCIES = """
SELECT query.value, (SELECT count(*) FROM fragment_text WHERE fragment_text MATCH '"' || query.value || '"')
  FROM json_each(:keywords) query
"""

DEFAULT_MATCHES = f"""
WITH
hit (fragment_id, weight) AS (
    SELECT rowid, -bm25(fragment_text, {", ".join(map(str, FIELD_WEIGHTS.values()))})
      FROM fragment_text WHERE fragment_text MATCH :match),
scored AS (SELECT fragment_id, round(100 * weight / :ideal, 1) AS score FROM hit)
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, scored.score,
       (SELECT s.text
          FROM scenario s
          LEFT JOIN posting p ON p.scenario_id = s.id AND p.keyword_id IN
               (SELECT k.id FROM keyword k JOIN json_each(:keywords) q ON k.text = q.value)
         WHERE s.fragment_id = f.id
         GROUP BY s.id ORDER BY count(p.keyword_id) DESC, s.ordinal LIMIT 1) AS scenario,
       count(*) OVER () AS total
  FROM scored JOIN fragment f ON f.id = scored.fragment_id
 WHERE scored.score >= :min_score AND {FILTERS}
 ORDER BY scored.score DESC, f.uri
 LIMIT :limit
"""

BM25_CEILING = 2.2
"""k1 + 1 of FTS5's bm25: no word contributes more than this times its idf."""


def match_keywords(
    db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str], frequencies: Mapping[str, int]
) -> Found:
    """Return the fragments that hold any of *keywords*, best first; ties go by URI.

    The classic score counts points in the best scenario; the default one is the share, in percent,
    of the score that a document made of nothing but the known query words could reach.

    Source of the classic points: shared/seeds/index-lookup.md, "Scoring Algorithm".
    """
    parameters = {"keywords": json.dumps(list(keywords), ensure_ascii=False), **filter_parameters(request)}
    if request.ranker is Ranker.CLASSIC:
        return run(db, CLASSIC_MATCHES, parameters)
    known = [keyword for keyword in keywords if frequencies[keyword]]
    match = " OR ".join(f'"{keyword}"' for keyword in known) or '""'
    return run(db, DEFAULT_MATCHES, {**parameters, "match": match, "ideal": _ideal(db, known, frequencies)})


def document_frequencies(db: sqlite3.Connection, keywords: Sequence[str]) -> dict[str, int]:
    """Return in how many fragments each keyword stands anywhere, inflected forms included."""
    return dict(db.execute(DOCUMENT_FREQUENCIES, {"keywords": json.dumps(list(keywords), ensure_ascii=False)}))


def _ideal(db: sqlite3.Connection, known: Sequence[str], frequencies: Mapping[str, int]) -> float:
    total = db.execute("SELECT count(*) FROM fragment").fetchone()[0]
    idf = (math.log((total - frequencies[word] + 0.5) / (frequencies[word] + 0.5)) for word in known)
    return BM25_CEILING * sum(max(value, 1e-6) for value in idf) or 1.0
