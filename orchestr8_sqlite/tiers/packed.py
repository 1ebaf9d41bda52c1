"""Packed sets of scenarios, and sets as integers with a bit for every scenario of the index."""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from importlib import import_module
from itertools import compress

from orchestr8_sqlite.packing import BITS, SET_BLOCK, pack_bits, unpack_members, unpack_words

ARRAYS_PAY = 1024
"""Bytes from which on NumPy, where it is loaded, puts them into their places faster."""

AT_ONCE = 64
"""Bytes of a bit set that become part of a number in the time that one takes to be put in its place."""

MANY_ROWS = 512
"""Rows from which on those of a block are better put together before anything else is done with them."""

Row = tuple[int, bytes, bytes]
"""A block of a set as it is packed: its number, places and bits."""


def bytes_of(rows: Sequence[Row]) -> int:
    """Return how many bytes must be put in their places to read *rows*."""
    return sum(len(bits) if places else len(bits) // AT_ONCE for _, places, bits in rows)


def union(rows: Sequence[Row]) -> int:
    """Return the union of packed sets."""
    if len(rows) == 1 and not rows[0][0] and not rows[0][1]:
        return int.from_bytes(rows[0][2], "little")
    if len(rows) >= MANY_ROWS:
        rows = folded(rows)
    blocks: dict[int, bytearray] = {}
    for block, places, bits in sorted(rows, key=_is_listed):
        if not places:
            blocks[block] = _with_bits(blocks[block], bits) if block in blocks else bytearray(bits)
            continue
        members = unpack_members(places)
        known = blocks.setdefault(block, bytearray())
        is_new = not known
        if len(known) <= members[-1]:
            known.extend(bytes(members[-1] + 1 - len(known)))
        _put(known, members, bits, is_new=is_new)
    every = blocks.pop(0, bytearray())
    for block in sorted(blocks):
        every.extend(bytes((block * SET_BLOCK >> 3) - len(every)))
        every.extend(blocks[block])
    return int.from_bytes(every, "little")


def folded(rows: Sequence[Row]) -> list[Row]:
    """Return the union of packed sets in one row a block."""
    blocks: dict[int, list[Row]] = {}
    for row in rows:
        blocks.setdefault(row[0], []).append(row)
    return [(block, b"", _all_bits(own)) for block, own in blocks.items()]


def _all_bits(rows: Sequence[Row]) -> bytes:
    """Return all bytes of the union of sets in one block."""
    whole = 0
    for _, places, bits in rows:
        if not places:
            whole |= int.from_bytes(bits, "little")
    listed = [(places, bits) for _, places, bits in rows if places]
    last = max([int.from_bytes(places[-2:], "little") for places, _ in listed], default=-1)
    every = bytearray(whole.to_bytes(max(last + 1, (whole.bit_length() + 7) // 8), "little"))
    if "numpy" in sys.modules:
        np = import_module("numpy")
        members = np.frombuffer(b"".join([places for places, _ in listed]), "<u2")
        bits_ = np.frombuffer(b"".join([bits for _, bits in listed]), np.uint8)
        np.bitwise_or.at(np.frombuffer(every, np.uint8), members, bits_)
    else:
        for places, bits in listed:
            _put(every, unpack_members(places), bits, is_new=False)
    return bytes(every)


def _is_listed(row: Row) -> bool:
    return bool(row[1])


def _with_bits(known: bytearray, bits: bytes) -> bytearray:
    both = int.from_bytes(known, "little") | int.from_bytes(bits, "little")
    return bytearray(both.to_bytes(max(len(known), len(bits)), "little"))


def _put(every: bytearray, places: "array[int]", bits: bytes, *, is_new: bool) -> None:
    """Set the bits of single bytes; where *is_new*, none of any byte is set yet."""
    if len(bits) >= ARRAYS_PAY and "numpy" in sys.modules:
        np = import_module("numpy")
        np.frombuffer(every, dtype=np.uint8)[np.frombuffer(places, dtype=np.uint16)] |= np.frombuffer(bits, np.uint8)
    elif is_new:
        for place, byte in zip(places, bits, strict=True):
            every[place] = byte
    else:
        for place, byte in zip(places, bits, strict=True):
            every[place] |= byte


def holding(rows: Sequence[Row], few: Sequence[int]) -> int:
    """Return which of *few* any of packed sets holds."""
    found: set[int] = set()
    for block, places, bits in rows:
        first = block * SET_BLOCK
        some = few[bisect_left(few, first) : bisect_left(few, first + SET_BLOCK)]
        if not places:
            size = 8 * len(bits)
            found.update([n for n in some if n - first < size and bits[n - first >> 3] & BITS[n & 7]])
            continue
        members = unpack_members(places)
        for number in some:
            at = bisect_left(members, number - first >> 3)
            if at < len(members) and members[at] == number - first >> 3 and bits[at] & BITS[number & 7]:
                found.add(number)
    return int.from_bytes(pack_bits(found), "little")


def members(scenarios: int) -> list[int]:
    """Return the numbers in a set, ascending."""
    return members_of(scenarios.to_bytes((scenarios.bit_length() + 7) // 8, "little"))


def members_of(packed: bytes) -> list[int]:
    """Return the numbers of the bits that are set, ascending."""
    words = unpack_words(packed + bytes(-len(packed) % 8))
    found: list[int] = []
    for place in compress(range(len(words)), words):
        word, first = words[place], 64 * place - 1
        while word:
            lowest = word & -word
            found.append(first + lowest.bit_length())
            word ^= lowest
    return found


def carry(levels: list[int], one: int) -> None:
    """Count the numbers in the set *one*: levels[0] holds what stood in one or more, levels[1] in two, …."""
    for place, level in enumerate(levels):
        if not one:
            return
        levels[place], one = level | one, level & one
    if one:
        levels.append(one)
