"""Server processes that tests talk to over pipes."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(number: int, method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def search(number: int, query: str) -> dict[str, object]:
    return request(number, "tools/call", name="search", arguments={"query": query})


def command(index: Path) -> list[str]:
    return [sys.executable, "-m", "orchestr8_sqlite", "serve", "--db", str(index)]


def start(index: Path, stdin: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(index), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def lines(*messages: object) -> bytes:
    return b"".join(
        (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n" for message in messages
    )


def send(server: subprocess.Popen[bytes], *messages: object) -> None:
    assert server.stdin is not None
    server.stdin.write(lines(*messages))
    server.stdin.flush()


def receive(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert server.stdout is not None
    message: dict[str, Any] = json.loads(server.stdout.readline())
    return message


def greet(server: subprocess.Popen[bytes]) -> None:
    """Shake hands, and wait until the server is past its start."""
    send(server, INITIALIZE)
    assert receive(server)["result"]["serverInfo"]["name"] == "orchestr8"
    send(server, INITIALIZED, request(-1, "ping"))
    assert receive(server)["id"] == -1


def release(server: subprocess.Popen[bytes]) -> None:
    """End the process and close its pipes, in whatever state they are."""
    server.kill()
    server.wait()
    for stream in (server.stdin, server.stdout, server.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
