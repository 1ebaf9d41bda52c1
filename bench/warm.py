"""Measures warm requests over stdio: medians in ms; all take turns, in one go on this machine.

    search                 one `tools/call search`, repeated; its bound is 1.15 of the server that does nothing
    100 searches in turn   100 different ones; their bound is 0.96 of an SDK ping
    search, do nothing     the same request and answer, by a server that does nothing, over our transport
    ping, our transport    of that server
    ping, SDK transport    of a server that does nothing, over the SDK's own transport

Usage: python bench/warm.py [INDEX]   (without INDEX: the bundled one)
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from startup import DO_NOTHING, INITIALIZE

ROUNDS = 10
CALLS = 100
SEARCH_BOUND = 0.96
NOTHING_BOUND = 1.15

NOTHING_ON_OUR_TRANSPORT = """
import asyncio, os, sys
import mcp_types as types
from mcp.server.lowlevel import Server
from orchestr8_sqlite.server.stdio.descriptors import private_descriptors
from orchestr8_sqlite.server.stdio.stdio import stdio_streams

ANSWER = types.CallToolResult.model_validate_json(sys.argv[1], by_name=False)

async def answer(context, params):
    return ANSWER

async def main():
    server = Server("nothing", version="1", on_call_tool=answer)
    with private_descriptors() as descriptors:
        async with stdio_streams(descriptors, asyncio.Event()) as streams:
            await server.run(*streams, server.create_initialization_options())

asyncio.run(main())
"""
WORDS = "retry async typescript security test review docker sql cache api".split()
QUERIES = [f"{first} {second}" for first in WORDS for second in WORDS]


class Server:
    """A server process after its handshake. Close it when done."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.ask(INITIALIZE)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def ask(self, request: object) -> bytes:
        """Return the line that answers *request*."""
        assert self._process.stdout is not None
        self._write(request)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += self._process.stdout.read(1 << 16)
        return answer

    def _write(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def times(self, requests: Sequence[object]) -> list[float]:
        """Return the milliseconds of each request; they are sent one after the other."""
        times = []
        for request in requests:
            started = time.perf_counter()
            self.ask(request)
            times.append((time.perf_counter() - started) * 1000)
        return times

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def search(query: str) -> dict[str, object]:
    """Return the request for a search."""
    return make_request("tools/call", {"name": "search", "arguments": {"query": query}})


def make_request(method: str, params: dict[str, object]) -> dict[str, object]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def main() -> None:
    """Print the medians, and two ratios beside their bounds."""
    index = ["--db", sys.argv[1]] if len(sys.argv) > 1 else []
    ours = Server([sys.executable, "-m", "orchestr8_sqlite", "serve", *index])
    answer = json.dumps(json.loads(ours.ask(search(QUERIES[0])))["result"])
    nothing = Server([sys.executable, "-c", NOTHING_ON_OUR_TRANSPORT, answer])
    stock = Server([sys.executable, "-c", DO_NOTHING])
    same, turns, ping = (
        [search(QUERIES[0])] * CALLS,
        [search(query) for query in QUERIES],
        [make_request("ping", {})] * CALLS,
    )
    plan = {
        "search": (ours, same),
        "100 searches in turn": (ours, turns),
        "search, do nothing": (nothing, same),
        "ping, our transport": (nothing, ping),
        "ping, SDK transport": (stock, ping),
    }
    times: dict[str, list[float]] = {name: [] for name in plan}
    for _ in range(ROUNDS):
        for name, (server, requests) in plan.items():
            times[name] += server.times(requests)
    medians = {name: statistics.median(column) for name, column in times.items()}
    for name, median in medians.items():
        sys.stdout.write(f"{name:<22}{median:8.2f} ms\n")
    nothing_ratio = medians["search"] / medians["search, do nothing"]
    ping_ratio = medians["100 searches in turn"] / medians["ping, SDK transport"]
    sys.stdout.write(f"search / do nothing         ratio {nothing_ratio:5.2f}  bound {NOTHING_BOUND}\n")
    sys.stdout.write(f"searches / SDK ping         ratio {ping_ratio:5.2f}  bound {SEARCH_BOUND}\n")
    for server in (ours, nothing, stock):
        server.close()


if __name__ == "__main__":
    main()
