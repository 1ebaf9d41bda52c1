"""What a body over HTTP may hold, and which headers must say the same: each sentence of the revision that is spoken."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Mapping

import pytest
from asgi import Asked, serving
from conversing import handshake, modern
from replacing import Index
from servers import request
from serving import HANDSHAKES, MODERN, REVISIONS
from starlette.types import Receive, Scope, Send

from orchestr8_sqlite.server.http.access import read_access
from orchestr8_sqlite.server.log import JsonFormatter
from orchestr8_sqlite.server.messages import MOST_IN_BATCH
from orchestr8_sqlite.service.service import Service

pytestmark = pytest.mark.anyio

BATCHED = "2025-03-26"
PING = request(1, "ping")
NEWS = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RATE = 0.01
NEIGHBOUR = "192.0.2.7"


@pytest.fixture
async def web(index: Index) -> AsyncIterator[Asked]:
    """Return a server over HTTP without its sockets."""
    async with serving(index.path, read_access("127.0.0.1:0", rate=RATE)) as web:
        yield web


def of(revision: str | None, method: str = "tools/list", name: str | None = None) -> dict[str, str]:
    """Return the headers of a request of a revision; None for one that names none."""
    said = {} if revision is None else {"mcp-protocol-version": revision}
    if revision == MODERN:
        said |= {"mcp-method": method} | ({} if name is None else {"mcp-name": name})
    return said


# 2026-07-28, "Streamable HTTP", "Protocol Version Header" and "Server Validation"


@pytest.mark.parametrize("in_meta", [*REVISIONS, "1999-01-01", "", 5, None])
@pytest.mark.parametrize("in_header", [*REVISIONS, "1999-01-01", None])
async def test_header_and_meta_that_name_different_revisions_are_refused(
    web: Asked, in_header: str | None, in_meta: object
) -> None:
    asked = modern(7, "tools/list", in_meta)  # type: ignore[arg-type]
    reply = await web.send(asked, headers={**of(MODERN), **of(in_header)} if in_header else {})
    if in_header is None or in_header != in_meta:
        assert (reply.status, reply.message["error"]["code"], reply.message["id"]) == (400, -32020, 7)
    elif in_header in REVISIONS:
        assert reply.status == 200
    else:
        assert (reply.status, reply.message["error"]["code"]) == (400, -32022)
        assert reply.message["error"]["data"]["supported"] == [MODERN, *reversed(HANDSHAKES)]


@pytest.mark.parametrize("headers", [of(MODERN, "prompts/list"), of(MODERN, "tools/call", "load"), of(MODERN, "")])
@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
async def test_no_header_takes_a_request_past_the_comparison_of_method_and_name(
    web: Asked, headers: Mapping[str, str], revision: str | None
) -> None:
    asked = modern(7, "tools/call", name="search", arguments={"query": "retry"})
    said = {**headers, **of(revision)}
    if revision is None:
        del said["mcp-protocol-version"]
    for one in (headers, said):
        reply = await web.send(asked, headers=one)
        assert (reply.status, reply.message["error"]["code"]) == (400, -32020)


async def test_header_that_comes_twice_is_refused(web: Asked) -> None:
    async def twice(scope: Scope, receive: Receive, send: Send) -> None:
        again = [*scope["headers"], (b"mcp-protocol-version", MODERN.encode())]
        await web.app({**scope, "headers": again}, receive, send)

    for revision in (MODERN, HANDSHAKES[-1]):
        reply = await Asked(twice, web.host).send(modern(7, "tools/list"), headers={**of(MODERN), **of(revision)})
        assert (reply.status, reply.message["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
async def test_requests_of_handshake_revisions_need_not_say_theirs_twice(web: Asked, revision: str | None) -> None:
    reply = await web.send(request(7, "tools/list", _meta={"progressToken": 1}), headers=of(revision))
    assert reply.status == 200
    assert reply.message["result"]["tools"]


# 2025-03-26, "Batching" and "Sending Messages to the Server"


@pytest.mark.parametrize("revision", [BATCHED, None])
async def test_batch_is_answered_by_one_array_with_an_answer_to_each_request(web: Asked, revision: str | None) -> None:
    search = request(2, "tools/call", name="search", arguments={"query": "retry"})
    reply = await web.send([PING, NEWS, search, request(3, "nope"), 5], headers=of(revision))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    ping, found, unknown, bad = reply.message
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert "orchestr8://skills/retry" in found["result"]["content"][0]["text"]
    assert (unknown["id"], unknown["error"]["code"]) == (3, -32601)
    assert bad == {"jsonrpc": "2.0", "error": {"code": -32600, "message": bad["error"]["message"]}}


@pytest.mark.parametrize("member", [NEWS, {"jsonrpc": "2.0", "id": 9, "result": {}}])
async def test_batch_without_a_request_is_accepted_and_answered_by_nothing(web: Asked, member: object) -> None:
    reply = await web.send([member, member])
    assert (reply.status, reply.body) == (202, b"")


async def test_what_must_stand_alone_is_refused_in_a_batch(web: Asked) -> None:
    reply = await web.send([handshake(BATCHED)[0], modern(6, "tools/list"), PING])
    assert [(one["id"], one.get("error", {}).get("code")) for one in reply.message] == [
        ("hello", -32600),
        (6, -32600),
        (1, None),
    ]


@pytest.mark.parametrize("body", [[], [PING] * (MOST_IN_BATCH + 1), b"[1,"])
async def test_batch_of_none_or_too_many_or_that_is_not_json_is_refused_as_a_whole(web: Asked, body: object) -> None:
    reply = await web.send(body)
    assert reply.status == 400
    assert reply.message["error"]["code"] == (-32700 if isinstance(body, bytes) else -32600)


@pytest.mark.parametrize("revision", [revision for revision in REVISIONS if revision != BATCHED])
async def test_batch_is_refused_by_other_revisions(web: Asked, revision: str) -> None:
    reply = await web.send([PING], headers=of(revision))
    assert (reply.status, reply.message["error"]["code"]) == (400, -32600)


async def test_batch_whose_headers_are_refused_is_refused_as_a_whole(web: Asked) -> None:
    reply = await web.send([PING, PING], headers={"accept": "text/html"})
    assert reply.status == 406
    assert "id" not in reply.message


@pytest.mark.parametrize("members", [1, 2, MOST_IN_BATCH])
async def test_each_request_of_a_batch_counts_for_its_client(web: Asked, members: int) -> None:
    assert (await web.send([PING] * members, client=NEIGHBOUR)).status == 200
    refused = await web.send(PING, client=NEIGHBOUR)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) == pytest.approx(members / RATE, abs=50)
    assert (await web.send(PING)).status == 200


# Errors without an id


@pytest.mark.parametrize("revision", [*REVISIONS, "1999-01-01", None])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{", {}),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, {}),
        (PING, {"accept": "text/html"}),
        (NEWS, {"accept": "text/html"}),
        (b"1", {}),
    ],
)
async def test_error_that_belongs_to_no_request_has_no_id(
    web: Asked, revision: str | None, body: object, headers: Mapping[str, str]
) -> None:
    """2025-03-26 to 2026-07-28, "Sending Messages": "a JSON-RPC error response that has no `id`"."""
    reply = await web.send(body, headers={**of(revision), **headers})
    assert 400 <= reply.status < 500
    assert b'"id"' not in reply.body
    assert reply.headers.get("content-length") in (None, str(len(reply.body)))


async def test_notification_of_an_unknown_revision_is_refused_without_an_id(web: Asked) -> None:
    reply = await web.send(NEWS, headers=of("1999-01-01"))
    assert (reply.status, reply.message["error"]["code"]) == (400, -32022)
    assert "id" not in reply.message


# Who asks


@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": ""}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({}, 200),
    ],
)
async def test_foreign_hosts_and_origins_are_refused_wherever_they_ask(
    web: Asked, path: str, headers: Mapping[str, str], status: int
) -> None:
    verb = "GET" if path == "/healthz" else "POST"
    assert (await web.send(PING, verb=verb, path=path, headers=headers)).status == status


async def test_request_that_the_end_of_the_server_cuts_short_is_told_to_come_again(
    web: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uvicorn cancels what is under way once its patience ends, and would answer 500 without a reason."""
    begun, may_end = threading.Event(), threading.Event()

    def search(*_: object) -> None:
        begun.set()
        may_end.wait(30)

    monkeypatch.setattr(Service, "search", search)
    asked = asyncio.ensure_future(web.send(request(1, "tools/call", name="search", arguments={"query": "retry"})))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    asked.cancel()
    reply = await asked
    may_end.set()
    assert (reply.status, reply.headers["connection"], reply.headers["retry-after"]) == (503, "close", "1")
    assert reply.body == b"The server is stopping; send the request again."


# Sessions in the log


async def test_an_address_and_a_program_stand_for_a_session_that_does_not_show_them(
    web: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="orchestr8_sqlite")
    caplog.handler.setFormatter(JsonFormatter())
    clients = [("127.0.0.2", "one"), ("127.0.0.2", "one"), ("127.0.0.2", "two"), ("127.0.0.3", "one")]
    for client, agent in clients:
        reply = await web.send(request(1, "tools/list"), client=client, headers={"user-agent": agent})
        assert reply.status == 200
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    sessions = [line["session"] for line in lines if line["message"] == "request"]
    assert sessions[0] == sessions[1]
    assert len({*sessions}) == 3
    assert "127.0.0" not in caplog.text
