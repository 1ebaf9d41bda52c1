"""Texts as sentences hold them: on one line, numbers with their noun, names with those like them."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

ITEM_LENGTH = 90

SUGGESTIONS = 3
LEAST_ALIKE = 0.3
"""Share of letters that a suggestion has in common with what was sent."""

LONGEST_NAME = 200
"""Characters of a name that are compared; hardly any is longer, and preparing 4 MiB takes most of a second."""


UNSEEN = "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Characters that show nothing, but may move what is shown, or start a command of a terminal; a class of `re`.

The joiners U+200C and U+200D are letters of some scripts.
"""

HIDDEN = "\ud800-\udfff\U000e0000-\U000e007f"
"""Further ones in which a text can be hidden: halves of pairs, and tags."""


def one_line(text: str, length: int = ITEM_LENGTH) -> str:
    """Return *text* on one line without what shows nothing, cut at a word to at most *length* characters."""
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
    """Return *count* with its noun: `1 section`, `1,200 sections`; *many* is *one* with an s where it is not given."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return at most three of *known* that *name* may have been meant for, the most alike first."""
    from difflib import get_close_matches

    return get_close_matches(name[:LONGEST_NAME], known, n=SUGGESTIONS, cutoff=LEAST_ALIKE)
