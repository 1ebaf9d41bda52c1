"""What requests read of an index again and again, kept as long as it is open."""

import json
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from orchestr8_sqlite.connections import kept_of, own_of
from orchestr8_sqlite.tiers.lists import (
    BodyBlock,
    ShortBlock,
    bytes_of_bodies,
    bytes_of_short,
    read_bodies,
    read_short,
)
from orchestr8_sqlite.tiers.numbers import Numbers
from orchestr8_sqlite.tiers.recent import MEBIBYTE, Recent
from orchestr8_sqlite.tiers.weights import topic_rarity_of

TOPICS = "SELECT t.fragment_id, t.stems FROM json_each(:ids) CROSS JOIN topic t ON t.fragment_id = value"
TERMS = """
SELECT t.stem, t.fragment_count, t.topic_count FROM json_each(:stems) CROSS JOIN term t ON t.stem = value
"""
SYNONYM_WORDS = """
SELECT w.stem, w.synonym_id, w.slot, w.slots FROM json_each(:stems) CROSS JOIN synonym_word w ON w.stem = value
"""
FRAGMENTS = """
SELECT f.id, f.uri, f.category, f.name, f.title, f.token_estimate
  FROM json_each(:ids) CROSS JOIN fragment f ON f.id = value
"""
SCENARIOS = "SELECT s.id, s.text FROM json_each(:ids) CROSS JOIN scenario s ON s.id = value"
KEYWORDS = "SELECT k.stem, k.text FROM json_each(:stems) CROSS JOIN keyword k ON k.stem = value"
SIZE = "SELECT value FROM meta WHERE key = 'fragments'"
LAST_FRAGMENT = "SELECT max(id) FROM fragment"

MOST_LISTS = 3 * MEBIBYTE
"""Bytes of the lists of stems, unpacked, that are kept, and as many of those of bodies."""

MOST_TOPICS = 4 * MEBIBYTE
MOST_SLOTS = 3 * MEBIBYTE
MOST_TERMS = MEBIBYTE
MOST_FRAGMENTS = MEBIBYTE
MOST_WORDS = MEBIBYTE // 2
"""Bytes of what else is kept: of the topics of fragments, of stems and what they may mean, of what is listed of
fragments, and of each kind of thing that is known of words."""

PLACE = 8
"""Bytes of a place in a tuple."""

SHORT_TEXT = 64
"""Bytes that a text of a few letters takes."""


class Term(NamedTuple):
    """How many fragments hold a stem: anywhere, and in name, title or tags."""

    fragment_count: int
    topic_count: int


class Slots(NamedTuple):
    """Which slots of a synonym a word meets, a bit for each, and how many must be met."""

    met: int
    needed: int


class Listed(NamedTuple):
    """What answers say of a fragment."""

    fragment_id: int
    uri: str
    category: str
    name: str
    title: str
    token_estimate: int


class KnownWord(NamedTuple):
    """A keyword of the index with its stem, and how many fragments hold that."""

    text: str
    stem: str
    fragment_count: int


class SynonymForm(NamedTuple):
    """A term that stands for a synonym, in the order of these."""

    ordinal: int
    how: str
    stem: str
    fragment_count: int


class Meets(NamedTuple):
    """The synonyms that a word meets alone, and those that it meets some slots of."""

    alone: Sequence[int]
    partly: Mapping[int, Slots]


@cache
def _slots(met: int, needed: int) -> Slots:
    return Slots(met, needed)


class Memories:
    """What all connections to one file keep together, within bounds.

    The words of requests that `joined` and `repairs` know the keyword of, or that there is none, and the terms of the
    synonyms in `synonym_forms` are read by whoever asks for them.
    """

    def __init__(self) -> None:
        self.joined: Recent[str, KnownWord | None] = Recent(MOST_WORDS, _few_texts)
        self.repairs: Recent[str, KnownWord | None] = Recent(MOST_WORDS, _few_texts)
        self.synonym_forms: Recent[int, Sequence[SynonymForm]] = Recent(MOST_WORDS, _several_texts)
        self._topics: Recent[int, Sequence[str]] = Recent(MOST_TOPICS, _bytes_of_topic)
        self._terms: Recent[str, Term | None] = Recent(MOST_TERMS, _few_texts)
        self._rarities: Recent[str, float | None] = Recent(MOST_TERMS, _few_texts)
        self._slots: Recent[str, Meets] = Recent(MOST_SLOTS, _bytes_of_slots)
        self._keywords: Recent[str, Sequence[str]] = Recent(MOST_WORDS, _several_texts)
        self._fragments: Recent[int, Listed] = Recent(MOST_FRAGMENTS, _bytes_of_listed)
        self._scenarios: Recent[int, str] = Recent(MOST_FRAGMENTS, _bytes_of_text)
        self._short: Recent[str, Sequence[ShortBlock]] = Recent(MOST_LISTS, bytes_of_short)
        self._bodies: Recent[str, Sequence[BodyBlock]] = Recent(MOST_LISTS, bytes_of_bodies)


class Kept(Memories):
    """What is kept of an index that nobody changes, and the connection that what is missing is read by.

    Args:
        db: An open index.
        together: What others keep of the same index, if anything.
    """

    def __init__(self, db: sqlite3.Connection, together: Memories | None = None) -> None:
        vars(self).update(vars(together or Memories()))
        self.places = Numbers(db, "places")
        self._db = db

    @cached_property
    def size(self) -> int:
        """Return how many fragments the index holds."""
        return int(self._db.execute(SIZE).fetchone()[0])

    @cached_property
    def last_fragment(self) -> int:
        """Return the highest number of a fragment, 0 where there is none."""
        return self._db.execute(LAST_FRAGMENT).fetchone()[0] or 0

    def short(self, stems: Collection[str]) -> dict[str, Sequence[ShortBlock]]:
        """Return for each of *stems* who holds it in a short text."""
        return self._short.of(stems, lambda missing: read_short(self._db, missing))

    def bodies(self, stems: Collection[str]) -> dict[str, Sequence[BodyBlock]]:
        """Return for each of *stems* who holds it in the body alone."""
        return self._bodies.of(stems, lambda missing: read_bodies(self._db, missing))

    def topics(self, numbers: Sequence[int]) -> dict[int, Sequence[str]]:
        """Return the stems of names, titles and tags of the fragments *numbers*."""
        return self._topics.of(numbers, self._read_topics)

    def topic_rarities(self, stems: Collection[str]) -> dict[str, float]:
        """Return how rare those of *stems* are in names, titles and tags that stand in more than one of them."""
        rarities = self._rarities.of(stems, self._read_rarities)
        return {stem: rarity for stem, rarity in rarities.items() if rarity is not None}

    def terms(self, stems: Collection[str]) -> dict[str, Term]:
        """Return the counts of those of *stems* that the index knows."""
        return {stem: term for stem, term in self._terms.of(stems, self._read_terms).items() if term}

    def synonym_slots(self, stems: Collection[str]) -> dict[str, Meets]:
        """Return for each of *stems* the synonyms that it meets."""
        return self._slots.of(stems, self._read_slots)

    def keywords(self, stems: Collection[str]) -> dict[str, Sequence[str]]:
        """Return the keywords of each of *stems*."""
        return self._keywords.of(stems, self._read_keywords)

    def fragments(self, numbers: Sequence[int]) -> dict[int, Listed]:
        """Return what answers say of the fragments *numbers*."""
        return self._fragments.of(numbers, self._read_fragments)

    def scenarios(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of the scenarios *numbers*."""
        return self._scenarios.of(numbers, self._read_scenarios)

    def _read_topics(self, numbers: list[int]) -> dict[int, Sequence[str]]:
        rows = self._db.execute(TOPICS, {"ids": str(numbers)})
        return {number: tuple(map(sys.intern, stems.split())) for number, stems in rows}

    def _read_terms(self, stems: list[str]) -> dict[str, Term | None]:
        rows = self._db.execute(TERMS, _json(stems))
        return dict.fromkeys(stems) | {stem: Term(*counts) for stem, *counts in rows}

    def _read_rarities(self, stems: list[str]) -> dict[str, float | None]:
        counts = {stem: term.topic_count for stem, term in self.terms(stems).items() if term.topic_count > 1}
        return dict.fromkeys(stems) | {stem: topic_rarity_of(self.size, count) for stem, count in counts.items()}

    def _read_slots(self, stems: list[str]) -> dict[str, Meets]:
        slots: dict[str, dict[int, Slots]] = {stem: {} for stem in stems}
        for stem, id_, slot, needed in self._db.execute(SYNONYM_WORDS, _json(stems)):
            before = slots[stem].get(id_)
            slots[stem][id_] = _slots(1 << slot | (before.met if before else 0), needed)
        return {stem: _meets(own) for stem, own in slots.items()}

    def _read_keywords(self, stems: list[str]) -> dict[str, Sequence[str]]:
        keywords: dict[str, list[str]] = {stem: [] for stem in stems}
        for stem, text in self._db.execute(KEYWORDS, _json(stems)):
            keywords[stem].append(text)
        return dict(keywords)

    def _read_scenarios(self, numbers: list[int]) -> dict[int, str]:
        return dict(self._db.execute(SCENARIOS, {"ids": str(numbers)}))

    def _read_fragments(self, numbers: list[int]) -> dict[int, Listed]:
        rows = self._db.execute(FRAGMENTS, {"ids": str(numbers)})
        return {row[0]: Listed(*row) for row in rows}


def kept_by(db: sqlite3.Connection) -> Kept:
    """Return what is kept of the connection *db*, which may be nothing yet."""
    own: dict[type[Kept], Kept] = own_of(db)
    if Kept not in own:
        known: dict[type[Memories], Memories] = kept_of(db, "requests")
        own[Kept] = Kept(db, known.setdefault(Memories, Memories()))
    return own[Kept]


def _meets(slots: Mapping[int, Slots]) -> Meets:
    alone = tuple(id_ for id_, (_, needed) in slots.items() if needed == 1)
    return Meets(alone, {id_: one for id_, one in slots.items() if one.needed > 1})


def _few_texts(_: object) -> int:
    return 2 * SHORT_TEXT


def _several_texts(texts: Collection[object]) -> int:
    return SHORT_TEXT * (1 + len(texts))


def _bytes_of_topic(stems: Collection[str]) -> int:
    return SHORT_TEXT + PLACE * len(stems)  # the texts are those of all topics


def _bytes_of_slots(meets: Meets) -> int:
    return SHORT_TEXT * (4 + len(meets.alone) + 2 * len(meets.partly))


def _bytes_of_text(text: str) -> int:
    return SHORT_TEXT + 2 * len(text)


def _bytes_of_listed(listed: Listed) -> int:
    return 8 * SHORT_TEXT + len(listed.uri) + 2 * len(listed.title)


def _json(stems: list[str]) -> dict[str, str]:
    return {"stems": json.dumps(stems)}
