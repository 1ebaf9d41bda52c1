"""An event loop in a world of its own: a clock that jumps to the next timer, processes and sockets that are objects."""

import asyncio
import selectors
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from simulation import Broken

if TYPE_CHECKING:
    from simulation.network import Listener
    from simulation.world import World

MOST_STEPS = 200_000
"""Turns of a loop in one run, beyond which it is taken to go round for ever."""

inhabitant: ContextVar["Inhabitant | None"] = ContextVar("inhabitant", default=None)
"""The simulated process whose code runs; None is the one that all others descend from."""


class Inhabitant:
    """What the code of one simulated process has of its own: its tasks, which end with it."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_dead = False


class Clock(selectors.BaseSelector):
    """Where a loop waits: nothing is ever ready, and time passes at once."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.steps = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let *timeout* seconds pass."""
        self.steps += 1
        if timeout is None:
            raise Broken("everybody waits for somebody else, and no timer is set")
        if self.steps > MOST_STEPS:
            raise Broken(f"more than {MOST_STEPS:,} steps")
        if timeout > 0:
            self.now += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Remember what the loop itself watches; nothing will ever come there."""
        key = selectors.SelectorKey(fileobj, fileobj, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Forget it."""
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is watched."""
        return MappingProxyType(self._keys)


class Loop(asyncio.SelectorEventLoop):
    """The loop of *world*."""

    def __init__(self, world: "World") -> None:
        self.clock = Clock()
        super().__init__(self.clock)
        self._world = world
        self.set_exception_handler(self._tell)
        self.set_task_factory(_owned_task)

    def time(self) -> float:
        """Return the simulated seconds."""
        return self.clock.now

    async def subprocess_exec(self, protocol_factory: Callable[[], Any], *args: Any, **_: Any) -> Any:
        """Start a simulated program."""
        protocol = protocol_factory()
        transport = self._world.start(protocol, [str(one) for one in args])
        return transport, protocol

    async def create_server(self, protocol_factory: Callable[[], Any], *_: Any, sock: Any = None, **__: Any) -> Any:
        """Accept connections of a simulated socket."""
        listener: Listener = sock
        return listener.accept_by(protocol_factory)

    def run_in_executor(  # type: ignore[override]
        self, _: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run *func* in a simulated thread."""
        return self._world.threads.run(self, func, *args)

    def _tell(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._world.broken(f"the loop was told: {context.get('message')}: {context.get('exception')!r}")


def _owned_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coro, loop=loop, **options)
    owner = inhabitant.get()
    if owner is not None:
        owner.tasks.add(task)
        task.add_done_callback(owner.tasks.discard)
    return task


__all__ = ["Clock", "Inhabitant", "Loop", "Process", "inhabitant"]
