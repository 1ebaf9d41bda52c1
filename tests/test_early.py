"""The answer that is given before the SDK is there: the SDK's own, byte for byte, or none."""

import copy
import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from support import build, write_files

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.descriptors import Descriptors
from orchestr8_sqlite.server.early import LONGEST, Opening
from orchestr8_sqlite.server.greeting import greet
from orchestr8_sqlite.service import Service
from orchestr8_sqlite.settings import Settings

ENVELOPE = "io.modelcontextprotocol/"
INTRODUCTION = "What is here: “quotes”, \\ and\ttabs."

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
DISCOVER: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "a",
    "method": "server/discover",
    "params": {"_meta": {f"{ENVELOPE}protocolVersion": "2026-07-28", f"{ENVELOPE}clientCapabilities": {}}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server[Any]]:
    folder = tmp_path_factory.mktemp("early")
    service = Service(Settings(build(write_files(folder / "l", {"skills/a.md": "# A\n"}), folder / "i.db"), "info", 9))
    with ThreadPoolExecutor(1) as executor:
        yield LibraryServer(service, executor, introduction=INTRODUCTION)
    service.close()


def line_of(request: object) -> bytes:
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"


def sdk_answer(server: Server[Any], line: bytes) -> bytes | None:
    """Return what the SDK says to *line* when it is the first of a connection; None where it says nothing."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return None
    answers: list[str] = []

    async def talk() -> None:
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](1)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](9)
        async with anyio.create_task_group() as tasks, from_server:
            tasks.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
            await to_server.send(SessionMessage(message))
            await anyio.wait_all_tasks_blocked()
            await to_server.aclose()
            answers.extend(
                [answer.message.model_dump_json(by_alias=True, exclude_unset=True) async for answer in from_server]
            )

    anyio.run(talk)
    return answers[0].encode() + b"\n" if answers else None


def early_answer(line: bytes) -> bytes | None:
    return greet(line, lambda: INTRODUCTION)


def with_params(request: dict[str, Any], **params: object) -> dict[str, Any]:
    return {**request, "params": {**request["params"], **params}}


def with_meta(request: dict[str, Any], **meta: object) -> dict[str, Any]:
    return with_params(request, _meta={**request["params"].get("_meta", {}), **meta})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=2)
texts = st.text(max_size=8)
identifiers = st.integers() | texts


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.none() | member for name, member in members.items()})


icons = st.fixed_dictionaries(
    {"src": texts},
    optional={"mimeType": texts, "sizes": st.lists(texts, max_size=2), "theme": st.sampled_from(["light", "dark"])},
)
implementations = st.fixed_dictionaries(
    {"name": texts, "version": texts},
    optional={
        "title": texts,
        "description": texts,
        "websiteUrl": texts,
        "icons": st.lists(icons, max_size=2),
        "x": json_values,
    },
)
capabilities = optional(
    elicitation=optional(form=objects, url=objects),
    experimental=st.dictionaries(texts, objects, max_size=2),
    extensions=st.dictionaries(texts, objects, max_size=2),
    roots=optional(listChanged=st.booleans()),
    sampling=optional(context=objects, tools=objects),
    tasks=optional(
        list=objects,
        cancel=objects,
        requests=optional(elicitation=optional(create=objects), sampling=optional(createMessage=objects)),
    ),
    vendor=json_values,
)
revisions = st.sampled_from([*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS, "1999-01-01", ""]) | texts
initializations = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": identifiers,
        "method": st.just("initialize"),
        "params": st.fixed_dictionaries(
            {"protocolVersion": revisions, "capabilities": capabilities, "clientInfo": implementations},
            optional={
                "_meta": st.fixed_dictionaries({}, optional={"progressToken": identifiers, "vendor": json_values}),
                "vendor": json_values,
            },
        ),
    }
)
discoveries = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": identifiers,
        "method": st.just("server/discover"),
        "params": st.fixed_dictionaries(
            {
                "_meta": st.fixed_dictionaries(
                    {
                        f"{ENVELOPE}protocolVersion": st.just("2026-07-28"),
                        f"{ENVELOPE}clientCapabilities": capabilities,
                    },
                    optional={
                        f"{ENVELOPE}clientInfo": implementations,
                        f"{ENVELOPE}logLevel": st.sampled_from(["debug", "warning", "emergency"]),
                        "progressToken": identifiers,
                        "vendor": json_values,
                    },
                )
            },
            optional={"vendor": json_values},
        ),
    }
)
greetings = initializations | discoveries


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """Return a greeting with one member, at any depth, replaced, renamed or taken away."""
    whole = copy.deepcopy(draw(greetings))
    place: Any = whole
    while True:
        name = draw(st.sampled_from(sorted(place)))
        if isinstance(place[name], dict) and place[name] and draw(st.booleans()):
            place = place[name]
            continue
        value = place.pop(name)
        if draw(st.booleans()):
            place[draw(st.sampled_from([name, name.lower(), "result", "error", "_meta"]))] = draw(
                json_values | st.just(value)
            )
        return whole


without_limits = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@without_limits
@given(request=greetings)
def test_greeting_has_the_answer_of_the_sdk_byte_for_byte(server: Server[Any], request: dict[str, Any]) -> None:
    line = line_of(request)
    early = early_answer(line)
    assert early == sdk_answer(server, line) or (early is None and b"\\u" in line)


@pytest.mark.slow
@settings(without_limits, max_examples=300)
@given(request=damaged())
def test_whatever_the_sdk_would_answer_otherwise_is_left_to_it(server: Server[Any], request: object) -> None:
    line = line_of(request)
    early = early_answer(line)
    assert early is None or early == sdk_answer(server, line)


@pytest.mark.parametrize("revision", [*HANDSHAKE_PROTOCOL_VERSIONS, "2026-07-28", "2099-01-01"])
def test_initialize_of_every_revision_is_answered_early(server: Server[Any], revision: str) -> None:
    line = line_of(with_params(INITIALIZE, protocolVersion=revision))
    early = early_answer(line)
    assert early is not None
    assert early == sdk_answer(server, line)
    agreed = revision if revision in HANDSHAKE_PROTOCOL_VERSIONS else "2025-11-25"
    assert json.loads(early)["result"]["protocolVersion"] == agreed


def test_discover_is_answered_early(server: Server[Any]) -> None:
    early = early_answer(line_of(DISCOVER))
    assert early is not None
    assert early == sdk_answer(server, line_of(DISCOVER))
    assert json.loads(early)["result"]["supportedVersions"] == ["2026-07-28"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}\n",
        b"\xef\xbb\xbf" + line_of(INITIALIZE),
        line_of(INITIALIZE).decode().encode("utf-16"),
        line_of(INITIALIZE).replace(b'"test"', b'"\\ud800"'),
        line_of(INITIALIZE).replace(b'"test"', b'"\xff"'),
        line_of(INITIALIZE).replace(b'"id": 0', b'"id": 0, "id": 1'),
        line_of(with_params(INITIALIZE, vendor=float("nan"))),
        line_of([INITIALIZE]),
        line_of({**INITIALIZE, "id": None}),
        line_of({**INITIALIZE, "id": 1.0}),
        line_of({**INITIALIZE, "id": True}),
        line_of({**INITIALIZE, "jsonrpc": "1.0"}),
        line_of({**INITIALIZE, "result": {}}),
        line_of({**INITIALIZE, "method": "tools/list"}),
        line_of({key: value for key, value in INITIALIZE.items() if key != "id"}),
        line_of(with_params(INITIALIZE, clientInfo={"name": "test"})),
        line_of(with_params(INITIALIZE, capabilities=[])),
        line_of(with_params(INITIALIZE, capabilities={"roots": {"listChanged": 1}})),
        line_of(with_params(INITIALIZE, vendor=json.loads("[" * 101 + "]" * 101))),
        line_of(with_params(INITIALIZE, _meta={"progressToken": None})),
        line_of(with_meta(DISCOVER, progressToken=None)),
        line_of({**DISCOVER, "params": {}}),
        line_of(with_meta(DISCOVER, **{f"{ENVELOPE}protocolVersion": "2027-01-01"})),
        line_of(with_meta(DISCOVER, **{f"{ENVELOPE}clientCapabilities": None})),
        line_of(with_meta(DISCOVER, **{f"{ENVELOPE}logLevel": "loud"})),
    ],
)
def test_what_is_no_well_formed_greeting_is_left_to_the_sdk(line: bytes) -> None:
    assert early_answer(line) is None


class Client:
    """The other end of an `Opening`: a pair of sockets, as many hosts connect a server."""

    def __init__(self) -> None:
        self.here, self._there = socket.socketpair()
        self.here.settimeout(10)
        self.left = threading.Event()
        descriptor = self._there.fileno()
        self.opening = Opening(Descriptors(descriptor, descriptor), lambda: INTRODUCTION, at_end=self.left.set)

    def rest(self) -> bytes:
        """Return what the opening left to be read."""
        self._there.setblocking(False)
        try:
            return self._there.recv(1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.here.close()
        self._there.close()


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    yield client
    client.close()


def test_line_that_is_already_there_is_answered_before_anything_else(client: Client) -> None:
    client.here.sendall(line_of(INITIALIZE) + b"next")
    client.opening.begin()
    client.opening.finish()
    assert client.here.recv(1 << 16) == early_answer(line_of(INITIALIZE))
    assert (client.opening.taken, client.opening.answered) == (line_of(INITIALIZE), True)
    assert client.rest() == b"next"


def test_line_that_comes_in_pieces_is_answered_when_it_is_whole(client: Client) -> None:
    line = line_of(DISCOVER)
    client.here.sendall(line[:20])
    client.opening.begin()
    client.here.sendall(line[20:])
    assert client.here.recv(1 << 16) == early_answer(line)
    client.opening.finish()
    assert client.opening.answered


def test_half_a_line_is_handed_over_as_it_is(client: Client) -> None:
    client.here.sendall(b'{"jsonrpc"')
    client.opening.begin()
    client.opening.finish()
    assert client.opening.taken == b'{"jsonrpc"'
    client.opening.stop()
    assert not client.left.is_set()


def test_other_request_is_handed_over_unanswered_and_nothing_behind_it_is_read(client: Client) -> None:
    client.here.sendall(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' + line_of(INITIALIZE))
    client.opening.begin()
    client.opening.finish()
    assert not client.opening.answered
    assert client.rest() == line_of(INITIALIZE)


def test_long_line_is_handed_over_in_part(client: Client) -> None:
    client.here.sendall(b"x" * (LONGEST + 10))
    client.opening.begin()
    client.opening.finish()
    assert len(client.opening.taken) + len(client.rest()) == LONGEST + 10


@pytest.mark.parametrize("before", [b"", line_of(INITIALIZE)])
def test_stop_with_nothing_left_to_answer_ends_at_once(client: Client, before: bytes) -> None:
    client.here.sendall(before)
    client.opening.begin()
    assert not client.left.is_set()
    client.opening.stop()
    assert client.left.is_set()
    client.opening.finish()


@pytest.mark.parametrize("before", [b"", line_of(INITIALIZE)])
def test_end_of_input_with_nothing_left_to_answer_is_told_at_once(client: Client, before: bytes) -> None:
    client.here.sendall(before)
    client.opening.begin()
    assert not client.left.is_set()
    client.here.shutdown(socket.SHUT_WR)
    assert client.left.wait(10)


def test_end_of_input_behind_a_request_waits_for_its_answer(client: Client) -> None:
    client.here.sendall(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
    client.here.shutdown(socket.SHUT_WR)
    client.opening.begin()
    client.opening.finish()
    assert not client.left.is_set()


def test_requests_behind_an_answered_greeting_keep_the_server_alive_at_end_of_input(client: Client) -> None:
    client.here.sendall(line_of(INITIALIZE) + line_of(INITIALIZE))
    client.here.shutdown(socket.SHUT_WR)
    client.opening.begin()
    client.opening.finish()
    assert not client.left.is_set()
    assert client.rest() == line_of(INITIALIZE)


def test_regular_file_is_left_alone(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    session.write_bytes(line_of(INITIALIZE))
    descriptor = os.open(session, os.O_RDONLY)
    opening = Opening(Descriptors(descriptor, 1), lambda: INTRODUCTION, at_end=lambda: None)
    opening.begin()
    opening.finish()
    assert (opening.taken, opening.answered) == (b"", False)
    assert os.read(descriptor, 1) == b"{"
    os.close(descriptor)


def test_instructions_are_computed_once(client: Client) -> None:
    introductions = iter(["as it was", "as it is now"])
    client.opening = Opening(
        Descriptors(client.here.fileno(), client.here.fileno()), lambda: next(introductions), at_end=lambda: None
    )
    assert client.opening.introduction == "as it was"
    assert client.opening.introduction == "as it was"
