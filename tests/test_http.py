"""The server over HTTP, as a process: what clients get, who is turned away, and how it lives and ends."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from listening import needs_proc, processes
from mcp_types import TextContent
from replacing import Index
from serving import HANDSHAKES, MODERN, PATIENCE, REVISIONS, Era, both_eras, text_of
from support import MakeLibrary, markdown, write_files
from web_servers import TOKEN, WebServer, web_client, web_server

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.server.http.patience import FIRST_SECONDS
from orchestr8_sqlite.server.http.worker import GRACE_SECONDS

RETRY = "orchestr8://skills/retry"
SEARCH: dict[str, Any] = {"name": "search", "arguments": {"query": "retrying a flaky call"}}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(variants: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Return a server without a token; nobody replaces its index."""
    index = Index(tmp_path_factory.mktemp("shared") / "index.db", variants)
    with web_server("--db", index.path, "--allow-origin", "https://tools.example.org") as server:
        yield server


@pytest.fixture(scope="module")
def guarded(variants: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Return a server of two workers that wants a token."""
    index = Index(tmp_path_factory.mktemp("guarded") / "index.db", variants)
    more = ["--workers", "2", "--allow-host", "library.example.org"]
    with web_server("--db", index.path, *more, token=TOKEN) as server:
        yield server


# What clients get


@pytest.mark.anyio
@both_eras
async def test_a_client_searches_loads_reads_and_fills_prompts(guarded: WebServer, era: Era) -> None:
    async with web_client(guarded.url, era, TOKEN) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "search",
            "load",
        }
        found = await client.call_tool("search", {"query": "retrying a flaky call", "mode": "index"})
        assert isinstance(found.content[0], TextContent)
        assert RETRY in found.content[0].text
        loaded = await client.call_tool("load", {"uris": [RETRY]})
        assert "Wait." in text_of(loaded.content[0])
        assert "Wait." in text_of((await client.read_resource(RETRY)).contents[0])
        filled = await client.get_prompt("fix", {"what": "the pump"})
        assert text_of(filled.messages[0].content) == "Fix the pump."


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_request_stands_for_itself_in_every_revision(shared: WebServer, revision: str) -> None:
    reply = shared.ask("tools/call", revision, **SEARCH)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    assert RETRY in reply.message["result"]["content"][0]["text"]


@pytest.mark.parametrize("revision", [HANDSHAKES[0], HANDSHAKES[-1]])
def test_a_handshake_promises_no_news_that_could_not_be_brought(shared: WebServer, revision: str) -> None:
    info = {"name": "test", "version": "1"}
    reply = shared.ask("initialize", revision, protocolVersion=revision, capabilities={}, clientInfo=info)
    capabilities = reply.message["result"]["capabilities"]
    for kind in ("tools", "prompts", "resources"):
        assert not capabilities[kind].get("listChanged")
    assert not capabilities["resources"].get("subscribe")
    assert shared.ask("resources/subscribe", revision, uri=RETRY).message["error"]["code"] == -32601


def test_since_2026_changes_are_promised_on_a_stream(shared: WebServer) -> None:
    capabilities = shared.ask("server/discover", MODERN).message["result"]["capabilities"]
    assert capabilities["prompts"]["listChanged"]
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}


def test_a_call_does_not_list_the_tools_first(shared: WebServer) -> None:
    """The SDK compares headers with the schema of a tool; it would list all of them to find it."""
    shared.ask("tools/call", MODERN, **SEARCH)
    shared.wait_for("request", method="tools/call")
    before = len([line for line in shared.lines if line.get("method") == "tools/list"])
    shared.ask("tools/call", MODERN, **SEARCH)
    shared.wait_for("request", method="tools/call")
    assert len([line for line in shared.lines if line.get("method") == "tools/list"]) == before


# Who is turned away


@pytest.mark.parametrize(
    ("authorization", "challenge"),
    [
        (None, "Bearer"),
        ("Bearer ", 'Bearer error="invalid_token"'),
        (f"Bearer {TOKEN[:-1]}", 'Bearer error="invalid_token"'),
        (f"Bearer {TOKEN.upper()}", 'Bearer error="invalid_token"'),
        (f"Basic {TOKEN}", 'Bearer error="invalid_token"'),
        (TOKEN, 'Bearer error="invalid_token"'),
    ],
)
def test_without_the_very_token_nothing_is_answered(
    guarded: WebServer, authorization: str | None, challenge: str
) -> None:
    reply = guarded.ask(headers=[f"Authorization: {authorization}"] if authorization is not None else [])
    assert (reply.status, reply.headers["www-authenticate"]) == (401, challenge)
    assert b"tools" not in reply.body
    assert guarded.wait_for("refused")["status"] == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_with_the_token_everything_is_answered_and_no_line_of_the_log_holds_it(guarded: WebServer, scheme: str) -> None:
    assert guarded.ask(headers=[f"Authorization: {scheme} {TOKEN}"]).status == 200
    guarded.wait_for("request", method="tools/list")
    assert TOKEN not in json.dumps(guarded.lines)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Host: evil.example", 421),
        ("Host: evil.example:8765", 421),
        ("Host: 127.0.0.1:1", 421),
        ("Origin: https://evil.example", 403),
        ("Origin: null", 403),
        ("Origin: https://tools.example.org.evil.example", 403),
        ("Origin: https://tools.example.org", 200),
    ],
)
def test_foreign_hosts_and_origins_are_refused(shared: WebServer, revision: str, header: str, status: int) -> None:
    assert shared.ask("tools/list", revision, headers=[header]).status == status


@pytest.mark.parametrize("host", ["library.example.org", "library.example.org:8443"])
def test_a_name_that_is_allowed_is_accepted(guarded: WebServer, host: str) -> None:
    assert guarded.ask(headers=[f"Host: {host}", f"Authorization: Bearer {TOKEN}"]).status == 200


@pytest.mark.parametrize(("origin", "allowed"), [("https://tools.example.org", True), ("https://evil.example", False)])
def test_only_web_pages_of_allowed_origins_get_permission_to_ask(
    shared: WebServer, origin: str, *, allowed: bool
) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    reply = shared.send("OPTIONS", "/mcp", {"Origin": origin, **asked})
    assert (reply.status == 200) is allowed
    assert (reply.headers.get("access-control-allow-origin") == origin) is allowed


@pytest.mark.parametrize("length", ["declared", "chunked"])
def test_a_body_of_more_than_4_mib_is_refused(shared: WebServer, length: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=PATIENCE)
    connection.putrequest("POST", "/mcp")
    connection.putheader("Content-Type", "application/json")
    if length == "declared":
        connection.putheader("Content-Length", str((4 << 20) + 1))
        connection.endheaders()
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(5):
            connection.send(b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20)))
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize("verb", ["GET", "DELETE", "PUT"])
def test_there_is_nothing_to_get_or_to_delete(shared: WebServer, verb: str) -> None:
    reply = shared.send(verb, "/mcp", {"Accept": "text/event-stream"})
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/", "/mcp/", "/healthz/", "/mcp/../healthz", "/%2e%2e/etc/passwd"])
def test_other_paths_do_not_exist(shared: WebServer, path: str) -> None:
    for verb in ("GET", "POST"):
        assert shared.send(verb, path, {"Host": "evil.example"}).status == 404
        shared.wait_for("refused", status=404, method=verb)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1,"method":1}'])
@pytest.mark.parametrize("revision", [HANDSHAKES[-1], MODERN])
def test_what_is_no_request_is_told_so_without_a_trace(shared: WebServer, body: bytes, revision: str) -> None:
    said = {"Content-Type": "application/json", "Accept": "*/*", "Mcp-Protocol-Version": revision}
    reply = shared.send("POST", "/mcp", said, body)
    error = reply.message["error"]
    answer = (reply.status, error["code"], error["message"])
    assert answer in [
        (400, -32700, "The body is not JSON in UTF-8."),
        (400, -32600, "The body is not a JSON-RPC 2.0 request or notification."),
    ]
    assert (error["code"] == -32600) == body.endswith((b"[]", b"}"))


@pytest.mark.parametrize("path", ["/mcp", "/elsewhere", "/healthz"])
def test_no_answer_names_the_program_that_gives_it_or_opens_itself_to_web_pages(guarded: WebServer, path: str) -> None:
    """By a banner one could look up what it is open to."""
    for verb, headers in [("GET", {}), ("POST", {"Authorization": f"Bearer {TOKEN}"}), ("OPTIONS", {})]:
        reply = guarded.send(verb, path, {"Origin": "https://evil.example", **headers})
        assert "server" not in reply.headers
        assert not [name for name in reply.headers if name.startswith("access-control")]
        assert verb != "OPTIONS" or reply.status >= 400


# The index


def test_health_tells_the_generation_to_everybody_and_nothing_else(guarded: WebServer) -> None:
    reply = guarded.send("GET", "/healthz")
    assert reply.status == 200
    assert reply.message.keys() == {"status", "generation"}


@pytest.mark.parametrize("revision", [HANDSHAKES[-1], MODERN])
def test_without_an_index_health_is_bad_and_answers_hold_no_path(index: Index, revision: str) -> None:
    with web_server("--db", index.path) as server:
        index.path.unlink()
        reply = server.send("GET", "/healthz")
        assert (reply.status, reply.message["status"]) == (503, "no index")
        assert [one["what"] for one in reply.message["stale"]] == ["index"]
        assert str(index.path.parent).encode() not in reply.body
        failed = server.ask("tools/call", revision, **SEARCH)
        assert failed.message["result"]["isError"] is True
        assert str(index.path.parent).encode() not in failed.body
        index.become("base")
        assert server.send("GET", "/healthz").status == 200


def test_both_workers_answer_and_both_see_a_new_index_at_once(index: Index) -> None:
    with web_server("--db", index.path, "--workers", "2") as server:
        for variant, words in (("base", "Wait."), ("text", "Wait longer.")):
            index.become(variant)
            server.workers()
            seen: set[int] = set()
            until = time.monotonic() + 3 * PATIENCE
            while len(seen) < 2 and time.monotonic() < until:
                reply = server.ask("tools/call", name="load", arguments={"uris": [RETRY]})
                assert words in reply.message["result"]["content"][0]["text"]
                seen.add(server.wait_for("request", method="tools/call")["worker"])
            assert len(seen) == 2
            with Catalog.open(index.path) as catalog:
                assert server.send("GET", "/healthz").message["generation"] == catalog.generation


@pytest.mark.anyio
async def test_who_listens_hears_of_a_new_index_though_nobody_asks(index: Index) -> None:
    with web_server("--db", index.path) as server:
        async with (
            web_client(server.url, MODERN) as client,
            client.listen(resources_list_changed=True) as heard,
        ):
            index.become("new fragment")
            event = await anext(aiter(heard))
            assert type(event).__name__ == "ResourcesListChanged"


def test_instructions_name_the_library_of_today(index: Index) -> None:
    with web_server("--db", index.path) as server:
        assert "guide" in server.ask("server/discover", MODERN).message["result"]["instructions"]
        index.become("no roses")
        until = time.monotonic() + PATIENCE
        told = "guide"
        while "guide" in told and time.monotonic() < until:
            told = server.ask("server/discover", MODERN).message["result"]["instructions"]
        assert "guide" not in told


@pytest.mark.parametrize("workers", [1, 2])
def test_a_library_is_built_by_one_process_before_anything_is_answered(tmp_path: Path, workers: int) -> None:
    root = write_files(tmp_path / "library", {"skills/retry.md": markdown("useWhen: [Retrying]", "# Retry\n\nWait.\n")})
    variables = {"ORCHESTR8_DB": str(tmp_path / "index.db")}
    with web_server("--root", root, "--watch", "--workers", str(workers), variables=variables) as server:
        assert [line["message"] for line in server.lines] == ["built", "serving"]
        assert server.ask("resources/read", uri=RETRY).message["result"]["contents"][0]["text"] == "# Retry\n\nWait."
        write_files(root, {"skills/retry.md": markdown("useWhen: [Retrying]", "# Retry\n\nWait longer.\n")})
        server.wait_for("built")
        assert "longer" in server.ask("resources/read", uri=RETRY).message["result"]["contents"][0]["text"]
        assert server.end() == 0
        assert [line["message"] for line in server.lines].count("built") == 2


# How it lives and ends


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_is_under_way_is_answered_before_the_end(index: Index, workers: str, number: signal.Signals) -> None:
    with web_server("--db", index.path, "--workers", workers) as server:
        connection = begin_request(server)
        server.process.send_signal(number)
        wait_until_refused(server)
        assert finish_request(connection) == (200, "close")
        assert server.wait() == 0
        assert "not logged" not in [line["message"] for line in server.lines]


def test_a_request_on_its_way_on_a_new_connection_is_answered_before_the_end(index: Index) -> None:
    for _ in range(5):
        if answer := answer_to_a_late_request(index):
            break
    assert answer == (200, "close", 0)


def answer_to_a_late_request(index: Index) -> tuple[int, str | None, int] | None:
    """Return status, Connection and the server's exit code; nothing if the request left later than the server waits."""
    with web_server("--db", index.path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.connect()
        assert server.send("GET", "/healthz").status == 200  # accepted after the other
        until = time.monotonic() + FIRST_SECONDS
        server.process.send_signal(signal.SIGTERM)
        wait_until_refused(server)
        connection.request("GET", "/healthz")
        if time.monotonic() > until:
            return None
        response = connection.getresponse()
        connection.close()
        return response.status, response.getheader("Connection"), server.wait()


def test_a_connection_without_a_request_does_not_hold_up_the_end(index: Index) -> None:
    with web_server("--db", index.path) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=GRACE_SECONDS / 2) as silent:
            assert server.send("GET", "/healthz").status == 200  # accepted after the other
            server.process.send_signal(signal.SIGTERM)
            assert silent.recv(1) == b""
        assert server.wait() == 0


@pytest.mark.anyio
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_streams_are_ended_in_order_when_the_server_ends(index: Index, workers: str) -> None:
    with web_server("--db", index.path, "--workers", workers) as server:
        async with web_client(server.url, MODERN) as client, client.listen(resources_list_changed=True) as heard:
            server.process.send_signal(signal.SIGTERM)
            assert [event async for event in heard] == []
        assert server.wait() == 0


def test_a_worker_that_is_killed_is_replaced(index: Index) -> None:
    with web_server("--db", index.path, "--workers", "2") as server:
        server.ask()
        killed = server.wait_for("request")["worker"]
        os.kill(killed, signal.SIGKILL)
        assert server.wait_for("worker ended")["worker"] == killed
        seen: set[int] = set()
        until = time.monotonic() + 3 * PATIENCE
        while len(seen) < 2 and time.monotonic() < until:
            assert server.ask().status == 200
            seen.add(server.wait_for("request")["worker"])
        assert len(seen) == 2
        assert killed not in seen
        assert server.end() == 0


def test_a_worker_whose_replacement_cannot_start_is_replaced_once_one_can(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"), prepend=os.pathsep)
    with web_server("--db", index.path, "--workers", "2") as server:
        server.ask()
        killed = server.wait_for("request")["worker"]
        broken = write_files(tmp_path / "broken", {"uvicorn.py": "raise ImportError('broken on purpose')\n"})
        os.kill(killed, signal.SIGKILL)
        assert server.wait_for("worker ended")["again_in_seconds"] == 1
        assert server.wait_for("worker failed to start")["again_in_seconds"] == 2
        assert server.ask().status == 200
        left = server.wait_for("request")["worker"]
        (broken / "uvicorn.py").unlink()
        until = time.monotonic() + 3 * PATIENCE
        while server.ask().status == 200 and server.wait_for("request")["worker"] == left:
            assert time.monotonic() < until
        assert server.end() == 0


@needs_proc
@pytest.mark.parametrize("workers", ["1", "2"])
def test_health_says_since_when_changes_are_not_followed_and_when_they_are_again(
    make_library: MakeLibrary, tmp_path: Path, workers: str
) -> None:
    root, index = make_library({"skills/retry.md": "# Retrying\n"}), tmp_path / "index.db"

    with web_server("--root", root, "--db", index, "--workers", workers) as server:
        server.wait_for_health("ok")
        (number,) = set(processes(index)) - {server.process.pid}
        os.kill(number, signal.SIGKILL)
        reply = server.wait_for_health("stale")
        assert reply.status == 200
        assert reply.message["generation"]
        (stale,) = reply.message["stale"]
        assert (stale["what"], stale["why"]) == ("library", "the process that follows changes has ended")
        assert abs(datetime.fromisoformat(stale["since"]).timestamp() - time.time()) < 3 * PATIENCE
        assert str(tmp_path).encode() not in reply.body
        assert server.wait_for_health("ok").message.keys() == {"status", "generation"}


def test_workers_end_with_the_process_above_them(index: Index) -> None:
    with web_server("--db", index.path, "--workers", "2") as server:
        server.process.kill()
        server.process.wait()
        wait_until_refused(server)


def test_a_worker_that_cannot_start_ends_the_server_with_an_error(index: Index, tmp_path: Path) -> None:
    write_files(tmp_path / "broken", {"uvicorn.py": "raise ImportError('broken on purpose')\n"})
    path = os.pathsep.join([str(tmp_path / "broken"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "orchestr8_sqlite", "serve", "--http", "127.0.0.1:0", "--workers", "2"]
    done = subprocess.run(
        [*command, "--db", str(index.path)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "broken on purpose" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("A worker ended during its start")


def test_the_process_above_workers_and_stdio_import_no_web_server() -> None:
    for module in ("orchestr8_sqlite.server.http.serve", "orchestr8_sqlite.server.stdio.start", "orchestr8_sqlite.cli"):
        code = f"import sys, {module}; print([n for n in ('mcp', 'uvicorn', 'starlette') if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", module


def test_a_signal_that_is_ignored_from_the_start_stays_ignored() -> None:
    """As under nohup, whose user wants the server to outlive the terminal."""
    code = """
import asyncio, os, signal, sys
from orchestr8_sqlite.server.signals import stop_on_signals

async def main():
    stop = asyncio.Event()
    stop_on_signals(stop)
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()

signal.signal(signal.SIGHUP, signal.SIG_IGN)
asyncio.run(main())
assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_signal_stops_the_server_where_loops_take_none() -> None:
    """As on Windows."""
    code = """
import asyncio, os, signal
from orchestr8_sqlite.server.signals import ignore_signals, stop_on_signals

async def main():
    def refuse(*_):
        raise NotImplementedError
    loop = asyncio.get_running_loop()
    loop.add_signal_handler = loop.remove_signal_handler = refuse
    stop = asyncio.Event()
    stop_on_signals(stop)
    os.kill(os.getpid(), signal.SIGINT)
    await stop.wait()
    ignore_signals()
    os.kill(os.getpid(), signal.SIGINT)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_while_it_starts_ends_well(index: Index, number: signal.Signals) -> None:
    code = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'uvicorn': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"sys.argv[1:] = ['serve', '--http', '127.0.0.1:0', '--db', {str(index.path)!r}]\n"
        "from orchestr8_sqlite.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=3 * PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def begin_request(server: WebServer) -> http.client.HTTPConnection:
    """Send the head of a request, and return the connection once the server has begun to wait for the rest."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.putrequest("POST", "/mcp")
    for name, value in {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
        "Expect": "100-continue",
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.sock.recv(1000).startswith(b"HTTP/1.1 100")
    connection.rest = body  # type: ignore[attr-defined]
    return connection


def finish_request(connection: http.client.HTTPConnection) -> tuple[int, str | None]:
    """Send the rest of the request and return the status of its answer, and what that says of the connection."""
    connection.send(connection.rest)  # type: ignore[attr-defined]
    response = connection.getresponse()
    connection.close()
    return response.status, response.getheader("Connection")


def wait_until_refused(server: WebServer) -> None:
    """Return once nothing listens at the address any more."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            server.send("GET", "/healthz")
        except (ConnectionError, http.client.HTTPException):
            return
    raise AssertionError("the server still listens")
