"""The real server over HTTP, under the names that the conformance suite asks for.

The suite speaks HTTP only and wants tools, resources and prompts of its own names. A name that stands for something
the product has is translated, and the product's own handler answers; what the product cannot have is missing here
too, but for one tool that does nothing but ask for a capability of the client.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import mcp_types as types
import uvicorn
from mcp.shared.exceptions import MCPError

from orchestr8_sqlite.builder import build_index
from orchestr8_sqlite.server.app import LibraryServer, make_server
from orchestr8_sqlite.service import Service
from orchestr8_sqlite.settings import read_settings

LIBRARY = Path(__file__).parent / "library"

RESOURCES = {
    "test://static-text": "orchestr8://guides/plain",
    "test://static-binary": "skill://pixel/assets/pixel.png",
    "test://template/123/data": "orchestr8://guides/123",
    "test://watched-resource": "orchestr8://guides/plain",
}
"""The suite's resource → the resource of the library that is read, or subscribed to, instead."""

SEARCH: tuple[str, Mapping[str, object]] = ("search", {"query": "reading one resource"})
TOOLS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "test_simple_text": ("load", {"uris": ["orchestr8://guides/plain"]}),
    "test_error_handling": ("search", {}),
    "test_streaming_elicitation": SEARCH,
    "test_logging_tool": SEARCH,
}
"""The suite's tool → the product's tool and arguments that answer instead."""

NEW_PROMPT = "---\nname: new\ndescription: A prompt that was not there before\n---\n\nText.\n"
Context = Any
Params = Any
Result = Any
Handler = Callable[[Context, Params], Awaitable[Result]]
"""A handler of the SDK, whatever its method."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Yield the address of the server over the fixture library, whose copy and index are put into *folder*."""
    root = Path(copytree(LIBRARY, folder / "library"))
    index = folder / "index.db"
    build_index([root], index)
    service = Service(read_settings(index))
    with ThreadPoolExecutor(4) as executor, socket.create_server(("127.0.0.1", 0)) as listener:
        server = make_server(service, executor)
        _translate_resources(server)
        _translate_tools(server, Changing(server, root, index))
        web = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none"))
        thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        web.should_exit = True
        thread.join()
    service.close()


class Changing:
    """Changes the library and its index while the server runs; the server's own code tells who listens."""

    def __init__(self, server: LibraryServer, root: Path, index: Path) -> None:
        self._server = server
        self._root = root
        self._index = index

    async def prompts(self) -> None:
        """Add a prompt and take it away."""
        prompt = self._root / "prompts" / "new.md"
        prompt.write_text(NEW_PROMPT, encoding="utf-8")
        await self._build()
        prompt.unlink()
        await self._build()

    async def tools(self) -> None:
        """Take the only skill away, and with it the tools for skills, and put it back."""
        skill = self._root / "skills" / "pixel"
        skill.rename(self._root.parent / "pixel")
        await self._build()
        (self._root.parent / "pixel").rename(skill)
        await self._build()

    async def _build(self) -> None:
        await asyncio.to_thread(build_index, [self._root], self._index)
        await self._server.changes.check()


def _translate_resources(server: LibraryServer) -> None:
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        entry = server.get_request_handler(method)
        if entry is not None:
            server.add_request_handler(method, entry.params_type, _translated(entry.handler))


def _translated(handler: Handler) -> Handler:
    async def answer(context: Context, params: Params) -> Result:
        return await handler(context, params.model_copy(update={"uri": RESOURCES.get(params.uri, params.uri)}))

    return answer


def _translate_tools(server: LibraryServer, changing: Changing) -> None:
    entry = server.get_request_handler("tools/call")
    assert entry is not None

    async def call(context: Context, params: types.CallToolRequestParams) -> Result:
        if params.name == "test_missing_capability":
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                "This needs a client that lends its model.",
                {"requiredCapabilities": {"sampling": {}}},
            )
        change = {"test_trigger_prompt_change": changing.prompts, "test_trigger_tool_change": changing.tools}
        if params.name in change:
            await change[params.name]()
            return types.CallToolResult(content=[types.TextContent(text="The library has changed.")])
        name, arguments = TOOLS.get(params.name, (params.name, params.arguments))
        return await entry.handler(context, params.model_copy(update={"name": name, "arguments": arguments}))

    server.add_request_handler("tools/call", types.CallToolRequestParams, call)
