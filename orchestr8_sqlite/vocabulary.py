"""The keyword tables of an index: vocabulary, its suffixes, postings by scenario and by field, scenario ids."""

import hashlib
import itertools
import sqlite3
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter

from orchestr8_sqlite.bulk import insert_rows
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.inversion import FIELD_BITS, Keywords
from orchestr8_sqlite.keywords import stem
from orchestr8_sqlite.packing import (
    BLOCK,
    PLACED,
    pack_bits,
    pack_members,
    pack_numbers,
    unpack_numbers,
)
from orchestr8_sqlite.processes import nothing
from orchestr8_sqlite.runs import Runs, in_pieces
from orchestr8_sqlite.scenario_sets import write_scenario_sets
from orchestr8_sqlite.tiers.weights import CAPABILITY, SCENARIO, TAG

ALL_FIELDS = (1 << FIELD_BITS) - 1
CLASSIC_FIELDS = TAG | CAPABILITY | SCENARIO
OTHER_FIELDS = bytes(mask for mask in range(64) if not mask & CLASSIC_FIELDS)
SCENARIO_DIGITS = 12

TOGETHER = 1000
"""Keywords whose rows are written table by table."""

MOST_SUFFIXES = 1 << 19
"""Suffixes that are sorted together; each takes some 150 bytes."""

FieldBlock = tuple[int, int, bytearray, bytearray]
"""A row of `field_block`."""

OWNERS = "SELECT block, owners FROM scenario_owner"
URI_ORDER = "SELECT id FROM fragment ORDER BY uri"


def scenario_ids(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return an id for each (fragment id, scenario text): `scenario-` and 12 hex digits of SHA-256.

    Where two texts share the first 12 digits, both get as many more as tell them apart.

    Source: shared/seeds/index-lookup.md, "Hash Generation".
    """
    digests = [hashlib.sha256(f"{fragment_id}:{text}".encode()).hexdigest() for fragment_id, text in texts]
    if len({digest[:SCENARIO_DIGITS] for digest in digests}) == len(digests):
        return [f"scenario-{digest[:SCENARIO_DIGITS]}" for digest in digests]
    ordered = sorted(set(digests))
    if len(ordered) < len(digests):
        raise BuildError("Two scenarios of one fragment have the same text and could not be told apart.")
    digits = dict.fromkeys(ordered, SCENARIO_DIGITS)
    for first, second in itertools.pairwise(ordered):
        shared = next(i for i in range(64) if first[i] != second[i])
        for digest in (first, second):
            digits[digest] = max(digits[digest], shared + 1)
    return [f"scenario-{digest[: digits[digest]]}" for digest in digests]


class KeywordWriter:
    """Writes the keyword tables of a new index from fragments in the order of their numbers. Close it when done.

    In memory are the keywords, eight bytes for each scenario, and a bounded part of the postings.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Write through *connection*, where nothing of the kind has been written yet."""
        self._connection = connection
        self._ids: dict[str, int] = {}
        self._runs: Runs[int] = Runs()  # by keyword: fragment and fields; scenarios
        self._owners = array("I")
        self._ends = array("I")

    def add(self, numbers: Sequence[int | None], first_scenario: int, keywords: Keywords) -> None:
        """Take what fragments hold that get *numbers*, which ascend; None for those that are left out.

        Their scenarios are numbered from *first_scenario*.
        """
        ids, (fields, scenarios, _) = self._ids, self._runs.lists
        following = itertools.count(first_scenario)
        rows: list[int | None] = []
        for number, count in zip(numbers, keywords.counts, strict=True):
            own = None if number is None else list(itertools.islice(following, count))
            rows += own or [None] * count
            if number is not None and own:
                self._owners.extend(itertools.repeat(0, own[0] - len(self._owners)))
                self._owners.extend(itertools.repeat(number, count))
                self._ends.append(own[-1])
        for keyword, found in keywords.fields.renumbered(numbers, FIELD_BITS).lists():
            fields[ids.setdefault(keyword, len(ids) + 1)] += found
        for keyword, found in keywords.scenarios.renumbered(rows).lists():
            scenarios[ids[keyword]] += found
        self._runs.count(len(keywords.fields.postings) + len(keywords.scenarios.postings))

    def close(self, meanwhile: Callable[[], None] = nothing) -> None:
        """Do *meanwhile*, then write all that is left."""
        meanwhile()
        self._write_postings()
        insert_rows(self._connection, "INSERT INTO keyword_suffix VALUES (?, ?)", suffix_rows(self._ids))
        write_scenario_sets(self._connection)
        write_blocks(self._connection, "INSERT INTO scenario_owner VALUES (?, ?)", self._owners)
        for block, ends in itertools.groupby(self._ends, key=lambda row: row // BLOCK):
            write_ends(self._connection, block, (row % BLOCK for row in ends))

    def _write_postings(self) -> None:
        """Write the keywords with all of their postings."""
        prefixes = _prefix_ids(self._ids)
        texts = iter(self._ids)
        for piece in in_pieces(self._runs.drain()):
            keywords = list(zip(itertools.islice(texts, len(piece)), piece, strict=True))
            blocks: list[FieldBlock] = []
            rows: list[tuple[object, ...]] = []
            for text, (id_, fields, scenarios, _) in keywords:
                own = list(_field_blocks(id_, fields))
                fragments = sum(len(block[3].translate(None, OTHER_FIELDS)) for block in own)
                rows.append((id_, text, stem(text), len(scenarios), fragments, prefixes[id_] or None))
                blocks += own
            insert_rows(self._connection, "INSERT INTO keyword VALUES (?, ?, ?, ?, ?, ?)", rows)
            insert_rows(self._connection, "INSERT INTO field_block VALUES (?, ?, ?, ?)", blocks)
            pairs = (zip(itertools.repeat(id_), scenarios) for _, (id_, _, scenarios, _) in keywords)
            postings = itertools.chain.from_iterable(pairs)
            insert_rows(self._connection, "INSERT INTO posting VALUES (?, ?)", postings)


def _field_blocks(keyword_id: int, postings: Sequence[int]) -> Iterator[FieldBlock]:
    """Yield the rows of `field_block` of a keyword."""
    start = 0
    while start < len(postings):
        block = (postings[start] >> FIELD_BITS) // BLOCK
        end = bisect_left(postings, (block + 1) * BLOCK << FIELD_BITS, start)
        members = [(posting >> FIELD_BITS) % BLOCK for posting in postings[start:end]]
        fields = bytearray([posting & ALL_FIELDS for posting in postings[start:end]])
        yield keyword_id, block, bytearray(pack_members(members)), fields
        start = end


def _prefix_ids(ids: Mapping[str, int]) -> "array[int]":
    """Return the number of the longest other keyword that each begins with, at the place of its own; 0 for none."""
    prefixes = array("I", bytes(4 * (len(ids) + 1)))
    for keyword, prefix in longest_prefixes(ids):
        prefixes[ids[keyword]] = ids[prefix]
    return prefixes


def longest_prefixes(keywords: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each keyword that begins with another one, and the longest of those."""
    open_: list[str] = []
    for keyword in sorted(keywords):
        while open_ and not keyword.startswith(open_[-1]):
            open_.pop()
        if open_:
            yield keyword, open_[-1]
        open_.append(keyword)


def suffix_rows(ids: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield (suffix, number of the keyword) of all keywords, which come in the order of their numbers; sorted.

    They are made by their first letters, as many of these at a time as memory is meant for; those with a letter that
    alone is too much by their second ones.
    """
    letters = Counter(itertools.chain.from_iterable(text[: len(_starts(text))] for text in ids))
    for first in _parts(letters):
        if sum(map(letters.__getitem__, first)) <= MOST_SUFFIXES:
            yield from _sorted_suffixes(ids, first)
            continue
        following = (text[s + 1 : s + 2] for text in ids for s in _starts(text) if text[s] in first)
        for second in _parts(Counter(following)):
            yield from _sorted_suffixes(ids, first, second)


def _sorted_suffixes(ids: Mapping[str, int], first: Set[str], second: Set[str] | None = None) -> list[tuple[str, int]]:
    """Return the rows of the suffixes with one of these first letters, and of these second ones."""
    rows = [
        (text[start:], id_)
        for text, id_ in ids.items()
        for start in _starts(text)
        if text[start] in first and (second is None or text[start + 1 : start + 2] in second)
    ]
    rows.sort(key=itemgetter(0))
    return rows


def _parts(letters: Mapping[str, int]) -> Iterator[set[str]]:
    """Yield *letters* in order, so many at a time that their counts add up to MOST_SUFFIXES, but one at least."""
    part: set[str] = set()
    taken = 0
    for letter, count in sorted(letters.items()):
        if part and taken + count > MOST_SUFFIXES:
            yield part
            part, taken = set(), 0
        part.add(letter)
        taken += count
    yield part


def write_ends(connection: sqlite3.Connection, block: int, members: Iterable[int]) -> None:
    """Write which scenarios of a block are the last of their fragments."""
    connection.execute("INSERT OR REPLACE INTO scenario_end VALUES (?, ?)", (block, pack_bits(members)))


def write_places(connection: sqlite3.Connection) -> None:
    """Write the place of every fragment in the order of the URIs, and the order of the blocks of scenarios by it."""
    ordered = [id_ for (id_,) in connection.execute(URI_ORDER)]
    places = array("I", bytes(4 * (max(ordered, default=0) + 1)))
    for place, id_ in enumerate(ordered):
        places[id_] = place
    connection.execute("DELETE FROM fragment_place")
    write_blocks(connection, "INSERT INTO fragment_place VALUES (?, ?)", places)
    connection.execute("DELETE FROM scenario_order")
    owned = ((block, set(unpack_numbers(owners)) - {0}) for block, owners in connection.execute(OWNERS))
    order = [(min(map(places.__getitem__, fragments)), block) for block, fragments in owned if fragments]
    connection.executemany("INSERT INTO scenario_order VALUES (?, ?)", order)


def write_blocks(connection: sqlite3.Connection, sql: str, numbers: "array[int]") -> None:
    """Write *numbers* in blocks of PLACED."""
    connection.executemany(
        sql,
        ((start // PLACED, pack_numbers(numbers[start : start + PLACED])) for start in range(0, len(numbers), PLACED)),
    )


def suffixes(keyword: str) -> list[str]:
    """Return the endings that a query keyword can be found by: two characters at least, one for CJK."""
    return [keyword[start:] for start in _starts(keyword)]


def _starts(keyword: str) -> range:
    """Return where the endings of a keyword start."""
    return range(len(keyword) - keyword[-1].isascii())
