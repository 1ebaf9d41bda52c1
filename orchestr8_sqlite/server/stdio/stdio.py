"""JSON-RPC messages over standard input and output.

The SDK's own transport does not answer a line that is not a message, and drops the replies under way when input
ends. This one answers every line that asks for an answer, and closes the read side only once all requests are answered.
It relies on the SDK's public interface: `Server.run` takes any two objects to read messages from and send them to.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, RequestId

from orchestr8_sqlite.server.messages import Batch, NoMessage, dump, fault, is_array, read_batch, read_message
from orchestr8_sqlite.server.sdk_gaps import BATCHED, Batches
from orchestr8_sqlite.server.stdio.descriptors import Descriptors
from orchestr8_sqlite.server.stdio.lines import MAX_LINE, LineReader, LineWriter

GRACE_SECONDS = 5.0
"""After input has ended, longest time without a finished request until the server gives up on the rest."""

HURRIED_SECONDS = 0.3
"""Total time for requests under way after a signal, or once the client is gone."""

FLUSH_SECONDS = 0.1
"""Time to wait at the very end for a client that does not read."""

REPEAT_SECONDS = 0.05
"""At the end, interval for closing requests that do not end by themselves: another may be about to begin."""

ID_OPTIONAL = "2025-11-25"
"""The first revision in which an error may lack an id. Source: its schema, `JSONRPCErrorResponse`."""

MOST_IN_FLIGHT = 1000
"""Requests under way at which the next one waits until one is done, for at most a second."""


@asynccontextmanager
async def stdio_streams(
    descriptors: Descriptors, stop: asyncio.Event, *, at_end: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple["Incoming", "Outgoing"]]:
    """Yield the streams that `Server.run` serves.

    Args:
        descriptors: Where to read requests and write answers.
        stop: Ends reading like the end of input, but with less patience; also set here once the client is gone.
        at_end: Called every REPEAT_SECONDS while the last requests finish after the end of input; it ends those that do
            not end by themselves.
    """
    pending = Pending(stop, at_end)
    reader, writer = LineReader(), LineWriter(gone=stop.set)
    await writer.open(descriptors)
    await reader.open(descriptors.read)

    async def hurry() -> None:
        await stop.wait()
        reader.stop()
        writer.hurry()
        pending.hurry()

    hurrying = asyncio.ensure_future(hurry())
    outgoing = Outgoing(writer, pending)
    try:
        yield Incoming(reader, outgoing, pending), outgoing
    finally:
        hurrying.cancel()
        await writer.close(FLUSH_SECONDS)


class Pending:
    """Counts the requests that still need an answer."""

    def __init__(self, stop: asyncio.Event, at_end: Callable[[], None]) -> None:
        self._stop = stop
        self._at_end = at_end
        self._count = 0
        self._done = asyncio.Event()
        self._patience = anyio.CancelScope()
        self.gave_up = False
        """Whether some were still under way when time ran out."""

    @property
    def count(self) -> int:
        """Return the number of unanswered requests."""
        return self._count

    @property
    def is_hurried(self) -> bool:
        """Tell whether the server was asked to stop."""
        return self._stop.is_set()

    def add(self) -> None:
        """Count a request."""
        self._count += 1

    def settle(self) -> None:
        """Note that a request has its answer, or no longer needs one."""
        self._count -= 1
        self._done.set()
        if not self.is_hurried:
            self._patience.deadline = anyio.current_time() + GRACE_SECONDS

    async def wait_for_one(self) -> None:
        """Wait until one of them is settled."""
        self._done.clear()
        await self._done.wait()

    async def wait_for_all(self) -> None:
        """Wait until all of them are settled or time runs out."""
        if not self.is_hurried:
            self._patience.deadline = anyio.current_time() + GRACE_SECONDS
        with self._patience:
            while self._count:
                self._at_end()
                with anyio.move_on_after(REPEAT_SECONDS):
                    await self.wait_for_one()
        self.gave_up = self._count > 0

    def hurry(self) -> None:
        """Shorten the wait to HURRIED_SECONDS from now."""
        self._done.set()
        self._patience.deadline = anyio.current_time() + HURRIED_SECONDS


class Handshake:
    """Follows the handshake of a connection; `revision` is the agreed revision, empty before a handshake."""

    def __init__(self) -> None:
        self.revision = ""
        self._begun: RequestId | None = None
        self._ended = asyncio.Event()
        self._ended.set()

    def ask(self, message: JSONRPCMessage) -> None:
        """Note the client's request to begin a handshake."""
        if isinstance(message, JSONRPCRequest) and message.method == "initialize":
            self._begun = message.id
            self._ended.clear()

    def answer(self, request_id: RequestId | None, answer: JSONRPCMessage | None) -> None:
        """Note the answer to that request, None if it gets none."""
        if request_id is None or request_id != self._begun:
            return
        if isinstance(answer, JSONRPCResponse):
            self.revision = str(answer.result.get("protocolVersion", ""))
        self._begun = None
        self._ended.set()

    async def settled(self) -> str:
        """Return the revision, after waiting for the end of any handshake under way."""
        await self._ended.wait()
        return self.revision


class _Stream:
    """The methods that the SDK needs of a stream besides reading or sending messages."""

    async def aclose(self) -> None:
        """Leave the descriptor open: the caller closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing(_Stream):
    """Writes the server's messages."""

    def __init__(self, writer: LineWriter, pending: Pending) -> None:
        self._writer = writer
        self._pending = pending
        self.batches = Batches()
        self.handshake = Handshake()

    async def send(self, item: SessionMessage) -> None:
        """Write a message; if it is an answer, settle its request."""
        message = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            await self.settle(message.id, message)
        else:
            await self.write(message)

    async def settle(self, request_id: RequestId | None, answer: JSONRPCMessage | None = None) -> None:
        """Answer a request, or note that it needs no answer; answers in a batch wait for the others."""
        self.handshake.answer(request_id, answer)
        of_batch = self.batches.end(request_id, answer)
        try:
            if of_batch:
                await self.write_batch(of_batch)
            elif of_batch is None and answer is not None:
                await self.write(answer)
        finally:
            self._pending.settle()

    async def write(self, message: JSONRPCMessage) -> None:
        """Write a message."""
        await self._write_line(self._dump(message))

    async def write_batch(self, messages: Sequence[JSONRPCMessage]) -> None:
        """Write messages as one line, a batch."""
        await self._write_line(b"[" + b",".join(map(self._dump, messages)) + b"]")

    def _dump(self, message: JSONRPCMessage) -> bytes:
        """Return a message as bytes; before 2025-11-25 an error must have an id: null if unknown, as in JSON-RPC."""
        return dump(message, null_id="" < self.handshake.revision < ID_OPTIONAL)

    async def _write_line(self, line: bytes) -> None:
        """Write a line; if the client is gone, raise the exception that the SDK expects."""
        try:
            await self._writer.write(line + b"\n")
        except BrokenPipeError:
            raise anyio.BrokenResourceError from None


class Incoming(_Stream):
    """Reads the client's messages; ends once input has ended and all requests are answered."""

    def __init__(self, reader: LineReader, outgoing: Outgoing, pending: Pending) -> None:
        self._reader = reader
        self._outgoing = outgoing
        self._pending = pending
        self._read: deque[JSONRPCMessage] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        await self._hold_back()
        while not self._read:
            try:
                line = await self._reader.next()
            except EOFError:
                await self._pending.wait_for_all()
                raise StopAsyncIteration from None
            await self._take(line)
        message = self._read.popleft()
        if not isinstance(message, JSONRPCRequest):
            return SessionMessage(message)
        self._pending.add()
        self._outgoing.handshake.ask(message)
        unanswered = partial(self._outgoing.settle, message.id)
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=unanswered))

    @property
    def all_answered(self) -> bool:
        """Tell whether every request had its answer when waiting ended."""
        return not self._pending.gave_up

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: There are no more messages.
        """
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _hold_back(self) -> None:
        """Wait while too many requests are under way."""
        if self._pending.count >= MOST_IN_FLIGHT and not self._pending.is_hurried:
            with anyio.move_on_after(1):
                await self._pending.wait_for_one()

    async def _take(self, line: bytes | None) -> None:
        """Read the messages of a line, or answer with an error if it has none."""
        try:
            if line is None:
                await self._refuse(fault(f"A message may have at most {MAX_LINE:,} bytes."))
            elif is_array(line) and await self._outgoing.handshake.settled() == BATCHED:
                await self._take_batch(read_batch(line, "line"))
            elif line and not line.isspace():
                self._read.append(read_message(line, "line"))
        except NoMessage as problem:
            await self._refuse(problem.error)

    async def _take_batch(self, batch: Batch) -> None:
        self._read.extend(message for message in batch if not isinstance(message, NoMessage))
        if answers := self._outgoing.batches.begin(batch):
            with suppress(anyio.BrokenResourceError):
                await self._outgoing.write_batch(answers)

    async def _refuse(self, error: JSONRPCError) -> None:
        with suppress(anyio.BrokenResourceError):
            await self._outgoing.write(error)
