"""Runs a request: off the event loop, with its errors translated to the protocol's, and one log line."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from orchestr8_sqlite.errors import Orchestr8Error, RequestError, UnknownResource
from orchestr8_sqlite.server.identity import said_of
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

R = TypeVar("R")
Context = Any
"""The SDK's `ServerRequestContext`; handlers need its `method`, `protocol_version`, `request_id` and `session`."""

_details: ContextVar[dict[str, object]] = ContextVar("details")
_editions: ContextVar[set[Edition]] = ContextVar("editions")


def note(**details: object) -> None:
    """Add *details* to the log line of the current request."""
    _details.get({}).update(details)


def note_answer(answer: Answer) -> None:
    """Add the tokens of an answer to that line and, for a search, how the answer was found."""
    note(tokens=answer.tokens)
    if answer.result is not None:
        query, tier = answer.result.request.query, answer.result.tier.value
        note(query=query, tier=tier, results=len(answer.result.candidates))


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


async def log_request(context: Context, call_next: CallNext) -> HandlerResult:
    """Answer a request and log its method, what it asked for, its milliseconds and any error code."""
    if context.request_id is None:
        return await call_next(context)
    details: dict[str, object] = {"method": context.method, "id": context.request_id}
    reset = _details.set(details)
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


def _faults(problem: ValidationError) -> str:
    """Return a sentence that names the wrong parameters and their faults."""
    errors = problem.errors(include_url=False, include_context=False, include_input=False)
    faults = (f"{one_line('.'.join(map(str, one['loc'])))}: {one['msg']}" for one in errors[:MOST_FAULTS])
    return f"Invalid parameters: {'; '.join(faults)}."
