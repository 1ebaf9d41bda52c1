"""Does what the specification demands and the SDK (mcp 2.3.0) lacks; each part quotes the sentence it fulfils.

Eras           a connection whose requests each choose their era; tells the client when a subscription ends
mend, mending  what the SDK's errors leave out
mismatch       a header that names another revision than `_meta`
Batches        batches over a connection that answers one request at a time
answer_batch   the same over HTTP

tests/test_sdk_gaps.py tests the SDK alone, and fails once a part of this is no longer needed.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.message import SessionMessage
from mcp_types import (
    HEADER_MISMATCH,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Scope, Send

from orchestr8_sqlite.server.messages import Batch, NoMessage, dump, envelope
from orchestr8_sqlite.text.wording import one_line

SERVED = tuple(reversed(KNOWN_PROTOCOL_VERSIONS))
"""Every revision that the server supports, newest first."""

BATCHED = "2025-03-26"
"""The only revision with batches."""

VERSION_HEADER = "mcp-protocol-version"
LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"
JSON = (b"content-type", b"application/json")

Stream = Any
"""What `Server.run` takes: an object to read messages from, or to send them to."""


class Eras:
    """One connection, served by one SDK loop per era; every request says which era it belongs to.

    The SDK lets the first request decide for all others, even if it is refused, so a client whose first revision is
    unknown could never agree on another. Source: 2026-07-28, "Versioning and Compatibility": "An `initialize` request
    selects legacy semantics", "A request carrying modern per-request `_meta` is served statelessly".
    """

    def __init__(self, serve: Callable[[Stream, Stream], Coroutine[Any, Any, None]]) -> None:
        """Prepare; *serve* serves a connection of one era."""
        self._serve = serve
        self._loops: dict[bool, MemoryObjectSendStream[SessionMessage | Exception]] = {}

    async def run(self, incoming: Stream, outgoing: Stream) -> None:
        """Serve a connection until its read side ends."""
        answers = _Answers(outgoing)
        async with incoming, outgoing, AsyncExitStack() as streams, anyio.create_task_group() as tasks:
            async for item in incoming:
                await self._hand_on(item, answers, tasks, streams)
            for loop in self._loops.values():
                loop.close()

    async def _hand_on(
        self, item: SessionMessage | Exception, answers: "_Answers", tasks: TaskGroup, streams: AsyncExitStack
    ) -> None:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest):
            answers.expect(message)
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            answers.forget((message.params or {}).get("requestId"))
            for loop in self._loops.values():  # one of them knows the request
                await loop.send(item)
            return
        is_modern = isinstance(message, JSONRPCRequest) and message.method != "initialize" and bool(envelope(message))
        if is_modern not in self._loops:
            self._loops[is_modern], theirs = anyio.create_memory_object_stream[SessionMessage | Exception]()
            streams.enter_context(self._loops[is_modern])
            streams.enter_context(theirs)
            tasks.start_soon(self._serve, theirs, answers)
        await self._loops[is_modern].send(item)


class _Answers:
    """Sends the messages of the loops to the client, and tells it when a subscription ends.

    Source: 2026-07-28, "Cancellation": "A server MUST send `notifications/cancelled` referencing a
    `subscriptions/listen` request ID when it tears down that subscription stream". "Subscriptions" puts the result
    first and the end of the stream after it; over HTTP the stream closes by itself.
    """

    def __init__(self, outgoing: Stream) -> None:
        self._outgoing = outgoing
        self._listening: set[RequestId] = set()

    def expect(self, request: JSONRPCRequest) -> None:
        """Remember a request if it opens a subscription."""
        if request.method == LISTEN:
            self._listening.add(request.id)

    def forget(self, request_id: object) -> None:
        """Forget a request that has ended or that the client has cancelled."""
        if isinstance(request_id, str | int):
            self._listening.discard(request_id)

    async def send(self, item: SessionMessage) -> None:
        """Send a message; after the result of a subscription, also its end."""
        message = item.message
        if isinstance(message, JSONRPCError):
            item = replace(item, message=mend(message))
        await self._outgoing.send(item)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._listening:
            self.forget(message.id)
            if isinstance(message, JSONRPCResponse):
                await self._outgoing.send(SessionMessage(_end_of_stream(message.id)))

    async def aclose(self) -> None:
        """Leave the stream open: the other era still uses it."""

    async def __aenter__(self) -> "_Answers":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _end_of_stream(request_id: RequestId) -> JSONRPCNotification:
    params = {"requestId": request_id, "_meta": {SUBSCRIPTION_ID_META_KEY: request_id}}
    return JSONRPCNotification(jsonrpc="2.0", method=CANCELLED, params=params)


def mend(answer: JSONRPCError) -> JSONRPCError:
    """Return *answer*, with every supported revision if it lists them.

    The SDK lists only those without a handshake. Source: 2026-07-28, "Versioning and Compatibility": "it MUST respond
    with an `UnsupportedProtocolVersionError` listing the versions it does support".
    """
    error = answer.error
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.data, dict):
        return answer
    told: dict[str, Any] = {"data": {**error.data, "supported": list(SERVED)}}
    if (requested := error.data.get("requested")) in HANDSHAKE_PROTOCOL_VERSIONS:
        told["message"] = f"Revision {requested} starts with initialize; do not name it in _meta."
    return answer.model_copy(update={"error": error.model_copy(update=told)})


def mending(send: Send) -> Send:
    """Return a function that sends an HTTP answer, mended if it is a JSON-RPC error.

    If an error belongs to no request, the SDK sets its id to null, which no schema allows: 2026-07-28, "Streamable
    HTTP", has "a JSON-RPC error response that has no `id`".
    """
    held: list[Message] = []

    async def send_mended(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            held.append(message)
            return
        if held:
            start = held.pop()
            message = {**message, "body": _mend_body(message.get("body", b""))}
            length = (b"content-length", str(len(message["body"])).encode())
            others = [header for header in start["headers"] if header[0].lower() != length[0]]
            await send({**start, "headers": [*others, length]})
        await send(message)

    return send_mended


def _mend_body(body: bytes) -> bytes:
    try:
        answer = JSONRPCError.model_validate_json(body)
    except ValueError:
        return body
    return dump(mend(answer))


def mismatch(headers: Headers, message: JSONRPCMessage) -> JSONRPCError | None:
    """Return the error for a request that names one revision in its header and another in `_meta`, or None.

    The SDK compares them only if the header says 2026-07-28. Source: 2026-07-28, "Streamable HTTP": "The header
    value MUST match the `io.modelcontextprotocol/protocolVersion` field carried in the request body's `_meta`".
    """
    meta = envelope(message)
    said = headers.getlist(VERSION_HEADER)
    if meta is None or said == [meta[PROTOCOL_VERSION_META_KEY]]:
        return None
    assert isinstance(message, JSONRPCRequest)
    in_header, in_meta = (one_line(text, 40) for text in (", ".join(said), str(meta[PROTOCOL_VERSION_META_KEY])))
    text = f"MCP-Protocol-Version is {in_header or 'missing'}, but _meta says {in_meta}; send the same in both."
    return JSONRPCError(jsonrpc="2.0", id=message.id, error=ErrorData(code=HEADER_MISMATCH, message=text))


@dataclass
class _OpenBatch:
    """A batch with unanswered requests."""

    waiting: Counter[RequestId]
    answers: list[JSONRPCMessage] = field(default_factory=list)


class Batches:
    """The open batches of a connection; keeps the answers to each until it has all of them.

    The SDK has none. Source: 2025-03-26, "Batching": implementations "MUST support receiving JSON-RPC batches".
    """

    def __init__(self) -> None:
        self._open: list[_OpenBatch] = []

    def begin(self, members: Batch) -> Sequence[JSONRPCMessage]:
        """Take a batch, and return the answers to send now: the errors of a batch without requests, else none."""
        refused = [member.error for member in members if isinstance(member, NoMessage)]
        asked = Counter(member.id for member in members if isinstance(member, JSONRPCRequest))
        if not asked:
            return refused
        self._open.append(_OpenBatch(asked, [*refused]))
        return []

    def end(self, request_id: RequestId | None, answer: JSONRPCMessage | None) -> Sequence[JSONRPCMessage] | None:
        """Take the *answer* to a request, or None if it gets none.

        Returns:
            All answers to its batch once they are complete, no answers before that, None if it is in no batch.
        """
        batch = next((one for one in self._open if request_id is not None and one.waiting[request_id]), None)
        if batch is None or request_id is None:
            return None
        batch.waiting[request_id] -= 1
        if answer is not None:
            batch.answers.append(answer)
        if batch.waiting.total():
            return []
        self._open.remove(batch)
        return batch.answers


async def answer_batch(batch: Batch, app: ASGIApp, scope: Scope, send: Send) -> None:
    """Answer a batch over HTTP with *app*, which takes one message at a time; stream the answers as one array.

    If *app* refuses a message for how it was sent, such as a header, before any answer, it refuses the whole batch.
    """
    begun = False
    for member in batch:
        if isinstance(member, NoMessage):
            body = dump(member.error)
        else:
            start, body = await _exchange(app, scope, dump(member))
            if start["status"] >= 400 and not begun:
                await send(start)
                await send({"type": "http.response.body", "body": body})
                return
            body = body if start["status"] < 400 else _mend_body(body)
        if body:
            if not begun:
                await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
            await send({"type": "http.response.body", "body": (b"," if begun else b"[") + body, "more_body": True})
            begun = True
    if not begun:
        await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": b"]" if begun else b""})


async def _exchange(app: ASGIApp, scope: Scope, body: bytes) -> tuple[Message, bytes]:
    """Return the start of *app*'s answer to a request with *body*, and the answer's whole body."""
    said: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    answered: list[Message] = []

    async def receive() -> Message:
        return said.pop() if said else {"type": "http.disconnect"}

    async def keep(message: Message) -> None:
        answered.append(message)

    await app(scope, receive, keep)
    return answered[0], b"".join(message.get("body", b"") for message in answered[1:])
