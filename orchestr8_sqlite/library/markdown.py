"""What the body of a document tells when its front matter does not: headings, sections, bullets, sentences."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from orchestr8_sqlite.keywords import TECHNOLOGY_NAMES, extract_keywords

HEADING = re.compile(r"^(?P<level>#{1,6})[ \t]+(?P<title>\S.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$", re.MULTILINE)
BULLET = re.compile(r"^ {0,3}(?:[-*+]|\d+[.)])[ \t]+(?P<text>\S.*)$", re.MULTILINE)
NO_PROSE = ("#", "|", "<", "---", "===", "- ", "* ")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
MARKUP = re.compile(r"!?\[(?P<text>[^\]]*)\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|<[^>]{1,80}>")
MAX_ITEMS = 12
MAX_DESCRIPTION = 300
MAX_TAGS = 8


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
        for fence in FENCE.finditer(self.text):
            if not open_mark:
                open_mark = fence["mark"]
                edges.append(fence.start())
            elif fence["mark"].startswith(open_mark) and not fence["info"].strip():
                open_mark = ""
                edges.append(fence.end())
        return edges

    def is_code(self, position: int) -> bool:
        """Tell whether *position* lies in a code block."""
        return bisect_right(self.code_edges, position) % 2 == 1

    def line_at(self, position: int) -> int:
        """Return the number of line ends before *position*."""
        return self.text.count("\n", 0, position)

    @cached_property
    def headings(self) -> list[Heading]:
        """Return the headings outside code; a section ends at the next heading of its level or above."""
        found = [match for match in HEADING.finditer(self.text) if not self.is_code(match.start())]
        headings = []
        for index, match in enumerate(found):
            level = len(match["level"])
            later = (other.start() for other in found[index + 1 :] if len(other["level"]) <= level)
            headings.append(Heading(level, plain_text(match["title"]), match.end(), next(later, len(self.text))))
        return headings

    def sections(self, *titles: str) -> Iterator[Heading]:
        """Yield the headings whose casefolded title starts with one of *titles*."""
        return (heading for heading in self.headings if heading.title.casefold().startswith(titles))

    def bullets(self, section: Heading) -> Iterator[re.Match[str]]:
        """Yield the bullets of a section outside code, with their `text`."""
        for bullet in BULLET.finditer(self.text, section.start, section.end):
            if not self.is_code(bullet.start()):
                yield bullet


def first_heading(body: Body) -> str | None:
    """Return the text of the first heading."""
    return body.headings[0].title if body.headings else None


def first_paragraph(body: Body) -> str | None:
    """Return the first paragraph that is prose, as plain text of at most MAX_DESCRIPTION characters."""
    position = 0
    paragraph: list[str] = []
    for line in body.text.split("\n"):
        text = line.strip()
        if text and not text.startswith(NO_PROSE) and not body.is_code(position):
            paragraph.append(text.removeprefix("> "))
        elif paragraph:
            break
        position += len(line) + 1
    text = plain_text(" ".join(paragraph))
    if len(text) > MAX_DESCRIPTION:
        text = text[:MAX_DESCRIPTION].rpartition(" ")[0] + "…"
    return text or None


def section_bullets(body: Body, *titles: str) -> tuple[str, ...]:
    """Return the bullets of the sections whose heading starts with one of *titles* (casefolded)."""
    texts = (plain_text(bullet["text"]) for section in body.sections(*titles) for bullet in body.bullets(section))
    return tuple(dict.fromkeys(text for text in texts if extract_keywords(text)))[:MAX_ITEMS]


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a description that hold at least two keywords."""
    parts = (part.strip() for part in SENTENCE_END.split(text))
    return tuple(dict.fromkeys(part for part in parts if len(extract_keywords(part)) >= 2))[:MAX_ITEMS]


def heading_tags(title: str, body: Body) -> tuple[str, ...]:
    """Return tags for a document without any: words of its first heading, technologies its text names."""
    words = [word for word in extract_keywords(title) if len(word) > 2 or word in TECHNOLOGY_NAMES]
    technologies = [word for word in extract_keywords(body.text[:2000]) if word in TECHNOLOGY_NAMES]
    return tuple(dict.fromkeys([*words, *technologies]))[:MAX_TAGS]


def plain_text(markdown: str) -> str:
    """Return inline Markdown as the text a reader sees."""
    return " ".join(MARKUP.sub(lambda match: match["text"] or "", markdown).split())
