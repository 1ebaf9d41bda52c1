"""Who is told of changes: subscriptions of both eras, their ends, and requests that are refused."""

import threading
from collections.abc import Sequence

import anyio
import pytest
from replacing import (
    ACKNOWLEDGED,
    EVERYTHING,
    RESOURCES,
    UPDATED,
    Index,
    every_revision,
    listen,
    name_of,
    told,
    waiting,
)
from serving import HANDSHAKES, MODERN, PATIENCE, Message, wired

from orchestr8_sqlite.server.app import LibraryServer

pytestmark = pytest.mark.anyio


async def test_unsubscribed_resource_is_not_announced(server: LibraryServer, index: Index) -> None:
    async with waiting(server, HANDSHAKES[2], "orchestr8://skills/retry", "orchestr8://skills") as wire:
        await wire.result("resources/subscribe", uri="orchestr8://skills/retry")
        assert await wire.result("resources/unsubscribe", uri="orchestr8://skills/retry") == {}
        index.become("new fragment")
        await server.changes.check()
        assert await told(server, wire) == [RESOURCES, f"{UPDATED} orchestr8://skills"]


async def test_listener_hears_only_what_it_asked_for_with_the_id_of_its_request(
    server: LibraryServer, index: Index
) -> None:
    async with wired(server, MODERN) as wire:
        await wire.result("server/discover")
        await wire.start("subscriptions/listen", notifications={"resourcesListChanged": True})
        await wire.start("subscriptions/listen", notifications={"resourceSubscriptions": ["orchestr8://skills/retry"]})
        await wire.hear(2)
        await server.changes.check()
        wire.heard.clear()
        index.become("no skill")
        await server.changes.check()
        index.become("text")
        await server.changes.check()
        server.changes.close()
        for request_id in (2, 3):
            await wire.reply(request_id)
        by_request: dict[object, list[str]] = {2: [], 3: []}
        for message in wire.heard:
            by_request[message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]].append(name_of(message))
        heard = {id_: [name for name in names if "cancelled" not in name] for id_, names in by_request.items()}
        assert heard == {2: [RESOURCES, RESOURCES], 3: [f"{UPDATED} orchestr8://skills/retry"]}


async def test_listener_whose_first_request_is_to_listen_hears_of_the_first_change(
    server: LibraryServer, index: Index
) -> None:
    async with wired(server, MODERN) as wire:
        request_id = await listen(wire)
        index.become("text")
        await server.changes.check()
        server.changes.close()
        await wire.reply(request_id)
        assert [message["method"] for message in wire.heard] == [ACKNOWLEDGED, RESOURCES]


async def test_cancelled_listener_hears_nothing_more_and_the_other_goes_on(server: LibraryServer, index: Index) -> None:
    async with waiting(server, MODERN) as wire:
        second = await listen(wire)
        await wire.tell("notifications/cancelled", requestId=second)
        await wire.result("tools/list")
        wire.heard.clear()
        index.become("text")
        await server.changes.check()
        assert await told(server, wire) == [RESOURCES]


@every_revision
async def test_resource_that_is_subscribed_to_during_a_check_is_announced_when_it_changes(
    server: LibraryServer, index: Index, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, begun, go_on = "orchestr8://skills/retry", threading.Event(), threading.Event()
    digests_of = server.changes._digests_of

    def digests_in_time(uris: Sequence[str]) -> dict[str, str]:
        if not uris:
            begun.set()
            assert go_on.wait(PATIENCE)
        return digests_of(uris)

    async with waiting(server, revision) as wire, anyio.create_task_group() as tasks:
        monkeypatch.setattr(server.changes, "_digests_of", digests_in_time)
        tasks.start_soon(server.changes.check)
        await anyio.to_thread.run_sync(begun.wait)
        if revision == MODERN:
            await wire.start("subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
        else:
            request_id = await wire.start("resources/subscribe", uri=uri)
        await wire.result("prompts/list")
        go_on.set()
        await wire.hear(1) if revision == MODERN else await wire.reply(request_id)
        index.become("text")
        await server.changes.check()
        assert f"{UPDATED} {uri}" in await told(server, wire)


async def test_listens_end_with_their_result_when_the_server_ends(server: LibraryServer) -> None:
    async with wired(server, MODERN) as wire:
        requests = [await listen(wire) for _ in range(2)]
        server.changes.close()
        for request_id in requests:
            result = (await wire.reply(request_id))["result"]
            assert result["_meta"]["io.modelcontextprotocol/subscriptionId"] == request_id


@every_revision
async def test_client_that_is_gone_disturbs_nobody(server: LibraryServer, index: Index, revision: str) -> None:
    async with waiting(server, revision, "orchestr8://skills/retry") as stays:
        async with waiting(server, revision, "orchestr8://skills/retry") as goes:
            await goes.leave()
            index.become("text")
            await server.changes.check()
        assert await told(server, stays) == [RESOURCES, f"{UPDATED} orchestr8://skills/retry"]


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_handshake_agrees_on_the_revision_and_announces_what_may_change(
    server: LibraryServer, revision: str
) -> None:
    async with wired(server, revision) as wire:
        assert wire.greeting["protocolVersion"] == revision
        capabilities = wire.greeting["capabilities"]
        assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
        assert capabilities["prompts"] == {"listChanged": True}
        assert capabilities["tools"] == {"listChanged": False}


@pytest.mark.parametrize(
    ("revision", "method", "params"),
    [
        (MODERN, "resources/subscribe", {"uri": "orchestr8://skills/retry"}),
        (HANDSHAKES[3], "subscriptions/listen", {"notifications": EVERYTHING}),
    ],
)
async def test_the_form_of_another_revision_is_an_unknown_method(
    server: LibraryServer, revision: str, method: str, params: Message
) -> None:
    async with wired(server, revision) as wire:
        assert (await wire.ask(method, **params))["error"]["code"] == -32601


@every_revision
@pytest.mark.parametrize("uri", ["orchestr8://skills/../x", "orchestr8://match?query="])
async def test_unacceptable_uri_cannot_be_subscribed_to(server: LibraryServer, revision: str, uri: str) -> None:
    async with wired(server, revision) as wire:
        if revision == MODERN:
            answer = await wire.ask("subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
        else:
            answer = await wire.ask("resources/subscribe", uri=uri)
        assert answer["error"]["code"] == -32602


async def test_more_than_1000_resources_cannot_be_listened_to(server: LibraryServer) -> None:
    async with wired(server, MODERN) as wire:
        uris = [f"orchestr8://skills/s{number}" for number in range(1001)]
        error = (await wire.ask("subscriptions/listen", notifications={"resourceSubscriptions": uris}))["error"]
        assert (error["code"], error["message"]) == (-32602, "At most 1,000 resources can be subscribed to.")
