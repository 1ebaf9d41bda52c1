"""Which words a fragment holds, where, and how much that earns: what the default ranker reads, packed by term.

A fragment's evidence hangs on nothing but its own texts, so fragments come and go one at a time: what changes with
the library, how rare a word is, is only counted here and weighed when a request is answered.
"""

import json
import math
import sqlite3
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self, TypeVar

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import count_stems
from orchestr8_sqlite.packing import BLOCK, pack_members, unpack_members
from orchestr8_sqlite.tiers.weights import (
    BODY_WEIGHTS,
    CAPABILITY,
    DESCRIPTION,
    FIELD_WEIGHTS,
    LENGTH_SHARE,
    NAME,
    SCENARIO,
    TAG,
    TITLE,
    TOPIC,
    body_points,
    thousandths,
)
from orchestr8_sqlite.wordlists import Synonym

MOST_COUNTED = len(BODY_WEIGHTS) - 1
"""Occurrences in a body that are told apart."""

BODY_POINTS = tuple(map(body_points, range(MOST_COUNTED + 1)))

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

Texts = Mapping[int, str]
"""Field (a bit, 0 for the body) → its text."""

BODY = 0


Lengths = Mapping[int, float]
"""Field → its keywords."""


class Held(NamedTuple):
    """What a fragment holds, by stem.

    `lengths` are the keywords of each short text; `fields` has for the stems of these the bits of their fields and
    how often the body holds them; `name` what part of the fragment's name they are, in thousandths; `body` how often
    the body holds those that no short text does.
    """

    lengths: Mapping[int, int]
    fields: Mapping[str, tuple[int, int]]
    name: Mapping[str, int]
    body: Mapping[str, int]


def fragment_texts(fragment: Fragment) -> Texts:
    """Return the texts of a fragment that are searched."""
    lists = {TAG: fragment.tags, CAPABILITY: fragment.capabilities, SCENARIO: fragment.use_when}
    return searched_texts(fragment.name, fragment.title, fragment.description, fragment.body, lists)


def searched_texts(name: str, title: str, description: str, body: str, lists: Mapping[int, Sequence[str]]) -> Texts:
    """Return the texts that are searched; a name is searched by its parts, *lists* by their lines."""
    spaced = name.replace("-", " ").replace("_", " ")
    joined = {bit: "\n".join(lines) for bit, lines in lists.items()}
    return {NAME: spaced, TITLE: title, DESCRIPTION: description, BODY: body, **joined}


def hold(texts: Texts) -> Held:
    """Return what a fragment with these texts holds."""
    fields: dict[str, int] = {}
    lengths: dict[int, int] = {}
    for bit in FIELD_WEIGHTS:
        stems = count_stems(texts[bit])
        lengths[bit] = sum(stems.values())
        for stem in stems:
            fields[stem] = fields.get(stem, 0) | bit
    body = dict(count_stems(texts[BODY]))
    short = {stem: (bits, min(body.pop(stem, 0), MOST_COUNTED)) for stem, bits in fields.items()}
    return Held(lengths, short, _name_shares(texts[NAME]), body)


class LengthSums:
    """The lengths of the short texts of the first block of a library, added up."""

    def __init__(self, fragments: int = 0, sums: Mapping[int, int] | None = None) -> None:
        self.fragments = fragments
        self.sums = dict(sums or dict.fromkeys(FIELD_WEIGHTS, 0))

    @classmethod
    def read(cls, db: sqlite3.Connection) -> Self:
        """Return those of an index."""
        rows = dict(db.execute("SELECT key, value FROM meta WHERE key LIKE 'length_sum_%'"))
        fragments = db.execute("SELECT count(*) FROM fragment WHERE id < ?", (BLOCK,)).fetchone()[0]
        return cls(fragments, {bit: int(rows[f"length_sum_{bit}"]) for bit in FIELD_WEIGHTS})

    def add(self, number: int, held: Held, change: int = 1) -> None:
        """Count the fragment *number* in, or with a *change* of -1 out."""
        if number < BLOCK:
            self.fragments += change
            for bit, length in held.lengths.items():
                self.sums[bit] += change * length

    @property
    def typical(self) -> Lengths:
        """Return the mean length of each field, as the nearest power of two: a single fragment seldom changes it."""
        means = {bit: sum_ / max(1, self.fragments) for bit, sum_ in self.sums.items()}
        return {bit: 2.0 ** round(math.log2(mean)) if mean else 1.0 for bit, mean in means.items()}

    def write(self, db: sqlite3.Connection) -> None:
        """Write them to `meta`, with the typical lengths."""
        rows = {f"length_sum_{bit}": str(sum_) for bit, sum_ in self.sums.items()}
        rows |= {f"typical_length_{bit}": f"{length:g}" for bit, length in self.typical.items()}
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", sorted(rows.items()))


def read_typical_lengths(meta: Mapping[str, str]) -> Lengths:
    """Return the lengths that the fields of an index were weighed by."""
    return {bit: float(meta[f"typical_length_{bit}"]) for bit in FIELD_WEIGHTS}


def weigh(held: Held, typical: Lengths) -> dict[str, tuple[int, int]]:
    """Return (fields, weight) of each stem of the short texts: what it earns, in thousandths of its rarity."""
    points = _FieldPoints(held.lengths, typical)
    return {stem: (bits, thousandths(points[bits] + BODY_POINTS[count])) for stem, (bits, count) in held.fields.items()}


class _FieldPoints(dict[int, float]):
    """Bits of fields → the evidence that these fields of a fragment give together, the less the longer they are."""

    def __init__(self, lengths: Mapping[int, int], typical: Lengths) -> None:
        super().__init__()
        self._given = {
            bit: weight / (1 - LENGTH_SHARE + LENGTH_SHARE * lengths[bit] / typical[bit])
            for bit, weight in FIELD_WEIGHTS.items()
        }

    def __missing__(self, bits: int) -> float:
        total = 0.0
        for bit, points in self._given.items():  # what `sum` does about rounding differs between versions of Python
            if bits & bit:
                total += points
        self[bits] = total
        return total


def _name_shares(name: str) -> dict[str, int]:
    """Return the part of a name that each of its stems is, by their letters: longer words say more."""
    stems = count_stems(name)
    letters = sum(map(len, stems))
    return {stem: (1000 * len(stem) + letters // 2) // letters for stem in stems}


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
        self._short: defaultdict[str, _NewShortList] = defaultdict(_NewShortList)
        self._body: defaultdict[str, _BodyList] = defaultdict(_BodyList)
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
        for stem, (fields, count) in held.fields.items():
            short = self._short[stem]
            short.members.append(member)
            short.fields.append(fields)
            short.counts.append(count)
        for stem, share in held.name.items():
            short = self._short[stem]
            short.named.append(member)
            short.shares.append(share)
        for stem, count in held.body.items():
            body = self._body[stem]
            body.members.append(member)
            body.counts.append(min(MOST_COUNTED, count))
        self._topics.append((number, _topics(held)))

    def close(self) -> None:
        """Write what was taken, and the lengths."""
        self._flush()
        self._sums.write(self._db)

    def _flush(self) -> None:
        """Write the block."""
        typical = self._sums.typical
        points = {member: _FieldPoints(lengths, typical) for member, lengths in self._lengths.items()}
        short, body = self._short, self._body
        self._db.executemany(ADD_TERM, (self._counted(stem) for stem in sorted(short.keys() | body.keys())))
        self._db.executemany(
            WRITE_SHORT, (short[stem].weighed(points).row(stem, self._block) for stem in sorted(short))
        )
        self._db.executemany(WRITE_BODY, (body[stem].row(stem, self._block) for stem in sorted(body)))
        self._db.executemany("INSERT INTO topic VALUES (?, ?)", self._topics)
        for kept in (self._lengths, short, body, self._topics):
            kept.clear()

    def _counted(self, stem: str) -> tuple[object, ...]:
        short, body = self._short.get(stem), self._body.get(stem)
        fields = short.fields if short else b""
        topics = sum(count for bits, count in Counter(fields).items() if bits & TOPIC)
        return stem, len(fields) + (len(body.members) if body else 0), len(fields), topics


@dataclass(slots=True)
class _NewShortList:
    """What becomes a row of `evidence` once the typical lengths are known; `counts` are those of the bodies."""

    members: "array[int]" = field(default_factory=lambda: array("H"))
    fields: bytearray = field(default_factory=bytearray)
    counts: bytearray = field(default_factory=bytearray)
    named: "array[int]" = field(default_factory=lambda: array("H"))
    shares: "array[int]" = field(default_factory=lambda: array("H"))

    def weighed(self, points: Mapping[int, _FieldPoints]) -> _ShortList:
        """Return the row; *points* are those of each member."""
        known = zip(self.members, self.fields, self.counts, strict=True)
        weights = array("H", [thousandths(points[at][bits] + BODY_POINTS[count]) for at, bits, count in known])
        return _ShortList(self.members, weights, self.fields, self.named, self.shares)


def replace_evidence(
    db: sqlite3.Connection, gone: Iterable[tuple[int, Held]], come: Iterable[tuple[int, Held]], typical: Lengths
) -> None:
    """Take fragments with what they held out of the evidence, then others into it; only their terms are touched."""
    short = _Kept(partial(_ShortList.read, db))
    body = _Kept(partial(_BodyList.read, db))
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for number, held in gone:
        block, member = divmod(number, BLOCK)
        for stem in held.fields:
            short[stem, block].remove(member)
        for stem in held.body:
            body[stem, block].remove(member)
        _count(counts, held, -1)
        db.execute("DELETE FROM topic WHERE fragment_id = ?", (number,))
    for number, held in come:
        block, member = divmod(number, BLOCK)
        for stem, (fields, weight) in weigh(held, typical).items():
            short[stem, block].insert(member, fields, weight, held.name.get(stem, 0))
        for stem, count in held.body.items():
            body[stem, block].insert(member, count)
        _count(counts, held, 1)
        db.execute("INSERT INTO topic VALUES (?, ?)", (number, _topics(held)))
    db.executemany(ADD_TERM, ((stem, *changes) for stem, changes in sorted(counts.items())))
    db.execute(DROP_UNHELD, (json.dumps(sorted(counts), ensure_ascii=False),))
    _write_lists(db, short, WRITE_SHORT, DROP_SHORT)
    _write_lists(db, body, WRITE_BODY, DROP_BODY)


Packed = TypeVar("Packed", _ShortList, _BodyList)


class _Kept(dict[tuple[str, int], Packed]):
    """(stem, block) → its row, read when it is first asked for."""

    def __init__(self, read: Callable[[str, int], Packed]) -> None:
        super().__init__()
        self._read: Callable[[str, int], Packed] = read

    def __missing__(self, key: tuple[str, int]) -> Packed:
        self[key] = self._read(*key)
        return self[key]


def _count(counts: Mapping[str, list[int]], held: Held, change: int) -> None:
    for stem in held.body:
        counts[stem][0] += change
    for stem, (fields, _) in held.fields.items():
        counts[stem][0] += change
        counts[stem][1] += change
        counts[stem][2] += change if fields & TOPIC else 0


def _write_lists(
    db: sqlite3.Connection, lists: Mapping[tuple[str, int], _ShortList | _BodyList], write: str, drop: str
) -> None:
    db.executemany(
        write, (one.row(*key) for key, one in sorted(lists.items(), key=lambda item: item[0]) if one.members)
    )
    db.executemany(drop, (key for key, one in lists.items() if not one.members))


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
    numbered = list(enumerate(synonyms, start=1))
    words = (
        (stem, number, slot, len(synonym.slots))
        for number, synonym in numbered
        for slot, stems in enumerate(synonym.slots)
        for stem in stems
    )
    db.executemany("INSERT INTO synonym_word VALUES (?, ?, ?, ?)", sorted(words))
    db.executemany(
        "INSERT INTO synonym_form VALUES (?, ?, ?, ?)",
        (
            (number, ordinal, synonym.how, form)
            for number, synonym in numbered
            for ordinal, form in enumerate(synonym.forms)
        ),
    )
