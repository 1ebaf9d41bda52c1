"""A naive reading of the rules of the default ranker: every fragment by itself, from its texts alone.

Only two things are taken from the product: how a text is cut into keywords, and the numbers in weights.py. How FTS5
cuts a text is asked of SQLite, in a table of one row.
"""

import itertools
import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import Stemmer

from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.model.uris import fragment_uri
from orchestr8_sqlite.ranking import weights
from orchestr8_sqlite.text.keywords import extract_keywords, iterate_keywords, words_beside
from orchestr8_sqlite.text.wordlists import Synonym

PORTER = Stemmer.Stemmer("porter")
EVERYDAY = {
    word
    for line in files("orchestr8_sqlite.text").joinpath("words", "everyday.txt").read_text(encoding="utf-8").split("\n")
    if not line.startswith("#")
    for word in line.split()
}
TOPIC = weights.NAME, weights.TITLE, weights.TAG
WHOLE = "exact", "typo", "joined", "term"
"""Forms that the request itself says, which count wherever they stand."""

MOST_PARTS = 20
FULL_TEXT = """CREATE VIRTUAL TABLE full_text USING fts5 (
    text, tokenize = "porter unicode61 remove_diacritics 2 tokenchars '+#'")"""
_scratch = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
_scratch.execute(FULL_TEXT)
_scratch.execute("CREATE VIRTUAL TABLE cut USING fts5vocab (full_text, instance)")


@cache
def cut(text: str) -> tuple[str, ...]:
    """Return the tokens that FTS5 makes of *text*."""
    _scratch.execute("DELETE FROM full_text")
    _scratch.execute("INSERT INTO full_text (text) VALUES (?)", (text,))
    return tuple(term for (term,) in _scratch.execute("SELECT term FROM cut ORDER BY offset"))


def holds_phrase(text: str, word: str) -> bool:
    """Tell whether FTS5 finds *word* in *text*: the tokens of the one stand in a row in the other."""
    tokens, phrase = cut(text), cut(word)
    return any(tokens[at : at + len(phrase)] == phrase for at in range(len(tokens) - len(phrase) + 1))


def stemmed(word: str) -> str:
    """Return the stem of a keyword, as FTS5 has it: a word of two letters or with other signs has none."""
    return str(PORTER.stemWord(word)) if word.isascii() and word.isalnum() and len(word) > 2 else word


def stems(text: str) -> Counter[str]:
    return Counter(stemmed(word) for word in iterate_keywords(text))


def is_one_edit(first: str, second: str) -> bool:
    """Tell whether one letter more, less, other, or two neighbours swapped, make *second* of *first*."""
    if len(first) > len(second):
        first, second = second, first
    if len(second) - len(first) == 1:
        return any(second[:at] + second[at + 1 :] == first for at in range(len(second)))
    if len(first) != len(second):
        return False
    differing = [at for at in range(len(first)) if first[at] != second[at]]
    if len(differing) == 2:
        left, right = differing
        return right == left + 1 and (first[left], first[right]) == (second[right], second[left])
    return len(differing) == 1


def is_slip(word: str, known: str) -> bool:
    """Tell whether *word* may be taken for *known*: one edit away.

    Words of three letters stand for themselves. Below six, no letter is taken for another, the first one stays unless
    it is swapped with the second, and what is left out is a letter of English or a digit.
    """
    if len(word) >= 6 or not is_one_edit(word, known):
        return len(word) >= 6 and is_one_edit(word, known)
    added = "".join((Counter(known) - Counter(word)).elements())
    if len(word) == len(known):
        return len(word) >= 4 and not added
    return len(word) >= 4 and word[0] == known[0] and (not added or (added.isascii() and added.isalnum()))


def likeliest(word: str, known: Iterable[str], used: Mapping[str, int]) -> str | None:
    """Return which of the *known* keywords *word* is taken for: with the same first letter, then the most used."""
    near = [one for one in known if is_slip(word, one)]
    return min(near, key=lambda one: (one[0] != word[0], -used[one], one), default=None)


class Asked(NamedTuple):
    """A word of the request, or of a `term` beside it; `share` is what it counts beside the others."""

    text: str
    stem: str
    holders: int
    share: float
    term: str = ""

    @property
    def unit(self) -> tuple[str, str]:
        """Return what is counted once: a word of the request, or a whole term."""
        return self.term, "" if self.term else self.text


class Standing(NamedTuple):
    """What a word of the request is looked for by."""

    word: Asked
    text: str
    how: str
    factor: float

    @property
    def stem(self) -> str:
        return stemmed(self.text)


@dataclass(frozen=True)
class Expected:
    """What a search should answer: (URI, score, scenario) best first."""

    rows: list[tuple[str, float, str | None]]
    total: int
    is_wider: bool


class Oracle:
    """The rules of the default ranker, applied to every fragment of a library one by one.

    `clear` is false once a number stood on the edge of a rule, where the last bit of a float decides.
    """

    def __init__(self, library: Sequence[Fragment], synonyms: Sequence[Synonym] = ()) -> None:
        self.library = list(library)
        self.synonyms = synonyms
        self.uris = [fragment_uri(fragment.id) for fragment in library]
        self.clear = True
        self.counts: dict[str, int] = {}
        self.fields = [self.short_fields(fragment) for fragment in library]
        self.held = [{bit: stems(text) for bit, text in fields.items()} for fields in self.fields]
        self.bodies = [fragment.body for fragment in library]
        self.beside = [self.words_beside(at) for at in range(len(library))]
        self.topics = [self.topic(held) for held in self.held]
        self.topic_counts = Counter(stem for topic in self.topics for stem in topic)
        self.used = Counter(
            keyword for fields in self.fields for keyword in {k for t in fields.values() for k in iterate_keywords(t)}
        )
        self.keywords = defaultdict[str, list[str]](list)
        for keyword in sorted(self.used):
            self.keywords[stemmed(keyword)].append(keyword)
        self.typical = {field: self.typical_length(field) for field in weights.FIELD_WEIGHTS}

    def hide(self, at: int, line: str) -> None:
        """Let a fragment not say *line*, wherever it does; what was counted over the library stays as it was."""
        for keyword in self.used:
            self.count(keyword)
        self.fields[at] = {bit: without(text, line) for bit, text in self.fields[at].items()}
        self.bodies[at] = without(self.bodies[at], line)
        self.held[at] = {bit: stems(text) for bit, text in self.fields[at].items()}
        self.beside[at] = self.words_beside(at)
        self.topics[at] = self.topic(self.held[at])

    # What the library holds

    def words_beside(self, at: int) -> str:
        return words_beside("\n".join([*self.fields[at].values(), self.bodies[at]]))

    @staticmethod
    def topic(held: Mapping[int, Counter[str]]) -> set[str]:
        return {stem for bit in TOPIC for stem in held[bit]}

    @staticmethod
    def short_fields(fragment: Fragment) -> dict[int, str]:
        return {
            weights.NAME: fragment.name.replace("-", " ").replace("_", " "),
            weights.TITLE: fragment.title,
            weights.TAG: "\n".join(fragment.tags),
            weights.CAPABILITY: "\n".join(fragment.capabilities),
            weights.SCENARIO: "\n".join(fragment.use_when),
            weights.DESCRIPTION: fragment.description,
        }

    def typical_length(self, field: int) -> float:
        """Return the power of two that the mean length of a field is nearest to, as a factor."""
        lengths = [held[field].total() for held in self.held]
        mean = Fraction(sum(lengths), len(lengths))
        below = 1.0  # for a field that no fragment fills, any length will do
        while mean and below > mean:
            below /= 2
        while mean and 2 * below <= mean:
            below *= 2
        return below if mean * mean < 2 * Fraction(below) ** 2 else 2 * below

    def texts(self, at: int) -> list[str]:
        """Return all that FTS5 is given of a fragment."""
        one = self.library[at]
        lists = ("\n".join(texts) for texts in (one.tags, one.capabilities, one.use_when))
        return [one.name, one.title, *lists, one.description, self.bodies[at], self.beside[at]]

    def is_in_full_text(self, at: int, word: str) -> bool:
        return any(holds_phrase(text, word) for text in self.texts(at))

    def is_in_vocabulary(self, at: int, stem: str) -> bool:
        return any(stem in cut(text) for text in self.texts(at))

    def is_in_body(self, at: int, word: str) -> bool:
        return holds_phrase(self.bodies[at], word) or holds_phrase(self.beside[at], word)

    def count(self, text: str) -> int:
        """Return how many fragments hold a word in any inflection and anywhere.

        FTS5's vocabulary tells that of a word in a short text; it knows no word such as `node.js` or `müller`, which
        are searched for where two short texts hold them. What is joined of several words is not known by bodies alone.
        """
        if text not in self.counts:
            known = self.keywords.get(stemmed(text), [])
            if not known:
                is_joined = len(extract_keywords(text)) > 1
                found = 0 if is_joined else sum(self.is_in_full_text(at, text) for at in range(len(self.library)))
            else:
                found = max(self.used[keyword] for keyword in known)
                is_searched = found > 1 and not (text.isascii() and text.isalnum())
                found = max(found, sum(self.is_in_vocabulary(at, stemmed(text)) for at in range(len(self.library))))
                if is_searched:
                    found = max(found, sum(self.is_in_full_text(at, text) for at in range(len(self.library))))
            self.counts[text] = found
        return self.counts[text]

    def rarity(self, count: int) -> float:
        return math.log(1 + (len(self.library) - count + 0.5) / (count + 0.5))

    # How a request is read

    def words(self, query: str) -> list[Asked]:
        """Return the words of a request, each inflected form once; a joined word that is not known is left out."""
        return self.asked(extract_keywords(query))

    def asked(self, keywords: Iterable[str]) -> list[Asked]:
        texts: dict[str, str] = {}
        for keyword in keywords:
            texts.setdefault(stemmed(keyword), keyword)
        counts = {stem: self.count(text) for stem, text in texts.items()}
        known = [stem for stem in texts if counts[stem] or len(extract_keywords(texts[stem])) == 1]
        rarest = sorted(known, key=lambda stem: (texts[stem].isdigit(), not counts[stem], counts[stem]))
        most = weights.MOST_HELD * len(self.library)
        read = {
            stem
            for at, stem in enumerate(rarest[: weights.MOST_WORDS])
            if at < weights.LEAST_WORDS or sum(counts[one] for one in rarest[: at + 1]) <= most
        }
        known = [stem for stem in known if stem in read]
        everyday = {
            stem for stem in known if texts[stem] in EVERYDAY or (not counts[stem] and texts[stem][0].isdigit())
        }
        beside = len(everyday) < len(known)
        return [
            Asked(texts[stem], stem, counts[stem], weights.EVERYDAY if beside and stem in everyday else 1.0)
            for stem in known
        ]

    def forms(self, words: Sequence[Asked]) -> list[Standing]:
        own = [Standing(word, word.text, "exact", 1.0) for word in words if word.holders]
        joined = [
            Standing(word, one.text + other.text, "joined", weights.FACTORS["joined"])
            for one, other in itertools.pairwise(words)
            if one.text.isalpha() and other.text.isalpha() and one.text + other.text in self.used
            for word in (one, other)
        ]
        met = [(form, texts) for synonym in self.synonyms for form, texts in self.met(synonym, words)]
        named = {form.word.text for form in joined} | {text for _, texts in met for text in texts}
        unknown = [word for word in words if not word.holders and word.share >= 1.0 and word.text not in named]
        repaired = [
            Standing(word, text, "typo", weights.FACTORS["typo"])
            for word in unknown
            if (text := likeliest(word.text, self.used, self.used))
        ]
        if len(words) - len(unknown) + len(repaired) / 2 < len(words) / 2:
            repaired = []
        others = [*joined, *(form for form, _ in met), *repaired]
        return [*own, *strongest(others, {form.stem for form in own})]

    def beside_terms(
        self, words: Sequence[Asked], terms: Sequence[str]
    ) -> tuple[list[Asked], list[Asked], list[Standing]]:
        """Return the words of the request, those of the terms that it lacks, and what all of them are looked for by."""
        words_of = {term: list(iterate_keywords(term)) for term in terms}
        naming = {stemmed(word): term for term in reversed(terms) for word in words_of[term]}
        words = [w._replace(share=w.share * weights.CONFIRMED) if w.stem in naming else w for w in words]
        forms = self.forms(words)
        asked = {word.stem for word in words}
        lacking = [word for term in terms for word in words_of[term] if stemmed(word) not in asked]
        further = [word._replace(term=naming[word.stem]) for word in self.asked(lacking)]
        most = [
            max((self.rarity(word.holders) for word in further if word.holders and word.term == term), default=0.0)
            for term in terms
        ]
        share = weights.TERM * min(1.0, self.ideal(words, forms) / (math.fsum(most) or 1e-9))
        further = [word._replace(share=share) for word in further]
        own = [Standing(word, word.text, "term", 1.0) for word in further if word.holders]
        names = [form for synonym in self.synonyms for form, _ in self.met(synonym, further) if form.how == "synonym"]
        known = {word.stem for word in (*words, *further)}
        return words, further, [*forms, *own, *strongest(names, known)]

    def met(self, synonym: Synonym, words: Sequence[Asked]) -> list[tuple[Standing, list[str]]]:
        """Return the forms of a synonym, and the words that meet it, where each slot is met by a word of its own."""
        if not any(
            all(word.stem in slot for word, slot in zip(chosen, synonym.slots, strict=True))
            for chosen in itertools.permutations(words, len(synonym.slots))
        ):
            return []
        meeting = [word for word in words if any(word.stem in slot for slot in synonym.slots)]
        rarest = min(meeting, key=lambda word: word.holders)
        found = []
        for place, stem in enumerate(synonym.forms):
            factor = weights.FACTORS[synonym.how] * (weights.DECAY**place if synonym.how == "related" else 1.0)
            if stem in self.keywords:
                text = min(self.keywords[stem], key=lambda one: (-self.used[one], one))
                found.append((Standing(rarest, text, synonym.how, factor), [w.text for w in meeting]))
        return found

    def parts(self, words: Sequence[Asked], forms: Sequence[Standing]) -> list[Standing]:
        """Return the keywords that contain a word of three letters or more, the most used of each."""
        found = []
        for word in words:
            inside = [one for one in self.used if len(word.text) >= 3 and word.text in one and one != word.text]
            best = sorted(inside, key=lambda one: (-self.used[one], one))[:MOST_PARTS]
            found += [Standing(word, one, "part", weights.FACTORS["part"]) for one in best]
        return strongest(found, {form.stem for form in forms})

    # What a fragment earns

    def to_whole(self, value: float) -> int:
        if abs(value % 1 - 0.5) < 1e-6:
            self.clear = False
        return round(value)

    def weight(self, at: int, stem: str) -> int:
        """Return the thousandths of its rarity that a fragment earns by a word in its short texts."""
        evidence = 0.0
        for field, held in self.held[at].items():
            if stem in held:
                share = weights.LENGTH_SHARE
                divisor = 1 - share + share * held.total() / self.typical[field]
                evidence += weights.FIELD_WEIGHTS[field] / divisor
        return max(1, self.to_whole(1000 * evidence / (evidence + weights.SATURATION)))

    def gain(self, form: Standing) -> float:
        """Return what a form can earn: never more than the word that it stands in for."""
        most = weights.RARITY_BOUND * self.rarity(form.word.holders) if form.word.holders else math.inf
        return min(self.rarity(self.count(form.text)), most) * form.factor * form.word.share

    def points(self, at: int, forms: Sequence[Standing]) -> tuple[int, int] | None:
        """Return what the forms of a request earn, a word by its best, then by all; None if the fragment holds none."""
        best: dict[tuple[str, str], int] = {}
        met = []
        in_body = []
        for form in forms:
            gain = self.to_whole(1000 * self.gain(form))
            if any(form.stem in held for held in self.held[at].values()):
                unit = form.word.unit
                best[unit] = max(best.get(unit, 0), gain * self.weight(at, form.stem))
                met.append(gain * self.weight(at, form.stem))
            few = max(weights.BODY_FEW, weights.BODY_SPREAD * len(self.library))
            if form.how != "part" and self.count(form.text) <= few and self.is_in_body(at, form.text):
                in_body.append(gain * weights.BODY_WEIGHT)
        return (sum(best.values()) + sum(in_body), sum(met) + sum(in_body)) if best or in_body else None

    def norm(self, at: int) -> int:
        """Return the root of the sum of the squares of what the words of its short texts earn, at least 1000."""
        words = {stem for held in self.held[at].values() for stem in held}
        return max(1000, self.to_whole(math.sqrt(sum(self.weight(at, stem) ** 2 for stem in words))))

    def name_share(self, at: int, asked: set[str]) -> float:
        """Return the share of the letters of its name that the request covers, word by word to the next thousandth."""
        name = self.held[at][weights.NAME]
        letters = sum(len(stem) for stem in name)
        covered = sum(
            math.floor(Fraction(1000 * len(stem), letters) + Fraction(1, 2)) for stem in name if stem in asked
        )
        return min(1.0, covered / 1000)

    def learnt(self, values: Mapping[int, float], own: set[str]) -> dict[str, float]:
        """Return the strength of the words that the best fragments have in common."""
        seeds = sorted(values, key=lambda at: (-values[at], self.uris[at]))[: weights.FEEDBACK_SEEDS]
        total = math.fsum(values[at] for at in seeds)
        holding = {stem: [at for at in seeds if stem in self.topics[at]] for at in seeds for stem in self.topics[at]}
        strengths = {}
        for stem, places in holding.items():
            votes = math.fsum(values[at] for at in places)
            if total and abs(votes / total - weights.FEEDBACK_VOTES) < 1e-9:
                self.clear = False
            if self.topic_counts[stem] > 1 and stem not in own and votes > weights.FEEDBACK_VOTES * total:
                rarity = math.log((len(self.library) + 0.5) / (self.topic_counts[stem] + 0.5))
                strengths[stem] = votes * self.to_whole(1000 * rarity)
        order = sorted(strengths, key=lambda stem: (-strengths[stem], stem))
        best, rest = order[: weights.FEEDBACK_WORDS], order[weights.FEEDBACK_WORDS :]
        if rest and holding[best[-1]] != holding[rest[0]] and math.isclose(strengths[best[-1]], strengths[rest[0]]):
            self.clear = False
        return {stem: strengths[stem] for stem in best}

    def values(self, request: MatchRequest, forms: Sequence[Standing]) -> dict[int, float]:
        """Return the value of every fragment that is admitted and holds anything."""
        admitted = [at for at, fragment in enumerate(self.library) if is_admitted(fragment, request)]
        both = {at: earned for at in admitted if (earned := self.points(at, forms)) is not None}
        points = {at: best for at, (best, _) in both.items()}
        bound = sorted(points.values(), reverse=True)[: weights.RAISED][-1] if points else 0
        asked = {form.stem for form in forms}
        raised = {
            at: earned * (1 + weights.NAME_BONUS * self.name_share(at, asked))
            for at, earned in points.items()
            if earned >= bound
        }
        learnt = self.learnt(raised, {form.stem for form in forms if form.how in WHOLE})
        strength = math.fsum(learnt.values())
        unit = weights.FEEDBACK * max(raised.values(), default=0) / strength if strength else 0.0
        gained = {
            at: value + unit * math.fsum(points for stem, points in learnt.items() if stem in self.topics[at])
            for at, value in raised.items()
        }
        focus = {at: both[at][1] / self.norm(at) for at in gained}
        most = max(focus.values(), default=1.0)
        gained = {at: value * (1 + weights.FOCUS * focus[at] / most) for at, value in gained.items()}
        return {at: gained.get(at, earned) for at, earned in points.items()}

    def ideal(self, words: Sequence[Asked], forms: Sequence[Standing]) -> float:
        """Return what an ideal answer earns; an unknown word counts what its best form can earn."""
        wanted = []
        for word in words:
            gains = [self.gain(form) for form in forms if form.word == word]
            rarity = self.rarity(word.holders) * word.share
            wanted.append(rarity if word.holders else max(gains, default=rarity * weights.UNKNOWN_WORD))
        return sum(sorted(wanted, reverse=True)[: weights.IDEAL_WORDS]) or 1.0

    def scenario(self, at: int, forms: Sequence[Standing]) -> str | None:
        """Return the scenario of a fragment that holds most words of the request, the first of several."""

        def held(line: str) -> int:
            return len({form.word.unit for form in forms if form.how in WHOLE and form.stem in stems(line)})

        return max(self.library[at].use_when, key=held, default=None)

    def listed(
        self, request: MatchRequest, words: Sequence[Asked], forms: Sequence[Standing]
    ) -> list[tuple[str, float, str | None]]:
        half = 1_000_000 * weights.HALF_SCORE * self.ideal(words, forms)
        found = []
        for at, value in self.values(request, forms).items():
            score = 100 * value / (value + half)
            if abs(score - request.min_score + 0.005) < 1e-6 or abs(100 * score % 1 - 0.5) < 1e-6:
                self.clear = False
            if round(score, 2) >= request.min_score:
                found.append((self.uris[at], round(score, 2), self.scenario(at, forms)))
        return sorted(found, key=lambda row: (-row[1], row[0]))

    def answer(self, request: MatchRequest) -> Expected:
        """Return what *request* is answered, wider where fewer than two fragments match and filters admit more."""
        words, further, forms = self.beside_terms(self.words(request.query), request.terms)
        found = self.listed(request, words, forms)
        admitted = sum(is_admitted(fragment, request) for fragment in self.library)
        is_wider = len(found) < (min(weights.ENOUGH, admitted) if request.tags else weights.ENOUGH)
        if is_wider:
            forms += self.parts([*words, *further], forms)
            found = self.listed(request, words, forms)
        taken: set[str] = set()
        rows = []
        for row in found:
            if row[0] not in taken:
                rows.append(row)
                taken |= self.group(row[0])
        return Expected(rows[: request.max_results], len(found), is_wider)

    def group(self, uri: str) -> set[str]:
        """Return the near-copies of a fragment, and theirs, itself included."""
        group, added = {uri}, [uri]
        while added:
            one = self.library[self.uris.index(added.pop())]
            near = {u for u, other in zip(self.uris, self.library, strict=True) if are_near_copies(one, other)} - group
            group |= near
            added += near
        return group

    def copies(self, uri: str, request: MatchRequest) -> set[str]:
        """Return the near-copies that stand beside a fragment in an answer."""
        admitted = {u for u, one in zip(self.uris, self.library, strict=True) if is_admitted(one, request)}
        return (self.group(uri) & admitted) - {uri}


def without(text: str, line: str) -> str:
    """Return *text* without *line*, in any case and however it is wrapped, but not where it goes on in a word."""
    for found in reversed([*re.finditer(r"\s+".join(map(re.escape, line.split())), text, re.IGNORECASE)]):
        around = text[max(0, found.start() - 1) : found.start()] + text[found.end() : found.end() + 1]
        if not any(one.isascii() and one.isalnum() for one in around):
            text = f"{text[: found.start()]} {text[found.end() :]}"
    return text


def are_near_copies(one: Fragment, other: Fragment) -> bool:
    """Tell whether two of these agree: name, description, text; for short texts, to agree is to be equal."""
    words = [{*re.findall(r"\w+", fragment.description.casefold())} for fragment in (one, other)]
    common, either = len(words[0] & words[1]), len(words[0] | words[1])
    is_described = min(map(len, words)) >= 4 and common >= 0.75 * either
    return (one.name == other.name) + is_described + (one.body == other.body and len(one.body.encode()) >= 80) >= 2


def is_admitted(fragment: Fragment, request: MatchRequest) -> bool:
    wanted = not request.categories or fragment.category in request.categories
    return wanted and set(request.tags) <= set(fragment.tags)


def strongest(forms: Iterable[Standing], known: set[str]) -> list[Standing]:
    """Return the strongest of the forms that stand for the same word by the same stem, none of those *known*."""
    best: dict[tuple[str, str], Standing] = {}
    for form in forms:
        key = form.word.text, form.stem
        if form.stem not in known and (key not in best or form.factor > best[key].factor):
            best[key] = form
    return list(best.values())
