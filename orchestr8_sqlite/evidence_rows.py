"""What fragments hold → the packed lists of an index, written whole or changed where fragments come and go."""

import json
import sqlite3
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from orchestr8_sqlite.evidence import BODY_POINTS, MOST_COUNTED, FieldPoints, Held, Lengths, LengthSums, weigh
from orchestr8_sqlite.packing import BLOCK, pack_members, split_postings, unpack_members
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS, TOPIC, thousandths
from orchestr8_sqlite.wordlists import Synonym

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
READ_BODY = "SELECT members, counts FROM body_evidence WHERE stem = ? AND block = ?"


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


class EvidenceWriter:
    """Writes the evidence of fragments that come in the order of their numbers; one block of them is in memory.

    Close it when done.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._block = 0
        self._lengths: dict[int, Mapping[int, int]] = {}
        self._short: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))  # member, fields, count
        self._names: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))  # member, share
        self._body: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))  # member, count
        self._topics: list[tuple[int, str]] = []
        self._sums = LengthSums()

    def add(self, number: int, held: Held) -> None:
        """Take what the fragment *number* holds."""
        block, member = divmod(number, BLOCK)
        if block != self._block:
            self._flush()
            self._block = block
        self._lengths[member] = held.lengths
        self._sums.add(number, held)
        short, names, body, place = self._short, self._names, self._body, member << 16
        for stem, (fields, count) in held.fields.items():
            short[stem].append(place | fields << 8 | count)
        for stem, share in held.name.items():
            names[stem].append(place | share)
        for stem, count in held.body.items():
            body[stem].append(place | count)
        self._topics.append((number, _topics(held)))

    def close(self) -> None:
        """Write what was taken, and the lengths."""
        self._flush()
        self._sums.write(self._db)

    def _flush(self) -> None:
        """Write the block."""
        typical = self._sums.typical
        points = {member: FieldPoints(lengths, typical) for member, lengths in self._lengths.items()}
        short, body = self._short, self._body
        self._db.executemany(ADD_TERM, (self._counted(stem) for stem in sorted(short.keys() | body.keys())))
        self._db.executemany(WRITE_SHORT, (self._short_row(stem, points) for stem in sorted(short)))
        self._db.executemany(WRITE_BODY, (self._body_row(stem) for stem in sorted(body)))
        self._db.executemany("INSERT INTO topic VALUES (?, ?)", self._topics)
        for kept in (self._lengths, short, self._names, body, self._topics):
            kept.clear()

    def _counted(self, stem: str) -> tuple[object, ...]:
        short, body = self._short.get(stem, ()), self._body.get(stem, ())
        return stem, len(short) + len(body), len(short), sum(posting & TOPIC << 8 > 0 for posting in short)

    def _short_row(self, stem: str, points: Mapping[int, FieldPoints]) -> tuple[object, ...]:
        """Return the row of `evidence`; *points* are those of each member."""
        members, fields, counts = split_postings(self._short[stem])
        known = zip(unpack_members(members), fields, counts, strict=True)
        weights = pack_members(thousandths(points[at][bits] + BODY_POINTS[count]) for at, bits, count in known)
        named, high, low = split_postings(self._names.get(stem, array("I")))
        shares = bytearray(named)
        shares[::2], shares[1::2] = low, high
        return stem, self._block, members, weights, fields, named, bytes(shares)

    def _body_row(self, stem: str) -> tuple[object, ...]:
        members, _, counts = split_postings(self._body[stem])
        return stem, self._block, members, counts


def replace_evidence(
    db: sqlite3.Connection, gone: Iterable[tuple[int, Held]], come: Iterable[tuple[int, Held]], typical: Lengths
) -> None:
    """Take fragments with what they held out of the evidence, then others into it; only their terms are touched."""
    opened = _OpenLists(db)
    for number, held in gone:
        opened.remove(number, held)
    for number, held in come:
        opened.insert(number, held, typical)
    opened.close()


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

    def remove(self, number: int, held: Held) -> None:
        """Take a fragment out of the lists of what it holds."""
        block, member = divmod(number, BLOCK)
        for stem in held.fields:
            self._short_list(stem, block).remove(member)
        for stem in held.body:
            self._body_list(stem, block).remove(member)
        self._count(held, -1)
        self._db.execute("DELETE FROM topic WHERE fragment_id = ?", (number,))

    def insert(self, number: int, held: Held, typical: Lengths) -> None:
        """Put a fragment into the lists of what it holds."""
        block, member = divmod(number, BLOCK)
        for stem, (fields, weight) in weigh(held, typical).items():
            self._short_list(stem, block).insert(member, fields, weight, held.name.get(stem, 0))
        for stem, count in held.body.items():
            self._body_list(stem, block).insert(member, count)
        self._count(held, 1)
        self._db.execute("INSERT INTO topic VALUES (?, ?)", (number, _topics(held)))

    def close(self) -> None:
        """Write the lists and who is left."""
        self._db.executemany(ADD_TERM, ((stem, *changes) for stem, changes in sorted(self._counts.items())))
        self._db.execute(DROP_UNHELD, (json.dumps(sorted(self._counts)),))
        self._write(self._short, WRITE_SHORT, DROP_SHORT)
        self._write(self._body, WRITE_BODY, DROP_BODY)

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


def _topics(held: Held) -> str:
    """Return the stems of name, title and tags, separated by spaces."""
    return " ".join(stem for stem, (fields, _) in held.fields.items() if fields & TOPIC)


def write_bytes(db: sqlite3.Connection) -> None:
    """Write the table that SQL reads packed blobs by."""
    db.executemany(
        "INSERT INTO byte VALUES (?, ?, ?)",
        ((bytes([value]), value, weight) for value, weight in enumerate(BODY_WEIGHTS)),
    )


def write_synonyms(db: sqlite3.Connection, synonyms: Sequence[Synonym]) -> None:
    """Write the synonyms, whether the library knows their forms or not."""
    words, forms = _synonym_rows(tuple(synonyms))
    db.executemany("INSERT INTO synonym_word VALUES (?, ?, ?, ?)", words)
    db.executemany("INSERT INTO synonym_form VALUES (?, ?, ?, ?)", forms)


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
