"""Start-up times as ratios, median of nine runs each, in turn, in one go on this machine.

    search, cold        against `python -c "import sqlite3, typer"`                   bound 2.5
    serve, handshake    spawn to the answer to `initialize`, against a server on the same SDK that does nothing
    serve, first answer spawn to the answer to `tools/list` behind it, against that   bound 1.15
    serve, end          end of input to the end of the process, against that

Usage: python bench/startup.py [INDEX]   (without INDEX: the bundled one)
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

RUNS = 9
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


def whole_run(command: Sequence[str]) -> float:
    """Return the seconds that *command* takes."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def life(command: Sequence[str]) -> tuple[float, float, float]:
    """Return the seconds until the server *command* has answered a handshake, has answered a request, and has ended.

    The first two count from its start, the last one from the end of its input.
    """
    started = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(INITIALIZE) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    greeted = time.perf_counter()
    server.stdin.write(json.dumps(INITIALIZED) + "\n" + json.dumps(FIRST_REQUEST) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    answered = time.perf_counter()
    server.stdin.close()
    server.wait()
    ended = time.perf_counter()
    server.stdout.close()
    return greeted - started, answered - started, ended - answered


def print_comparison(name: str, ours: Sequence[float], floor: Sequence[float]) -> None:
    """Print the medians of two commands and their ratio."""
    our, base = statistics.median(ours), statistics.median(floor)
    sys.stdout.write(f"{name:<22}{our * 1000:8.0f} ms  floor {base * 1000:6.0f} ms  ratio {our / base:5.2f}\n")


def main() -> None:
    """Print one line a comparison."""
    index = ["--db", sys.argv[1]] if len(sys.argv) > 1 else []
    program = [sys.executable, "-m", "orchestr8_sqlite"]
    search = [*program, "search", "retry exponential backoff", *index]
    runs = [(whole_run(search), whole_run([sys.executable, "-c", "import sqlite3, typer"])) for _ in range(RUNS)]
    print_comparison("search, cold", *zip(*runs, strict=True))
    serve, nothing = [*program, "serve", *index], [sys.executable, "-c", DO_NOTHING]
    lives = [(life(serve), life(nothing)) for _ in range(RUNS)]
    for place, name in enumerate(("serve, handshake", "serve, first answer", "serve, end")):
        print_comparison(name, [ours[place] for ours, _ in lives], [floor[place] for _, floor in lives])


if __name__ == "__main__":
    main()
