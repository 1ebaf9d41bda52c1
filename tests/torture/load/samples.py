"""What the processes of a server hold, as the system tells, and whether that grows."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from torture import Lost

INTERVAL = 0.1
"""Seconds between two looks."""

PEAK = 1.25
"""Times its level that memory may be for a moment: requests under way then read several indexes, one after another."""


class Sample(NamedTuple):
    """What a process holds at a moment: memory in KiB, descriptors and threads."""

    moment: float
    memory: int
    descriptors: int
    threads: int


class Figures(NamedTuple):
    """What a process held in a span of time: memory in KiB, descriptors and threads at most.

    Each is that of the first quarter of the span and, as `later_…`, the highest of another quarter. Levels of memory
    are medians of a quarter; `most` is the most of all.
    """

    level: float
    later_level: float
    most: int
    descriptors: int
    later_descriptors: int
    threads: int
    later_threads: int

    def __str__(self) -> str:
        """Return them in a line."""
        return (
            f"RSS {self.level / 1024:.1f} -> {self.later_level / 1024:.1f} MiB, {self.most / 1024:.1f} at most, "
            f"descriptors {self.descriptors} -> {self.later_descriptors}, "
            f"threads {self.threads} -> {self.later_threads}"
        )


def figures_of(samples: Sequence[Sample], looks: Sequence[float]) -> Figures | None:
    """Return what a process held at the moments of *looks*; None where it was not there at the first and the last.

    None as well where it had one thread at the first: it had not answered anything, and may still have been importing.
    """
    seen = [one for one in samples if looks[0] <= one.moment <= looks[-1]]
    if len(seen) < 4 or (seen[0].moment, seen[-1].moment) != (looks[0], looks[-1]) or seen[0].threads == 1:
        return None
    places = [len(seen) * quarter // 4 for quarter in range(5)]
    spans = [seen[begin:end] for begin, end in pairwise(places)]
    level, *levels = (statistics.median(one.memory for one in span) for span in spans)
    descriptors = [max(one.descriptors for one in span) for span in spans]
    threads = [max(one.threads for one in span) for span in spans]
    most = max(one.memory for span in spans for one in span)
    return Figures(level, max(levels), most, descriptors[0], max(descriptors[1:]), threads[0], max(threads[1:]))


def check_flat(who: str, figures: Figures, growth: float, slack: int) -> None:
    """Raise Lost where the level of memory rises to more than *growth* times, or a number by more than *slack*."""
    if figures.later_level > growth * figures.level:
        raise Lost(f"the memory of {who} grows: {figures}")
    if figures.most > growth * PEAK * figures.level:
        raise Lost(f"the memory of {who} has peaks: {figures}")
    if figures.later_descriptors > figures.descriptors + slack:
        raise Lost(f"the descriptors of {who} grow: {figures}")
    if figures.later_threads > figures.threads + slack:
        raise Lost(f"the threads of {who} grow: {figures}")


class Sampler:
    """Looks at a process and all below it."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.names: dict[int, str] = {}
        """What each process runs."""
        self.samples: dict[int, list[Sample]] = {}
        self.looks: list[float] = []
        """The moments of all looks."""

    async def go_on(self, until: float) -> None:
        """Look again and again until the time is over."""
        while (moment := time.monotonic()) < until:
            self.looks.append(moment)
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
