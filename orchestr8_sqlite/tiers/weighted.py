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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice

from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import Form, Reading, Word
from orchestr8_sqlite.tiers.found import FILTERS, Found, filter_parameters
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.reference import reference_statement
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS, topic_rarity_of

URIS = "SELECT id, uri FROM fragment WHERE id IN (SELECT value FROM json_each(:ids))"
LISTED = """
SELECT id, uri, category, name, title, token_estimate FROM fragment WHERE id IN (SELECT value FROM json_each(:ids))
"""
FITTING = f"SELECT f.id FROM json_each(:ids) JOIN fragment f ON f.id = value WHERE {FILTERS}"
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


@dataclass(frozen=True)
class Ranking:
    """How the fragments that hold anything of a request rank.

    `earned` are the points of their evidence, `named` the share of their names that the request covers, `best` their
    sums with both for those that an answer may list, best first, `learnt` what each word adds that these have in
    common, and `topics` who of them has which.
    """

    earned: Values
    named: Values
    best: Values
    learnt: Mapping[str, float] = field(default_factory=dict)
    topics: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def total(self, number: int) -> float:
        """Return all points of a fragment in `best`."""
        return self.best[number] + sum(map(self.learnt.__getitem__, self.learnt.keys() & self.topics[number]))


def match_weighted(request: MatchRequest, reading: Reading, holders: Holders) -> tuple[Found, Ranking]:
    """Return the fragments that hold any word of the request in any of its forms, best first; ties go by URI."""
    half = weights.HALF_SCORE * ideal(reading)
    bound = request.min_score - ROUNDING
    least = half * bound / max(100 - bound, 1e-9)
    holders.read(reading)
    values, earned, named = weigh_all(reading, holders)
    top = order_best(holders.db, values, weights.FEEDBACK_DEPTH)
    learnt, topics = learn(reading, holders, top)
    if request.is_filtered:
        fitting, counted = filter_values(holders.db, values, request, least)
        topics |= holders.topics(fitting.keys() - topics.keys())
    else:
        fitting, counted = top, _count(values.values(), least)
    ranking = Ranking(earned, named, fitting, learnt, topics)
    totals = {number: ranking.total(number) for number in fitting}
    raised = sum(total >= least > fitting[number] for number, total in totals.items())
    scores = {n: round(100 * total / (total + half), 2) for n, total in totals.items() if total >= least}
    listed = _list(holders.db, scores, request.max_results, reading)
    found = Found(tuple(listed), min(counted + raised, COUNTED), reference_statement(request, reading, half, least))
    return found, ranking


ROUNDING = 0.005
"""Scores are printed with two decimals, and bounds are on the score as printed."""


def weigh_all(reading: Reading, holders: Holders) -> tuple[Values, Values, Values]:
    """Return (sum, points of the evidence, share of the name) of every fragment that holds any form."""
    forms: dict[str, list[Form]] = defaultdict(list)
    for form in reading.forms:
        forms[form.word.text].append(form)
    earned: Values = {}
    named: Values = {}
    for own in forms.values():
        _add(earned, _best_points(own, reading, holders))
        _add(named, _best_shares(own, holders))
    values = earned.copy() if named else earned
    for number, share in named.items():
        named[number] = min(1.0, share)
        values[number] *= 1 + weights.NAME_BONUS * named[number]
    return values, earned, named


def _best_points(forms: Iterable[Form], reading: Reading, holders: Holders) -> Values:
    """Return what each fragment earns by the form of a word that earns it most."""
    best: Values = {}
    for form in forms:
        gain = form.gain / 1000
        found: Values = {}
        for body in holders.bodies(form, reading):
            earned = [gain * weight for weight in BODY_WEIGHTS]
            found.update(zip(_numbers(body.first, body.members), map(earned.__getitem__, body.counts), strict=True))
        for short in holders.short(form):
            numbers = _numbers(short.first, short.members)
            found.update({number: gain * weight for number, weight in zip(numbers, short.weights, strict=True)})
        if best:
            get = best.get
            best.update({number: points for number, points in found.items() if points > get(number, 0.0)})
        else:
            best = found
    return best


def _best_shares(forms: Iterable[Form], holders: Holders) -> Values:
    """Return how much of each fragment's name the form of a word covers that covers most."""
    best: Values = {}
    for form in forms:
        share = form.gain / form.rarity / 1000
        for short in holders.short(form):
            for number, part in zip(_numbers(short.first, short.named), short.shares, strict=True):
                best[number] = max(best.get(number, 0.0), share * part)
    return best


def _numbers(first: int, members: Iterable[int]) -> Iterable[int]:
    return members if first == 0 else [first + member for member in members]


def _add(sums: Values, values: Values) -> None:
    """Add *values* to *sums*."""
    if sums:
        get = sums.get
        sums.update({number: get(number, 0.0) + value for number, value in values.items()})
    else:
        sums.update(values)


def order_best(db: sqlite3.Connection, values: Mapping[int, float], depth: int) -> Values:
    """Return the *depth* best of *values*, best first; equal ones by URI."""
    least = min(nlargest(depth, values.values()), default=0.0)
    chosen = {number: value for number, value in values.items() if value >= least}
    often = Counter(chosen.values())
    uris = _uris(db, (number for number, value in chosen.items() if often[value] > 1))
    order = sorted(chosen, key=lambda number: (-chosen[number], uris.get(number, "")))
    return {number: chosen[number] for number in order[:depth]}


def _uris(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    wanted = list(numbers)
    return dict(db.execute(URIS, {"ids": json.dumps(wanted)}).fetchall()) if wanted else {}


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
    rows = holders.db.execute(TOPIC_COUNTS, {"stems": json.dumps(list(elected), ensure_ascii=False)}) if elected else ()
    strengths = {
        stem: elected[stem] / given * topic_rarity_of(reading.size, count) for stem, count in rows if count > 1
    }
    chosen = sorted(strengths, key=lambda stem: (-strengths[stem], stem))[: weights.FEEDBACK_WORDS]
    whole = sum(strengths[stem] for stem in chosen)
    unit = weights.FEEDBACK * seeds[0][1] / whole if whole else 0.0
    return {stem: unit * strengths[stem] for stem in chosen}, topics


def filter_values(db: sqlite3.Connection, values: Values, request: MatchRequest, least: float) -> tuple[Values, int]:
    """Return the best fragments that pass the filters of *request*, and how many of them reach *least* (COUNTED)."""
    candidates = values
    if request.tags:
        tagged = {number for tag in request.tags for (number,) in db.execute(TAGGED, {"tag": tag})}
        candidates = {number: values[number] for number in tagged & values.keys()}
    fitting: Values = {}
    for numbers in _ever_more(candidates):
        given = {"ids": json.dumps(numbers), **filter_parameters(request)}
        fitting |= {number: values[number] for (number,) in db.execute(FITTING, given)}
        if len(fitting) >= COUNTED or (len(fitting) >= weights.FEEDBACK_DEPTH and values[numbers[-1]] < least):
            break
    return order_best(db, fitting, weights.FEEDBACK_DEPTH), _count(fitting.values(), least)


def _ever_more(values: Values) -> Iterator[list[int]]:
    """Yield the numbers of *values*, best first, in parts of doubling size; equal values stand in one part."""
    rest, size = values, FIRST_CHECKED
    while rest:
        least = min(nlargest(size, rest.values()))
        part = {number: value for number, value in rest.items() if value >= least}
        yield sorted(part, key=part.__getitem__, reverse=True)
        rest = {number: value for number, value in rest.items() if value < least}
        size *= 2


def _count(values: Iterable[float], least: float) -> int:
    """Return how many of *values* reach *least*, COUNTED for that many or more."""
    return sum(1 for _ in islice(filter(least.__le__, values), COUNTED))


def _list(db: sqlite3.Connection, scores: Values, limit: int, reading: Reading) -> Iterator[Candidate]:
    """Yield the *limit* best of *scores*, equal ones by URI, each with its scenario that holds most of the request."""
    last = min(nlargest(limit, scores.values()), default=math.inf)
    wanted = [number for number, score in scores.items() if score >= last]
    rows = sorted(db.execute(LISTED, {"ids": json.dumps(wanted)}), key=lambda row: (-scores[row[0]], row[1]))[:limit]
    scenarios = _best_scenarios(db, [row[0] for row in rows], reading)
    for row in rows:
        yield Candidate(*(*row, scores[row[0]], scenarios.get(row[0])))


def _best_scenarios(db: sqlite3.Connection, numbers: list[int], reading: Reading) -> dict[int, str]:
    """Return the scenario of each fragment that holds most words of the request, the first of several."""
    given = {"ids": json.dumps(numbers), "stems": json.dumps(sorted(reading.stems), ensure_ascii=False)}
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
    if word.count:
        return word.rarity * word.weight
    forms = [form.gain for form in reading.forms if form.word.text == word.text]
    return max(forms, default=word.rarity * word.weight * weights.UNKNOWN_WORD)
