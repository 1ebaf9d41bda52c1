"""Unicode normal forms in linear time.

Sorting the marks on one letter takes quadratic time: minutes for a megabyte of them. So we insert an invisible joiner
after every thirtieth mark; real text has fewer in a row.

Source: UAX #15, "Stream-Safe Text Format".
"""

import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Literal

MOST_MARKS = 30
"""Most marks in a row; the longest sequence known to be in use has 18."""

JOINER = "\u034f"
"""Combining grapheme joiner."""

LIKE_MARKS = frozenset("\u0f73\u0f75\u0f81\uff9e\uff9f")
"""Characters that are not marks but decompose into marks."""


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return *text* in a Unicode normal form, with joiners in rows of more than MOST_MARKS marks."""
    if text.isascii():
        return text
    if any(map(_is_mark, text[MOST_MARKS::MOST_MARKS])):  # every longer row contains such a position
        text = "".join(_with_joiners(text))
    return unicodedata.normalize(form, text)


def _with_joiners(text: str) -> Iterator[str]:
    for are_marks, row in groupby(text, _is_mark):
        characters = "".join(row)
        if are_marks and len(characters) > MOST_MARKS:
            starts = range(0, len(characters), MOST_MARKS)
            characters = JOINER.join(characters[start : start + MOST_MARKS] for start in starts)
        yield characters


def _is_mark(character: str) -> bool:
    return unicodedata.combining(character) > 0 or character in LIKE_MARKS
