"""Tiers 2 and 3 of the default ranker: which fields hold which words of the query, weighed in one SQL statement.

For each word of the query and each fragment, x is the sum of the weights of the fields that hold the
word or an inflected form of it, and the word earns its rarity times x / (x + SATURATION): the first
field counts most, no single word can win by standing everywhere. Of the forms that a word may stand for
(itself, a repaired typo, …) the one that earns most counts. The share of the name's words that
the query covers is added. The printed score maps the sum, as a share of what the rarest words of the
query could earn, to 0..100.
"""

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence

from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers.expansion import Expansion
from orchestr8_sqlite.tiers.found import FILTERS, Found, filter_parameters, run

NAME, TITLE, DESCRIPTION, SCENARIO, CAPABILITY, TAG = 32, 16, 8, 4, 2, 1
WEIGHTS = {NAME: 6, TITLE: 4, TAG: 4, CAPABILITY: 2, SCENARIO: 2, DESCRIPTION: 2}
"""Weight of each field by its bit in field_posting.fields. These, SATURATION and NAME_SHARE were set on
judged queries over three libraries, measured with `orchestr8-sqlite eval`; they are not cross-validated."""

BODY_WEIGHT = 1
SATURATION = 4
NAME_SHARE = 0.3
BODY_COVERAGE = 0.4
"""How much a word found in the body alone counts as covered, where the share of the name is weighed."""

IDEAL_WORDS = 6
"""The rarest words of a query that its ideal answer is measured by; a long request need not be covered whole."""

UNKNOWN_WORD = 0.5
"""How much of a rarest word's rarity a word counts in the ideal that the index does not know."""

HALF_SCORE = 0.05
"""The squared share of the ideal that is printed as 50."""

DOCUMENT_FREQUENCIES = """
SELECT query.value, (SELECT count(*) FROM fragment_text WHERE fragment_text MATCH '"' || query.value || '"')
  FROM json_each(:words) query
"""

FIELD_SUM = " + ".join(f"{weight} * max(fields & {bit} > 0)" for bit, weight in WEIGHTS.items())

DEFAULT_MATCHES = f"""
WITH
query (word, form, stem, rarity, factor) AS (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]')
      FROM json_each(:words)),
evidence (fragment_id, word, form, rarity, fields) AS (
    SELECT p.fragment_id, query.word, query.form, query.rarity * query.factor, p.fields
      FROM query JOIN keyword k ON k.stem = query.stem JOIN field_posting p ON p.keyword_id = k.id
    UNION ALL
    SELECT body.rowid, query.word, query.form, query.rarity * query.factor, 0
      FROM query JOIN fragment_text body ON body.fragment_text MATCH 'body : "' || query.form || '"'),
found (fragment_id, word, rarity, weight, in_name, coverage) AS (
    SELECT fragment_id, word, rarity, {FIELD_SUM} + {BODY_WEIGHT} * max(fields = 0), max(fields & {NAME} > 0),
           CASE WHEN max(fields) > 0 THEN 1.0 ELSE {BODY_COVERAGE} END
      FROM evidence GROUP BY fragment_id, word, form),
best_form (fragment_id, earned, covered, named) AS (
    SELECT fragment_id, max(rarity * weight / (weight + {SATURATION}.0)), rarity * coverage, rarity * in_name
      FROM found GROUP BY fragment_id, word),
earned (fragment_id, words, coverage, name_rarity) AS (
    SELECT fragment_id, sum(earned), sum(covered), sum(named) FROM best_form GROUP BY fragment_id),
share AS (
    SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate,
           (earned.words + {NAME_SHARE} * earned.coverage * min(1.0, earned.name_rarity / max(f.name_weight, 1e-9)))
           / :ideal AS value
      FROM earned JOIN fragment f ON f.id = earned.fragment_id
     WHERE {FILTERS}),
scored AS (
    SELECT *, round(100 * value * value / (value * value + {HALF_SCORE}), 2) AS score FROM share),
best AS (
    SELECT *, count(*) OVER () AS total FROM scored
     WHERE score >= :min_score ORDER BY score DESC, uri LIMIT :limit)
SELECT best.id, best.uri, best.category, best.name, best.title, best.token_estimate, best.score,
       (SELECT s.text
          FROM scenario s
          LEFT JOIN posting p ON p.scenario_id = s.id AND p.keyword_id IN
               (SELECT k.id FROM query JOIN keyword k ON k.stem = query.stem)
         WHERE s.fragment_id = best.id
         GROUP BY s.id ORDER BY count(p.keyword_id) DESC, s.ordinal LIMIT 1) AS scenario,
       best.total
  FROM best ORDER BY best.score DESC, best.uri
"""


def match_weighted(
    db: sqlite3.Connection,
    request: MatchRequest,
    keywords: Sequence[str],
    counts: Mapping[str, int],
    expansions: Sequence[Expansion] = (),
) -> Found:
    """Return the fragments that hold any of *keywords* or an inflected form, best first; ties go by URI.

    Args:
        counts: In how many fragments each keyword stands.
        expansions: Other words that stand in for them.
    """
    words = list({stem(keyword): keyword for keyword in reversed(keywords)}.values())[::-1]
    size = _size(db)
    rarity = {word: _rarity(size, counts[word]) for word in words}
    forms = rarities(db, list({expansion.form for expansion in expansions}))
    rows = [(word, word, stem(word), rarity[word], 1.0) for word in words if counts[word]]
    rows += [(e.word, e.form, stem(e.form), forms[e.form], e.factor) for e in expansions if e.word in rarity]
    parameters = {
        "words": json.dumps(rows, ensure_ascii=False),
        "ideal": _ideal([_wanted(word, counts, rarity, forms, expansions) for word in words]),
        **filter_parameters(request),
    }
    return run(db, DEFAULT_MATCHES, parameters)


def _wanted(
    word: str,
    counts: Mapping[str, int],
    rarity: Mapping[str, float],
    forms: Mapping[str, float],
    expansions: Sequence[Expansion],
) -> float:
    """Return what a word contributes to the ideal: its rarity, or where it is unknown that of its best form."""
    if counts[word]:
        return rarity[word]
    known = [forms[expansion.form] for expansion in expansions if expansion.word == word]
    return max(known, default=rarity[word] * UNKNOWN_WORD)


def _ideal(rarity: Sequence[float]) -> float:
    """Return what an ideal answer earns: the rarity of the rarest words, all that counts of a long request."""
    return sum(sorted(rarity, reverse=True)[:IDEAL_WORDS]) or 1.0


def document_frequencies(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
    """Return in how many fragments each word stands anywhere, inflected forms included."""
    return dict(db.execute(DOCUMENT_FREQUENCIES, {"words": json.dumps(list(words), ensure_ascii=False)}))


def rarities(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, float]:
    """Return the inverse document frequency of each word: 0 for one that every fragment holds."""
    size = _size(db)
    return {word: _rarity(size, count) for word, count in document_frequencies(db, words).items()}


def name_words(name: str) -> list[str]:
    """Return the words that a fragment's name consists of, each inflected form once."""
    parts = extract_keywords(name.replace("-", " ").replace("_", " "))
    return list({stem(part): part for part in parts}.values())


def _rarity(size: int, count: int) -> float:
    return math.log(1 + (size - count + 0.5) / (count + 0.5))


def _size(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM fragment").fetchone()[0])
