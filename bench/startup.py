"""Measures start-up times as ratios: medians of nine runs that take turns in one go on this machine.

    commands            against `python -c "import sqlite3, typer"`, the minimum for any typer command
    serve, first answer from spawn to the answer to `tools/list` after a handshake, against a server on the same SDK
                        that does nothing
    serve, end          from end of input to the end of the process, against the same server
    doctor              a whole run, which starts a server, against the whole life of the server that does nothing

Each is given in wall time and in CPU time. Other programs disturb CPU time less, so the bounds apply to it wherever it
is known. `build`, `lint`, `eval` and `export` get one fragment, so that their start is most of the time. Compiled
modules are kept, as in an installation: the first run of each is not counted.

Usage: python bench/startup.py [INDEX]   (without INDEX: the bundled one)
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RUNS = 9
COMMAND_FLOOR = (sys.executable, "-c", "import sqlite3, typer")
PROGRAM = (sys.executable, "-m", "orchestr8_sqlite")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

COMMAND_BOUNDS = {
    "search": 1.8,
    "load": 1.8,
    "sql": 1.4,
    "stats": 1.4,
    "path": 1.4,
    "export": 1.4,
    "install": 1.6,
    "help": 1.6,
    "lint": None,
    "build": None,
    "eval": None,
}
"""The largest multiple of the floor for each command; None if a library that it needs dominates its start."""

SERVER_BOUNDS = {"serve, first answer": 1.15, "serve, end": 1.0}

FRAGMENT = (
    "---\ntitle: Retry\ntags: [retry]\nuseWhen: [Retrying a flaky call]\n---\n# Retry\n\nWait longer each time.\n"
)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
FIRST_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
DO_NOTHING = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def main():
    server = Server("nothing", version="1")
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())

anyio.run(main)
"""


class Spent(NamedTuple):
    """Seconds of wall time and of CPU time; the latter is 0 if it is not known."""

    clock: float
    processor: float

    def since(self, before: "Spent") -> "Spent":
        """Return the time spent since *before*."""
        return Spent(self.clock - before.clock, self.processor - before.processor)


class Life(NamedTuple):
    """Time that a server spent until it answered, from the end of its input to its own end, and altogether."""

    answer: Spent
    end: Spent
    whole: Spent


def whole_run(command: Sequence[str]) -> Spent:
    """Return the time of a whole run of *command*. `doctor` may fail, because it reports what it finds.

    Raises:
        CalledProcessError: Any other command failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    spent = _end_of(process, started)
    if process.returncode and "doctor" not in command:
        raise subprocess.CalledProcessError(process.returncode, command)
    return spent


def life(command: Sequence[str]) -> Life:
    """Return the time that the server *command* spends on a handshake and one request, and on its end."""
    started = time.perf_counter()
    server = subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(INITIALIZE) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    server.stdin.write(json.dumps(INITIALIZED) + "\n" + json.dumps(FIRST_REQUEST) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    answered = _so_far(server, started)
    server.stdin.close()
    ended = _end_of(server, started)
    server.stdout.close()
    return Life(answered, ended.since(answered), ended)


def _so_far(process: "subprocess.Popen[str]", started: float) -> Spent:
    """Return the time that a running process has spent; its CPU time is known on Linux, usually to 1/100 s."""
    clock = time.perf_counter() - started
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except FileNotFoundError:
        return Spent(clock, 0)
    return Spent(clock, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def _end_of(process: "subprocess.Popen[str] | subprocess.Popen[bytes]", started: float) -> Spent:
    """Wait for *process* to end and return the time it has spent."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(time.perf_counter() - started, usage.ru_utime + usage.ru_stime)


def commands(index: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """Return command → arguments; commands read *index* and write into *folder*, where this makes a small library."""
    library, small = folder / "library", str(folder / "small.db")
    (library / "skills").mkdir(parents=True)
    (library / "skills" / "retry.md").write_text(FRAGMENT, encoding="utf-8")
    subprocess.run([*PROGRAM, "build", str(library), "-o", small], env=ENVIRONMENT, check=True, capture_output=True)
    return {
        "search": ["search", "retry exponential backoff", *index],
        "load": ["load", "orchestr8://match?query=retry", *index],
        "sql": ["sql", "SELECT 1", *index],
        "stats": ["stats", *index],
        "path": ["path", *index],
        "export": ["export", "-o", str(folder / "export"), "--db", small],
        "install": ["install", "cursor", *index],
        "help": ["--help"],
        "lint": ["lint", str(library)],
        "build": ["build", str(library), "-o", str(folder / "built.db")],
        "eval": ["eval", "--self", "--db", small],
    }


def print_comparison(name: str, ours: Sequence[Spent], floor: Sequence[Spent], bound: float | None = None) -> None:
    """Print the medians of two commands, their ratios, and whether *bound* holds for the last ratio that is known."""
    line = f"{name:<20}"
    ratio = 0.0
    for place, unit in enumerate(Spent._fields):
        our, base = (statistics.median(spent[place] for spent in runs) for runs in (ours, floor))
        if base:
            ratio = our / base
            line += f"{unit:>11} {our * 1000:6.0f} ms / {base * 1000:5.0f} ms = {ratio:5.2f}"
    if bound is not None:
        line += f"   bound {bound:.2f} {'held' if ratio <= bound else 'MISSED'}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def compare_commands(index: Sequence[str]) -> None:
    """Print one line per command."""
    with tempfile.TemporaryDirectory() as folder:
        named = {name: [*PROGRAM, *arguments] for name, arguments in commands(index, Path(folder)).items()}
        for command in named.values():
            whole_run(command)
        runs = [
            {name: whole_run(command) for name, command in {"": COMMAND_FLOOR, **named}.items()} for _ in range(RUNS)
        ]
    for name, bound in COMMAND_BOUNDS.items():
        print_comparison(name, [run[name] for run in runs], [run[""] for run in runs], bound)


def compare_servers(index: Sequence[str]) -> None:
    """Print one line per stage of a server's life, and one for `doctor`, which starts a server."""
    serve, nothing = [*PROGRAM, "serve", *index], [sys.executable, "-c", DO_NOTHING]
    doctor = [*PROGRAM, "doctor", *index]
    life(serve)
    lives = [(life(serve), life(nothing), whole_run(doctor)) for _ in range(RUNS)]
    for place, (name, bound) in enumerate(SERVER_BOUNDS.items()):
        print_comparison(name, [ours[place] for ours, _, _ in lives], [floor[place] for _, floor, _ in lives], bound)
    print_comparison("doctor", [run for _, _, run in lives], [floor.whole for _, floor, _ in lives])


def main() -> None:
    """Print one line per comparison."""
    index = ["--db", sys.argv[1]] if len(sys.argv) > 1 else []
    compare_commands(index)
    compare_servers(index)


if __name__ == "__main__":
    main()
