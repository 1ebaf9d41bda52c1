"""What fragments hold → the packed lists of a new index, written by blocks of fragments in bounded memory."""

import sqlite3
from array import array
from collections.abc import Iterable, Mapping
from itertools import product
from operator import itemgetter

from orchestr8_sqlite.bulk import insert_rows
from orchestr8_sqlite.evidence import BODY_POINTS, FieldPoints, Held, Lengths, LengthSums
from orchestr8_sqlite.evidence_rows import ADD_TERM, topics_of
from orchestr8_sqlite.packing import BLOCK, pack_members, split_postings
from orchestr8_sqlite.runs import Runs, in_pieces
from orchestr8_sqlite.tiers.weights import FIELD_WEIGHTS, SATURATION, TOPIC

INSERT_SHORT = "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_BODY = "INSERT INTO body_evidence VALUES (?, ?, ?, ?)"
INSERT_TOPIC = "INSERT INTO topic VALUES (?, ?)"

FIELD_BITS = len(FIELD_WEIGHTS)
ALL_FIELDS = (1 << FIELD_BITS) - 1
FIELDS_AND_COUNT = FIELD_BITS + 8
"""Bits of a posting below its member: fields, and a byte for how often the body holds the term."""

PLACES = {sum(bits): place for place, bits in enumerate(product(*((0, bit) for bit in reversed(FIELD_WEIGHTS))))}
IN_ORDER_OF_BITS = itemgetter(*(PLACES[bits] for bits in range(1 << FIELD_BITS)))
"""Puts in the order of their bits what stands for sets of fields in the order in which FIELD_WEIGHTS adds them."""

OFF_TOPIC = bytes(fields for fields in range(1 << FIELD_BITS) if not fields & TOPIC)

ShortRow = tuple[str, int, bytearray, bytearray, bytearray, bytearray, bytearray]
"""A row of `evidence`."""

TOGETHER = 1000
"""Rows of a table that are written before those of the next."""


class EvidenceWriter:
    """Writes the evidence of fragments that come in the order of their numbers, a block of them at a time.

    Close it when done. What is in memory is bounded, however many words the fragments hold.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._block = 0
        self._lengths: dict[int, array[int]] = {}
        self._runs: Runs[str] = Runs()  # short texts: member, fields, count; names: member, share; body: member, count
        self._topics: list[tuple[int, str]] = []
        self._sums = LengthSums()

    def add(self, number: int, held: Held) -> None:
        """Take what the fragment *number* holds."""
        block, member = divmod(number, BLOCK)
        if block != self._block:
            self._flush()
            self._block = block
        self._lengths[member] = array("I", map(held.lengths.__getitem__, FIELD_WEIGHTS))
        self._sums.add(number, held)
        short, names, body = self._runs.lists
        place = member << FIELDS_AND_COUNT
        for stem, (fields, count) in held.fields.items():
            short[stem].append(place | fields << 8 | count)
        place = member << 16
        for stem, share in held.name.items():
            names[stem].append(place | share)
        for stem, count in held.body.items():
            body[stem].append(place | count)
        self._runs.count(len(held.fields) + len(held.body))
        self._topics.append((number, topics_of(held)))
        if len(self._topics) >= TOGETHER:
            self._write_topics()

    def close(self) -> None:
        """Write what was taken, and the lengths."""
        self._flush()
        self._sums.write(self._db)

    def _flush(self) -> None:
        """Write the block."""
        self._write_topics()
        points = _all_points(self._lengths, self._sums.typical)
        self._lengths.clear()
        for terms in in_pieces(self._runs.drain()):
            short = {term: _short_row(term, self._block, one, names, points) for term, one, names, _ in terms if one}
            insert_rows(self._db, ADD_TERM, (_term_row(term, short.get(term), body) for term, _, _, body in terms))
            insert_rows(self._db, INSERT_SHORT, short.values())
            insert_rows(self._db, INSERT_BODY, (_body_row(term, self._block, b) for term, _, _, b in terms if b))

    def _write_topics(self) -> None:
        insert_rows(self._db, INSERT_TOPIC, self._topics)
        self._topics.clear()


def _all_points(lengths: Mapping[int, "array[int]"], typical: Lengths) -> "array[float]":
    """Return what fields of fragments give, at place (member << 6 | fields), from the *lengths* of each member."""
    points = array("d", bytes(8 << FIELD_BITS)) * (max(lengths, default=-1) + 1)
    for member, own in lengths.items():
        given = FieldPoints(dict(zip(FIELD_WEIGHTS, own, strict=True)), typical)
        sums = [0.0]
        for bit in FIELD_WEIGHTS:  # in the order in which FieldPoints adds up: sums of floats hang on it
            point = given[bit]
            sums += [sum_ + point for sum_ in sums]
        points[member << FIELD_BITS : (member + 1) << FIELD_BITS] = array("d", IN_ORDER_OF_BITS(sums))
    return points


def _short_row(stem: str, block: int, short: "array[int]", names: "array[int]", points: "array[float]") -> ShortRow:
    """Return the row of `evidence`."""
    members = bytearray(pack_members([posting >> FIELDS_AND_COUNT for posting in short]))
    fields = bytearray([posting >> 8 & ALL_FIELDS for posting in short])
    sums = [points[posting >> 8] + BODY_POINTS[posting & 0xFF] for posting in short]
    named, high, low = split_postings(names)
    shares = bytearray(len(named))
    shares[::2], shares[1::2] = low, high
    return stem, block, members, bytearray(pack_members(_weights(sums))), fields, named, shares


def _weights(sums: Iterable[float]) -> list[int]:
    """Return `thousandths` of each of many sums of evidence, without a call for each."""
    return [round(1000 * points / (points + SATURATION)) or 1 for points in sums]


def _term_row(stem: str, short: ShortRow | None, body: "array[int]") -> tuple[str, int, int, int]:
    """Return the row of `term` by the row of `evidence` and the postings of the bodies."""
    fields = short[4] if short else bytearray()
    return stem, len(fields) + len(body), len(fields), len(fields.translate(None, OFF_TOPIC))


def _body_row(stem: str, block: int, body: "array[int]") -> tuple[str, int, bytearray, bytearray]:
    """Return the row of `body_evidence`."""
    members, _, counts = split_postings(body)
    return stem, block, members, counts
