"""Postings packed into blobs: the members of a block in ascending order, and beside them what is known of each.

The numbers of fragments or scenarios are cut into blocks of BLOCK; within a block two bytes tell them apart. A blob
holds nothing but such numbers one after the other, the low byte first. Where a set holds many numbers of a block,
a bit for each number of the block takes less; lists of whole numbers have four bytes each.
"""

import sys
from array import array
from collections.abc import Iterable

BLOCK = 1 << 16
"""Numbers in a block: number // BLOCK is the block, number % BLOCK the member."""

FEW_SCENARIOS = 16
"""Scenarios of a keyword up to which it is not packed: reading their rows is no slower."""

LISTED_SCENARIOS = 2048
"""Scenarios of a keyword up to which they are one list, which is read by a single look-up; above, it is cut into
blocks, of which a change rewrites only those that it touches."""

LISTED_MEMBERS = 1024
"""Scenarios of a block from which on a bit for each takes the place of the list: reading that is far faster."""

PLACED = 2048
"""Numbers in a block of `scenario_owner` and `fragment_place`: 8 KiB, so that a single look-up reads little."""

BITS = bytes(1 << place for place in range(8))
OFFSETS = tuple(tuple(place for place in range(8) if byte >> place & 1) for byte in range(256))


def pack_members(members: Iterable[int]) -> bytes:
    """Return *members* (0 to 65,535 each) as two bytes each."""
    return _pack("H", members)


def unpack_members(blob: bytes) -> "array[int]":
    """Return the numbers that `pack_members` was given."""
    return _unpack("H", blob)


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """Return *numbers* (0 to 4,294,967,295 each) as four bytes each."""
    return _pack("I", numbers)


def unpack_numbers(blob: bytes) -> "array[int]":
    """Return the numbers that `pack_numbers` was given."""
    return _unpack("I", blob)


def unpack_words(blob: bytes) -> "array[int]":
    """Return *blob* in numbers of eight bytes each, the low one first; it has whole ones only."""
    return _unpack("Q", blob)


def pack_bits(members: Iterable[int]) -> bytes:
    """Return a bit for each number up to the greatest of *members*, the lowest bit of the first byte for 0."""
    members = list(members)
    bits = bytearray((max(members, default=-1) >> 3) + 1)
    set_bits(bits, members)
    return bytes(bits)


def unpack_bits(blob: bytes) -> list[int]:
    """Return the numbers that `pack_bits` was given, ascending."""
    return [8 * place + offset for place, byte in enumerate(blob) if byte for offset in OFFSETS[byte]]


def set_bits(bits: bytearray, members: Iterable[int], start: int = 0) -> None:
    """Set the bits of *members*, counted from the byte *start*."""
    for member in members:
        bits[start + (member >> 3)] |= BITS[member & 7]


def _pack(kind: str, numbers: Iterable[int]) -> bytes:
    packed = array(kind, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpack(kind: str, blob: bytes) -> "array[int]":
    numbers = array(kind, blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def split_postings(postings: "array[int]") -> tuple[bytearray, bytearray, bytearray]:
    """Return the members, the third and the lowest bytes of *postings*, whose upper halves are the members."""
    raw = bytearray(postings if sys.byteorder == "little" else pack_numbers(postings))
    if len(raw) == 4:
        return raw[2:], raw[1:2], raw[:1]
    members = bytearray(len(raw) // 2)
    members[::2], members[1::2] = raw[2::4], raw[3::4]
    return members, raw[1::4], raw[::4]
