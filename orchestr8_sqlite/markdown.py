"""Markdown as far as this package needs to understand it: headings, bullets, and which parts are code."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

HEADING = re.compile(r"\n(?P<level>#{1,6})[ \t]+(?P<title>\S.*?)(?:[ \t]+#+)?[ \t]*$", re.MULTILINE)
FENCE = re.compile(r"\n {0,3}(?P<mark>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>.*)$", re.MULTILINE)
"""A line with the line end before it: to look for line ends is ten times as fast as to ask whether one was before.

In a text with a line end put before it, a match begins where its line begins in the text itself.
"""

BULLET = re.compile(r"^ {0,3}(?:[-*+]|\d+[.)])[ \t]+(?P<text>\S.*)$", re.MULTILINE)
MARKUP_SIGN = re.compile(r"[\[*`_<]")
MARKUP = re.compile(
    r"""
      !?\[(?P<text>[^\]]*)\]\([^)]*\)                  # links and images: their text
    | [*`]{1,3}(?=\S) | (?<=\S)[*`]{1,3}              # emphasis and code
    | (?<!\w)_{1,3}(?=\S) | (?<=\S)_{1,3}(?!\w)       # emphasis, not snake_case
    | </?[A-Za-z][^>]{0,80}>                          # HTML tags
    """,
    re.VERBOSE,
)

DEEPEST = 6
"""Level of the lowest headings."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading outside code; `start` and `end` are where its section's text begins and ends."""

    level: int
    title: str
    start: int
    end: int


@dataclass(frozen=True)
class Body:
    """A Markdown text that knows which parts of it are code blocks."""

    text: str

    @cached_property
    def code_edges(self) -> list[int]:
        """Return the positions at which code begins and ends, in turn."""
        edges: list[int] = []
        open_mark = ""
        for fence in FENCE.finditer("\n" + self.text):
            if not open_mark:
                open_mark = fence["mark"]
                edges.append(fence.start())
            elif fence["mark"].startswith(open_mark) and not fence["info"].strip():
                open_mark = ""
                edges.append(fence.end() - 1)
        return edges

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
        return self.text.count("\n", 0, position)

    @cached_property
    def headings(self) -> list[Heading]:
        """Return the headings outside code; a section ends at the next heading of its level or above."""
        edges = self.code_edges
        found = [match for match in HEADING.finditer("\n" + self.text) if not bisect_right(edges, match.start()) % 2]
        headings = []
        ends = [len(self.text)] * (DEEPEST + 1)
        for match in reversed(found):
            level = len(match["level"])
            headings.append(Heading(level, plain_text(match["title"]), match.end() - 1, ends[level]))
            ends[level:] = [match.start()] * (DEEPEST + 1 - level)
        return headings[::-1]

    def sections(self, *titles: str) -> Iterator[Heading]:
        """Yield the headings whose casefolded title starts with one of *titles*."""
        return (heading for heading in self.headings if heading.title.casefold().startswith(titles))

    def bullets(self, section: Heading) -> Iterator[re.Match[str]]:
        """Yield the bullets of a section outside code, with their `text`."""
        for bullet in BULLET.finditer(self.text, section.start, section.end):
            if not self.is_code(bullet.start()):
                yield bullet


def plain_text(markdown: str) -> str:
    """Return inline Markdown as the text a reader sees."""
    if MARKUP_SIGN.search(markdown):
        markdown = MARKUP.sub(lambda match: match["text"] or "", markdown)
    return " ".join(markdown.split())
