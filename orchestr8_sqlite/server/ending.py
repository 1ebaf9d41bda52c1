"""The signals that ask the process to end, and its immediate end."""

import os
import signal
import sys

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals that ask the process to end."""


def quit_on_signals() -> None:
    """Exit at once on each of SIGNALS, while there is nothing to finish; ignored signals stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: quit_now())


def quit_now() -> None:
    """Exit with code 0 at once, whatever the threads are doing."""
    sys.stderr.flush()
    os._exit(0)
