"""What the default ranker does, as one SQL statement: slower, for people and for tests, with the same rows.

It reads the packed lists by their views, and needs SQLite's mathematical functions, which the sqlite3 shell has.
"""

import json

from orchestr8_sqlite.model import COUNTED, MatchRequest, Statement
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import SEARCHED_WHOLE, Reading
from orchestr8_sqlite.tiers.found import FILTERS, filter_parameters

STEMS = """'["' || replace(t.stems, ' ', '","') || '"]'"""
"""The stems of the topic `t` as a JSON list; no stem holds a space, a quote or a back slash."""

DEFAULT_MATCHES = f"""
WITH
query (word, stem, gain, share, whole, bodies) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
      FROM json_each(:words)),
held (fragment_id, word, points) AS (
    SELECT e.fragment_id, q.word, q.gain * e.weight FROM query q CROSS JOIN evidence_posting e ON e.stem = q.stem
    UNION ALL
    SELECT b.fragment_id, q.word, q.gain * b.weight
      FROM query q CROSS JOIN body_posting b ON b.stem = q.stem WHERE q.bodies),
earned (id, points) AS (
    SELECT fragment_id, sum(points) / 1000
      FROM (SELECT fragment_id, max(points) AS points FROM held GROUP BY fragment_id, word)
     GROUP BY fragment_id),
named (id, share) AS MATERIALIZED (
    SELECT fragment_id, min(1.0, sum(share) / 1000)
      FROM (SELECT n.fragment_id, max(q.share * n.share) AS share
              FROM query q CROSS JOIN name_posting n ON n.stem = q.stem
             GROUP BY n.fragment_id, q.word)
     GROUP BY fragment_id),
base (id, uri, value) AS MATERIALIZED (
    SELECT e.id, f.uri, e.points * (1 + {weights.NAME_BONUS} * coalesce(n.share, 0.0))
      FROM earned e CROSS JOIN fragment f ON f.id = e.id LEFT JOIN named n ON n.id = e.id),
top (id, uri, value) AS MATERIALIZED (
    SELECT id, uri, value FROM base ORDER BY round(value, 12) DESC, uri LIMIT {weights.FEEDBACK_DEPTH}),
seed (id, value) AS MATERIALIZED (
    SELECT id, value FROM top ORDER BY round(value, 12) DESC, uri LIMIT {weights.FEEDBACK_SEEDS}),
size (n) AS (SELECT CAST(value AS REAL) FROM meta WHERE key = 'fragments'),
vote (stem, votes) AS MATERIALIZED (
    SELECT s.value, sum(seed.value)
      FROM seed CROSS JOIN topic t ON t.fragment_id = seed.id CROSS JOIN json_each({STEMS}) s
     WHERE s.value NOT IN (SELECT stem FROM query WHERE whole)
     GROUP BY s.value HAVING sum(seed.value) > {weights.FEEDBACK_VOTES} * (SELECT sum(value) FROM seed)),
learnt (stem, strength) AS MATERIALIZED (
    SELECT t.stem, v.votes / (SELECT sum(value) FROM seed) * ln(((SELECT n FROM size) + 0.5) / (t.topic_count + 0.5))
           AS strength
      FROM vote v CROSS JOIN term t ON t.stem = v.stem
     WHERE t.topic_count > 1
     ORDER BY round(strength, 12) DESC, 1 LIMIT {weights.FEEDBACK_WORDS}),
unit (points) AS MATERIALIZED (
    SELECT {weights.FEEDBACK} * (SELECT max(value) FROM seed) / (SELECT sum(strength) FROM learnt)),
fitting (id, uri, value) AS MATERIALIZED (
    SELECT id, uri, value FROM base
     WHERE :unfiltered OR id IN (SELECT f.id FROM fragment f WHERE f.id IN (SELECT id FROM base) AND {FILTERS})),
raised (id, uri, value, total) AS MATERIALIZED (
    SELECT c.id, c.uri, c.value,
           c.value + coalesce((SELECT points FROM unit)
                              * (SELECT sum(l.strength)
                                   FROM topic t CROSS JOIN json_each({STEMS}) s CROSS JOIN learnt l ON l.stem = s.value
                                  WHERE t.fragment_id = c.id), 0.0)
      FROM (SELECT id, uri, value FROM fitting ORDER BY round(value, 12) DESC, uri LIMIT {weights.FEEDBACK_DEPTH}) c),
best AS MATERIALIZED (
    SELECT id, uri, round(100 * total / (total + :half), 2) AS score
      FROM raised WHERE total >= :least ORDER BY score DESC, uri LIMIT :limit)
SELECT best.id, f.uri, f.category, f.name, f.title, f.token_estimate, best.score,
       (SELECT s.text
          FROM scenario s
          LEFT JOIN posting p ON p.scenario_id = s.id AND p.keyword_id IN
               (SELECT k.id FROM query q JOIN keyword k ON k.stem = q.stem WHERE q.whole)
         WHERE s.fragment_id = best.id
         GROUP BY s.id ORDER BY count(p.keyword_id) DESC, s.ordinal LIMIT 1) AS scenario,
       min({COUNTED}, (SELECT count(*) FROM fitting WHERE value >= :least)
                      + (SELECT count(*) FROM raised WHERE total >= :least AND value < :least)) AS total
  FROM best JOIN fragment f ON f.id = best.id
 ORDER BY best.score DESC, best.uri
"""


def reference_statement(request: MatchRequest, reading: Reading, half: float, least: float) -> Statement:
    """Return the statement that ranks as `weighted.rank` does.

    Args:
        half: The points of a score of 50.
        least: The points that a fragment must have.
    """
    return Statement(DEFAULT_MATCHES, lambda: _parameters(request, reading, half, least))


def _parameters(request: MatchRequest, reading: Reading, half: float, least: float) -> dict[str, object]:
    number = {word.text: position for position, word in enumerate(reading.words)}
    rows = [
        (
            number[form.word.text],
            form.stem,
            form.gain,
            form.gain / form.rarity,
            form.how in SEARCHED_WHOLE,
            reading.searches_bodies(form),
        )
        for form in reading.forms
    ]
    given = {"words": json.dumps(rows), "half": half, "least": least, "unfiltered": not request.is_filtered}
    return {**given, **filter_parameters(request)}
