"""Work for as many processes as the machine has processors, its results in the order of the tasks."""

import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from orchestr8_sqlite.errors import BuildError

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 3
"""Tasks a process that may wait, done or not, for their results to be taken: what bounds the memory."""

NEW_OBJECTS = 100_000
"""Objects that are made before a helping process looks for garbage among them: there is hardly any."""


def nothing() -> None:
    """Do nothing meanwhile."""


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
    if count < 2:
        meanwhile()
        yield from map(work, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    following = iter(tasks)
    with ProcessPoolExecutor(count, mp_context=_context(), initializer=_collect_seldom) as pool:
        waiting = deque(pool.submit(work, task) for task in islice(following, AHEAD * count))
        try:
            meanwhile()
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(work, task) for task in islice(following, 1))
        except BrokenProcessPool:
            raise BuildError("A process that helps to build was ended from outside; is there memory enough?") from None
        finally:
            for future in waiting:
                future.cancel()


def _context() -> "BaseContext":
    """Return how processes start: as copies of this one where that is safe, else anew."""
    import multiprocessing
    import threading

    can_fork = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if can_fork else "spawn")


def _collect_seldom() -> None:
    """Let the garbage collector of a helping process be: what it inherited is kept, of the rest little is garbage."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
