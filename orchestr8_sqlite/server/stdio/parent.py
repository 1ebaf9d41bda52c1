"""Notices the end of the process that started the server: a client may be gone while its pipe stays open."""

import asyncio
import os
from collections.abc import Callable

from orchestr8_sqlite.system import open_process

POLL_SECONDS = 0.2
"""Interval for checking the parent if the system cannot report its end."""


def watch_parent(parent: int, vanished: Callable[[], None]) -> None:
    """Call *vanished* once the process *parent* is no longer the parent of this one.

    Needs the running loop. Linux reports the end; elsewhere the parent's id is compared every POLL_SECONDS.
    If the parent is not visible (in a container, or on Windows, where the id never changes), nothing happens.
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
