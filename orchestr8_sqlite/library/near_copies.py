"""Texts that are nearly the same, found in a time that grows with their number.

Of each text some runs of four words are kept: those that begin with a word of a certain kind, about one in SHARE. What
two texts have of them in common estimates the share of all their runs that they have in common (Jaccard similarity).

Source: A. Broder, "On the resemblance and containment of documents" (1997); sampled by the first word of a run, as that
needs no hash of all runs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

SHARE = 8
FEWEST = 12
"""Runs of the shortest text that is compared, about a hundred words: below, a sentence in common is most of it."""

LEAST_ALIKE = 0.75
MOST_COMPARED = 3
"""Texts that one is compared with: those that have the most runs in common with it."""

Run = tuple[str, ...]


class NearCopy(NamedTuple):
    """The places of a text and of one before it in a series, and the share of their runs that they have in common."""

    place: int
    other: int
    alike: float


def find_near_copies(texts: Iterable[str]) -> Iterator[NearCopy]:
    """Yield each text that is nearly, or wholly, one before it, with the one that is most alike."""
    begins = _Beginnings()
    sketches: list[frozenset[Run]] = []
    first: dict[Run, int] = {}  # who holds a run: one text is enough, as near copies of it have most others as well
    for place, text in enumerate(texts):
        own = _sketch(text, begins)
        sketches.append(own)
        common = Counter([first.setdefault(run, place) for run in own])
        del common[place]
        alike = [(_alike(own, sketches[other]), -other) for other, _ in common.most_common(MOST_COMPARED)]
        best, other = max(alike, default=(0.0, 0))
        if best >= LEAST_ALIKE:
            yield NearCopy(place, -other, best)


class _Beginnings(dict[str, bool]):
    """Tells whether a run that begins with a word is kept; in every process the same."""

    def __missing__(self, word: str) -> bool:
        self[word] = begins = crc32(word.encode("utf-8", "replace")) % SHARE == 0
        return begins


def _sketch(text: str, begins: _Beginnings) -> frozenset[Run]:
    words = text.casefold().split()
    runs = frozenset([(*words[at : at + 4],) for at, word in enumerate(words) if begins[word]])
    return runs if len(runs) >= FEWEST else frozenset()


def _alike(one: frozenset[Run], other: frozenset[Run]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)
