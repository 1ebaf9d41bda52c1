"""Finds texts that are nearly the same, in time proportional to their number.

Each text keeps a sample of its four-word runs, about one in SHARE, chosen by their first word. The overlap of two
samples estimates the overlap of all their runs (Jaccard similarity).

Source: A. Broder, "On the resemblance and containment of documents" (1997). Sampling by the first word avoids hashing
every run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from zlib import crc32

SHARE = 8
FEWEST = 12
"""Fewest sampled runs to compare a text, about 100 words; in a shorter text one shared sentence is most of it."""

FEWEST_WORDS = 4
"""Fewest different words of a description to compare."""

LEAST_ALIKE = 0.75
MOST_COMPARED = 3
"""Texts that each text is compared with at most: those that share the most runs with it."""

MERGE = "merge them, or say in each what makes it differ"
"""What to do about texts that are too much alike."""

Run = tuple[str, ...]


class NearCopy(NamedTuple):
    """The positions of a text and of an earlier one in a series, and the estimated share of runs in common."""

    place: int
    other: int
    alike: float


def find_near_copies(texts: Iterable[str]) -> Iterator[NearCopy]:
    """Yield each text that nearly or exactly repeats an earlier one, paired with the most similar."""
    begins = Beginnings()
    sketches: list[frozenset[Run]] = []
    first: dict[Run, int] = {}  # first text with each run; enough, as near copies share most other runs too
    for place, text in enumerate(texts):
        own = sketch(text, begins)
        sketches.append(own)
        common = Counter([first.setdefault(run, place) for run in own])
        del common[place]
        alike = [(likeness(own, sketches[other]), -other) for other, _ in common.most_common(MOST_COMPARED)]
        best, other = max(alike, default=(0.0, 0))
        if best >= LEAST_ALIKE:
            yield NearCopy(place, -other, best)


class Beginnings(dict[str, bool]):
    """Tells whether runs that begin with a word are sampled; every process agrees."""

    def __missing__(self, word: str) -> bool:
        self[word] = begins = crc32(word.encode("utf-8", "replace")) % SHARE == 0
        return begins


def sketch(text: str, begins: Beginnings) -> frozenset[Run]:
    """Return the sampled runs of *text*; none if they are too few to compare."""
    words = text.casefold().split()
    runs = frozenset([(*words[at : at + 4],) for at, word in enumerate(words) if begins[word]])
    return runs if len(runs) >= FEWEST else frozenset()


def likeness(one: AbstractSet[object], other: AbstractSet[object]) -> float:
    """Return the Jaccard similarity of two sets, 0 to 1; 0 if both are empty."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0
