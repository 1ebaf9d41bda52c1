"""Replies that are kept in memory: the same again without reading anew, and never another request's."""

import gc
import logging
from collections.abc import Iterator

import pytest
from replacing import Index
from serving import HANDSHAKES, MODERN, REVISIONS, Ask, Message, asking, wired

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.replies import Reply
from orchestr8_sqlite.service.service import Service

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[HANDSHAKES[3], MODERN])
def ask(request: pytest.FixtureRequest, index: Index) -> Iterator[Ask]:
    with asking(index.path, request.param) as ask:
        yield ask


REQUESTS: list[tuple[str, Message]] = [
    ("tools/call", {"name": "search", "arguments": {"query": "retrying calls"}}),
    ("tools/call", {"name": "load", "arguments": {"uris": ["orchestr8://skills/retry"]}}),
    ("resources/read", {"uri": "orchestr8://skills/retry"}),
    ("resources/read", {"uri": "orchestr8://match?query=retrying"}),
    ("prompts/get", {"name": "fix", "arguments": {"what": "it"}}),
]


def fail(*_: object, **__: object) -> None:
    raise AssertionError


@pytest.mark.parametrize(("method", "params"), REQUESTS)
def test_the_same_request_is_answered_the_same_without_reading_anew(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, method: str, params: Message
) -> None:
    ask("resources/list")  # opens the index
    first = ask(method, **params)["result"]
    for name in ("search", "load", "read", "prompt"):
        monkeypatch.setattr(Service, name, fail)
    assert ask(method, **params)["result"] == first


@pytest.mark.parametrize(("method", "params"), REQUESTS)
def test_where_no_replies_are_kept_the_same_request_is_answered_the_same(
    index: Index, method: str, params: Message
) -> None:
    with asking(index.path) as remembering, asking(index.path, entries=0) as forgetful:
        expected = remembering(method, **params)["result"]
        assert [forgetful(method, **params)["result"] for _ in range(2)] == [expected, expected]


@pytest.mark.parametrize(
    ("method", "params", "others"),
    [
        (
            "tools/call",
            {"name": "search", "arguments": {"query": "retrying calls"}},
            [
                {"name": "search", "arguments": {"query": "retrying calls", "mode": "catalog"}},
                {"name": "search", "arguments": {"query": "retrying calls", "explain": True}},
                {"name": "search_skill", "arguments": {"query": "retrying calls"}},
            ],
        ),
        (
            "prompts/get",
            {"name": "fix", "arguments": {"what": "it"}},
            [{"name": "fix", "arguments": {"what": "them"}}, {"name": "fix", "arguments": {}}],
        ),
        ("resources/read", {"uri": "orchestr8://skills/retry"}, [{"uri": "orchestr8://guides/roses"}]),
    ],
)
def test_no_reply_is_given_to_another_request(ask: Ask, method: str, params: Message, others: list[Message]) -> None:
    for _ in range(2):
        kept = ask(method, **params)["result"]
        for other in others:
            assert ask(method, **other)["result"] != kept


def test_replaced_index_is_answered_from_at_once(ask: Ask, index: Index) -> None:
    for variant, text in (("base", "Wait."), ("text", "Wait longer."), ("base", "Wait.")):
        index.become(variant)
        for _ in range(2):
            answer = ask("resources/read", uri="orchestr8://skills/retry")["result"]["contents"][0]["text"]
            assert answer == f"# Retry\n\n{text}"


def test_nothing_is_kept_of_an_index_that_was_replaced(ask: Ask, index: Index) -> None:
    ask("prompts/list")
    for method, params in REQUESTS:
        ask(method, **params)
    assert len(kept_replies()) > len(REQUESTS)
    index.become("text")
    ask("resources/read", uri="orchestr8://skills/retry")
    assert ["Wait longer." in str(reply.result) for reply in kept_replies()] == [True]


def kept_replies() -> list[Reply]:
    """Return all replies that are in memory."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Reply)]


def test_mistakes_are_not_kept_and_what_is_gone_is_not_replayed(ask: Ask, index: Index) -> None:
    params = {"uri": "orchestr8://guides/roses"}
    assert "result" in ask("resources/read", **params)
    index.become("no roses")
    for _ in range(2):
        assert "error" in ask("resources/read", **params)
    index.become("base")
    assert "result" in ask("resources/read", **params)


def test_prompt_that_was_filled_with_a_book_is_not_kept(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"name": "fix", "arguments": {"what": "a word " * 20_000}}
    assert "a word a word" in ask("prompts/get", **params)["result"]["messages"][0]["content"]["text"]
    monkeypatch.setattr(Service, "prompt", fail)
    assert ask("prompts/get", **params)["error"]["code"] == -32603


def test_reply_from_memory_is_logged_under_its_own_id(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="orchestr8_sqlite")
    answers = [ask("tools/call", **REQUESTS[0][1]) for _ in range(3)]
    logged = [vars(record) for record in caplog.records if record.getMessage() == "request"]
    assert [line["id"] for line in logged] == [answer["id"] for answer in answers]
    assert logged[-1]["tier"] == "cache"


async def test_each_revision_gets_replies_of_its_own_shape_from_one_server(server: LibraryServer) -> None:
    shapes = []
    for revision in (*REVISIONS, *REVISIONS):
        async with wired(server, revision) as wire:
            result = await wire.result("tools/call", **REQUESTS[0][1])
            shapes.append(("structuredContent" in result, "resultType" in result))
    old, new = (False, False), (True, False)
    assert shapes == [old, old, new, new, (True, True)] * 2
