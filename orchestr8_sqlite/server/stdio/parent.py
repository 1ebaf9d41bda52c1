"""The process that started the server, and its end: a client may be gone while its pipe stays open."""

import asyncio
import os
from collections.abc import Callable

from orchestr8_sqlite.system import open_process

POLL_SECONDS = 0.2
"""How often the parent is looked for where the system cannot tell of its end."""


def watch_parent(parent: int, vanished: Callable[[], None]) -> None:
    """Call *vanished* once the process *parent* is not the parent of this one any more.

    Needs the running loop. Linux tells by itself; elsewhere the parent's id is compared now and then.
    Without a parent in sight (in a container, or on Windows, where the id never changes) nothing happens.
    """
    if parent <= 0:
        return
    loop = asyncio.get_running_loop()
    if os.getppid() != parent:
        loop.call_soon(vanished)
        return
    descriptor = open_process(parent)
    if descriptor is None:
        _compare(loop, parent, vanished)
        return

    def tell() -> None:
        loop.remove_reader(descriptor)
        vanished()

    loop.add_reader(descriptor, tell)


def _compare(loop: asyncio.AbstractEventLoop, parent: int, vanished: Callable[[], None]) -> None:
    if os.getppid() != parent:
        vanished()
    else:
        loop.call_later(POLL_SECONDS, _compare, loop, parent, vanished)
