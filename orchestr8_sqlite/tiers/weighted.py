"""Tiers 2 and 3 of the default ranker: which fields hold which words of the request, weighed and added up.

A word earns its rarity times the weight of its evidence in the fragment; of the forms that a word may stand for,
the one that earns most counts. Added are a bonus for the share of the name's words that the request covers, and
what is learnt from the best fragments: the words that their names, titles and tags have in common. The printed
score maps the sum to 0..100 by what the rarest words of the request could earn at most.

`reference.py` says the same in one SQL statement.
"""

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import Form, Reading, Word
from orchestr8_sqlite.tiers.found import LAST_FRAGMENT, Filter, Found
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.reference import reference_statement
from orchestr8_sqlite.tiers.sums import PlainSums, Points, Sums, new_sums
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS, topic_rarity_of

URIS = "SELECT id, uri FROM fragment WHERE id IN (SELECT value FROM json_each(:ids))"
LISTED = """
SELECT id, uri, category, name, title, token_estimate FROM fragment WHERE id IN (SELECT value FROM json_each(:ids))
"""
TAGGED = "SELECT fragment_id FROM tag WHERE tag = :tag"
TOPIC_COUNTS = "SELECT stem, topic_count FROM term WHERE stem IN (SELECT value FROM json_each(:stems))"
SCENARIOS = """
WITH word (id) AS MATERIALIZED (SELECT k.id FROM json_each(:stems) CROSS JOIN keyword k ON k.stem = value)
SELECT s.fragment_id, s.text,
       (SELECT count(*) FROM word CROSS JOIN posting p ON p.keyword_id = word.id AND p.scenario_id = s.id)
  FROM json_each(:ids) CROSS JOIN scenario s ON s.fragment_id = value ORDER BY s.fragment_id, s.ordinal
"""

FIRST_CHECKED = 512
"""Best matches that are looked through for those that pass the filters, then twice as many and so on."""

Values = dict[int, float]
"""Fragment number → points."""


class Ranking(NamedTuple):
    """How the fragments that hold anything of a request rank.

    `earned` are the points of their evidence, `named` the share of their names that the request covers (1 at most
    counts), `best` their sums with both for those that an answer may list, best first, `learnt` what each word adds
    that these have in common, and `topics` who of them has which.
    """

    earned: Sums
    named: Sums
    best: Values
    learnt: Mapping[str, float]
    topics: Mapping[int, Sequence[str]]

    def total(self, number: int) -> float:
        """Return all points of a fragment in `best`."""
        held = self.learnt.keys() & self.topics[number]
        return self.best[number] + sum(sorted(map(self.learnt.__getitem__, held))) if held else self.best[number]


class Ranked(NamedTuple):
    """The scores (0 to 100) of the fragments that may be listed, how many match, and what that rests on."""

    scores: Values
    total: int
    ranking: Ranking
    statement: Statement


def match_weighted(request: MatchRequest, reading: Reading, holders: Holders) -> Found:
    """Return the fragments that hold any word of the request in any of its forms, best first; ties go by URI."""
    return list_best(rank(request, reading, holders), request, reading, holders)


def rank(request: MatchRequest, reading: Reading, holders: Holders) -> Ranked:
    """Return how the fragments rank that hold any word of the request in any of its forms."""
    half = weights.HALF_SCORE * ideal(reading)
    bound = request.min_score - ROUNDING
    least = half * bound / max(100 - bound, 1e-9)
    holders.read(reading)
    earned, named = weigh_all(reading, holders)
    values = earned.raised(named, weights.NAME_BONUS)
    top = order_best(holders.db, values, weights.FEEDBACK_DEPTH)
    learnt, topics = learn(reading, holders, top)
    if request.is_filtered:
        best, counted = filter_values(holders.db, values, request, least)
        topics |= holders.topics(best.keys() - topics.keys())
    else:
        best, counted = top, values.count(least)
    ranking = Ranking(earned, named, best, learnt, topics)
    totals = {number: ranking.total(number) for number in best}
    counted += sum(total >= least > best[number] for number, total in totals.items())
    scores = {n: round(100 * total / (total + half), 2) for n, total in totals.items() if total >= least}
    return Ranked(scores, min(counted, COUNTED), ranking, reference_statement(request, reading, half, least))


def list_best(ranked: Ranked, request: MatchRequest, reading: Reading, holders: Holders) -> Found:
    """Return as many of the best as the request wants, each with its scenario that holds most of the request."""
    db, scores = holders.db, ranked.scores
    numbers = list(order_best(db, PlainSums(scores), request.max_results))
    described = {row[0]: row for row in db.execute(LISTED, {"ids": json.dumps(numbers)})}
    scenarios = _best_scenarios(db, numbers, reading)
    listed = []
    for number in numbers:
        _, uri, category, name, title, tokens = described[number]
        listed.append(Candidate(number, uri, category, name, title, tokens, scores[number], scenarios.get(number)))
    return Found(tuple(listed), ranked.total, ranked.statement)


ROUNDING = 0.005
"""Scores are printed with two decimals, and bounds are on the score as printed."""


def weigh_all(reading: Reading, holders: Holders) -> tuple[Sums, Sums]:
    """Return what every fragment that holds any form earns by its evidence, and the shares of the names covered."""
    forms: dict[str, list[Form]] = defaultdict(list)
    for form in reading.forms:
        forms[form.word.text].append(form)
    highest = holders.db.execute(LAST_FRAGMENT).fetchone()[0] or 0
    earned, named = new_sums(reading.size, highest), new_sums(reading.size, highest)
    for own in forms.values():
        earned.add_word(points for form in own for points in _points(form, reading, holders))
        named.add_word(points for form in own for points in _name_points(form, holders))
    return earned, named


def _points(form: Form, reading: Reading, holders: Holders) -> Iterator[Points]:
    """Yield what a form gives to the fragments that hold it."""
    gain = form.gain / 1000
    for body in holders.bodies(form, reading):
        yield Points(body.first, body.members, body.counts, [gain * weight for weight in BODY_WEIGHTS])
    for short in holders.short(form):
        yield Points(short.first, short.members, short.weights, gain)


def _name_points(form: Form, holders: Holders) -> Iterator[Points]:
    """Yield the shares of their names that a form covers."""
    share = form.gain / form.rarity / 1000
    for short in holders.short(form):
        if short.named:
            yield Points(short.first, short.named, short.shares, share)


def order_best(db: sqlite3.Connection, values: Sums, depth: int) -> Values:
    """Return the *depth* best of *values*, best first; equal ones by URI."""
    chosen = values.best(depth)
    rounded = {number: round(value, 12) for number, value in chosen.items()}  # the rest is the order of adding
    often = Counter(rounded.values())
    uris = _uris(db, [number for number, value in rounded.items() if often[value] > 1])
    order = sorted(chosen, key=lambda number: (-rounded[number], uris.get(number, "")))
    return {number: chosen[number] for number in order[:depth]}


def _uris(db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, str]:
    return dict(db.execute(URIS, {"ids": json.dumps(numbers)}).fetchall()) if numbers else {}


def learn(reading: Reading, holders: Holders, top: Values) -> tuple[dict[str, float], dict[int, Sequence[str]]]:
    """Return what each word adds that the best fragments have in common, and the topics of those in *top*.

    The best fragments vote for the words of their names, titles and tags with what they have earned.
    """
    topics = holders.topics(top)
    seeds = list(islice(top.items(), weights.FEEDBACK_SEEDS))
    given = sum(value for _, value in seeds)
    votes: defaultdict[str, float] = defaultdict(float)
    for number, value in seeds:
        for stem in topics.get(number, ()):
            votes[stem] += value
    elected = {
        stem: sum_
        for stem, sum_ in votes.items()
        if sum_ > weights.FEEDBACK_VOTES * given and stem not in reading.stems
    }
    rows = holders.db.execute(TOPIC_COUNTS, {"stems": json.dumps(list(elected))}) if elected else ()
    strengths = {
        stem: elected[stem] / given * topic_rarity_of(reading.size, count) for stem, count in rows if count > 1
    }
    chosen = sorted(strengths, key=lambda stem: (-round(strengths[stem], 12), stem))[: weights.FEEDBACK_WORDS]
    whole = sum(strengths[stem] for stem in chosen)
    unit = weights.FEEDBACK * seeds[0][1] / whole if whole else 0.0
    return {stem: unit * strengths[stem] for stem in chosen}, topics


def filter_values(db: sqlite3.Connection, values: Sums, request: MatchRequest, least: float) -> tuple[Values, int]:
    """Return the best fragments that pass the filters of *request*, and how many of them reach *least* (COUNTED)."""
    rest = values
    if request.tags:
        rest = values.among({number for tag in request.tags for (number,) in db.execute(TAGGED, {"tag": tag})})
    admitting = Filter(db, request)
    fitting: Values = {}
    size, lowest = FIRST_CHECKED, math.inf
    while len(fitting) < COUNTED and (len(fitting) < weights.FEEDBACK_DEPTH or lowest >= least):
        part = rest.best(size)
        if not part:
            break
        fitting |= {number: part[number] for number in admitting.admitted(set(part))}
        lowest = min(part.values())
        rest, size = rest.below(lowest), 2 * size
    found = PlainSums(fitting)
    return order_best(db, found, weights.FEEDBACK_DEPTH), found.count(least)


def _best_scenarios(db: sqlite3.Connection, numbers: list[int], reading: Reading) -> dict[int, str]:
    """Return the scenario of each fragment that holds most words of the request, the first of several."""
    given = {"ids": json.dumps(numbers), "stems": json.dumps(sorted(reading.stems))}
    best: dict[int, tuple[int, str]] = {}
    for number, text, held in db.execute(SCENARIOS, given):
        if number not in best or held > best[number][0]:
            best[number] = held, text
    return {number: text for number, (_, text) in best.items()}


def ideal(reading: Reading) -> float:
    """Return what an ideal answer earns: the rarity of the rarest words, all that counts of a long request."""
    wanted = sorted((_wanted(word, reading) for word in reading.words), reverse=True)
    return sum(wanted[: weights.IDEAL_WORDS]) or 1.0


def _wanted(word: Word, reading: Reading) -> float:
    """Return what a word contributes to the ideal: its rarity, or where it is unknown that of its best form."""
    if word.fragment_count:
        return word.rarity * word.weight
    forms = [form.gain for form in reading.forms if form.word.text == word.text]
    return max(forms, default=word.rarity * word.weight * weights.UNKNOWN_WORD)
