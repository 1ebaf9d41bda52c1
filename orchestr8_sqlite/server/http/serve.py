"""The life of a server over HTTP: bind, wait for the index, serve in this process or in several, end."""

import asyncio
import gc
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from orchestr8_sqlite import __version__
from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.server.ending import quit_now, quit_on_signals
from orchestr8_sqlite.server.http.access import Access, bind, own_names
from orchestr8_sqlite.server.http.workers import make_order, run_workers
from orchestr8_sqlite.server.log import configure_logging
from orchestr8_sqlite.server.signals import ignore_signals, stop_on_signals
from orchestr8_sqlite.server.supply.freshness import Freshness
from orchestr8_sqlite.server.supply.supply import Supply
from orchestr8_sqlite.settings import ServerSettings, missing_root
from orchestr8_sqlite.system import is_posix

logger = logging.getLogger(__name__)

Answer = Callable[[asyncio.Event, Freshness], Awaitable[bool]]
"""Answers until the event is set; returns whether all requests were answered."""


def serve_http(settings: ServerSettings, access: Access, workers: int) -> None:
    """Serve until a signal comes, which is a normal end.

    Args:
        workers: Processes that answer. A single one is this process; several are child processes, and this one only
            supervises them.

    Raises:
        SettingsError: A folder is missing, the address needs a token, or this system cannot run several workers.
        ServeError: The server cannot listen on the address, or no worker can start.
    """
    if sentence := missing_root(settings):
        raise SettingsError(sentence)
    if workers > 1 and not is_posix():
        raise SettingsError("Several workers need a POSIX system; leave --workers out.")
    configure_logging(settings, queries="hash")
    quit_on_signals()
    with bind(access) as listener:
        run = _run_alone if workers == 1 else partial(_run_several, workers)
        all_answered = run(settings, access, listener)
    if not all_answered:
        quit_now()


def _run_alone(settings: ServerSettings, access: Access, listener: socket.socket) -> bool:
    gc.disable()  # imports create no garbage
    from orchestr8_sqlite.server.http.worker import prepare_process, serve  # noqa: PLC0415 - it imports the SDK

    gc.enable()

    async def answer(stop: asyncio.Event, freshness: Freshness) -> bool:
        prepare_process()
        return await serve(settings, access, listener, stop, lambda: _tell(access, listener, 1), freshness)

    return asyncio.run(_live_until_signal(settings, answer))


def _run_several(workers: int, settings: ServerSettings, access: Access, listener: socket.socket) -> bool:
    return asyncio.run(_live_until_signal(settings, partial(answer_by_workers, workers, settings, access, listener)))


async def answer_by_workers(
    workers: int,
    settings: ServerSettings,
    access: Access,
    listener: socket.socket,
    stop: asyncio.Event,
    freshness: Freshness,
) -> bool:
    """Let *workers* processes answer until *stop* is set; the address refuses connections from then on."""

    async def close_on_stop() -> None:
        await stop.wait()
        listener.close()  # else new connections would wait for workers that no longer accept

    closing = asyncio.ensure_future(close_on_stop())
    order = make_order(settings, access, listener)
    await run_workers(order, workers, stop, lambda: _tell(access, listener, workers), freshness)
    await closing
    return True


async def _live_until_signal(settings: ServerSettings, answer: Answer) -> bool:
    stop = asyncio.Event()
    stop_on_signals(stop)
    all_answered = await live(settings, answer, stop)
    ignore_signals()
    logger.info("stopped")
    return all_answered


async def live(settings: ServerSettings, answer: Answer, stop: asyncio.Event) -> bool:
    """Build the index if it has source folders, and *answer* once there is one, until *stop* is set.

    Before there is an index, connections are refused, as if the server had not started.
    """
    supply = Supply(settings)
    all_answered = True
    async with supply.kept_up(_look_themselves):
        waits = [asyncio.ensure_future(event.wait()) for event in (supply.first_build, stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if not stop.is_set():
            all_answered = await answer(stop, supply.freshness)
    return all_answered


async def _look_themselves() -> None:
    """Do nothing about a new index: the processes that answer check its file themselves."""


def _tell(access: Access, listener: socket.socket, workers: int) -> None:
    at = f"http://{own_names(access, listener)[0]}"
    said = {"version": __version__, "url": f"{at}/mcp", "page": f"{at}/inspect", "workers": workers}
    logger.info("serving", extra=said)
