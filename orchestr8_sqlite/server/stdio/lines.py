"""Reads and writes lines of bytes over two file descriptors, with bounded memory in both directions."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from orchestr8_sqlite.server.stdio.descriptors import Descriptors
from orchestr8_sqlite.system import can_be_polled, is_posix

MAX_LINE = 4 * 1024 * 1024
"""Longest line in bytes, without its line feed; longer lines are skipped."""

READ_AHEAD = 1 << 16
"""Bytes of lines not yet taken, above which reading pauses."""


class _Source(Protocol):
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class LineReader(asyncio.Protocol):
    """Cuts what arrives into lines."""

    def __init__(self) -> None:
        self._source: _Source | None = None
        self._lines: deque[bytes | None] = deque()
        self._ahead = 0
        self._rest = bytearray()
        self._skipping = False
        self._ended = False
        self._changed = asyncio.Event()

    async def open(self, descriptor: int) -> None:
        """Start to read *descriptor*, in a thread if the loop cannot poll it."""
        loop = asyncio.get_running_loop()
        if _fits_a_loop(descriptor):
            pipe = os.fdopen(descriptor, "rb", buffering=0, closefd=False)
            self._source, _ = await loop.connect_read_pipe(lambda: self, pipe)
        else:
            self._source = _FileFeed(descriptor, loop, self)

    async def next(self) -> bytes | None:
        """Return the next line without its line feed, or None if it has more than MAX_LINE bytes.

        Raises:
            EOFError: There are no more lines.
        """
        while not self._lines:
            if self._ended:
                raise EOFError
            self._changed.clear()
            await self._changed.wait()
        line = self._lines.popleft()
        self._ahead -= len(line or b"")
        if not self._lines and self._source is not None:
            self._source.resume_reading()
        return line

    def stop(self) -> None:
        """Stop reading; complete lines can still be taken."""
        self._rest.clear()
        self._skipping = False
        self.eof_received()
        if self._source is not None:
            self._source.close()

    def data_received(self, data: bytes) -> None:
        """Take new data: some lines, or part of one."""
        self._cut(data)
        if self._ahead > READ_AHEAD and self._source is not None:
            self._source.pause_reading()

    def eof_received(self) -> None:
        """Note the end of input; text after the last line feed is a line too."""
        if self._rest or self._skipping:
            self._finish_line()
        self._ended = True
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Treat a descriptor that fails as one that has ended."""
        self.eof_received()

    def _cut(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._extend_line(part)
            self._finish_line()
        self._extend_line(rest)

    def _extend_line(self, part: bytes) -> None:
        if not self._skipping:
            self._rest += part
            self._skipping = len(self._rest) > MAX_LINE
        if self._skipping:
            self._rest.clear()

    def _finish_line(self) -> None:
        line = None if self._skipping else bytes(self._rest)
        self._skipping = False
        self._rest.clear()
        self._lines.append(line)
        self._ahead += len(line or b"")
        self._changed.set()


class _FileFeed:
    """Reads a descriptor in a thread, chunk by chunk on demand."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop, reader: LineReader) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._reader = reader
        self._wanted = threading.Event()
        self._wanted.set()
        threading.Thread(target=self._feed, name="stdin", daemon=True).start()

    def pause_reading(self) -> None:
        """Read no more chunks for now."""
        self._wanted.clear()

    def resume_reading(self) -> None:
        """Continue reading."""
        self._wanted.set()

    def close(self) -> None:
        """Stop reading; the thread ends with the process."""
        self._wanted.clear()

    def _feed(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            while self._wanted.wait() and (chunk := self._read()):
                taken = threading.Event()
                self._loop.call_soon_threadsafe(self._hand_over, chunk, taken)
                taken.wait()
            self._loop.call_soon_threadsafe(self._reader.eof_received)

    def _read(self) -> bytes:
        """Return the next chunk, empty if the descriptor has ended or failed."""
        try:
            return os.read(self._descriptor, READ_AHEAD)
        except OSError:
            return b""

    def _hand_over(self, chunk: bytes, taken: threading.Event) -> None:
        self._reader.data_received(chunk)
        taken.set()


class LineWriter(asyncio.BaseProtocol):
    """Writes bytes; waits while the client does not read, unless told to hurry."""

    def __init__(self, gone: Callable[[], None]) -> None:
        """Prepare to write; the writer calls *gone* once the client has closed its end."""
        self._gone = gone
        self._descriptor = -1
        self._transport: asyncio.WriteTransport | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._closed = asyncio.Event()
        self._hurried = False

    async def open(self, descriptors: Descriptors) -> None:
        """Start to write to the client."""
        self._descriptor = descriptors.write
        if not _fits_a_loop(descriptors.write):
            return
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(descriptors.write, "wb", buffering=0, closefd=False)
        self._transport, _ = await loop.connect_write_pipe(lambda: self, pipe)
        if os.path.sameopenfile(descriptors.read, descriptors.write):
            loop.remove_reader(descriptors.write)  # a request arrives here too: asyncio would take it for a close

    async def write(self, data: bytes) -> None:
        """Write *data*.

        Raises:
            BrokenPipeError: The client is gone.
        """
        if self._closed.is_set():
            raise BrokenPipeError
        if self._transport is not None:
            self._transport.write(data)
            if not self._flows.is_set():
                await self._flows.wait()
            return
        while data:
            data = data[os.write(self._descriptor, data) :]

    def hurry(self) -> None:
        """Stop waiting for a client that does not read."""
        self._hurried = True
        self._flows.set()

    async def close(self, seconds: float) -> None:
        """Wait until everything has been written, for at most *seconds*."""
        if self._transport is None or self._closed.is_set():
            return
        self._transport.close()
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        if not self._hurried:
            self._flows.clear()

    def resume_writing(self) -> None:
        """Note that it reads again."""
        self._flows.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client is gone, or that everything has been written."""
        self._closed.set()
        self._flows.set()
        self._gone()


def _fits_a_loop(descriptor: int) -> bool:
    """Tell whether the loop can wait for *descriptor*: a pipe, a socket or a terminal."""
    return can_be_polled(descriptor) or (is_posix() and os.isatty(descriptor))
