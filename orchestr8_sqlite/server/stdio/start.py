"""The start of the server process: first its protection, then the import of the SDK, then serving."""

import gc
import os

from orchestr8_sqlite.server.ending import quit_now, quit_on_signals
from orchestr8_sqlite.server.log import configure_logging
from orchestr8_sqlite.server.stdio.descriptors import private_descriptors
from orchestr8_sqlite.settings import ServerSettings


def serve_stdio(settings: ServerSettings) -> None:
    """Serve until input ends, the client is gone or a signal comes; each of these is a normal end."""
    parent = os.getppid()
    configure_logging(settings, queries="on")
    quit_on_signals()
    with private_descriptors() as descriptors:
        gc.disable()  # imports create no garbage
        from orchestr8_sqlite.server.stdio.run import run  # noqa: PLC0415 - it imports the SDK

        gc.enable()
        all_answered = run(settings, descriptors, parent)
    if not all_answered:
        quit_now()
