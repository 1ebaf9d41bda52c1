"""The real server over HTTP, under the names that the conformance suite asks for.

The suite speaks HTTP only and wants tools, resources and prompts of its own names. A name that stands for something
the product has is translated, and the product's own handler answers; what the product cannot have is missing here
too, but for one tool that does nothing but ask for a capability of the client.
"""

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile, copytree, rmtree
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from support import build

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.service.service import Service
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
    "test_trigger_prompt_change": SEARCH,
    "test_trigger_tool_change": SEARCH,
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
    """Yield the address of the server over the fixture library, whose indexes are put into *folder*."""
    variants = Variants(folder)
    service = Service(read_settings(variants.index))
    with ThreadPoolExecutor(4) as executor, socket.create_server(("127.0.0.1", 0)) as listener:
        server = LibraryServer(service, executor)
        _translate_resources(server)
        _translate_tools(server)
        _change_when_asked(server, variants)
        web = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none"))
        thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        web.should_exit = True
        thread.join()
    service.close()


class Variants:
    """Indexes of the library as it is, with a prompt more, and without its only skill; one of them is served.

    They are built beforehand, because the suite waits no longer than a second and a half for the news.
    """

    def __init__(self, folder: Path) -> None:
        root = Path(copytree(LIBRARY, folder / "library"))
        self.index = build(root, folder / "index.db")
        self.plain = Path(copyfile(self.index, folder / "plain.db"))
        prompt = root / "prompts" / "new.md"
        prompt.write_text(NEW_PROMPT, encoding="utf-8")
        self.more_prompts = build(root, folder / "more-prompts.db")
        prompt.unlink()
        rmtree(root / "skills")
        self.fewer_tools = build(root, folder / "fewer-tools.db")

    def serve(self, variant: Path) -> None:
        """Put *variant* where the server's index is."""
        Path(copyfile(variant, self.index.with_suffix(".new"))).replace(self.index)


def _translate_resources(server: LibraryServer) -> None:
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        entry = server.get_request_handler(method)
        assert entry is not None
        server.add_request_handler(method, entry.params_type, _translated(entry.handler))


def _translated(handler: Handler) -> Handler:
    async def answer(context: Context, params: Params) -> Result:
        return await handler(context, params.model_copy(update={"uri": RESOURCES.get(params.uri, params.uri)}))

    return answer


def _translate_tools(server: LibraryServer) -> None:
    entry = server.get_request_handler("tools/call")
    assert entry is not None

    async def call(context: Context, params: types.CallToolRequestParams) -> Result:
        if params.name == "test_missing_capability":
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                "This needs a client that lends its model.",
                {"requiredCapabilities": {"sampling": {}}},
            )
        name, arguments = TOOLS.get(params.name, (params.name, params.arguments))
        return await entry.handler(context, params.model_copy(update={"name": name, "arguments": arguments}))

    server.add_request_handler("tools/call", types.CallToolRequestParams, call)


def _change_when_asked(server: LibraryServer, variants: Variants) -> None:
    """Serve another variant for a moment when the suite calls its tool for that; the server tells who listens."""
    changed = {"test_trigger_prompt_change": variants.more_prompts, "test_trigger_tool_change": variants.fewer_tools}

    async def change(ctx: Context, call_next: CallNext) -> HandlerResult:
        variant = changed.get(str((ctx.params or {}).get("name")))
        for shown in (variant, variants.plain) if variant else ():
            variants.serve(shown)
            await server.changes.check()
        return await call_next(ctx)

    server.middleware.insert(0, change)
