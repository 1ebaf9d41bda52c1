"""The server as an ASGI application: behind an access check the SDK's transport at /mcp and the page; /healthz."""

import asyncio
import base64
import hmac
import logging
import socket
from concurrent.futures import Executor
from math import ceil

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.http.access import Access, Names, own_names
from orchestr8_sqlite.server.http.page import METHODS as PAGE_METHODS
from orchestr8_sqlite.server.http.page import SEARCH_PATH, Page
from orchestr8_sqlite.server.http.patience import TooLarge, read_body, replayed
from orchestr8_sqlite.server.http.rate import Rate
from orchestr8_sqlite.server.messages import NoMessage, dump, is_array, read_batch, read_message
from orchestr8_sqlite.server.sdk_gaps import BATCHED, VERSION_HEADER, answer_batch, mending, mismatch
from orchestr8_sqlite.server.supply.freshness import INDEX, Freshness
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.text.wording import one_line

logger = logging.getLogger(__name__)

MCP_PATH = "/mcp"
HEALTH_PATH = "/healthz"
METHODS = {MCP_PATH: "POST", **PAGE_METHODS}
WITH_BODY = (MCP_PATH, SEARCH_PATH)
LARGEST_BODY = 4 << 20
"""Largest request body in bytes; the same as the longest line under stdio."""

BASIC = 'Basic realm="orchestr8-sqlite", charset="UTF-8"'
"""Source: RFC 7617, sections 2 and 2.1."""

UNREADABLE = "the index file cannot be read"

PRE_FLIGHT_SECONDS = 3600
ASKED_HEADERS = ("Authorization", "Content-Type", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")
"""Headers that a client in a web page may send. Source: the protocol's revision 2026-07-28, "Streamable HTTP"."""

REFUSALS = frozenset({400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 429})
"""Statuses of requests that no handler has seen, so nothing has logged them yet."""


def make_app(server: LibraryServer, health: "Health", page: Page, access: Access, listener: socket.socket) -> ASGIApp:
    """Return the application; its requests are independent, so that any worker can answer any of them."""
    inner = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=LARGEST_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate checks names
        custom_starlette_routes=[Route(HEALTH_PATH, health.answer), *page.routes],
    )
    names = Names(own_names(access, listener), access)
    gate = Gate(inner, names, access.token, Rate(access.rate, asyncio.get_running_loop().time) if access.rate else None)
    if not access.origins:
        return gate
    return CORSMiddleware(
        gate,
        allow_origins=access.origins,
        allow_methods=["POST"],
        allow_headers=ASKED_HEADERS,
        max_age=PRE_FLIGHT_SECONDS,
    )


class Health:
    """Tells a load balancer whether this process can read an index, which one, and what is stale."""

    def __init__(self, service: Service, executor: Executor, freshness: Freshness) -> None:
        self._service = service
        self._executor = executor
        self._freshness = freshness

    async def answer(self, _: Request) -> Response:
        """Return 200 with the generation of the index, or 503 if none can be read."""
        generation = await self.look()
        stale = self._freshness.said()
        status = "no index" if generation is None else "stale" if stale else "ok"
        said = {"status": status, "generation": generation, "stale": stale}
        code = 503 if generation is None else 200
        return JSONResponse({name: one for name, one in said.items() if one}, code, {"Cache-Control": "no-store"})

    async def look(self) -> str | None:
        """Return the generation of the index, or None if it cannot be read; update the freshness."""
        try:
            generation = await asyncio.get_running_loop().run_in_executor(self._executor, self._service.generation)
        except CatalogError:
            self._freshness.lose(INDEX, UNREADABLE)
            return None
        self._freshness.restore(INDEX)
        return generation


class Gate:
    """Admits requests that carry the token, if one is set, and use one of the server's names; logs refusals.

    Only POST requests with valid messages reach the transport: a server without sessions has nothing to send on a
    stream of its own. A browser may give the token as the password of the scheme Basic, for the page alone.
    """

    def __init__(self, app: ASGIApp, names: Names, token: str | None, rate: Rate | None = None) -> None:
        self._app = app
        self._names = names
        self._rate = rate
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def watched(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            if message["type"] == "http.response.start" and message["status"] in REFUSALS:
                said = {"status": message["status"], "method": scope["method"], "path": one_line(scope["path"], 80)}
                logger.warning("refused", extra=said)
            await send(message)

        try:
            await self._answer(scope, receive, watched)
        except asyncio.CancelledError:
            if is_begun:
                raise
            told = {"Connection": "close", "Retry-After": "1"}
            await Response("The server is stopping; send the request again.", 503, told)(scope, receive, watched)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._too_many(scope) or self._refusal(scope)
        declared = Headers(scope=scope).get("content-length", "")
        if refusal is not None and declared.isdigit() and int(declared) > LARGEST_BODY:
            refusal.headers["Connection"] = "close"  # that body is too long to wait for
        if refusal is None and scope["path"] in WITH_BODY:
            body = await _read(scope, receive)
            if body is None:
                return  # the client is gone
            if isinstance(body, Response):
                refusal = body
            elif scope["path"] == MCP_PATH:
                await self._exchange(body, scope, receive, send)
                return
            else:
                receive = replayed(body, receive)
        await (refusal or self._app)(scope, receive, send)

    async def _exchange(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the message or the batch in *body*."""
        headers = Headers(scope=scope)
        try:
            if is_array(body) and headers.getlist(VERSION_HEADER) in ([], [BATCHED]):
                batch = read_batch(body, "body")
                if self._rate and scope.get("client"):
                    self._rate.add(scope["client"][0], len(batch) - 1)
                await answer_batch(batch, self._app, scope, mending(send))
                return
            error = mismatch(headers, read_message(body, "body"))
        except NoMessage as problem:
            error = problem.error
        if error is None:
            await self._app(scope, replayed(body, receive), mending(send))
        else:
            await Response(dump(error), 400, media_type="application/json")(scope, receive, send)

    def _too_many(self, scope: Scope) -> Response | None:
        """Return the refusal for a client that has sent too many requests, or None."""
        seconds = self._rate.wait(scope["client"][0]) if self._rate and scope.get("client") else 0
        if not seconds:
            return None
        return Response("Too many requests; wait the seconds in Retry-After.", 429, {"Retry-After": str(ceil(seconds))})

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, from its headers alone, or None to go on."""
        headers = Headers(scope=scope)
        if scope["path"] != HEALTH_PATH:
            given = headers.get("authorization")
            is_page = scope["path"] in PAGE_METHODS
            if self._expected is not None and not _matches(_as_bearer(given) if is_page else given, self._expected):
                return _challenge(given, is_page=is_page)
            allowed = METHODS.get(scope["path"])
            if allowed is None:
                return Response(f"Not found; use {MCP_PATH}.", 404)  # no redirect: it would trust the client's Host
            if scope["method"] != allowed:
                return Response(f"Only {allowed} is served here.", 405, {"Allow": allowed})
        if not self._names.knows_host(headers.get("host", ""), scope.get("server")):
            return Response("The header Host names another server; --allow-host accepts more names.", 421)
        if not all(map(self._names.knows_origin, headers.getlist("origin"))):
            return Response("Web pages of this origin are not allowed; --allow-origin admits them.", 403)
        return None


async def _read(scope: Scope, receive: Receive) -> bytes | Response | None:
    """Return the body of a request, a refusal if it is too large or too slow, or None if the client is gone."""
    try:
        return await read_body(receive, LARGEST_BODY, declared=Headers(scope=scope).get("content-length", ""))
    except TooLarge:
        return Response(f"A body may have at most {LARGEST_BODY:,} bytes.", 413, {"Connection": "close"})
    except TimeoutError:
        return Response("The body took too long to arrive.", 408, {"Connection": "close"})


def _challenge(given: str | None, *, is_page: bool) -> Response:
    """Return the refusal of a request without the token; for the page it makes a browser ask for it."""
    if is_page:
        said, challenge = "The password is the server's token; the user name does not matter.", BASIC
    else:
        said = "A valid bearer token is required."
        challenge = "Bearer" if given is None else 'Bearer error="invalid_token"'
    return Response(said, 401, {"WWW-Authenticate": challenge})


def _as_bearer(given: str | None) -> str | None:
    """Return the header Authorization of the scheme Basic as if its password had come as a bearer token."""
    scheme, _, packed = (given or "").partition(" ")
    if scheme.capitalize() != "Basic":
        return given
    try:
        login = base64.b64decode(packed.strip(), validate=True)
    except ValueError:
        return None
    return f"Bearer {login.partition(b':')[2].decode(errors='replace')}"


def _matches(given: str | None, expected: bytes) -> bool:
    """Tell whether the header Authorization holds the token, in time that does not depend on where it differs."""
    scheme, _, token = (given or "").partition(" ")
    return hmac.compare_digest(f"{scheme.capitalize()} {token.strip()}".encode(), expected)
