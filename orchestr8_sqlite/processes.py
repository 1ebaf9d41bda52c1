"""Runs tasks in parallel, in as many processes as the machine has processors."""

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
"""Maximum tasks per process whose results have not been taken yet, done or not; this limits the memory."""

LOOK_SECONDS = 1.0
"""How often to check that the processes are still alive while waiting for a result."""

ENDED = "A helper process of the build was killed, perhaps because memory ran out; free some and build again."

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before retrying something that failed: the first pause and the longest."""

NEW_OBJECTS = 100_000
"""New objects before a build or its helpers collect garbage, of which there is hardly any."""


def nothing() -> None:
    """Do nothing."""


def growing_pauses() -> Iterator[float]:
    """Yield the seconds to wait after each consecutive failure: twice as long each time, up to LONGEST_PAUSE."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


class Restarts:
    """The pauses before an ended process is restarted; create this when you start the process.

    The pauses grow, and start over once a process has run for longer than LONGEST_PAUSE.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start now; *clock* returns seconds."""
        self._clock = clock
        self._pauses, self._started = growing_pauses(), clock()

    def pause(self) -> float:
        """Return the seconds to wait before the restart; call this when the process has ended."""
        now = self._clock()
        if now - self._started > LONGEST_PAUSE:
            self._pauses = growing_pauses()
        pause = next(self._pauses)
        self._started = now + pause
        return pause


def are_many_processors() -> bool:
    """Tell whether several processes can run at the same time."""
    return (os.cpu_count() or 1) > 1


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely within the context: looking through what a build keeps finds next to none."""
    usual = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def map_in_processes(
    work: Callable[[T], R], tasks: Iterable[T], meanwhile: Callable[[], None] = nothing
) -> Iterator[R]:
    """Yield the result of *work*, a module-level function, for each task; with one processor, use this process.

    Args:
        meanwhile: Called in this process while the others work on the first tasks.

    Raises:
        BuildError: One of the processes was killed.
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
            _end(pool)


def _result(future: "Future[R]", pool: "ProcessPoolExecutor") -> R:
    """Return the result of a task.

    Raises:
        BrokenProcessPool: One of the processes was killed.
    """
    while True:
        try:
            return future.result(LOOK_SECONDS)
        except TimeoutError:
            if future.done():
                raise
            _end_if_broken(pool)


def _end_if_broken(pool: "ProcessPoolExecutor") -> None:
    """End all processes if one has ended: if it died in the middle of a message, the pool would wait forever."""
    if any(process.exitcode is not None for process in (pool._processes or {}).values()):  # noqa: SLF001
        _end(pool)


def _end(pool: "ProcessPoolExecutor") -> None:
    """End the processes, whose results are no longer needed, which also ends the futures that wait for one.

    A regular shutdown would wait forever if one was killed while it held the lock of the result queue. The pool also
    reads from that queue until every writing end is closed, so we close ours.
    """
    for process in (pool._processes or {}).values():  # noqa: SLF001 - there is no other way
        process.kill()
    pool._result_queue._writer.close()  # type: ignore[attr-defined]  # noqa: SLF001


def _context() -> "BaseContext":
    """Return how to start processes: by fork if that is safe, else by spawn."""
    import multiprocessing
    import threading

    is_safe = threading.active_count() == 1 and can_fork()
    return multiprocessing.get_context("fork" if is_safe else "spawn")


def _begin_to_help() -> None:
    """Make a helper process end only with its parent, and quieten its garbage collector.

    A keyboard interrupt reaches all processes, but only the parent should report it. If the parent is killed, a waiting
    helper would not notice, because helpers inherit both ends of their pipes. Inherited objects stay in use, and few of
    the new ones become garbage.
    """
    import signal
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, for whatever reason."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
