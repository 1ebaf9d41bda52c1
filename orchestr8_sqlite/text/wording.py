"""Texts for messages: on one line, numbers with their noun, names with similar ones."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

ITEM_LENGTH = 90

SUGGESTIONS = 3
LEAST_ALIKE = 0.3
"""Share of letters that a suggestion must have in common with what was sent."""

LONGEST_NAME = 200
"""Characters of a name that are compared; few are longer, and comparing 4 MiB takes most of a second."""


UNSEEN = "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Characters that are invisible but may move what is shown or begin a terminal command; a character class of `re`.

The joiners U+200C and U+200D are not among them: some scripts need them.
"""

HIDDEN = "\ud800-\udfff\U000e0000-\U000e007f"
"""More characters that can hide a text: lone surrogates and tags."""


def one_line(text: str, length: int = ITEM_LENGTH) -> str:
    """Return *text* on one line without invisible characters, cut at a word to at most *length* characters."""
    line = " ".join(text.split())
    if not line.isprintable():
        line = " ".join(_unseen().sub("", line).split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"


@cache
def _unseen() -> "re.Pattern[str]":
    import re

    return re.compile(f"[{UNSEEN}{HIDDEN}]")


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return *count* with its noun: `1 section`, `1,200 sections`; *many* defaults to *one* with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return up to SUGGESTIONS of *known* that *name* may have meant, the most similar first."""
    from difflib import get_close_matches

    return get_close_matches(name[:LONGEST_NAME], known, n=SUGGESTIONS, cutoff=LEAST_ALIKE)
