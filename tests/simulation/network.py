"""Connections of a simulated network: a listening socket, buffers of both sides, and what comes of them."""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any

from simulation.loop import Inhabitant, inhabitant

if TYPE_CHECKING:
    from simulation.clients import Client
    from simulation.world import World

LOW_SHARE = 4
"""By how much a buffer must have gone below its high-water mark before more may be written, as in asyncio."""


class Server:
    """What `create_server` returns: accepts connections of a listener for one process."""

    def __init__(self, listener: "Listener", factory: Callable[[], Any]) -> None:
        self._listener = listener
        self.factory = factory
        self.owner = inhabitant.get()
        self.context = copy_context()
        self.sockets = (listener,)

    def close(self) -> None:
        """Accept no more."""
        if self in self._listener.servers:
            self._listener.servers.remove(self)

    async def wait_closed(self) -> None:
        """Return at once, as there is nothing to wait for."""


class Listener:
    """A bound socket that processes share; in place of a `socket.socket`."""

    family, type, proto = 2, 1, 6

    def __init__(self, world: "World") -> None:
        self._world = world
        self.servers: list[Server] = []
        self.connections: set[Connection] = set()

    def getsockname(self) -> tuple[str, int]:
        """Return the address."""
        return "127.0.0.1", 8765

    def fileno(self) -> int:
        """Return a number that nothing is opened by."""
        return 7

    def listen(self, _: int) -> None:
        """Let any number of connections wait."""

    def close(self) -> None:
        """Refuse connections of the starting process; workers have theirs."""

    def accept_by(self, factory: Callable[[], Any]) -> Server:
        """Let the process that asks accept connections."""
        server = Server(self, factory)
        self.servers.append(server)
        return server

    def connect(self, client: "Client", random: Random) -> "Connection | None":
        """Return a connection to one of the processes, None where nobody accepts any."""
        if not self.servers:
            return None
        connection = Connection(self._world, random.choice(self.servers), client)
        self.connections.add(connection)
        return connection

    def reset(self, owner: Inhabitant) -> None:
        """Do what the system does when a process has gone: end its connections, and accept no more for it."""
        self.servers[:] = [one for one in self.servers if one.owner is not owner]
        for connection in sorted(self.connections, key=lambda one: one.number):
            if connection.owner is owner:
                connection.drop("killed")


class Connection(asyncio.Transport):
    """A connection, as a transport for the server; the client calls `send`, `read`, `leave`.

    Of what the server writes, the system keeps up to *room* bytes for the client, the rest waits in the process.
    """

    def __init__(self, world: "World", server: Server, client: "Client") -> None:
        super().__init__({"peername": (client.address, 40_000), "sockname": ("127.0.0.1", 8765)})
        self._world = world
        self._loop = world.loop
        self.of_client = client
        self.client_address = client.address
        self.owner = server.owner
        self._context: Context = server.context
        self.number = client.number
        self.ended_by = ""
        self._is_closing = False
        self._out = bytearray()
        self._kernel = bytearray()
        self._paused = False
        self._reads = True
        self._waiting: list[bytes] = []
        self._protocol: Any = None
        self.taken_at = world.loop.time()
        self._call(self._make, server.factory)

    def _call(self, call: Callable[..., Any], *args: Any) -> None:
        """Let the process do something soon."""
        self._loop.call_soon(call, *args, context=self._context)

    def _make(self, factory: Callable[[], Any]) -> None:
        if not self.ended_by:
            self._protocol = factory()
            self._protocol.connection_made(self)
            self._world.check_connections(self)

    # What the server does

    def write(self, data: Any) -> None:
        """Send to the client, at once or later."""
        if self.ended_by or not data:
            return
        self._out += data
        self._push()
        if len(self._out) > self._world.knobs.high_water and not self._paused:
            self._paused = True
            self._protocol.pause_writing()
        self._world.check_memory(self.owner)

    def _push(self) -> None:
        room = self._world.knobs.kernel - len(self._kernel)
        if room > 0 and self._out:
            self._kernel += self._out[:room]
            del self._out[:room]
            self.of_client.readable(self)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait in the process."""
        return len(self._out)

    def is_closing(self) -> bool:
        """Tell whether the server has ended it."""
        return self._is_closing or bool(self.ended_by)

    def close(self) -> None:
        """End it once everything has been sent."""
        self._is_closing = True
        if not self._out:
            self._finish("closed")

    def abort(self) -> None:
        """End it now."""
        if not self.ended_by:
            self._world.judge_abort(self)
        self._out.clear()
        self._finish("aborted")

    def pause_reading(self) -> None:
        """Take nothing from the client for now."""
        self._reads = False

    def resume_reading(self) -> None:
        """Take what has come."""
        self._reads = True
        while self._reads and self._waiting and not self.ended_by:
            self._call(self._receive, self._waiting.pop(0))

    def is_reading(self) -> bool:
        """Tell whether the server takes what comes."""
        return self._reads

    def get_protocol(self) -> Any:
        """Return what speaks for the server."""
        return self._protocol

    def _finish(self, why: str) -> None:
        if self.ended_by:
            return
        self.ended_by = why
        self._call(self._lose, None)
        self._loop.call_soon(self.of_client.ended, self)

    def _lose(self, problem: Exception | None) -> None:
        self._world.listener.connections.discard(self)
        if self._protocol is not None:
            self._protocol.connection_lost(problem)

    # What the client and the system do

    @property
    def is_open(self) -> bool:
        """Tell whether the server holds it and means to go on."""
        return not self.ended_by and not self._is_closing and self._protocol is not None

    @property
    def is_paused(self) -> bool:
        """Tell whether the server waits for the client to read."""
        return self._paused and not self.ended_by

    def send(self, data: bytes) -> None:
        """Send to the server."""
        if not self.ended_by:
            self._call(self._receive, data)

    def _receive(self, data: bytes) -> None:
        if self.ended_by or self._is_closing:
            return
        if self._reads:
            self._protocol.data_received(data)
        else:
            self._waiting.append(data)

    def read(self, most: int) -> bytes:
        """Take up to *most* bytes of what the system keeps for the client."""
        data = bytes(self._kernel[:most])
        del self._kernel[:most]
        if data:
            self.taken_at = self._loop.time()
        if not self.ended_by:
            self._call(self._taken)
        return data

    def _taken(self) -> None:
        if self.ended_by:
            return
        self._push()
        if self._paused and len(self._out) <= self._world.knobs.high_water // LOW_SHARE:
            self._paused = False
            self._protocol.resume_writing()
        if self._is_closing and not self._out:
            self._finish("closed")

    def leave(self) -> None:
        """Go away as the client, however much is on its way."""
        self.drop("left")

    def drop(self, why: str) -> None:
        """End it from outside."""
        if self.ended_by:
            return
        self.ended_by = why
        self._out.clear()
        if why == "killed":
            self._world.listener.connections.discard(self)
        else:
            self._call(self._lose, ConnectionResetError())
        self._loop.call_soon(self.of_client.ended, self)
