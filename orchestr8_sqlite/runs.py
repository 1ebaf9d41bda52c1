"""Lists of postings that are gathered by key in bounded memory: sorted runs of them wait in a temporary file."""

import marshal
import sqlite3
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby, repeat
from operator import itemgetter
from typing import Generic, TypeVar

K = TypeVar("K", int, str)

MOST_KEYS = 1 << 16
"""Keys of one list that are held in memory; each takes some 250 bytes."""

MOST_POSTINGS = 1 << 21
"""Postings that are held in memory, four bytes each."""

MOST_TOGETHER = 1 << 17
TOGETHER = 1000
"""Postings and keys that are put aside, taken back and written in one piece: of each run one piece is in memory."""

CREATE = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE piece (
    run    INTEGER NOT NULL,
    number INTEGER NOT NULL,
    lists  BLOB NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;
BEGIN;
"""
PUT = "INSERT INTO piece VALUES (?, ?, ?)"
TAKE = "SELECT lists FROM piece WHERE run = ? ORDER BY number"

NOTHING = array("I")
Gathered = tuple[K, "array[int]", "array[int]", "array[int]"]
"""A key with its three lists."""

Packed = tuple[K, bytes, bytes, bytes]
KEY = itemgetter(0)


def in_pieces(lists: Iterable[Gathered[K]]) -> Iterator[list[Gathered[K]]]:
    """Yield keys with their lists, in pieces of at most TOGETHER keys and MOST_TOGETHER postings, but of one key."""
    piece: list[Gathered[K]] = []
    taken = 0
    for one in lists:
        postings = len(one[1]) + len(one[2]) + len(one[3])
        if piece and (len(piece) == TOGETHER or taken + postings > MOST_TOGETHER):
            yield piece
            piece, taken = [], 0
        piece.append(one)
        taken += postings
    if piece:
        yield piece


class Runs(Generic[K]):
    """Three lists of postings for each key: whoever gathers them appends to `lists` and then says how many it were."""

    def __init__(self) -> None:
        self.lists: tuple[defaultdict[K, array[int]], ...] = tuple(defaultdict(lambda: array("I")) for _ in range(3))
        self._postings = 0
        self._aside: sqlite3.Connection | None = None
        self._runs = 0

    def count(self, postings: int) -> None:
        """Take note of *postings* that were appended, and put all aside where it is too much for the memory."""
        self._postings += postings
        if self._postings > MOST_POSTINGS or max(map(len, self.lists)) > MOST_KEYS:
            self._put_aside()

    def drain(self) -> Iterator[Gathered[K]]:
        """Yield every key, ascending, with what was appended to its lists, in that order; then they are empty."""
        if self._aside is None:
            yield from self._held()
            self._clear()
            return
        self._put_aside()
        with closing(self._aside) as aside:
            self._aside = None
            runs = [_read_run(aside, run) for run in range(self._runs)]
            self._runs = 0
            for key, found in groupby(_merge(runs), key=KEY):
                (_, first, second, third), *others = found
                for _, *more in others:  # most keys are in one run alone
                    first, second, third = first + more[0], second + more[1], third + more[2]
                yield key, array("I", first), array("I", second), array("I", third)

    def _held(self) -> Iterator[Gathered[K]]:
        """Return what is in memory, by ascending keys."""
        keys = sorted(set().union(*self.lists))
        first, second, third = (map(known.get, keys, repeat(NOTHING)) for known in self.lists)
        return zip(keys, first, second, third, strict=True)

    def _put_aside(self) -> None:
        """Move what is in memory into the temporary file, which SQLite removes when its connection is closed."""
        if self._aside is None:
            self._aside = sqlite3.connect("", isolation_level=None)
            self._aside.executescript(CREATE)
        for number, held in enumerate(in_pieces(self._held())):
            piece = [(key, *(one.tobytes() for one in lists)) for key, *lists in held]
            self._aside.execute(PUT, (self._runs, number, bytearray(marshal.dumps(piece))))
        self._runs += 1
        self._clear()

    def _clear(self) -> None:
        for known in self.lists:
            known.clear()
        self._postings = 0


def _read_run(aside: sqlite3.Connection, run: int) -> Iterator[list[Packed[K]]]:
    """Yield the pieces of a run."""
    for (piece,) in aside.execute(TAKE, (run,)):
        yield marshal.loads(piece)  # noqa: S302 - written by this very process


def _merge(runs: Sequence[Iterator[list[Packed[K]]]]) -> Iterator[Packed[K]]:
    """Yield what all runs hold by ascending keys, the same key in the order of the runs.

    One piece of each is in memory. All up to the least of their last keys is sorted at a time: sorting merges what is
    in order already.
    """
    rests: dict[int, list[Packed[K]]] = {run: [] for run in range(len(runs))}
    while rests:
        for run in [run for run, rest in rests.items() if not rest]:
            rests[run] = next(runs[run], [])
            if not rests[run]:
                del rests[run]
        bound = min((rest[-1][0] for rest in rests.values()), default=None)
        part: list[Packed[K]] = []
        for run, rest in rests.items():
            end = bisect_right(rest, bound, key=KEY)
            part += rest[:end]
            rests[run] = rest[end:]
        part.sort(key=KEY)
        yield from part
