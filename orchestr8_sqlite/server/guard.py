"""Runs a request: off the event loop, with its errors translated to the protocol's, and one log line."""

import asyncio
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from orchestr8_sqlite.answers.render import CLOSEST
from orchestr8_sqlite.errors import Orchestr8Error, RequestError, UnknownResource
from orchestr8_sqlite.model.requests import LookupResult
from orchestr8_sqlite.server.identity import said_of
from orchestr8_sqlite.server.log import of_request
from orchestr8_sqlite.service.service import Answer
from orchestr8_sqlite.service.snapshots import Edition, Snapshots
from orchestr8_sqlite.text.wording import one_line

logger = logging.getLogger(__name__)

RESOURCE_NOT_FOUND = -32002
"""Error code for an unknown resource before 2026-07-28; since then it is invalid params."""

BUG = "internal error in %s"
ABOUT_A_BUG = "Internal error; see the server's log."

MOST_FAULTS = 3
"""Most faults in a request's parameters that its answer names."""

MOST_WORDS = 10
"""Most words of a request that its line names as not covered."""

MOST_URIS = 30
"""Most URIs of an answer that its line names."""

WORD_LENGTH = 60

TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""Source: W3C Trace Context, sections 3.2.2 and 3.2.4: a version after 00 may have more behind a hyphen."""

R = TypeVar("R")
Context = Any
"""The SDK's `ServerRequestContext`; handlers need its `method`, `protocol_version`, `request_id` and `session`."""

_details: ContextVar[dict[str, object]] = ContextVar("details")
_editions: ContextVar[set[Edition]] = ContextVar("editions")


def note(**details: object) -> None:
    """Add *details* to the log line of the current request."""
    _details.get({}).update(details)


def note_answer(answer: Answer) -> None:
    """Add the tokens of an answer to that line, the fragments that it loads and, for a search, how it was found."""
    note(tokens=answer.tokens)
    if answer.loaded:
        note(loaded=answer.loaded)
    if answer.result is not None:
        note(**_search_details(answer.result, answer.content))


def _search_details(result: LookupResult, content: Mapping[str, Any]) -> dict[str, object]:
    """Return what the line of a search has: the request, how it was answered, and which URIs the answer lists."""
    request = result.request
    entries = content.get("matches") or content.get("skills") or ()
    closest = () if result.confident else result.candidates[:CLOSEST]
    uris = [entry["uri"] for entry in entries] or [candidate.uri for candidate in closest]
    also = {copy: rank for rank, entry in enumerate(entries, start=1) for copy in entry.get("also", ())}
    details = {
        "query": request.query,
        "mode": request.mode.value,
        "tier": result.tier.value,
        "results": len(result.candidates),
        "confident": result.confident,
        "coverage": result.coverage,
    }
    some = {
        "terms": request.terms,
        "filtered": bool(request.categories or request.tags),
        "uncovered": [one_line(word, WORD_LENGTH) for word in result.uncovered[:MOST_WORDS]],
        "uris": uris[:MOST_URIS],
        "also": also,
    }
    return details | {name: value for name, value in some.items() if value}


def noted() -> dict[str, object]:
    """Return what has been noted for that line so far, except the method and id of the request."""
    return {name: value for name, value in _details.get({}).items() if name not in ("method", "id")}


@contextmanager
def editions_read() -> Iterator[set[Edition]]:
    """Yield a set that collects the versions of the index read inside the context."""
    editions: set[Edition] = set()
    reset = _editions.set(editions)
    try:
        yield editions
    finally:
        _editions.reset(reset)


class Sessions:
    """Names the session of a request for the log.

    A connection is a session. Over HTTP, where requests are independent, a client's address and program stand for one;
    the name is a digest with *key*, from which nobody can tell the address.
    """

    def __init__(self, key: bytes = b"") -> None:
        self._key = key or os.urandom(16)
        self._connection = os.urandom(6).hex()

    def name_of(self, context: Context) -> str:
        """Return the name of the session that a request belongs to."""
        web = context.request
        if web is None:
            return self._connection
        client = f"{web.client.host if web.client else ''}\n{web.headers.get('user-agent', '')}"
        return hashlib.blake2b(client.encode(), key=self._key, digest_size=6).hexdigest()


class Guard:
    """Runs blocking work in *executor*; its errors reach a client without paths or tracebacks.

    Each piece of work reads one version of the index, and ends early if the client cancels the request.

    Args:
        snapshots: The index.
        ready: Set once there is an index; None if work need not wait for one.
    """

    def __init__(self, executor: Executor, snapshots: Snapshots, ready: asyncio.Event | None = None) -> None:
        self._executor = executor
        self._snapshots = snapshots
        self._ready = ready

    @property
    def is_ready(self) -> bool:
        """Tell whether work can begin at once."""
        return self._ready is None or self._ready.is_set()

    async def run(self, context: Context, work: Callable[[], R]) -> R:
        """Return what *work* returns, from a thread.

        Raises:
            MCPError: The work failed; the code depends on the client's revision.
        """
        with translated(context):
            return await self.in_thread(work)

    async def in_thread(self, work: Callable[[], R]) -> R:
        """Return what *work* returns, from a thread, once there is an index. Errors are not translated."""
        if self._ready is not None:
            await self._ready.wait()
        snapshot = self._snapshots.snapshot()

        def read() -> R:
            with snapshot:
                return work()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, read)
        except asyncio.CancelledError:
            snapshot.abandon()
            raise
        finally:
            if snapshot.edition is not None:
                _editions.get(set()).add(snapshot.edition)


@contextmanager
def translated(context: Context) -> Iterator[None]:
    """Turn every error in the block into an error of the protocol."""
    try:
        yield
    except MCPError:
        raise
    except UnknownResource as problem:
        if context.method != "resources/read":
            raise MCPError(types.INVALID_PARAMS, str(problem)) from None
        code = RESOURCE_NOT_FOUND if context.protocol_version < "2026" else types.INVALID_PARAMS
        raise MCPError(code, str(problem), data={"uri": (context.params or {}).get("uri")}) from None
    except RequestError as problem:
        raise MCPError(types.INVALID_PARAMS, str(problem)) from None
    except Orchestr8Error as problem:
        logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
        raise MCPError(types.INTERNAL_ERROR, said_of(problem)) from None
    except Exception:
        logger.exception(BUG, context.method)
        raise MCPError(types.INTERNAL_ERROR, ABOUT_A_BUG) from None


async def log_request(context: Context, call_next: CallNext, session: str) -> HandlerResult:
    """Answer a request and log its method, what it asked for, its milliseconds and any error code.

    Every line that is logged meanwhile names the request, its *session*, and the trace that it is part of.
    """
    if context.request_id is None:
        return await call_next(context)
    details: dict[str, object] = {"method": context.method, "id": context.request_id}
    reset = _details.set(details)
    known = {"request_id": os.urandom(8).hex(), "session": session, **_trace(context)}
    forget = of_request.set(known)
    started = time.perf_counter()
    try:
        return await call_next(context)
    except MCPError as problem:
        note(error=problem.error.code)
        raise
    except ValidationError as problem:  # in the client's parameters; handlers translate their own errors
        note(error=types.INVALID_PARAMS)
        raise MCPError(types.INVALID_PARAMS, _faults(problem)) from None
    except Exception:
        note(error=types.INTERNAL_ERROR)
        logger.exception(BUG, context.method)
        raise MCPError(types.INTERNAL_ERROR, ABOUT_A_BUG) from None
    finally:
        note(latency_ms=round((time.perf_counter() - started) * 1000, 2))
        logger.info("request", extra=details)
        _details.reset(reset)
        of_request.reset(forget)


def _trace(context: Context) -> dict[str, object]:
    """Return the `traceparent` that the client sent, if it has the form of one.

    Source: SEP-414: in `_meta`, "the keys traceparent, tracestate, and baggage follow W3C Trace Context".
    """
    meta = (context.params or {}).get("_meta")
    sent = meta.get("traceparent") if isinstance(meta, Mapping) else None
    if not isinstance(sent, str) or (found := TRACEPARENT.match(sent)) is None:
        return {}
    rest = sent[found.end() :]
    is_whole = not rest or (found[1] != "00" and rest.startswith("-"))
    return {"traceparent": found[0]} if is_whole else {}


def _faults(problem: ValidationError) -> str:
    """Return a sentence that names the wrong parameters and their faults."""
    errors = problem.errors(include_url=False, include_context=False, include_input=False)
    faults = (f"{one_line('.'.join(map(str, one['loc'])))}: {one['msg']}" for one in errors[:MOST_FAULTS])
    return f"Invalid parameters: {'; '.join(faults)}."
