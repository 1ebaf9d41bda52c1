"""Sentences of single revisions of the specification, each kept where that revision is spoken, and only there."""

import random

import pytest
from conversing import converse, handshake, modern, sorted_out
from servers import request
from serving import ENVELOPE, HANDSHAKES, MODERN, REVISIONS

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.messages import MOST_IN_BATCH

BATCHED = "2025-03-26"
PING = request(1, "ping")
ALL = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]

others = pytest.mark.parametrize("revision", [revision for revision in HANDSHAKES if revision != BATCHED])
all_handshakes = pytest.mark.parametrize("revision", HANDSHAKES)


# 2026-07-28, "Versioning and Compatibility"


@all_handshakes
def test_after_a_refused_probe_a_handshake_agrees_on_an_earlier_revision(server: LibraryServer, revision: str) -> None:
    probe = modern(1, "server/discover", "2099-01-01")
    found = sorted_out(converse(server, probe, *handshake(revision), request(2, "tools/list"))).by_id
    assert found[1]["error"]["code"] == -32022
    assert found[1]["error"]["data"] == {"supported": ALL, "requested": "2099-01-01"}
    assert found["hello"]["result"]["protocolVersion"] == revision
    assert found[2]["result"]["tools"]


def test_revisions_that_are_served_are_told_to_who_asks(server: LibraryServer) -> None:
    (found,) = converse(server, modern(1, "server/discover"))
    assert found["result"]["supportedVersions"] == ALL


@all_handshakes
def test_handshake_after_requests_without_one_is_answered_and_both_go_on(server: LibraryServer, revision: str) -> None:
    said = [modern(1, "tools/list"), *handshake(revision), request(2, "tools/list"), modern(3, "tools/list")]
    found = sorted_out(converse(server, *said)).by_id
    assert found["hello"]["result"]["protocolVersion"] == revision
    assert ["resultType" in found[number]["result"] for number in (1, 2, 3)] == [True, False, True]


@all_handshakes
def test_request_that_names_a_revision_with_a_handshake_is_told_how_that_begins(
    server: LibraryServer, revision: str
) -> None:
    (found,) = converse(server, modern(1, "tools/list", revision))
    assert found["error"]["code"] == -32022
    assert found["error"]["data"] == {"supported": ALL, "requested": revision}
    assert "initialize" in found["error"]["message"]


@all_handshakes
def test_handshake_that_names_a_revision_in_meta_too_is_a_handshake(server: LibraryServer, revision: str) -> None:
    begin, initialized = handshake(revision)
    said = {**begin, "params": {**begin["params"], "_meta": ENVELOPE}}
    heard, plain = (converse(server, one, initialized, request(2, "tools/list")) for one in (said, begin))
    assert sorted_out(heard).by_id == sorted_out(plain).by_id


@pytest.mark.parametrize("opened", [(), (modern(9, "server/discover"),)])
def test_request_before_any_handshake_is_refused(server: LibraryServer, opened: tuple[object, ...]) -> None:
    found = sorted_out(converse(server, *opened, request(1, "tools/list"))).by_id
    assert found[1]["error"]["code"] == -32602


# 2026-07-28, "Cancellation" and "Subscriptions"


def test_end_of_a_subscription_is_told_by_its_result_and_then_by_a_cancellation(server: LibraryServer) -> None:
    said = [modern(number, "subscriptions/listen", notifications={"toolsListChanged": True}) for number in (7, 8)]
    heard = converse(server, *said, modern(9, "tools/list"))
    for number in (7, 8):
        of_stream = [one for one in heard if number in (one.get("id"), _subscription_of(one))]
        assert [one.get("method", "result") for one in of_stream] == [
            "notifications/subscriptions/acknowledged",
            "result",
            "notifications/cancelled",
        ]
        assert of_stream[-1]["params"]["requestId"] == number


def _subscription_of(message: dict[str, dict[str, dict[str, object]]]) -> object:
    return message.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/subscriptionId")


def test_nothing_is_cancelled_but_subscriptions_that_the_server_ends(server: LibraryServer) -> None:
    """One that was refused has not begun, one that its client cancelled is over; an id may come again."""
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    heard = converse(
        server,
        modern(1, "subscriptions/listen", notifications={"resourceSubscriptions": ["orchestr8://a/../b"]}),
        modern(2, "subscriptions/listen", notifications={"toolsListChanged": True}),
        cancel,
        modern(2, "tools/list"),
        modern(3, "tools/list"),
    )
    assert not [one for one in heard if one.get("method") == "notifications/cancelled"]


# 2025-03-26, "Batching"


def test_batch_is_answered_by_one_array_with_an_answer_to_each_request(server: LibraryServer) -> None:
    batch = [request(1, "ping"), {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, request(2, "nope")]
    found = sorted_out(converse(server, *handshake(BATCHED), batch, request(3, "ping")))
    ((first, second),) = [sorted(answers, key=lambda answer: answer["id"]) for answers in found.batches]
    assert first == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (second["id"], second["error"]["code"]) == (2, -32601)
    assert found.by_id.keys() == {"hello", 3}


def test_batch_of_notifications_is_answered_by_nothing(server: LibraryServer) -> None:
    heard = converse(server, *handshake(BATCHED), [{"jsonrpc": "2.0", "method": "notifications/cancelled"}])
    assert [one["id"] for one in heard] == ["hello"]


def test_what_is_no_message_in_a_batch_is_refused_by_itself(server: LibraryServer) -> None:
    """Source: JSON-RPC 2.0, section 7, the examples "rpc call with invalid Batch"."""
    bad = [1, {}, {"jsonrpc": "2.0", "id": 5}, {"jsonrpc": "2.0", "id": None, "method": "ping"}]
    alone = [handshake(BATCHED)[0], modern(6, "tools/list")]
    found = sorted_out(converse(server, *handshake(BATCHED), [*bad, PING, *alone], bad[:1]))
    mixed, only = sorted(found.batches, key=len, reverse=True)
    assert [(one["id"], one["error"]["code"]) for one in only] == [(None, -32600)]
    assert [one["id"] for one in mixed if "error" in one] == [None, None, 5, None, "hello", 6]
    assert {one["error"]["code"] for one in mixed if "error" in one} == {-32600}
    assert [one["id"] for one in mixed if "result" in one] == [1]


@pytest.mark.parametrize(("members", "code"), [(0, -32600), (MOST_IN_BATCH + 1, -32600)])
def test_batch_of_none_or_too_many_is_refused_as_a_whole(server: LibraryServer, members: int, code: int) -> None:
    found = sorted_out(converse(server, *handshake(BATCHED), [PING] * members, request(2, "ping")))
    assert found.batches == []
    assert found.by_id[None]["error"]["code"] == code
    assert str(MOST_IN_BATCH) in found.by_id[None]["error"]["message"]
    assert found.by_id[2]["result"] == {}


def test_array_that_is_not_json_is_refused_as_a_whole(server: LibraryServer) -> None:
    found = sorted_out(converse(server, *handshake(BATCHED), b"[1,", b" [" * 100_000)).by_id
    assert found[None]["error"]["code"] == -32700


def test_equal_ids_within_a_batch_and_beside_it_are_each_answered_once(server: LibraryServer) -> None:
    heard = converse(server, *handshake(BATCHED), [PING, PING], PING, [PING])
    assert sorted(len(one) for one in heard if isinstance(one, list)) == [1, 2]
    assert len([one for one in heard if isinstance(one, dict)]) == 2


def test_cancelled_request_of_a_batch_does_not_hold_up_the_others(server: LibraryServer) -> None:
    search = request(2, "tools/call", name="search", arguments={"query": "retry"})
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    found = sorted_out(converse(server, *handshake(BATCHED), [PING, search, cancel]))
    assert [1 in [answer["id"] for answer in batch] for batch in found.batches] == [True]


def test_batch_that_comes_with_its_handshake_is_answered(server: LibraryServer) -> None:
    """The revision is not agreed on yet when the line is there."""
    begin, initialized = handshake(BATCHED)
    assert [len(batch) for batch in sorted_out(converse(server, begin, [initialized, PING])).batches] == [1]


@pytest.mark.parametrize("seed", range(5))
def test_any_batch_is_answered_by_one_array_of_what_its_members_ask_for(server: LibraryServer, seed: int) -> None:
    """And every other request beside them by itself, whatever stands between."""
    choice = random.Random(seed)
    batches = [[_some_member(choice) for _ in range(choice.randint(1, MOST_IN_BATCH))] for _ in range(20)]
    beside = [request(number, "ping") for number in range(-20, 0)]
    said = [line for pair in zip(batches, beside, strict=True) for line in pair]
    found = sorted_out(converse(server, *handshake(BATCHED), *said))
    assert found.by_id.keys() == {"hello", *range(-20, 0)}
    told = [sorted(repr(answer.get("id")) for answer in batch) for batch in found.batches]
    wanted = [sorted(repr(_asked(one)) for one in batch if _asked(one) != NOBODY) for batch in batches]
    assert sorted(told) == sorted(filter(None, wanted))


NOBODY = "nobody is answered"
MEMBERS: tuple[tuple[object, object], ...] = (
    (5, None),
    (None, None),
    ([], None),
    ({}, None),
    ({"jsonrpc": "2.0", "id": "x", "method": 7}, "x"),
    ({"jsonrpc": "2.0", "id": 2.5, "method": "ping"}, None),
    ({"jsonrpc": "1.0", "id": 8, "method": "ping"}, 8),
    ({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, NOBODY),
    ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "unknown"}}, NOBODY),
    ({"jsonrpc": "2.0", "id": 3, "result": {}}, NOBODY),
)
"""Messages and what is none, with the id that the answer has by JSON-RPC 2.0."""


def _some_member(choice: random.Random) -> object:
    methods = ["ping", "tools/list", "no such method", "resources/read", "subscriptions/listen"]
    return choice.choice([choice.choice(MEMBERS)[0], request(choice.randint(1, 200), choice.choice(methods))])


def _asked(member: object) -> object:
    known = [asked for one, asked in MEMBERS if one == member]
    return known[0] if known else member["id"]  # type: ignore[index]


@others
def test_batch_is_refused_by_other_revisions(server: LibraryServer, revision: str) -> None:
    found = sorted_out(converse(server, *handshake(revision), [PING], request(2, "ping")))
    assert found.batches == []
    (refused,) = [answer for answer in found.by_id.values() if "error" in answer]
    assert refused["error"]["code"] == -32600
    assert found.by_id[2]["result"] == {}


def test_batch_is_refused_where_there_was_no_handshake(server: LibraryServer) -> None:
    (found,) = converse(server, [modern(1, "tools/list")])
    assert found["error"]["code"] == -32600


# The schema of each revision, `JSONRPCError`, and JSON-RPC 2.0, section 5


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b"x" * (5 << 20)])
@pytest.mark.parametrize("revision", REVISIONS)
def test_error_whose_request_has_no_id_has_none_where_the_schema_lets_it(
    server: LibraryServer, revision: str, line: bytes
) -> None:
    """Before 2025-11-25 the schema has no form for it, and JSON-RPC says null."""
    said = [line] if revision == MODERN else [*handshake(revision), line]
    refused = next(one for one in converse(server, *said) if "error" in one)
    assert ("id" in refused) is (revision < "2025-11-25")
    assert refused.get("id") is None
