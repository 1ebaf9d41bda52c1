"""Bounds on what connections may use of a process: their number, time for a request, and unread answers.

Without them, a thousand connections that send little or never read would use up all descriptors or memory.
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

FIRST_SECONDS = 0.5
"""Time for the first request of a connection that is there when the process is told to end."""

BODY_SECONDS = 30.0
"""From the end of the headers to the end of the body, at most 4 MiB."""

MOST_CONNECTIONS = 1000
"""Most connections of one process; fewer if the system grants fewer descriptors."""

OTHER_DESCRIPTORS = 128
"""Other descriptors that a process needs: for files, pipes, and connections being refused."""

MOST_OF_A_CLIENT = 100
"""Most connections from a client on another machine to a process, a tenth of all: an assistant opens a few."""

UNREAD_SECONDS = 30.0
"""Longest time that a client may read nothing of a waiting answer."""

MOST_UNREAD = 64 << 20
"""Most bytes of unread answers in a process; above that, it ends the connections that have waited longest."""

QUIET_SECONDS = 1.0
"""Shortest time between two log lines about ended connections."""

TOO_MANY = b"Too many connections; close some."
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
CLOSE = (b"connection", b"close")


Protocol: Any = H11Protocol


class Seldom:
    """Logs at most one warning every QUIET_SECONDS; the next one counts those left out."""

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
    """Return how many connections this process may have, after raising its descriptor limit if possible."""
    granted = more_descriptors(MOST_CONNECTIONS + OTHER_DESCRIPTORS)
    return min(MOST_CONNECTIONS, max(granted - OTHER_DESCRIPTORS, granted // 2))


class PatientProtocol(Protocol):  # type: ignore[misc]
    """Uvicorn's protocol, except that it ends connections beyond the bounds; *most* limits those of the process."""

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _ends: float | None = None
    owner: str | None = None
    since = 0.0
    most = MOST_CONNECTIONS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection and wait for its first request; refuse it if there are too many."""
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
        """Take new data, and watch the time of the request."""
        super().data_received(data)
        self._watch_request()
        if self._ends is not None:
            self.shutdown()

    def on_response_complete(self) -> None:
        """Continue with data that came after the answered request."""
        super().on_response_complete()
        self._watch_request()

    def shutdown(self) -> None:
        """Take no more requests; an answer under way tells the client so. May be called again and again.

        A new connection is given FIRST_SECONDS for its request, which may be on its way: a proxy does not send that
        again if the connection is reset.
        """
        if self.transport.is_closing():
            return
        if self.cycle is None:
            self._ends = self._ends or self.loop.time() + FIRST_SECONDS
            if self.loop.time() < self._ends:
                return
        elif CLOSE not in self.cycle.default_headers:
            self.cycle.default_headers = [*self.cycle.default_headers, CLOSE]
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self._stop_waiting()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read; end the connections that have waited longest if too much is unread."""
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
        """Continue, as the client has read nearly everything."""
        self._stop_reading()
        super().resume_writing()

    @property
    def unread(self) -> int:
        """Return the bytes that the client has yet to read."""
        return int(self.transport.get_write_buffer_size()) if self._reading else 0

    def _watch_reading(self) -> None:
        self._reading = self.loop.call_later(
            UNREAD_SECONDS, self._check_reading, self.transport.get_write_buffer_size()
        )

    def _check_reading(self, before: int) -> None:
        """End the connection if the client has read nothing since *before* bytes were waiting."""
        if self.unread < before:
            self._watch_reading()
        else:
            self.give_up()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def give_up(self) -> None:
        """End the connection, because its client does not read."""
        seldom.warn("answer not read", unread=self.unread)
        self._stop_reading()
        self.transport.abort()

    def _watch_request(self) -> None:
        """Time the rest of a request head that has begun, or of a body refused before it arrived."""
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_complete:
            if self.cycle is not None:
                self._stop_waiting()
        elif self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_waiting()
            self._unset_keepalive_if_required()  # uvicorn does this on any data, and restarts it only after an answer
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
    """The body has too many bytes."""


async def read_body(receive: Receive, most: int, *, declared: str = "") -> bytes | None:
    """Return the body of a request, or None if the client left before its end.

    Args:
        most: Most bytes that it may have.
        declared: The length that the client declared, or an empty string.

    Raises:
        TooLarge: It has more than *most* bytes.
        TimeoutError: It did not arrive in time.
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
    """Return a function that gives *body* first, then continues with *receive*."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
