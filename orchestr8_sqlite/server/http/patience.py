"""Bounds on what connections may take of a process: their number, time for a request, and answers that are not read.

Without them a thousand connections that say little, or never read, would take all descriptors or all memory.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import h11
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestr8_sqlite.server.http.rate import client_of
from orchestr8_sqlite.system import more_descriptors

logger = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""From a new connection, or the first byte of a further request, to the end of its headers."""

BODY_SECONDS = 30.0
"""From the end of the headers to the end of the body, which has at most 4 MiB."""

MOST_CONNECTIONS = 1000
"""Connections of one process, fewer where the system gives it fewer descriptors."""

OTHER_DESCRIPTORS = 128
"""Descriptors that a process needs besides: for files, pipes, and connections that are being refused."""

MOST_OF_A_CLIENT = 100
"""Connections that a client of another machine may have to a process, a tenth of all: an assistant opens a few."""

UNREAD_SECONDS = 30.0
"""How long a client may take nothing of an answer that waits for it."""

MOST_UNREAD = 64 << 20
"""Bytes of answers that wait in a process for their clients; beyond them the connection that waits longest is ended."""

QUIET_SECONDS = 1.0
"""Between two lines of the log about connections that are ended."""

TOO_MANY = b"Too many connections; close some."
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
CLOSE = (b"connection", b"close")


Protocol: Any = H11Protocol


class Seldom:
    """Writes warnings to the log, at most one every QUIET_SECONDS; the next one counts those that were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before = -math.inf
        self._left_out = 0

    def warn(self, message: str, **said: object) -> None:
        """Write *message*, unless the last one is too recent."""
        if self._clock() < self._not_before:
            self._left_out += 1
            return
        self._not_before = self._clock() + QUIET_SECONDS
        logger.warning(message, extra={**said, "left_out": self._left_out} if self._left_out else said)
        self._left_out = 0


seldom = Seldom()


def most_connections() -> int:
    """Return how many connections this process may have; it is given the descriptors for them if that is possible."""
    granted = more_descriptors(MOST_CONNECTIONS + OTHER_DESCRIPTORS)
    return min(MOST_CONNECTIONS, max(granted - OTHER_DESCRIPTORS, granted // 2))


class PatientProtocol(Protocol):  # type: ignore[misc]
    """Uvicorn's protocol, which ends connections beyond the bounds; *most* are all that a process may have."""

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    owner: str | None = None
    since = 0.0
    most = MOST_CONNECTIONS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, and wait for the first request; refuse it where there are enough."""
        super().connection_made(transport)
        self.owner = client_of(self.client[0]) if self.client else None
        if len(self.connections) > self.most:
            seldom.warn("too many connections", most=self.most)
        elif self.owner and sum(one.owner == self.owner for one in self.connections) > MOST_OF_A_CLIENT:
            seldom.warn("too many connections of one client", client=self.owner)
        else:
            self._wait()
            return
        self.transport.write(b"%sContent-Length: %d\r\n\r\n%s" % (REFUSAL, len(TOO_MANY), TOO_MANY))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """Go on with what has come since the request that is answered now."""
        super().on_response_complete()
        self._watch_request()

    def shutdown(self) -> None:
        """Take no further request; the client hears so with the answer to the one that is under way."""
        if self.cycle is not None:
            self.cycle.default_headers = [*self.cycle.default_headers, CLOSE]
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to take what it was sent; make room where too much waits already."""
        super().pause_writing()
        self.since = self.loop.time()
        self._watch_reading()
        waiting = sorted((one for one in self.connections if one.unread), key=lambda one: one.since)
        total = sum(one.unread for one in waiting)
        for one in waiting:
            if total <= MOST_UNREAD:
                break
            total -= one.unread
            one.give_up()

    def resume_writing(self) -> None:
        """Go on, as the client has taken nearly all."""
        self._stop_reading()
        super().resume_writing()

    @property
    def unread(self) -> int:
        """Return the bytes that wait for the client."""
        return int(self.transport.get_write_buffer_size()) if self._reading else 0

    def _watch_reading(self) -> None:
        self._reading = self.loop.call_later(
            UNREAD_SECONDS, self._check_reading, self.transport.get_write_buffer_size()
        )

    def _check_reading(self, before: int) -> None:
        """End the connection unless the client has taken something since *before* so many bytes waited."""
        if self.unread < before:
            self._watch_reading()
        else:
            self.give_up()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def give_up(self) -> None:
        """End the connection, whose client does not read."""
        seldom.warn("answer not read", unread=self.unread)
        self._stop_reading()
        self.transport.abort()

    def _watch_request(self) -> None:
        """Wait for the rest of a head that has begun, or of a body that was refused before it came."""
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_complete:
            if self.cycle is not None:
                self._stop_waiting()
        elif self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_waiting()
            self._unset_keepalive_if_required()  # uvicorn does so at any data, and goes on only after an answer
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif self._deadline is None:
            self._wait()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class TooLarge(Exception):
    """The body has more bytes than it may."""


async def read_body(receive: Receive, most: int, *, declared: str = "") -> bytes | None:
    """Return the body of a request, None where the client is gone before its end.

    Args:
        most: Bytes that it may have.
        declared: How many the client has said that it has, where it said so.

    Raises:
        TooLarge: It has more than *most* bytes.
        TimeoutError: It did not come in time.
    """
    if declared.isdigit() and int(declared) > most:
        raise TooLarge
    body = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > most:
                raise TooLarge
            if not message.get("more_body", False):
                return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives *body*, and then whatever *receive* gives."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
