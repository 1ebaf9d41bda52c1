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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.tiers.kept import Kept, KnownWord, Meets, Slots, SynonymForm
from orchestr8_sqlite.tiers.typos import KNOWN_WORDS, repair_typos
from orchestr8_sqlite.tiers.weights import BODY_SPREAD, DECAY, EVERYDAY, FACTORS, RARITY_BOUND, rarity_of
from orchestr8_sqlite.wordlists import everyday_words

OWN = "exact"
"""How a word stands for itself, inflected or not."""

SEARCHED_WHOLE = (OWN, "typo", "joined")
"""Forms that are searched in bodies too; the others in the short fields alone."""

MIN_PART_LENGTH = 3
MAX_PARTS = 20
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
    joined = list(_joined(db, words, kept))
    synonyms = list(_synonyms(db, words, kept))
    named = frozenset(text for _, texts in synonyms for text in texts) | {form.word.text for form in joined}
    unknown = [word for word in words if not word.fragment_count and not word.everyday and word.text not in named]
    repairs = list(_repaired(db, unknown, kept))
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


def _repaired(db: sqlite3.Connection, words: Sequence[Word], kept: Kept) -> Iterator[Form]:
    by_text = {word.text: word for word in words}
    found = kept.repairs.of(by_text, partial(_read_repairs, db)) if by_text else {}
    for text, word in by_text.items():
        if repair := found[text]:
            rarity = rarity_of(kept.size, repair.fragment_count)
            yield Form(word, repair.text, "typo", repair.stem, repair.fragment_count, rarity, FACTORS["typo"])


def _read_repairs(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, KnownWord | None]:
    found = {word: KnownWord(text, one, count) for word, text, one, count in repair_typos(db, words)}
    return dict.fromkeys(words) | found


def _joined(db: sqlite3.Connection, words: Sequence[Word], kept: Kept) -> Iterator[Form]:
    pairs = {
        one.text + other.text: (one, other)
        for one, other in itertools.pairwise(words)
        if one.text.isalpha() and other.text.isalpha()
    }
    found = kept.joined.of(pairs, partial(_read_joined, db)) if pairs else {}
    for text, one, count in sorted(filter(None, found.values())):
        for word in pairs[text]:
            yield Form(word, text, "joined", one, count, rarity_of(kept.size, count), FACTORS["joined"])


def _read_joined(db: sqlite3.Connection, texts: Sequence[str]) -> dict[str, KnownWord | None]:
    rows = db.execute(KNOWN_WORDS, {"words": _json(texts)})
    return dict.fromkeys(texts) | {text: KnownWord(text, one, count) for text, _, one, count in rows}


def _synonyms(db: sqlite3.Connection, words: Sequence[Word], kept: Kept) -> Iterator[tuple[Form, list[str]]]:
    """Yield (form, words that meet it) of every synonym whose slots are all met; the form is for the rarest word."""
    by_stem = {word.stem: word for word in words}
    met = _met_synonyms(kept.synonym_slots(by_stem))
    found = kept.synonym_forms.of(met, partial(_read_synonym_forms, db)) if met else {}
    for id_, forms in sorted(found.items()):
        if not forms:
            continue
        meeting = [word for text, word in by_stem.items() if text in met[id_]]
        rarest, texts = max(meeting, key=lambda word: word.rarity), [word.text for word in meeting]
        for ordinal, how, one, count in forms:
            factor = FACTORS[how] * (DECAY**ordinal if how == "related" else 1.0)
            yield Form(rarest, one, how, one, count, rarity_of(kept.size, count), factor), texts


def _read_synonym_forms(db: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Sequence[SynonymForm]]:
    found: dict[int, list[SynonymForm]] = {id_: [] for id_ in ids}
    for id_, *form in sorted(db.execute(SYNONYM_FORMS, {"ids": str(ids)})):
        found[id_].append(SynonymForm(*form))
    return dict(found)


def _met_synonyms(meets: Mapping[str, Meets]) -> dict[int, list[str]]:
    """Return the synonyms every slot of which can be met by a word of its own, each with the stems that meet it.

    Args:
        meets: For each stem of the request the synonyms it meets.
    """
    found: dict[int, list[str]] = {}
    for one, (alone, _) in meets.items():
        for id_ in alone:
            found.setdefault(id_, []).append(one)
    partly = {one: own for one, (_, own) in meets.items() if own}
    together = [one.keys() & other.keys() for one, other in itertools.combinations(partly.values(), 2)]
    for id_ in set().union(*together):
        met = {one: own[id_] for one, own in partly.items() if id_ in own}
        if _fill(list(met.values())):
            found[id_] = list(met)
    return found


def _fill(words: Sequence[Slots]) -> bool:
    """Tell whether every slot can be met by another one of *words*."""
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


def _json(values: Sequence[str]) -> str:
    return json.dumps(values)
