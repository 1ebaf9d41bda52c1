"""Server processes that tests talk to over HTTP."""

import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from serving import MODERN, PATIENCE, Era

TOKEN = "correct-horse-battery-staple"
START_PATIENCE = 6 * PATIENCE
"""Seconds that a start may take on a busy machine; it imports the SDK once a worker."""

OURS = re.compile(r"^(ORCHESTR8_.*|LOG_.*|CACHE_SIZE)$")

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """Return the body, which is JSON."""
        message: dict[str, Any] = json.loads(self.body)
        return message


class WebServer:
    """A server process past its start, and what it has logged: `lines`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[Line] = []
        self._came: queue.Queue[Line | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url: str = self.wait_for("serving")["url"]
        address = urlsplit(self.url)
        assert address.port
        self.port = address.port

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self._came.put(json.loads(line) if line.startswith("{") else {"message": "not logged", "text": line})
        self._came.put(None)

    def wait_for(self, message: str, **fields: object) -> Line:
        """Return the next line of the log with that message and these fields."""
        until = time.monotonic() + START_PATIENCE
        while (line := self._came.get(timeout=until - time.monotonic())) is not None:
            self.lines.append(line)
            if line["message"] == message and fields.items() <= line.items():
                return line
        raise AssertionError((message, fields, self.lines))

    def wait_for_health(self, status: str) -> Reply:
        """Return an answer of `/healthz` with that status; a worker hears of it a moment after the log."""
        until = time.monotonic() + START_PATIENCE
        while (reply := self.send("GET", "/healthz")).message["status"] != status:
            assert time.monotonic() < until, reply.message
            time.sleep(0.01)
        return reply

    def ask(
        self, method: str = "tools/list", revision: str = "2025-11-25", *, headers: Sequence[str] = (), **params: object
    ) -> Reply:
        """Return the answer to a request of the protocol, sent over a connection of its own.

        Args:
            headers: Further headers, as `Name: value`.
        """
        said = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        said["Mcp-Protocol-Version"] = revision
        if revision == MODERN:
            said["Mcp-Method"] = method
            if name := params.get("name", params.get("uri")):
                said["Mcp-Name"] = str(name)
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        said |= dict(header.split(": ", 1) for header in headers)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return self.send("POST", "/mcp", said, body)

    def send(self, verb: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Reply:
        """Return the answer to a request of HTTP, sent over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(verb, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def workers(self) -> set[int]:
        """Return the processes that have answered requests so far."""
        while not self._came.empty():
            line = self._came.get()
            if line is not None:
                self.lines.append(line)
        return {line["worker"] for line in self.lines if line["message"] == "request" and "worker" in line}

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return the exit code, once the process has ended and all its lines are read."""
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join()
        self.workers()
        return code


@contextmanager
def web_server(
    *options: str | Path, token: str | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[WebServer]:
    """Yield a server process on a free port; it says nothing on standard output until it is gone."""
    environment = {name: value for name, value in os.environ.items() if not OURS.match(name)} | dict(variables or {})
    if token is not None:
        environment["ORCHESTR8_HTTP_TOKEN"] = token
    command = [sys.executable, "-m", "orchestr8_sqlite", "serve", "--log-format", "json", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    with process.stdout as output:
        try:
            server = WebServer(process)
            yield server
            if process.poll() is None:
                server.end()
            assert output.read() == ""
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def web_client(url: str, era: Era, token: str | None = None, *, host: str | None = None) -> AsyncIterator[Client]:
    """Yield the SDK's own client of the server at *url*, which it may call by another name."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= {} if host is None else {"Host": host}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http_client,
        Client(streamable_http_client(url, http_client=http_client), mode=era) as client,
    ):
        yield client
