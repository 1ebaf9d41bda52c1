"""The start of the server process: the first answer, then the import of the SDK, then the serving."""

import gc
import os
import signal
import sys

from orchestr8_sqlite.server.descriptors import private_descriptors
from orchestr8_sqlite.server.early import SIGNALS, Opening
from orchestr8_sqlite.server.identity import read_instructions
from orchestr8_sqlite.server.log import configure_logging
from orchestr8_sqlite.settings import Settings


def serve_stdio(settings: Settings) -> None:
    """Serve until input ends, the client is gone or a signal comes; all of these are a good end."""
    parent = os.getppid()
    configure_logging(settings.log_level)
    with private_descriptors() as descriptors:
        opening = Opening(descriptors, lambda: read_instructions(settings.database), at_end=quit_now)
        for number in SIGNALS:
            signal.signal(number, lambda *_: opening.stop())
        opening.begin()
        gc.disable()  # nothing of what an import makes is garbage
        from orchestr8_sqlite.server.run import run  # noqa: PLC0415 - it imports the SDK

        gc.enable()
        opening.finish()
        all_answered = run(settings, descriptors, opening, parent=parent)
    if not all_answered:
        quit_now()


def quit_now() -> None:
    """End the process with code 0 at once, whatever its threads are doing."""
    sys.stderr.flush()
    os._exit(0)
