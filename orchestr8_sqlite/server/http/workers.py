"""The workers: processes that answer on one listening socket, each replaced when it dies.

They share the socket rather than the port, so that a connection waits for whichever is there to accept it, and what
waits is not lost with a worker that ends. What they need to know comes to them over standard input, and never stands
in a command line. This process imports no SDK.
"""

import asyncio
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
from orchestr8_sqlite.settings import ServerSettings
from orchestr8_sqlite.system import apart

logger = logging.getLogger(__name__)

READY = b"ready\n"
"""What a worker writes once it accepts connections."""

PATIENCE_SECONDS = 8
"""How long a worker may take to end; it gives up what it is doing before that."""


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


async def run_workers(order: Order, count: int, stop: asyncio.Event, started: Callable[[], None]) -> None:
    """Keep *count* workers running until *stop* is set; all of them have ended then.

    Args:
        started: Called once all of them accept connections.

    Raises:
        ServeError: One of the first ended before it accepted connections; others would do the same.
    """
    missing = count

    def ready() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            started()

    places = [asyncio.ensure_future(_keep_one(order, stop, ready)) for _ in range(count)]
    failures = [failure for failure in await asyncio.gather(*places, return_exceptions=True) if failure]
    if failures:
        raise failures[0]


async def _keep_one(order: Order, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Keep one worker running; after each that ends by itself there is a pause.

    Args:
        ready: Called once, when the first one accepts connections.

    Raises:
        ServeError: The first one did not get so far.
    """
    restarts, has_served, why = Restarts(), False, dict[str, object]()
    try:
        while not stop.is_set():
            try:
                process = await _run_one(order, stop, None if has_served else ready)
            except ServeError as problem:
                if not has_served:
                    raise
                what, why = "worker failed to start", {"reason": str(problem)}
            else:
                what, why = "worker ended", {"worker": process.pid, "exit_code": process.returncode}
            has_served = True
            if not stop.is_set():
                pause = restarts.pause()
                logger.error(what, extra={**why, "again_in_seconds": pause})
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)
    finally:
        stop.set()


async def _run_one(order: Order, stop: asyncio.Event, ready: Callable[[], None] | None) -> Process:
    """Start a worker, wait until it has ended or *stop* is set, and return it, ended.

    Raises:
        ServeError: It ended before it accepted connections.
    """
    process = await _start(order)
    try:
        await _until_ended(process, stop, ready)
    finally:
        await _end(process)
    return process


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
    process.stdin.write(pickle.dumps(order))
    return process


async def _until_ended(process: Process, stop: asyncio.Event, ready: Callable[[], None] | None) -> None:
    """Wait until the worker has ended, or is to end.

    Raises:
        ServeError: It ended before it accepted connections.
    """
    assert process.stdout is not None
    stopping = asyncio.ensure_future(stop.wait())
    beginning = asyncio.ensure_future(process.stdout.readline())
    ending = asyncio.ensure_future(process.wait())
    tasks: list[asyncio.Future[Any]] = [stopping, beginning, ending]
    try:
        await asyncio.wait((stopping, beginning), return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return
        if beginning.result() != READY:
            raise ServeError("A worker ended while it started; the lines above say why.")
        if ready is not None:
            ready()
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
