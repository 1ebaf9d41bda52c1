"""The scenarios that hold the keywords of a request, as sets: each one integer with a bit for every scenario."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from orchestr8_sqlite.connections import kept_of, stop_if_abandoned
from orchestr8_sqlite.packing import BLOCK
from orchestr8_sqlite.tiers.packed import AT_ONCE, MANY_ROWS, Row, bytes_of, folded, holding, union
from orchestr8_sqlite.tiers.recent import MEBIBYTE, Recent

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

PROBE, LIST = 4, 3
"""Looking for a number in a row, and telling one from a set, take so many times as long as putting a byte in its place.
"""

EVERY = 1 << 62
"""More than any block has for its number."""

MOST_HELD = MOST_UNIONS = 3 * MEBIBYTE
MOST_KIN = 2 * MEBIBYTE
"""Bytes that are kept of who holds keywords, who holds others akin to them, and these together."""

LARGEST = 16 << 10
"""Bytes of a set that is kept, some 130,000 scenarios. So few larger ones fit that they are dropped before they are
asked for again: with 350,000 scenarios nothing was gained by keeping any."""

ROW_BYTES = 200
"""What a row takes beside its places and bits, or a set beside its own."""


class Known(NamedTuple):
    """The number of a keyword, None where the index does not know it, and who holds it."""

    id: int | None
    scenarios: int


class Sets:
    """What is kept of the sets of keywords."""

    def __init__(self) -> None:
        self.held: Recent[str, Known] = Recent(MOST_HELD, lambda known: _bytes_of_set(known.scenarios), LARGEST)
        self.kin: Recent[str, Sequence[Row]] = Recent(MOST_KIN, _bytes_of_rows)
        self.unions: Recent[str, int] = Recent(MOST_UNIONS, _bytes_of_set, LARGEST)


class Scenarios:
    """The scenarios of an index as sets: which hold the keywords of a request whole, and which in part."""

    def __init__(self, db: sqlite3.Connection, keywords: Sequence[str]) -> None:
        self._db = db
        self._texts = keywords
        self._sets = _sets_by(db)
        self._known_ends: dict[int, tuple[int, int]] = kept_of(db, "ends")
        self._ids: dict[str, int] = {}
        self._partial: dict[int, int] = {}

    def exact(self) -> list[int]:
        """Return, for each keyword, who holds it."""
        known = self._sets.held.of(self._texts, self._read_held)
        self._ids = {text: id_ for text, (id_, _) in known.items() if id_ is not None}
        return [known[text].scenarios for text in self._texts]

    def _read_held(self, texts: list[str]) -> dict[str, Known]:
        ids: dict[str, int] = {}
        rows: dict[str, list[Row]] = {text: [] for text in texts}
        for place, id_, *row in self._db.execute(HOLDERS, {"keywords": json.dumps(texts)}):
            ids[texts[place]] = id_
            if row[0] is not None:
                rows[texts[place]].append((row[0], row[1], row[2]))
        known: dict[str, Known] = {}
        for text in texts:
            stop_if_abandoned(self._db)
            known[text] = Known(ids.get(text), union(rows[text]) if rows[text] else 0)
        return known

    @cached_property
    def kin(self) -> dict[int, Sequence[Row]]:
        """Return, for each keyword that has any, the sets of the others that contain it or are contained in it.

        What takes least to read comes first; where they are united already, nothing is left to read. `exact` was
        asked before.
        """
        united = self._sets.unions.of(self._texts, _nothing)
        self._partial = {word: united[text] for word, text in enumerate(self._texts) if text in united}
        rows = self._sets.kin.of([text for text in self._texts if text not in united], self._read_kin)
        kin: dict[int, Sequence[Row]] = dict.fromkeys(self._partial, ())
        kin |= {word: own for word, text in enumerate(self._texts) if (own := rows.get(text))}
        return {word: kin[word] for word in sorted(kin, key=lambda word: bytes_of(kin[word]))}

    def _read_kin(self, texts: list[str]) -> dict[str, Sequence[Row]]:
        kin: dict[str, list[Row]] = {text: [] for text in texts}
        known = [text for text in texts if text in self._ids]
        if known:
            for place, *row in self._db.execute(KIN_HOLDERS, {"ids": str([self._ids[text] for text in known])}):
                kin[known[place]].append((row[0], row[1], row[2]))
        unknown = [text for text in texts if text not in self._ids]
        for text, *row in self._kin_of(unknown) if unknown else ():
            kin[text].append((row[0], row[1], row[2]))
            if len(kin[text]) >= MANY_ROWS:  # of a few letters, that nearly every keyword contains
                kin[text] = folded(kin[text])
        return dict(kin)

    def _kin_of(self, unknown: list[str]) -> Iterable[tuple[str, int, bytes, bytes]]:
        """Yield (keyword that the index does not know, block, places, bits) for every other akin to it."""
        if sum(len(text) ** 2 for text in unknown) > 2 * MOST_PARTS:
            for place, *row in self._db.execute(KIN, {"keywords": json.dumps(unknown)}):
                yield unknown[place], row[0], row[1], row[2]
            return
        for place, *row in self._db.execute(CONTAINING, {"keywords": json.dumps(unknown)}):
            yield unknown[place], row[0], row[1], row[2]
        holding_: dict[str, list[str]] = defaultdict(list)
        for text in unknown:
            for part in _parts(text):
                holding_[part].append(text)
        several = list(holding_.values())
        for place, *row in self._db.execute(CONTAINED, {"parts": json.dumps(list(holding_))}):
            for text in several[place]:
                yield text, row[0], row[1], row[2]

    def partial(self, word: int, within: int, few: Sequence[int] | None) -> int:
        """Return which of the scenarios *within* hold a keyword akin to the one numbered *word*.

        Args:
            few: The numbers of *within*, ascending, where these are few; the sets are then asked for them alone.
        """
        stop_if_abandoned(self._db)
        if word not in self._partial:
            rows = self.kin[word]
            if few is not None:
                return holding(rows, few)
            text = self._texts[word]
            self._partial[word] = self._sets.unions.of([text], lambda _: {text: union(rows)})[text]
            self.kin[word] = ()
        return self._partial[word] & within

    def pays_to_probe(self, scenarios: int, words: Iterable[int]) -> bool:
        """Tell whether to look for each of *scenarios* in all that *words* need takes less than to read it."""
        unread = [row for word in words if word not in self._partial for row in self.kin[word]]
        spared = bytes_of(unread) - scenarios.bit_length() // (4 * AT_ONCE)
        return spared > 0 and scenarios.bit_count() * (len(unread) * PROBE + LIST) < spared

    def fragments(self, scenarios: int, most: int) -> int:
        """Return how many fragments have any of the *scenarios*, up to *most*.

        Those of one fragment stand together: added to ones everywhere but at its last one, any of the others carries
        into that. The first block alone tells enough of most sets, but not of a fragment that reaches beyond it.
        """
        count = self._fragments(scenarios & ((1 << BLOCK) - 1), 0)
        if count < most and scenarios.bit_length() > self._ends(0)[0].bit_length():
            count = self._fragments(scenarios, EVERY)
        return min(most, count)

    def reach(self, scenarios: int, most: int) -> bool:
        """Tell whether so many fragments have any of the *scenarios*."""
        return scenarios.bit_count() >= most and self.fragments(scenarios, most) == most

    def _fragments(self, scenarios: int, last: int) -> int:
        ends, others = self._ends(last)
        return (((scenarios & others) + others | scenarios) & ends).bit_count()

    def _ends(self, last: int) -> tuple[int, int]:
        """Return which scenarios of the blocks up to *last* are the last ones of their fragments, and which not."""
        known = self._known_ends.get(last)
        if known is None:
            packed = bytearray()
            for block, some in self._db.execute(ENDS, {"last": last}):
                packed.extend(bytes((block * BLOCK >> 3) - len(packed)))
                packed.extend(some)
            ends = int.from_bytes(packed, "little")
            known = self._known_ends[last] = ends, ((1 << ends.bit_length()) - 1) ^ ends
        return known


def _sets_by(db: sqlite3.Connection) -> Sets:
    known: dict[type[Sets], Sets] = kept_of(db, "sets")
    return known.get(Sets) or known.setdefault(Sets, Sets())


def _nothing(_: list[str]) -> dict[str, int]:
    return {}


def _bytes_of_set(scenarios: int) -> int:
    return ROW_BYTES + scenarios.bit_length() // 8


def _bytes_of_rows(rows: Sequence[Row]) -> int:
    return sum(ROW_BYTES + len(places) + len(bits) for _, places, bits in rows)


def _parts(text: str) -> set[str]:
    """Return what *text* contains that may be a keyword: no single letter of ASCII, nor all of it."""
    size = len(text)
    parts = {text[start:end] for start in range(size) for end in range(start + 2, size + 1)}
    return (parts | {letter for letter in text if not letter.isascii()}) - {text}
