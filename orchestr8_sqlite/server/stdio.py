"""JSON-RPC lines over standard input and output.

The SDK's own transport answers nothing to a line that is no message, and drops the replies that are
under way when input ends. This one answers every line that asks for an answer, and closes the read
side only once all requests are answered. It rests on the SDK's public seam: a pair of memory streams.
"""

import asyncio
import json
import os
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
Write = Callable[[bytes], Awaitable[None]]

MAX_LINE = 4 * 1024 * 1024
"""Bytes of one message; a longer line is answered with an error and skipped."""

GRACE_SECONDS = 5.0
"""How long requests under way may take once input has ended or a signal came."""


READ_CHUNK = 1 << 16


@asynccontextmanager
async def stdio_streams(stop: asyncio.Event) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Yield the streams that `Server.run` serves; *stop* ends reading as the end of input does.

    While they are open, file descriptor 0 is empty and 1 leads to standard error, so that neither a
    stray print nor a stray read can break the protocol.
    """
    with _diverted(0, os.open(os.devnull, os.O_RDONLY)) as stdin, _diverted(1, os.dup(2)) as stdout:
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        connection = _Connection(await _open_reader(stdin), await _open_writer(stdout), to_server, from_server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.write_replies, stop)
            tasks.start_soon(connection.read_until, stop)
            yield incoming, outgoing
            stop.set()


@contextmanager
def _diverted(descriptor: int, diversion: int) -> Iterator[int]:
    """Yield a duplicate of *descriptor* while *descriptor* itself leads to *diversion*."""
    private = os.dup(descriptor)
    os.dup2(diversion, descriptor)
    os.close(diversion)
    try:
        yield private
    finally:
        if os.name == "posix":
            os.set_blocking(private, True)
        os.dup2(private, descriptor)


async def _open_reader(descriptor: int) -> asyncio.StreamReader:
    """Return a reader of *descriptor*; files, and whatever a loop cannot poll, are read in a thread."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE, loop=loop)
    if os.name == "posix" and not stat.S_ISREG(os.fstat(descriptor).st_mode):
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb", buffering=0, closefd=False))
        return reader

    def feed() -> None:
        while chunk := os.read(descriptor, READ_CHUNK):
            loop.call_soon_threadsafe(reader.feed_data, chunk)
        loop.call_soon_threadsafe(reader.feed_eof)

    threading.Thread(target=feed, name="stdin", daemon=True).start()
    return reader


async def _open_writer(descriptor: int) -> Write:
    """Return a function that writes bytes to *descriptor*, waiting while the client does not read."""
    loop = asyncio.get_running_loop()
    if os.name != "posix" or stat.S_ISREG(os.fstat(descriptor).st_mode):

        async def write_file(data: bytes) -> None:
            while data:
                data = data[os.write(descriptor, data) :]

        return write_file
    pipe = os.fdopen(descriptor, "wb", buffering=0, closefd=False)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop=loop), pipe)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write_pipe(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return write_pipe


class _Connection:
    """Reads messages, writes replies, and knows which requests are still to be answered."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        write: Write,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        from_server: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        self._reader = reader
        self._write = write
        self._to_server = to_server
        self._from_server = from_server
        self._pending: set[object] = set()
        self._answered = asyncio.Event()

    async def read_until(self, stop: asyncio.Event) -> None:
        """Hand messages to the server until input ends or *stop* is set, then wait for their replies."""
        reading = asyncio.ensure_future(self._read())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (reading, stopping):
            task.cancel()
        with anyio.move_on_after(GRACE_SECONDS):
            while self._pending:
                self._answered.clear()
                await self._answered.wait()
        await self._to_server.aclose()

    async def write_replies(self, stop: asyncio.Event) -> None:
        """Write what the server sends until it closes its stream; a client that is gone sets *stop*."""
        async with self._from_server:
            async for message in self._from_server:
                try:
                    await self._send(message.message)
                except ConnectionError:
                    stop.set()
                if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                    self._settle(message.message.id)

    def _settle(self, request_id: object) -> None:
        self._pending.discard(request_id)
        self._answered.set()

    async def _read(self) -> None:
        while line := await self._next_line():
            if line.strip():
                await self._take(line)

    async def _next_line(self) -> bytes:
        """Return the next line, empty at the end of input; a line that is too long is answered and skipped."""
        while True:
            try:
                return await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                return end.partial
            except asyncio.LimitOverrunError as overrun:
                await self._skip_line(overrun.consumed)
                await self._refuse(None, INVALID_REQUEST, f"A message may have at most {MAX_LINE:,} bytes.")

    async def _skip_line(self, consumed: int) -> None:
        while True:
            await self._reader.readexactly(consumed)
            try:
                await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                consumed = overrun.consumed
            except asyncio.IncompleteReadError:
                return
            else:
                return

    async def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._refuse_invalid(line)
            return
        if isinstance(message, JSONRPCRequest):
            self._pending.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))
        await self._to_server.send(SessionMessage(message))

    async def _refuse_invalid(self, line: bytes) -> None:
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError):
            await self._refuse(None, PARSE_ERROR, "The line is not JSON in UTF-8.")
            return
        request_id = value.get("id") if isinstance(value, dict) else None
        if not isinstance(request_id, str | int) or isinstance(request_id, bool):
            request_id = None
        await self._refuse(request_id, INVALID_REQUEST, "The line is no JSON-RPC 2.0 request or notification.")

    async def _refuse(self, request_id: str | int | None, code: int, message: str) -> None:
        await self._send(JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message)))

    async def _send(self, message: JSONRPCMessage) -> None:
        await self._write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
