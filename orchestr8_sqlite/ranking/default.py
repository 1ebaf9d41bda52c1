"""Tiers 2 and 3 of the default ranker: one statement that finds, weighs and orders.

A word earns its rarity times its weight in the fragment; if it has several forms, the one that earns most counts. Words
that FTS5 finds in the body earn a little. The best fragments gain by the share of their names that the request covers,
by words that the names, titles and tags of the best have in common, and by how much of what they say is met: there,
every form of a word counts. The printed score maps the sum to 0..100, relative to the most that the request's rarest
words can earn.

Until names are counted, points are whole numbers, millionths of a rarity: their sum is the same in any order.
"""

import json
from collections import Counter

from orchestr8_sqlite.index.connections import Reader
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.index.matching import BODY, match_of
from orchestr8_sqlite.model.requests import MatchRequest, Statement
from orchestr8_sqlite.ranking import weights
from orchestr8_sqlite.ranking.filters import FILTERS, Found, filter_parameters, read_candidate
from orchestr8_sqlite.ranking.reading import SAID, Form, Reading

WORDS = """
form (number, word, text, how, stem, gain, own, alone, body) AS MATERIALIZED (  -- the forms that stand for each word
    SELECT CAST(json_extract(value, '$[0]') AS BIGINT), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]'),
           CAST(json_extract(value, '$[5]') AS DOUBLE PRECISION), CAST(json_extract(value, '$[6]') AS BIGINT),
           CAST(json_extract(value, '$[7]') AS BIGINT), json_extract(value, '$[8]')
      FROM json_each(:words)),
wanted (keyword_id, number, gain, own, alone) AS MATERIALIZED (
    SELECT k.id, f.number, f.gain, f.own, f.alone FROM form f CROSS JOIN keyword k WHERE k.stem = f.stem)
"""
FOUND = f"""
found (id, points, met) AS MATERIALIZED (  -- points counts the best form of each word, met all
    SELECT fragment_id, sum(points), sum(met)
      FROM (SELECT p.fragment_id, w.gain * p.weight AS points, w.gain * p.weight AS met  -- a single form is the best
              FROM wanted w CROSS JOIN field_posting p
             WHERE w.alone = 1 AND p.keyword_id = w.keyword_id AND p.weight > 0
             UNION ALL
            SELECT fragment_id, max(points), sum(points)
              FROM (SELECT p.fragment_id, w.number, w.gain * p.weight AS points
                      FROM wanted w CROSS JOIN field_posting p
                     WHERE w.alone = 0 AND p.keyword_id = w.keyword_id AND p.weight > 0) AS earned
             GROUP BY fragment_id, number
             UNION ALL
            SELECT t.rowid, f.gain * :body_weight, f.gain * :body_weight
              FROM form f CROSS JOIN fragment_text t
             WHERE f.body IS NOT NULL AND t.fragment_text MATCH f.body) AS earned
     GROUP BY fragment_id
    HAVING NOT :is_filtered OR EXISTS (SELECT 1 FROM fragment f WHERE f.id = fragment_id AND {FILTERS})),
counted (matches) AS (
    SELECT count(*) FROM found WHERE points >= :least)
"""
BOUND = """
bound (points) AS MATERIALIZED (  -- fragments that reach it are looked at more closely
    SELECT min(points) FROM (SELECT points FROM found ORDER BY points DESC LIMIT :raised) AS best)
"""
RAISED = f"""
{BOUND.strip()},
named (id, uri, points, focus, value) AS MATERIALIZED (
    SELECT c.id, f.uri, c.points, c.met / l.norm,
           c.points * (1 + :name_bonus * min(1.0, coalesce(
               (SELECT sum(t.share) FROM rank_topic t
                 WHERE t.fragment_id = c.id AND t.stem IN (SELECT stem FROM form)), 0) / 1000.0))
      FROM found c CROSS JOIN fragment f CROSS JOIN rank_length l
     WHERE f.id = c.id AND l.fragment_id = c.id AND c.points >= (SELECT points FROM bound)),
seed (id, value) AS MATERIALIZED (
    SELECT id, value FROM named ORDER BY value DESC, uri LIMIT :seeds),
learnt (stem, strength) AS MATERIALIZED (  -- what the names, titles and tags of the best have in common
    SELECT s.stem, v.votes * s.topic_rarity
      FROM (SELECT t.stem, sum(seed.value) AS votes
              FROM seed CROSS JOIN rank_topic t WHERE t.fragment_id = seed.id
             GROUP BY t.stem HAVING sum(seed.value) > :votes * (SELECT sum(value) FROM seed)) AS v
     CROSS JOIN rank_stem s
     WHERE s.stem = v.stem AND s.topic_count > 1 AND s.stem NOT IN (SELECT stem FROM form WHERE own = 1)
     ORDER BY 2 DESC, 1 LIMIT :learnt_words),
unit (points) AS MATERIALIZED (  -- what a strength of 1 adds
    SELECT :feedback * (SELECT max(value) FROM named) / nullif((SELECT sum(strength) FROM learnt), 0)),
taught (id, uri, points, focus, value) AS MATERIALIZED (
    SELECT n.id, n.uri, n.points, n.focus, n.value + coalesce((SELECT points FROM unit) * (
               SELECT sum(l.strength) FROM rank_topic t CROSS JOIN learnt l
                WHERE t.fragment_id = n.id AND l.stem = t.stem), 0)
      FROM named n),
raised (id, uri, points, value) AS MATERIALIZED (
    SELECT id, uri, points, value * (1 + :focus * focus / nullif((SELECT max(focus) FROM named), 0)) FROM taught)
"""
LISTED = """
taken (places) AS MATERIALIZED (
    SELECT count(DISTINCT coalesce(n.first_id, r.id)) FROM raised r LEFT JOIN near_copy n ON n.fragment_id = r.id),
scored (id, uri, score) AS MATERIALIZED (
    SELECT id, uri, round(100 * value / (value + :half), 2)
      FROM (SELECT id, uri, value FROM raised
             UNION ALL
            SELECT c.id, f.uri, c.points FROM taken t CROSS JOIN found c CROSS JOIN fragment f
             WHERE :limit > t.places AND f.id = c.id AND c.points < (SELECT points FROM bound)) AS valued
     WHERE value >= :least),
listed (id, uri, score, total) AS MATERIALIZED (
    SELECT s.id, s.uri, s.score, (SELECT matches FROM counted)
           + (SELECT count(*) FROM raised WHERE points < :least AND value >= :least)
      FROM scored s LEFT JOIN near_copy n ON n.fragment_id = s.id
     WHERE n.first_id IS NULL OR s.id = (  -- the best of near-copies takes the place of all
           SELECT b.id FROM near_copy c CROSS JOIN scored b
            WHERE c.first_id = n.first_id AND b.id = c.fragment_id
            ORDER BY b.score DESC, b.uri LIMIT 1)
     ORDER BY s.score DESC, s.uri LIMIT :limit)
"""
SHOWN = """
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, b.score,
       CASE WHEN :described THEN (
            SELECT s.text FROM scenario s  -- the one that holds most words of the request
             WHERE s.fragment_id = b.id AND s.ordinal = coalesce(
                   (SELECT p.ordinal FROM wanted w CROSS JOIN posting p
                     WHERE w.own = 1 AND p.keyword_id = w.keyword_id AND p.fragment_id = b.id
                     GROUP BY p.ordinal ORDER BY count(DISTINCT w.number) DESC, p.ordinal LIMIT 1), 0)) END AS scenario,
       b.total
  FROM listed b CROSS JOIN fragment f
 WHERE f.id = b.id
 ORDER BY b.score DESC, b.uri
"""
VALUED = """
valued (id, points, named, taught, value, is_raised) AS MATERIALIZED (  -- what a fragment has gained at each step
    SELECT n.id, n.points, n.value, t.value, r.value, 1
      FROM named n CROSS JOIN taught t CROSS JOIN raised r WHERE t.id = n.id AND r.id = n.id
     UNION ALL
    SELECT id, points, points, points, points, 0 FROM found WHERE points < (SELECT points FROM bound))
"""
LESSON = """
lesson (stem, points) AS MATERIALIZED (
    SELECT stem, strength * (SELECT points FROM unit) FROM learnt)
"""
EXPLAINED = """
held (id, number, word, form, how, fields, points, place) AS (  -- a form, and its place among those of its word
    SELECT id, number, word, CASE WHEN is_said = 1 THEN text ELSE other END,
           CASE WHEN how = 'exact' AND is_said = 0 THEN 'stem' ELSE how END, fields, points,
           row_number() OVER (PARTITION BY id, number ORDER BY points DESC, stem)
      FROM (SELECT p.fragment_id AS id, f.number, f.word, f.text, f.how, f.stem, min(k.text) AS other,
                   max(CASE WHEN k.text = f.text THEN 1 ELSE 0 END) AS is_said,
                   max(p.fields & 32) | max(p.fields & 16) | max(p.fields & 8) | max(p.fields & 4)
                       | max(p.fields & 2) | max(p.fields & 1) AS fields,
                   sum(f.gain * p.weight) AS points
              FROM form f CROSS JOIN keyword k CROSS JOIN json_each(:ids) wanted CROSS JOIN field_posting p
             WHERE k.stem = f.stem AND p.keyword_id = k.id AND p.fragment_id = wanted.value
             GROUP BY p.fragment_id, f.number, f.word, f.text, f.how, f.stem) AS found),
part (id, word, form, how, fields, points) AS (
    SELECT id, word, form, how, fields, points FROM held WHERE place = 1
     UNION ALL
    SELECT t.rowid, f.word, f.text, f.how, 0, f.gain * :body_weight
      FROM form f CROSS JOIN fragment_text t
     WHERE f.body IS NOT NULL AND t.fragment_text MATCH f.body AND t.rowid IN (SELECT value FROM json_each(:ids))
     UNION ALL
    SELECT id, NULL, '', 'name', 32, named - points FROM valued
     UNION ALL
    SELECT t.fragment_id, NULL,
           (SELECT text FROM keyword k WHERE k.stem = l.stem ORDER BY k.fragment_count DESC, k.text LIMIT 1),
           'learnt', 0, l.points
      FROM lesson l CROSS JOIN valued v CROSS JOIN rank_topic t
     WHERE v.is_raised = 1 AND t.fragment_id = v.id AND t.stem = l.stem
     UNION ALL
    SELECT id, NULL, '', 'focus', 0, value - taught FROM valued)
SELECT f.id, f.uri, part.word, part.form, part.how, part.fields,
       100 * part.points / (v.value + :half) AS points
  FROM json_each(:ids) wanted
 CROSS JOIN fragment f
 CROSS JOIN valued v
 CROSS JOIN part
 WHERE f.id = wanted.value AND v.id = f.id AND part.id = f.id AND part.points > 0
 ORDER BY f.uri, points DESC, part.word, part.form
"""

KEPT = f"""
WITH
{WORDS.strip()},
{FOUND.strip()},
{BOUND.strip()}
SELECT c.id, c.points, c.met, f.uri, l.norm, n.first_id,
       CASE WHEN row_number() OVER (ORDER BY c.id) = 1 THEN (SELECT matches FROM counted) ELSE 0 END AS matches
  FROM found c CROSS JOIN fragment f CROSS JOIN rank_length l
  LEFT JOIN near_copy n ON n.fragment_id = c.id
 WHERE f.id = c.id AND l.fragment_id = c.id AND c.points >= (SELECT points FROM bound)
"""
"""What a shard has that may be raised. The first row also counts the fragments that match there."""

BEST_KEPT = "(SELECT min(points) FROM (SELECT points FROM kept ORDER BY points DESC LIMIT :raised) AS best)"
TOPICS = f"""
SELECT t.fragment_id, t.stem, t.share
  FROM kept k CROSS JOIN rank_topic t WHERE t.fragment_id = k.id AND k.points >= {BEST_KEPT}
"""
OTHERS = f"""
WITH
{WORDS.strip()},
{FOUND.strip()},
taken (places) AS MATERIALIZED (
    SELECT count(DISTINCT coalesce(first_id, id)) FROM kept WHERE points >= {BEST_KEPT}),
other (id, points, met, uri, norm, first_id, score) AS MATERIALIZED (
    SELECT c.id, c.points, c.met, f.uri, l.norm, n.first_id, round(100 * c.points / (c.points + :half), 2)
      FROM taken t CROSS JOIN found c CROSS JOIN fragment f CROSS JOIN rank_length l
      LEFT JOIN near_copy n ON n.fragment_id = c.id
     WHERE :limit > t.places AND f.id = c.id AND l.fragment_id = c.id AND c.points >= :least
       AND c.id NOT IN (SELECT id FROM kept)),
placed (id, points, met, uri, norm, first_id, score, place) AS (
    SELECT o.*, row_number() OVER (PARTITION BY coalesce(first_id, id) ORDER BY score DESC, uri) FROM other o)
SELECT id, points, met, uri, norm, first_id FROM placed WHERE place = 1 ORDER BY score DESC, uri LIMIT :limit
"""
"""What a shard has that may be listed though it is not raised, if near-copies leave places: the best of each group."""

TOGETHER = f"""
WITH
{WORDS.strip()},
held (id, points, met, uri, norm, first_id) AS MATERIALIZED (
    SELECT id, points, met, uri, norm, first_id FROM kept
     UNION ALL SELECT id, points, met, uri, norm, first_id FROM others),
found (id, points, met) AS MATERIALIZED (SELECT id, points, met FROM held),
counted (matches) AS (SELECT CAST(coalesce(sum(matches), 0) AS BIGINT) FROM kept),
fragment (id, uri) AS MATERIALIZED (SELECT id, uri FROM held),
rank_length (fragment_id, norm) AS MATERIALIZED (SELECT id, norm FROM held),
near_copy (fragment_id, first_id) AS MATERIALIZED (SELECT id, first_id FROM held WHERE first_id IS NOT NULL),
{RAISED.strip()}"""
"""What all shards have kept, in place of their tables."""

COLLECTED = (Step("kept", KEPT), Step("rank_topic", TOPICS), Step("others", OTHERS))

MATCHES = gathered(
    f"""
WITH
{WORDS.strip()},
{FOUND.strip()},
{RAISED.strip()},
{LISTED.strip()}
{SHOWN.strip()}
""",
    *COLLECTED,
    Step("listed", f"{TOGETHER},\n{LISTED.strip()}\nSELECT id, uri, score, total FROM listed", alone=True),
    last=f"WITH\n{WORDS.strip()}\n{SHOWN.strip()}",
    order=(-7, 2),
)
PARTS = gathered(
    f"""
WITH
{WORDS.strip()},
{FOUND.strip()},
{RAISED.strip()},
{VALUED.strip()},
{LESSON.strip()},
{EXPLAINED.strip()}
""",
    *COLLECTED,
    Step("valued", f"{TOGETHER},\n{VALUED.strip()}\nSELECT * FROM valued", alone=True),
    Step("lesson", f"{TOGETHER},\n{LESSON.strip()}\nSELECT * FROM lesson", alone=True),
    last=f"WITH\n{WORDS.strip()},\n{EXPLAINED.strip()}",
)
"""The parts of the scores of the fragments `:ids`; it also takes the parameters of MATCHES."""

HELD = """
SELECT p.fragment_id, form.key, p.fields
  FROM json_each(:forms) form
 CROSS JOIN keyword k ON k.stem = json_extract(form.value, '$[0]')
 CROSS JOIN json_each(:ids) wanted
 CROSS JOIN field_posting p ON p.keyword_id = k.id AND p.fragment_id = wanted.value
"""
"""Which of the fragments `:ids` hold which form in which fields; one row for each keyword of the form."""

HELD_IN_BODIES = """
SELECT t.rowid, pair.form
  FROM (SELECT CAST(json_extract(value, '$[0]') AS BIGINT) AS fragment_id,
               CAST(json_extract(value, '$[1]') AS BIGINT) AS form, json_extract(value, '$[2]') AS body
          FROM json_each(:pairs)) AS pair
 CROSS JOIN fragment_text t
 WHERE t.fragment_text MATCH pair.body AND t.rowid = pair.fragment_id
"""
"""Which pairs of a fragment and a form match in the body; FTS5 finds a single fragment quickly."""

ROUNDING = 0.005
"""Scores are printed with two decimals, and bounds apply to the printed score."""

UNIT = 1_000_000
"""Points of a word that earns its whole rarity: thousandths of a gain times thousandths of a weight."""


def rank(db: Reader, request: MatchRequest, reading: Reading, *, scenarios: bool = True) -> Found:
    """Return the fragments that hold words of the request, best first; equal scores by URI.

    Args:
        scenarios: Whether each comes with its scenario that holds the most words of the request.
    """
    statement = Statement(MATCHES, rank_parameters(db, request, reading, scenarios=scenarios))
    rows = db.execute(statement.sql, statement.parameters).fetchall()
    candidates = tuple(read_candidate(row[:6], row[6], row[7]) for row in rows)
    return Found(candidates, rows[0][-1] if rows else 0, statement)


def rank_parameters(db: Reader, request: MatchRequest, reading: Reading, *, scenarios: bool) -> dict[str, object]:
    """Return the parameters of MATCHES."""
    half = weights.HALF_SCORE * reading.ideal
    bound = request.min_score - ROUNDING
    return {
        "words": json.dumps(form_rows(db, reading), ensure_ascii=False),
        **filter_parameters(request),
        "least": UNIT * half * bound / max(100 - bound, 1e-9),
        "half": UNIT * half,
        "described": scenarios,
        "body_weight": weights.BODY_WEIGHT,
        "raised": weights.RAISED,
        "name_bonus": weights.NAME_BONUS,
        "seeds": weights.FEEDBACK_SEEDS,
        "votes": weights.FEEDBACK_VOTES,
        "learnt_words": weights.FEEDBACK_WORDS,
        "feedback": weights.FEEDBACK,
        "focus": weights.FOCUS,
    }


def form_rows(db: Reader, reading: Reading) -> list[tuple[object, ...]]:
    """Return a row of `form` for each form of the request, in the same order; a term counts as one word."""
    units = [(form.word.term, "" if form.word.term else form.word.text) for form in reading.forms]
    numbers = {unit: number for number, unit in enumerate(dict.fromkeys(units))}
    sizes = Counter(units)
    return [
        (
            numbers[unit],
            form.word.term or form.word.text,
            form.text,
            form.how,
            form.stem,
            round(1000 * form.gain),
            int(form.how in SAID),
            int(sizes[unit] == 1),
            body_match(db, form) if reading.searches_bodies(form) else None,
        )
        for form, unit in zip(reading.forms, units, strict=True)
    ]


def body_match(db: Reader, form: Form) -> str:
    """Return the MATCH expression that finds *form* in bodies."""
    return match_of(db, [form.text], BODY)
