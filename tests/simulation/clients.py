"""Clients of a simulated server: what they ask, how they read, and what they make of what comes."""

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from simulation import Broken
from simulation.library import LARGE, OTHER, RETRY

if TYPE_CHECKING:
    from simulation.network import Connection
    from simulation.world import World

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "simulated", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CHANGED = b"notifications/resources/list_changed"
ANSWER_SECONDS = 20.0
"""How long a client that reads waits at most for an answer, however threads are held up."""


class Request(NamedTuple):
    """What is sent, and the statuses that may answer it besides those that may answer anything."""

    name: str
    data: bytes
    statuses: tuple[int, ...]


class Reply(NamedTuple):
    """What came as an answer."""

    status: int
    headers: bytes
    body: bytes


def call(method: str, named: str = "", /, **params: object) -> Request:
    """Return a request of the protocol that is answered well."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}).encode()
    header = f"Mcp-Name: {named}\r\n" if named else ""
    accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    head = f"{accept}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{header}"
    return plain("POST", "/mcp", head, body, method, (200,))


def plain(method: str, path: str, head: str, body: bytes, name: str, statuses: tuple[int, ...]) -> Request:
    """Return any request."""
    text = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:8765\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    return Request(name, text.encode() + body, statuses)


LOAD = call("tools/call", "load", name="load", arguments={"uris": [RETRY, OTHER]})
READ_LARGE = call("resources/read", LARGE, uri=LARGE)
LISTEN = call("subscriptions/listen", notifications={"resourcesListChanged": True})
HEALTH = plain("GET", "/healthz", "", b"", "health", (200, 503))
PING = call("ping")
ASKED = (
    LOAD,
    LOAD,
    call("tools/call", "search", name="search", arguments={"query": "retrying a flaky call", "mode": "catalog"}),
    call("resources/read", RETRY, uri=RETRY),
    HEALTH,
    HEALTH,
)
"""What good clients ask."""

WRONG = (
    plain("GET", "/elsewhere", "", b"", "elsewhere", (404,)),
    plain("GET", "/mcp", "", b"", "GET", (405,)),
    plain("POST", "/mcp", "Content-Type: application/json\r\n", b"{", "no JSON", (400,)),
    Request("too large", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8765\r\nContent-Length: 5000000\r\n\r\n", (413,)),
    Request("no HTTP", b"nonsense\r\n\r\n", (400,)),
)


def take_reply(inbox: bytearray, *, is_over: bool) -> Reply | None:
    """Return the first whole answer of *inbox*, taken away, None where there is none yet.

    Args:
        is_over: Whether nothing more will come, which ends an answer without a length.
    """
    end = inbox.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(inbox[:end]).lower()
    place = head.find(b"content-length:")
    if place < 0 and not is_over:
        return None
    length = len(inbox) - end - 4 if place < 0 else int(head[place + 15 :].split(b"\r\n", 1)[0])
    if len(inbox) < end + 4 + length:
        return None
    body = bytes(inbox[end + 4 : end + 4 + length])
    del inbox[: end + 4 + length]
    return Reply(int(head[9:12]), head, body)


class Client:
    """One client; `play` is what it does."""

    reads_at_once = True

    def __init__(self, world: "World", number: int, address: str, random: Random) -> None:
        self.world = world
        self.number = number
        self.address = address
        self.random = random
        self.inbox = bytearray()
        self.connection: Connection | None = None
        self.head_since: float | None = None
        """Since when the server has waited for the head of a request, None while there is none to wait for."""
        self._came = asyncio.Event()

    def connect(self) -> bool:
        """Open a connection; tell whether that was possible."""
        self.inbox.clear()
        self.connection = self.world.listener.connect(self, self.random)
        self.head_since = self.world.now
        return self.connection is not None

    def readable(self, _: "Connection") -> None:
        """Take note that something can be read."""
        if self.reads_at_once:
            self.world.loop.call_soon(self._read_all)

    def _read_all(self) -> None:
        if self.connection is not None:
            self.inbox += self.connection.read(1 << 30)
            self._came.set()

    def ended(self, connection: "Connection") -> None:
        """Take note that the connection has ended."""
        if connection is self.connection:
            self._came.set()

    async def play(self) -> None:
        """Do what this client does."""
        raise NotImplementedError

    async def send(self, request: Request) -> None:
        """Send a request, sometimes in two pieces."""
        connection = self.connection
        assert connection is not None
        self.world.asks(self, request)
        if self.head_since is None:
            self.head_since = self.world.now
        if self.random.random() < 0.2:
            cut = self.random.randrange(1, len(request.data))
            connection.send(request.data[:cut])
            await asyncio.sleep(self.random.random() * self.world.knobs.head_seconds / 2)
            connection.send(request.data[cut:])
        else:
            connection.send(request.data)
        self.head_since = None

    async def reply(self, within: float) -> Reply | None:
        """Return the next answer, None where the connection has ended before.

        Raises:
            Broken: It did not come *within* so many seconds.
        """
        connection = self.connection
        assert connection is not None
        until = self.world.now + within
        while (found := take_reply(self.inbox, is_over=False)) is None:
            if connection.ended_by:
                self._read_all()
                return take_reply(self.inbox, is_over=True)
            self._came.clear()
            try:
                async with asyncio.timeout(until - self.world.now):
                    await self._came.wait()
            except TimeoutError:
                raise Broken(f"client {self.number} had no answer within {within:g} s") from None
        return found

    async def ask(self, request: Request) -> bool:
        """Send a request and judge what comes; tell whether the connection can be used again."""
        connection = self.connection
        assert connection is not None
        sent = self.world.now
        await self.send(request)
        reply = await self.reply(ANSWER_SECONDS)
        if reply is None:
            self.world.judge_silence(self, request)
            return False
        self.world.judge(self, request, reply, sent)
        if self.inbox:
            raise Broken(f"client {self.number} was answered twice: {bytes(self.inbox[:80])!r}")
        return b"connection: close" not in reply.headers and not connection.ended_by


class Good(Client):
    """Asks and reads, some times over, on one connection or several."""

    async def play(self) -> None:
        """Ask."""
        alive = False
        for _ in range(self.random.choice((1, 1, 2, 3, 5))):
            if not alive and not self.connect():
                self.world.judge_refusal(self)
                return
            wrong = self.random.random() < 0.3
            alive = await self.ask(self.random.choice(WRONG if wrong else ASKED))
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.random() * 5)
                if self.inbox:
                    raise Broken(f"client {self.number} was answered twice")
                if self.connection is not None and self.connection.ended_by:
                    alive = False
        if self.connection is not None:
            self.connection.leave()


class Hasty(Client):
    """Asks and goes away before the answer."""

    async def play(self) -> None:
        """Ask, and leave."""
        if self.connect():
            await self.send(self.random.choice((LOAD, READ_LARGE, HEALTH)))
            await asyncio.sleep(self.random.random())
            assert self.connection is not None
            self.connection.leave()


class Burst(Client):
    """Sends several requests at once on one connection, and wants as many answers."""

    async def play(self) -> None:
        """Ask all, then read all."""
        if not self.connect():
            return
        assert self.connection is not None
        sent = self.world.now
        count = self.random.randrange(2, 6)
        for _ in range(count):
            self.world.asks(self, HEALTH)
            self.connection.send(HEALTH.data)
        self.head_since = None
        for _ in range(count):
            reply = await self.reply(ANSWER_SECONDS)
            if reply is None:
                self.world.judge_silence(self, HEALTH)
                return
            self.world.judge(self, HEALTH, reply, sent)
            if b"connection: close" in reply.headers:
                return
        await asyncio.sleep(1)
        if self.inbox:
            raise Broken(f"client {self.number} was answered once too often")
        self.connection.leave()


class Silent(Client):
    """Begins a request, and says no more: its connection has to end."""

    async def play(self) -> None:
        """Begin, and wait for the end."""
        if not self.connect():
            return
        connection = self.connection
        assert connection is not None
        if self.random.random() < 0.5:
            connection.send(LOAD.data[: self.random.randrange(1, 200)])
        seconds = self.world.knobs.head_seconds
        await asyncio.sleep(seconds + 1)
        if not connection.ended_by:
            raise Broken(f"client {self.number} has said nothing for {seconds + 1:g} s and is waited for")


class Deaf(Client):
    """Asks for a large answer and reads nothing: its connection has to end."""

    reads_at_once = False

    async def play(self) -> None:
        """Ask, and wait for the end."""
        if not self.connect():
            return
        connection = self.connection
        assert connection is not None
        await self.send(READ_LARGE)
        while not connection.is_paused and not connection.ended_by:
            await asyncio.sleep(0.5)
        await asyncio.sleep(2 * self.world.knobs.unread_seconds + 0.5)
        if connection.is_paused:
            raise Broken(f"client {self.number} reads nothing and is waited for")
        connection.leave()


class Slow(Client):
    """Asks for a large answer and reads it in pieces, never pausing for as long as it may."""

    reads_at_once = False

    async def play(self) -> None:
        """Ask, and read."""
        if not self.connect():
            return
        connection = self.connection
        assert connection is not None
        sent = self.world.now
        await self.send(READ_LARGE)
        pause = min(self.world.knobs.unread_seconds * 0.45, 2.0)
        piece = max(self.world.knobs.kernel // 2, 1500)
        for _ in range(100):
            await asyncio.sleep(pause)
            self.inbox += connection.read(piece)
            reply = take_reply(self.inbox, is_over=False)
            if reply is not None:
                self.world.judge(self, READ_LARGE, reply, sent)
                connection.leave()
                return
            if connection.ended_by and connection.ended_by != "closed":
                self.world.judge_silence(self, READ_LARGE)
                return
        raise Broken(f"client {self.number} read slowly and had no whole answer")


class Listening(Client):
    """Listens for changes until the server ends."""

    async def play(self) -> None:
        """Listen, and hear of each change that stays."""
        if not self.connect():
            return
        connection = self.connection
        assert connection is not None
        await self.send(LISTEN)
        heard = list[float]()
        began, since = -1.0, self.world.now
        while not connection.ended_by:
            self._came.clear()
            await self._came.wait()
            if began < 0 and b"acknowledged" in self.inbox:
                began = self.world.now
            heard += [self.world.now] * (self.inbox.count(CHANGED) - len(heard))
        if began >= 0:
            self.world.judge_listening(self, began, since, heard)
