"""The SDK by itself: each test fails once the SDK does what server/sdk_gaps.py does in its place, and names that."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgi import Asked, living
from conversing import converse, handshake, modern, sorted_out
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError
from servers import request
from serving import MODERN

HOST = "127.0.0.1:80"

BareServer = Server[dict[str, Any]]


@pytest.fixture
async def bare() -> AsyncIterator[Asked]:
    """Return the SDK's own server over HTTP."""
    app = BareServer("test").streamable_http_app(json_response=True, stateless_http=True)
    async with living(app, HOST) as web:
        yield web


def test_sdk_refuses_a_handshake_after_a_refused_probe() -> None:
    found = sorted_out(converse(BareServer("test"), modern(1, "server/discover", "2099-01-01"), *handshake(MODERN)))
    assert "error" in found.by_id["hello"], "Eras is needless"


def test_sdk_lists_the_revisions_without_a_handshake_alone() -> None:
    said = [modern(1, "server/discover", "2099-01-01"), modern(2, "server/discover")]
    found = sorted_out(converse(BareServer("test"), *said)).by_id
    assert found[1]["error"]["data"]["supported"] == [MODERN], "mend is needless"
    assert found[2]["result"]["supportedVersions"] == [MODERN], "SERVED in app.py is needless"


def test_sdk_ends_a_subscription_without_a_cancellation() -> None:
    listen = ListenHandler(InMemorySubscriptionBus())
    server = BareServer("test", on_subscriptions_listen=listen)
    heard = converse(server, modern(7, "subscriptions/listen", notifications={}), at_end=listen.close)
    assert "notifications/cancelled" not in [one.get("method") for one in heard], "_Answers is needless"


def test_sdk_knows_no_batch() -> None:
    with pytest.raises(ValidationError):  # else Batches and answer_batch are needless
        jsonrpc_message_adapter.validate_python([request(1, "ping")])


@pytest.mark.anyio
async def test_sdk_refuses_batches_over_http(bare: Asked) -> None:
    assert (await bare.send([request(1, "ping")])).status == 400, "answer_batch is needless"


@pytest.mark.anyio
async def test_sdk_answers_a_request_whose_header_and_meta_name_different_revisions(bare: Asked) -> None:
    reply = await bare.send(modern(1, "ping"), headers={"mcp-protocol-version": "2025-11-25"})
    assert reply.status == 200, "mismatch is needless"


@pytest.mark.anyio
async def test_sdk_gives_an_error_that_belongs_to_no_request_the_id_null(bare: Asked) -> None:
    reply = await bare.send(request(1, "ping"), headers={"accept": "text/html"})
    assert reply.message["id"] is None, "mending is needless, but for the revisions"


def test_sdk_writes_an_error_without_an_id_as_null() -> None:
    error: JSONRPCMessage = JSONRPCError.model_validate(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
    )
    assert json.loads(error.model_dump_json(by_alias=True))["id"] is None, "null_id of messages.dump is needless"
