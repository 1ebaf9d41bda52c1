"""The packed postings of a request: sets of scenarios, each one integer with a bit for every scenario of the index."""

import json
import sqlite3
import sys
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import compress

from orchestr8_sqlite.connections import kept_of
from orchestr8_sqlite.packing import BITS, BLOCK, SET_BLOCK, pack_bits, unpack_members, unpack_words

ENDS = "SELECT block, ends FROM scenario_end WHERE block <= :last"
HOLDERS = """
SELECT query.key, k.id, b.block, b.places, b.bits
  FROM json_each(:keywords) query
 CROSS JOIN keyword k ON k.text = query.value
  LEFT JOIN posting_block b ON b.keyword_id = k.id
"""
KIN_OF_QUERY = """
tail (word, text) AS MATERIALIZED (
    SELECT word, keyword FROM query
    UNION ALL SELECT word, substr(text, 2) FROM tail WHERE length(text) > 1),
contained (word, tail, keyword_id, text, prefix_id) AS (  -- the last keyword up to a tail, what that begins with, …
    SELECT tail.word, tail.text, k.id, k.text, k.prefix_id
      FROM tail
     CROSS JOIN keyword k ON k.text = (SELECT text FROM keyword WHERE text <= tail.text ORDER BY text DESC LIMIT 1)
    UNION ALL
    SELECT c.word, c.tail, k.id, k.text, k.prefix_id FROM contained c CROSS JOIN keyword k ON k.id = c.prefix_id),
kin (word, keyword_id) AS (  -- other keywords that contain one of the query, or are contained in it
    SELECT c.word, c.keyword_id
      FROM contained c CROSS JOIN query ON query.word = c.word
     WHERE substr(c.tail, 1, length(c.text)) = c.text AND c.text <> query.keyword
    UNION
    SELECT query.word, x.keyword_id
      FROM query
     CROSS JOIN keyword_suffix x ON x.suffix >= query.keyword AND x.suffix < query.keyword || char(1114111)
     WHERE x.keyword_id IS NOT (SELECT id FROM keyword WHERE text = query.keyword))
"""
"""Common table expressions over `query (word, keyword)`."""

KIN_HOLDERS = """
SELECT query.key, b.block, b.places, b.bits
  FROM json_each(:ids) query CROSS JOIN containing_block b ON b.keyword_id = query.value
 UNION ALL
SELECT query.key, b.block, b.places, b.bits
  FROM json_each(:ids) query
 CROSS JOIN keyword_part part ON part.keyword_id = query.value
 CROSS JOIN posting_block b ON b.keyword_id = part.part_id
"""
"""Of keywords that the index knows."""

KIN = f"""
WITH RECURSIVE
query (word, keyword) AS MATERIALIZED (SELECT key, value FROM json_each(:keywords)),
{KIN_OF_QUERY}
SELECT kin.word, b.block, b.places, b.bits FROM kin CROSS JOIN posting_block b ON b.keyword_id = kin.keyword_id
"""
CONTAINING = """
SELECT query.key, b.block, b.places, b.bits
  FROM json_each(:keywords) query
 CROSS JOIN keyword_suffix x ON x.suffix >= query.value AND x.suffix < query.value || char(1114111)
 CROSS JOIN posting_block b ON b.keyword_id = x.keyword_id
"""
CONTAINED = """
SELECT part.key, b.block, b.places, b.bits
  FROM json_each(:parts) part CROSS JOIN keyword k ON k.text = part.value
 CROSS JOIN posting_block b ON b.keyword_id = k.id
"""
MOST_PARTS = 1_000
"""Parts of the keywords of a request that are looked up one by one; from more, `KIN` finds what they contain."""

ARRAYS_PAY = 1024
"""Bytes from which on NumPy, where it is loaded, puts them into their places faster."""

PROBE, LIST = 4, 3
"""Looking for a number in a row, and telling one from a set, take so many times as long as putting a byte in its place.
"""

AT_ONCE = 64
"""Bytes of a bit set that become part of a number in the time that one takes to be put in its place."""

EVERY = 1 << 62
"""More than any block has for its number."""

Row = tuple[int, bytes, bytes]
"""A block of a set as it is packed: its number, places and bits."""


class Scenarios:
    """The scenarios of an index as sets: which hold the keywords of a request whole, and which in part."""

    def __init__(self, db: sqlite3.Connection, keywords: Sequence[str]) -> None:
        self._db = db
        self._texts = keywords
        self._known: dict[int, int] = {}
        self._partial: dict[int, int] = {}
        self._known_ends: dict[int, tuple[int, int]] = kept_of(db, "ends")

    def exact(self) -> list[int]:
        """Return, for each keyword, who holds it."""
        rows: dict[int, list[Row]] = defaultdict(list)
        for word, id_, *row in self._db.execute(HOLDERS, {"keywords": json.dumps(self._texts)}):
            self._known[word] = id_
            if row[0] is not None:
                rows[word].append((row[0], row[1], row[2]))
        return [_union(rows[word]) if word in rows else 0 for word in range(len(self._texts))]

    @cached_property
    def kin(self) -> dict[int, list[Row]]:
        """Return, for each keyword that has any, the sets of the others that contain it or are contained in it.

        What takes least to read comes first. `exact` was asked before.
        """
        kin: dict[int, list[Row]] = defaultdict(list)
        if self._known:
            words = list(self._known)
            for place, *row in self._db.execute(KIN_HOLDERS, {"ids": str(list(self._known.values()))}):
                kin[words[place]].append((row[0], row[1], row[2]))
        unknown = {word: text for word, text in enumerate(self._texts) if word not in self._known}
        for word, *row in self._kin_of(unknown) if unknown else ():
            kin[word].append((row[0], row[1], row[2]))
        return {word: kin[word] for word in sorted(kin, key=lambda word: _bytes_of(kin[word]))}

    def _kin_of(self, unknown: Mapping[int, str]) -> Iterable[tuple[int, int, bytes, bytes]]:
        """Yield (number of a keyword that the index does not know, block, places, bits) for every other akin to it."""
        words, texts = list(unknown), json.dumps(list(unknown.values()))
        if sum(len(text) ** 2 for text in unknown.values()) > 2 * MOST_PARTS:
            for place, *row in self._db.execute(KIN, {"keywords": texts}):
                yield words[place], row[0], row[1], row[2]
            return
        for place, *row in self._db.execute(CONTAINING, {"keywords": texts}):
            yield words[place], row[0], row[1], row[2]
        holding: dict[str, list[int]] = defaultdict(list)
        for word, text in unknown.items():
            for part in _parts(text):
                holding[part].append(word)
        several = list(holding.values())
        for place, *row in self._db.execute(CONTAINED, {"parts": json.dumps(list(holding))}):
            for word in several[place]:
                yield word, row[0], row[1], row[2]

    def partial(self, word: int, within: int, few: Sequence[int] | None) -> int:
        """Return which of the scenarios *within* hold a keyword akin to the one numbered *word*.

        Args:
            few: The numbers of *within*, ascending, where these are few; the sets are then asked for them alone.
        """
        if word not in self._partial:
            if few is not None:
                return _holding(self.kin[word], few)
            self._partial[word] = _union(self.kin[word])
        return self._partial[word] & within

    def pays_to_probe(self, scenarios: int, words: Iterable[int]) -> bool:
        """Tell whether to look for each of *scenarios* in all that *words* need takes less than to read it."""
        unread = [row for word in words if word not in self._partial for row in self.kin[word]]
        spared = _bytes_of(unread) - scenarios.bit_length() // (4 * AT_ONCE)
        return spared > 0 and scenarios.bit_count() * (len(unread) * PROBE + LIST) < spared

    def fragments(self, scenarios: int, most: int) -> int:
        """Return how many fragments have any of the *scenarios*, up to *most*.

        Those of one fragment stand together: added to ones everywhere but at its last one, any of the others carries
        into that. The first block alone tells enough of most sets.
        """
        if scenarios.bit_length() <= BLOCK:
            return min(most, self._fragments(scenarios, 0))
        if self._fragments(scenarios & ((1 << BLOCK) - 1), 0) >= most:
            return most
        return min(most, self._fragments(scenarios, EVERY))

    def reach(self, scenarios: int, most: int) -> bool:
        """Tell whether so many fragments have any of the *scenarios*."""
        return scenarios.bit_count() >= most and self.fragments(scenarios, most) == most

    def _fragments(self, scenarios: int, last: int) -> int:
        ends, others = self._ends(last)
        return (((scenarios & others) + others | scenarios) & ends).bit_count()

    def _ends(self, last: int) -> tuple[int, int]:
        """Return which scenarios of the blocks up to *last* are the last ones of their fragments, and which not."""
        if last not in self._known_ends:
            packed = bytearray()
            for block, some in self._db.execute(ENDS, {"last": last}):
                packed.extend(bytes((block * BLOCK >> 3) - len(packed)))
                packed.extend(some)
            ends = int.from_bytes(packed, "little")
            self._known_ends[last] = ends, ((1 << ends.bit_length()) - 1) ^ ends
        return self._known_ends[last]


def _bytes_of(rows: Sequence[Row]) -> int:
    """Return how many bytes must be put in their places to read *rows*."""
    return sum(len(bits) if places else len(bits) // AT_ONCE for _, places, bits in rows)


def _union(rows: Sequence[Row]) -> int:
    """Return the union of packed sets."""
    if len(rows) == 1 and not rows[0][0] and not rows[0][1]:
        return int.from_bytes(rows[0][2], "little")
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


def _is_listed(row: Row) -> bool:
    return bool(row[1])


def _with_bits(known: bytearray, bits: bytes) -> bytearray:
    union = int.from_bytes(known, "little") | int.from_bytes(bits, "little")
    return bytearray(union.to_bytes(max(len(known), len(bits)), "little"))


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


def _holding(rows: Sequence[Row], few: Sequence[int]) -> int:
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


def _parts(text: str) -> set[str]:
    """Return what *text* contains that may be a keyword: no single letter of ASCII, nor all of it."""
    size = len(text)
    parts = {text[start:end] for start in range(size) for end in range(start + 2, size + 1)}
    return (parts | {letter for letter in text if not letter.isascii()}) - {text}


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
