"""Postings packed into blobs: the members of a block in ascending order, and beside them what is known of each.

The numbers of fragments or scenarios are cut into blocks of BLOCK; within a block two bytes tell them apart. A blob
holds nothing but such numbers one after the other, the low byte first. Where a set holds many numbers of a block,
a bit for each number of the block takes less; lists of whole numbers have four bytes each.

Sets of scenarios are bit sets, the lowest bit of the first byte for the first scenario of a block of SET_BLOCK. Two
blobs tell one: which bytes of it are not 0 (`places`, as members) and what these are (`bits`); or, where they are many,
no places and all bytes up to the last.
"""

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence

BLOCK = 1 << 16
"""Numbers in a block: number // BLOCK is the block, number % BLOCK the member."""

SET_BLOCK = 1 << 19
"""Scenarios in a block of a set: two bytes tell its bytes apart."""

MANY_BYTES = 16
"""Where one byte in so many is not 0, all are kept: that takes up to five times the room, and is read far faster."""

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


def pack_set(numbers: Sequence[int]) -> tuple[bytes, bytes]:
    """Return the places and the bits of the set of *numbers* (0 to SET_BLOCK - 1 each), at least one, in any order."""
    size = (max(numbers) >> 3) + 1
    if len(numbers) * MANY_BYTES >= size:
        every = bytearray(size)
        set_bits(every, numbers)
        if (size - every.count(0)) * MANY_BYTES >= size:
            return b"", bytes(every)
    held: dict[int, int] = {}
    for number in numbers:
        place = number >> 3
        held[place] = held.get(place, 0) | BITS[number & 7]
    return _pack_bytes(held)


def change_set(places: bytes, bits: bytes, gone: Iterable[int], come: Iterable[int]) -> tuple[bytes, bytes]:
    """Return a packed set without the numbers in *gone*, then with those in *come*."""
    gone, come = list(gone), list(come)
    if bits and not places:  # all bytes are kept, and most likely stay so
        size = max(len(bits), *(1 + (number >> 3) for number in come)) if come else len(bits)
        every = bytearray(bits).ljust(size, b"\0")
        for number in gone:
            if number >> 3 < size:
                every[number >> 3] &= ~BITS[number & 7]
        set_bits(every, come)
        every = every.rstrip(b"\0")
        if every and (len(every) - every.count(0)) * MANY_BYTES >= len(every):
            return b"", bytes(every)
    held = dict(zip(unpack_members(places), bits, strict=True)) if places else dict(enumerate(bits))
    for number in gone:
        held[number >> 3] = held.get(number >> 3, 0) & ~BITS[number & 7]
    for number in come:
        held[number >> 3] = held.get(number >> 3, 0) | BITS[number & 7]
    return _pack_bytes({place: byte for place, byte in held.items() if byte})


def _pack_bytes(held: Mapping[int, int]) -> tuple[bytes, bytes]:
    """Return the places and the bits of the set whose bytes other than 0 are *held*."""
    places = sorted(held)
    if not places or len(places) * MANY_BYTES < places[-1] + 1:
        return pack_members(places), bytes([held[place] for place in places])
    every = bytearray(places[-1] + 1)
    for place, byte in held.items():
        every[place] = byte
    return b"", bytes(every)


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
