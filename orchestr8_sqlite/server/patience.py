"""Clients that are slow on purpose: how long the head of a request and its body are waited for.

Without a bound a thousand connections that say nothing would keep everybody else out.
"""

import asyncio
from typing import Any

from starlette.types import Message, Receive
from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 10.0
"""From a new connection, or the first byte of a further request, to the end of its headers."""

BODY_SECONDS = 30.0
"""From the end of the headers to the end of the body, which has at most 4 MiB."""

Protocol: Any = AutoHTTPProtocol


class PatientProtocol(Protocol):  # type: ignore[misc]
    """Uvicorn's protocol, which ends a connection whose request does not get going."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, and wait for the first request."""
        super().connection_made(transport)
        self._wait()

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
