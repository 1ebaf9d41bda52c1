"""What the body of a document tells when its front matter does not: title, description, lists, tags."""

import re

from orchestr8_sqlite.text.keywords import TECHNOLOGY_NAMES, extract_keywords, has_keywords
from orchestr8_sqlite.text.markdown import Body, plain_text

NO_PROSE = ("#", "|", "<", "---", "===", "- ", "* ")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
MAX_ITEMS = 12
MAX_DESCRIPTION = 300
MAX_TAGS = 8


def first_heading(body: Body) -> str | None:
    """Return the text of the first heading."""
    return body.headings[0].title if body.headings else None


def first_paragraph(body: Body) -> str | None:
    """Return the first paragraph that is prose, as plain text of at most MAX_DESCRIPTION characters."""
    paragraph: list[str] = []
    for position, line in body.lines():
        text = line.strip()
        if text and not text.startswith(NO_PROSE) and not body.is_code(position):
            paragraph.append(text.removeprefix("> "))
        elif paragraph:
            break
    text = plain_text(" ".join(paragraph))
    if len(text) > MAX_DESCRIPTION:
        cut = text[:MAX_DESCRIPTION]
        text = (cut.rpartition(" ")[0] or cut) + "…"
    return text or None


def section_bullets(body: Body, *titles: str) -> tuple[str, ...]:
    """Return the bullets of the sections whose heading starts with one of *titles* (casefolded)."""
    texts = (plain_text(bullet["text"]) for section in body.sections(*titles) for bullet in body.bullets(section))
    return tuple(dict.fromkeys(text for text in texts if has_keywords(text)))[:MAX_ITEMS]


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a description that hold at least two keywords."""
    parts = (part.strip() for part in SENTENCE_END.split(text))
    return tuple(dict.fromkeys(part for part in parts if len(extract_keywords(part)) >= 2))[:MAX_ITEMS]


def heading_tags(title: str, body: Body) -> tuple[str, ...]:
    """Return tags for a document without any: words of its first heading, technologies its text names."""
    words = [word for word in extract_keywords(title) if len(word) > 2 or word in TECHNOLOGY_NAMES]
    technologies = [word for word in extract_keywords(body.text[:2000]) if word in TECHNOLOGY_NAMES]
    return tuple(dict.fromkeys([*words, *technologies]))[:MAX_TAGS]
