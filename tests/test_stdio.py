"""The server process over its pipes: every line that asks for an answer gets one, and it ends cleanly."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import INITIALIZE, INITIALIZED, META, command, greet, lines, receive, request, search, send, start
from serving import HANDSHAKES, MODERN
from support import MakeLibrary, build, markdown

from orchestr8_sqlite import __version__

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("library")
    (root / "skills").mkdir()
    (root / "skills" / "retry.md").write_text(markdown("useWhen:\n  - Retrying a flaky call"), encoding="utf-8")
    return build(root, root / "index.db")


@pytest.fixture
def server(index: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start(index)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def greeted(index: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One server that several tests talk to, after the handshake."""
    process = start(index)
    greet(process)
    yield process
    process.communicate()


CAPABILITIES = {
    "completions": {},
    "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": False},
}
SERVER = {
    "name": "orchestr8",
    "title": "Orchestr8 library",
    "version": __version__,
    "description": "Finds the right skill, agent, pattern or example for a task, just in time",
}


@pytest.mark.parametrize("revision", [*HANDSHAKES, MODERN, "2099-01-01"])
def test_handshake_of_any_revision_is_answered(server: subprocess.Popen[bytes], revision: str) -> None:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    send(server, request(0, "initialize", **params))
    result = receive(server)["result"]
    assert result.pop("instructions").startswith("A library of 1 skill.")
    assert result == {
        "protocolVersion": revision if revision in HANDSHAKES else HANDSHAKES[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER,
    }


def test_discovery_is_answered_without_a_handshake(server: subprocess.Popen[bytes]) -> None:
    send(server, request(0, "server/discover", _meta=META))
    result = receive(server)["result"]
    assert result.pop("instructions").startswith("A library of 1 skill.")
    assert result == {
        "supportedVersions": [MODERN, *reversed(HANDSHAKES)],
        "capabilities": CAPABILITIES,
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": SERVER},
    }


def test_handshake_works_behind_a_first_line_that_is_no_message(server: subprocess.Popen[bytes]) -> None:
    send(server, b"{")
    assert receive(server)["error"]["code"] == -32700
    greet(server)


def test_all_pipelined_requests_are_answered_when_input_ends(server: subprocess.Popen[bytes]) -> None:
    calls = [search(number, f"retry {number}") for number in range(1, 9)]
    output, log = server.communicate(lines(INITIALIZE, INITIALIZED, *calls))
    answers = [json.loads(line) for line in output.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(9))
    assert server.returncode == 0
    assert b"Traceback" not in log


def test_session_from_a_file_is_answered(index: Path, tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    session.write_text(
        "\n".join(map(json.dumps, [INITIALIZE, INITIALIZED, request(1, "tools/list")])), encoding="utf-8"
    )
    with session.open("rb") as stdin:
        process = start(index, stdin)
        output, _ = process.communicate(timeout=30)
    assert [json.loads(line)["id"] for line in output.splitlines()] == [0, 1]
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("line", "code", "answered_id"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"id":"a","method":"ping"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"\\ud800"}', -32600, 7),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"method":"ping"}', -32700, None),
    ],
)
def test_line_that_is_no_message_is_answered_and_the_next_one_works(
    greeted: subprocess.Popen[bytes], line: bytes, code: int, answered_id: object
) -> None:
    send(greeted, line)
    answer = receive(greeted)
    assert (answer["error"]["code"], answer.get("id")) == (code, answered_id)
    assert ("id" in answer) is (answered_id is not None)
    send(greeted, request(1, "ping"))
    assert receive(greeted) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_line_of_more_than_4_mib_is_refused_and_the_next_one_works(greeted: subprocess.Popen[bytes]) -> None:
    send(greeted, b'{"jsonrpc":"2.0","id":5,"method":"' + b"x" * (9 * 1024 * 1024) + b'"}')
    assert "4,194,304 bytes" in receive(greeted)["error"]["message"]
    send(greeted, request(1, "ping"))
    assert receive(greeted)["id"] == 1


def test_line_just_below_4_mib_is_read(greeted: subprocess.Popen[bytes]) -> None:
    send(greeted, search(1, "x" * (4 * 1024 * 1024 - 1024)))
    assert "at most 65,536 are read" in receive(greeted)["result"]["content"][0]["text"]


def test_every_query_is_one_log_line_on_stderr_with_what_it_cost(server: subprocess.Popen[bytes]) -> None:
    _, log = server.communicate(lines(INITIALIZE, INITIALIZED, search(1, 'retry "now"\nplease')))
    line = next(line for line in log.decode().splitlines() if 'method="tools/call"' in line)
    assert ' query="retry \\"now\\" please" ' in line
    assert all(f" {key}=" in line for key in ("latency_ms", "results", "tier", "tokens"))


def test_bad_setting_ends_the_start_with_one_line_and_code_1(index: Path) -> None:
    done = subprocess.run(command(index), env={**os.environ, "ORCHESTR8_ENV": "prod"}, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr == b"ORCHESTR8_ENV must be one of development, production, not 'prod'.\n"
    assert done.stdout == b""


def test_replaced_index_is_served_and_announced_at_the_next_request(make_library: MakeLibrary, tmp_path: Path) -> None:
    target = build(make_library({"skills/old.md": "# Old way\n"}), tmp_path / "index.db")
    process = start(target)
    greet(process)
    send(process, request(1, "resources/read", uri="orchestr8://skills"))
    assert "- old" in receive(process)["result"]["contents"][0]["text"]
    build(make_library({"skills/new.md": "# New way\n"}), target)
    send(process, request(2, "resources/read", uri="orchestr8://skills"))
    messages = {message.get("method", "answer"): message for message in (receive(process), receive(process))}
    assert messages.keys() == {"answer", "notifications/resources/list_changed"}
    assert "- new" in messages["answer"]["result"]["contents"][0]["text"]
    process.communicate()
