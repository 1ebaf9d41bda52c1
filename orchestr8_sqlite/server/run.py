"""The life of the server process: serve, finish what is under way, close."""

import asyncio
import gc
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

from orchestr8_sqlite import __version__
from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.descriptors import Descriptors
from orchestr8_sqlite.server.early import Opening
from orchestr8_sqlite.server.parent import watch_parent
from orchestr8_sqlite.server.signals import ignore_signals, stop_on_signals
from orchestr8_sqlite.server.stdio import stdio_streams
from orchestr8_sqlite.server.supply import Supply
from orchestr8_sqlite.service import Service
from orchestr8_sqlite.settings import ServerSettings
from orchestr8_sqlite.system import share_one_arena

logger = logging.getLogger(__name__)

QUERY_THREADS = 4
SWITCH_SECONDS = 0.001
"""For how long a thread may keep the event loop from running. With Python's 0.005 the slowest of 100 pings beside
four searches takes half as long again, and no search is faster for it."""


def run(settings: ServerSettings, descriptors: Descriptors, opening: Opening, *, fresh_ms: int, parent: int) -> bool:
    """Serve until input ends, the client is gone or a signal comes; tell whether all requests were answered.

    Args:
        settings: Which index, and how.
        descriptors: Where the client is.
        opening: What was read, and perhaps answered, before.
        fresh_ms: Milliseconds for which a client may take an answer for current.
        parent: The process that started this one, without which it will not live on.
    """
    return asyncio.run(_serve(settings, descriptors, opening, fresh_ms, parent))


async def _serve(
    settings: ServerSettings, descriptors: Descriptors, opening: Opening, fresh_ms: int, parent: int
) -> bool:
    share_one_arena()
    stop = asyncio.Event()
    stop_on_signals(stop)
    watch_parent(parent, stop.set)
    if opening.stopping:
        stop.set()
    service = Service(settings.base)
    executor = ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="query")
    supply = Supply(settings)
    server = LibraryServer(
        service, executor, introduction=opening.introduction, fresh_ms=fresh_ms, ready=supply.first_build
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what is there now stays: no collection looks at it, and the end need not take it apart
    async with (
        supply.kept_up(server.changes.check),
        stdio_streams(descriptors, stop, opening=opening, at_end=server.changes.close) as streams,
    ):
        logger.info("serving", extra={"version": __version__})
        executor.submit(service.warm_up)
        await server.run(*streams, server.create_initialization_options())
    all_answered = streams[0].all_answered
    executor.shutdown(wait=all_answered, cancel_futures=True)
    if all_answered:
        service.close()
    ignore_signals()
    logger.info("stopped")
    return all_answered
