"""What the processes of a server hold, as the system tells, and whether that grows."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torture import Lost

INTERVAL = 0.25
"""Seconds between two looks."""


class Sample(NamedTuple):
    """What a process holds at a moment: memory in KiB, descriptors and threads."""

    moment: float
    memory: int
    descriptors: int
    threads: int


class Figures(NamedTuple):
    """What a process held in a span of time: at its beginning, and at most later. Memory in KiB."""

    memory: float
    most_memory: int
    descriptors: int
    most_descriptors: int
    most_threads: int

    def __str__(self) -> str:
        """Return them in a line."""
        return (
            f"RSS {self.memory / 1024:.1f} -> {self.most_memory / 1024:.1f} MiB, "
            f"descriptors {self.descriptors} -> {self.most_descriptors}, threads {self.most_threads}"
        )


def figures_of(samples: Sequence[Sample], begin: float, end: float) -> Figures | None:
    """Return what a process held from *begin* to *end*; None where it was not there all the time.

    The beginning is the first quarter of the span: its median of memory, and the most of its descriptors.
    """
    quarter = begin + (end - begin) / 4
    first = [one for one in samples if begin <= one.moment < quarter]
    later = [one for one in samples if quarter <= one.moment <= end]
    if not first or not later or samples[0].moment > begin or samples[-1].moment < end - 4 * INTERVAL:
        return None
    return Figures(
        statistics.median(one.memory for one in first),
        max(one.memory for one in later),
        max(one.descriptors for one in first),
        max(one.descriptors for one in later),
        max(one.threads for one in later),
    )


def check_flat(who: str, figures: Figures, growth: float, slack: int) -> None:
    """Raise Lost where a process came to hold more than *growth* times the memory, or *slack* descriptors more."""
    if figures.most_memory > growth * figures.memory:
        raise Lost(f"the memory of {who} grows: {figures}")
    if figures.most_descriptors > figures.descriptors + slack:
        raise Lost(f"the descriptors of {who} grow: {figures}")


class Sampler:
    """Looks at a process and all below it."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.names: dict[int, str] = {}
        """What each process runs."""
        self.samples: dict[int, list[Sample]] = {}

    async def go_on(self, until: float) -> None:
        """Look again and again until the time is over."""
        while (moment := time.monotonic()) < until:
            for process in family(self._process):
                self._look(process, moment)
            await asyncio.sleep(INTERVAL)

    def _look(self, process: int, moment: float) -> None:
        folder = Path(f"/proc/{process}")
        try:
            fields = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines())
            descriptors = sum(1 for _ in (folder / "fd").iterdir())
            if process not in self.names:
                self.names[process] = _name((folder / "cmdline").read_bytes().decode().split("\0"))
        except (OSError, ValueError):  # it has just ended
            return
        if "VmRSS" in fields:
            memory = int(fields["VmRSS"].split()[0])
            self.samples.setdefault(process, []).append(Sample(moment, memory, descriptors, int(fields["Threads"])))


def _name(command: list[str]) -> str:
    """Return which part of the server a process is."""
    module, *rest = command[command.index("-m") + 1 :]
    return module.rpartition(".")[2] if "." in module else rest[0]


def family(process: int) -> Iterator[int]:
    """Yield a process and all that it, or one of those, has started."""
    yield process
    for listing in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = listing.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))
