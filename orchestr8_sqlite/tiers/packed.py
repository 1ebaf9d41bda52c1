"""The packed postings of a request: sets of scenarios, each one integer with a bit for every scenario of the index."""

import json
import sqlite3
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import compress

from orchestr8_sqlite.packing import (
    BITS,
    BLOCK,
    FEW_SCENARIOS,
    LISTED_MEMBERS,
    LISTED_SCENARIOS,
    set_bits,
    unpack_members,
    unpack_numbers,
    unpack_words,
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
CONTAINING = """
SELECT query.key, k.id, k.scenario_count
  FROM json_each(:keywords) query
 CROSS JOIN keyword_suffix x ON x.suffix >= query.value AND x.suffix < query.value || char(1114111)
 CROSS JOIN keyword k ON k.id = x.keyword_id
 WHERE k.scenario_count AND k.text <> query.value
"""
CONTAINED = """
SELECT part.key, k.id, k.scenario_count FROM json_each(:parts) part CROSS JOIN keyword k ON k.text = part.value
 WHERE k.scenario_count
"""
ROWS = "SELECT p.keyword_id, p.scenario_id FROM json_each(:ids) CROSS JOIN posting p ON p.keyword_id = value"
LISTS = "SELECT l.keyword_id, l.scenarios FROM json_each(:ids) CROSS JOIN posting_list l ON l.keyword_id = value"
BLOCKS = """
SELECT b.block, b.members, b.scenarios FROM json_each(:ids) CROSS JOIN posting_block b ON b.keyword_id = value
"""
MOST_PARTS = 1_000
"""Parts of the keywords of a request that are looked up one by one; from more, `KIN` finds what they contain."""

TOGETHER = 2_048
"""Numbers of scenarios that are read at once for all keywords, although not all may be needed."""

ARRAYS_PAY = 2_048
"""Numbers from which on NumPy, where it is loaded, makes a set of them faster."""

Word = tuple[int, int]
"""Number of a keyword of the index, and how many scenarios hold it."""


class Scenarios:
    """The scenarios of an index as sets: which hold the keywords of a request whole, and which in part."""

    def __init__(self, db: sqlite3.Connection, keywords: Sequence[str]) -> None:
        self._db = db
        self._texts = keywords
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
        words = {word: [(id_, count)] for word, id_, count in self._db.execute(EXACT, self._keywords)}
        holders = self._holders_of_each(words)
        return [holders.get(word, 0) for word in self._words]

    @cached_property
    def kin(self) -> dict[int, list[Word]]:
        """Return, for each keyword that has any, the others that contain it or are contained in it.

        Those that few scenarios hold in this way come first.
        """
        kin: dict[int, list[Word]] = defaultdict(list)
        for word, id_, count in self._find_kin():
            kin[word].append((id_, count))
        sums = {word: sum(count for _, count in several) for word, several in kin.items()}
        if sum(sums.values()) <= TOGETHER:
            self._partial = self._holders_of_each(kin)
        return {word: kin[word] for word in sorted(kin, key=sums.__getitem__)}

    def _find_kin(self) -> Iterable[tuple[int, int, int]]:
        """Return (number of a keyword, another keyword akin to it, how many scenarios hold that)."""
        if sum(len(text) ** 2 for text in self._texts) > 2 * MOST_PARTS:
            return self._db.execute(KIN, self._keywords)
        found = set(self._db.execute(CONTAINING, self._keywords))
        words: dict[str, list[int]] = defaultdict(list)
        for word, text in enumerate(self._texts):
            for part in _parts(text):
                words[part].append(word)
        holding = list(words.values())
        for place, id_, count in self._db.execute(CONTAINED, {"parts": json.dumps(list(words))}):
            found.update((word, id_, count) for word in holding[place])
        return found

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

    def _holders_of_each(self, words: Mapping[int, Sequence[Word]]) -> dict[int, int]:
        """Return, for each of *words*, who holds any of the keywords that it stands for."""
        asked: dict[int, list[int]] = defaultdict(list)
        counts: dict[int, int] = {}
        for word, several in words.items():
            for id_, count in several:
                asked[id_].append(word)
                counts[id_] = count
        numbers = {word: array("I") for word in words}
        rare = [id_ for id_, count in counts.items() if count <= FEW_SCENARIOS]
        for id_, row in self._db.execute(ROWS, {"ids": str(rare)}) if rare else ():
            for word in asked[id_]:
                numbers[word].append(row)
        listed = [id_ for id_, count in counts.items() if FEW_SCENARIOS < count <= LISTED_SCENARIOS]
        for id_, packed in self._db.execute(LISTS, {"ids": str(listed)}) if listed else ():
            for word in asked[id_]:
                numbers[word].extend(unpack_numbers(packed))
        return {word: self._set_of(numbers[word]) | self._in_blocks(several) for word, several in words.items()}

    def _set_of(self, numbers: "array[int]") -> int:
        """Return *numbers* as a set."""
        if len(numbers) >= ARRAYS_PAY and "numpy" in sys.modules:
            np = import_module("numpy")
            flags = np.zeros(8 * self._size, dtype=np.uint8)
            flags[np.frombuffer(numbers, dtype=np.uint32)] = 1
            return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
        bits = bytearray(self._size)
        set_bits(bits, numbers)
        return int.from_bytes(bits, "little")

    def _in_blocks(self, words: Sequence[Word]) -> int:
        many = [one for one in words if one[1] > LISTED_SCENARIOS]
        return self._holders(many) if many else 0

    def _holders(self, words: Sequence[Word], few: frozenset[int] | None = None) -> int:
        """Return who holds any of *words*; where *few* is given, those of them at least."""
        bits = bytearray(self._size)
        numbers = array("I")
        many = [id_ for id_, count in words if count > LISTED_SCENARIOS]
        if many:
            rows = self._db.execute(BLOCKS, {"ids": str(many)})
            if few is None:
                _add_blocks(bits, rows)
            else:
                _add_some(bits, rows, few)
        listed = [id_ for id_, count in words if FEW_SCENARIOS < count <= LISTED_SCENARIOS]
        if listed:
            for _, packed in self._db.execute(LISTS, {"ids": str(listed)}):
                held = unpack_numbers(packed)
                numbers.extend(held if few is None else few.intersection(held))
        rare = [id_ for id_, count in words if count <= FEW_SCENARIOS]
        if rare:
            numbers.extend([row for _, row in self._db.execute(ROWS, {"ids": str(rare)})])
        return int.from_bytes(bits, "little") | self._set_of(numbers) if numbers else int.from_bytes(bits, "little")


def _parts(text: str) -> set[str]:
    """Return what *text* contains that may be a keyword: no single letter of ASCII, nor all of it."""
    size = len(text)
    parts = {text[start:end] for start in range(size) for end in range(start + 2, size + 1)}
    return (parts | {letter for letter in text if not letter.isascii()}) - {text}


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
    words = unpack_words(scenarios.to_bytes((scenarios.bit_length() + 63) // 64 * 8, "little"))
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
