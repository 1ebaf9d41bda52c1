"""The life of the server process: start, serve, finish what is under way, exit 0."""

import asyncio
import logging
import signal
from concurrent.futures import ThreadPoolExecutor

import anyio

from orchestr8_sqlite import __version__
from orchestr8_sqlite.server.app import make_server
from orchestr8_sqlite.server.log import configure_logging
from orchestr8_sqlite.server.stdio import stdio_streams
from orchestr8_sqlite.service import Service
from orchestr8_sqlite.settings import Settings

logger = logging.getLogger(__name__)

QUERY_THREADS = 4
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def run(settings: Settings) -> None:
    """Serve until input ends or a signal comes."""
    configure_logging(settings.log_level)
    anyio.run(_serve, settings)


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    service = Service(settings)
    with ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="query") as executor:
        server = make_server(service, executor)
        async with stdio_streams(stop) as (incoming, outgoing):
            logger.info("serving", extra={"version": __version__})
            await server.run(incoming, outgoing, server.create_initialization_options())
    service.close()
    logger.info("stopped")


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
