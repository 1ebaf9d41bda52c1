"""Which scenarios hold each keyword and which hold longer ones, packed: derived from `posting` and `keyword_suffix`."""

import json
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from orchestr8_sqlite.bulk import insert_rows
from orchestr8_sqlite.packing import SET_BLOCK, change_set, pack_set
from orchestr8_sqlite.runs import Runs

INSERT_PARTS = """
INSERT INTO keyword_part
SELECT DISTINCT x.keyword_id, k.id
  FROM keyword k CROSS JOIN keyword_suffix x ON x.suffix >= k.text AND x.suffix < k.text || char(1114111)
 WHERE x.keyword_id <> k.id
 ORDER BY 1, 2
"""
POSTINGS = "SELECT keyword_id, scenario_id FROM posting ORDER BY keyword_id, scenario_id"
INSERT_HOLDERS = "INSERT INTO posting_block VALUES (?, ?, ?, ?)"
INSERT_CONTAINING = "INSERT INTO containing_block VALUES (?, ?, ?, ?)"

OWN_PARTS = "SELECT keyword_id, part_id FROM keyword_part ORDER BY keyword_id"
PARTS = "SELECT p.keyword_id, p.part_id FROM json_each(:ids) CROSS JOIN keyword_part p ON p.keyword_id = value"
HELD = "SELECT p.scenario_id FROM json_each(:rows) CROSS JOIN posting p ON p.keyword_id = :id AND p.scenario_id = value"
ADD_OWN_PARTS = """
INSERT INTO keyword_part SELECT DISTINCT :id, k.id FROM json_each(:texts) CROSS JOIN keyword k ON k.text = value
"""
ADD_AS_PART = """
INSERT INTO keyword_part
SELECT DISTINCT keyword_id, :id FROM keyword_suffix
 WHERE suffix >= :text AND suffix < :text || char(1114111) AND keyword_id <> :id
"""
DROP_OWN_PARTS = "DELETE FROM keyword_part WHERE keyword_id = :id"
DROP_AS_PART = """
DELETE FROM keyword_part
 WHERE part_id = :id
   AND keyword_id IN (SELECT keyword_id FROM keyword_suffix WHERE suffix >= :text AND suffix < :text || char(1114111))
"""
CONTAINING = """
SELECT DISTINCT p.scenario_id
  FROM (SELECT DISTINCT keyword_id FROM keyword_suffix
         WHERE suffix >= :text AND suffix < :text || char(1114111) AND keyword_id <> :id) x
 CROSS JOIN posting p ON p.keyword_id = x.keyword_id
"""
DROP_HOLDERS = "DELETE FROM posting_block WHERE keyword_id = :id"
DROP_CONTAINING = "DELETE FROM containing_block WHERE keyword_id = :id"

HOLDERS = (
    "SELECT places, bits FROM posting_block WHERE keyword_id = ? AND block = ?",
    "DELETE FROM posting_block WHERE keyword_id = ? AND block = ?",
    INSERT_HOLDERS,
)
LONGER = (
    "SELECT places, bits FROM containing_block WHERE keyword_id = ? AND block = ?",
    "DELETE FROM containing_block WHERE keyword_id = ? AND block = ?",
    INSERT_CONTAINING,
)
"""How the sets of both tables are read, dropped and written."""

NO_MORE = 1 << 62, array("I")

Block = tuple[int, int, bytearray, bytearray]
"""A row of `posting_block` or `containing_block`."""


def write_scenario_sets(connection: sqlite3.Connection) -> None:
    """Write the packed sets of a new index, and which keywords are parts of others."""
    connection.execute(INSERT_PARTS)
    containing: Runs[int] = Runs()
    insert_rows(connection, INSERT_HOLDERS, _holders(connection, containing))
    insert_rows(connection, INSERT_CONTAINING, _blocks((part, rows) for part, rows, *_ in containing.drain()))


def _holders(connection: sqlite3.Connection, containing: "Runs[int]") -> Iterator[Block]:
    """Yield the rows of `posting_block`, and gather for each keyword who holds what contains it in *containing*."""
    parts = _by_keyword(connection, OWN_PARTS)
    keyword, own = next(parts, NO_MORE)
    for id_, rows in _by_keyword(connection, POSTINGS):
        while keyword < id_:
            keyword, own = next(parts, NO_MORE)
        for part in own if keyword == id_ else ():
            containing.lists[0][part].extend(rows)
            containing.count(len(rows))
        yield from _blocks([(id_, rows)])


def _by_keyword(connection: sqlite3.Connection, sql: str) -> "Iterator[tuple[int, array[int]]]":
    """Yield each number in the first column of *sql*, which ascends, with the numbers beside it in the second."""
    for id_, pairs in groupby(connection.execute(sql), key=itemgetter(0)):
        yield id_, array("I", map(itemgetter(1), pairs))


def _blocks(sets: Iterable[tuple[int, Sequence[int]]]) -> Iterator[Block]:
    """Yield the rows that pack each (keyword, scenarios), these in any order, and as often as there are any."""
    for id_, rows in sets:
        if rows and max(rows) < SET_BLOCK:
            places, bits = pack_set(rows)
            yield id_, 0, bytearray(places), bytearray(bits)
            continue
        for block, numbers in groupby(sorted(rows), key=_block):
            places, bits = pack_set([number - block * SET_BLOCK for number in numbers])
            yield id_, block, bytearray(places), bytearray(bits)


def _block(row: int) -> int:
    return row // SET_BLOCK


def add_parts(connection: sqlite3.Connection, id_: int, text: str) -> None:
    """Write of a new keyword what it contains, what contains it, and who holds the latter; its suffixes are there."""
    texts = {text[start:end] for start in range(len(text)) for end in range(start + 1, len(text) + 1)} - {text}
    connection.execute(ADD_OWN_PARTS, {"id": id_, "texts": json.dumps(sorted(texts))})
    connection.execute(ADD_AS_PART, {"id": id_, "text": text})
    rows = [row for (row,) in connection.execute(CONTAINING, {"id": id_, "text": text})]
    connection.executemany(INSERT_CONTAINING, _blocks([(id_, rows)]))


def drop_parts(connection: sqlite3.Connection, id_: int, text: str) -> None:
    """Remove what `add_parts` wrote of a keyword, and who holds it; its suffixes are still there."""
    for sql in (DROP_AS_PART, DROP_OWN_PARTS, DROP_HOLDERS, DROP_CONTAINING):
        connection.execute(sql, {"id": id_, "text": text})


def change_scenario_sets(connection: sqlite3.Connection, touched: Mapping[int, Iterable[int]]) -> None:
    """Bring the sets up to date with the rows of `posting`.

    Args:
        touched: The scenarios that came or went, each one with all keywords it had or has, by the keyword's number.
    """
    parts: dict[int, list[int]] = defaultdict(list)
    for id_, part in connection.execute(PARTS, {"ids": str(list(touched))}):
        parts[id_].append(part)
    longer: dict[int, set[int]] = defaultdict(set)
    still: dict[int, set[int]] = defaultdict(set)
    for id_, rows in touched.items():
        held = {row for (row,) in connection.execute(HELD, {"id": id_, "rows": str(list(rows))})}
        _change(connection, HOLDERS, id_, rows, held)
        for part in parts[id_]:
            longer[part].update(rows)
            still[part] |= held
    for part, rows in longer.items():
        _change(connection, LONGER, part, rows, still[part])


def _change(
    connection: sqlite3.Connection, statements: tuple[str, str, str], id_: int, rows: Iterable[int], held: set[int]
) -> None:
    """Let the set of a keyword hold of *rows* those that are *held*, by the statements that read, drop and write it."""
    read, drop, insert = statements
    for block, several in groupby(sorted(rows), key=_block):
        numbers = [row - block * SET_BLOCK for row in several]
        come = [number for number in numbers if number + block * SET_BLOCK in held]
        known = connection.execute(read, (id_, block)).fetchone() or (b"", b"")
        places, bits = change_set(known[0], known[1], numbers, come)
        if (places, bits) == known:
            continue
        connection.execute(drop, (id_, block))
        if bits:
            connection.execute(insert, (id_, block, places, bits))
