"""The classic ranker: the points of the original design, for scenarios in tier 2 and for fields in tier 3."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from orchestr8_sqlite.index.connections import Reader
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.model.requests import Candidate, MatchRequest, Statement
from orchestr8_sqlite.ranking.filters import FILTERS, Found, filter_parameters, read_candidate
from orchestr8_sqlite.ranking.weights import CAPABILITY, LEAST_WORDS, SCENARIO, TAG
from orchestr8_sqlite.text.keywords import extract_keywords

EXACT_POINTS, PARTIAL_POINTS = 20, 10
FIELD_POINTS = {TAG: 10, CAPABILITY: 8, SCENARIO: 5}
CATEGORY_POINTS = 15
SHORT_POINTS = 5
SHORT_TOKENS = 1000

FEWEST_LETTERS = 3
"""Letters of the shortest word that the trigram index finds inside keywords; for shorter ones all are scanned."""

FEW_WORDS = 8
"""Requests with more words do not search for such short ones: most keywords contain one of many letter pairs."""

MOST_ROWS = 50_000
"""Most rows that tier 3 weighs; beyond that, the commonest words are left out, but never the rarest one."""

CONTAINING = """
    SELECT q.word, t.rowid, :partial
      FROM piece q CROSS JOIN keyword_text t WHERE q.match IS NOT NULL AND t.keyword_text MATCH q.match
     UNION ALL
    SELECT q.word, k.id, :partial
      FROM piece q CROSS JOIN keyword k
     WHERE :few AND q.points = :exact AND q.match IS NULL AND instr(k.text, q.text) > 0
"""
"""The keywords that contain a word of the request."""

PIECES = """
piece (word, text, points, match) AS MATERIALIZED (  -- the words of the request, each followed by its parts
    SELECT w.key, t.value, CASE WHEN t.key = 0 THEN :exact ELSE :partial END,
           CASE WHEN t.key = 0 AND length(t.value) >= :letters THEN '"' || replace(t.value, '"', '""') || '"' END
      FROM json_each(:words) w CROSS JOIN json_each(w.value) t)
"""
SCENARIO_MATCHES = gathered(
    f"""
WITH
{PIECES.strip()},
meant (word, keyword_id, points) AS MATERIALIZED (
    SELECT q.word, k.id, q.points FROM piece q CROSS JOIN keyword k WHERE k.text = q.text
     UNION ALL{CONTAINING.rstrip()}),
best (fragment_id, place) AS MATERIALIZED (  -- 65536 * score - ordinal: the first of equal scenarios wins
    SELECT fragment_id, max(place)
      FROM (SELECT fragment_id, CAST(sum(points) AS BIGINT) * 65536 - ordinal AS place
              FROM (SELECT p.fragment_id, p.ordinal, max(m.points) AS points
                      FROM meant m CROSS JOIN posting p WHERE p.keyword_id = m.keyword_id
                     GROUP BY p.fragment_id, p.ordinal, m.word) AS met
             GROUP BY fragment_id, ordinal HAVING max(points) = :exact) AS held
     GROUP BY fragment_id
    HAVING max(place) > 65536 * (:min_score - 1)
       AND (NOT :is_filtered OR EXISTS (SELECT 1 FROM fragment f WHERE f.id = fragment_id AND {FILTERS})))
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, (b.place + 65535) / 65536 AS score,
       (SELECT s.text FROM scenario s
         WHERE s.fragment_id = f.id AND s.ordinal = (b.place + 65535) / 65536 * 65536 - b.place) AS scenario,
       (SELECT count(*) FROM best) AS total
  FROM best b CROSS JOIN fragment f
 WHERE f.id = b.fragment_id
   AND b.place > 65536 * (coalesce(  -- skip scores below the last one listed
       (SELECT (place + 65535) / 65536 FROM best ORDER BY place DESC LIMIT 1 OFFSET :limit - 1), 0) - 1)
 ORDER BY score DESC, f.uri LIMIT :limit
""",
    order=[-7, 2],
    total=9,
)
FIELD_MATCHES = gathered(
    f"""
WITH
{PIECES.strip()},
meant (word, keyword_id, points) AS MATERIALIZED ({CONTAINING.rstrip()})
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, held.word, held.fields
  FROM (SELECT p.fragment_id, m.word, max(p.fields & 1) | max(p.fields & 2) | max(p.fields & 4) AS fields
          FROM meant m CROSS JOIN field_posting p WHERE p.keyword_id = m.keyword_id AND p.fields & 7 > 0
         GROUP BY p.fragment_id, m.word) held
 CROSS JOIN fragment f ON f.id = held.fragment_id
 WHERE NOT :is_filtered OR {FILTERS}
""",
)
"""The rows that tier 3 weighs: a fragment, a word of the request that its keywords contain, the fields that hold it."""

COUNTED = f"""
WITH
{PIECES.strip()},
meant (word, keyword_id, points) AS ({CONTAINING.rstrip()})
SELECT m.word, sum(k.fragment_count) FROM meant m CROSS JOIN keyword k ON k.id = m.keyword_id GROUP BY m.word
 ORDER BY 2, 1
"""
SCENARIO_COUNTS = """
SELECT k.text, k.scenario_count FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value
"""
SCENARIOS = gathered(
    """
SELECT s.fragment_id, s.text
  FROM json_each(:ids) wanted CROSS JOIN scenario s ON s.fragment_id = wanted.value
 ORDER BY s.fragment_id, s.ordinal
""",
    order=[1],
)


def match_scenarios(db: Reader, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the fragments with a scenario that holds any of *keywords*, best first; the best scenario of each counts.

    20 points for each keyword that the scenario holds, 10 for one that contains a word of it or is contained in one.
    Ties go by URI.

    Source: shared/seeds/index-lookup.md, "Scoring Algorithm".
    """
    words = [[word, *_contained(word)] for word in _rarest(db, keywords)]
    statement = Statement(SCENARIO_MATCHES, _parameters(request, words))
    rows = db.execute(statement.sql, statement.parameters).fetchall()
    candidates = tuple(read_candidate(row[:6], float(row[6]), row[7]) for row in rows)
    return Found(candidates, rows[0][-1] if rows else 0, statement)


def match_fields(db: Reader, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the fragments with a tag, capability or scenario word that contains any of *keywords*, best first.

    For each keyword: 10 points in a tag, 8 in a capability, 5 in a scenario, each once. 15 more if the request names
    categories, 5 more if the fragment has fewer than 1,000 tokens. Ties go by URI.

    Source: shared/seeds/system-design.md, "Scoring Algorithm".
    """
    words = [[word] for word in _rarest(db, keywords)]
    counted = db.execute(COUNTED, _parameters(request, words)).fetchall()
    taken, rows = set[int](), 0
    for number, count in counted:
        rows += count
        if not taken or rows <= MOST_ROWS:
            taken.add(number)
    statement = Statement(FIELD_MATCHES, _parameters(request, [words[number] for number in sorted(taken)]))
    scores: dict[tuple[Any, ...], int] = defaultdict(lambda: CATEGORY_POINTS if request.categories else 0)
    for *described, _, fields in db.execute(statement.sql, statement.parameters):
        scores[tuple(described)] += sum(points for bit, points in FIELD_POINTS.items() if fields & bit)
    weighed = (
        read_candidate(described, float(points + SHORT_POINTS * (described[5] < SHORT_TOKENS)), None)
        for described, points in scores.items()
    )
    fitting = sorted((one for one in weighed if one.score >= request.min_score), key=lambda one: (-one.score, one.uri))
    return Found(tuple(_with_scenarios(db, fitting[: request.max_results], keywords)), len(fitting), statement)


def _rarest(db: Reader, keywords: Sequence[str]) -> list[str]:
    """Return the keywords of a long request that count: the rarest in scenarios, then unknown ones, numbers last."""
    if len(keywords) <= LEAST_WORDS:
        return list(keywords)
    counts: dict[str, int] = dict(db.execute(SCENARIO_COUNTS, {"keywords": json.dumps(list(keywords))}))
    return sorted(keywords, key=lambda word: (word.isdigit(), not counts.get(word), counts.get(word, 0)))[:LEAST_WORDS]


def _contained(word: str) -> Iterator[str]:
    """Yield the parts of *word* that may be keywords: at least two letters, or one if it is not ASCII."""
    ends = len(word) + 1
    texts = {word[start:end] for start in range(len(word)) for end in range(start + 1, ends)} - {word}
    return (text for text in sorted(texts) if len(text) > 1 or not text.isascii())


def _parameters(request: MatchRequest, words: Sequence[Sequence[str]]) -> dict[str, object]:
    return {
        "words": json.dumps(words, ensure_ascii=False),
        "exact": EXACT_POINTS,
        "partial": PARTIAL_POINTS,
        "letters": FEWEST_LETTERS,
        "few": len(words) <= FEW_WORDS,
        "min_score": math.ceil(request.min_score),  # scores are whole
        **filter_parameters(request),
    }


def _with_scenarios(db: Reader, candidates: Sequence[Candidate], keywords: Sequence[str]) -> Iterator[Candidate]:
    """Yield each candidate with its scenario that holds the most keywords; the first one, if several do."""
    scenarios: dict[int, list[str]] = defaultdict(list)
    for id_, text in db.execute(SCENARIOS, {"ids": json.dumps([one.fragment_id for one in candidates])}):
        scenarios[id_].append(text)
    for candidate in candidates:
        texts = scenarios[candidate.fragment_id]
        yield candidate._replace(scenario=max(texts, key=lambda text: _count(keywords, text), default=None))


def _count(keywords: Sequence[str], text: str) -> int:
    """Return how many of *keywords* are contained in a word of *text*."""
    words = extract_keywords(text)
    return sum(any(keyword in word for word in words) for keyword in keywords)
