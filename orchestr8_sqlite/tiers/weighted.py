"""Tiers 2 and 3 of the default ranker: which fields hold which words of the request, weighed and added up.

A word earns its rarity times the weight of its evidence in the fragment; of the forms that a word may stand for,
the one that earns most counts. Added are a bonus for the share of the name's words that the request covers, and
what is learnt from the best fragments: the words that their names, titles and tags have in common. The printed
score maps the sum to 0..100 by what the rarest words of the request could earn at most.

`reference.py` says the same in one SQL statement.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import SEARCHED_WHOLE, Form, Reading, Word
from orchestr8_sqlite.tiers.found import Filter, Found
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.reference import reference_statement
from orchestr8_sqlite.tiers.sums import PlainSums, Points, Sums, new_sums
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS, topic_rarity_of

LISTED = """
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate
  FROM json_each(:ids) CROSS JOIN fragment f ON f.id = value
"""
TAGGED = "SELECT fragment_id FROM tag WHERE tag = :tag"
TOPIC_COUNTS = "SELECT t.stem, t.topic_count FROM json_each(:stems) CROSS JOIN term t ON t.stem = value"
SCENARIOS = """
SELECT s.fragment_id, s.ordinal, s.text,
       (SELECT count(*)
          FROM json_each(held.value) one CROSS JOIN keyword k ON k.stem = one.value
         CROSS JOIN posting p ON p.keyword_id = k.id AND p.scenario_id = s.id)
  FROM json_each(:held) held CROSS JOIN scenario s ON s.fragment_id = CAST(held.key AS INTEGER)
"""

FIRST_CHECKED = 512
"""Best matches that are looked through for those that pass the filters, then twice as many and so on."""

Values = dict[int, float]
"""Fragment number → points."""


class Ranking(NamedTuple):
    """How the fragments that hold anything of a request rank.

    `earned` are the points of their evidence, `named` the share of their names that the request covers (1 at most
    counts), `best` their sums with both for those that what is learnt may raise, best first, `learnt` what each word
    adds that the best of these have in common, and `topics` who has which, of those that an answer may list.
    """

    earned: Sums
    named: Sums
    best: Values
    learnt: Mapping[str, float]
    topics: Mapping[int, Sequence[str]]


class Ranked(NamedTuple):
    """The scores (0 to 100) of the fragments that the request may list, how many match, and what that rests on."""

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
    top = order_best(holders, values, weights.FEEDBACK_DEPTH)
    learnt, topics = learn(reading, holders, top)
    if request.is_filtered:
        best, counted = filter_values(holders, values, request, least)
    else:
        best, counted = top, values.count(least)
    raising = _Raising(best, learnt, topics, holders)
    raising.raise_all(list(islice(best, max(request.max_results, weights.FEEDBACK_SEEDS))))
    scores = sorted(raising.scores(half, least).values(), reverse=True)
    lowest = scores[request.max_results - 1] - 2 * ROUNDING if len(scores) >= request.max_results else 0.0
    raising.raise_all(raising.others(least, half * lowest / (100 - lowest)))
    counted += sum(total >= least > best[number] for number, total in raising.totals.items())
    ranking = Ranking(earned, named, best, learnt, raising.topics)
    statement = reference_statement(request, reading, half, least)
    return Ranked(raising.scores(half, least), min(counted, COUNTED), ranking, statement)


class _Raising:
    """What the best fragments have by all that is learnt, worked out for those that are asked for."""

    def __init__(
        self, best: Values, learnt: Mapping[str, float], topics: Mapping[int, Sequence[str]], holders: Holders
    ) -> None:
        self._best = best
        self._learnt = learnt
        self._most = sum(learnt.values()) * (1 + MARGIN)
        self._holders = holders
        self.topics = dict(topics)
        self.totals: Values = {}

    def raise_all(self, numbers: Sequence[int]) -> None:
        """Work out all points of *numbers*."""
        if not self._learnt:
            self.totals |= {number: self._best[number] for number in numbers}
            return
        self.topics |= self._holders.topics([number for number in numbers if number not in self.topics])
        for number in numbers:
            held = self._learnt.keys() & self.topics[number]
            gained = sum(sorted(map(self._learnt.__getitem__, held)))
            self.totals[number] = self._best[number] + gained

    def others(self, least: float, lowest: float) -> list[int]:
        """Return those not worked out yet that may reach *lowest*, or *least* only by what is learnt.

        None gains more than all that is learnt.
        """
        lowest, least_before = max(lowest, least) - self._most, least - self._most
        return [
            number
            for number, value in self._best.items()
            if (value >= lowest or least_before <= value < least) and number not in self.totals
        ]

    def scores(self, half: float, least: float) -> Values:
        """Return the scores of those worked out that reach *least*."""
        return {n: round(100 * total / (total + half), 2) for n, total in self.totals.items() if total >= least}


def list_best(ranked: Ranked, request: MatchRequest, reading: Reading, holders: Holders) -> Found:
    """Return as many of the best as the request wants, each with its scenario that holds most of the request."""
    db, scores = holders.db, ranked.scores
    numbers = list(order_best(holders, PlainSums(scores), request.max_results))
    described = {row[0]: row for row in db.execute(LISTED, {"ids": str(numbers)})}
    scenarios = _best_scenarios(numbers, reading, holders)
    listed = []
    for number in numbers:
        _, uri, category, name, title, tokens = described[number]
        listed.append(Candidate(number, uri, category, name, title, tokens, scores[number], scenarios.get(number)))
    return Found(tuple(listed), ranked.total, ranked.statement)


MARGIN = 1e-9
"""Share by which sums may differ that are added in another order, and more."""

ROUNDING = 0.005
"""Scores are printed with two decimals, and bounds are on the score as printed."""


def weigh_all(reading: Reading, holders: Holders) -> tuple[Sums, Sums]:
    """Return what every fragment that holds any form earns by its evidence, and the shares of the names covered."""
    forms: dict[str, list[Form]] = defaultdict(list)
    for form in reading.forms:
        forms[form.word.text].append(form)
    earned, named = (new_sums(reading.size, holders.last_fragment) for _ in range(2))
    for own in forms.values():
        earned.add_word(points for form in own for points in _points(form, reading, holders))
        named.add_word(points for form in own for points in _name_points(form, holders))
    return earned, named


def _points(form: Form, reading: Reading, holders: Holders) -> Iterator[Points]:
    """Yield what a form gives to the fragments that hold it."""
    gain = form.gain / 1000
    for body in holders.bodies(form, reading):
        if len(body.counts) < len(BODY_WEIGHTS):
            yield Points(body.first, body.members, [BODY_WEIGHTS[count] for count in body.counts], gain)
        else:
            yield Points(body.first, body.members, body.counts, [gain * weight for weight in BODY_WEIGHTS])
    for short in holders.short(form):
        yield Points(short.first, short.members, short.weights, gain)


def _name_points(form: Form, holders: Holders) -> Iterator[Points]:
    """Yield the shares of their names that a form covers."""
    share = form.gain / form.rarity / 1000
    for short in holders.short(form):
        if short.named:
            yield Points(short.first, short.named, short.shares, share)


def order_best(holders: Holders, values: Sums, depth: int) -> Values:
    """Return the *depth* best of *values*, best first; equal ones by URI."""
    chosen = values.best(depth)
    rounded = {number: round(value, 12) for number, value in chosen.items()}  # the rest is the order of adding
    order = sorted(rounded, key=rounded.__getitem__, reverse=True)
    if len(set(rounded.values())) < len(rounded):
        order.sort()
        places = dict(zip(order, holders.places.of(order), strict=True))
        order.sort(key=places.__getitem__)
        order.sort(key=rounded.__getitem__, reverse=True)
    return {number: chosen[number] for number in order[:depth]}


def learn(reading: Reading, holders: Holders, top: Values) -> tuple[dict[str, float], dict[int, Sequence[str]]]:
    """Return what each word adds that the best fragments have in common, and the topics of these.

    The best fragments vote for the words of their names, titles and tags with what they have earned.
    """
    seeds = list(islice(top.items(), weights.FEEDBACK_SEEDS))
    topics = holders.topics([number for number, _ in seeds])
    given = sum(value for _, value in seeds)
    votes: dict[str, float] = {}
    for number, value in seeds:
        for stem in topics.get(number, ()):
            votes[stem] = votes.get(stem, 0.0) + value
    asked, least = reading.stems, weights.FEEDBACK_VOTES * given
    elected = {stem: sum_ for stem, sum_ in votes.items() if sum_ > least and stem not in asked}
    rows = holders.db.execute(TOPIC_COUNTS, {"stems": json.dumps(list(elected))}) if elected else ()
    strengths = {
        stem: elected[stem] / given * topic_rarity_of(reading.size, count) for stem, count in rows if count > 1
    }
    chosen = sorted(strengths, key=lambda stem: (-round(strengths[stem], 12), stem))[: weights.FEEDBACK_WORDS]
    whole = sum(strengths[stem] for stem in chosen)
    unit = weights.FEEDBACK * seeds[0][1] / whole if whole else 0.0
    return {stem: unit * strengths[stem] for stem in chosen}, topics


def filter_values(holders: Holders, values: Sums, request: MatchRequest, least: float) -> tuple[Values, int]:
    """Return the best fragments that pass the filters of *request*, and how many of them reach *least* (COUNTED)."""
    rest, db = values, holders.db
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
    return order_best(holders, found, weights.FEEDBACK_DEPTH), found.count(least)


def _best_scenarios(numbers: list[int], reading: Reading, holders: Holders) -> dict[int, str]:
    """Return the scenario of each fragment that holds most words of the request, the first of several."""
    held: dict[int, list[str]] = {number: [] for number in numbers}
    for form in {form.stem: form for form in reading.forms if form.how in SEARCHED_WHOLE}.values():
        for number, evidence in holders.held(form, reading, numbers):
            if evidence.fields & weights.SCENARIO:
                held[number].append(form.stem)
    rows = holders.db.execute(SCENARIOS, {"held": json.dumps(held)}).fetchall()
    best: dict[int, tuple[int, int, str]] = {}
    for number, ordinal, text, count in rows:
        if number not in best or (-count, ordinal) < best[number][:2]:
            best[number] = -count, ordinal, text
    return {number: text for number, (_, _, text) in best.items()}


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
