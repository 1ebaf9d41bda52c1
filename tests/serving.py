"""The server in memory: as the SDK's own client meets it, and as the messages on the wire show it."""

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, TextContent, TextResourceContents

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Profile, Settings

HANDSHAKE: Literal["legacy"] = "legacy"
MODERN: Literal["2026-07-28"] = "2026-07-28"
Era = Literal["legacy", "2026-07-28"]
both_eras = pytest.mark.parametrize("era", [HANDSHAKE, MODERN])

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*HANDSHAKES, MODERN)
PATIENCE = 10
"""Seconds after which what was waited for is taken as never coming."""

CLIENT = {"name": "test", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
"""What every request of 2026-07-28 carries in `_meta`."""

Message = dict[str, Any]


@contextmanager
def serving(
    index: Path, entries: int = 200, profile: Profile = Profile.LIBRARY
) -> Iterator[tuple[Service, LibraryServer]]:
    """Yield a service over *index* and the server over it."""
    service = Service(Settings(index, "info", entries))
    with ThreadPoolExecutor(2) as executor:
        yield service, LibraryServer(service, executor, profile=profile)
    service.close()


Ask = Callable[..., Message]
"""`ask("tools/list", cursor="…")` sends a request and returns its whole answer, with `result` or `error`."""


@contextmanager
def asking(
    index: Path, revision: str = MODERN, entries: int = 200, profile: Profile = Profile.LIBRARY
) -> Iterator[Ask]:
    """Yield a function that asks a server over *index* and waits for the answer."""
    with (
        serving(index, entries, profile) as (_, server),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(wired(server, revision)) as wire,
    ):
        yield lambda method, **params: portal.call(partial(wire.ask, method, **params))


def call(ask: Ask, tool: str, **arguments: object) -> Message:
    """Return the result of a tool."""
    answer = ask("tools/call", name=tool, arguments=arguments)
    assert "result" in answer, answer
    result: Message = answer["result"]
    return result


def texts(result: Message) -> list[str]:
    """Return the texts in the content of a tool's result."""
    return [content["text"] for content in result["content"] if content["type"] == "text"]


@asynccontextmanager
async def connected(service: Service, era: Era) -> AsyncIterator[Client]:
    """Yield the SDK's client of a server over *service*."""
    with ThreadPoolExecutor(2) as executor:
        async with Client(LibraryServer(service, executor), mode=era) as client:
            yield client


def text_of(content: object) -> str:
    """Return the text of what a tool, a prompt or a resource gave."""
    assert isinstance(content, TextContent | TextResourceContents)
    return content.text


class Wire:
    """A client that speaks *revision* in messages of its own.

    `heard` holds the notifications that came, `ended` the subscriptions that the server has ended, `greeting` the
    answer to the handshake.
    """

    def __init__(self, revision: str, streams: MessageStream) -> None:
        self.revision = revision
        self.heard: list[Message] = []
        self.ended: list[object] = []
        self.greeting: Message = {}
        self._incoming, self._outgoing = streams
        self._replies: dict[object, Message] = {}
        self._came = anyio.Event()
        self._last_id = 0

    async def start(self, method: str, **params: object) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        if self.revision == MODERN:
            params["_meta"] = ENVELOPE
        request = JSONRPCRequest(jsonrpc="2.0", id=self._last_id, method=method, params=params)
        await self._outgoing.send(SessionMessage(request))
        return self._last_id

    async def tell(self, method: str, **params: object) -> None:
        """Send a notification."""
        notification = JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
        await self._outgoing.send(SessionMessage(notification))

    async def reply(self, request_id: int) -> Message:
        """Return the answer to a request: `result` or `error`."""
        with anyio.fail_after(PATIENCE):
            while request_id not in self._replies:
                await self._came.wait()
        return self._replies.pop(request_id)

    async def ask(self, method: str, **params: object) -> Message:
        """Send a request and return its answer, which holds `result` or `error`."""
        return await self.reply(await self.start(method, **params))

    async def result(self, method: str, **params: object) -> Message:
        """Send a request and return its result."""
        answer = await self.ask(method, **params)
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    async def hear(self, count: int) -> list[Message]:
        """Return the notifications that came, once there are *count* of them."""
        with anyio.fail_after(PATIENCE):
            while len(self.heard) < count:
                await self._came.wait()
        return self.heard

    async def receive(self, *, task_status: TaskStatus[None]) -> None:
        """Take what the server sends until the connection ends."""
        task_status.started()
        with suppress(anyio.ClosedResourceError):
            async for message in self._incoming:
                assert isinstance(message, SessionMessage)
                self._take(message.message.model_dump(by_alias=True, mode="json", exclude_unset=True))

    def _take(self, message: Message) -> None:
        if message.get("method") == "notifications/cancelled":
            self.ended.append(message["params"]["requestId"])
        elif "method" in message:
            self.heard.append(message)
        else:
            self._replies[message["id"]] = message
        self._came.set()
        self._came = anyio.Event()

    async def leave(self) -> None:
        """End the connection from the client's side, both ways."""
        await self._outgoing.aclose()
        await self._incoming.aclose()


@asynccontextmanager
async def wired(server: LibraryServer, revision: str) -> AsyncIterator[Wire]:
    """Yield a client of *server* that has shaken hands, where its revision does so."""
    async with (
        create_client_server_memory_streams() as (ours, (server_in, server_out)),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.run, server_in, server_out, server.create_initialization_options())
        wire = Wire(revision, ours)
        await tasks.start(wire.receive)
        if revision != MODERN:
            wire.greeting = await wire.result(
                "initialize", protocolVersion=revision, capabilities={}, clientInfo=CLIENT
            )
            await wire.tell("notifications/initialized")
        yield wire
        await wire.leave()
        tasks.cancel_scope.cancel()
