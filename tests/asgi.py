"""An application for the web, asked in this process."""

import json
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from starlette.types import ASGIApp, Message

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.guard import Guard
from orchestr8_sqlite.server.http.access import Access, bind, own_names
from orchestr8_sqlite.server.http.page import Page
from orchestr8_sqlite.server.http.web import Health, make_app
from orchestr8_sqlite.server.supply.freshness import Freshness
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Reply(NamedTuple):
    """What an application answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:  # noqa: ANN401 - JSON
        """Return the body, which is JSON."""
        return json.loads(self.body)


class Asked(NamedTuple):
    """An application that is ready, and its address."""

    app: ASGIApp
    host: str

    async def send(
        self,
        body: object,
        *,
        verb: str = "POST",
        path: str = "/mcp",
        client: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the answer to a request with a body of JSON, or of bytes."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        said = {"host": self.host, **JSON, **(headers or {})}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": verb,
            "path": path.partition("?")[0],
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.encode(), value.encode()) for name, value in said.items()],
            "client": (client, 1),
        }
        waiting = [{"type": "http.request", "body": sent, "more_body": False}]
        answered: list[Message] = []

        async def receive() -> Message:
            if not waiting:
                await anyio.sleep_forever()
            return waiting.pop()

        async def keep(message: Message) -> None:
            answered.append(message)

        await self.app(scope, receive, keep)
        start, *parts = answered
        assert [part.get("more_body", False) for part in parts] == [*[True] * (len(parts) - 1), False]
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], found, b"".join(part["body"] for part in parts))


@asynccontextmanager
async def living(app: ASGIApp, host: str) -> AsyncIterator[Asked]:
    """Yield *app* between its start and its end."""
    started, ending = anyio.Event(), anyio.Event()
    waiting = ["lifespan.startup", "lifespan.shutdown"]

    async def receive() -> Message:
        if len(waiting) == 1:
            await ending.wait()
        return {"type": waiting.pop(0)}

    async def send(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete":
            started.set()

    async def live() -> None:
        await app({"type": "lifespan"}, receive, send)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        await started.wait()
        yield Asked(app, host)
        ending.set()


@asynccontextmanager
async def serving(index: Path, access: Access) -> AsyncIterator[Asked]:
    """Yield a server over HTTP without its sockets."""
    service = Service(Settings(index, "info", 200))
    with bind(access) as listener, ThreadPoolExecutor(2) as executor:
        server = LibraryServer(service, executor, stateless=True)
        page = Page(service, Guard(executor, service.snapshots))
        app = make_app(server, Health(service, executor, Freshness()), page, access, listener)
        async with living(app, own_names(access, listener)[0]) as web:
            yield web
        await page.close()
    service.close()
