"""Tasks shared out among as many processes as the machine has processors."""

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.system import can_fork

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.context import BaseContext

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 3
"""Tasks a process that may wait, done or not, for their results to be taken: what bounds the memory."""

LOOK_SECONDS = 1.0
"""How often it is looked whether the processes still live, while a result is waited for."""

ENDED = "A process that helps to build was ended from outside, perhaps for want of memory; free some and build again."

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before something that failed is tried again, at first and at most."""

NEW_OBJECTS = 100_000
"""Objects that are made before a helping process looks for garbage among them: there is hardly any."""


def nothing() -> None:
    """Do nothing meanwhile."""


def growing_pauses() -> Iterator[float]:
    """Yield the seconds to wait after each failure in a row: twice as long each time, up to LONGEST_PAUSE."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


class Restarts:
    """The pauses before a process that should run on is started again; made when the first one is started.

    They grow, and begin again after a process that ran for longer than the longest of them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start now; the clock tells seconds."""
        self._clock = clock
        self._pauses, self._started = growing_pauses(), clock()

    def pause(self) -> float:
        """Return the seconds to wait, now that the process has ended."""
        now = self._clock()
        if now - self._started > LONGEST_PAUSE:
            self._pauses = growing_pauses()
        pause = next(self._pauses)
        self._started = now + pause
        return pause


def are_many_processors() -> bool:
    """Tell whether processes can work at the same time."""
    return (os.cpu_count() or 1) > 1


def map_in_processes(
    work: Callable[[T], R], tasks: Iterable[T], meanwhile: Callable[[], None] = nothing
) -> Iterator[R]:
    """Yield what *work*, a function of a module, makes of each task; in this process where there is one processor.

    Args:
        meanwhile: What this process does while the others work on the first tasks.

    Raises:
        BuildError: One of the processes was ended from outside.
    """
    count = os.cpu_count() or 1
    if not are_many_processors():
        meanwhile()
        yield from map(work, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    following = iter(tasks)
    with ProcessPoolExecutor(count, mp_context=_context(), initializer=_begin_to_help) as pool:
        waiting = deque(pool.submit(work, task) for task in islice(following, AHEAD * count))
        try:
            meanwhile()
            while waiting:
                yield _result(waiting.popleft(), pool)
                waiting.extend(pool.submit(work, task) for task in islice(following, 1))
        except BrokenProcessPool:
            raise BuildError(ENDED) from None
        finally:
            for future in waiting:
                future.cancel()
            _end(pool)


def _result(future: "Future[R]", pool: "ProcessPoolExecutor") -> R:
    """Return the result of a task.

    Raises:
        BrokenProcessPool: One of the processes was ended from outside.
    """
    while True:
        try:
            return future.result(LOOK_SECONDS)
        except TimeoutError:
            if future.done():
                raise
            _end_if_broken(pool)


def _end_if_broken(pool: "ProcessPoolExecutor") -> None:
    """End the processes where one of them has ended: amid a message, its end goes unnoticed, and all wait for ever."""
    if any(process.exitcode is not None for process in (pool._processes or {}).values()):  # noqa: SLF001
        _end(pool)


def _end(pool: "ProcessPoolExecutor") -> None:
    """End the processes, whose results nobody wants any more.

    A pool that asks them to end waits for ever where one was killed with a lock on the way of the results. And it
    reads from there until nobody has the other end any more.
    """
    for process in (pool._processes or {}).values():  # noqa: SLF001 - there is no other way
        process.kill()
    pool._result_queue._writer.close()  # type: ignore[attr-defined]  # noqa: SLF001


def _context() -> "BaseContext":
    """Return how processes start: as copies of this one where that is safe, else anew."""
    import multiprocessing
    import threading

    is_safe = threading.active_count() == 1 and can_fork()
    return multiprocessing.get_context("fork" if is_safe else "spawn")


def _begin_to_help() -> None:
    """Let a helping process be ended by who started it alone, and let its garbage collector be.

    An interrupt from the keyboard reaches all processes, and is said by one. Where that one is killed, nobody else
    tells those that wait: they have inherited both ends of their pipes. What was inherited is kept; of the rest little
    is garbage.
    """
    import signal
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def _end_with_parent() -> None:
    """End this process at once when the one that started it has ended, however that was."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
