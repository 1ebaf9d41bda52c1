"""Measures the first answer from a given index, by the command line and by the server."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from clock import RUNS, children_time, take_turns
from figures import Figure
from startup import DO_NOTHING, FIRST_REQUEST
from warm import Server, search

QUERY = "retry exponential backoff"
IMPORTS = "import sqlite3, typer"
"""Imports that every command needs."""


def keep_compiled_modules() -> None:
    """Let processes started from now on write compiled modules, which an installation has too."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def until_answer(command: Sequence[str], request: object = None) -> float:
    """Return the seconds from the start of *command* until it has answered *request*, or until it ends if None."""
    started = time.perf_counter()
    if request is None:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - started
    server = Server(command)
    server.ask(request)
    seconds = time.perf_counter() - started
    server.close()
    return seconds


def of_processor(command: Sequence[str], request: object = None) -> float:
    """Return the CPU seconds of the whole life of *command*: start, answer to *request*, end."""
    before = children_time()
    until_answer(command, request)
    return children_time() - before


def measure_starting(
    size: int, index: Path, cost: Callable[..., float] = until_answer, runs: int = RUNS
) -> list[Figure]:
    """Return the *cost*, in milliseconds, of first answers, each against a program that does nothing.

    All take turns. The first start of each does not count, because Python may compile modules in it.
    """
    program = [sys.executable, "-m", "orchestr8_sqlite"]
    serve, nothing = [*program, "serve", "--db", str(index)], [sys.executable, "-c", DO_NOTHING]
    actions = {
        "search": lambda: cost([*program, "search", QUERY, "--db", str(index)]),
        "imports": lambda: cost([sys.executable, "-c", IMPORTS]),
        "list": lambda: cost(serve, FIRST_REQUEST),
        "answer": lambda: cost(serve, search(QUERY)),
        "nothing": lambda: cost(nothing, FIRST_REQUEST),
    }
    take_turns(actions, 1)
    found = take_turns(actions, runs)
    figures = []
    for name, ours, floor, what in (
        ("CLI, first answer", "search", "imports", IMPORTS),
        ("server, first list", "list", "nothing", "server that does nothing"),
        ("server, first search", "answer", "nothing", "server that does nothing"),
    ):
        value = found[ours] * 1000
        figures.append(Figure(name, size, value, "ms", what, found[floor] * 1000, runs))
    return figures
