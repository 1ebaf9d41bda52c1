"""Threads of a simulated world: one runs at a time, and may be held up before any statement of SQL."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from random import Random
from typing import Any

HELD_UP = 0.25
"""How often a thread that may be held up is, before a statement."""


class Job:
    """A call in a real thread that runs only while whoever resumes it waits."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], random: Random, holds: int) -> None:
        self._func, self._args = func, args
        self._random = random
        self._holds = holds
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._is_begun = False
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def resume(self) -> None:
        """Let it run until it is held up or done."""
        if self._is_begun:
            self._go.release()
        else:
            self._is_begun = True
            _jobs.put(self)
            if _idle.acquire(blocking=False):
                pass
            else:
                threading.Thread(target=_work, name="simulated", daemon=True).start()
        self._back.acquire()

    def hold(self) -> None:
        """Perhaps wait in the thread until it is resumed."""
        if self._holds and self._random.random() < HELD_UP:
            self._holds -= 1
            self._back.release()
            self._go.acquire()

    def work(self) -> None:
        """Do it, in the thread."""
        _running.job = self
        try:
            self.result = self._func(*self._args)
        except BaseException as problem:  # noqa: BLE001 - raised where the result is asked for
            self.error = problem
        finally:
            _running.job = None
            self.is_done = True
            _idle.release()
            self._back.release()


_jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
_idle = threading.Semaphore(0)
_running = threading.local()


def _work() -> None:
    while True:
        _jobs.get().work()


def _hold(_: str) -> None:
    job: Job | None = getattr(_running, "job", None)
    if job is not None:
        job.hold()


def connect(*args: Any, **options: Any) -> sqlite3.Connection:
    """Connect as `sqlite3.connect` does; each statement is a point where a simulated thread can be held up."""
    connection = _connect(*args, **options)
    connection.set_trace_callback(_hold)
    return connection


_connect: Callable[..., sqlite3.Connection] = sqlite3.connect


class Threads:
    """The threads of one run. *share* of them can be held up, up to *longest* seconds each time."""

    def __init__(self, random: Random, share: float, longest: float) -> None:
        self._random = random
        self._share = share
        self._longest = longest
        self.under_way: set[Job] = set()

    def run(self, loop: asyncio.AbstractEventLoop, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run *func* soon; return what becomes of it."""
        result = loop.create_future()
        random = Random(self._random.random())
        if random.random() < self._share:
            job = Job(func, args, random, 6)
            self.under_way.add(job)
            loop.call_later(self._pause(random), self._step, loop, job, random, result)
        else:
            loop.call_later(self._pause(random) / 10, _run_at_once, func, args, result)
        return result

    def end(self) -> None:
        """Let all jobs run to their ends, for whom nobody waits any more."""
        while self.under_way:
            job = self.under_way.pop()
            while not job.is_done:
                job.resume()

    def _pause(self, random: Random) -> float:
        return random.random() * self._longest

    def _step(self, loop: asyncio.AbstractEventLoop, job: Job, random: Random, result: asyncio.Future[Any]) -> None:
        if not job.is_done:  # the end of a run may have come between
            job.resume()
        if not job.is_done:
            loop.call_later(self._pause(random), self._step, loop, job, random, result)
            return
        self.under_way.discard(job)
        _settle(result, job.result, job.error)


def _run_at_once(func: Callable[..., Any], args: tuple[Any, ...], result: asyncio.Future[Any]) -> None:
    try:
        value, error = func(*args), None
    except BaseException as problem:  # noqa: BLE001 - raised where the result is asked for
        value, error = None, problem
    _settle(result, value, error)


def _settle(result: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(value)
    else:
        result.set_exception(error)
