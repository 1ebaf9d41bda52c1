"""A naive reading of the rules of the default ranker: every fragment by itself, from its texts alone."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import Stemmer

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import extract_keywords, iterate_keywords
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.uris import fragment_uri

PORTER = Stemmer.Stemmer("porter")
EVERYDAY = {"help", "running", "wait", "month", "time", "tries"}
"""The words of everyday speech that the drawn requests may hold."""

WHOLE = {"exact", "typo", "joined"}
"""Forms that are searched in bodies too."""


def stemmed(word: str) -> str:
    return str(PORTER.stemWord(word)) if word.isascii() and word.isalpha() else word


def stems(text: str) -> Counter[str]:
    return Counter(stemmed(word) for word in iterate_keywords(text))


@dataclass(frozen=True)
class Asked:
    """A form of a word of the request; `share` is what the word counts beside the others."""

    word: str
    stem: str
    how: str
    factor: float
    share: float


class Oracle:
    """The rules of weighted.py and weights.py, applied to every fragment of a library one by one.

    `clear` is false once a number stood on the edge of a rule, where the last bit of a float decides.

    Args:
        measured: How many fragments, the first, typical lengths are taken from, where that is not all.
    """

    def __init__(self, library: Sequence[Fragment], measured: int | None = None) -> None:
        self.library = list(library)
        self.uris = [fragment_uri(fragment.id) for fragment in library]
        self.clear = True
        self.fields = [self.short_fields(fragment) for fragment in library]
        self.bodies = [stems(fragment.body) for fragment in library]
        self.topics = [self.topic(fields) for fields in self.fields]
        self.counts = Counter(stem for at in range(len(library)) for stem in self.all_stems(at))
        self.topic_counts = Counter(stem for topic in self.topics for stem in topic)
        self.typical = {field: self.typical_length(field, measured) for field in weights.FIELD_WEIGHTS}

    def alter(self, at: int, fragment: Fragment) -> None:
        """Let a fragment hold what another one holds; what was counted over the library stays as it was."""
        self.fields[at] = self.short_fields(fragment)
        self.bodies[at] = stems(fragment.body)
        self.topics[at] = self.topic(self.fields[at])

    def typical_length(self, field: int, measured: int | None) -> float:
        """Return the power of two that the mean length of a field is nearest to, as a factor."""
        lengths = [fields[field].total() for fields in self.fields[:measured]]
        mean = Fraction(sum(lengths), len(lengths))
        below = 1.0  # for a field that no fragment fills, any length will do
        while mean and below > mean:
            below /= 2
        while mean and 2 * below <= mean:
            below *= 2
        return below if mean * mean < 2 * Fraction(below) ** 2 else 2 * below

    @staticmethod
    def topic(fields: Mapping[int, Counter[str]]) -> set[str]:
        return {*fields[weights.NAME], *fields[weights.TITLE], *fields[weights.TAG]}

    @staticmethod
    def short_fields(fragment: Fragment) -> dict[int, Counter[str]]:
        return {
            weights.NAME: stems(fragment.name.replace("-", " ").replace("_", " ")),
            weights.TITLE: stems(fragment.title),
            weights.TAG: stems("\n".join(fragment.tags)),
            weights.CAPABILITY: stems("\n".join(fragment.capabilities)),
            weights.SCENARIO: stems("\n".join(fragment.use_when)),
            weights.DESCRIPTION: stems(fragment.description),
        }

    def all_stems(self, at: int) -> set[str]:
        return {stem for text in [*self.fields[at].values(), self.bodies[at]] for stem in text}

    def rarity(self, stem: str) -> float:
        count = self.counts[stem]
        return math.log(1 + (len(self.library) - count + 0.5) / (count + 0.5))

    def weight(self, at: int, stem: str) -> int:
        """Return the thousandths of its rarity that a fragment earns by a word."""
        evidence = 0.0
        for field, held in self.fields[at].items():
            if stem in held:
                share = weights.LENGTH_SHARE
                divisor = 1 - share + share * held.total() / self.typical[field]
                evidence += weights.FIELD_WEIGHTS[field] / divisor
        count = min(self.bodies[at][stem], 255)
        evidence += weights.BODY_WEIGHT * count / (count + weights.BODY_SATURATION)
        return self.to_thousandths(evidence / (evidence + weights.SATURATION))

    def to_thousandths(self, value: float) -> int:
        if abs(1000 * value % 1 - 0.5) < 1e-6:
            self.clear = False
        return round(1000 * value)

    def holds(self, at: int, form: Asked) -> bool:
        """Return whether a form is looked for where the fragment has it."""
        if any(form.stem in held for held in self.fields[at].values()):
            return True
        spread = self.counts[form.stem] / len(self.library)
        return form.how in WHOLE and form.stem in self.bodies[at] and spread <= weights.BODY_SPREAD

    def name_share(self, at: int, stem: str) -> Fraction:
        """Return the share of the letters of its name that a word has, to the next thousandth."""
        name = self.fields[at][weights.NAME]
        if stem not in name:
            return Fraction(0)
        share = Fraction(len(stem), sum(len(one) for one in name))
        return Fraction(math.floor(1000 * share + Fraction(1, 2)), 1000)

    def learnt(self, values: dict[int, float], asked: set[str]) -> dict[str, float]:
        """Return the strength of the words that the best fragments have in common."""
        order = sorted(values, key=lambda at: (-round(values[at], 12), self.uris[at]))
        seeds = order[: weights.FEEDBACK_SEEDS]
        total = math.fsum(values[at] for at in seeds)
        strengths = {}
        for stem in {stem for at in seeds for stem in self.topics[at]} - asked:
            votes = math.fsum(values[at] for at in seeds if stem in self.topics[at]) / total
            topics = self.topic_counts[stem]
            if abs(votes - weights.FEEDBACK_VOTES) < 1e-9:
                self.clear = False
            if topics >= 2 and votes > weights.FEEDBACK_VOTES:
                strengths[stem] = votes * math.log((len(self.library) + 0.5) / (topics + 0.5))
        best = sorted(strengths, key=lambda stem: (-round(strengths[stem], 12), stem))[: weights.FEEDBACK_WORDS]
        return {stem: strengths[stem] for stem in best}

    def read(self, query: str) -> dict[str, float]:
        """Return the stems of the request's words and what each counts beside the others."""
        texts: dict[str, str] = {}
        for keyword in extract_keywords(query):
            if self.counts[stemmed(keyword)] or len(extract_keywords(keyword)) == 1:
                texts.setdefault(stemmed(keyword), keyword)
        topical = set(texts.values()) - EVERYDAY
        return {stem: weights.EVERYDAY if topical and text in EVERYDAY else 1.0 for stem, text in texts.items()}

    def gain(self, form: Asked) -> float:
        """Return what a form can earn: never more than the word that it stands in for."""
        most = self.rarity(form.word) if self.counts[form.word] else math.inf
        return min(self.rarity(form.stem), most) * form.factor * form.share

    def value(self, at: int, forms: Sequence[Asked]) -> float:
        """Return the sum of what the best form of each word earns, raised by the share of the name."""
        earned: dict[str, float] = defaultdict(float)
        named: dict[str, float] = defaultdict(float)
        for form in forms:
            if self.holds(at, form):
                share = self.gain(form) / self.rarity(form.stem) * float(self.name_share(at, form.stem))
                earned[form.word] = max(earned[form.word], self.gain(form) * self.weight(at, form.stem) / 1000)
                named[form.word] = max(named[form.word], share)
        return sum(earned.values()) * (1 + weights.NAME_BONUS * min(1.0, sum(named.values())))

    def ideal(self, words: dict[str, float], forms: Sequence[Asked]) -> float:
        """Return what an ideal answer earns; an unknown word counts what its best form can earn."""
        wanted = []
        for stem, share in words.items():
            gains = [self.gain(form) for form in forms if form.word == stem]
            unknown = max(gains, default=self.rarity(stem) * share * weights.UNKNOWN_WORD)
            wanted.append(self.rarity(stem) * share if self.counts[stem] else unknown)
        return sum(sorted(wanted, reverse=True)[: weights.IDEAL_WORDS])

    def scores(self, query: str, others: Sequence[tuple[str, str, str]]) -> dict[str, float]:
        """Return the score of every fragment that matches *query*.

        Args:
            others: (stem of the word, stem of the form, how) of the forms beside the request's own words.
        """
        words = self.read(query)
        own = [Asked(stem, stem, "exact", 1.0, share) for stem, share in words.items() if self.counts[stem]]
        forms = [*own, *(Asked(word, form, how, weights.FACTORS[how], words[word]) for word, form, how in others)]
        values = {at: value for at in range(len(self.library)) if (value := self.value(at, forms))}
        learnt = self.learnt(values, {form.stem for form in forms if form.how in WHOLE}) if values else {}
        strength = sum(learnt.values())
        half = weights.HALF_SCORE * self.ideal(words, forms)
        found = {}
        for at, value in values.items():
            held = sum(points for stem, points in learnt.items() if stem in self.topics[at])
            total = value + (weights.FEEDBACK * max(values.values()) * held / strength if strength else 0.0)
            found[self.uris[at]] = round(100 * total / (total + half), 2)
        return found
