"""The keyword tables of an index: vocabulary, its suffixes, postings by scenario and by field, scenario ids."""

import hashlib
import itertools
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.packing import (
    BLOCK,
    FEW_SCENARIOS,
    LISTED_MEMBERS,
    LISTED_SCENARIOS,
    PLACED,
    pack_bits,
    pack_members,
    pack_numbers,
    split_postings,
)
from orchestr8_sqlite.tiers.weights import CAPABILITY, DESCRIPTION, NAME, SCENARIO, TAG, TITLE

CLASSIC_FIELDS = TAG | CAPABILITY | SCENARIO
OTHER_FIELDS = bytes(mask for mask in range(64) if not mask & CLASSIC_FIELDS)
SCENARIO_DIGITS = 12

NO_SCENARIOS = array("I")
URI_ORDER = "SELECT id FROM fragment ORDER BY uri"


class HeldKeywords(NamedTuple):
    """The keywords of a fragment: the bits of the fields that hold each, body apart, and those of each scenario."""

    fields: Mapping[str, int]
    scenarios: Sequence[Sequence[str]]


def scenario_ids(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return an id for each (fragment id, scenario text): `scenario-` and 12 hex digits of SHA-256.

    Where two texts share the first 12 digits, both get as many more as tell them apart.

    Source: shared/seeds/index-lookup.md, "Hash Generation".
    """
    digests = [hashlib.sha256(f"{fragment_id}:{text}".encode()).hexdigest() for fragment_id, text in texts]
    ordered = sorted(set(digests))
    if len(ordered) < len(digests):
        raise BuildError("Two scenarios of one fragment have the same text and could not be told apart.")
    digits = dict.fromkeys(ordered, SCENARIO_DIGITS)
    for first, second in itertools.pairwise(ordered):
        shared = next(i for i in range(64) if first[i] != second[i])
        for digest in (first, second):
            digits[digest] = max(digits[digest], shared + 1)
    return [f"scenario-{digest[: digits[digest]]}" for digest in digests]


def hold_keywords(fragment: Fragment) -> HeldKeywords:
    """Return the keywords of all fields of a fragment but the body."""
    masks: dict[str, int] = defaultdict(int)
    scenarios = [extract_keywords(text) for text in fragment.use_when]
    for keyword in itertools.chain.from_iterable(scenarios):
        masks[keyword] = SCENARIO
    for field, text in _fields(fragment):
        for keyword in extract_keywords(text):
            masks[keyword] |= field
    return HeldKeywords(dict(masks), scenarios)


class KeywordWriter:
    """Writes the keyword tables of a new index from fragments in the order of their numbers. Close it when done.

    It keeps four bytes for each posting until it is closed, and the field postings of one block of fragments.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Write through *connection*, where nothing of the kind has been written yet."""
        self._connection = connection
        self._ids: dict[str, int] = {}
        self._scenarios: list[array[int]] = []
        self._fields: dict[int, array[int]] = {}
        self._fragment_counts: dict[int, int] = defaultdict(int)
        self._owners = array("I")
        self._ends = array("I")
        self._block = 0

    def add(self, number: int, first_scenario: int, held: HeldKeywords) -> None:
        """Take in the fragment *number*, greater than any before, whose scenarios are numbered from *first_scenario*.

        Fragments without scenarios may give any number there.
        """
        if number // BLOCK != self._block:
            self._write_fields()
            self._block = number // BLOCK
        member, fields = (number % BLOCK) << 16, self._fields
        for keyword, mask in held.fields.items():
            id_ = self._ids.get(keyword) or self._number(keyword)
            if id_ not in fields:
                fields[id_] = array("I")
            fields[id_].append(member | mask)
        for row, keywords in enumerate(held.scenarios, start=first_scenario):
            for keyword in keywords:
                self._scenarios[self._ids[keyword] - 1].append(row)
        if held.scenarios:
            self._owners.extend(itertools.repeat(0, first_scenario - len(self._owners)))
            self._owners.extend(itertools.repeat(number, len(held.scenarios)))
            self._ends.append(len(self._owners) - 1)

    def close(self) -> None:
        """Write all that is left; the rows of the fragments must be there."""
        self._write_fields()
        counts = self._write_postings()
        write_keywords(self._connection, self._ids, counts, self._fragment_counts)
        write_blocks(self._connection, "INSERT INTO scenario_owner VALUES (?, ?)", self._owners)
        for block, ends in itertools.groupby(self._ends, key=lambda row: row // BLOCK):
            write_ends(self._connection, block, (row % BLOCK for row in ends))
        write_places(self._connection)

    def _number(self, keyword: str) -> int:
        """Return the number of a keyword that is met for the first time."""
        self._scenarios.append(array("I"))
        self._ids[keyword] = len(self._scenarios)
        return len(self._scenarios)

    def _write_fields(self) -> None:
        """Write the field postings of one block of fragments."""
        split = ((id_, split_postings(packed)) for id_, packed in sorted(self._fields.items()))
        rows = [(id_, self._block, members, fields) for id_, (members, _, fields) in split]
        self._connection.executemany("INSERT INTO field_block VALUES (?, ?, ?, ?)", rows)
        for id_, _, _, fields in rows:
            self._fragment_counts[id_] += len(fields.translate(None, OTHER_FIELDS))
        self._fields.clear()

    def _write_postings(self) -> list[int]:
        """Write who holds each keyword, let go of it, and return how many do."""
        counts = [len(rows) for rows in self._scenarios]
        for id_, rows in enumerate(self._scenarios, start=1):
            self._connection.executemany("INSERT INTO posting VALUES (?, ?)", zip(itertools.repeat(id_), rows))
            pack_scenarios(self._connection, id_, rows)
            self._scenarios[id_ - 1] = NO_SCENARIOS
        return counts


def write_keywords(
    connection: sqlite3.Connection,
    ids: Mapping[str, int],
    scenario_counts: Sequence[int],
    fragment_counts: Mapping[int, int],
) -> None:
    """Write keywords with their numbers, suffixes and prefixes into empty tables."""
    prefixes = longest_prefixes(ids)
    connection.executemany(
        "INSERT INTO keyword VALUES (?, ?, ?, ?, ?, ?)",
        (
            (id_, text, stem(text), scenario_counts[id_ - 1], fragment_counts[id_], ids.get(prefixes.get(text, "")))
            for text, id_ in ids.items()
        ),
    )
    connection.executemany(
        "INSERT INTO keyword_suffix VALUES (?, ?)",
        sorted([(suffix, id_) for text, id_ in ids.items() for suffix in suffixes(text)]),
    )


def longest_prefixes(keywords: Iterable[str]) -> dict[str, str]:
    """Return, for each keyword that begins with another one, the longest of those."""
    prefixes: dict[str, str] = {}
    open_: list[str] = []
    for keyword in sorted(keywords):
        while open_ and not keyword.startswith(open_[-1]):
            open_.pop()
        if open_:
            prefixes[keyword] = open_[-1]
        open_.append(keyword)
    return prefixes


def pack_scenarios(connection: sqlite3.Connection, keyword_id: int, rows: Sequence[int]) -> None:
    """Write what is packed of the scenarios *rows*, ascending, that hold a keyword; nothing of it is there yet."""
    if FEW_SCENARIOS < len(rows) <= LISTED_SCENARIOS:
        connection.execute("INSERT INTO posting_list VALUES (?, ?)", (keyword_id, pack_numbers(rows)))
    elif len(rows) > LISTED_SCENARIOS:
        for block, numbers in itertools.groupby(rows, key=lambda row: row // BLOCK):
            pack_scenario_block(connection, keyword_id, block, list(numbers))


def pack_scenario_block(connection: sqlite3.Connection, keyword_id: int, block: int, rows: Sequence[int]) -> None:
    """Write which scenarios of one block hold a keyword."""
    members = [row - block * BLOCK for row in rows]
    packed = pack_members(members) if len(members) < LISTED_MEMBERS else pack_bits(members)
    connection.execute("INSERT INTO posting_block VALUES (?, ?, ?, ?)", (keyword_id, block, len(members), packed))


def write_ends(connection: sqlite3.Connection, block: int, members: Iterable[int]) -> None:
    """Write which scenarios of a block are the last of their fragments."""
    connection.execute("INSERT OR REPLACE INTO scenario_end VALUES (?, ?)", (block, pack_bits(members)))


def write_places(connection: sqlite3.Connection) -> None:
    """Write the place of every fragment in the order of the URIs."""
    ordered = [id_ for (id_,) in connection.execute(URI_ORDER)]
    places = array("I", bytes(4 * (max(ordered, default=0) + 1)))
    for place, id_ in enumerate(ordered):
        places[id_] = place
    connection.execute("DELETE FROM fragment_place")
    write_blocks(connection, "INSERT INTO fragment_place VALUES (?, ?)", places)


def write_blocks(connection: sqlite3.Connection, sql: str, numbers: "array[int]") -> None:
    """Write *numbers* in blocks of PLACED."""
    connection.executemany(
        sql,
        ((start // PLACED, pack_numbers(numbers[start : start + PLACED])) for start in range(0, len(numbers), PLACED)),
    )


def suffixes(keyword: str) -> list[str]:
    """Return the endings that a query keyword can be found by: two characters at least, one for CJK."""
    return [keyword[start:] for start in range(len(keyword) - keyword[-1].isascii())]


def _fields(fragment: Fragment) -> Iterator[tuple[int, str]]:
    """Yield (bit, text) of every field but scenarios and body."""
    yield TAG, "\n".join(fragment.tags)
    yield CAPABILITY, "\n".join(fragment.capabilities)
    yield DESCRIPTION, fragment.description
    yield TITLE, fragment.title
    yield NAME, fragment.name
