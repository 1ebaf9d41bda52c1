"""Replies kept in memory as they went out: what is asked again is answered without reading or shaping it anew.

Every reply is a pure function of the index, the revision and the parameters, so these are the key. Those of an index
that was replaced are dropped: nobody would recall them.
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
"""For so many other replies one prompt is kept. Source of all three: shared/DESIGN.md, section 9, "Caches"."""

LARGEST = 20_000
"""Tokens above which a reply is not worth its memory."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A result in its wire form, and what the log says of it."""

    result: dict[str, Any]
    details: Mapping[str, object]


class Replies:
    """Middleware of the SDK's server that recalls replies; texts and prompts are kept on while they are used."""

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
            "prompts/get": prompts,
            "prompts/list": prompts,
        }

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Return the reply that is kept for the request, or the one made now."""
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
        """Return the version of the index that is in place, opened where it is new; None where it cannot be."""
        try:
            return self._service.snapshots.unchanged_edition() or await self._guard.in_thread(
                lambda: edition_of(self._service.catalog)
            )
        except CatalogError:
            return None


def _digest(asked: Mapping[str, object]) -> bytes:
    """Return what stands for parameters of any length in a key."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()


def _is_search(context: Context) -> bool:
    """Tell whether a URI is read that asks a question; only those have a query."""
    return context.method == "resources/read" and "?" in str((context.params or {}).get("uri"))


def _is_worth(result: Mapping[str, Any], details: Mapping[str, object]) -> bool:
    tokens = details.get("tokens", 0)
    return not result.get("isError") and isinstance(tokens, int) and tokens <= LARGEST
