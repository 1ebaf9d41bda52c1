"""What a first answer costs on a given index: of the command line, and of the server."""

import sys
from collections.abc import Sequence
from pathlib import Path

from clock import RUNS, take_turns
from figures import Figure
from startup import DO_NOTHING, FIRST_REQUEST, IMPORTS, life, whole_run
from warm import search

QUERY = "retry exponential backoff"


def measure_starting(size: int, index: Path, runs: int = RUNS) -> list[Figure]:
    """Return the milliseconds from a start until an answer, each beside a program that does nothing, in turn."""
    program = [sys.executable, "-m", "orchestr8_sqlite"]
    serve, nothing = [*program, "serve", "--db", str(index)], [sys.executable, "-c", DO_NOTHING]
    found = take_turns(
        {
            "search": lambda: whole_run([*program, "search", QUERY, "--db", str(index)]),
            "imports": lambda: whole_run([sys.executable, "-c", IMPORTS]),
            "list": lambda: _first_answer(serve, FIRST_REQUEST),
            "answer": lambda: _first_answer(serve, search(QUERY)),
            "nothing": lambda: _first_answer(nothing, FIRST_REQUEST),
        },
        runs,
    )
    figures = []
    for name, ours, floor, what in (
        ("CLI, first answer", "search", "imports", f"python -c '{IMPORTS}'"),
        ("server, first list", "list", "nothing", "server that does nothing"),
        ("server, first search", "answer", "nothing", "server that does nothing"),
    ):
        value = found[ours] * 1000
        figures.append(Figure(name, size, value, "ms", what, found[floor] * 1000, runs))
    return figures


def _first_answer(command: Sequence[str], request: object) -> float:
    return life(command, request)[1]
