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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.tiers.kept import Kept, Slots
from orchestr8_sqlite.tiers.weights import BODY_SPREAD, DECAY, EVERYDAY, FACTORS, RARITY_BOUND, rarity_of
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

KNOWN_WORDS = """
SELECT k.text, k.fragment_count, t.stem, t.fragment_count
  FROM json_each(:words) CROSS JOIN keyword k ON k.text = value CROSS JOIN term t ON t.stem = k.stem
"""
NEIGHBOURS = """
SELECT (SELECT max(text) FROM keyword WHERE text <= :word), (SELECT min(text) FROM keyword WHERE text >= :word),
       (SELECT key FROM json_each(:endings)
         WHERE EXISTS (SELECT 1 FROM keyword_suffix WHERE suffix = value) ORDER BY key LIMIT 1)
"""
CONTAINING_WORDS = """
SELECT k.text, t.stem, t.fragment_count
  FROM keyword_suffix x JOIN keyword k ON k.id = x.keyword_id JOIN term t ON t.stem = k.stem
 WHERE x.suffix >= :word AND x.suffix < :word || char(1114111) AND k.text <> :word
 GROUP BY k.id ORDER BY k.fragment_count DESC, k.text LIMIT :limit
"""
SYNONYM_FORMS = """
SELECT f.synonym_id, f.ordinal, f.how, t.stem, t.fragment_count
  FROM json_each(:ids) met CROSS JOIN synonym_form f ON f.synonym_id = met.value CROSS JOIN term t ON t.stem = f.stem
 WHERE t.field_count > 0
"""


class Word(NamedTuple):
    """One word of a request; `fragment_count` hold it, and where none does it is as rare as can be."""

    text: str
    stem: str
    fragment_count: int
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
    stem: str
    fragment_count: int
    rarity: float
    factor: float

    @property
    def gain(self) -> float:
        """Return what a fragment could earn by it: its rarity, or that of the word where that is less."""
        rarity = self.rarity if not self.word.fragment_count else min(self.rarity, RARITY_BOUND * self.word.rarity)
        return rarity * self.factor * self.word.weight


class Reading(NamedTuple):
    """How a request is read: its words, and the terms that each of them is looked for by."""

    words: tuple[Word, ...]
    forms: tuple[Form, ...]
    size: int
    """Fragments of the index."""

    named: frozenset[str] = frozenset()
    """Words that meet a synonym, alone or with others; forms are given for one of them."""

    @property
    def read_as(self) -> dict[str, str]:
        """Return the words that were taken for typos, and what they were read as."""
        return {form.word.text: form.text for form in self.forms if form.how == "typo"}

    def searches_bodies(self, form: Form) -> bool:
        """Tell whether *form* is looked for in bodies too: a word itself, where not too many fragments hold it."""
        return form.how in SEARCHED_WHOLE and form.fragment_count <= BODY_SPREAD * self.size

    @property
    def stems(self) -> frozenset[str]:
        """Return the stems that stand for words of the request themselves, typos repaired."""
        return frozenset(form.stem for form in self.forms if form.how in SEARCHED_WHOLE)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the words that the index does not know in any form."""
        known = self.named | {form.word.text for form in self.forms}
        return tuple(word.text for word in self.words if word.text not in known)


def read_request(db: sqlite3.Connection, keywords: Sequence[str], kept: Kept | None = None) -> Reading:
    """Return the words of a request, in its order and each inflected form once, with what stands in for them.

    Typos are repaired only where at least half of the words are then understood, a repaired one counting
    half: a lucky neighbour must not make sense of a nonsense request. A word with a synonym is no typo.
    """
    kept = kept or Kept(db)
    size = kept.size
    words = read_words(kept, keywords)
    own = [
        Form(word, word.text, OWN, word.stem, word.fragment_count, word.rarity, 1.0)
        for word in words
        if word.fragment_count
    ]
    joined = list(_joined(db, words, size))
    synonyms = list(_synonyms(db, words, kept))
    named = frozenset(text for _, texts in synonyms for text in texts) | {form.word.text for form in joined}
    unknown = [word for word in words if not word.fragment_count and not word.everyday and word.text not in named]
    repairs = list(_repaired(db, unknown, size))
    if len(words) - len(unknown) + len(repairs) / 2 < len(words) / 2:
        repairs = []
    others = [*joined, *(form for form, _ in synonyms), *repairs]
    return Reading(
        tuple(words), (*own, *_best(others, {word.stem for word in words if word.fragment_count})), size, named
    )


def read_parts(db: sqlite3.Connection, reading: Reading) -> Reading:
    """Return *reading* with the keywords that contain a word of it as further forms, the most used of each."""
    known = {form.stem for form in reading.forms}
    parts = [
        Form(word, text, "part", one, count, rarity_of(reading.size, count), FACTORS["part"])
        for word in reading.words
        if len(word.text) >= MIN_PART_LENGTH
        for text, one, count in db.execute(CONTAINING_WORDS, {"word": word.text, "limit": MAX_PARTS})
    ]
    return reading._replace(forms=(*reading.forms, *_best(parts, known)))


def read_words(kept: Kept, keywords: Sequence[str]) -> list[Word]:
    """Return the words of a request; a joined word that the index does not know is left to its parts.

    A number that the index does not know (`300k`, `3.7`) tells of the case, not of the subject: it counts as everyday.
    """
    texts: dict[str, str] = {}
    for keyword in keywords:
        texts.setdefault(stem(keyword), keyword)
    counts = {one: term.fragment_count for one, term in kept.terms(texts).items()}
    everyday = everyday_words()
    known = [one for one in texts if one in counts or len(extract_keywords(texts[one])) == 1]
    plain = {one for one in known if texts[one] in everyday or (one not in counts and texts[one][0].isdigit())}
    topical = len(plain) < len(known)
    return [
        Word(texts[one], one, count := counts.get(one, 0), rarity_of(kept.size, count), topical and one in plain)
        for one in known
    ]


def repair_typos(db: sqlite3.Connection, words: Iterable[str]) -> Iterator[tuple[str, str, str, int]]:
    """Yield for each of *words* the most used keyword of the index that is one edit away, where there is one.

    An edit is a letter more, less, other, or two neighbours swapped; one that keeps the first letter is likelier.
    Words below four letters are left alone; in words below six the first letter stays and none is taken for another.

    Yields:
        (word, keyword, its stem, how many fragments hold that).
    """
    for word in words:
        if len(word) < MIN_TYPO_LENGTH:
            continue
        edits = list(_edits(word, *_bounds(db, word)))
        if edits and (known := db.execute(KNOWN_WORDS, {"words": _json(edits)}).fetchall()):
            text, _, one, count = min(known, key=lambda row: (row[0][0] != word[0], -row[1], row[0]))
            yield word, text, one, count


def _repaired(db: sqlite3.Connection, words: Sequence[Word], size: int) -> Iterator[Form]:
    by_text = {word.text: word for word in words}
    for word, text, one, count in repair_typos(db, by_text):
        yield Form(by_text[word], text, "typo", one, count, rarity_of(size, count), FACTORS["typo"])


def _joined(db: sqlite3.Connection, words: Sequence[Word], size: int) -> Iterator[Form]:
    pairs = {
        one.text + other.text: (one, other)
        for one, other in itertools.pairwise(words)
        if one.text.isalpha() and other.text.isalpha()
    }
    for text, _, one, count in sorted(db.execute(KNOWN_WORDS, {"words": _json(list(pairs))})) if pairs else ():
        for word in pairs[text]:
            yield Form(word, text, "joined", one, count, rarity_of(size, count), FACTORS["joined"])


def _synonyms(db: sqlite3.Connection, words: Sequence[Word], kept: Kept) -> Iterator[tuple[Form, list[str]]]:
    """Yield (form, words that meet it) of every synonym whose slots are all met; the form is for the rarest word."""
    by_stem = {word.stem: word for word in words}
    met = _met_synonyms(kept.synonym_slots(by_stem))
    rows = db.execute(SYNONYM_FORMS, {"ids": str(list(met))}).fetchall() if met else []
    meeting = {id_: [word for text, word in by_stem.items() if text in met[id_]] for id_, *_ in rows}
    rarest = {id_: max(several, key=lambda word: word.rarity) for id_, several in meeting.items()}
    for id_, ordinal, how, one, count in sorted(rows):
        factor = FACTORS[how] * (DECAY**ordinal if how == "related" else 1.0)
        form = Form(rarest[id_], one, how, one, count, rarity_of(kept.size, count), factor)
        yield form, [word.text for word in meeting[id_]]


def _met_synonyms(slots: Mapping[str, Mapping[int, Slots]]) -> dict[int, list[str]]:
    """Return the synonyms every slot of which can be met by a word of its own, each with the stems that meet it.

    Args:
        slots: For each stem of the request the synonyms it meets slots of.
    """
    possible = {id_ for own in slots.values() for id_, (_, needed) in own.items() if needed == 1}
    for one, other in itertools.combinations(slots.values(), 2):
        possible |= one.keys() & other.keys()
    meeting = {id_: {stem: own[id_] for stem, own in slots.items() if id_ in own} for id_ in possible}
    return {id_: list(met) for id_, met in meeting.items() if _fill(list(met.values()))}


def _fill(words: Sequence[Slots]) -> bool:
    """Tell whether every slot can be met by another one of *words*."""
    if words[0].needed == 1:
        return True
    meeting = [[at for at, word in enumerate(words) if word.met >> slot & 1] for slot in range(words[0].needed)]
    return any(len(set(choice)) == len(choice) for choice in itertools.product(*meeting))


def _best(forms: Iterable[Form], known: Collection[str]) -> list[Form]:
    """Return the strongest of the forms that stand for the same word by the same term, without *known* terms."""
    best: dict[tuple[str, str], Form] = {}
    for form in forms:
        key = form.word.text, form.stem
        if form.stem not in known and (key not in best or form.factor > best[key].factor):
            best[key] = form
    return list(best.values())


def _bounds(db: sqlite3.Connection, word: str) -> tuple[int, int]:
    """Return how many letters at most a keyword begins with as *word* does, and where what it ends with may start."""
    endings = [word[start:] for start in range(len(word) - 1)]
    before, behind, start = db.execute(NEIGHBOURS, {"word": word, "endings": _json(endings)}).fetchone()
    begun = max(_shared(word, other or "") for other in (before, behind))
    return begun, len(endings) if start is None else start


def _shared(word: str, other: str) -> int:
    """Return how many letters both begin with."""
    pairs = enumerate(zip(word, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(word), len(other)))


def _edits(word: str, begun: int, ended: int) -> Iterator[str]:
    """Yield what is one edit away, for short words the likelier edits only.

    What comes before an edit begins a keyword, and what comes behind it ends one: the first *begun* letters at most,
    and from the letter *ended* on at most. That leaves a few places to look at.
    """
    short = len(word) < MIN_SUBSTITUTION_LENGTH
    for at in range(max(0, ended - 2), begun + 1):
        before, after = word[:at], word[at:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        if short and not before:
            continue
        if after and at + 1 >= ended:
            yield before + after[1:]
            if not short:
                yield from [before + letter + after[1:] for letter in ALPHABET]
        if at >= ended:
            yield from [before + letter + after for letter in ALPHABET]


def _json(values: Sequence[str]) -> str:
    return json.dumps(values)
