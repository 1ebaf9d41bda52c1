"""Signals that ask the process to end, as an event of its loop."""

import asyncio
import signal
from contextlib import suppress

from orchestr8_sqlite.server.early import SIGNALS


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set *stop* whenever one of them comes; what is ignored, as under nohup, stays so. Needs the running loop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))


def ignore_signals() -> None:
    """Let no further signal disturb the end, which is under way."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        with suppress(NotImplementedError):  # Windows
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
