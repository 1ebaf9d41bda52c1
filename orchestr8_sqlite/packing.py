"""Postings packed into blobs: the members of a block in ascending order, and beside them what is known of each.

The numbers of fragments or scenarios are cut into blocks of BLOCK; within a block two bytes tell them apart. A blob
holds nothing but such numbers one after the other, the low byte first.
"""

import sys
from array import array
from collections.abc import Iterable

BLOCK = 1 << 16
"""Numbers in a block: number // BLOCK is the block, number % BLOCK the member."""


def pack_members(members: Iterable[int]) -> bytes:
    """Return *members* (0 to 65,535 each) as two bytes each."""
    packed = members if isinstance(members, array) and sys.byteorder == "little" else array("H", members)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_members(blob: bytes) -> "array[int]":
    """Return the numbers that `pack_members` was given."""
    members = array("H", blob)
    if sys.byteorder == "big":
        members.byteswap()
    return members
