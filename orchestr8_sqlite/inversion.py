"""What the fragments of a batch hold → lists of postings by word, which then have only to be joined."""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

from orchestr8_sqlite.evidence import Held, HeldKeywords, topics_of
from orchestr8_sqlite.tiers.weights import FIELD_WEIGHTS

FIELD_BITS = len(FIELD_WEIGHTS)
SHORT_BITS = FIELD_BITS + 8
"""Bits of a posting of a short text below the fragment: fields, and a byte for how often the body holds the term."""

OTHER_BITS = 16
"""The same for names (share) and bodies (count)."""

POSTING_BITS = (SHORT_BITS, OTHER_BITS, OTHER_BITS)


class Postings(NamedTuple):
    """A list of postings for each key, one behind the other; `lengths` says how many each has.

    The upper bits of a posting are the place of a fragment or scenario in its batch, the lower ones what is known of
    it there.
    """

    keys: Sequence[str]
    lengths: "array[int]"
    postings: "array[int]"

    @classmethod
    def join(cls, lists: Mapping[str, Sequence[int]]) -> Self:
        """Return the postings of *lists*, of which none is empty."""
        postings = array("I")
        for one in lists.values():
            postings.extend(one)
        return cls(list(lists), array("I", map(len, lists.values())), postings)

    def lists(self) -> Iterator[tuple[str, "array[int]"]]:
        """Yield each key with its list."""
        edges = pairwise(accumulate(self.lengths, initial=0))
        return zip(self.keys, (self.postings[start:end] for start, end in edges), strict=True)

    def renumbered(self, numbers: Sequence[int | None], bits: int = 0) -> "Postings":
        """Return the postings with the *numbers* at their places, which ascend, in place of these above so many *bits*.

        Where the number is None, postings are left out, and keys that have no others.
        """
        taken = [number for number in numbers if number is not None]
        if taken and taken[-1] - taken[0] == len(numbers) - 1 == len(taken) - 1:
            more = taken[0] << bits
            return self._replace(postings=array("I", [posting + more for posting in self.postings]))
        known = (1 << bits) - 1
        lists: dict[str, list[int]] = {}
        for key, postings in self.lists():
            placed = ((numbers[posting >> bits], posting & known) for posting in postings)
            if kept := [number << bits | rest for number, rest in placed if number is not None]:
                lists[key] = kept
        return Postings.join(lists)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle makes it of again: one text instead of many."""
        return _postings, ("\n".join(self.keys), self.lengths, self.postings)


def _postings(keys: str, lengths: "array[int]", postings: "array[int]") -> Postings:
    return Postings(keys.split("\n") if keys else [], lengths, postings)


class Terms(NamedTuple):
    """What fragments hold by term.

    `short` are the postings of short texts (fields, count in the body), `names` those of names (share), `body` those
    of bodies where no short text has the term (count). For each fragment there are the `lengths` of its short texts
    and its `topics`.
    """

    short: Postings
    names: Postings
    body: Postings
    lengths: Sequence[Sequence[int]]
    topics: Sequence[str]


class Keywords(NamedTuple):
    """What fragments hold by keyword.

    `fields` are the postings of short texts (fields), by keywords in the order in which the fragments hold them,
    `scenarios` those of scenarios, which are counted through; `counts` are the scenarios of each fragment.
    """

    fields: Postings
    scenarios: Postings
    counts: Sequence[int]


def invert_terms(fragments: Sequence[Held]) -> Terms:
    """Return what *fragments* hold by term."""
    short: defaultdict[str, list[int]] = defaultdict(list)
    names: defaultdict[str, list[int]] = defaultdict(list)
    body: defaultdict[str, list[int]] = defaultdict(list)
    for place, held in enumerate(fragments):
        start = place << SHORT_BITS
        for stem, (fields, count) in held.fields.items():
            short[stem].append(start | fields << 8 | count)
        start = place << OTHER_BITS
        for stem, share in held.name.items():
            names[stem].append(start | share)
        for stem, count in held.body.items():
            body[stem].append(start | count)
    lengths = [tuple(map(held.lengths.__getitem__, FIELD_WEIGHTS)) for held in fragments]
    return Terms(
        Postings.join(short), Postings.join(names), Postings.join(body), lengths, list(map(topics_of, fragments))
    )


def invert_keywords(fragments: Sequence[HeldKeywords]) -> Keywords:
    """Return what *fragments* hold by keyword."""
    fields: defaultdict[str, list[int]] = defaultdict(list)
    scenarios: defaultdict[str, list[int]] = defaultdict(list)
    taken = 0
    for place, held in enumerate(fragments):
        start = place << FIELD_BITS
        for keyword, mask in held.fields.items():
            fields[keyword].append(start | mask)
        for row, keywords in enumerate(held.scenarios, start=taken):
            for keyword in keywords:
                scenarios[keyword].append(row)
        taken += len(held.scenarios)
    return Keywords(Postings.join(fields), Postings.join(scenarios), [len(held.scenarios) for held in fragments])
