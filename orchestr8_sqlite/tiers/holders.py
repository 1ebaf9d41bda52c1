"""Which fragments hold the terms of a request: the packed lists of the index, unpacked as they are asked for."""

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.tiers.expansion import Form, Reading
from orchestr8_sqlite.tiers.kept import Kept
from orchestr8_sqlite.tiers.lists import BodyBlock, ShortBlock
from orchestr8_sqlite.tiers.weights import BODY_WEIGHTS, TOPIC


class Evidence(NamedTuple):
    """What a fragment holds of a form; `fields` are bits, 0 for the body alone, `weight` thousandths of the gain."""

    fields: int
    weight: int


class Holders:
    """The lists of one request, each read once."""

    def __init__(self, db: sqlite3.Connection, kept: Kept | None = None) -> None:
        self.db = db
        self.kept = kept or Kept(db)
        self._short: dict[str, Sequence[ShortBlock]] = {}
        self._bodies: dict[str, Sequence[BodyBlock]] = {}

    def last_fragment(self) -> int:
        """Return the highest number of a fragment, 0 where there is none."""
        return self.kept.last_fragment

    def read(self, reading: Reading) -> None:
        """Read the lists of all forms of *reading* that were not read before."""
        if short := {form.stem for form in reading.forms} - self._short.keys():
            self._short |= self._read_short(short)
        whole = {form.stem for form in reading.forms if reading.searches_bodies(form)}
        if bodies := whole - self._bodies.keys():
            self._bodies |= self._read_bodies(bodies)

    def _read_short(self, stems: Collection[str]) -> Mapping[str, Sequence[ShortBlock]]:
        return self.kept.short(stems)

    def _read_bodies(self, stems: Collection[str]) -> Mapping[str, Sequence[BodyBlock]]:
        return self.kept.bodies(stems)

    def short(self, form: Form) -> Sequence[ShortBlock]:
        """Return who holds *form* in a short text."""
        return self._short[form.stem]

    def bodies(self, form: Form, reading: Reading) -> Sequence[BodyBlock]:
        """Return who holds *form* in the body alone, where bodies are searched for it."""
        return self._bodies[form.stem] if reading.searches_bodies(form) else ()

    def held(self, form: Form, reading: Reading, numbers: Iterable[int]) -> Iterator[tuple[int, Evidence]]:
        """Yield (fragment, what it holds of *form*) for those of the fragments *numbers* that hold it."""
        for short in self.short(form):
            for number, at in _places(short.members, short.first, numbers):
                yield number, Evidence(short.fields[at], short.weights[at])
        for body in self.bodies(form, reading):
            for number, at in _places(body.members, body.first, numbers):
                yield number, Evidence(0, body.weights[at])

    def topics(self, numbers: Sequence[int]) -> dict[int, Sequence[str]]:
        """Return the stems of names, titles and tags of the fragments *numbers*."""
        return self.kept.topics(numbers)


class AlteredHolders(Holders):
    """The same, but for one fragment: what that holds is given, by stem."""

    def __init__(
        self,
        db: sqlite3.Connection,
        number: int,
        fields: Mapping[str, tuple[int, int]],
        name: Mapping[str, int],
        body: Mapping[str, int],
    ) -> None:
        """Let the fragment *number* hold the (fields, weight) of *fields*, shares of its *name*, counts of *body*."""
        super().__init__(db)
        self._number = number
        self._fields = fields
        self._name = name
        self._counts = body

    def _read_short(self, stems: Collection[str]) -> Mapping[str, Sequence[ShortBlock]]:
        return {stem: self._altered_short(stem, blocks) for stem, blocks in super()._read_short(stems).items()}

    def _altered_short(self, stem: str, blocks: Sequence[ShortBlock]) -> Sequence[ShortBlock]:
        others = [_without_short(block, self._number) for block in blocks]
        if stem not in self._fields:
            return others
        fields, weight = self._fields[stem]
        share = self._name.get(stem)
        named = ((0,), (share,)) if share else ((), ())
        return [*others, ShortBlock(self._number, (0,), (weight,), (fields,), *named)]

    def _read_bodies(self, stems: Collection[str]) -> Mapping[str, Sequence[BodyBlock]]:
        return {stem: self._altered_bodies(stem, blocks) for stem, blocks in super()._read_bodies(stems).items()}

    def _altered_bodies(self, stem: str, blocks: Sequence[BodyBlock]) -> Sequence[BodyBlock]:
        others = [_without_body(block, self._number) for block in blocks]
        if stem not in self._counts or stem in self._fields:
            return others
        weight = BODY_WEIGHTS[min(self._counts[stem], len(BODY_WEIGHTS) - 1)]
        return [*others, BodyBlock(self._number, (0,), (weight,))]

    def topics(self, numbers: Sequence[int]) -> dict[int, Sequence[str]]:
        """Return the stems of names, titles and tags of the fragments *numbers*."""
        topics = super().topics(numbers)
        if self._number in topics:
            topics[self._number] = [stem for stem, (fields, _) in self._fields.items() if fields & TOPIC]
        return topics


def _without_short(block: ShortBlock, number: int) -> ShortBlock:
    at, named_at = _place(block.members, number - block.first), _place(block.named, number - block.first)
    members, weights, fields = (_cut(one, at) for one in (block.members, block.weights, block.fields))
    return ShortBlock(block.first, members, weights, fields, _cut(block.named, named_at), _cut(block.shares, named_at))


def _without_body(block: BodyBlock, number: int) -> BodyBlock:
    at = _place(block.members, number - block.first)
    return BodyBlock(block.first, _cut(block.members, at), _cut(block.weights, at))


def _cut(values: Sequence[int], at: int | None) -> Sequence[int]:
    return values if at is None else [*values[:at], *values[at + 1 :]]


def _places(members: Sequence[int], first: int, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (number, its place in *members*) of those of *numbers* that are *first* more than one of these."""
    size = len(members)
    for number in numbers:
        at = bisect_left(members, number - first)
        if at < size and members[at] == number - first:
            yield number, at


def _place(members: Sequence[int], member: int) -> int | None:
    at = bisect_left(members, member)
    return at if at < len(members) and members[at] == member else None
