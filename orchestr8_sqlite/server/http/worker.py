"""A process that answers over HTTP: alone, or one of several on the same socket."""

import asyncio
import errno
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from orchestr8_sqlite.server.app import QUERY_THREADS, SWITCH_SECONDS, LibraryServer
from orchestr8_sqlite.server.ending import quit_now
from orchestr8_sqlite.server.guard import Guard, Sessions
from orchestr8_sqlite.server.http.access import BACKLOG, Access
from orchestr8_sqlite.server.http.page import Page
from orchestr8_sqlite.server.http.patience import PatientProtocol, most_connections, seldom
from orchestr8_sqlite.server.http.web import Health, make_app
from orchestr8_sqlite.server.http.workers import READY, Order, read_news, read_order
from orchestr8_sqlite.server.identity import FRESH_MS, read_instructions
from orchestr8_sqlite.server.log import configure_logging
from orchestr8_sqlite.server.signals import ignore_signals, stop_on_signals
from orchestr8_sqlite.server.supply.freshness import Freshness
from orchestr8_sqlite.server.supply.supply import follow_index
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import ServerSettings
from orchestr8_sqlite.system import share_one_arena

GRACE_SECONDS = 5
"""Time for answers under way once the process is told to end; as under stdio."""

KEEP_ALIVE_SECONDS = 75
"""Time to keep an idle connection; longer than proxies do (nginx: 60), so that they never reuse a closed one."""

TICK_SECONDS = 1.0
"""Interval for renewing the header Date."""

REPEAT_SECONDS = 0.05
"""Interval for ending streams and connections once the server is to end."""

ACCEPTED_AT_ONCE = 32
"""Connections accepted before any is checked, so the limit may be exceeded by as many."""


class Web(uvicorn.Server):
    """Uvicorn's server, stopped by an event instead of by signals."""

    def __init__(
        self, config: uvicorn.Config, stop: asyncio.Event, at_start: Callable[[], object], at_end: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._stop = stop
        self._at_start = at_start
        self._at_end = at_end
        self.all_answered = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller: uvicorn would raise them again at the end, and the exit code would not be 0."""
        yield

    async def main_loop(self) -> None:
        """Serve until told to stop; uvicorn would poll ten times a second."""
        while not self._stop.is_set():
            await self.on_tick(0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), TICK_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report it."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # asyncio used the number that it accepts at once
        self._at_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams that clients would hold open forever, and wait for the other answers."""
        ending = asyncio.ensure_future(self._end_connections())
        await super().shutdown(sockets)
        ending.cancel()
        self.all_answered = not self.server_state.tasks

    async def _end_connections(self) -> None:
        """End streams and connections every REPEAT_SECONDS: another may be about to begin."""
        while True:
            self._at_end()
            for connection in [*self.server_state.connections]:
                connection.shutdown()
            await asyncio.sleep(REPEAT_SECONDS)


def prepare_process() -> None:
    """Tune this process for answering only; needs the running loop."""
    share_one_arena()
    PatientProtocol.most = most_connections()
    asyncio.get_running_loop().set_exception_handler(_tell_seldom)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()


async def serve(
    settings: ServerSettings,
    access: Access,
    listener: socket.socket,
    stop: asyncio.Event,
    started: Callable[[], object],
    freshness: Freshness,
    sessions: Sessions | None = None,
) -> bool:
    """Serve on *listener* until *stop* is set; return whether all requests were answered.

    Args:
        started: Called once connections are accepted.
        freshness: State of the library, for health checks.
        sessions: Names the sessions of requests; workers that share clients need the same names.
    """
    service = Service(settings.base)
    executor = ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="query")
    fresh_ms = 0 if settings.watch else FRESH_MS
    server = LibraryServer(
        service, executor, profile=settings.profile, fresh_ms=fresh_ms, sessions=sessions, stateless=True
    )
    health = Health(service, executor, freshness)
    page = Page(service, Guard(executor, service.snapshots))
    config = configuration(make_app(server, health, page, access, listener))
    web = Web(config, stop, started, server.changes.close)

    async def renew() -> None:
        server.instructions = await asyncio.to_thread(read_instructions, service.place, settings.profile)
        await server.changes.check()
        await health.look()

    following = asyncio.ensure_future(follow_index(service.place, renew))
    try:
        await web.serve([listener])
    finally:
        following.cancel()
        await asyncio.wait([following])
        await page.close()
    executor.shutdown(wait=web.all_answered, cancel_futures=True)
    if web.all_answered:
        service.close()
    return web.all_answered


def configuration(app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's configuration to serve *app*."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def _tell_seldom(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the event loop; if no descriptor is left, seldom and without a traceback."""
    problem = context.get("exception")
    if isinstance(problem, OSError) and problem.errno in (errno.EMFILE, errno.ENFILE):
        seldom.warn("connections are not accepted", reason=problem.strerror)
    else:
        loop.default_exception_handler(context)


def main() -> None:
    """Serve as one of several workers, as the parent process orders on standard input.

    The worker ends at the end of that input, or on SIGTERM. It writes a line to standard output once it accepts
    connections; any other output goes to standard error.
    """
    output = os.dup(1)
    os.dup2(2, 1)
    all_answered = asyncio.run(_serve_as_worker(lambda: os.write(output, READY)))
    if not all_answered:
        quit_now()


async def _serve_as_worker(started: Callable[[], object]) -> bool:
    stop = asyncio.Event()
    stop_on_signals(stop)
    inbox = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(inbox)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    order = await read_order(inbox)
    configure_logging(order.settings, queries="hash")
    for handler in logging.getLogger().handlers:
        handler.addFilter(_name_process)
    prepare_process()
    listener = socket.socket(*order.kind, fileno=order.descriptor)
    all_answered = await serve_as_told(order, listener, inbox, stop, started)
    ignore_signals()
    return all_answered


async def serve_as_told(
    order: Order,
    listener: socket.socket,
    inbox: asyncio.StreamReader,
    stop: asyncio.Event,
    started: Callable[[], object],
) -> bool:
    """Serve until *stop* is set or the process at the other end of *inbox* is gone; return the result of `serve`."""
    freshness = Freshness()

    async def listen() -> None:
        await read_news(inbox, freshness)
        stop.set()

    listening = asyncio.ensure_future(listen())
    try:
        sessions = Sessions(order.session_key)
        return await serve(order.settings, order.access, listener, stop, started, freshness, sessions)
    finally:
        listening.cancel()
        await asyncio.wait([listening])


def _name_process(record: logging.LogRecord) -> bool:
    """Add the id of this process to a line of the log that workers share."""
    record.worker = os.getpid()
    return True


if __name__ == "__main__":
    main()
