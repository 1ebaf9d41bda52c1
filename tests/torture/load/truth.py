"""What may be answered when: known from what was done to the library and to the index, not from the server."""

import math
import time
from typing import NamedTuple, Protocol

from torture import Wrong
from torture.load.library import LEDGER
from torture.load.questions import Facts


class Known(NamedTuple):
    """What was known when a request was sent: the time, and the editions that answers had shown by then."""

    sent: float
    seen: dict[str, int]


class Truth(Protocol):
    """What may be answered when."""

    def now(self) -> Known:
        """Return what is known now."""

    def check(self, facts: Facts, known: Known) -> None:
        """Raise Wrong where an answer that comes now, and was asked for when so much was *known*, is not true."""


class Whole:
    """Of which edition the index in place is, and was: always of one."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, float, float]] = []

    def replaced(self, edition: int, began: float, ended: float) -> None:
        """Take note that *edition* was put in place between *began* and *ended*, and is there still."""
        if self._spans:
            before, since, _ = self._spans[-1]
            self._spans[-1] = before, since, ended
        self._spans.append((edition, began, math.inf))

    def now(self) -> Known:
        """Return what is known now."""
        return Known(time.monotonic(), {})

    def check(self, facts: Facts, known: Known) -> None:
        """Raise Wrong where an answer is not of one edition, or of one that was not in place since it was asked for."""
        editions = {edition for _, edition in facts}
        if len(editions) > 1:
            raise Wrong(f"an answer mixes the editions {sorted(editions)}")
        allowed = {edition for edition, _, ended in self._spans if ended >= known.sent}
        if not editions <= allowed:
            raise Wrong(f"an answer of edition {editions}, while only {sorted(allowed)} were in place")


class Files:
    """Of which edition each file is; an index follows them after a while, and never goes back by itself."""

    def __init__(self) -> None:
        self.written: dict[str, int] = {}
        """The newest edition of each document that is in its file, or about to be."""
        self._seen: dict[str, int] = {}
        self._went_back = 0.0

    def went_back(self) -> None:
        """Take note that an earlier index has been put in place just now."""
        self._seen.clear()
        self._went_back = time.monotonic()

    def now(self) -> Known:
        """Return what is known now."""
        return Known(time.monotonic(), dict(self._seen))

    def check(self, facts: Facts, known: Known) -> None:
        """Raise Wrong where an answer shows what was not written yet, or less than was answered before it."""
        for document, edition in facts:
            if edition > self.written[document]:
                raise Wrong(f"{document} of edition {edition}, which is not written yet")
            if document == LEDGER or known.sent <= self._went_back:
                continue  # both of its names may be seen, or an index of before was in place
            if edition < known.seen.get(document, 0):
                raise Wrong(f"{document} of edition {edition}, after edition {known.seen[document]} was answered")
            self._seen[document] = max(edition, self._seen.get(document, 0))
