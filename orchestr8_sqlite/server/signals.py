"""Turns the signals that ask the process to end into an event of its loop."""

import asyncio
import signal
from contextlib import suppress

from orchestr8_sqlite.server.ending import SIGNALS


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set *stop* on each of SIGNALS; ignored signals, as under nohup, stay ignored. Needs the running loop.

    These are not the loop's own handlers: while Python removes one of those, a signal ends the process, and a
    second one may come just then.
    """
    loop = asyncio.get_running_loop()

    def set_stop(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(stop.set)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, set_stop)


def ignore_signals() -> None:
    """Ignore further signals, as the process is already ending."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
