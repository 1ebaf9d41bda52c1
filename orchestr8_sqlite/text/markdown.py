"""The parts of Markdown that this package needs: headings, bullets, and which parts are code."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

OUTLINE = re.compile(
    r"""
    \n(?=[`~#]|[ ]{1,3}[`~])                                     # rules out most lines at once
    (?:(?P<level>\#{1,6})[ \t]+(?P<title>\S.*)                  # a heading
        |[ ]{0,3}(?P<mark>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>.*))   # a line that opens or closes a block of code
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Headings and the first and last lines of code blocks, each after a line end."""

CLOSING = re.compile(r"(?<![ \t])[ \t]+#+[ \t]*$")
BULLET = re.compile(r"^ {0,3}(?:[-*+]|\d+[.)])[ \t]+(?P<text>\S.*)$", re.MULTILINE)
MARKUP_SIGN = re.compile(r"[\[*`_<]")
MARKUP = re.compile(
    r"""
      !?\[(?P<text>[^\[\]]{0,500}+)\]\([^)]{0,2000}+\)   # links and images: their text
    | [*`]{1,3}(?=\S) | (?<=\S)[*`]{1,3}              # emphasis and code
    | (?<!\w)_{1,3}(?=\S) | (?<=\S)_{1,3}(?!\w)       # emphasis, not snake_case
    | </?[A-Za-z][^>]{0,80}+>                         # HTML tags
    """,
    re.VERBOSE,
)

DEEPEST = 6
"""Number of heading levels."""


class Heading(NamedTuple):
    """A heading outside code; `start` and `end` are the positions where its section's text begins and ends."""

    level: int
    title: str
    start: int
    end: int


@dataclass(frozen=True)
class Body:
    """A Markdown text that knows which parts of it are code blocks."""

    text: str

    @cached_property
    def _outline(self) -> tuple[list[int], list[re.Match[str]]]:
        """Return the positions at which code begins and ends, alternating, and the headings outside it."""
        edges: list[int] = []
        headings: list[re.Match[str]] = []
        open_mark = ""
        for line in OUTLINE.finditer("\n" + self.text):
            mark = line["mark"]
            if mark is None:
                if not open_mark:
                    headings.append(line)
            elif not open_mark:
                open_mark = mark
                edges.append(line.start())
            elif mark.startswith(open_mark) and not line["info"].strip():
                open_mark = ""
                edges.append(line.end() - 1)
        return edges, headings

    @property
    def code_edges(self) -> list[int]:
        """Return the positions at which code begins and ends, alternating."""
        return self._outline[0]

    def is_code(self, position: int) -> bool:
        """Tell whether *position* lies in a code block."""
        return bisect_right(self.code_edges, position) % 2 == 1

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield each line with its position."""
        start = 0
        while (end := self.text.find("\n", start)) >= 0:
            yield start, self.text[start:end]
            start = end + 1
        yield start, self.text[start:]

    def line_at(self, position: int) -> int:
        """Return the number of line ends before *position*."""
        return bisect_left(self._line_ends, position)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    @cached_property
    def headings(self) -> list[Heading]:
        """Return the headings outside code; a section ends at the next heading of its level or above."""
        headings = []
        ends = [len(self.text)] * (DEEPEST + 1)
        for line in reversed(self._outline[1]):
            signs, title = line["level"], line["title"]
            level = len(signs)
            title = plain_text(CLOSING.sub("", title) if "#" in title else title)
            headings.append(Heading(level, title, line.end() - 1, ends[level]))
            ends[level:] = [line.start()] * (DEEPEST + 1 - level)
        return headings[::-1]

    @cached_property
    def _written_titles(self) -> str:
        return "\n".join([line["title"] for line in self._outline[1]]).casefold()

    def sections(self, *titles: str) -> Iterator[Heading]:
        """Yield the headings whose casefolded title starts with one of *titles*."""
        written = self._written_titles  # cheaper than parsing titles, and few texts have such a section
        if any(all(word in written for word in title.split()) for title in titles):
            yield from (heading for heading in self.headings if heading.title.casefold().startswith(titles))

    def bullets(self, section: Heading) -> Iterator[re.Match[str]]:
        """Yield the bullets of a section outside code; the group `text` is the bullet's text."""
        for bullet in BULLET.finditer(self.text, section.start, section.end):
            if not self.is_code(bullet.start()):
                yield bullet


def plain_text(markdown: str) -> str:
    """Return the text of inline Markdown as a reader sees it."""
    if MARKUP_SIGN.search(markdown):
        markdown = MARKUP.sub(lambda match: match["text"] or "", markdown)
    return " ".join(markdown.split())
