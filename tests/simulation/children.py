"""The programs that a simulated server starts: how they run, talk over pipes, and end."""

import asyncio
import json
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from orchestr8_sqlite.server.http.worker import serve_as_told
from orchestr8_sqlite.server.http.workers import READY, read_order
from simulation.loop import Inhabitant, inhabitant

if TYPE_CHECKING:
    from simulation.world import World

KILLED = -9


class Pipe(asyncio.Transport):
    """One pipe of a child, as the server sees it; what it writes goes to *take*."""

    def __init__(self, take: Callable[[bytes], None], end: Callable[[], None]) -> None:
        super().__init__()
        self._take, self._end = take, end
        self._is_closed = False

    def write(self, data: Any) -> None:
        """Write to the child."""
        if not self._is_closed:
            self._take(bytes(data))

    def get_write_buffer_size(self) -> int:
        """Return 0: a child's pipe has room."""
        return 0

    def can_write_eof(self) -> bool:
        """Tell that its end can be told."""
        return True

    def write_eof(self) -> None:
        """Tell the child that there is no more."""
        self.close()

    def close(self) -> None:
        """Close it."""
        if not self._is_closed:
            self._is_closed = True
            self._end()

    def is_closing(self) -> bool:
        """Tell whether it is closed."""
        return self._is_closed

    def pause_reading(self) -> None:
        """Take no more for now; what has come stays in memory here."""

    def resume_reading(self) -> None:
        """Take what comes."""


class Child(asyncio.SubprocessTransport):
    """A process that was started, as a transport for the server, and as the world of the program in it."""

    def __init__(
        self, world: "World", number: int, protocol: SubprocessStreamProtocol, random: Random, kind: str
    ) -> None:
        super().__init__()
        self.world = world
        self.kind = kind
        self.number = number
        self.random = random
        self.started = world.now
        self.exit_code: int | None = None
        self.inhabitant = Inhabitant()
        self.inbox = asyncio.StreamReader()
        self.stop = asyncio.Event()
        self.is_stubborn = random.random() < 0.1
        self.is_ready = kind == "builder"
        self.is_told_to_end = False
        self.has_built = False
        self._protocol = protocol
        self._has_ended = asyncio.Event()
        self._stdin = Pipe(self._take, self._end_input)
        self._stdout, self._stderr = Pipe(lambda _: None, lambda: None), Pipe(lambda _: None, lambda: None)
        protocol.connection_made(self)

    def run(self, program: Callable[["Child"], Coroutine[Any, Any, int]]) -> None:
        """Run *program*; its result is the exit code."""
        self._in_own_context(self._begin, program)

    def _in_own_context(self, call: Callable[..., Any], *args: Any) -> None:
        reset = inhabitant.set(self.inhabitant)
        try:
            call(*args)
        finally:
            inhabitant.reset(reset)

    def _begin(self, program: Callable[["Child"], Coroutine[Any, Any, int]]) -> None:
        async def live() -> None:
            code = await program(self)
            self.exit(code)

        asyncio.ensure_future(live())  # noqa: RUF006 - the inhabitant keeps it

    # What the program does

    def say(self, data: bytes) -> None:
        """Write to standard output."""
        if self.exit_code is None:
            self.world.loop.call_soon(self._protocol.pipe_data_received, 1, data)

    def exit(self, code: int) -> None:
        """End, however that came; the system closes what was open."""
        if self.exit_code is not None:
            return
        self.exit_code = code
        self.world.ended(self)
        self.world.listener.reset(self.inhabitant)
        self.inhabitant.is_dead = True
        for task in list(self.inhabitant.tasks):
            task.cancel()
        loop = self.world.loop
        for fd in (1, 2):
            loop.call_soon(self._protocol.pipe_connection_lost, fd, None)
        loop.call_soon(self._stdin.close)
        loop.call_soon(self._protocol.pipe_connection_lost, 0, None)
        loop.call_soon(self._protocol.process_exited)
        loop.call_soon(self._has_ended.set)

    def _take(self, data: bytes) -> None:
        if self.exit_code is None:
            self.inbox.feed_data(data)

    def _end_input(self) -> None:
        if self.exit_code is None:
            self.inbox.feed_eof()

    # What the server does

    def get_pid(self) -> int:
        """Return its number."""
        return self.number

    def get_returncode(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self.exit_code

    def get_pipe_transport(self, fd: int) -> Any:
        """Return one of its pipes."""
        return (self._stdin, self._stdout, self._stderr)[fd]

    async def _wait(self) -> int | None:
        await self._has_ended.wait()
        return self.exit_code

    def send_signal(self, signal: int) -> None:
        """Send it a signal."""
        if self.exit_code is not None:
            raise ProcessLookupError
        self.is_told_to_end = True
        if signal == -KILLED:
            self.exit(KILLED)
        elif not self.is_stubborn:
            self.stop.set()

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(15)

    def kill(self) -> None:
        """End it."""
        self.send_signal(-KILLED)

    def close(self) -> None:
        """Close all pipes."""
        self._stdin.close()

    def is_closing(self) -> bool:
        """Tell whether it has ended."""
        return self.exit_code is not None


async def worker(child: Child) -> int:
    """Answer as the product's worker does; some never get so far."""
    world = child.world
    order = await read_order(child.inbox)
    await asyncio.sleep(child.random.random() * 2)
    fate = child.random.random()
    if fate < world.knobs.failing_starts:
        if fate < world.knobs.failing_starts / 3:
            child.say(b"x" * 70_000)  # more than a line may have
        return 1
    if fate < world.knobs.failing_starts * 1.3:
        await asyncio.sleep(10_000)  # it hangs, and listens to no signal
    all_answered = await serve_as_told(
        order,
        world.listener,  # type: ignore[arg-type]
        child.inbox,
        child.stop,
        lambda: _ready(child),
    )
    return 0 if all_answered else 1


def _ready(child: Child) -> None:
    child.world.tell(f"worker {child.number} is ready")
    if not child.is_told_to_end:
        child.world.has_served = True
    child.is_ready = True
    child.say(READY)


async def builder(child: Child) -> int:
    """Build as `build --watch --json` does: now, and whenever the library has changed."""
    world = child.world
    ending = asyncio.ensure_future(_until_told(child))
    try:
        await asyncio.sleep(child.random.random())
        built = 0
        while not ending.done():
            if built != world.library:
                built = await _build(child)
                continue
            changed = asyncio.ensure_future(world.next_edit())
            await asyncio.wait({changed, ending}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
    finally:
        ending.cancel()
    return 0


async def _until_told(child: Child) -> None:
    """Wait until the program is to end: its input has ended, or a signal came."""
    stopping = asyncio.ensure_future(child.stop.wait())
    reading = asyncio.ensure_future(child.inbox.read())
    tasks = {stopping} if child.is_stubborn else {stopping, reading}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    reading.cancel()


async def _build(child: Child) -> int:
    """Build the library as it is, and report; return what was built, 0 where that failed."""
    world, random = child.world, child.random
    edition = world.library
    await asyncio.sleep(random.random() * world.knobs.build_seconds)
    if world.builds_fail:
        world.tell("a build fails")
        _report(child, {"event": "failed", "message": "The disk is full."}, stale=True)
        await asyncio.sleep(1)
        return 0
    is_new = world.shelf.content != edition or not child.has_built
    child.has_built = True
    world.place(edition)
    if not is_new:
        _report(child, {"event": "current"}, stale=False)
        return edition
    diagnostics = [] if random.random() < 0.8 else [_diagnostic()] * random.choice((1, 30))
    values = {"generation": f"g{edition}", "fragments": 3, "seconds": 0.1, "changed": ["library/a.md"]}
    _report(child, {"event": "built", **values, "diagnostics": diagnostics}, stale=False)
    return edition


def _report(child: Child, event: dict[str, object], *, stale: bool) -> None:
    line = json.dumps(event).encode() + b"\n"
    if child.random.random() < 0.15:  # in two pieces; it may die between them
        cut = child.random.randrange(1, len(line))
        child.say(line[:cut])
        dies = child.random.random() < 0.3 and cut < child.world.knobs.longest_line
        after = (child.exit, KILLED) if dies else (_finish_report, child, line[cut:], stale)
        child.world.loop.call_later(0.05, *after)
    else:
        _finish_report(child, line, stale)


def _finish_report(child: Child, rest: bytes, stale: bool) -> None:
    if child.exit_code is None:
        child.say(rest)
        child.world.reported(child, stale=stale)


def _diagnostic() -> dict[str, object]:
    place = {"root": "library", "path": "a.md", "line": 3, "severity": "warning", "code": "null-list"}
    return {**place, "message": "A list is null.", "fix": "Write one."}
