"""Measures the memory of processes, from Linux's /proc."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MEGABYTE = 1_048_576
SAMPLE_SECONDS = 0.05
SLOW_SAMPLE_SECONDS = 1.0
SLOW_AFTER_SECONDS = 60.0
"""Interval between two samples of a run, and the longer one used once it has run for SLOW_AFTER_SECONDS."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A finished run: its seconds, the peak memory of all its processes together in MB, and its output.

    `peak` is None if the system does not tell.
    """

    seconds: float
    peak: float | None
    output: str


def run_watched(command: Sequence[str]) -> Watched:
    """Run *command* and return its time, peak memory and output.

    Memory is proportional set size: pages that several processes share count once.

    Raises:
        CalledProcessError: The command failed.
    """
    peak = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            peak = max(peak, sum(map(proportional, family(process.pid))))
            late = time.perf_counter() - started > SLOW_AFTER_SECONDS
            time.sleep(SLOW_SAMPLE_SECONDS if late else SAMPLE_SECONDS)
        seconds = time.perf_counter() - started
        output.seek(0)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return Watched(seconds, peak / MEGABYTE if peak else None, output.read())


def family(pid: int) -> list[int]:
    """Return *pid* and all its descendants."""
    try:
        tasks = list((PROC / str(pid) / "task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return [pid]
    return [pid, *(below for child in children for below in family(child))]


def proportional(pid: int) -> int:
    """Return the proportional set size of a process in bytes, 0 if it has ended or the system does not tell."""
    return _kilobytes(PROC / str(pid) / "smaps_rollup", "Pss:") * 1024


def resident(pid: int) -> int:
    """Return the resident set size of a process in bytes, 0 if it has ended or the system does not tell."""
    return _kilobytes(PROC / str(pid) / "status", "VmRSS:") * 1024


def _kilobytes(file: Path, name: str) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
