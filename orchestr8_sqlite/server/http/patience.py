"""Clients that keep others out on purpose: how long a request is waited for, and how many connections one may have.

Without bounds a thousand connections of one of them, that say nothing or little, would take all there are.
"""

import asyncio
import logging
from typing import Any

from starlette.types import Message, Receive
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from orchestr8_sqlite.server.http.rate import client_of

logger = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""From a new connection, or the first byte of a further request, to the end of its headers."""

BODY_SECONDS = 30.0
"""From the end of the headers to the end of the body, which has at most 4 MiB."""

MOST_OF_A_CLIENT = 100
"""Connections that a client of another machine may have to a process, a tenth of all: an assistant opens a few."""

TOO_MANY = b"Too many connections; close some."
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"

Protocol: Any = AutoHTTPProtocol


class PatientProtocol(Protocol):  # type: ignore[misc]
    """Uvicorn's protocol, which ends a connection whose request does not get going, or whose client has too many."""

    _deadline: asyncio.TimerHandle | None = None
    owner: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, and wait for the first request; refuse it where the client has enough."""
        super().connection_made(transport)
        self.owner = client_of(self.client[0]) if self.client else None
        if self.owner is None or sum(one.owner == self.owner for one in self.connections) <= MOST_OF_A_CLIENT:
            self._wait()
            return
        logger.warning("too many connections of one client", extra={"client": self.owner})
        self.transport.write(b"%sContent-Length: %d\r\n\r\n%s" % (REFUSAL, len(TOO_MANY), TOO_MANY))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what came; unless it completes a head, go on to wait for that."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

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
