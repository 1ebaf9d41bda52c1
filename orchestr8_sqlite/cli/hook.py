"""The run of a hook, without typer: a client starts it before every prompt, and waits."""

import sys
from contextlib import closing


def run_hook(database: str | None) -> None:
    """Read a prompt from standard input, and print the fragments that it is surely about.

    Raises:
        Orchestr8Error: The input is not a prompt, or there is no usable index.
    """
    from orchestr8_sqlite.clients.events import read_event, reply
    from orchestr8_sqlite.service.service import Service
    from orchestr8_sqlite.settings import read_settings

    event = read_event(sys.stdin.buffer.read().decode("utf-8", "replace").removeprefix("\ufeff"))
    with closing(Service(read_settings(database))) as service:
        answer = reply(event, service.suggest(event.prompt))
    if answer:
        sys.stdout.write(f"{answer}\n")
