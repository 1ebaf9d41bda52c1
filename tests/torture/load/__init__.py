"""Sixteen clients at once, while the library is edited and the index replaced: nothing lost, wrong, or piled up.

One server process over one pair of pipes, and over HTTP with one worker and with two. Either it watches a library
that is edited all the time, with an earlier index put back now and then; or finished indexes of several editions are
renamed over the one that it serves, many times a second, and in some cases workers are killed besides. Every request
has to be answered once, by the right answer or the right refusal, of an edition that was in place meanwhile; one whose
connection breaks with its worker is sent again.

Memory is flat where its level in the second half of the time never rises to more than GROWTH times what it was at the
beginning of that half, levels being the medians of its quarters, and where no sample has more than PEAK times that.
Descriptors and threads may exceed the most of the first of these quarters by as many as requests under way hold. Each
process of the server is judged by itself, but for those that come and go, as those that help a build, and those that
have not answered anything when that half begins.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from orchestr8_sqlite.server.app import QUERY_THREADS
from torture import Case, Lost, Skipped
from torture.load.changes import KILLS, Change, Edits, Kills, Replacements
from torture.load.clients import PATIENCE, Connection, Door, Exchange, Patient, Pipes, keep_asking
from torture.load.library import URIS
from torture.load.questions import subscribing
from torture.load.samples import Sampler, check_flat, figures_of

CLIENTS = 16
SECONDS, FEW_SECONDS = 60.0, 6.5
GROWTH, SOON_GROWTH = 1.10, 1.25
"""Times the memory at the beginning of the second half; after so few seconds a server is not warm yet."""

SLACK = CLIENTS + 2 * QUERY_THREADS
"""Descriptors that requests under way may hold: a connection for each client, and for each thread one to the index and
one to that of before."""

SECONDS_OF_KILLS, YOUNG_GROWTH = 25.0, 1.6
"""How long workers of a server are killed, and how much the memory of one may grow that was just started: it takes
70 MiB before it answers, and 100 after some hundred answers."""

KILLED, FEW_KILLED = 10, 1
"""Servers whose workers are killed."""

WORKER_GONE = ("worker ended", "worker failed to start", "Unknown child process")
"""What may be logged where workers are killed; the last is asyncio's, up to Python 3.12, of one that ends while it is
told to."""

SAVED_MEANWHILE = ("written-while-read", "kept")
"""What is logged of a file that is being saved while a build reads it: the version before stays until the next one."""

LONGEST_LINE = 1 << 24
HTTP = ("--http", "127.0.0.1:0")


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield both ways to serve with both ways to change what is served."""
    seconds, growth = (FEW_SECONDS, SOON_GROWTH) if bounded else (SECONDS, GROWTH)
    ways: tuple[tuple[Sequence[str], type[Change]], ...] = (
        ((), Edits),
        ((), Replacements),
        (HTTP, Edits),
        ((*HTTP, "--workers", "2"), Replacements),
    )
    for options, change in ways:
        name = f"{change.__name__.lower()}, {' '.join(options) or 'stdio'}, {seconds:g} s"
        yield Case("load", name, partial(_run, name, change, options, seconds, growth, seed))
    for number in range(FEW_KILLED if bounded else KILLED):
        name = f"{KILLS} workers of server {number}"
        run = partial(_run, name, Kills, HTTP, SECONDS_OF_KILLS, YOUNG_GROWTH, seed + number)
        yield Case("workers are killed under load", name, run)


def _run(
    name: str, change: type[Change], options: Sequence[str], seconds: float, growth: float, seed: int, folder: Path
) -> None:
    """Put a server under load; say on standard error what came of it, in figures."""
    if not Path("/proc/self/status").exists():
        raise Skipped("there is no /proc to look at processes in")
    load = Load(change(folder, random.Random(seed)), options, folder, random.Random(seed))
    try:
        asyncio.run(load.run(seconds, growth))
    except BaseExceptionGroup as group:
        raise _first(group) from None
    finally:
        sys.stderr.write(f"{name}: {load.told()}\n")


def _first(problem: BaseException) -> BaseException:
    return _first(problem.exceptions[0]) if isinstance(problem, BaseExceptionGroup) else problem


class Load:
    """A server, its clients, and what changes meanwhile.

    Args:
        options: Of `serve`, besides those that *change* needs; none of them for stdio.
        folder: An empty one.
    """

    def __init__(self, change: Change, options: Sequence[str], folder: Path, chance: random.Random) -> None:
        self._change = change
        self._options = options
        self._log = folder / "log"
        self._folder = folder
        self._chance = chance
        self._exchange = Exchange(change.truth)
        self._figures: list[str] = []

    @property
    def answered(self) -> int:
        """Return how many requests have been answered."""
        return self._exchange.answered

    def told(self) -> str:
        """Return what has come of it so far, in figures: a line of counts, then one for each process."""
        exchange = self._exchange
        counts = f"{exchange.answered:,} requests answered, {exchange.cancelled:,} given up, {self._change.told()}"
        counts += f", {exchange.broken:,} connections broken" if self._change.breaks else ""
        return "\n    ".join([counts, *self._figures])

    async def run(self, seconds: float, growth: float) -> None:
        """Let all of it go on for so long, and raise what is wrong."""
        async with self._server() as process:
            sampler = Sampler(process.pid)
            async with asyncio.TaskGroup() as tasks:
                doors = await self._doors(process, tasks)
                begun = time.monotonic()
                try:
                    await self._go_on(doors, sampler, begun + seconds)
                    await self._change.settle(self._asking(doors[0]))
                    await _end(process, by_input=not self._options)
                finally:
                    for door in doors:
                        await door.hang_up()
            self._exchange.end()
        self._check_log()
        self._check_flat(sampler, begun + seconds / 2, growth)

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[Process]:
        """Yield a server process past its start; it is gone afterwards."""
        command = [sys.executable, "-m", "orchestr8_sqlite", "serve", "--log-format", "json"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTR8_")}
        with self._log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(*command, *self._change.options, *self._options),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env={**kept, "XDG_CACHE_HOME": str(self._folder)},
                limit=LONGEST_LINE,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _doors(self, process: Process, tasks: asyncio.TaskGroup) -> list[Door]:
        """Return a way to the server for each client."""
        if self._options:
            url = (await self._logged("serving"))["url"]
            port = int(url.rpartition(":")[2].partition("/")[0])
            kind = Patient if self._change.breaks else Connection
            return [kind(port, self._exchange) for _ in range(CLIENTS)]
        pipes = Pipes(process, self._exchange)
        await pipes.greet()
        tasks.create_task(pipes.read())
        for uri in URIS[:5]:
            await pipes.ask(f"subscribe {uri}", subscribing(uri))
        return [pipes] * CLIENTS

    async def _go_on(self, doors: Sequence[Door], sampler: Sampler, until: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._change.go_on(until))
            tasks.create_task(sampler.go_on(until))
            for number, door in enumerate(doors):
                chance = random.Random(self._chance.random())
                tasks.create_task(keep_asking(door, f"c{number:02}", chance, until, whole=self._change.whole))

    def _asking(self, door: Door) -> Callable[[Any], Any]:
        names = (f"last-{number}" for number in range(sys.maxsize))
        return lambda question: door.ask(next(names), question)

    async def _logged(self, message: str) -> Mapping[str, Any]:
        """Return the first line of the log with that message, once it is there."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for line in self._log.read_text(encoding="utf-8").splitlines():
                if f'"message": "{message}"' in line:
                    found: dict[str, Any] = json.loads(line)
                    return found
            await asyncio.sleep(0.05)
        raise Lost(f"the server does not start: {self._log.read_text(encoding='utf-8')[-400:]}")

    def _check_log(self) -> None:
        """Raise Lost where the log holds anything but lines about what is in order."""
        for line in self._log.read_text(encoding="utf-8").splitlines():
            said = json.loads(line) if line.startswith("{") else {"level": "none", "message": line}
            is_expected = self._change.breaks and said["message"].startswith(WORKER_GONE)
            is_expected |= said.get("code") in SAVED_MEANWHILE
            if said["level"] not in ("debug", "info") and not is_expected:
                raise Lost(f"the log says {line[:600]}")

    def _check_flat(self, sampler: Sampler, begin: float, growth: float) -> None:
        """Raise Lost where a process of the server grows from *begin* on."""
        looks = [moment for moment in sampler.looks if moment >= begin]
        judged = {process: figures_of(samples, looks) for process, samples in sampler.samples.items()}
        there = {process: figures for process, figures in judged.items() if figures}
        self._figures += [f"{sampler.names[process]}: {figures}" for process, figures in there.items()]
        if not there:
            raise Lost("no process of the server was there all the time")
        for process, figures in there.items():
            check_flat(sampler.names[process], figures, growth, SLACK)


async def _end(process: Process, *, by_input: bool) -> None:
    """End the server, by the end of its input or by a signal.

    Raises:
        Lost: It does not end, or not well.
    """
    assert process.stdin is not None
    if by_input:
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    try:
        code = await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        raise Lost("the server does not end") from None
    if code:
        raise Lost(f"the server ends with exit code {code}")
