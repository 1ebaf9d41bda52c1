"""Measures the CPU time of each part of a build, against reading and parsing the same files."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from clock import take_turns, timed
from corpus import Corpus
from figures import Figure
from floors import read_and_parse

from orchestr8_sqlite.builder import build, precomputed, writer
from orchestr8_sqlite.library import parsing
from orchestr8_sqlite.ranking.evidence import EvidenceWriter

PARTS: Mapping[str, Sequence[tuple[Any, str]]] = {
    "reading and hashing": [(parsing, "read_source")],
    "front matter": [(parsing, "parse_document")],
    "findings": [(parsing, "note_findings")],
    "fields, references, token estimates": [(parsing, "read_fragment"), (parsing, "read_prompt")],
    "words, stems, keywords": [(build, "prepare")],
    "rows of files and fragments": [(writer.IndexWriter, "write")],
    "full-text index": [(EvidenceWriter, "add"), (writer.IndexWriter, "close")],
    "postings": [(EvidenceWriter, "close")],
    "counting words": [(writer, "count_words")],
    "resolving references": [(build, "settle_library")],
    "checks": [(build, "check_index")],
    "calibration": [(precomputed, "measure_least_coverage")],
    "precomputed answers": [(build, "settle_rows")],
    "the rest": [(build, "build_index")],
}
"""Part → its functions, named where their callers look them up. Time in a function of another part counts there."""

RUNS = 3
LARGEST = 5_000
"""Largest corpus whose parts are measured: building in one process is slow."""


class Shares:
    """CPU seconds by part. When one part calls another, the time counts only for the part that is called."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._clock = clock
        self._running: list[str] = []
        self._since = 0.0

    def of(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return *function* wrapped so that its time counts for *part*."""

        @wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the function takes and returns
            self._turn()
            self._running.append(part)
            try:
                return function(*arguments, **named)
            finally:
                self._turn()
                self._running.pop()

        return counted

    def _turn(self) -> None:
        """Add the time since the last turn to the part that was running."""
        now = self._clock()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


@contextmanager
def counting(parts: Mapping[str, Sequence[tuple[Any, str]]] = PARTS) -> Iterator[Shares]:
    """Yield the shares of the builds that run inside the block, all in this process."""
    shares = Shares()
    with ExitStack() as stack:
        # With one processor a build starts no other processes, whose time would escape the clock.
        stack.enter_context(patch.object(os, "cpu_count", lambda: 1))
        for part, functions in parts.items():
            for place, name in functions:
                stack.enter_context(patch.object(place, name, shares.of(part, getattr(place, name))))
        yield shares


def build_parts(corpus: Corpus, index: Path, runs: int = RUNS) -> list[Figure]:
    """Return the CPU seconds of each part of building *index* in one process, against reading and parsing its files."""
    seconds: dict[str, list[float]] = defaultdict(list)

    def build_once() -> float:
        index.unlink(missing_ok=True)
        with counting() as shares:
            build.build_index([corpus.root], index)
        for part in PARTS:
            seconds[part].append(shares.seconds[part])
        return sum(shares.seconds.values())

    parse = timed(lambda: read_and_parse(corpus.root), time.process_time)
    floor = take_turns({"build": build_once, "parse": parse}, runs)["parse"]
    return [
        Figure(
            f"part of a build: {part}",
            corpus.size,
            sorted(found)[len(found) // 2],
            "s",
            "read and parse YAML",
            floor,
            runs,
        )
        for part, found in seconds.items()
    ]
