"""The words of a request, and the other terms of the index that may stand in for each.

typo      a word that the index does not know → the most used keyword one edit away
joined    two neighbours → the keyword that they are together: type script → typescript
synonym   another name, from the word lists
related   what may meet the need, from the word lists
part      a word → the keywords that contain it: postgres → postgresql (tier 3 only)
"""

import itertools
import json
import sqlite3
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.tiers.weights import DECAY, EVERYDAY, FACTORS, RARITY_BOUND, rarity_of
from orchestr8_sqlite.wordlists import everyday_words

OWN = "exact"
"""How a word stands for itself, inflected or not."""

SEARCHED_WHOLE = (OWN, "typo", "joined")
"""Forms that are searched in bodies too; the others in the short fields alone."""

MIN_TYPO_LENGTH = 4
MIN_SUBSTITUTION_LENGTH = 6
"""Letters; in a shorter word another letter makes another word (bread, break), so it is not taken for a slip."""

MIN_PART_LENGTH = 3
MAX_PARTS = 20
ALPHABET = string.ascii_lowercase + string.digits

TERMS = "SELECT stem, id, rarity FROM term WHERE stem IN (SELECT value FROM json_each(:stems))"
SIZE = "SELECT count(*) FROM fragment"
KNOWN_WORDS = """
SELECT k.text, k.fragment_count, t.id, t.rarity FROM keyword k JOIN term t ON t.stem = k.stem
 WHERE k.text IN (SELECT value FROM json_each(:words))
"""
CONTAINING_WORDS = """
SELECT k.text, t.id, t.rarity
  FROM keyword_suffix x JOIN keyword k ON k.id = x.keyword_id JOIN term t ON t.stem = k.stem
 WHERE x.suffix >= :word AND x.suffix < :word || char(1114111) AND k.text <> :word
 GROUP BY k.id ORDER BY k.fragment_count DESC, k.text LIMIT :limit
"""
SYNONYMS = """
WITH
met (synonym_id, slot, stem) AS MATERIALIZED (
    SELECT w.synonym_id, w.slot, w.stem FROM json_each(:stems) q JOIN synonym_word w ON w.stem = q.value),
complete (id, how) AS MATERIALIZED (
    SELECT s.id, s.how FROM met JOIN synonym s ON s.id = met.synonym_id
     GROUP BY s.id HAVING count(DISTINCT met.slot) = s.slots AND count(DISTINCT met.stem) >= s.slots)
SELECT c.id, met.slot, met.stem, c.how, f.ordinal, t.stem, t.id, t.rarity
  FROM complete c
  JOIN met ON met.synonym_id = c.id
  JOIN synonym_form f ON f.synonym_id = c.id
  JOIN term t ON t.id = f.term_id
 ORDER BY c.id, f.ordinal, met.slot, met.stem
"""


class Word(NamedTuple):
    """One word of a request; `term_id` is None where the index does not know it, and it is as rare as can be."""

    text: str
    stem: str
    term_id: int | None
    rarity: float
    everyday: bool

    @property
    def weight(self) -> float:
        """Return what the word counts beside other words."""
        return EVERYDAY if self.everyday else 1.0


class Form(NamedTuple):
    """A term that stands in for a word of the request; `factor` is what it counts where the word counts 1."""

    word: Word
    text: str
    how: str
    term_id: int
    rarity: float
    factor: float

    @property
    def gain(self) -> float:
        """Return what a fragment could earn by it: its rarity, or that of the word where that is less."""
        rarity = self.rarity if self.word.term_id is None else min(self.rarity, RARITY_BOUND * self.word.rarity)
        return rarity * self.factor * self.word.weight


class Reading(NamedTuple):
    """How a request is read: its words, and the terms that each of them is looked for by."""

    words: tuple[Word, ...]
    forms: tuple[Form, ...]
    named: frozenset[str] = frozenset()
    """Words that meet a synonym, alone or with others; forms are given for one of them."""

    @property
    def read_as(self) -> dict[str, str]:
        """Return the words that were taken for typos, and what they were read as."""
        return {form.word.text: form.text for form in self.forms if form.how == "typo"}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the words that the index does not know in any form."""
        known = self.named | {form.word.text for form in self.forms}
        return tuple(word.text for word in self.words if word.text not in known)


def read_request(db: sqlite3.Connection, keywords: Sequence[str]) -> Reading:
    """Return the words of a request, in its order and each inflected form once, with what stands in for them.

    Typos are repaired only where at least half of the words are then understood, a repaired one counting
    half: a lucky neighbour must not make sense of a nonsense request. A word with a synonym is no typo.
    """
    words = read_words(db, keywords)
    own = [Form(word, word.text, OWN, word.term_id, word.rarity, 1.0) for word in words if word.term_id is not None]
    joined = list(_joined(db, words))
    synonyms = list(_synonyms(db, words))
    named = frozenset(text for _, texts in synonyms for text in texts) | {form.word.text for form in joined}
    unknown = [word for word in words if word.term_id is None and not word.everyday and word.text not in named]
    repairs = list(_repaired(db, unknown))
    if len(words) - len(unknown) + len(repairs) / 2 < len(words) / 2:
        repairs = []
    others = [*joined, *(form for form, _ in synonyms), *repairs]
    return Reading(tuple(words), (*own, *_best(others, {word.term_id for word in words})), named)


def read_parts(db: sqlite3.Connection, reading: Reading) -> Reading:
    """Return *reading* with the keywords that contain a word of it as further forms, the most used of each."""
    known = {form.term_id for form in reading.forms}
    parts = [
        Form(word, text, "part", term_id, rarity, FACTORS["part"])
        for word in reading.words
        if len(word.text) >= MIN_PART_LENGTH
        for text, term_id, rarity in db.execute(CONTAINING_WORDS, {"word": word.text, "limit": MAX_PARTS})
    ]
    return Reading(reading.words, (*reading.forms, *_best(parts, known)), reading.named)


def read_words(db: sqlite3.Connection, keywords: Sequence[str]) -> list[Word]:
    """Return the words of a request; a joined word that the index does not know is left to its parts.

    A number that the index does not know (`300k`, `3.7`) tells of the case, not of the subject: it counts as everyday.
    """
    stems = dict.fromkeys(stem(keyword) for keyword in keywords)
    texts = {stem(keyword): keyword for keyword in reversed(keywords)}
    terms = {one: (id_, rarity) for one, id_, rarity in db.execute(TERMS, {"stems": _json(list(stems))})}
    rarest = _rarest(db)
    everyday = everyday_words()
    known = [one for one in stems if one in terms or len(extract_keywords(texts[one])) == 1]
    plain = {one for one in known if texts[one] in everyday or (one not in terms and texts[one][0].isdigit())}
    topical = len(plain) < len(known)
    return [Word(texts[one], one, *terms.get(one, (None, rarest)), everyday=topical and one in plain) for one in known]


def repair_typos(db: sqlite3.Connection, words: Iterable[str]) -> Iterator[tuple[str, str, int, float]]:
    """Yield for each of *words* the most used keyword of the index that is one edit away, where there is one.

    An edit is a letter more, less, other, or two neighbours swapped; one that keeps the first letter is likelier.
    Words below four letters are left alone; in words below six the first letter stays and none is taken for another.

    Yields:
        (word, keyword, its term, the term's rarity).
    """
    for word in words:
        if len(word) < MIN_TYPO_LENGTH:
            continue
        known = db.execute(KNOWN_WORDS, {"words": _json(sorted(set(_edits(word))))}).fetchall()
        if known:
            text, _, term_id, rarity = min(known, key=lambda row: (row[0][0] != word[0], -row[1], row[0]))
            yield word, text, term_id, rarity


def _repaired(db: sqlite3.Connection, words: Sequence[Word]) -> Iterator[Form]:
    by_text = {word.text: word for word in words}
    for word, text, term_id, rarity in repair_typos(db, by_text):
        yield Form(by_text[word], text, "typo", term_id, rarity, FACTORS["typo"])


def _joined(db: sqlite3.Connection, words: Sequence[Word]) -> Iterator[Form]:
    pairs = {
        one.text + other.text: (one, other)
        for one, other in itertools.pairwise(words)
        if one.text.isalpha() and other.text.isalpha()
    }
    for text, _, term_id, rarity in db.execute(KNOWN_WORDS, {"words": _json(list(pairs))}) if pairs else ():
        for word in pairs[text]:
            yield Form(word, text, "joined", term_id, rarity, FACTORS["joined"])


def _synonyms(db: sqlite3.Connection, words: Sequence[Word]) -> Iterator[tuple[Form, list[str]]]:
    """Yield (form, words that meet it) of every synonym whose slots are all met; the form is for the rarest word."""
    by_stem = {word.stem: word for word in words}
    rows = db.execute(SYNONYMS, {"stems": _json(list(by_stem))})
    for _, group in itertools.groupby(rows, key=lambda row: (row[0], row[4])):
        met = list(group)
        if not _one_each({(row[1], row[2]) for row in met}):
            continue
        meeting = [by_stem[one] for one in dict.fromkeys(row[2] for row in met)]
        word = max(meeting, key=lambda word: word.rarity)
        _, _, _, how, ordinal, text, term_id, rarity = met[0]
        factor = FACTORS[how] * (DECAY**ordinal if how == "related" else 1.0)
        yield Form(word, text, how, term_id, rarity, factor), [word.text for word in meeting]


def _one_each(met: Iterable[tuple[int, str]]) -> bool:
    """Tell whether every slot can be met by a word of its own."""
    stems: dict[int, list[str]] = {}
    for slot, one in met:
        stems.setdefault(slot, []).append(one)
    return any(len(set(choice)) == len(choice) for choice in itertools.product(*stems.values()))


def _best(forms: Iterable[Form], known: Iterable[int | None]) -> list[Form]:
    """Return the strongest of the forms that stand for the same word by the same term, without *known* terms."""
    excluded = set(known)
    best: dict[tuple[str, int], Form] = {}
    for form in forms:
        key = form.word.text, form.term_id
        if form.term_id not in excluded and (key not in best or form.factor > best[key].factor):
            best[key] = form
    return list(best.values())


def _rarest(db: sqlite3.Connection) -> float:
    """Return the rarity of a word that no fragment holds."""
    return rarity_of(int(db.execute(SIZE).fetchone()[0]), 0)


def _edits(word: str) -> Iterator[str]:
    """Yield what is one edit away, for short words the likelier edits only."""
    short = len(word) < MIN_SUBSTITUTION_LENGTH
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        if short and not before:
            continue
        for letter in ALPHABET:
            yield before + letter + after
            if after and not short:
                yield before + letter + after[1:]
        if after:
            yield before + after[1:]


def _json(values: Sequence[str]) -> str:
    return json.dumps(values, ensure_ascii=False)
