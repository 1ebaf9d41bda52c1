"""Tells clients what has changed: lists and subscribed resources, in the form of each protocol revision.

Clients of handshake revisions hear of changed lists unasked, and of changed resources after `resources/subscribe`.
Clients of 2026-07-28 ask for both with `subscriptions/listen`. Call `check` when the index may be new.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import anyio
import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)

from orchestr8_sqlite.answers.skill_files import is_skill_uri
from orchestr8_sqlite.errors import CatalogError, RequestError, UnknownResource
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.model.uris import parse_uri
from orchestr8_sqlite.server.guard import Context, Guard, translated
from orchestr8_sqlite.server.resources import listed_skills
from orchestr8_sqlite.service.service import Service

logger = logging.getLogger(__name__)

LISTED_RESOURCES = gathered(
    """
SELECT f.uri, f.title, f.description, f.size, f.token_estimate, s.mtime_ns
  FROM fragment f JOIN source s ON s.id = f.source_id ORDER BY f.uri
""",
    order=[1],
)
LISTED_PROMPTS = """
SELECT p.name, p.title, p.description, p.version, a.name, a.description, a.required
  FROM prompt p LEFT JOIN prompt_argument a ON a.prompt_id = p.id ORDER BY p.name, a.ordinal
"""
MOST_SUBSCRIPTIONS = 1000


@dataclass(frozen=True, slots=True)
class Lists:
    """Digests of each list as clients see it, in one generation of the index."""

    generation: str
    resources: str
    prompts: str


NOTHING = Lists("", "", "")
"""What clients know before there is an index."""


class Changes:
    """Keeps the clients to notify of changes, and what they were last told."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._sessions: list[ServerSession] = []
        self._subscribed: set[str] = set()
        self._listened: Counter[str] = Counter()
        self._digests: dict[str, str] = {}
        self._lists: Lists | None = None
        self._checking = asyncio.Lock()

    async def initialized(self, context: Context, _: types.NotificationParams) -> None:
        """Keep the session of a client that has finished its handshake."""
        if all(kept.client_params is not context.session.client_params for kept in self._sessions):
            self._sessions.append(context.session)
        await self._begin()

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Start notifying of changes to a resource, which need not exist yet."""
        await self._remember(context, [params.uri])
        self._subscribed.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Stop notifying of changes to a resource."""
        self._subscribed.discard(params.uri)
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Send changes until the client cancels the request or the server ends."""
        uris = params.notifications.resource_subscriptions or []
        await self._begin()
        await self._remember(context, uris)
        self._listened.update(uris)
        try:
            return await self._listen(context, params)
        finally:
            self._listened.subtract(uris)

    async def _begin(self) -> None:
        """Record the state of the index once, so that the first change is noticed."""
        if self._lists is None and not self._guard.is_ready:
            self._lists = NOTHING
        elif self._lists is None:
            await self.check()

    async def notice(self) -> None:
        """Check for changes if a request has read a generation of the index that clients do not know."""
        if self._lists is not None and self._service.snapshots.generation != self._lists.generation:
            await self.check()

    async def check(self) -> None:
        """Compare the index with what clients were last told, and tell them what has changed."""
        async with self._checking:
            before, known = self._lists, dict(self._digests)
            try:
                lists, digests = await self._guard.in_thread(lambda: (self._look(), self._digests_of(self._wanted())))
            except CatalogError as problem:
                logger.warning("%s", problem)
                self._lists = before or NOTHING
                return
            self._lists, self._digests = lists, digests
            if before is not None and before.generation != lists.generation:
                changed = [uri for uri, digest in digests.items() if known.get(uri, digest) != digest]
                await self._tell(before, lists, changed)

    def close(self) -> None:
        """End every `subscriptions/listen` with its result; otherwise they would wait forever."""
        self._listen.close()

    def _wanted(self) -> list[str]:
        return sorted(self._subscribed | (+self._listened).keys())

    async def _remember(self, context: Context, uris: Sequence[str]) -> None:
        """Record the current content of *uris*.

        Raises:
            MCPError: One of them is not a URI of this server, or there would be too many subscriptions.
        """
        with translated(context):
            if len({*self._wanted(), *uris}) > MOST_SUBSCRIPTIONS:
                raise RequestError(f"At most {MOST_SUBSCRIPTIONS:,} resources can be subscribed to.")
            for uri in uris:
                _ = is_skill_uri(uri) or parse_uri(uri)
            async with self._checking:  # a check under way does not know them, and replaces all digests
                self._digests |= await self._guard.in_thread(lambda: self._digests_of(uris))

    def _look(self) -> Lists:
        catalog = self._service.catalog
        with catalog.reading():
            resources = _digest(chain(listed_skills(catalog), catalog.reader.execute(LISTED_RESOURCES)))
            prompts = _digest(catalog.reader.execute(LISTED_PROMPTS))
        return Lists(catalog.generation, resources, prompts)

    def _digests_of(self, uris: Iterable[str]) -> dict[str, str]:
        digests = {}
        for uri in uris:
            try:
                answer = self._service.read(uri)
                content = answer.text.encode() if answer.data is None else answer.data
            except UnknownResource:
                content = b""
            digests[uri] = hashlib.sha256(content).hexdigest()
        return digests

    async def _tell(self, before: Lists, after: Lists, updated: Sequence[str]) -> None:
        events: list[ServerEvent] = [ResourceUpdated(uri) for uri in updated]
        if before.resources != after.resources:
            events.append(ResourcesListChanged())
        if before.prompts != after.prompts:
            events.append(PromptsListChanged())
        for event in events:
            await self._bus.publish(event)
            for session in list(self._sessions):
                await self._send(session, event)

    async def _send(self, session: ServerSession, event: ServerEvent) -> None:
        """Send *event* to a client of a handshake revision; forget the client if it is gone."""
        try:
            match event:
                case ResourceUpdated(uri):
                    if uri in self._subscribed:
                        await session.send_resource_updated(uri)
                case ResourcesListChanged():
                    await session.send_resource_list_changed()
                case PromptsListChanged():
                    await session.send_prompt_list_changed()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._sessions.remove(session)


def _digest(rows: Iterable[tuple[object, ...]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()
