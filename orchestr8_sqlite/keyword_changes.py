"""The keyword tables of an index when single fragments come and go."""

import itertools
import json
import sqlite3
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from orchestr8_sqlite.keywords import stem
from orchestr8_sqlite.packing import (
    BLOCK,
    PLACED,
    pack_members,
    pack_numbers,
    unpack_bits,
    unpack_members,
    unpack_numbers,
)
from orchestr8_sqlite.scenario_sets import add_parts, change_scenario_sets, drop_parts
from orchestr8_sqlite.vocabulary import (
    CLASSIC_FIELDS,
    suffixes,
    write_ends,
)

Touched = tuple[str, int]
"""A keyword and a scenario in which it came or went; -1 where it did so in other fields."""

Scenario = tuple[int, Sequence[str]]
"""The row of a scenario and its keywords."""

DELETE_POSTING = "DELETE FROM posting WHERE keyword_id = (SELECT id FROM keyword WHERE text = ?) AND scenario_id = ?"
INSERT_POSTING = "INSERT INTO posting SELECT id, ? FROM keyword WHERE text = ?"
KNOWN = "SELECT k.text FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value"
FIELD_BLOCKS = """
SELECT k.text, k.id, b.fragments, b.fields
  FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value
  LEFT JOIN field_block b ON b.keyword_id = k.id AND b.block = :block
"""
COUNT_SCENARIOS = "UPDATE keyword SET scenario_count = scenario_count + ? WHERE text = ?"
COUNT_FRAGMENTS = "UPDATE keyword SET fragment_count = fragment_count + ? WHERE text = ?"
KNOWN_AND_HELD = """
SELECT k.text, k.id, EXISTS (SELECT 1 FROM field_block WHERE keyword_id = k.id)
  FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value
"""
LONGEST_PREFIX = """
SELECT id FROM keyword WHERE text IN (SELECT value FROM json_each(:starts)) ORDER BY length(text) DESC LIMIT 1
"""
TAKE_PREFIX = """
UPDATE keyword SET prefix_id = :id
 WHERE text > :text AND text < :text || char(1114111) AND prefix_id IS :longest
"""
GIVE_PREFIX = """
UPDATE keyword SET prefix_id = (SELECT prefix_id FROM keyword WHERE id = :id)
 WHERE text > :text AND text < :text || char(1114111) AND prefix_id = :id
"""


def remove_scenarios(connection: sqlite3.Connection, scenarios: Iterable[Scenario]) -> set[Touched]:
    """Remove the postings of all scenarios of a fragment and return what must be settled."""
    keywords = dict(scenarios)
    held = [(keyword, row) for row, own in keywords.items() for keyword in own]
    connection.executemany(DELETE_POSTING, held)
    _count_scenarios(connection, held, -1)
    _change_owners(connection, dict.fromkeys(keywords, 0))
    return set(held)


def add_scenarios(connection: sqlite3.Connection, number: int, scenarios: Iterable[Scenario]) -> set[Touched]:
    """Write the postings of all scenarios of a fragment, whose keywords are there, and return what must be settled."""
    keywords = dict(scenarios)
    held = [(keyword, row) for row, own in keywords.items() for keyword in own]
    connection.executemany(INSERT_POSTING, ((row, keyword) for keyword, row in held))
    _count_scenarios(connection, held, 1)
    _change_owners(connection, dict.fromkeys(keywords, number))
    return set(held)


def replace_fields(
    connection: sqlite3.Connection, number: int, before: Mapping[str, int], after: Mapping[str, int]
) -> set[Touched]:
    """Let the fragment *number* hold keywords in other fields and return what must be settled.

    New keywords are numbered last.

    Args:
        before: Keyword → fields that hold it, as bits; nothing of a fragment that was not there.
        after: The same as it is now; nothing where the fragment is gone.
    """
    fields = {text: after.get(text, 0) for text, _ in before.items() ^ after.items()}
    known = {text for (text,) in connection.execute(KNOWN, {"keywords": _json(fields)})}
    for text in sorted(fields.keys() - known):
        _add_keyword(connection, text)
    _change_fields(connection, number, fields)
    counts = {
        text: bool(mask & CLASSIC_FIELDS) - bool(before.get(text, 0) & CLASSIC_FIELDS) for text, mask in fields.items()
    }
    connection.executemany(COUNT_FRAGMENTS, ((count, text) for text, count in counts.items() if count))
    return {(text, -1) for text in fields}


def settle_keywords(connection: sqlite3.Connection, touched: Iterable[Touched]) -> None:
    """Pack anew what was *touched*, and drop the keywords that nobody holds any more."""
    rows = {keyword: {row for _, row in pairs} - {-1} for keyword, pairs in _by_keyword(touched)}
    keywords = connection.execute(KNOWN_AND_HELD, {"keywords": _json(rows)}).fetchall()
    change_scenario_sets(connection, {id_: rows[text] for text, id_, _ in keywords if rows[text]})
    for text, id_, is_held in keywords:
        if not is_held:
            _drop_keyword(connection, id_, text)


def _by_keyword(touched: Iterable[Touched]) -> Iterable[tuple[str, Iterable[Touched]]]:
    return itertools.groupby(sorted(touched), key=lambda pair: pair[0])


def _json(keywords: Iterable[str]) -> str:
    return json.dumps(sorted(keywords), ensure_ascii=False)


def _count_scenarios(connection: sqlite3.Connection, held: Iterable[tuple[str, int]], sign: int) -> None:
    counts = Counter(keyword for keyword, _ in held)
    connection.executemany(COUNT_SCENARIOS, ((sign * count, text) for text, count in counts.items()))


def _change_fields(connection: sqlite3.Connection, number: int, fields: Mapping[str, int]) -> None:
    """Let the fragment *number* hold keywords in these fields, 0 for none."""
    block, member = divmod(number, BLOCK)
    rows = connection.execute(FIELD_BLOCKS, {"keywords": _json(fields), "block": block}).fetchall()
    for text, id_, fragments, masks in rows:
        members, held = unpack_members(fragments or b""), bytearray(masks or b"")
        place = bisect_left(members, member)
        if place < len(members) and members[place] == member:
            del members[place], held[place]
        if fields[text]:
            members.insert(place, member)
            held.insert(place, fields[text])
        connection.execute("DELETE FROM field_block WHERE keyword_id = ? AND block = ?", (id_, block))
        if members:
            values = (id_, block, pack_members(members), bytes(held))
            connection.execute("INSERT INTO field_block VALUES (?, ?, ?, ?)", values)


def _change_owners(connection: sqlite3.Connection, owners: Mapping[int, int]) -> None:
    """Let the fragments in *owners* have the scenarios that are its keys."""
    for block, rows in itertools.groupby(sorted(owners), key=lambda row: row // PLACED):
        known = connection.execute("SELECT owners FROM scenario_owner WHERE block = ?", (block,)).fetchone()
        numbers = unpack_numbers(known[0]) if known else array("I")
        for row in rows:
            place = row % PLACED
            numbers.extend(itertools.repeat(0, place + 1 - len(numbers)))
            numbers[place] = owners[row]
        connection.execute("INSERT OR REPLACE INTO scenario_owner VALUES (?, ?)", (block, pack_numbers(numbers)))
    if owners:
        last, is_end = max(owners), owners[max(owners)] > 0
        block, member = divmod(last, BLOCK)
        known = connection.execute("SELECT ends FROM scenario_end WHERE block = ?", (block,)).fetchone()
        ends = set(unpack_bits(known[0])) if known else set()
        write_ends(connection, block, ends | {member} if is_end else ends - {member})


def _add_keyword(connection: sqlite3.Connection, text: str) -> None:
    starts = [text[:end] for end in range(1, len(text))]
    longest = connection.execute(LONGEST_PREFIX, {"starts": json.dumps(starts, ensure_ascii=False)}).fetchone()
    prefix = longest[0] if longest else None
    row = connection.execute("INSERT INTO keyword VALUES (NULL, ?, ?, 0, 0, ?)", (text, stem(text), prefix)).lastrowid
    connection.execute(TAKE_PREFIX, {"id": row, "text": text, "longest": prefix})
    connection.executemany("INSERT INTO keyword_suffix VALUES (?, ?)", ((end, row) for end in set(suffixes(text))))
    assert row is not None, "an inserted row has a number"
    add_parts(connection, row, text)


def _drop_keyword(connection: sqlite3.Connection, id_: int, text: str) -> None:
    connection.execute(GIVE_PREFIX, {"id": id_, "text": text})
    drop_parts(connection, id_, text)
    connection.executemany(
        "DELETE FROM keyword_suffix WHERE suffix = ? AND keyword_id = ?", ((end, id_) for end in set(suffixes(text)))
    )
    connection.execute("DELETE FROM keyword WHERE id = ?", (id_,))
