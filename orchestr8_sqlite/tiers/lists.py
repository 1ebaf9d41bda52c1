"""The packed lists of the index, unpacked: which fragments hold a stem, and where."""

import json
import sqlite3
from array import array
from collections.abc import Collection, Sequence
from typing import NamedTuple

from orchestr8_sqlite.connections import stop_if_abandoned
from orchestr8_sqlite.packing import BLOCK, pack_members, unpack_members
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS

SHORT = """
SELECT e.stem, e.block, e.members, e.weights, e.fields, e.named, e.shares
  FROM json_each(:stems) CROSS JOIN evidence e ON e.stem = value
"""
BODIES = """
SELECT b.stem, b.block, b.members, b.counts FROM json_each(:stems) CROSS JOIN body_evidence b ON b.stem = value
"""

PACKED_WEIGHTS = pack_members(BODY_WEIGHTS)
LOW_WEIGHTS, HIGH_WEIGHTS = PACKED_WEIGHTS[::2], PACKED_WEIGHTS[1::2]

LARGE = 1 << 14
"""Bytes of the members of a block that take long enough to ask whether anybody waits for them still."""

BLOCK_BYTES = 700
"""What a block takes beside its numbers."""


class ShortBlock(NamedTuple):
    """The fragments of a block that hold a term in a short text; their numbers are `first` more than `members`."""

    first: int
    members: Sequence[int]
    weights: Sequence[int]
    fields: Sequence[int]
    named: Sequence[int]
    shares: Sequence[int]


class BodyBlock(NamedTuple):
    """Those that hold it in the body alone, and what they earn by how often they do."""

    first: int
    members: Sequence[int]
    weights: Sequence[int]


def read_short(db: sqlite3.Connection, stems: Collection[str]) -> dict[str, list[ShortBlock]]:
    """Return for each of *stems* who holds it in a short text."""
    found: dict[str, list[ShortBlock]] = {stem: [] for stem in stems}
    for stem, block, members, weights, fields, *name in db.execute(SHORT, _stems(stems)):
        if len(members) >= LARGE:
            stop_if_abandoned(db)
        known = unpack_members(members), unpack_members(weights), fields, *map(unpack_members, name)
        found[stem].append(ShortBlock(block * BLOCK, *known))
    return found


def read_bodies(db: sqlite3.Connection, stems: Collection[str]) -> dict[str, list[BodyBlock]]:
    """Return for each of *stems* who holds it in the body alone."""
    found: dict[str, list[BodyBlock]] = {stem: [] for stem in stems}
    for stem, block, members, counts in db.execute(BODIES, _stems(stems)):
        if len(members) >= LARGE:
            stop_if_abandoned(db)
        found[stem].append(BodyBlock(block * BLOCK, unpack_members(members), _weights(counts)))
    return found


def bytes_of_short(blocks: Sequence[ShortBlock]) -> int:
    """Return about how many bytes *blocks* take in memory."""
    return sum(BLOCK_BYTES + 5 * len(block.members) + 4 * len(block.named) for block in blocks)


def bytes_of_bodies(blocks: Sequence[BodyBlock]) -> int:
    """Return about how many bytes *blocks* take in memory."""
    return sum(BLOCK_BYTES + 4 * len(block.members) for block in blocks)


def _weights(counts: bytes) -> "array[int]":
    """Return BODY_WEIGHTS of *counts*."""
    packed = bytearray(2 * len(counts))
    packed[::2], packed[1::2] = counts.translate(LOW_WEIGHTS), counts.translate(HIGH_WEIGHTS)
    return unpack_members(bytes(packed))


def _stems(stems: Collection[str]) -> dict[str, str]:
    return {"stems": json.dumps(sorted(stems))}
