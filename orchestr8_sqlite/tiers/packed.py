"""The packed postings of a request: sets of scenarios, each one integer with a bit for every scenario of the index."""

import json
import sqlite3
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from re import compile as pattern

from orchestr8_sqlite.packing import (
    BITS,
    BLOCK,
    FEW_SCENARIOS,
    LISTED_MEMBERS,
    LISTED_SCENARIOS,
    OFFSETS,
    PLACED,
    set_bits,
    unpack_members,
    unpack_numbers,
)

ENDS = "SELECT block, ends FROM scenario_end ORDER BY block"
EXACT = """
SELECT query.key, k.id, k.scenario_count
  FROM json_each(:keywords) query CROSS JOIN keyword k ON k.text = query.value
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

KIN = f"""
WITH RECURSIVE
query (word, keyword) AS MATERIALIZED (SELECT key, value FROM json_each(:keywords)),
{KIN_OF_QUERY}
SELECT kin.word, k.id, k.scenario_count FROM kin CROSS JOIN keyword k ON k.id = kin.keyword_id WHERE k.scenario_count
"""
ROWS = "SELECT p.scenario_id FROM json_each(:ids) CROSS JOIN posting p ON p.keyword_id = value"
LISTS = "SELECT l.scenarios FROM json_each(:ids) CROSS JOIN posting_list l ON l.keyword_id = value"
BLOCKS = """
SELECT b.block, b.members, b.scenarios FROM json_each(:ids) CROSS JOIN posting_block b ON b.keyword_id = value
"""
NUMBERS = {
    "owners": "SELECT o.block, o.owners FROM json_each(:blocks) CROSS JOIN scenario_owner o ON o.block = value",
    "places": "SELECT p.block, p.places FROM json_each(:blocks) CROSS JOIN fragment_place p ON p.block = value",
}
NOT_EMPTY = pattern(rb"[^\0]")

Word = tuple[int, int]
"""Number of a keyword of the index, and how many scenarios hold it."""


class Scenarios:
    """The scenarios of an index as sets: which hold the keywords of a request whole, and which in part."""

    def __init__(self, db: sqlite3.Connection, keywords: Sequence[str]) -> None:
        self._db = db
        self._keywords = {"keywords": json.dumps(keywords)}
        self._words = range(len(keywords))
        self._partial: dict[int, int] = {}
        ends = bytearray()
        for block, packed in db.execute(ENDS):
            ends.extend(bytes((block * BLOCK >> 3) - len(ends)))
            ends.extend(packed)
        self._size = len(ends)
        self._ends = int.from_bytes(ends, "little")
        self._others = ((1 << 8 * self._size) - 1) ^ self._ends

    def exact(self) -> list[int]:
        """Return, for each keyword, who holds it."""
        words = {word: (id_, count) for word, id_, count in self._db.execute(EXACT, self._keywords)}
        return [self._holders([words[word]]) if word in words else 0 for word in self._words]

    @cached_property
    def kin(self) -> dict[int, list[Word]]:
        """Return, for each keyword that has any, the others that contain it or are contained in it.

        Those that few scenarios hold in this way come first.
        """
        kin: dict[int, list[Word]] = defaultdict(list)
        for word, id_, count in self._db.execute(KIN, self._keywords):
            kin[word].append((id_, count))
        return dict(sorted(kin.items(), key=lambda item: sum(count for _, count in item[1])))

    def partial(self, word: int, within: int, few: frozenset[int] | None) -> int:
        """Return which of the scenarios *within* hold a keyword akin to the one numbered *word*.

        Args:
            few: The numbers of *within*, where these are few; the lists are then compared with them alone.
        """
        if word in self._partial:
            return self._partial[word] & within
        if few is not None:
            return self._holders(self.kin[word], few) & within
        self._partial[word] = self._holders(self.kin[word])
        return self._partial[word] & within

    def unread(self, words: Sequence[int]) -> int:
        """Return how many numbers there are in what `partial` reads for *words* and has not read yet."""
        return sum(count for word in words if word not in self._partial for _, count in self.kin[word])

    def fragments(self, scenarios: int) -> int:
        """Return how many fragments have any of the *scenarios*.

        Those of one fragment stand together: added to ones everywhere but at its last one, any of the others carries
        into that.
        """
        return (((scenarios & self._others) + self._others | scenarios) & self._ends).bit_count()

    def _holders(self, words: Sequence[Word], few: frozenset[int] | None = None) -> int:
        """Return who holds any of *words*; where *few* is given, those of them at least."""
        bits = bytearray(self._size)
        many = [id_ for id_, count in words if count > LISTED_SCENARIOS]
        if many:
            rows = self._db.execute(BLOCKS, {"ids": str(many)})
            if few is None:
                _add_blocks(bits, rows)
            else:
                _add_some(bits, rows, few)
        listed = [id_ for id_, count in words if FEW_SCENARIOS < count <= LISTED_SCENARIOS]
        if listed:
            for (packed,) in self._db.execute(LISTS, {"ids": str(listed)}):
                numbers = unpack_numbers(packed)
                set_bits(bits, numbers if few is None else few.intersection(numbers))
        rare = [id_ for id_, count in words if count <= FEW_SCENARIOS]
        if rare:
            set_bits(bits, [row for (row,) in self._db.execute(ROWS, {"ids": str(rare)})])
        return int.from_bytes(bits, "little")


def _add_blocks(bits: bytearray, rows: Iterable[tuple[int, int, bytes]]) -> None:
    """Set the bits of blocks of keywords, (block, count, scenarios) each; none is set yet."""
    seen: set[int] = set()
    for block, count, packed in rows:
        start = block * BLOCK >> 3
        end = start + len(packed)
        if count < LISTED_MEMBERS:
            set_bits(bits, unpack_members(packed), start)
        elif block not in seen:
            bits[start:end] = packed
        else:
            union = int.from_bytes(bits[start:end], "little") | int.from_bytes(packed, "little")
            bits[start:end] = union.to_bytes(len(packed), "little")
        seen.add(block)


def _add_some(bits: bytearray, rows: Iterable[tuple[int, int, bytes]], few: frozenset[int]) -> None:
    """Set the bits of those in *few* that stand in blocks of keywords, (block, count, scenarios) each."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for number in few:
        wanted[number // BLOCK].add(number % BLOCK)
    for block, count, packed in rows:
        if block not in wanted:
            continue
        if count < LISTED_MEMBERS:
            found = wanted[block].intersection(unpack_members(packed))
        else:
            size = len(packed)
            found = {m for m in wanted[block] if m >> 3 < size and packed[m >> 3] & BITS[m & 7]}
        set_bits(bits, found, block * BLOCK >> 3)
        wanted[block] -= found


def members(scenarios: int) -> list[int]:
    """Return the numbers in a set, ascending."""
    packed = scenarios.to_bytes((scenarios.bit_length() + 7) >> 3, "little")
    places = [found.start() for found in NOT_EMPTY.finditer(packed)]
    return [8 * place + offset for place in places for offset in OFFSETS[packed[place]]]


def carry(levels: list[int], one: int) -> None:
    """Count the numbers in the set *one*: levels[0] holds what stood in one or more, levels[1] in two, …."""
    for place, level in enumerate(levels):
        if not one:
            return
        levels[place], one = level | one, level & one
    if one:
        levels.append(one)


class Numbers:
    """Numbers that the index keeps in blocks: the owners of scenarios or the places of fragments, read as needed."""

    def __init__(self, db: sqlite3.Connection, kind: str) -> None:
        self._db = db
        self._sql = NUMBERS[kind]
        self._blocks: dict[int, array[int]] = {}

    def of(self, wanted: Sequence[int]) -> list[int]:
        """Return what is kept of each of *wanted*, which ascend."""
        parts = list(_cut(wanted))
        missing = [block for block, _ in parts if block not in self._blocks]
        if missing:
            rows = self._db.execute(self._sql, {"blocks": str(missing)})
            self._blocks |= {block: unpack_numbers(packed) for block, packed in rows}
        found: list[int] = []
        for block, part in parts:
            first, numbers = block * PLACED, self._blocks[block]
            found.extend([numbers[number - first] for number in part])
        return found


def _cut(numbers: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield (block, those of *numbers* in it) for numbers that ascend."""
    start = 0
    while start < len(numbers):
        block = numbers[start] // PLACED
        end = bisect_left(numbers, (block + 1) * PLACED, start)
        yield block, numbers[start:end]
        start = end
