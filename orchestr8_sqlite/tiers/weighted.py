"""Tiers 2 and 3 of the default ranker: which fields hold which words of the request, weighed in one SQL statement.

A word earns its rarity times the weight of its evidence in the fragment; of the forms that a word may stand for,
the one that earns most counts. Added are a bonus for the share of the name's words that the request covers, and
what is learnt from the best fragments: the words that their names, titles and tags have in common. The printed
score maps the sum to 0..100 by what the rarest words of the request could earn at most.
"""

import json
import sqlite3

from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import SEARCHED_WHOLE, Reading, Word
from orchestr8_sqlite.tiers.found import FILTERS, Found, filter_parameters, run

RANKED = f"""
query (word, term_id, gain, share, whole) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]')
      FROM json_each(:words)),
held (fragment_id, word, points) AS (
    SELECT e.fragment_id, q.word, q.gain * e.weight FROM query q CROSS JOIN evidence e ON e.term_id = q.term_id
    UNION ALL
    SELECT b.fragment_id, q.word, q.gain * b.weight
      FROM query q CROSS JOIN body_evidence b ON b.term_id = q.term_id WHERE q.whole),
earned (id, points) AS (
    SELECT fragment_id, sum(points) / 1000
      FROM (SELECT fragment_id, max(points) AS points FROM held GROUP BY fragment_id, word)
     GROUP BY fragment_id),
named (id, share) AS MATERIALIZED (
    SELECT fragment_id, min(1.0, sum(share) / 1000)
      FROM (SELECT e.fragment_id, max(q.share * e.name_share) AS share
              FROM query q CROSS JOIN evidence e ON e.term_id = q.term_id
             WHERE e.name_share GROUP BY e.fragment_id, q.word)
     GROUP BY fragment_id),
base (id, value) AS MATERIALIZED (
    SELECT e.id, e.points * (1 + {weights.NAME_BONUS} * coalesce(n.share, 0.0))
      FROM earned e LEFT JOIN named n ON n.id = e.id),
top (id, value) AS MATERIALIZED (SELECT id, value FROM base ORDER BY value DESC, id LIMIT {weights.FEEDBACK_DEPTH}),
seed (id, value) AS MATERIALIZED (SELECT id, value FROM top ORDER BY value DESC, id LIMIT {weights.FEEDBACK_SEEDS}),
learnt (term_id, strength) AS MATERIALIZED (
    SELECT t.term_id, sum(s.value) / (SELECT sum(value) FROM seed) * term.topic_rarity
      FROM seed s CROSS JOIN topic t ON t.fragment_id = s.id JOIN term ON term.id = t.term_id
     WHERE t.term_id NOT IN (SELECT term_id FROM query WHERE whole)
     GROUP BY t.term_id HAVING sum(s.value) > {weights.FEEDBACK_VOTES} * (SELECT sum(value) FROM seed)
     ORDER BY 2 DESC, term.stem LIMIT {weights.FEEDBACK_WORDS}),
unit (points) AS MATERIALIZED (
    SELECT {weights.FEEDBACK} * (SELECT max(value) FROM seed) / (SELECT sum(strength) FROM learnt)),
fitting (id, value) AS (
    SELECT id, value FROM base WHERE :unfiltered OR id IN (SELECT f.id FROM fragment f WHERE {FILTERS})),
candidate (id, value) AS MATERIALIZED (
    SELECT id, value FROM top WHERE :unfiltered
    UNION ALL
    SELECT id, value
      FROM (SELECT id, value FROM fitting WHERE NOT :unfiltered
             ORDER BY value DESC, id LIMIT {weights.FEEDBACK_DEPTH}))
"""
"""CTEs that rank: `base` holds every match, whatever the filters; `learnt` the words learnt from the best of them and
`unit` what one of those adds; `candidate` the best that pass the filters."""

DEFAULT_MATCHES = f"""
WITH {RANKED.strip()},
raised (id, value, total) AS (
    SELECT c.id, c.value,
           c.value + coalesce((SELECT points FROM unit)
                              * (SELECT sum(l.strength) FROM topic t CROSS JOIN learnt l ON l.term_id = t.term_id
                                  WHERE t.fragment_id = c.id), 0.0)
      FROM candidate c),
best AS MATERIALIZED (
    SELECT id, round(100 * total / (total + :half), 2) AS score
      FROM raised WHERE total >= :least ORDER BY score DESC, id LIMIT :limit)
SELECT best.id, f.uri, f.category, f.name, f.title, f.token_estimate, best.score,
       (SELECT s.text
          FROM scenario s
          LEFT JOIN posting p ON p.scenario_id = s.id AND p.keyword_id IN
               (SELECT k.id FROM query q JOIN term t ON t.id = q.term_id JOIN keyword k ON k.stem = t.stem
                 WHERE q.whole)
         WHERE s.fragment_id = best.id
         GROUP BY s.id ORDER BY count(p.keyword_id) DESC, s.ordinal LIMIT 1) AS scenario,
       (SELECT count(*) FROM fitting WHERE value >= :least)
       + (SELECT count(*) FROM raised WHERE total >= :least AND value < :least) AS total
  FROM best JOIN fragment f ON f.id = best.id
 ORDER BY best.score DESC, best.id
"""

ROUNDING = 0.005
"""Scores are printed with two decimals, and bounds are on the score as printed."""


def match_weighted(db: sqlite3.Connection, request: MatchRequest, reading: Reading) -> Found:
    """Return the fragments that hold any word of the request in any of its forms, best first; ties go by URI."""
    return run(db, DEFAULT_MATCHES, parameters(request, reading))


def parameters(request: MatchRequest, reading: Reading) -> dict[str, object]:
    """Return the parameters of the statements that rank."""
    number = {word.text: position for position, word in enumerate(reading.words)}
    rows = [
        (number[form.word.text], form.term_id, form.gain, form.gain / form.rarity, form.how in SEARCHED_WHOLE)
        for form in reading.forms
    ]
    half = weights.HALF_SCORE * _ideal(reading)
    bound = request.min_score - ROUNDING
    return {
        "words": json.dumps(rows),
        "half": half,
        "least": half * bound / max(100 - bound, 1e-9),
        "unfiltered": not request.is_filtered,
        **filter_parameters(request),
    }


def _ideal(reading: Reading) -> float:
    """Return what an ideal answer earns: the rarity of the rarest words, all that counts of a long request."""
    wanted = sorted((_wanted(word, reading) for word in reading.words), reverse=True)
    return sum(wanted[: weights.IDEAL_WORDS]) or 1.0


def _wanted(word: Word, reading: Reading) -> float:
    """Return what a word contributes to the ideal: its rarity, or where it is unknown that of its best form."""
    if word.term_id is not None:
        return word.rarity * word.weight
    forms = [form.gain for form in reading.forms if form.word.text == word.text]
    return max(forms, default=word.rarity * word.weight * weights.UNKNOWN_WORD)
