"""The server under requests that take long: what else is asked is answered, and what nobody waits for ends."""

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from replacing import UPDATED, Index, told, waiting
from servers import greet, receive, release, request, send, start
from serving import HANDSHAKES, MODERN, PATIENCE, Wire, wired

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest
from orchestr8_sqlite.ranking import lookup
from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.changes import Changes
from orchestr8_sqlite.service import service as service_module
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.settings import Settings

pytestmark = pytest.mark.anyio

RETRY = "orchestr8://skills/retry"
ENDLESS = """
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT 1000000000) SELECT sum(n) FROM number
"""
"""Runs for minutes, and ends one day all the same."""

both = pytest.mark.parametrize("revision", [HANDSHAKES[3], MODERN])


@contextmanager
def serving_in(threads: int, index: Path) -> Iterator[LibraryServer]:
    """Yield a server over *index* that works in so many threads."""
    service = Service(Settings(index, "info", 200))
    with ThreadPoolExecutor(threads) as executor:
        yield LibraryServer(service, executor)
    service.close()


class Gate:
    """What searches wait for: `begun` counts those that wait, `open` lets them and all later ones go on."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self._opened = threading.Event()

    def find(
        self, catalog: Catalog, request: MatchRequest, *, lists: bool = True, scenarios: bool = True
    ) -> LookupResult:
        self.begun.release()
        assert self._opened.wait(PATIENCE)
        return lookup.find(catalog, request, lists=lists, scenarios=scenarios)

    def open(self) -> None:
        self._opened.set()

    async def wait_for(self, count: int) -> None:
        """Return once *count* searches wait."""
        for _ in range(count):
            assert await anyio.to_thread.run_sync(lambda: self.begun.acquire(timeout=PATIENCE))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(service_module, "find", made.find)
    yield made
    made.open()


async def start_search(wire: Wire, query: str) -> int:
    return await wire.start("tools/call", name="search", arguments={"query": query})


@asynccontextmanager
async def busy(server: LibraryServer, gate: Gate, revision: str, count: int) -> AsyncIterator[tuple[Wire, list[int]]]:
    """Yield a client, *count* searches of which wait at the gate."""
    async with wired(server, revision) as wire:
        started = [await start_search(wire, f"retrying {number}") for number in range(count)]
        await gate.wait_for(count)
        yield wire, started
        gate.open()


@both
async def test_what_needs_no_index_is_answered_while_every_thread_is_busy(
    index: Index, gate: Gate, revision: str
) -> None:
    with serving_in(2, index.path) as server:
        async with busy(server, gate, revision, 2) as (wire, started):
            await wire.result("server/discover" if revision == MODERN else "ping")
            gate.open()
            for request_id in started:
                assert "result" in await wire.reply(request_id)


async def test_another_client_is_greeted_while_every_thread_is_busy(index: Index, gate: Gate) -> None:
    with serving_in(2, index.path) as server:
        async with busy(server, gate, MODERN, 2), wired(server, HANDSHAKES[3]) as other:
            assert other.greeting["serverInfo"]["name"] == "orchestr8"


async def test_requests_run_at_the_same_time_and_the_last_may_be_answered_first(
    index: Index, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_in(2, index.path) as server:
        async with busy(server, gate, MODERN, 1) as (wire, _):
            result = await wire.result("resources/read", uri=RETRY)
            assert result["contents"][0]["text"] == "# Retry\n\nWait."


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let searches for `endless` run a statement without end; return what is set when one begins."""
    begun = threading.Event()
    find = lookup._find

    def find_endlessly(catalog: Catalog, request: MatchRequest, *, quick: bool, scenarios: bool) -> LookupResult:
        if request.query == "endless":
            begun.set()
            catalog.db.execute(ENDLESS).fetchone()
        return find(catalog, request, quick=quick, scenarios=scenarios)

    monkeypatch.setattr(lookup, "_find", find_endlessly)
    return begun


async def cancel(wire: Wire, request_id: int) -> None:
    await wire.tell("notifications/cancelled", requestId=request_id)


@both
async def test_search_that_its_client_cancels_ends_and_leaves_its_thread_and_the_index_to_the_next(
    index: Index, began: threading.Event, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_in(1, index.path) as server:
        async with wired(server, revision) as wire:
            for _ in range(2):
                endless = await start_search(wire, "endless")
                assert await anyio.to_thread.run_sync(began.wait, PATIENCE)
                began.clear()
                await cancel(wire, endless)
                found = await wire.result("tools/call", name="search", arguments={"query": "retrying"})
                assert RETRY in found["content"][0]["text"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_request_that_is_cancelled_before_its_turn_is_never_begun(
    index: Index, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = Service.read

    def read_and_note(service: Service, uri: str) -> Answer:
        asked.append(uri)
        return read(service, uri)

    monkeypatch.setattr(Service, "read", read_and_note)
    with serving_in(1, index.path) as server:
        async with busy(server, gate, HANDSHAKES[3], 1) as (wire, (searching,)):
            waits = await wire.start("resources/read", uri=RETRY)
            await wire.result("ping")
            await cancel(wire, waits)
            await wire.result("ping")
            gate.open()
            await wire.reply(searching)
            await wire.result("resources/read", uri="orchestr8://registry")
    assert asked == ["orchestr8://registry"]


@both
async def test_reply_from_an_index_that_was_there_for_a_moment_is_not_kept_for_the_one_that_is_put_back(
    index: Index, server: LibraryServer, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    kept = index.path.with_suffix(".kept")
    kept.hardlink_to(index.path)
    read = Service.read

    def read_another(service: Service, uri: str) -> Answer:
        index.become("text")
        try:
            return read(service, uri)
        finally:
            index.path.unlink()
            index.path.hardlink_to(kept)

    async def text(wire: Wire) -> str:
        result: dict[str, Any] = await wire.result("resources/read", uri=RETRY)
        return str(result["contents"][0]["text"])

    async with wired(server, revision) as wire:
        await wire.result("resources/list")
        monkeypatch.setattr(Service, "read", read_another)
        assert await text(wire) == "# Retry\n\nWait longer."
        monkeypatch.setattr(Service, "read", read)
        assert await text(wire) == "# Retry\n\nWait."


@both
async def test_change_that_comes_in_the_midst_of_a_check_is_told_at_the_next(
    index: Index, server: LibraryServer, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    async with waiting(server, revision, RETRY) as wire:
        look = Changes._look
        become: Callable[[str], None] = index.become

        def look_and_replace(changes: Changes) -> object:
            seen = look(changes)
            become("text")
            return seen

        monkeypatch.setattr(Changes, "_look", look_and_replace)
        await server.changes.check()
        monkeypatch.setattr(Changes, "_look", look)
        await server.changes.check()
        assert f"{UPDATED} {RETRY}" in await told(server, wire)


@pytest.mark.slow
def test_servers_on_one_index_answer_side_by_side_and_each_notices_its_replacement(index: Index) -> None:
    processes = [start(index.path) for _ in range(3)]
    try:
        for process in processes:
            greet(process)
        for variant, text in (("base", "Wait."), ("text", "Wait longer."), ("base", "Wait.")):
            index.become(variant)
            for process in processes:
                send(process, request(1, "resources/read", uri=RETRY))
            for process in processes:
                answer = receive(process)
                while "id" not in answer:  # it may tell of the lists that have changed
                    answer = receive(process)
                assert answer["result"]["contents"][0]["text"] == f"# Retry\n\n{text}"
    finally:
        for process in processes:
            release(process)
