"""Tier 3 of the classic ranker: every fragment with any evidence in tags, capabilities or scenarios, weighed in Python.

The packed field postings hold all fragments whose words contain a query keyword (not a ranked guess at
the best), so nothing that a full scan would rank is lost.
"""

import json
import math
import sqlite3
from collections.abc import Sequence

from orchestr8_sqlite.connections import stop_if_abandoned
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers.field_points import FieldPoints, Placed, new_field_points
from orchestr8_sqlite.tiers.found import FILTERS, Filter, Found, filter_parameters, query_parameters
from orchestr8_sqlite.tiers.kept import kept_by

EVIDENCE = """
SELECT b.block, b.fragments, b.fields
  FROM (SELECT DISTINCT x.keyword_id FROM keyword_suffix x
         WHERE x.suffix >= :keyword AND x.suffix < :keyword || char(1114111)) containing
 CROSS JOIN field_block b ON b.keyword_id = containing.keyword_id
"""
FITTING = f"""
SELECT f.id, f.token_estimate < :short
  FROM json_each(:ids) wanted CROSS JOIN fragment f ON f.id = wanted.value
 WHERE {FILTERS}
"""
COUNT_SHORT = """
SELECT count(*)
  FROM json_each(:ids) wanted CROSS JOIN fragment f ON f.id = wanted.value
 WHERE f.token_estimate < :short
"""
FUZZY_EVIDENCE = f"""
SELECT f.uri, query.value AS keyword, k.text AS held, p.fields
  FROM json_each(:keywords) query
 CROSS JOIN keyword_suffix x ON x.suffix >= query.value AND x.suffix < query.value || char(1114111)
 CROSS JOIN keyword k ON k.id = x.keyword_id
 CROSS JOIN field_posting p ON p.keyword_id = k.id
 CROSS JOIN fragment f ON f.id = p.fragment_id
 WHERE p.fields & 7 AND {FILTERS}
 ORDER BY f.uri, keyword, held
"""
"""What people can run to see the evidence of an answer."""

BEST_SCENARIOS = """
SELECT s.fragment_id, s.text, s.ordinal
  FROM scenario s JOIN json_each(:ids) wanted ON s.fragment_id = wanted.value
 ORDER BY s.fragment_id, s.ordinal
"""

CATEGORY_POINTS = 15
SHORT_POINTS = 5
SHORT_TOKENS = 1000


def match_fuzzy(db: sqlite3.Connection, request: MatchRequest, keywords: Sequence[str]) -> Found:
    """Return the fragments with any of *keywords* inside a tag, capability or scenario word, best first.

    For each keyword: 10 points in a tag, 8 in a capability, 5 in a scenario, each once; 15 more where
    the request names categories, 5 more below 1,000 tokens. Ties go by URI.

    Source: shared/seeds/system-design.md, "Scoring Algorithm".
    """
    bonus = CATEGORY_POINTS if request.categories else 0  # whoever is of another category is not admitted
    kept = kept_by(db)
    points = new_field_points(kept.size, lambda: kept.last_fragment)
    for keyword in keywords:
        stop_if_abandoned(db)
        points.add(db.execute(EVIDENCE, {"keyword": keyword}))
    few = Filter(db, request).few()
    if few is not None:
        points.keep(few)
    best, total = _find_best(db, request, points, bonus)
    fragments = kept.fragments([fragment for _, _, fragment in best])
    candidates = [Candidate(*fragments[fragment], float(-score), None) for score, _, fragment in best]
    statement = Statement(FUZZY_EVIDENCE, lambda: query_parameters(request, keywords))
    return Found(tuple(_with_scenarios(db, candidates, keywords)), min(total, COUNTED), statement)


def _find_best(
    db: sqlite3.Connection, request: MatchRequest, points: FieldPoints, bonus: int
) -> tuple[list[Placed], int]:
    """Return as many of the best as *request* wants, with their scores for points, and how many match, up to COUNTED.

    A fragment has the points that it is looked at for or SHORT_POINTS more, so a list is settled before all are read.
    """
    best: list[Placed] = []
    total = 0
    for piece in points.best_first(kept_by(db).places):
        next_, place, _ = piece[0]
        highest = next_ - bonus - SHORT_POINTS
        if -highest < request.min_score:
            break
        if len(best) == request.max_results and best[-1] < (highest, place, 0):
            if not request.is_filtered:
                return best, _count_all(db, points, math.ceil(request.min_score) - bonus)
            if total >= COUNTED:
                break
        stop_if_abandoned(db)
        fitting = _weigh(db, request, piece, bonus)
        total += len(fitting)
        best = sorted(best + fitting)[: request.max_results]
    return best, total


def _weigh(db: sqlite3.Connection, request: MatchRequest, piece: Sequence[Placed], bonus: int) -> list[Placed]:
    """Return those of *piece* that match, with their scores for points."""
    asked = {"ids": str(sorted([fragment for _, _, fragment in piece])), "short": SHORT_TOKENS}
    short: dict[int, int] = dict(db.execute(FITTING, {**filter_parameters(request), **asked}))
    scored = [
        (points - bonus - SHORT_POINTS * short[fragment], place, fragment)
        for points, place, fragment in piece
        if fragment in short
    ]
    return [one for one in scored if -one[0] >= request.min_score]


def _count_all(db: sqlite3.Connection, points: FieldPoints, least: int) -> int:
    """Return how many fragments have *least* points with those for being short: most of them are not looked at.

    Args:
        least: That many, where no filters decide; COUNTED for that many or more.
    """
    total = sum(count for held, count in points.counts().items() if held >= least)
    doubtful = points.between(least - SHORT_POINTS, least - 1) if total < COUNTED else []
    for start in range(0, len(doubtful), COUNTED):
        if total >= COUNTED:
            break
        asked = {"ids": str([*map(int, doubtful[start : start + COUNTED])]), "short": SHORT_TOKENS}
        total += db.execute(COUNT_SHORT, asked).fetchone()[0]
    return total


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
