"""What fragments hold → the packed lists of an index, changed where fragments come and go; the synonyms beside them."""

import json
import sqlite3
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.bulk import insert_rows
from orchestr8_sqlite.checksums import comparison_of
from orchestr8_sqlite.connections import identity_of
from orchestr8_sqlite.evidence import MOST_COUNTED, Held, Lengths, topics_of, weigh
from orchestr8_sqlite.packing import BLOCK, pack_members, unpack_members
from orchestr8_sqlite.settings import bundled_index
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS, TOPIC
from orchestr8_sqlite.wordlists import Synonym, read_synonyms

ADD_TERM = """
INSERT INTO term VALUES (?, ?, ?, ?)
    ON CONFLICT (stem) DO UPDATE SET fragment_count = fragment_count + excluded.fragment_count,
                                     field_count = field_count + excluded.field_count,
                                     topic_count = topic_count + excluded.topic_count
"""
DROP_UNHELD = "DELETE FROM term WHERE stem IN (SELECT value FROM json_each(?)) AND fragment_count = 0"
WRITE_SHORT = "INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)"
WRITE_BODY = "INSERT OR REPLACE INTO body_evidence VALUES (?, ?, ?, ?)"
DROP_SHORT = "DELETE FROM evidence WHERE stem = ? AND block = ?"
DROP_BODY = "DELETE FROM body_evidence WHERE stem = ? AND block = ?"
READ_SHORT = "SELECT members, weights, fields, named, shares FROM evidence WHERE stem = ? AND block = ?"
SCHEMA_VERSIONS = ("PRAGMA main.user_version", "PRAGMA bundled.user_version")
HAS_SHIPPED = """
SELECT 1 FROM bundled.meta shipped JOIN bundled.meta own ON own.key = 'synonyms'
 WHERE shipped.key = 'shipped' AND shipped.value = ?
   AND NOT EXISTS (SELECT 1 FROM json_each(own.value) WHERE value <> '')
"""
COPY_SYNONYMS = (
    "INSERT INTO main.synonym_word SELECT * FROM bundled.synonym_word",
    "INSERT INTO main.synonym_form SELECT * FROM bundled.synonym_form",
)
READ_BODY = "SELECT members, counts FROM body_evidence WHERE stem = ? AND block = ?"

Replaced = tuple[int, Held | None, Held | None]
"""The number of a fragment, what it held, and what it holds; None where it was not there, or is not any more."""


class EvidenceChange(NamedTuple):
    """What of the evidence is other than before.

    The lists of `stems` are; where `is_wide` it is also what fragments are about, which these are, or in how many
    short texts a stem stands.
    """

    stems: frozenset[str]
    is_wide: bool


@dataclass(slots=True)
class _ShortList:
    """A row of `evidence`."""

    members: "array[int]" = field(default_factory=lambda: array("H"))
    weights: "array[int]" = field(default_factory=lambda: array("H"))
    fields: bytearray = field(default_factory=bytearray)
    named: "array[int]" = field(default_factory=lambda: array("H"))
    shares: "array[int]" = field(default_factory=lambda: array("H"))

    @classmethod
    def read(cls, db: sqlite3.Connection, stem: str, block: int) -> "_ShortList":
        row = db.execute(READ_SHORT, (stem, block)).fetchone()
        if row is None:
            return cls()
        members, weights_, fields, named, shares = row
        unpacked = map(unpack_members, (members, weights_, named, shares))
        return cls(next(unpacked), next(unpacked), bytearray(fields), *unpacked)

    def remove(self, member: int) -> None:
        at = bisect_left(self.members, member)
        del self.members[at], self.weights[at], self.fields[at]
        at = bisect_left(self.named, member)
        if at < len(self.named) and self.named[at] == member:
            del self.named[at], self.shares[at]

    def insert(self, member: int, fields: int, weight: int, share: int) -> None:
        at = bisect_left(self.members, member)
        self.members.insert(at, member)
        self.weights.insert(at, weight)
        self.fields.insert(at, fields)
        if share:
            at = bisect_left(self.named, member)
            self.named.insert(at, member)
            self.shares.insert(at, share)

    def row(self, stem: str, block: int) -> tuple[object, ...]:
        packed = map(pack_members, (self.members, self.weights, self.named, self.shares))
        return stem, block, next(packed), next(packed), bytes(self.fields), *packed


@dataclass(slots=True)
class _BodyList:
    """A row of `body_evidence`."""

    members: "array[int]" = field(default_factory=lambda: array("H"))
    counts: bytearray = field(default_factory=bytearray)

    @classmethod
    def read(cls, db: sqlite3.Connection, stem: str, block: int) -> "_BodyList":
        row = db.execute(READ_BODY, (stem, block)).fetchone()
        return cls(unpack_members(row[0]), bytearray(row[1])) if row else cls()

    def remove(self, member: int) -> None:
        at = bisect_left(self.members, member)
        del self.members[at], self.counts[at]

    def insert(self, member: int, count: int) -> None:
        at = bisect_left(self.members, member)
        self.members.insert(at, member)
        self.counts.insert(at, min(count, MOST_COUNTED))

    def row(self, stem: str, block: int) -> tuple[object, ...]:
        return stem, block, pack_members(self.members), bytes(self.counts)


def replace_evidence(db: sqlite3.Connection, replaced: Iterable[Replaced], typical: Lengths) -> EvidenceChange:
    """Write what fragments hold in place of what they held, where that is something else, and return where it is."""
    opened = _OpenLists(db)
    for one in replaced:
        opened.replace(one, typical)
    return opened.close()


def clear_evidence(db: sqlite3.Connection) -> None:
    """Drop the evidence of all fragments."""
    for statement in (
        "DELETE FROM term", "DELETE FROM evidence", "DELETE FROM body_evidence", "DELETE FROM topic",
    ):  # fmt: skip
        db.execute(statement)


class _OpenLists:
    """The lists of an index that a change touches, each read once and written once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._short: dict[tuple[str, int], _ShortList] = {}
        self._body: dict[tuple[str, int], _BodyList] = {}
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._are_topics_changed = False

    def replace(self, replaced: Replaced, typical: Lengths) -> None:
        """Let a fragment stand in the lists of what it holds, no longer in those of what it held."""
        number, before, after = replaced
        block, member = divmod(number, BLOCK)
        was, now = (_short_rows(held, typical) for held in (before, after))
        for stem, _ in was.items() - now.items():
            self._short_list(stem, block).remove(member)
        for stem, row in now.items() - was.items():
            self._short_list(stem, block).insert(member, *row)
        had, has = (held.body if held else {} for held in (before, after))
        for stem, _ in had.items() - has.items():
            self._body_list(stem, block).remove(member)
        for stem, count in has.items() - had.items():
            self._body_list(stem, block).insert(member, count)
        for held, change in ((before, -1), (after, 1)):
            if held:
                self._count(held, change)
        self._write_topics(replaced)

    def close(self) -> EvidenceChange:
        """Write the lists and who is left, and return what is other than before."""
        counts = {stem: changes for stem, changes in sorted(self._counts.items()) if any(changes)}
        self._db.executemany(ADD_TERM, ((stem, *changes) for stem, changes in counts.items()))
        self._db.execute(DROP_UNHELD, (json.dumps(list(counts)),))
        self._write(self._short, WRITE_SHORT, DROP_SHORT)
        self._write(self._body, WRITE_BODY, DROP_BODY)
        stems = frozenset(stem for stem, _ in self._short.keys() | self._body.keys())
        are_counts_changed = any(fields or topics for _, fields, topics in counts.values())
        return EvidenceChange(stems, self._are_topics_changed or are_counts_changed)

    def _write_topics(self, replaced: Replaced) -> None:
        number, *held = replaced
        before, after = (topics_of(one) if one else None for one in held)
        if before != after:
            self._are_topics_changed = True
            self._db.execute("DELETE FROM topic WHERE fragment_id = ?", (number,))
            if after is not None:
                self._db.execute("INSERT INTO topic VALUES (?, ?)", (number, after))

    def _write(self, lists: "Mapping[tuple[str, int], _ShortList | _BodyList]", write: str, drop: str) -> None:
        left = {key: one for key, one in sorted(lists.items(), key=itemgetter(0)) if one.members}
        self._db.executemany(write, (one.row(*key) for key, one in left.items()))
        self._db.executemany(drop, lists.keys() - left.keys())

    def _short_list(self, stem: str, block: int) -> _ShortList:
        if (stem, block) not in self._short:
            self._short[stem, block] = _ShortList.read(self._db, stem, block)
        return self._short[stem, block]

    def _body_list(self, stem: str, block: int) -> _BodyList:
        if (stem, block) not in self._body:
            self._body[stem, block] = _BodyList.read(self._db, stem, block)
        return self._body[stem, block]

    def _count(self, held: Held, change: int) -> None:
        for stem in held.body:
            self._counts[stem][0] += change
        for stem, (fields, _) in held.fields.items():
            counts = self._counts[stem]
            counts[0] += change
            counts[1] += change
            counts[2] += change if fields & TOPIC else 0


def _short_rows(held: Held | None, typical: Lengths) -> dict[str, tuple[int, int, int]]:
    """Return (fields, weight, share of the name) of each stem of the short texts."""
    if held is None:
        return {}
    return {stem: (*row, held.name.get(stem, 0)) for stem, row in weigh(held, typical).items()}


def write_bytes(db: sqlite3.Connection) -> None:
    """Write the table that SQL reads packed blobs by."""
    db.executemany(
        "INSERT INTO byte VALUES (?, ?, ?)",
        ((bytes([value]), value, weight) for value, weight in enumerate(BODY_WEIGHTS)),
    )


def begin_synonyms(db: sqlite3.Connection, settings: Mapping[str, str], roots: Sequence[Path]) -> None:
    """Write the shipped synonyms and those of each root to an index that has none; no transaction may be open.

    Where the roots have none, the rows are copied from the bundled index if they stand there: to read and stem the
    shipped files takes ten times as long.

    Args:
        settings: What `meta` is to say of the shipped files and of those of the roots.

    Raises:
        LibraryError: A line of a root's file is not of the form that names.txt describes.
    """
    if any(json.loads(settings["synonyms"])) or not _copied(db, settings["shipped"]):
        write_synonyms(db, read_synonyms(roots))


def _copied(db: sqlite3.Connection, shipped: str) -> bool:
    """Copy the synonyms of the bundled index, and tell whether it is sound and has those of the *shipped* files."""
    path = bundled_index()
    if not path.is_file() or comparison_of(path, identity_of(path.stat())).result():
        return False
    db.execute("ATTACH ? AS bundled", (str(path),))
    try:
        versions = {db.execute(statement).fetchone() for statement in SCHEMA_VERSIONS}
        if len(versions) > 1 or db.execute(HAS_SHIPPED, (shipped,)).fetchone() is None:
            return False
        for statement in COPY_SYNONYMS:
            db.execute(statement)
    finally:
        db.execute("DETACH bundled")
    return True


def write_synonyms(db: sqlite3.Connection, synonyms: Sequence[Synonym]) -> None:
    """Write the synonyms, whether the library knows their forms or not."""
    words, forms = _synonym_rows(tuple(synonyms))
    insert_rows(db, "INSERT INTO synonym_word VALUES (?, ?, ?, ?)", words)
    insert_rows(db, "INSERT INTO synonym_form VALUES (?, ?, ?, ?)", forms)


def replace_synonyms(db: sqlite3.Connection, synonyms: Sequence[Synonym]) -> None:
    """Write other synonyms in place of those that are there."""
    for statement in ("DELETE FROM synonym_word", "DELETE FROM synonym_form"):
        db.execute(statement)
    write_synonyms(db, synonyms)


@lru_cache(maxsize=1)
def _synonym_rows(
    synonyms: tuple[Synonym, ...],
) -> tuple[list[tuple[str, int, int, int]], list[tuple[int, int, str, str]]]:
    """Return the rows of words and of forms, sorted; the same for every library without word lists of its own."""
    numbered = list(enumerate(synonyms, start=1))
    words = (
        (stem, number, slot, len(synonym.slots))
        for number, synonym in numbered
        for slot, stems in enumerate(synonym.slots)
        for stem in stems
    )
    forms = [(number, i, synonym.how, form) for number, synonym in numbered for i, form in enumerate(synonym.forms)]
    return sorted(words), forms
