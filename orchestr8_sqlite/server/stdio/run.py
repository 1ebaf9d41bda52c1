"""The life of the server process: serve, finish requests under way, close."""

import asyncio
import gc
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

from orchestr8_sqlite import __version__
from orchestr8_sqlite.server.app import QUERY_THREADS, SWITCH_SECONDS, LibraryServer
from orchestr8_sqlite.server.identity import ABSENT, FRESH_MS, read_instructions
from orchestr8_sqlite.server.signals import ignore_signals, stop_on_signals
from orchestr8_sqlite.server.stdio.descriptors import Descriptors
from orchestr8_sqlite.server.stdio.parent import watch_parent
from orchestr8_sqlite.server.stdio.stdio import stdio_streams
from orchestr8_sqlite.server.supply.supply import Supply
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import ServerSettings, missing_root
from orchestr8_sqlite.system import share_one_arena

logger = logging.getLogger(__name__)


def run(settings: ServerSettings, descriptors: Descriptors, parent: int) -> bool:
    """Serve until input ends, the client is gone or a signal comes; return whether all requests were answered.

    Args:
        settings: Which index to serve, and how.
        descriptors: Where to read requests and write answers.
        parent: The process that started this one; when it ends, so does the server.
    """
    return asyncio.run(_serve(settings, descriptors, parent))


def _instructions(settings: ServerSettings) -> str:
    if sentence := missing_root(settings):
        logger.error("%s The server waits for it." if settings.watch else "%s", sentence)
        return ABSENT
    return read_instructions(settings.base.database, settings.profile, is_built=settings.makes_index)


async def _serve(settings: ServerSettings, descriptors: Descriptors, parent: int) -> bool:
    share_one_arena()
    stop = asyncio.Event()
    stop_on_signals(stop)
    watch_parent(parent, stop.set)
    service = Service(settings.base)
    executor = ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="query")
    supply = Supply(settings)
    server = LibraryServer(
        service,
        executor,
        profile=settings.profile,
        instructions=_instructions(settings),
        fresh_ms=0 if settings.watch else FRESH_MS,
        ready=supply.first_build,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # all objects so far stay: neither collections nor the exit need to look at them
    async with (
        supply.kept_up(server.changes.check),
        stdio_streams(descriptors, stop, at_end=server.changes.close) as streams,
    ):
        logger.info("serving", extra={"version": __version__})
        await server.run(*streams, server.create_initialization_options())
    all_answered = streams[0].all_answered
    executor.shutdown(wait=all_answered, cancel_futures=True)
    if all_answered:
        service.close()
    ignore_signals()
    logger.info("stopped")
    return all_answered
