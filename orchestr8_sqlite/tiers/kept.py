"""What requests read of an index again and again, kept as long as it is open."""

import json
import sqlite3
import sys
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

from orchestr8_sqlite.connections import kept_of
from orchestr8_sqlite.tiers.numbers import Numbers

TOPICS = "SELECT t.fragment_id, t.stems FROM json_each(:ids) CROSS JOIN topic t ON t.fragment_id = value"
TERMS = """
SELECT t.stem, t.fragment_count, t.topic_count FROM json_each(:stems) CROSS JOIN term t ON t.stem = value
"""
SYNONYM_WORDS = """
SELECT w.stem, w.synonym_id, w.slot, w.slots FROM json_each(:stems) CROSS JOIN synonym_word w ON w.stem = value
"""
SIZE = "SELECT value FROM meta WHERE key = 'fragments'"
LAST_FRAGMENT = "SELECT max(id) FROM fragment"

K = TypeVar("K")
V = TypeVar("V")

MOST_TOPICS = 4096
"""Fragments whose topics are kept, some 200 bytes each."""

MOST_TERMS = 4096
"""Stems whose counts are kept, some 200 bytes each."""

MOST_WORDS = 512
"""Stems of requests whose synonyms are kept, some 2,000 bytes each."""


class Term(NamedTuple):
    """How many fragments hold a stem: anywhere, and in name, title or tags."""

    fragment_count: int
    topic_count: int


class Slots(NamedTuple):
    """Which slots of a synonym a word meets, a bit for each, and how many must be met."""

    met: int
    needed: int


@cache
def _slots(met: int, needed: int) -> Slots:
    return Slots(met, needed)


class Kept:
    """What is kept of one connection to an index that nobody changes: bounded, but for the places, 4 bytes each."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.places = Numbers(db, "places")
        self._db = db
        self._topics: dict[int, Sequence[str]] = {}
        self._terms: dict[str, Term | None] = {}
        self._slots: dict[str, dict[int, Slots]] = {}

    @cached_property
    def size(self) -> int:
        """Return how many fragments the index holds."""
        return int(self._db.execute(SIZE).fetchone()[0])

    @cached_property
    def last_fragment(self) -> int:
        """Return the highest number of a fragment, 0 where there is none."""
        return self._db.execute(LAST_FRAGMENT).fetchone()[0] or 0

    def topics(self, numbers: Sequence[int]) -> dict[int, Sequence[str]]:
        """Return the stems of names, titles and tags of the fragments *numbers*."""
        kept = self._topics
        if missing := _missing(kept, numbers, MOST_TOPICS):
            for number, stems in self._db.execute(TOPICS, {"ids": str(missing)}):
                kept[number] = tuple(map(sys.intern, stems.split()))
        return {number: kept[number] for number in numbers if number in kept}

    def terms(self, stems: Collection[str]) -> dict[str, Term]:
        """Return the counts of those of *stems* that the index knows."""
        kept = self._terms
        if missing := _missing(kept, stems, MOST_TERMS):
            rows = self._db.execute(TERMS, {"stems": json.dumps(missing)}).fetchall()
            kept |= dict.fromkeys(missing) | {stem: Term(*counts) for stem, *counts in rows}
        return {stem: term for stem in stems if (term := kept[stem])}

    def synonym_slots(self, stems: Collection[str]) -> dict[str, dict[int, Slots]]:
        """Return for each of *stems* the synonyms that it meets a slot of, with what it meets."""
        kept = self._slots
        if missing := _missing(kept, stems, MOST_WORDS):
            rows = self._db.execute(SYNONYM_WORDS, {"stems": json.dumps(missing)}).fetchall()  # it may be interrupted
            kept |= {stem: {} for stem in missing}
            for stem, id_, slot, needed in rows:
                before = kept[stem].get(id_)
                kept[stem][id_] = _slots(1 << slot | (before.met if before else 0), needed)
        return {stem: kept[stem] for stem in stems}


def kept_by(db: sqlite3.Connection) -> Kept:
    """Return what is kept of the connection *db*, which may be nothing yet."""
    known = kept_of(db, "requests")
    if Kept not in known:
        known[Kept] = Kept(db)
    found: Kept = known[Kept]
    return found


def _missing(kept: dict[K, V], wanted: Collection[K], most: int) -> list[K]:
    """Return which of *wanted* are not *kept*; where that would become more than *most*, all: nothing is kept then."""
    missing = [one for one in wanted if one not in kept]
    if missing and len(kept) + len(missing) > most:
        kept.clear()
        return list(wanted)
    return missing
