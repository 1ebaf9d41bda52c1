"""Helps to word messages: texts on one line, counts with their noun, suggestions for a wrong name."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

ITEM_LENGTH = 90

SUGGESTIONS = 3
LEAST_ALIKE = 0.3
"""Least similarity of a suggestion to the given name, 0 to 1 (difflib's ratio)."""

LONGEST_NAME = 200
"""Most characters of a name to compare; few names are longer, and comparing 4 MiB takes most of a second."""


UNSEEN = "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Invisible characters that may reorder the shown text or begin a terminal command; a character class of `re`.

The joiners U+200C and U+200D are not included, because some scripts need them.
"""

HIDDEN = "\ud800-\udfff\U000e0000-\U000e007f"
"""More characters that can hide text: lone surrogates and tags."""


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
    """Return up to SUGGESTIONS names from *known* that *name* may mean, the most similar first."""
    from difflib import get_close_matches

    return get_close_matches(name[:LONGEST_NAME], known, n=SUGGESTIONS, cutoff=LEAST_ALIKE)
