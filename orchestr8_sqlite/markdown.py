"""Markdown as far as this package needs to understand it: headings, bullets, and which parts are code."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

HEADING = re.compile(r"(?P<level>#{1,6})[ \t]+(?P<title>\S.*)")
CLOSING = re.compile(r"[ \t]+#+[ \t]*$")
FENCE = re.compile(r" {0,3}(?P<mark>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>.*)", re.MULTILINE)
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
        for start in sorted({*_lines_with("```", self.text), *_lines_with("~~~", self.text)}):
            fence = FENCE.match(self.text, start)
            if fence and not open_mark:
                open_mark = fence["mark"]
                edges.append(start)
            elif fence and fence["mark"].startswith(open_mark) and not fence["info"].strip():
                open_mark = ""
                edges.append(fence.end())
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
        headings = []
        ends = [len(self.text)] * (DEEPEST + 1)
        for start in reversed(list(_lines_from("#", self.text))):
            heading = HEADING.match(self.text, start)
            if heading and not self.is_code(start):
                level = len(heading["level"])
                title = plain_text(CLOSING.sub("", heading["title"]) if "#" in heading["title"] else heading["title"])
                headings.append(Heading(level, title, heading.end(), ends[level]))
                ends[level:] = [start] * (DEEPEST + 1 - level)
        return headings[::-1]

    @cached_property
    def _folded_titles(self) -> list[str]:
        return [heading.title.casefold() for heading in self.headings]

    def sections(self, *titles: str) -> Iterator[Heading]:
        """Yield the headings whose casefolded title starts with one of *titles*."""
        folded = zip(self._folded_titles, self.headings, strict=True)
        return (heading for title, heading in folded if title.startswith(titles))

    def bullets(self, section: Heading) -> Iterator[re.Match[str]]:
        """Yield the bullets of a section outside code, with their `text`."""
        for bullet in BULLET.finditer(self.text, section.start, section.end):
            if not self.is_code(bullet.start()):
                yield bullet


def _lines_with(sign: str, text: str) -> Iterator[int]:
    """Yield where the lines of *text* begin that hold *sign*."""
    at = text.find(sign)
    while at >= 0:
        yield text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        at = text.find(sign, end) if end >= 0 else -1


def _lines_from(sign: str, text: str) -> Iterator[int]:
    """Yield where the lines of *text* begin that begin with *sign*."""
    if text.startswith(sign):
        yield 0
    at = text.find("\n" + sign)
    while at >= 0:
        yield at + 1
        at = text.find("\n" + sign, at + 1)


def plain_text(markdown: str) -> str:
    """Return inline Markdown as the text a reader sees."""
    if MARKUP_SIGN.search(markdown):
        markdown = MARKUP.sub(lambda match: match["text"] or "", markdown)
    return " ".join(markdown.split())
