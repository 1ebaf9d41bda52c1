"""The workers: processes that answer on one listening socket, each replaced when it dies.

They share the socket rather than the port, so that a connection waits for whichever is there to accept it, and what
waits is not lost with a worker that ends. What they need to know comes to them over standard input, and never stands
in a command line. This process imports no SDK.
"""

import asyncio
import json
import logging
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
"""What a worker writes once it accepts connections."""

START_SECONDS = 120
"""How long a worker may take until it accepts connections; it imports the SDK, perhaps from a slow disk."""

PATIENCE_SECONDS = 8
"""How long a worker may take to end; it gives up what it is doing before that."""


LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to do: serve on the socket with this descriptor, family, type and protocol."""

    settings: ServerSettings
    access: Access
    descriptor: int
    kind: tuple[int, int, int]


def make_order(settings: ServerSettings, access: Access, listener: socket.socket) -> Order:
    """Return the order to serve on *listener*."""
    return Order(settings, access, listener.fileno(), (listener.family, listener.type, listener.proto))


class Places:
    """What became of the first workers of all places: one that gets so far as to serve shows that others can."""

    def __init__(self, count: int, started: Callable[[], None]) -> None:
        """Begin; *started* is called once a worker serves at each of *count* places."""
        self._count = count
        self._started = started
        self._served: set[int] = set()
        self._failed: set[int] = set()

    def served(self, place: int) -> None:
        """Take note that a worker accepts connections."""
        if place not in self._served:
            self._served.add(place)
            if len(self._served) == self._count:
                self._started()

    def all_failed(self, place: int) -> bool:
        """Take note that a worker could not start; tell whether no place has ever had one that could."""
        self._failed.add(place)
        return not self._served and len(self._failed) == self._count


async def run_workers(
    order: Order, count: int, stop: asyncio.Event, started: Callable[[], None], freshness: Freshness
) -> None:
    """Keep *count* workers running until *stop* is set; all of them have ended then.

    Args:
        started: Called once a worker accepts connections at each place.
        freshness: What the workers are told of the library.

    Raises:
        ServeError: None of the first got so far; others would do the same.
    """
    places = Places(count, started)
    keeping = [asyncio.ensure_future(_keep_one(order, stop, place, places, freshness)) for place in range(count)]
    failures = [failure for failure in await asyncio.gather(*keeping, return_exceptions=True) if failure]
    if failures:
        raise failures[0]


async def _keep_one(order: Order, stop: asyncio.Event, place: int, places: Places, freshness: Freshness) -> None:
    """Keep one worker running; after each that ends by itself there is a pause.

    Raises:
        ServeError: It could not start, and no other could.
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
    """Start a worker, wait until it has ended or *stop* is set, and return it, ended.

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
    """Tell a worker what is known of the library, now and at every change; one that does not read hears the latest."""
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
    """Start a worker, with no way to the terminal, whose signals are for this process.

    Raises:
        ServeError: The system has no process to give.
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
    """Return the order that a worker is given on its standard input; lines of `read_news` follow it."""
    length = int.from_bytes(await inbox.readexactly(LENGTH_BYTES), "big")
    order: Order = pickle.loads(await inbox.readexactly(length))  # noqa: S301 - of the parent process
    return order


async def read_news(inbox: asyncio.StreamReader, freshness: Freshness) -> None:
    """Take over what a worker is told of the library, until the process above it is gone."""
    while line := await inbox.readline():
        stale = json.loads(line)
        freshness.put(LIBRARY, None if stale is None else Stale(*stale))


async def _until_ended(process: Process, stop: asyncio.Event, served: Callable[[], None]) -> None:
    """Wait until the worker has ended, or is to end.

    Raises:
        ServeError: It ended before it accepted connections, or did not get so far in time.
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
            raise ServeError("A worker ended while it started; the lines above say why.")
        served()
        await asyncio.wait((stopping, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _end(process: Process) -> None:
    """End the worker; it first answers what is under way."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
