"""What fragments hold → the packed lists of a new index, written by blocks of fragments in bounded memory."""

import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby, product, repeat
from operator import itemgetter

from orchestr8_sqlite.bulk import insert_rows
from orchestr8_sqlite.evidence import BODY_POINTS, FieldPoints, Lengths, LengthSums
from orchestr8_sqlite.evidence_rows import ADD_TERM
from orchestr8_sqlite.inversion import FIELD_BITS, POSTING_BITS, SHORT_BITS, Terms
from orchestr8_sqlite.packing import BLOCK, pack_members, split_postings
from orchestr8_sqlite.runs import Runs, in_pieces
from orchestr8_sqlite.tiers.weights import FIELD_WEIGHTS, SATURATION, TOPIC

INSERT_SHORT = "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_BODY = "INSERT INTO body_evidence VALUES (?, ?, ?, ?)"
INSERT_TOPIC = "INSERT OR FAIL INTO topic VALUES (?, ?)"

ALL_FIELDS = (1 << FIELD_BITS) - 1

PLACES = {sum(bits): place for place, bits in enumerate(product(*((0, bit) for bit in reversed(FIELD_WEIGHTS))))}
IN_ORDER_OF_BITS = itemgetter(*(PLACES[bits] for bits in range(1 << FIELD_BITS)))
"""Puts in the order of their bits what stands for sets of fields in the order in which FIELD_WEIGHTS adds them."""

OFF_TOPIC = bytes(fields for fields in range(1 << FIELD_BITS) if not fields & TOPIC)

ShortRow = tuple[str, int, bytearray, bytearray, bytearray, bytearray, bytearray]
"""A row of `evidence`."""


class EvidenceWriter:
    """Writes the evidence of fragments that come in the order of their numbers, a block of them at a time.

    Close it when done. What is in memory is bounded, however many words the fragments hold.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._block = 0
        self._lengths = array("I")  # of each member of the block, a number for each field
        self._runs: Runs[str] = Runs()  # short texts, names, bodies; with members for the places
        self._sums = LengthSums()

    def add(self, numbers: Sequence[int | None], terms: Terms) -> None:
        """Take what fragments hold that get *numbers*, which ascend; None for those that are left out."""
        taken = [(number, place) for place, number in enumerate(numbers) if number is not None]
        for block, found in groupby(taken, key=lambda one: one[0] // BLOCK):
            if block != self._block:
                self._flush()
                self._block = block
            members: list[int | None] = [None] * len(numbers)
            for number, place in found:
                members[place] = number % BLOCK
                self._add_lengths(number, terms.lengths[place])
            self._add_postings(members, terms)
        insert_rows(self._db, INSERT_TOPIC, ((number, terms.topics[place]) for number, place in taken))

    def _add_postings(self, members: Sequence[int | None], terms: Terms) -> None:
        for lists, postings, bits in zip(self._runs.lists, terms[:3], POSTING_BITS, strict=True):
            for stem, own in postings.renumbered(members, bits).lists():
                lists[stem] += own
            self._runs.count(len(postings.postings))

    def _add_lengths(self, number: int, lengths: Sequence[int]) -> None:
        self._lengths.extend(repeat(0, number % BLOCK * FIELD_BITS - len(self._lengths)))
        self._lengths.extend(lengths)
        self._sums.add(number, dict(zip(FIELD_WEIGHTS, lengths, strict=True)))

    def close(self) -> None:
        """Write what was taken, and the lengths."""
        self._flush()
        self._sums.write(self._db)

    def _flush(self) -> None:
        """Write the block."""
        points = _all_points(self._lengths, self._sums.typical)
        self._lengths = array("I")
        for terms in in_pieces(self._runs.drain()):
            short = {term: _short_row(term, self._block, one, names, points) for term, one, names, _ in terms if one}
            insert_rows(self._db, ADD_TERM, (_term_row(term, short.get(term), body) for term, _, _, body in terms))
            insert_rows(self._db, INSERT_SHORT, short.values())
            insert_rows(self._db, INSERT_BODY, (_body_row(term, self._block, b) for term, _, _, b in terms if b))


def _all_points(lengths: "array[int]", typical: Lengths) -> "array[float]":
    """Return what fields of fragments give, at place (member << 6 | fields), from the *lengths* of all members."""
    points = array("d")
    for start in range(0, len(lengths), FIELD_BITS):
        own = lengths[start : start + FIELD_BITS]
        given = FieldPoints(dict(zip(FIELD_WEIGHTS, own, strict=True)), typical)
        sums = [0.0]
        for bit in FIELD_WEIGHTS:  # in the order in which FieldPoints adds up: sums of floats hang on it
            point = given[bit]
            sums += [sum_ + point for sum_ in sums]
        points.extend(IN_ORDER_OF_BITS(sums))
    return points


def _short_row(stem: str, block: int, short: "array[int]", names: "array[int]", points: "array[float]") -> ShortRow:
    """Return the row of `evidence`."""
    members = bytearray(pack_members([posting >> SHORT_BITS for posting in short]))
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
