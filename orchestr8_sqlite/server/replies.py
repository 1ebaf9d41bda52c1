"""Keeps replies in memory as they were sent, so that a repeated request needs no reading and no rendering.

A reply depends only on the index, the revision and the parameters, so these are its key. Replies of a replaced index
are dropped: no request would recall them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from mcp.server.context import CallNext, HandlerResult

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.server.guard import Context, Guard, editions_read, note, noted
from orchestr8_sqlite.service.memory import Memory
from orchestr8_sqlite.service.service import ANSWER_SECONDS, Service
from orchestr8_sqlite.service.snapshots import Edition, edition_of

TEXT_SECONDS = 4 * 60 * 60
PROMPT_SECONDS = 60 * 60
PROMPT_SHARE = 2
"""Other replies that are kept per prompt. Source of all three: shared/DESIGN.md, section 9, "Caches"."""

LARGEST = 20_000
"""Largest reply that is worth its memory, in tokens."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A result in its wire form, and its details for the log."""

    result: dict[str, Any]
    details: Mapping[str, object]


class Replies:
    """Middleware of the SDK's server that recalls replies; each use of a text or prompt renews its time."""

    def __init__(self, service: Service, guard: Guard, entries: int) -> None:
        answers: Memory[Reply] = Memory(entries, ANSWER_SECONDS)
        texts: Memory[Reply] = Memory(entries, TEXT_SECONDS, renew=True)
        prompts: Memory[Reply] = Memory(ceil(entries / PROMPT_SHARE), PROMPT_SECONDS, renew=True)
        self._service = service
        self._guard = guard
        self._answers = answers
        for memory in (answers, texts, prompts):
            service.when_replaced(memory.forget)
        self._memories = {
            "tools/call": answers,
            "resources/read": texts,
            "resources/list": texts,
            "skills/list": texts,
            "prompts/get": prompts,
            "prompts/list": prompts,
        }

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Return the kept reply to the request, or a new one."""
        memory = self._answers if _is_search(ctx) else self._memories.get(ctx.method)
        edition = await self._edition() if memory is not None else None
        if memory is None or edition is None:
            return await call_next(ctx)
        asked = {name: value for name, value in (ctx.params or {}).items() if name != "_meta"}
        key = edition, ctx.protocol_version, ctx.method, _digest(asked)
        kept = memory.recall(key)
        if kept is not None:
            note(**{**kept.details, "tier": "cache"})
            return kept.result
        with editions_read() as read:
            result = await call_next(ctx)
        details = noted()
        if isinstance(result, dict) and read <= {edition} and _is_worth(result, details):
            memory.remember(key, Reply(result, details))
        return result

    async def _edition(self) -> Edition | None:
        """Return the current version of the index, opened if it is new, or None if it cannot be read."""
        try:
            return self._service.snapshots.unchanged_edition() or await self._guard.in_thread(
                lambda: edition_of(self._service.catalog)
            )
        except CatalogError:
            return None


def _digest(asked: Mapping[str, object]) -> bytes:
    """Return a digest of the parameters, which keeps the key short."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()


def _is_search(context: Context) -> bool:
    """Tell whether the request reads a URI with a query, which is a search."""
    return context.method == "resources/read" and "?" in str((context.params or {}).get("uri"))


def _is_worth(result: Mapping[str, Any], details: Mapping[str, object]) -> bool:
    tokens = details.get("tokens", 0)
    return not result.get("isError") and isinstance(tokens, int) and tokens <= LARGEST
