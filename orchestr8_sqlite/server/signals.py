"""Signals that ask the process to end, as an event of its loop."""

import asyncio
import signal
from contextlib import suppress

from orchestr8_sqlite.server.ending import SIGNALS


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set *stop* whenever one of them comes; what is ignored, as under nohup, stays so. Needs the running loop.

    The handlers are not those of the loop: to take one of these away, Python lets the signal end the process for a
    moment, and a second signal may come just then.
    """
    loop = asyncio.get_running_loop()

    def set_stop(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, so the end is under way
            loop.call_soon_threadsafe(stop.set)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, set_stop)


def ignore_signals() -> None:
    """Let no further signal disturb the end, which is under way."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
