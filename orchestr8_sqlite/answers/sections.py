"""Keeps texts within a token budget: cuts at section boundaries, shares a budget, shortens as a last resort."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from orchestr8_sqlite.text.keywords import count_held
from orchestr8_sqlite.text.tokens import fits
from orchestr8_sqlite.text.wording import counted

T = TypeVar("T")

DEEPEST_HEADING = 3
"""Deeper headings do not begin a section."""


class Section(NamedTuple):
    """A heading with the text below it up to the next heading of the same or a higher level."""

    title: str
    text: str

    @property
    def is_bare(self) -> bool:
        """Tell whether there is no text between the heading and the next one."""
        return bool(self.title) and not self.text.partition("\n")[2].strip()


class Cut(NamedTuple):
    """What is left of a text, the line that says what is missing, and an upper bound of the tokens of both."""

    text: str
    note: str
    tokens: int


def split_sections(body: str) -> list[Section]:
    """Return the sections of *body*; joined by newlines, they are *body* again. Code blocks are never split."""
    from orchestr8_sqlite.text.markdown import Body

    headings = [heading for heading in Body(body).headings if heading.level <= DEEPEST_HEADING]
    starts = [body.rfind("\n", 0, heading.start) + 1 for heading in headings]
    titles = dict(zip(starts, (heading.title for heading in headings), strict=True))
    edges = sorted({0, *starts, len(body) + 1})
    return [Section(titles.get(start, ""), body[start : end - 1]) for start, end in itertools.pairwise(edges)]


class Sections:
    """A text in sections, measured once so that it can be cut to several budgets.

    Args:
        body: The text.
        keywords: Sections with more of these are kept first.
        note: Returns the line about what was left out, given (sections left out, their tokens).
        measure: Returns the tokens of a text in the form that will be sent.
    """

    def __init__(
        self, body: str, keywords: Sequence[str], note: Callable[[int, int], str], measure: Callable[[str], int]
    ) -> None:
        self._sections = split_sections(body)
        self._sizes = [measure(section.text) + 1 for section in self._sections]
        self._note = note
        self._frame = measure(note(len(self._sections), sum(self._sizes))) + 1
        self._bare = [index for index, section in enumerate(self._sections) if index and section.is_bare]
        self._order = list(range(len(self._sections)))
        if wanted := set(keywords):
            self._order.sort(key=lambda i: -count_held(self._sections[i].text, wanted))

    def cut(self, max_tokens: float) -> Cut:
        """Return as many whole sections as fit into *max_tokens* with the line about the others, in text order.

        Sections with more keywords are chosen first; among equals, earlier ones, so the title and introduction win.
        A heading without text is kept only if the section below it is.
        """
        room = max_tokens - self._frame
        kept: set[int] = set()
        for index in [*(index for index in self._order if index not in self._bare), *reversed(self._bare)]:
            if self._sizes[index] <= room and (index not in self._bare or index + 1 in kept):
                kept.add(index)
                room -= self._sizes[index]
        left_out = [size for index, size in enumerate(self._sizes) if index not in kept]
        parts = [self._sections[index].text.rstrip() for index in sorted(kept)]
        tokens = self._frame + sum(self._sizes) - sum(left_out)
        return Cut("\n".join(parts), self._note(len(left_out), sum(left_out)), tokens)


def cut_note(uri: str) -> Callable[[int, int], str]:
    """Return a function that writes the line about what a cut left out; it points to *uri* for the whole text."""

    def note(sections: int, tokens: int) -> str:
        return f"[cut: {counted(sections, 'section')}, ~{tokens} tokens left out; whole text: load {uri}]"

    return note


def fair_shares(sizes: Sequence[float], budget: float) -> list[float]:
    """Return for each size that size or an equal share of *budget*; what small ones leave goes to large ones."""
    shares = [0.0] * len(sizes)
    left = budget
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        shares[index] = min(sizes[index], left / (len(sizes) - rank))
        left -= shares[index]
    return shares


def share_out(
    items: Sequence[T],
    sizes: Sequence[float],
    shares: Sequence[float],
    budget: float,
    cutter: Callable[[T], Callable[[float], tuple[T, float]]],
) -> list[T]:
    """Return *items*, each whole or cut to its share of *budget*; room that the cuts leave goes to the first cut items.

    Args:
        items: The items, best first.
        sizes: Tokens of each item.
        shares: Tokens for each item, at most *budget* in all.
        budget: Tokens for all items together.
        cutter: Returns a function that cuts an item to a number of tokens and returns the tokens it then has.
    """
    cuts = {i: cutter(items[i]) for i, (size, share) in enumerate(zip(sizes, shares, strict=True)) if size > share}
    given = [cuts[i](shares[i]) if i in cuts else (item, sizes[i]) for i, item in enumerate(items)]
    left = budget - sum(tokens for _, tokens in given)
    for i, cut in cuts.items():
        if left > 0:
            room = given[i][1] + left
            given[i] = (items[i], sizes[i]) if sizes[i] <= room else cut(room)
            left = room - given[i][1]
    return [item for item, _ in given]


def shorten(text: str, max_tokens: float) -> str:
    """Return *text*, cut to *max_tokens* by dropping its last lines, or its last words if one line is too long."""
    for separator in ("\n", " "):
        pieces = text.split(separator)
        low, high = 0, len(pieces)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(separator.join(pieces[:middle]), max_tokens) else (low, middle - 1)
        if low:
            return separator.join(pieces[:low])
    return ""
