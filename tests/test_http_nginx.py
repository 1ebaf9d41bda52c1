"""The documented nginx configuration before two workers: answers, streams, and no request lost with a worker."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from replacing import Index
from serving import MODERN, PATIENCE, Era, both_eras, text_of
from web_servers import TOKEN, WebServer, web_client, web_server

NGINX = shutil.which("nginx")
SITE = Path(__file__).parents[1] / "docs" / "nginx.conf"
NAME = "library.example.org"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="there is no nginx here")]


@pytest.fixture
def server(index: Index) -> Iterator[WebServer]:
    with web_server("--db", index.path, "--workers", "2", "--allow-host", NAME, token=TOKEN) as server:
        yield server


@pytest.fixture
def port(server: WebServer, tmp_path: Path) -> Iterator[int]:
    """Return the port of nginx before *server*."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with nginx(tmp_path, port, server.port):
        yield port


@contextmanager
def nginx(folder: Path, port: int, upstream: int) -> Iterator[None]:
    """Run nginx with the documented site, but for its ports, until the context ends."""
    site = SITE.read_text(encoding="utf-8")
    for documented, here in {
        "server 127.0.0.1:8765 ": f"server 127.0.0.1:{upstream} ",
        "listen 8080;": f"listen {port};",
    }.items():
        assert site.count(documented) == 1
        site = site.replace(documented, here)
    (folder / "site.conf").write_text(site, encoding="utf-8")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log stderr; events {{ }}\n"
        f"http {{ access_log off; {places} include {folder}/site.conf; }}\n",
        encoding="utf-8",
    )
    with subprocess.Popen([str(NGINX), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]) as process:
        until = time.monotonic() + PATIENCE
        while ask(port, "GET", "/healthz") != 200:
            assert process.poll() is None
            assert time.monotonic() < until
        yield
        process.terminate()


def ask(port: int, verb: str, path: str, body: bytes | None = None) -> int:
    """Return the status of an answer; 0 where there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    said = {"Host": NAME, "Authorization": f"Bearer {TOKEN}", "Accept": "*/*", "Content-Type": "application/json"}
    try:
        connection.request(verb, path, body, said)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.anyio
@both_eras
async def test_clients_are_answered_through_nginx(port: int, era: Era) -> None:
    async with web_client(f"http://127.0.0.1:{port}/mcp", era, TOKEN, host=NAME) as client:
        found = await client.call_tool("search", {"query": "retrying a flaky call"})
        assert "orchestr8://skills/retry" in text_of(found.content[0])


@pytest.mark.anyio
async def test_news_come_through_nginx_at_once(index: Index, port: int) -> None:
    async with (
        web_client(f"http://127.0.0.1:{port}/mcp", MODERN, TOKEN, host=NAME) as client,
        client.listen(resources_list_changed=True) as heard,
    ):
        index.become("new fragment")
        started = time.monotonic()
        assert type(await anext(aiter(heard))).__name__ == "ResourcesListChanged"
        assert time.monotonic() - started < PATIENCE  # nginx would hold back a stream for a minute


def test_no_request_is_lost_with_a_worker_that_is_told_to_end(server: WebServer, port: int) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    statuses: list[int] = []
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            statuses.append(ask(port, "POST", "/mcp", body))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        os.kill(server.wait_for("request")["worker"], signal.SIGTERM)
        server.wait_for("worker ended", exit_code=0)
        for _ in range(20):
            server.wait_for("request")
    ended.set()
    for thread in threads:
        thread.join()
    assert len(statuses) > 40
    assert set(statuses) == {200}


@pytest.mark.parametrize("path", ["/", "/mcp/", "/metrics"])
def test_nothing_else_is_served_through_nginx(port: int, path: str) -> None:
    assert ask(port, "GET", path) == 404
