"""Tiers 2 and 3 of the default ranker: which fields hold which words of the request, weighed and added up.

A word earns its rarity times the weight of its evidence in the fragment; of the forms that a word may stand for,
the one that earns most counts. Added are a bonus for the share of the name's words that the request covers, and
what is learnt from the best fragments: the words that their names, titles and tags have in common. The printed
score maps the sum to 0..100 by what the rarest words of the request could earn at most.

`reference.py` says the same in one SQL statement.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from orchestr8_sqlite.connections import stop_if_abandoned
from orchestr8_sqlite.mentions import count_held
from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Statement
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import SEARCHED_WHOLE, Form, Reading, Word
from orchestr8_sqlite.tiers.found import Filter, Found
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.reference import reference_statement
from orchestr8_sqlite.tiers.sums import CLOSE, PlainSums, Points, Sums, highest, in_order, new_sums

TAGGED = "SELECT fragment_id FROM tag WHERE tag = :tag"
SCENARIOS = """
SELECT s.fragment_id, s.ordinal, s.text FROM json_each(:ids) CROSS JOIN scenario s ON s.fragment_id = value
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
    """The best scores (0 to 100), those that equal the last one too; how many match, and what that rests on."""

    scores: Values
    total: int
    ranking: Ranking
    statement: Statement


def rank(request: MatchRequest, reading: Reading, holders: Holders) -> Ranked:
    """Return how the fragments rank that hold any word of the request in any of its forms."""
    half = weights.HALF_SCORE * ideal(reading)
    bound = request.min_score - ROUNDING
    least = half * bound / max(100 - bound, 1e-9)
    holders.read(reading)
    earned, named = weigh_all(reading, holders)
    values = earned.raised(named, weights.NAME_BONUS)
    count = values.count(least)
    first = max(request.max_results, weights.FEEDBACK_SEEDS)
    top = order_best(holders, values, weights.FEEDBACK_DEPTH, first)
    learnt, topics = learn(reading, holders, top)
    if request.is_filtered:
        best, counted = filter_values(holders, values, request, least)
    else:
        best, counted = top, count
    raising = _Raising(best, learnt, topics, holders)
    raising.raise_all(list(islice(best, first)))
    scores = sorted(raising.scores(half, least, request.max_results).values(), reverse=True)
    lowest = scores[request.max_results - 1] - 2 * ROUNDING if len(scores) >= request.max_results else 0.0
    raising.raise_all(raising.others(least, half * lowest / (100 - lowest)))
    counted += sum(total >= least > best[number] for number, total in raising.totals.items())
    ranking = Ranking(earned, named, best, learnt, raising.topics)
    scored = raising.scores(half, least, request.max_results)
    return Ranked(scored, min(counted, COUNTED), ranking, reference_statement(request, reading, half, least))


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
        learnt, is_learnt = self._learnt, self._learnt.__contains__
        best, topics, totals = self._best, self.topics, self.totals
        for number in numbers:
            held = [*filter(is_learnt, topics[number])]
            totals[number] = best[number] + sum(sorted([learnt[stem] for stem in held])) if held else best[number]

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

    def scores(self, half: float, least: float, wanted: int) -> Values:
        """Return the *wanted* best scores of those worked out that reach *least*, and those equal to the last."""
        scores = {n: 100 * total / (total + half) for n, total in self.totals.items() if total >= least}
        lowest = highest(list(scores.values()), wanted) - 3 * ROUNDING if len(scores) > wanted else 0.0
        return {number: round(score, 2) for number, score in scores.items() if score >= lowest}


def list_best(
    ranked: Ranked, request: MatchRequest, reading: Reading, holders: Holders, *, scenarios: bool = True
) -> Found:
    """Return as many of the best as the request wants, with *scenarios* each with its one that holds most of it."""
    scores = ranked.scores
    numbers = list(order_best(holders, PlainSums(scores), request.max_results))
    described = holders.kept.fragments(numbers)
    best = best_scenarios(numbers, reading, holders) if scenarios else {}
    listed = [Candidate(*described[number], scores[number], best.get(number)) for number in numbers]
    return Found(tuple(listed), ranked.total, ranked.statement)


MARGIN = 1e-9
"""Share by which sums may differ that are added in another order, and more."""

ROUNDING = 0.005
"""Scores are printed with two decimals, and bounds are on the score as printed."""


def weigh_all(reading: Reading, holders: Holders) -> tuple[Sums, Sums]:
    """Return what every fragment that holds any form earns by its evidence, and the shares of the names covered."""
    words: dict[str, tuple[list[Form], list[Points], list[Points]]] = {}
    met = 0
    for form in reading.forms:
        own, points, shares = words.setdefault(form.word.text, ([], [], []))
        own.append(form)
        gain = form.gain
        given = _points(form, gain / 1000, reading, holders)
        points += given
        met += sum([len(one.members) for one in given])
        shares += _name_points(form, gain / form.rarity / 1000, holders)
    earned = new_sums(reading.size, met, holders.last_fragment)
    named = earned.new_shares()
    for own, points, shares in words.values():
        stop_if_abandoned(holders.db)
        _add(earned, own, points)
        if shares:
            _add(named, own, shares)
    return earned, named


def _add(sums: Sums, forms: Sequence[Form], points: Sequence[Points]) -> None:
    """Add what the *forms* of a word give; who holds a form has it in a short text or in the body alone."""
    if len(forms) == 1 or len(points) < 2:
        sums.add_apart(points)
    else:
        sums.add_word(points)


def _points(form: Form, gain: float, reading: Reading, holders: Holders) -> list[Points]:
    """Return what a form gives to the fragments that hold it."""
    bodies = [Points(first, members, weights_, gain) for first, members, weights_ in holders.bodies(form, reading)]
    return bodies + [Points(block.first, block.members, block.weights, gain) for block in holders.short(form)]


def _name_points(form: Form, share: float, holders: Holders) -> list[Points]:
    """Return the shares of their names that a form covers."""
    return [Points(block.first, block.named, block.shares, share) for block in holders.short(form) if block.named]


def order_best(holders: Holders, values: Sums, depth: int, first: int | None = None) -> Values:
    """Return the *depth* best of *values*, best first; equal ones by URI.

    Args:
        first: So many come in this order, the others in any; all of them where it is not given.
    """
    chosen = values.best(depth)
    if first is not None and first < len(chosen) <= depth:
        lowest = highest(list(chosen.values()), first) - CLOSE
        ahead = in_order({n: value for n, value in chosen.items() if value >= lowest}, holders.kept.places.of)[:first]
        return {number: chosen[number] for number in ahead} | chosen
    return {number: chosen[number] for number in in_order(chosen, holders.kept.places.of)[:depth]}


def learn(reading: Reading, holders: Holders, top: Values) -> tuple[dict[str, float], dict[int, Sequence[str]]]:
    """Return what each word adds that the best fragments have in common, and the topics of these.

    The best fragments vote for the words of their names, titles and tags with what they have earned.
    """
    seeds = list(islice(top.items(), weights.FEEDBACK_SEEDS))
    topics = holders.topics([number for number, _ in seeds])
    given = sum(value for _, value in seeds)
    votes: dict[str, float] = defaultdict(float)
    for number, value in seeds:
        for stem in topics.get(number, ()):
            votes[stem] += value
    asked, least = reading.stems, weights.FEEDBACK_VOTES * given
    elected = [stem for stem, sum_ in votes.items() if sum_ > least and stem not in asked]
    rarities = holders.kept.topic_rarities(elected)
    strengths = {stem: votes[stem] / given * rarity for stem, rarity in rarities.items()}
    chosen = in_order(strengths, list)[: weights.FEEDBACK_WORDS]
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


def best_scenarios(numbers: list[int], reading: Reading, holders: Holders) -> dict[int, str]:
    """Return the scenario of each fragment that holds most words of the request, the first of several."""
    wanted = _wanted_words(numbers, reading, holders)
    best: dict[int, tuple[int, int, str]] = {}
    for number, ordinal, text in holders.db.execute(SCENARIOS, {"ids": str(numbers)}):
        most, first, _ = best.get(number, (-1, 0, ""))
        least = most + (ordinal > first)
        if least > 0 and not wanted[number]:
            continue
        if (count := count_held(text, wanted[number], least - 1)) >= least:
            best[number] = count, ordinal, text
    return {number: text for number, (_, _, text) in best.items()}


def _wanted_words(numbers: list[int], reading: Reading, holders: Holders) -> dict[int, list[str]]:
    """Return the keywords that the scenarios of each fragment may hold of the request."""
    held: list[tuple[int, str]] = []
    for form in {form.stem: form for form in reading.forms if form.how in SEARCHED_WHOLE}.values():
        for number, evidence in holders.held(form, reading, numbers):
            if evidence.fields & weights.SCENARIO:
                held.append((number, form.stem))
    words = holders.kept.keywords({stem for _, stem in held})
    wanted: dict[int, list[str]] = {number: [] for number in numbers}
    for number, stem in held:
        wanted[number] += words[stem]
    return wanted


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
