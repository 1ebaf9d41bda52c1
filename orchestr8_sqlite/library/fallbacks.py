"""Metadata taken from the body of a document when its front matter lacks it: title, description, lists, tags."""

import re
from typing import NamedTuple

from orchestr8_sqlite.text.keywords import TECHNOLOGY_NAMES, extract_keywords, has_keywords
from orchestr8_sqlite.text.markdown import Body, plain_text

NO_PROSE = re.compile(r"#|\||<|---|===|[-*+] |[a-z][\w-]{0,30}:(?: |$)", re.ASCII)
"""Start of a line that is not prose: headings, tables, HTML, rules, bullets, fields outside front matter."""

LIST_MARK = re.compile(r"(?:\d{1,3}[.)]|[-*+])\s")
LABEL = re.compile(r"^(?:\W{0,3}[A-Z][\w-]{0,30}){1,3}:\W")
"""The label of a form entry such as `Status: accepted`; its words do not describe a need."""

FEWEST_WORDS = 4
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
MAX_ITEMS = 12
MAX_DESCRIPTION = 300
MAX_TAGS = 8


class Title(NamedTuple):
    """The text of a level-1 heading, and whether the document opens with it."""

    text: str
    opens: bool


def first_title(body: Body) -> Title | None:
    """Return the first level-1 heading."""
    found = next((heading for heading in body.headings if heading.level == 1), None)
    return None if found is None else Title(found.title, body.line_at(found.start) == 0)


def first_paragraph(body: Body) -> str | None:
    """Return the first paragraph that is prose, as plain text of at most MAX_DESCRIPTION characters."""
    paragraph: list[str] = []
    for position, line in body.lines():
        text = line.strip()
        if text and not NO_PROSE.match(text) and not body.is_code(position):
            paragraph.append(text.removeprefix("> "))
        elif paragraph:
            break
    text = plain_text(" ".join(paragraph))
    if len(text) > MAX_DESCRIPTION:
        cut = text[:MAX_DESCRIPTION]
        text = (cut.rpartition(" ")[0] or cut) + "…"
    return text or None


def needs(text: str) -> tuple[str, ...]:
    """Return the sentences of a paragraph that can describe a need: no list items, form entries or short ones."""
    return tuple(sentence for sentence in sentences(text) if _is_need(sentence))


def _is_need(sentence: str) -> bool:
    if LIST_MARK.match(sentence):
        return False
    return len(LABEL.sub("", sentence).split()) >= FEWEST_WORDS or not sentence.isascii()


def section_bullets(body: Body, *titles: str) -> tuple[str, ...]:
    """Return the bullets of the sections whose heading starts with one of *titles* (casefolded)."""
    texts = (plain_text(bullet["text"]) for section in body.sections(*titles) for bullet in body.bullets(section))
    return tuple(dict.fromkeys(text for text in texts if has_keywords(text)))[:MAX_ITEMS]


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a description that hold at least two keywords."""
    parts = (part.strip() for part in SENTENCE_END.split(text))
    return tuple(dict.fromkeys(part for part in parts if len(extract_keywords(part)) >= 2))[:MAX_ITEMS]


def heading_tags(title: str, body: Body) -> tuple[str, ...]:
    """Return tags for a document without any: words of its title, then technologies named in its text."""
    words = [word for word in extract_keywords(title) if len(word) > 2 or word in TECHNOLOGY_NAMES]
    technologies = [word for word in extract_keywords(body.text[:2000]) if word in TECHNOLOGY_NAMES]
    return tuple(dict.fromkeys([*words, *technologies]))[:MAX_TAGS]
