"""Keeps texts within a token budget: cuts at section boundaries, shares a budget, shortens as a last resort."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchestr8_sqlite.mentions import count_held
from orchestr8_sqlite.tokens import estimate_tokens, fits
from orchestr8_sqlite.wording import counted

DEEPEST_HEADING = 3
"""Headings below this level do not begin a section of their own."""


class Section(NamedTuple):
    """A heading with the text below it up to the next heading of the same or a higher level."""

    title: str
    text: str

    @property
    def is_bare(self) -> bool:
        """Tell whether there is nothing between the heading and the next one."""
        return bool(self.title) and not self.text.partition("\n")[2].strip()


class Cut(NamedTuple):
    """What is left of a text, and the line that says what is missing, empty where nothing is."""

    text: str
    note: str = ""


def split_sections(body: str) -> list[Section]:
    """Return *body* in sections; joined by newlines they are the body again. Code is never cut."""
    from orchestr8_sqlite.markdown import Body

    headings = [heading for heading in Body(body).headings if heading.level <= DEEPEST_HEADING]
    starts = [body.rfind("\n", 0, heading.start) + 1 for heading in headings]
    titles = dict(zip(starts, (heading.title for heading in headings), strict=True))
    edges = sorted({0, *starts, len(body) + 1})
    return [Section(titles.get(start, ""), body[start : end - 1]) for start, end in itertools.pairwise(edges)]


def cut_to_budget(
    body: str,
    keywords: Sequence[str],
    max_tokens: float,
    note: Callable[[int, int], str],
    measure: Callable[[str], int] = estimate_tokens,
) -> Cut:
    """Return *body* where it has no more than *max_tokens*, else cut as by `cut_at_sections`."""
    return Cut(body) if measure(body) <= max_tokens else cut_at_sections(body, keywords, max_tokens, note, measure)


def cut_at_sections(
    body: str,
    keywords: Sequence[str],
    max_tokens: float,
    note: Callable[[int, int], str],
    measure: Callable[[str], int],
) -> Cut:
    """Return as many whole sections of *body* as fit into *max_tokens* with the line *note*, in their order.

    Sections are chosen by how many of *keywords* they hold, then by their order; the first one (title
    and introduction) goes before others of the same rank. A heading with nothing below it stands only above a section
    that is kept.

    Args:
        note: Makes the line that says what was left out from (sections left out, their tokens).
        measure: Tells the tokens of a text in the form it will have.
    """
    sections = split_sections(body)
    wanted = set(keywords)
    order = list(range(len(sections)))
    if wanted:
        order.sort(key=lambda i: -count_held(sections[i].text, wanted))
    sizes = [measure(section.text) + 1 for section in sections]
    room = max_tokens - measure(note(len(sections), sum(sizes))) - 1
    bare = [index for index, section in enumerate(sections) if index and section.is_bare]
    kept: set[int] = set()
    for index in [*(index for index in order if index not in bare), *reversed(bare)]:
        if sizes[index] <= room and (index not in bare or index + 1 in kept):
            kept.add(index)
            room -= sizes[index]
    left_out = [size for index, size in enumerate(sizes) if index not in kept]
    parts = [sections[index].text.rstrip() for index in sorted(kept)]
    return Cut("\n".join(parts), note(len(left_out), sum(left_out)))


def cut_note(uri: str) -> Callable[[int, int], str]:
    """Return what makes the line that says what a cut left out, and that *uri* has it."""

    def note(sections: int, tokens: int) -> str:
        return f"[cut: {counted(sections, 'section')}, ~{tokens} tokens left out; whole text: load {uri}]"

    return note


def fair_shares(sizes: Sequence[float], budget: float) -> list[float]:
    """Return each size or an equal share of *budget*, whichever is less; what small ones leave goes to the large."""
    shares = [0.0] * len(sizes)
    left = budget
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        shares[index] = min(sizes[index], left / (len(sizes) - rank))
        left -= shares[index]
    return shares


def shorten(text: str, max_tokens: float) -> str:
    """Return *text*, without its last lines and then words where it does not keep *max_tokens*."""
    for separator in ("\n", " "):
        pieces = text.split(separator)
        low, high = 0, len(pieces)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(separator.join(pieces[:middle]), max_tokens) else (low, middle - 1)
        if low:
            return separator.join(pieces[:low])
    return ""
