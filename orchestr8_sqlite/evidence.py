"""Which words a fragment holds, where, and how much that earns: what the default ranker reads, packed by term.

A fragment's evidence hangs on nothing but its own texts, so fragments come and go one at a time: what changes with
the library, how rare a word is, is only counted here and weighed when a request is answered.
"""

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import count_stems, extract_keywords, iterate_stems
from orchestr8_sqlite.packing import BLOCK
from orchestr8_sqlite.tiers.weights import (
    BODY_WEIGHTS,
    CAPABILITY,
    DESCRIPTION,
    FIELD_WEIGHTS,
    LENGTH_SHARE,
    NAME,
    SCENARIO,
    TAG,
    TITLE,
    TOPIC,
    body_points,
    thousandths,
)

MOST_COUNTED = len(BODY_WEIGHTS) - 1
"""Occurrences in a body that are told apart."""

BODY_POINTS = tuple(map(body_points, range(MOST_COUNTED + 1)))

Texts = Mapping[int, str]
"""Field (a bit, 0 for the body) → its text."""

BODY = 0

Lengths = Mapping[int, float]
"""Field → its keywords."""


class Held(NamedTuple):
    """What a fragment holds, by stem.

    `lengths` are the keywords of each short text; `fields` has for the stems of these the bits of their fields and
    how often the body holds them; `name` what part of the fragment's name they are, in thousandths; `body` how often
    the body holds those that no short text does.
    """

    lengths: Mapping[int, int]
    fields: Mapping[str, tuple[int, int]]
    name: Mapping[str, int]
    body: Mapping[str, int]


class HeldKeywords(NamedTuple):
    """The keywords of a fragment: the bits of the fields that hold each, body apart, and those of each scenario."""

    fields: Mapping[str, int]
    scenarios: Sequence[Sequence[str]]


def fragment_texts(fragment: Fragment) -> Texts:
    """Return the texts of a fragment that are searched."""
    lists = {TAG: fragment.tags, CAPABILITY: fragment.capabilities, SCENARIO: fragment.use_when}
    return searched_texts(fragment.name, fragment.title, fragment.description, fragment.body, lists)


def searched_texts(name: str, title: str, description: str, body: str, lists: Mapping[int, Sequence[str]]) -> Texts:
    """Return the texts that are searched; a name is searched by its parts, *lists* by their lines."""
    spaced = name.replace("-", " ").replace("_", " ")
    joined = {bit: "\n".join(lines) for bit, lines in lists.items()}
    return {NAME: spaced, TITLE: title, DESCRIPTION: description, BODY: body, **joined}


def hold(texts: Texts) -> Held:
    """Return what a fragment with these texts holds."""
    fields: dict[str, int] = {}
    lengths: dict[int, int] = {}
    for bit in FIELD_WEIGHTS:
        stems = list(iterate_stems(texts[bit]))
        lengths[bit] = len(stems)
        for stem in stems:
            fields[stem] = fields.get(stem, 0) | bit
    body: dict[str, int] = count_stems(texts[BODY])
    if max(body.values(), default=0) > MOST_COUNTED:
        body = {stem: min(count, MOST_COUNTED) for stem, count in body.items()}
    short = {stem: (bits, body.pop(stem, 0)) for stem, bits in fields.items()}
    return Held(lengths, short, _name_shares(texts[NAME]), body)


class LengthSums:
    """The lengths of the short texts of the first block of a library, added up."""

    def __init__(self, fragments: int = 0, sums: Mapping[int, int] | None = None) -> None:
        self.fragments = fragments
        self.sums = dict(sums or dict.fromkeys(FIELD_WEIGHTS, 0))

    @classmethod
    def read(cls, db: sqlite3.Connection) -> Self:
        """Return those of an index."""
        rows = dict(db.execute("SELECT key, value FROM meta WHERE key LIKE 'length_sum_%'"))
        fragments = db.execute("SELECT count(*) FROM fragment WHERE id < ?", (BLOCK,)).fetchone()[0]
        return cls(fragments, {bit: int(rows[f"length_sum_{bit}"]) for bit in FIELD_WEIGHTS})

    def add(self, number: int, lengths: Mapping[int, int], change: int = 1) -> None:
        """Count the *lengths* of the fragment *number* in, or with a *change* of -1 out."""
        if number < BLOCK:
            self.fragments += change
            for bit, length in lengths.items():
                self.sums[bit] += change * length

    @property
    def typical(self) -> Lengths:
        """Return the mean length of each field, as the nearest power of two: a single fragment seldom changes it."""
        means = {bit: sum_ / max(1, self.fragments) for bit, sum_ in self.sums.items()}
        return {bit: 2.0 ** round(math.log2(mean)) if mean else 1.0 for bit, mean in means.items()}

    def write(self, db: sqlite3.Connection) -> None:
        """Write them to `meta`, with the typical lengths."""
        rows = {f"length_sum_{bit}": str(sum_) for bit, sum_ in self.sums.items()}
        rows |= {f"typical_length_{bit}": f"{length:g}" for bit, length in self.typical.items()}
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", sorted(rows.items()))


def read_typical_lengths(meta: Mapping[str, str]) -> Lengths:
    """Return the lengths that the fields of an index were weighed by."""
    return {bit: float(meta[f"typical_length_{bit}"]) for bit in FIELD_WEIGHTS}


def hold_keywords(fragment: Fragment) -> HeldKeywords:
    """Return the keywords of all fields of a fragment but the body."""
    masks: dict[str, int] = defaultdict(int)
    scenarios = [extract_keywords(text) for text in fragment.use_when]
    for keyword in chain.from_iterable(scenarios):
        masks[keyword] = SCENARIO
    for field, text in _fields(fragment):
        for keyword in extract_keywords(text):
            masks[keyword] |= field
    return HeldKeywords(dict(masks), scenarios)


def topics_of(held: Held) -> str:
    """Return the stems of name, title and tags, separated by spaces."""
    return " ".join(stem for stem, (fields, _) in held.fields.items() if fields & TOPIC)


def weigh(held: Held, typical: Lengths) -> dict[str, tuple[int, int]]:
    """Return (fields, weight) of each stem of the short texts: what it earns, in thousandths of its rarity."""
    points = FieldPoints(held.lengths, typical)
    return {stem: (bits, thousandths(points[bits] + BODY_POINTS[count])) for stem, (bits, count) in held.fields.items()}


class FieldPoints(dict[int, float]):
    """Bits of fields → the evidence that these fields of a fragment give together, the less the longer they are."""

    def __init__(self, lengths: Mapping[int, int], typical: Lengths) -> None:
        super().__init__()
        self._given = {
            bit: weight / (1 - LENGTH_SHARE + LENGTH_SHARE * lengths[bit] / typical[bit])
            for bit, weight in FIELD_WEIGHTS.items()
        }

    def __missing__(self, bits: int) -> float:
        total = 0.0
        for bit, points in self._given.items():  # what `sum` does about rounding differs between versions of Python
            if bits & bit:
                total += points
        self[bits] = total
        return total


def _name_shares(name: str) -> dict[str, int]:
    """Return the part of a name that each of its stems is, by their letters: longer words say more."""
    stems = dict.fromkeys(iterate_stems(name))
    letters = sum(map(len, stems))
    return {stem: (1000 * len(stem) + letters // 2) // letters for stem in stems}


def _fields(fragment: Fragment) -> Iterator[tuple[int, str]]:
    """Yield (bit, text) of every field but scenarios and body."""
    yield TAG, "\n".join(fragment.tags)
    yield CAPABILITY, "\n".join(fragment.capabilities)
    yield DESCRIPTION, fragment.description
    yield TITLE, fragment.title
    yield NAME, fragment.name
