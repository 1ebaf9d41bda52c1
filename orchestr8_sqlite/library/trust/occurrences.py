"""Where a text holds plain signs: what makes most texts cheap to look through."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
"""Of base64, as files and as addresses have it."""

IS_DIGIT = bytes(ord("a") if byte in DIGITS else ord(" ") for byte in range(256))
"""Turns every digit into an a, all else into blanks."""

LONG_RUN = b"a" * 20
"""The shortest run of digits that counts: that of the shortest secret."""


class Run(NamedTuple):
    """Where digits stand in a row, in bytes."""

    start: int
    end: int


def places_of(content: bytes, signs: Iterable[bytes]) -> Iterator[int]:
    """Yield where *content* holds each of *signs*, sign by sign."""
    for sign in signs:
        start = content.find(sign)
        while start >= 0:
            yield start
            start = content.find(sign, start + len(sign))


def statements_around(content: bytes, places: Iterable[int], longest: int) -> Iterator[tuple[int, int]]:
    """Yield the statements of *content* that hold any of *places*, once each: lines, and those that a back slash joins.

    Args:
        longest: Bytes before and behind a place that are looked at in very long ones.
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
    """Yield the long runs of digits of *content*, in their order."""
    mapped = content.translate(IS_DIGIT)
    start = mapped.find(LONG_RUN)
    while start >= 0:
        end = mapped.find(b" ", start)
        end = len(content) if end < 0 else end
        yield Run(start, end)
        start = mapped.find(LONG_RUN, end)
