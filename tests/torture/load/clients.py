"""Clients that ask without a pause: all over one pair of pipes, or each over its own connection of HTTP.

Raw messages, one a line or one a body: what is under load is the server, and nothing between hides a doubled reply.
"""

import asyncio
import itertools
import json
import random
import time
from contextlib import suppress
from typing import NamedTuple, Protocol

from servers import INITIALIZE, INITIALIZED, lines

from torture import Lost
from torture.load.questions import Message, Question, judged, questions
from torture.load.truth import Known, Truth

PATIENCE = 30.0
"""Seconds after which a reply is taken as never coming."""

AT_ONCE = 3
"""Requests that a client has under way at most, besides those that it cancels."""

CANCELLED, TOLD, HUNG_UP = 0.06, 0.03, 0.02
"""Shares of the rounds in which a client gives a request up, sends a notification, or begins a new connection."""

NOTIFICATIONS = {f"notifications/{kind}/list_changed" for kind in ("resources", "prompts", "tools")}
NOTIFICATIONS.add("notifications/resources/updated")
ROOTS_CHANGED = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-11-25\r\n\r\n"
)


BROKEN = (ConnectionError, asyncio.IncompleteReadError)
"""What comes of a connection whose other end is gone."""


class Waiting(NamedTuple):
    """A request under way, and who waits for its answer."""

    question: Question
    known: Known
    reply: asyncio.Future[Message]


class Exchange:
    """The requests of all clients: each has an id of its own, is answered once, and rightly."""

    def __init__(self, truth: Truth) -> None:
        self.answered = self.cancelled = self.broken = 0
        self._truth = truth
        self._waiting: dict[str, Waiting] = {}
        self._given_up: set[str] = set()
        self._done: set[str] = set()

    def ask(self, name: str, question: Question) -> Waiting:
        """Take note of a request that is about to be sent under the id *name*."""
        self._waiting[name] = Waiting(question, self._truth.now(), asyncio.get_running_loop().create_future())
        return self._waiting[name]

    def give_up(self, name: str) -> None:
        """Take note that nobody waits for the answer to *name* any more; it may still come, once."""
        if name in self._waiting:
            self._given_up.add(name)
            self.cancelled += 1

    def take(self, message: Message) -> None:
        """Take what the server has sent.

        Raises:
            Lost: It answers no request, or one that was answered before.
            Wrong: It is no right answer.
        """
        if "id" not in message and message.get("method") in NOTIFICATIONS:
            return
        name = message.get("id")
        if name in self._done:
            raise Lost(f"{name} was answered again: {str(message)[:300]}")
        if not isinstance(name, str) or name not in self._waiting:
            raise Lost(f"nobody asked for {str(message)[:300]}")
        self._done.add(name)
        waiting = self._waiting.pop(name)
        self._truth.check(judged(waiting.question, message), waiting.known)
        self._given_up.discard(name)
        self.answered += 1
        waiting.reply.set_result(message)

    def end(self) -> None:
        """Raise Lost where a request was never answered that nobody gave up."""
        if lost := sorted(self._waiting.keys() - self._given_up):
            raise Lost(f"{len(lost)} requests were never answered: {lost[:5]}")


class Door(Protocol):
    """A way to the server."""

    async def ask(self, name: str, question: Question) -> Message:
        """Return the answer to a request under the id *name*."""

    async def abandon(self, name: str, question: Question, seconds: float) -> None:
        """Send a request and give it up *seconds* later."""

    async def tell(self) -> None:
        """Send a notification."""

    async def hang_up(self) -> None:
        """Close the connection where there is one; the next request begins another."""


def message_of(name: str, question: Question) -> dict[str, object]:
    """Return the request under the id *name*."""
    return {"jsonrpc": "2.0", "id": name, "method": question.method, "params": question.params}


class Pipes:
    """One pair of pipes for all clients."""

    def __init__(self, process: asyncio.subprocess.Process, exchange: Exchange) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._writer, self._reader = process.stdin, process.stdout
        self._exchange = exchange

    async def greet(self) -> None:
        """Shake hands."""
        await self.send(INITIALIZE)
        assert json.loads(await asyncio.wait_for(self._reader.readline(), PATIENCE))["id"] == INITIALIZE["id"]
        await self.send(INITIALIZED)

    async def read(self) -> None:
        """Take what the server sends until it ends."""
        while line := await self._reader.readline():
            try:
                message = json.loads(line)
            except ValueError:
                raise Lost(f"no message: {line[:300]!r}") from None
            self._exchange.take(message)

    async def send(self, *messages: object) -> None:
        """Send messages as they are."""
        self._writer.write(lines(*messages))
        await self._writer.drain()

    async def ask(self, name: str, question: Question) -> Message:
        """Return the answer to a request under the id *name*."""
        waiting = self._exchange.ask(name, question)
        await self.send(message_of(name, question))
        return await _in_time(waiting)

    async def abandon(self, name: str, question: Question, seconds: float) -> None:
        """Send a request and cancel it *seconds* later."""
        self._exchange.ask(name, question)
        await self.send(message_of(name, question))
        await asyncio.sleep(seconds)
        self._exchange.give_up(name)
        params = {"requestId": name, "reason": "no longer wanted"}
        await self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def tell(self) -> None:
        """Send a notification."""
        await self.send(ROOTS_CHANGED)

    async def hang_up(self) -> None:
        """Do nothing: the pipes are those of all."""


class Connection:
    """A connection of HTTP that is kept; one request at a time."""

    def __init__(self, port: int, exchange: Exchange) -> None:
        self._port = port
        self._exchange = exchange
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._free = asyncio.Lock()

    async def ask(self, name: str, question: Question) -> Message:
        """Return the answer to a request under the id *name*."""
        async with self._free:
            waiting = self._exchange.ask(name, question)
            status, body = await asyncio.wait_for(self._post(message_of(name, question)), PATIENCE)
            if status != 200:
                raise Lost(f"{status} for {question.method}: {body[:300]!r}")
            self._exchange.take(json.loads(body))
            return await _in_time(waiting)

    async def abandon(self, name: str, question: Question, seconds: float) -> None:
        """Send a request and close the connection *seconds* later."""
        async with self._free:
            self._exchange.ask(name, question)
            await self._send(message_of(name, question))
            await asyncio.sleep(seconds)
            self._exchange.give_up(name)
            await self._close()

    async def tell(self) -> None:
        """Send a notification."""
        async with self._free:
            status, body = await self._post(ROOTS_CHANGED)
        if status != 202 or body:
            raise Lost(f"{status} for a notification: {body[:300]!r}")

    async def hang_up(self) -> None:
        """Close the connection; the next request begins another."""
        async with self._free:
            await self._close()

    async def _post(self, message: object) -> tuple[int, bytes]:
        reader = await self._send(message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        return int(head.split()[1]), await reader.readexactly(int(fields.get("content-length", 0)))

    async def _send(self, message: object) -> asyncio.StreamReader:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = lines(message)
        writer.write(HEAD.format(port=self._port, length=len(body)).encode() + body)
        await writer.drain()
        return reader

    async def _close(self) -> None:
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class Patient(Connection):
    """A connection whose requests are sent once more, under another id, where it breaks before the answer."""

    async def ask(self, name: str, question: Question) -> Message:
        """Return the answer to a request under the id *name*, or under one made of it."""
        with suppress(*BROKEN):
            return await super().ask(name, question)
        await self._broke(name)
        return await self.ask(f"{name}+", question)

    async def abandon(self, name: str, question: Question, seconds: float) -> None:
        """Send a request and close the connection *seconds* later."""
        with suppress(*BROKEN):
            return await super().abandon(name, question, seconds)
        return await self._broke(name)

    async def tell(self) -> None:
        """Send a notification."""
        with suppress(*BROKEN):
            return await super().tell()
        return await self._broke()

    async def _broke(self, name: str | None = None) -> None:
        self._exchange.broken += 1
        if name is not None:
            self._exchange.give_up(name)
        await self.hang_up()


async def _in_time(waiting: Waiting) -> Message:
    try:
        return await asyncio.wait_for(waiting.reply, PATIENCE)
    except TimeoutError:
        raise Lost(f"no reply to {waiting.question.method} after {PATIENCE:.0f} s") from None


async def keep_asking(door: Door, name: str, chance: random.Random, until: float, *, whole: bool) -> None:
    """Ask through *door*, always anew once the answers have come, until the time is over.

    Args:
        name: What ids begin with.
        whole: Whether the index is always one of the whole library at one moment.
    """
    names = (f"{name}-{number}" for number in itertools.count())
    asked = questions(chance, whole=whole)
    while time.monotonic() < until:
        if chance.random() < CANCELLED:
            await door.abandon(next(names), next(asked), chance.random() / 50)
        if chance.random() < TOLD:
            await door.tell()
        if chance.random() < HUNG_UP:
            await door.hang_up()
        count = chance.randint(1, AT_ONCE)
        await asyncio.gather(*(door.ask(next(names), next(asked)) for _ in range(count)))
