"""Cuts a Markdown body to a token budget at its section boundaries, best-matching sections first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the text below it up to the next heading of the same or a higher level."""

    title: str
    text: str


def split_sections(body: str) -> list[Section]:
    """Return *body* in sections; joined by newlines they are the body again. Code is never cut."""
    sections: list[Section] = []
    title, fence = "", ""
    lines: list[str] = []
    for line in body.split("\n"):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~"):
            fence = "" if mark == fence else fence or mark
        if not fence and line.startswith(("# ", "## ", "### ")):
            if lines:
                sections.append(Section(title, "\n".join(lines)))
            title, lines = line.lstrip("# ").strip(), []
        lines.append(line)
    if lines:
        sections.append(Section(title, "\n".join(lines)))
    return sections


def cut_to_budget(body: str, keywords: Sequence[str], max_tokens: float, note: Callable[[int, int], str]) -> str:
    """Return as many whole sections of *body* as fit into *max_tokens*, in their order, and the line *note*.

    Sections are chosen by how many of *keywords* they hold, then by their order; the first one (title
    and introduction) goes before others of the same rank. The text is returned whole where it fits.

    Args:
        note: Makes the line that says what was left out from (sections left out, their tokens).
    """
    if estimate_tokens(body) <= max_tokens:
        return body
    sections = split_sections(body)
    wanted = set(keywords)
    order = sorted(range(len(sections)), key=lambda i: (-len(wanted & set(extract_keywords(sections[i].text))), i))
    sizes = [estimate_tokens(section.text) + 1 for section in sections]
    room = max_tokens - estimate_tokens(note(len(sections), sum(sizes))) - 1
    kept: set[int] = set()
    for index in order:
        if sizes[index] <= room:
            kept.add(index)
            room -= sizes[index]
    left_out = [size for index, size in enumerate(sizes) if index not in kept]
    parts = [sections[index].text.rstrip() for index in sorted(kept)]
    return "\n".join([*parts, note(len(left_out), sum(left_out))])
