"""Start-up times as ratios, median of nine runs each, in one go on this machine.

    search, cold       against `python -c "import sqlite3, typer"`                    bound 2.5
    serve, first reply against a server on the same SDK that does nothing             bound 1.3

Usage: python bench/startup.py [INDEX]   (without INDEX: the bundled one)
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

RUNS = 9
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
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


def whole_run(command: Sequence[str]) -> float:
    """Return the seconds that *command* takes."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def first_reply(command: Sequence[str]) -> float:
    """Return the seconds until the server *command* has answered a handshake."""
    started = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(INITIALIZE) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    seconds = time.perf_counter() - started
    server.communicate()
    return seconds


def compare(name: str, measure: Callable[[Sequence[str]], float], ours: Sequence[str], floor: Sequence[str]) -> None:
    """Print the medians of both commands, run in turn, and their ratio."""
    times = [(measure(ours), measure(floor)) for _ in range(RUNS)]
    our, base = (statistics.median(column) for column in zip(*times, strict=True))
    sys.stdout.write(f"{name:<22}{our * 1000:8.0f} ms  floor {base * 1000:6.0f} ms  ratio {our / base:5.2f}\n")


def main() -> None:
    """Print one line a comparison."""
    index = ["--db", sys.argv[1]] if len(sys.argv) > 1 else []
    program = [sys.executable, "-m", "orchestr8_sqlite"]
    search = [*program, "search", "retry exponential backoff", *index]
    compare("search, cold", whole_run, search, [sys.executable, "-c", "import sqlite3, typer"])
    compare("serve, first reply", first_reply, [*program, "serve", *index], [sys.executable, "-c", DO_NOTHING])


if __name__ == "__main__":
    main()
