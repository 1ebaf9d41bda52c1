"""Measures building: the whole corpus, nothing changed, one file changed; peak memory and size of the index."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from clock import RUNS, Clock, runs_for, take_turns, timed
from corpus import Corpus
from figures import Figure
from floors import copy_synced, stat_files
from footprint import MEGABYTE, run_watched

from orchestr8_sqlite.builder.build import build_index

QUICK, QUICK_RUNS = 0.5, 15
"""A rebuild faster than QUICK seconds is repeated QUICK_RUNS times."""

FLOORS = Path(__file__).with_name("floors.py")


def measure_building(corpus: Corpus, index: Path) -> list[Figure]:
    """Return the figures of building *index* from *corpus*; leave the index in place."""
    index.unlink(missing_ok=True)  # an index of an earlier run would only be updated
    first = run_watched(build_command(corpus, index))
    report = json.loads(first.output)
    size, fragments = corpus.size, int(report["fragments"])
    runs = runs_for(first.seconds)
    figures = whole_builds(corpus, build_anew(corpus, index) if runs > 1 else lambda: first.seconds, runs)
    seconds = figures[0].value
    stages: Mapping[str, float] = report.get("stages", {})
    figures += [Figure(f"build, {stage}", size, float(taken), "s", runs=1) for stage, taken in stages.items()]
    figures.append(Figure("build, speed", size, fragments / seconds, "fragments/s", runs=figures[0].runs))
    if first.peak is not None:
        figures.append(Figure("build, peak memory", size, first.peak, "MB", runs=1))
    figures.append(
        Figure("index", size, index.stat().st_size / MEGABYTE, "MB", "text of the library", corpus.bytes / MEGABYTE)
    )
    figures += no_change(corpus, index)
    return figures + one_change(corpus, index, seconds)


def build_command(corpus: Corpus, index: Path) -> list[str]:
    """Return the command that builds *index* and prints its report as JSON."""
    return [sys.executable, "-m", "orchestr8_sqlite", "build", str(corpus.root), "-o", str(index), "--json"]


def build_anew(corpus: Corpus, index: Path, clock: Clock = time.perf_counter) -> Callable[[], float]:
    """Return a function that builds *index* from scratch in a process and returns the seconds by *clock*."""

    def build() -> None:
        index.unlink(missing_ok=True)
        subprocess.run(build_command(corpus, index), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    return timed(build, clock)


def whole_builds(
    corpus: Corpus, build: Callable[[], float], runs: int, clock: Clock = time.perf_counter
) -> list[Figure]:
    """Return the seconds of *build*, alone and against parsing the same files in a process; the two take turns."""

    def parse() -> None:
        command = [sys.executable, str(FLOORS), str(corpus.root)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    found = take_turns({"build": build, "parse": timed(parse, clock)}, runs)
    return [
        Figure("build", corpus.size, found["build"], "s", runs=runs),
        Figure("build", corpus.size, found["build"], "s", "read and parse YAML", found["parse"], runs),
    ]


def no_change(corpus: Corpus, index: Path, most: int = RUNS, clock: Clock = time.perf_counter) -> list[Figure]:
    """Return the milliseconds of a rebuild when nothing has changed, alone and against its floor.

    Args:
        most: The most runs for a slow rebuild.
    """
    build = timed(lambda: build_index([corpus.root], index), clock)
    first = build()
    runs = QUICK_RUNS if first < QUICK else min(most, runs_for(first))
    found = take_turns({"build": build, "stat": timed(lambda: stat_files(corpus.root), clock)}, runs)
    value, floor = found["build"] * 1000, found["stat"] * 1000
    name = "no-change rebuild"
    return [
        Figure(name, corpus.size, value, "ms", runs=runs),
        Figure(name, corpus.size, value, "ms", "stat the files", floor, runs),
    ]


def one_change(corpus: Corpus, index: Path, whole: float) -> list[Figure]:
    """Return the milliseconds of a rebuild after one file has changed, alone, against a whole build and its floor.

    The files and the index are restored afterwards.

    Args:
        whole: Seconds of a whole build.
    """
    saved = corpus.some_files(RUNS + 1)
    before = {path: (path.read_bytes(), path.stat()) for path in saved}
    turns = count()

    def build() -> float:
        path = saved[next(turns)]
        path.write_bytes(before[path][0] + b"\nOne more line.\n")
        return timed(lambda: build_index([corpus.root], index))()

    def floor() -> None:
        stat_files(corpus.root)
        copy_synced(index, index.with_suffix(".copy"))

    runs = runs_for(build())
    found = take_turns({"build": build, "floor": timed(floor)}, runs)
    for path, (content, status) in before.items():
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    index.with_suffix(".copy").unlink()
    build_index([corpus.root], index)
    value, base = found["build"] * 1000, found["floor"] * 1000
    name = "one changed file"
    return [
        Figure(name, corpus.size, value, "ms", runs=runs),
        Figure(name, corpus.size, value, "ms", "build", whole * 1000, runs),
        Figure(name, corpus.size, value, "ms", "stat the files, copy the index", base, runs),
    ]
