"""A client of the server over a pair of pipes, in this process: it says all it has to say, and hears all answers."""

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

from mcp.server.lowlevel import Server
from servers import INITIALIZED, lines, request
from serving import CLIENT, ENVELOPE, MODERN

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.stdio.descriptors import Descriptors
from orchestr8_sqlite.server.stdio.stdio import stdio_streams

Answer = Any
"""A line of the server: an object, or an array of them."""


def converse(server: Server[dict[str, Any]], *said: object, at_end: Callable[[], None] = lambda: None) -> list[Answer]:
    """Return the lines that *server* answers to those that are *said*, up to the end of input.

    Args:
        at_end: Ends what has no end of its own; a server over a library knows how.
    """
    if isinstance(server, LibraryServer):
        at_end = server.changes.close
    here, there = socket.socketpair()
    with closing(here), closing(there), ThreadPoolExecutor(1) as reading:
        here.settimeout(10)
        hearing = reading.submit(_hear, here)
        asyncio.run(asyncio.wait_for(_serve(server, here, there, lines(*said), at_end), 10))
        there.close()
        return hearing.result()


def _hear(here: socket.socket) -> list[Answer]:
    with here.makefile("rb") as arriving:
        return [json.loads(line) for line in arriving]


async def _serve(
    server: Server[dict[str, Any]], here: socket.socket, there: socket.socket, said: bytes, at_end: Callable[[], None]
) -> None:
    descriptors = Descriptors(there.fileno(), there.fileno())
    async with stdio_streams(descriptors, asyncio.Event(), at_end=at_end) as streams:
        serving = asyncio.ensure_future(server.run(*streams, server.create_initialization_options()))
        await asyncio.to_thread(here.sendall, said)
        here.shutdown(socket.SHUT_WR)
        await serving


def handshake(revision: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a client of *revision* begins with; the request has the id `hello`."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}, INITIALIZED


def modern(number: int, method: str, revision: str = MODERN, **params: object) -> dict[str, object]:
    """Return a request that names its revision itself."""
    meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": revision}
    return request(number, method, **params, _meta=meta)


class Answers(NamedTuple):
    """What a server said, taken apart."""

    by_id: dict[object, dict[str, Any]]
    batches: Sequence[list[dict[str, Any]]]
    told: Sequence[dict[str, Any]]


def sorted_out(answers: Sequence[Answer]) -> Answers:
    """Return answers by the id of their requests, batches, and notifications."""
    single = [one for one in answers if isinstance(one, dict)]
    by_id = {one.get("id"): one for one in single if "method" not in one}
    batches = [one for one in answers if isinstance(one, list)]
    return Answers(by_id, batches, [one for one in single if "method" in one])
