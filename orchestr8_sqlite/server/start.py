"""The start of the server process: the first answer, then the import of the SDK, then the serving."""

import gc
import os
import signal
import sys

from orchestr8_sqlite.server.descriptors import private_descriptors
from orchestr8_sqlite.server.early import SIGNALS, Opening
from orchestr8_sqlite.server.identity import FRESH_MS, read_instructions
from orchestr8_sqlite.server.log import configure_logging
from orchestr8_sqlite.settings import ServerSettings


def serve_stdio(settings: ServerSettings) -> None:
    """Serve until input ends, the client is gone or a signal comes; all of these are a good end."""
    parent = os.getppid()
    configure_logging(settings.base.log_level, settings.log_format)

    def introduce() -> str:
        return read_instructions(settings.base.database, is_built=bool(settings.roots))

    with private_descriptors() as descriptors:
        fresh_ms = 0 if settings.watch else FRESH_MS
        opening = Opening(descriptors, introduce, at_end=quit_now, fresh_ms=fresh_ms)
        for number in SIGNALS:
            signal.signal(number, lambda *_: opening.stop())
        opening.begin()
        gc.disable()  # nothing of what an import makes is garbage
        from orchestr8_sqlite.server.run import run  # noqa: PLC0415 - it imports the SDK

        gc.enable()
        opening.finish()
        all_answered = run(settings, descriptors, opening, fresh_ms=fresh_ms, parent=parent)
    if not all_answered:
        quit_now()


def quit_now() -> None:
    """End the process with code 0 at once, whatever its threads are doing."""
    sys.stderr.flush()
    os._exit(0)
