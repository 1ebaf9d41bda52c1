"""What asks the process to end, and how it ends at once."""

import os
import signal
import sys

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""What asks the process to end."""


def quit_on_signals() -> None:
    """End at once whenever one of them comes, as long as there is nothing to finish; what is ignored stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: quit_now())


def quit_now() -> None:
    """End the process with code 0 at once, whatever its threads are doing."""
    sys.stderr.flush()
    os._exit(0)
