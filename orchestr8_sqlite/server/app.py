"""The server: maps each method of the protocol to its handler."""

import asyncio
from concurrent.futures import Executor
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions

from orchestr8_sqlite import __version__
from orchestr8_sqlite.server.changes import Changes
from orchestr8_sqlite.server.completions import Completions
from orchestr8_sqlite.server.definitions import TOOLS
from orchestr8_sqlite.server.guard import Context, Guard, Sessions, log_request
from orchestr8_sqlite.server.identity import (
    CACHE_SCOPE,
    DESCRIPTION,
    EXTENSIONS,
    FRESH_MS,
    NAME,
    TITLE,
    read_instructions,
)
from orchestr8_sqlite.server.prompts import Prompts
from orchestr8_sqlite.server.replies import Replies
from orchestr8_sqlite.server.resources import Resources
from orchestr8_sqlite.server.sdk_gaps import SERVED, Eras, Stream
from orchestr8_sqlite.server.skills import serve_skills
from orchestr8_sqlite.server.tools import Tools
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Profile

QUERY_THREADS = 4
SWITCH_SECONDS = 0.001
"""Longest time that a thread may keep the event loop from running. With Python's default of 0.005, the slowest of 100
pings beside four searches takes half as long again, and no search gets faster."""

CACHED_METHODS = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
ALL_CHANGE = NotificationOptions(prompts_changed=True, resources_changed=True)


class LibraryServer(Server[dict[str, Any]]):
    """The SDK's server over a library; call `changes.check` when the index may have been replaced."""

    def __init__(
        self,
        service: Service,
        executor: Executor,
        *,
        profile: Profile = Profile.LIBRARY,
        instructions: str | None = None,
        fresh_ms: int = FRESH_MS,
        ready: asyncio.Event | None = None,
        sessions: Sessions | None = None,
        stateless: bool = False,
    ) -> None:
        """Make the server.

        Args:
            executor: Runs the work of requests.
            profile: The profile of tools to offer.
            instructions: What clients tell their model about the server; None for the result of `read_instructions`.
            fresh_ms: How long a client may treat an answer as current, in milliseconds.
            ready: Set once there is an index; None if requests need not wait for one.
            sessions: Names the sessions of requests in the log.
            stateless: Whether each connection ends with its request, so that handshake clients cannot be notified.
        """
        service.snapshots.compare_all()
        guard = Guard(executor, service.snapshots, ready)
        self.changes = Changes(service, guard)
        self._stateless = stateless
        self._sessions = sessions or Sessions()
        tools, resources, prompts = Tools(service, guard, profile), Resources(service, guard), Prompts(service, guard)
        super().__init__(
            NAME,
            version=__version__,
            title=TITLE,
            description=DESCRIPTION,
            instructions=read_instructions(service.place, profile) if instructions is None else instructions,
            cache_hints={method: CacheHint(fresh_ms, CACHE_SCOPE) for method in CACHED_METHODS},  # type: ignore[misc]
            on_list_tools=tools.list_tools,
            on_call_tool=tools.call_tool,
            on_list_resources=resources.list_resources,
            on_list_resource_templates=resources.list_templates,
            on_read_resource=resources.read_resource,
            on_subscribe_resource=None if stateless else self.changes.subscribe,
            on_unsubscribe_resource=None if stateless else self.changes.unsubscribe,
            on_subscriptions_listen=self.changes.listen,
            on_list_prompts=prompts.list_prompts,
            on_get_prompt=prompts.get_prompt,
            on_completion=Completions(service, guard).complete,
            get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        )
        serve_skills(self, service, guard, profile, fresh_ms)
        if not stateless:
            self.add_notification_handler(
                "notifications/initialized", types.NotificationParams, self.changes.initialized
            )
        self.middleware[:] = [self._answer, Replies(service, guard, service.cache_size)]

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the server's part of the handshake; unless stateless, it promises to announce changed lists."""
        told = NotificationOptions() if self._stateless else ALL_CHANGE
        return super().create_initialization_options(
            notification_options or told, experimental_capabilities, extensions
        )

    async def run(
        self,
        read_stream: Stream,
        write_stream: Stream,
        initialization_options: InitializationOptions,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve a connection until its read side ends; each request chooses its era."""

        async def serve(incoming: Stream, outgoing: Stream) -> None:
            await super(LibraryServer, self).run(incoming, outgoing, initialization_options, raise_exceptions)

        await Eras(serve).run(read_stream, write_stream)

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request, log it, and check whether it read a new index."""
        try:
            result = await log_request(ctx, call_next, self._sessions.name_of(ctx))
        finally:
            await self.changes.notice()
        if ctx.method == "initialize" and isinstance(result, dict):  # the SDK does this for newer revisions only
            result["capabilities"]["extensions"] = EXTENSIONS
        elif ctx.method == "server/discover" and isinstance(result, dict):  # the SDK omits handshake revisions
            result["supportedVersions"] = list(SERVED)
            result["capabilities"]["tools"] = {"listChanged": False}
        return result
