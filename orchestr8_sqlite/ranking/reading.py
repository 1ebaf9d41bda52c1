"""Reads the words of a request, and finds the other terms of the index that may stand in for each.

typo      a word that the index does not know → the most used keyword one edit away
joined    two neighbours → the keyword that they form: type script → typescript
synonym   another name, from the word lists
related   what may meet the need, from the word lists
term      a word of a term that the caller adds to the request; the best word of each term counts
part      a word → the keywords that contain it: postgres → postgresql (tier 3 only)
"""

import itertools
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from orchestr8_sqlite.index.connections import Reader
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.index.matching import match_of, quoted
from orchestr8_sqlite.ranking.typos import repair_typos
from orchestr8_sqlite.ranking.weights import (
    BODY_FEW,
    BODY_SPREAD,
    CONFIRMED,
    DECAY,
    EVERYDAY,
    FACTORS,
    IDEAL_WORDS,
    LEAST_WORDS,
    MOST_HELD,
    MOST_WORDS,
    RARITY_BOUND,
    TERM,
    UNKNOWN_WORD,
    rarity_of,
)
from orchestr8_sqlite.text.keywords import extract_keywords, stem
from orchestr8_sqlite.text.wordlists import everyday_words

OWN = "exact"
"""The word itself, inflected or not."""

SAID = (OWN, "typo", "joined", "term")
"""Forms that the request itself says, however it spells them; the others are what the word lists know, and parts."""

MIN_PART_LENGTH = 3
MAX_PARTS = 20
STEMS = gathered(
    """
SELECT json_extract(w.value, '$[0]'), coalesce(s.fragment_count, 0),
       CASE WHEN s.stem IS NULL THEN (
            SELECT count(*) FROM fragment_text WHERE fragment_text MATCH json_extract(w.value, '$[1]')) ELSE 0 END
  FROM json_each(:words) w LEFT JOIN rank_stem s ON s.stem = json_extract(w.value, '$[0]')
""",
    added=2,
)
"""Counts the fragments that hold each stem; a MATCH expression finds those of stems that no short text holds."""

KNOWN_WORDS = """
SELECT k.text, k.stem, s.fragment_count
  FROM json_each(:words) CROSS JOIN keyword k ON k.text = value CROSS JOIN rank_stem s ON s.stem = k.stem
"""
CONTAINING_WORDS = """
SELECT k.text, k.stem, s.fragment_count
  FROM keyword_text t CROSS JOIN keyword k ON k.id = t.rowid CROSS JOIN rank_stem s ON s.stem = k.stem
 WHERE t.keyword_text MATCH :match AND k.text <> :word
 ORDER BY k.fragment_count DESC, k.text LIMIT :limit
"""
SYNONYM_WORDS = """
WITH met (id, slots) AS MATERIALIZED (  -- few have as many words in the request as slots
    SELECT w.synonym_id, w.slots FROM json_each(:stems) CROSS JOIN rank_synonym_word w ON w.stem = value
     GROUP BY w.synonym_id, w.slots HAVING count(*) >= w.slots)
SELECT w.synonym_id, met.slots, w.slot, w.stem
  FROM met CROSS JOIN json_each(:stems) CROSS JOIN rank_synonym_word w ON w.stem = value AND w.synonym_id = met.id
"""
"""Which slots the stems of a request fill, for synonyms with at least as many words in the request as slots."""

SYNONYM_FORMS = """
SELECT f.synonym_id, f.ordinal, f.how, s.stem, s.fragment_count,
       (SELECT text FROM keyword k WHERE k.stem = s.stem ORDER BY k.fragment_count DESC, k.text LIMIT 1)
  FROM json_each(:ids) met CROSS JOIN rank_synonym_form f ON f.synonym_id = met.value
 CROSS JOIN rank_stem s ON s.stem = f.stem
 ORDER BY 1, 2
"""


class Word(NamedTuple):
    """One word of a request. `fragment_count` fragments hold it; if none does, its rarity is the highest.

    `term` is the caller's term that it comes from, "" if it is the request's own. `share` is how much it counts because
    of terms.
    """

    text: str
    stem: str
    fragment_count: int
    rarity: float
    everyday: bool
    term: str = ""
    share: float = 1.0

    @property
    def weight(self) -> float:
        """Return how much the word counts relative to others."""
        return self.share * (EVERYDAY if self.everyday and not self.term else 1.0)


class Form(NamedTuple):
    """A term that stands in for a word of the request; `factor` is how much it counts if the word counts 1."""

    word: Word
    text: str
    how: str
    stem: str
    fragment_count: int
    rarity: float
    factor: float

    @property
    def gain(self) -> float:
        """Return the most that a fragment can earn by it; a form never counts as rarer than a word that is known."""
        rarity = self.rarity if not self.word.fragment_count else min(self.rarity, RARITY_BOUND * self.word.rarity)
        return rarity * self.factor * self.word.weight


class Reading(NamedTuple):
    """How a request is read: its words, and the forms that stand for each of them."""

    words: tuple[Word, ...]
    forms: tuple[Form, ...]
    size: int
    """Number of fragments in the index."""

    terms: tuple[Word, ...] = ()
    """The words of the caller's terms that the request lacks."""

    named: frozenset[str] = frozenset()
    """Words that are joined, or that fill a synonym's slots, alone or together: only one of them gets its forms."""

    @property
    def ideal(self) -> float:
        """Return what an ideal answer earns: the rarity of the request's IDEAL_WORDS rarest words."""
        wanted = sorted(map(self._wanted, self.words), reverse=True)
        return sum(wanted[:IDEAL_WORDS]) or 1.0

    def _wanted(self, word: Word) -> float:
        """Return what a word adds to the ideal: its rarity or, if it is unknown, what its best form can earn."""
        if word.fragment_count:
            return word.rarity * word.weight
        gains = [form.gain for form in self.forms if form.word.text == word.text]
        return max(gains, default=word.rarity * word.weight * UNKNOWN_WORD)

    @property
    def read_as(self) -> dict[str, str]:
        """Return each word that was taken for a typo, with what it was read as."""
        return {form.word.text: form.text for form in self.forms if form.how == "typo"}

    def searches_bodies(self, form: Form) -> bool:
        """Tell whether *form* is also searched for in bodies: a whole word that not too many fragments hold."""
        return form.how != "part" and form.fragment_count <= max(BODY_FEW, BODY_SPREAD * self.size)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the words, those of the terms included, that the index does not know in any form."""
        known = self.named | {form.word.text for form in self.forms}
        return tuple(word.text for word in (*self.words, *self.terms) if word.text not in known)

    @property
    def missed(self) -> tuple[str, ...]:
        """Return the unknown words that say something: those of the terms or, without terms, of the request's topic."""
        said = self.terms or [word for word in self.words if not word.everyday]
        return tuple(word.text for word in said if word.text in self.unknown)


def read_request(db: Reader, keywords: Sequence[str], size: int, terms: Sequence[str] = ()) -> Reading:
    """Return the words of a request in its order, each stem once, with the forms that stand in for them.

    Typos are repaired only if at least half of the words are then understood; a repaired one counts half. Otherwise,
    lucky repairs could make sense of a nonsense request. A word with a synonym is not a typo.

    Args:
        size: Number of fragments in the index.
        terms: Names that the caller knows for what is asked.
    """
    words = read_words(db, keywords, size)
    if terms:
        return _with_terms(db, words, terms, size)
    return _read(db, words, size)


def _with_terms(db: Reader, words: Sequence[Word], terms: Sequence[str], size: int) -> Reading:
    """Return the reading of *words* and of the words of *terms*; each belongs to the first term that contains it."""
    named: dict[str, tuple[str, str]] = {}
    for term in terms:
        for keyword in extract_keywords(term):
            named.setdefault(stem(keyword), (keyword, term))
    reading = _read(db, [word._replace(share=CONFIRMED) if word.stem in named else word for word in words], size)
    known = {word.stem for word in words}
    further = read_words(db, [keyword for one, (keyword, _) in named.items() if one not in known], size)
    most: dict[str, float] = {}  # that each term can earn
    for word in further:
        if word.fragment_count:
            most[named[word.stem][1]] = max(most.get(named[word.stem][1], 0.0), word.rarity)
    share = TERM * min(1.0, reading.ideal / sum(most.values())) if most else TERM
    further = [word._replace(term=named[word.stem][1], share=share) for word in further]
    own = [_own(word, "term") for word in further if word.fragment_count]
    others = [form for form, _ in _synonyms(db, further, size) if form.how == "synonym"]
    forms = (*reading.forms, *own, *_best(others, known | {word.stem for word in further}))
    return reading._replace(forms=forms, terms=tuple(further))


def _own(word: Word, how: str = OWN) -> Form:
    return Form(word, word.text, how, word.stem, word.fragment_count, word.rarity, 1.0)


def _read(db: Reader, words: Sequence[Word], size: int) -> Reading:
    own = [_own(word) for word in words if word.fragment_count]
    joined = list(_joined(db, words, size))
    synonyms = list(_synonyms(db, words, size))
    named = frozenset(text for _, texts in synonyms for text in texts) | {form.word.text for form in joined}
    unknown = [word for word in words if not word.fragment_count and not word.everyday and word.text not in named]
    repairs = list(_repaired(db, unknown, size))
    if len(words) - len(unknown) + len(repairs) / 2 < len(words) / 2:
        repairs = []
    others = [*joined, *(form for form, _ in synonyms), *repairs]
    return Reading(
        tuple(words), (*own, *_best(others, {word.stem for word in words if word.fragment_count})), size, named=named
    )


def read_parts(db: Reader, reading: Reading) -> Reading:
    """Return *reading* with further forms: for each word, the MAX_PARTS most used keywords that contain it."""
    known = {form.stem for form in reading.forms}
    parts = [
        Form(word, text, "part", one, count, rarity_of(reading.size, count), FACTORS["part"])
        for word in (*reading.words, *reading.terms)
        if len(word.text) >= MIN_PART_LENGTH
        for text, one, count in db.execute(
            CONTAINING_WORDS, {"match": quoted(word.text), "word": word.text, "limit": MAX_PARTS}
        )
    ]
    return reading._replace(forms=(*reading.forms, *_best(parts, known)))


def read_words(db: Reader, keywords: Sequence[str], size: int) -> list[Word]:
    """Return the words of a request; if the index does not know a compound, only its parts count.

    A number that the index does not know (`300k`, `3.7`) describes the case, not the subject: it counts as everyday.
    In a long request, the rarest known words count; unknown ones fill the rest, numbers last.
    """
    texts: dict[str, str] = {}
    for keyword in keywords:
        texts.setdefault(stem(keyword), keyword)
    whole = {one for one, text in texts.items() if len(extract_keywords(text)) == 1}
    asked = [(one, match_of(db, [text if one in whole else ""])) for one, text in texts.items()]
    rows = db.execute(STEMS, {"words": json.dumps(asked)})
    counts: dict[str, int] = {one: count or elsewhere for one, count, elsewhere in rows if count or elsewhere}
    everyday = everyday_words()
    known = [one for one in texts if one in counts or one in whole]
    if len(known) > LEAST_WORDS:
        rarest = sorted(known, key=lambda one: (texts[one].isdigit(), counts.get(one, size + 1)))[:MOST_WORDS]
        held = list(itertools.accumulate(counts.get(one, 0) for one in rarest))
        read = {*rarest[: max(LEAST_WORDS, bisect_right(held, MOST_HELD * size))]}
        known = [one for one in known if one in read]
    plain = {one for one in known if texts[one] in everyday or (one not in counts and texts[one][0].isdigit())}
    topical = len(plain) < len(known)
    return [
        Word(texts[one], one, count := counts.get(one, 0), rarity_of(size, count), topical and one in plain)
        for one in known
    ]


def _repaired(db: Reader, words: Sequence[Word], size: int) -> Iterator[Form]:
    by_text = {word.text: word for word in words}
    for word, text, one, count in repair_typos(db, by_text):
        yield Form(by_text[word], text, "typo", one, count, rarity_of(size, count), FACTORS["typo"])


def _joined(db: Reader, words: Sequence[Word], size: int) -> Iterator[Form]:
    pairs = {
        one.text + other.text: (one, other)
        for one, other in itertools.pairwise(words)
        if one.text.isalpha() and other.text.isalpha()
    }
    if not pairs:
        return
    for text, one, count in sorted(db.execute(KNOWN_WORDS, {"words": json.dumps(list(pairs))})):
        for word in pairs[text]:
            yield Form(word, text, "joined", one, count, rarity_of(size, count), FACTORS["joined"])


def _synonyms(db: Reader, words: Sequence[Word], size: int) -> Iterator[tuple[Form, list[str]]]:
    """Yield (form, words that fill the slots) for each synonym whose slots are all filled; the rarest word gets it."""
    by_stem = {word.stem: word for word in words}
    met = _met_synonyms(db.execute(SYNONYM_WORDS, {"stems": json.dumps(list(by_stem))}))
    if not met:
        return
    for id_, ordinal, how, one, count, text in db.execute(SYNONYM_FORMS, {"ids": str(list(met))}):
        meeting = [word for text, word in by_stem.items() if text in met[id_]]
        rarest, texts = max(meeting, key=lambda word: word.rarity), [word.text for word in meeting]
        factor = FACTORS[how] * (DECAY**ordinal if how == "related" else 1.0)
        yield Form(rarest, text, how, one, count, rarity_of(size, count), factor), texts


def _met_synonyms(rows: Iterable[tuple[int, int, int, str]]) -> dict[int, list[str]]:
    """Return the synonyms whose slots can each be filled by a different word, with the stems that fill them.

    Args:
        rows: A synonym, the number of its slots, one of them, a stem that fills it.
    """
    meeting: dict[tuple[int, int], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for id_, count, slot, one in rows:
        meeting[id_, count][slot].add(one)
    return {
        id_: list(dict.fromkeys(itertools.chain.from_iterable(map(sorted, slots.values()))))
        for (id_, count), slots in meeting.items()
        if len(slots) == count and _can_be_filled(list(slots.values()))
    }


def _can_be_filled(slots: Sequence[Collection[str]]) -> bool:
    """Tell whether each slot can be filled by a different word."""
    return any(len(set(choice)) == len(choice) for choice in itertools.product(*slots))


def _best(forms: Iterable[Form], known: Collection[str]) -> list[Form]:
    """Return the strongest form for each pair of a word and a stem, except for *known* stems."""
    best: dict[tuple[str, str], Form] = {}
    for form in forms:
        key = form.word.text, form.stem
        if form.stem not in known and (key not in best or form.factor > best[key].factor):
            best[key] = form
    return list(best.values())
