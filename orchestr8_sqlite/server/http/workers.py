"""Runs the workers: processes that answer on one listening socket, each replaced when it dies.

They share the socket rather than the port, so that any worker can accept a waiting connection, and none is lost with a
worker that ends. Their settings arrive over standard input, never on a command line. This process does not import the
SDK.
"""

import asyncio
import json
import logging
import os
import pickle
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orchestr8_sqlite.errors import ServeError
from orchestr8_sqlite.processes import Restarts
from orchestr8_sqlite.server.http.access import Access
from orchestr8_sqlite.server.supply.freshness import LIBRARY, Freshness, Stale
from orchestr8_sqlite.settings import ServerSettings
from orchestr8_sqlite.system import apart

logger = logging.getLogger(__name__)

READY = b"ready\n"
"""Line that a worker writes once it accepts connections."""

START_SECONDS = 120
"""Time for a worker to accept connections; it imports the SDK, perhaps from a slow disk."""

PATIENCE_SECONDS = 8
"""Time for a worker to end; it gives up its requests before that."""


LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Order:
    """Tells a worker to serve on the socket with this descriptor, and `kind`: family, type and protocol.

    With `session_key`, the same for all workers, they name the sessions of clients in the log.
    """

    settings: ServerSettings
    access: Access
    descriptor: int
    kind: tuple[int, int, int]
    session_key: bytes


def make_order(settings: ServerSettings, access: Access, listener: socket.socket) -> Order:
    """Return the order to serve on *listener*."""
    kind = (listener.family, listener.type, listener.proto)
    return Order(settings, access, listener.fileno(), kind, os.urandom(16))


class Places:
    """Tracks whether each place has had a working worker; one that serves shows that others can."""

    def __init__(self, count: int, started: Callable[[], None]) -> None:
        """Prepare to call *started* once a worker serves at each of *count* places."""
        self._count = count
        self._started = started
        self._served: set[int] = set()
        self._failed: set[int] = set()

    def served(self, place: int) -> None:
        """Note that a worker accepts connections."""
        if place not in self._served:
            self._served.add(place)
            if len(self._served) == self._count:
                self._started()

    def all_failed(self, place: int) -> bool:
        """Note that a worker could not start; return whether every place has failed and none has ever served."""
        self._failed.add(place)
        return not self._served and len(self._failed) == self._count


async def run_workers(
    order: Order, count: int, stop: asyncio.Event, started: Callable[[], None], freshness: Freshness
) -> None:
    """Keep *count* workers running until *stop* is set; on return all have ended.

    Args:
        started: Called once a worker accepts connections at each place.
        freshness: State of the library, to pass on to the workers.

    Raises:
        ServeError: None of the first workers could start, so others would fail too.
    """
    places = Places(count, started)
    keeping = [asyncio.ensure_future(_keep_one(order, stop, place, places, freshness)) for place in range(count)]
    failures = [failure for failure in await asyncio.gather(*keeping, return_exceptions=True) if failure]
    if failures:
        raise failures[0]


async def _keep_one(order: Order, stop: asyncio.Event, place: int, places: Places, freshness: Freshness) -> None:
    """Keep one worker running, with a pause after each that ends by itself.

    Raises:
        ServeError: It could not start, nor could any other.
    """
    restarts = Restarts(asyncio.get_running_loop().time)
    try:
        while not stop.is_set():
            try:
                process = await _run_one(order, stop, lambda: places.served(place), freshness)
            except ServeError as problem:
                if places.all_failed(place):
                    raise
                what, why = "worker failed to start", dict[str, object](reason=str(problem))
            else:
                what, why = "worker ended", {"worker": process.pid, "exit_code": process.returncode}
            if not stop.is_set():
                pause = restarts.pause()
                logger.error(what, extra={**why, "again_in_seconds": pause})
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)
    finally:
        stop.set()


async def _run_one(order: Order, stop: asyncio.Event, served: Callable[[], None], freshness: Freshness) -> Process:
    """Start a worker, wait until it ends or *stop* is set, then end it and return it.

    Args:
        served: Called once it accepts connections.

    Raises:
        ServeError: It ended before it accepted connections.
    """
    process = await _start(order)
    telling = asyncio.ensure_future(_tell(process, freshness))
    try:
        await _until_ended(process, stop, served)
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        await _end(process)
    return process


async def _tell(process: Process, freshness: Freshness) -> None:
    """Send a worker the state of the library, now and at every change; a slow reader gets only the latest."""
    assert process.stdin is not None
    told: Stale | None = None
    with suppress(ConnectionError):
        while True:
            stale = freshness.of(LIBRARY)
            if stale != told:
                process.stdin.write(json.dumps(stale).encode() + b"\n")
                told = stale
                await process.stdin.drain()
            else:
                await freshness.wait_for_change()


async def _start(order: Order) -> Process:
    """Start a worker without access to the terminal, so that the terminal's signals reach only this process.

    Raises:
        ServeError: The system cannot start a process.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "orchestr8_sqlite.server.http.worker"),
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=[order.descriptor],
            **apart(),
        )
    except OSError as problem:
        raise ServeError(f"A worker cannot be started: {problem.strerror}.") from problem
    assert process.stdin is not None
    packed = pickle.dumps(order)
    process.stdin.write(len(packed).to_bytes(LENGTH_BYTES, "big") + packed)
    return process


async def read_order(inbox: asyncio.StreamReader) -> Order:
    """Return a worker's order from its standard input; the lines for `read_news` follow it."""
    length = int.from_bytes(await inbox.readexactly(LENGTH_BYTES), "big")
    order: Order = pickle.loads(await inbox.readexactly(length))  # noqa: S301 - the parent process sent it
    return order


async def read_news(inbox: asyncio.StreamReader, freshness: Freshness) -> None:
    """Apply the parent's messages about the library until the parent is gone."""
    while line := await inbox.readline():
        stale = json.loads(line)
        freshness.put(LIBRARY, None if stale is None else Stale(*stale))


async def _until_ended(process: Process, stop: asyncio.Event, served: Callable[[], None]) -> None:
    """Wait until the worker has ended, or *stop* is set.

    Raises:
        ServeError: It ended before it accepted connections, or took too long.
    """
    assert process.stdout is not None
    stopping = asyncio.ensure_future(stop.wait())
    beginning = asyncio.ensure_future(process.stdout.readline())
    ending = asyncio.ensure_future(process.wait())
    tasks: list[asyncio.Future[Any]] = [stopping, beginning, ending]
    try:
        await asyncio.wait((stopping, beginning), timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return
        if not beginning.done():
            raise ServeError(f"A worker did not accept connections within {START_SECONDS} s.")
        if beginning.exception() or beginning.result() != READY:
            raise ServeError("A worker ended during its start; the lines above say why.")
        served()
        await asyncio.wait((stopping, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _end(process: Process) -> None:
    """End the worker, after it has answered the requests under way."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
