"""JSON-RPC messages over standard input and output.

The SDK's own transport answers nothing to a line that is no message, and drops the replies that are
under way when input ends. This one answers every line that asks for an answer, and closes the read
side only once all requests are answered. It rests on the SDK's public seam: `Server.run` takes any two
objects that it can read messages from and send messages to.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from orchestr8_sqlite.server.messages import NoMessage, fault, read_message
from orchestr8_sqlite.server.stdio.descriptors import Descriptors
from orchestr8_sqlite.server.stdio.lines import MAX_LINE, LineReader, LineWriter

GRACE_SECONDS = 5.0
"""How long, once input has ended, the server may go without finishing any of the requests under way."""

HURRIED_SECONDS = 0.3
"""How long requests under way may take in all once a signal came or the client is gone."""

FLUSH_SECONDS = 0.1
"""How long a client that does not read is waited for at the very end."""

REPEAT_SECONDS = 0.05
"""How often requests without an end are looked for at the end: the server may just be about to begin one."""

MOST_IN_FLIGHT = 1000
"""Requests under way, above which the next one is held back until one is done, or for a second."""


@asynccontextmanager
async def stdio_streams(
    descriptors: Descriptors, stop: asyncio.Event, *, at_end: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple["Incoming", "Outgoing"]]:
    """Yield the streams that `Server.run` serves.

    Args:
        descriptors: Where the client is.
        stop: Ends reading as the end of input does, but with less patience; set where the client is gone.
        at_end: Called now and then while the last requests are waited for and no further one will
            come: the place to end those that have no end of their own.
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
    """The requests that still have to be answered, as a number."""

    def __init__(self, stop: asyncio.Event, at_end: Callable[[], None]) -> None:
        self._stop = stop
        self._at_end = at_end
        self._count = 0
        self._done = asyncio.Event()
        self._patience = anyio.CancelScope()
        self.gave_up = False
        """Whether some were still under way when patience was lost."""
        self.metadata = ServerMessageMetadata(on_request_unanswered=self._give_up)
        """Goes with every request, so that one that its sender cancelled is settled, too."""

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self._count

    @property
    def is_hurried(self) -> bool:
        """Tell whether the server was asked to stop."""
        return self._stop.is_set()

    def add(self) -> None:
        """Count a request."""
        self._count += 1

    def settle(self) -> None:
        """Take note that a request has its answer, or needs none any more."""
        self._count -= 1
        self._done.set()
        if not self.is_hurried:
            self._patience.deadline = anyio.current_time() + GRACE_SECONDS

    async def wait_for_one(self) -> None:
        """Wait until one of them is settled."""
        self._done.clear()
        await self._done.wait()

    async def wait_for_all(self) -> None:
        """Wait until all of them are settled, as long as patience lasts."""
        if not self.is_hurried:
            self._patience.deadline = anyio.current_time() + GRACE_SECONDS
        with self._patience:
            while self._count:
                self._at_end()
                with anyio.move_on_after(REPEAT_SECONDS):
                    await self.wait_for_one()
        self.gave_up = self._count > 0

    def hurry(self) -> None:
        """Lose patience soon."""
        self._done.set()
        self._patience.deadline = anyio.current_time() + HURRIED_SECONDS

    async def _give_up(self) -> None:
        self.settle()


class _Stream:
    """What the SDK asks of a stream besides its messages."""

    async def aclose(self) -> None:
        """Leave the descriptor to whoever opened it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing(_Stream):
    """The messages of the server."""

    def __init__(self, writer: LineWriter, pending: Pending) -> None:
        self._writer = writer
        self._pending = pending

    async def send(self, item: SessionMessage) -> None:
        """Write a message; where it is an answer, its request is settled."""
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            await self.write(message)
            return
        try:
            await self.write(message)
        finally:
            self._pending.settle()

    async def write(self, message: JSONRPCMessage) -> None:
        """Write a message; of a client that is gone the SDK hears in its own terms."""
        try:
            await self._writer.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        except BrokenPipeError:
            raise anyio.BrokenResourceError from None


class Incoming(_Stream):
    """The messages of the client; ends once input has ended and all its requests are answered."""

    def __init__(self, reader: LineReader, outgoing: Outgoing, pending: Pending) -> None:
        self._reader = reader
        self._outgoing = outgoing
        self._pending = pending

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        await self._hold_back()
        while True:
            try:
                line = await self._reader.next()
            except EOFError:
                await self._pending.wait_for_all()
                raise StopAsyncIteration from None
            message = await self._read(line)
            if isinstance(message, JSONRPCRequest):
                self._pending.add()
                return SessionMessage(message, self._pending.metadata)
            if message is not None:
                return SessionMessage(message)

    @property
    def all_answered(self) -> bool:
        """Tell whether no request was still under way when waiting came to its end."""
        return not self._pending.gave_up

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: There is none.
        """
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _hold_back(self) -> None:
        """Wait while too much is under way."""
        if self._pending.count >= MOST_IN_FLIGHT and not self._pending.is_hurried:
            with anyio.move_on_after(1):
                await self._pending.wait_for_one()

    async def _read(self, line: bytes | None) -> JSONRPCMessage | None:
        """Return the message of *line*; None where it held none, and was answered so."""
        if line is None:
            await self._refuse(fault(f"A message may have at most {MAX_LINE:,} bytes."))
            return None
        if not line or line.isspace():
            return None
        try:
            return read_message(line, "line")
        except NoMessage as problem:
            await self._refuse(problem.error)
            return None

    async def _refuse(self, error: JSONRPCError) -> None:
        with suppress(anyio.BrokenResourceError):
            await self._outgoing.write(error)
