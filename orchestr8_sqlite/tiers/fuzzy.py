"""Tier 3 of the classic ranker: every fragment with any evidence in tags, capabilities or scenarios, weighed in Python.

The packed field postings hold all fragments whose words contain a query keyword (not a ranked guess at
the best), so nothing that a full scan would rank is lost.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Statement
from orchestr8_sqlite.packing import BLOCK, unpack_members
from orchestr8_sqlite.tiers.found import FILTERS, Found, filter_parameters, query_parameters

EVIDENCE = """
SELECT DISTINCT query.key, b.block, b.fragments, b.fields
  FROM json_each(:keywords) query
 CROSS JOIN keyword_suffix x ON x.suffix >= query.value AND x.suffix < query.value || char(1114111)
 CROSS JOIN field_block b ON b.keyword_id = x.keyword_id
 ORDER BY query.key
"""
FITTING = f"""
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate, wanted.value AS score, NULL AS scenario
  FROM json_each(:points) wanted CROSS JOIN fragment f ON f.id = CAST(wanted.key AS INTEGER)
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

FIELD_POINTS = {1: 10, 2: 8, 4: 5}
"""Points for a query keyword in a tag, a capability, a scenario; the keys are bits of field_posting.fields."""

MASK_POINTS = tuple(sum(points for bit, points in FIELD_POINTS.items() if mask & bit) for mask in range(64))
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
    levels: dict[int, list[int]] = defaultdict(list)
    for fragment, points in _points(db, keywords).items():
        levels[points + bonus].append(fragment)
    enough: list[Candidate] = []
    total = 0
    for points in sorted(levels, reverse=True):
        if points + SHORT_POINTS < request.min_score:
            break
        if not request.is_filtered and _is_settled(enough, points + SHORT_POINTS, request):
            total = _count_all(db, levels, request)
            break
        weighed = (_weigh(candidate) for candidate in _fitting(db, request, dict.fromkeys(levels[points], points)))
        enough += [candidate for candidate in weighed if candidate.score >= request.min_score]
    enough.sort(key=lambda candidate: (-candidate.score, candidate.uri))
    listed = _with_scenarios(db, enough[: request.max_results], keywords)
    statement = Statement(FUZZY_EVIDENCE, lambda: query_parameters(request, keywords))
    return Found(tuple(listed), min(max(total, len(enough)), COUNTED), statement)


def _points(db: sqlite3.Connection, keywords: Sequence[str]) -> dict[int, int]:
    """Return the points of all fragments with any evidence, before those that a fragment has by its kind."""
    points: dict[int, int] = defaultdict(int)
    for masks in _masks(db, keywords):
        for fragment, mask in masks.items():
            if MASK_POINTS[mask]:
                points[fragment] += MASK_POINTS[mask]
    return points


def _masks(db: sqlite3.Connection, keywords: Sequence[str]) -> Iterator[Mapping[int, int]]:
    """Yield, for each keyword that is contained anywhere, the fields of the fragments that have it there."""
    masks: dict[int, int] = {}
    last: int | None = None
    for key, block, members, fields in db.execute(EVIDENCE, {"keywords": json.dumps(list(keywords))}):
        if key != last:
            yield masks
            last, masks = key, {}
        first = block * BLOCK
        for member, mask in zip(unpack_members(members), fields, strict=True):
            fragment = first + member
            masks[fragment] = masks.get(fragment, 0) | mask
    yield masks


def _is_settled(enough: Sequence[Candidate], most: int, request: MatchRequest) -> bool:
    """Tell whether fragments with *most* points or fewer cannot change the list."""
    return sum(candidate.score > most for candidate in enough) >= request.max_results


def _count_all(db: sqlite3.Connection, levels: Mapping[int, Sequence[int]], request: MatchRequest) -> int:
    """Return how many fragments match where no filters decide: many of them without a look at the fragment."""
    least = request.min_score
    total = sum(len(fragments) for points, fragments in levels.items() if points >= least)
    doubtful = [one for points, some in levels.items() if least - SHORT_POINTS <= points < least for one in some]
    for start in range(0, len(doubtful), COUNTED):
        if total >= COUNTED:
            break
        asked = {"ids": str(doubtful[start : start + COUNTED]), "short": SHORT_TOKENS}
        total += db.execute(COUNT_SHORT, asked).fetchone()[0]
    return total


def _fitting(db: sqlite3.Connection, request: MatchRequest, points: Mapping[int, int]) -> list[Candidate]:
    """Return those of the fragments in *points* that the filters admit."""
    parameters = {"points": json.dumps(points), **filter_parameters(request)}
    return [Candidate(*row) for row in db.execute(FITTING, parameters)]


def _weigh(fragment: Candidate) -> Candidate:
    bonus = SHORT_POINTS if fragment.token_estimate < SHORT_TOKENS else 0
    return fragment._replace(score=float(fragment.score + bonus))


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
