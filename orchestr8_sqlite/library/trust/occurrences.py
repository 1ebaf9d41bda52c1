"""Finds fixed strings in a text, which makes most texts cheap to check."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
"""Base64 digits, of both the standard and the URL-safe alphabet."""

IS_DIGIT = bytes(ord("a") if byte in DIGITS else ord(" ") for byte in range(256))
"""Translation table: digits → a, everything else → blank."""

LONG_RUN = b"a" * 20
"""The shortest run of digits that counts, as long as that of the shortest secret."""


class Run(NamedTuple):
    """Start and end of a run of digits, in bytes."""

    start: int
    end: int


def places_of(content: bytes, signs: Iterable[bytes]) -> Iterator[int]:
    """Yield the positions of each of *signs* in *content*, sign by sign."""
    for sign in signs:
        start = content.find(sign)
        while start >= 0:
            yield start
            start = content.find(sign, start + len(sign))


def statements_around(content: bytes, places: Iterable[int], longest: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the statements in *content* around *places*, once each: lines, joined at back slashes.

    Args:
        longest: Bytes before and after a place to include at most, if the statement is very long.
    """
    done = 0
    for place in sorted(places):
        if place < done:
            continue
        start = max(done, place - longest, content.rfind(b"\n", done, place) + 1)
        end = content.find(b"\n", place, place + longest)
        while end > 0 and content[end - 1 : end] == b"\\" and end - start < longest:
            end = content.find(b"\n", end + 1, end + longest)
        done = end if end >= 0 else min(len(content), place + longest)
        yield start, done


def runs_of_digits(content: bytes) -> Iterator[Run]:
    """Yield the long runs of digits in *content*, in order."""
    mapped = content.translate(IS_DIGIT)
    start = mapped.find(LONG_RUN)
    while start >= 0:
        end = mapped.find(b" ", start)
        end = len(content) if end < 0 else end
        yield Run(start, end)
        start = mapped.find(LONG_RUN, end)
