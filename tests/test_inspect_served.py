"""The inspection page as a server offers it: who gets it, what it shows of which index, and what is typed into it."""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from asgi import Asked, serving
from listening import needs_proc, processes
from support import GARDENING, Invoke, build, markdown, write_files
from test_inspection import unpack
from web_servers import TOKEN, web_server

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.inspection.assembly import render_page, render_served_page
from orchestr8_sqlite.server.http.access import read_access
from orchestr8_sqlite.server.http.page import Collector
from orchestr8_sqlite.settings import bundled_index

PATIENCE = 60
FILES = {
    "skills/retry.md": markdown(
        "title: Retry calls\ntags: [http, retry]\nuseWhen: [Retrying a flaky call]\nqueries: [a call that is flaky]"
    ),
    "skills/kube.md": markdown("title: Kube\ntags: [kubernetes]\nuseWhen: [draining a node before an upgrade]"),
    **GARDENING,
}
BASIC = {"authorization": f"Basic {base64.b64encode(f'librarian:{TOKEN}'.encode()).decode()}"}
ROUTES = [("GET", "/inspect"), ("GET", "/inspect/data"), ("POST", "/inspect/search")]
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """Return an index that the test may replace."""
    return Path(shutil.copy(built, tmp_path / "index.db"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newer")
    files = {**FILES, "skills/caching.md": markdown("title: Caching\nuseWhen: [Keeping what was computed]")}
    return build(write_files(folder / "library", files), folder / "index.db")


@pytest.fixture
async def web(index: Path) -> AsyncIterator[Asked]:
    """Return a server with a token, without its sockets."""
    async with serving(index, read_access("127.0.0.1:0", token=TOKEN)) as web:
        yield web


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """Return the processes that are started from now on."""
    found: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def keep(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:  # noqa: ANN401
        found.append(await start(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", keep)
    return found


def basic(password: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'anybody:{password}'.encode()).decode()}"}


REFUSED: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "another password": basic(f"{TOKEN}x"),
    "a part of it": basic(TOKEN[:-1]),
    "no password": basic(""),
    "the token as user": {"authorization": f"Basic {base64.b64encode(f'{TOKEN}:'.encode()).decode()}"},
    "no base64": {"authorization": "Basic §§"},
    "another token": {"authorization": f"Bearer {TOKEN}x"},
    "the token without a scheme": {"authorization": TOKEN},
}


@pytest.mark.anyio
@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize(("verb", "path"), ROUTES)
async def test_page_its_data_and_its_search_want_the_token(
    web: Asked, verb: str, path: str, given: Mapping[str, str]
) -> None:
    reply = await web.send({"query": "retry"}, verb=verb, path=path, headers=given)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Basic realm="orchestr8-sqlite", charset="UTF-8"')
    assert b"flaky" not in reply.body


@pytest.mark.anyio
@pytest.mark.parametrize("given", [BASIC, BEARER], ids=["password", "bearer"])
async def test_token_comes_as_the_password_of_any_user_or_as_bearer(web: Asked, given: Mapping[str, str]) -> None:
    reply = await web.send(b"", verb="GET", path="/inspect", headers=given)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert reply.headers["cache-control"] == "no-store"


@pytest.mark.anyio
async def test_protocol_takes_no_password_which_browsers_send_by_themselves(web: Asked) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    reply = await web.send(ping, headers={**BASIC, "mcp-protocol-version": "2025-11-25"})
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 421), ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403)],
    ids=str,
)
@pytest.mark.parametrize(("verb", "path"), ROUTES)
async def test_other_names_and_other_web_pages_are_refused(
    web: Asked, verb: str, path: str, headers: Mapping[str, str], status: int
) -> None:
    assert (await web.send({"query": "x"}, verb=verb, path=path, headers={**BASIC, **headers})).status == status


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "Send a JSON object"),
        (b"[" * 100_000, "Send a JSON object"),
        (b"\xff", "Send a JSON object"),
        ([], "Send a JSON object"),
        ({"query": 1}, "Send a JSON object"),
        ({"query": " "}, "The parameter 'query' is empty"),
        ({"query": "x" * 70_000}, "'query' has 70,000 characters, at most 65,536 are read"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_what_is_no_request_is_refused_in_a_sentence(web: Asked, body: object, said: str) -> None:
    reply = await web.send(body, path="/inspect/search", headers=BASIC)
    assert (reply.status, reply.body.decode().startswith(said)) == (400, True)


@pytest.mark.anyio
@pytest.mark.parametrize(("verb", "path"), ROUTES)
async def test_only_the_method_of_a_route_is_served(web: Asked, verb: str, path: str) -> None:
    other = {"GET": "POST", "POST": "GET"}[verb]
    reply = await web.send({"query": "x"}, verb=other, path=path, headers=BASIC)
    assert (reply.status, reply.headers["allow"]) == (405, verb)


@pytest.mark.anyio
async def test_live_answer_has_the_scores_and_parts_that_explain_has(web: Asked, index: Path, invoke: Invoke) -> None:
    text = "my call is flakky, retry it"
    request = (await web.send({"query": text}, path="/inspect/search", headers=BASIC)).message["request"]
    _, out, _ = invoke("search", text, "--explain", "--json", "--db", index)
    explained = json.loads(out)["matches"]
    named = [[one["score"], [[*part.values()] for part in one["parts"]]] for one in explained]
    assert [[one["score"], one["parts"]] for one in request["answers"]] == named
    assert request["read_as"] == {"flakky": "flaky"}
    assert ["flakky", "flaky", "typo"] in [part[:3] for part in request["answers"][0]["parts"]]


async def data_of(web: Asked, path: str = "/inspect/data?asked") -> Any:  # noqa: ANN401 - JSON
    """Return the data, once they are collected."""
    with anyio.fail_after(PATIENCE):
        while (reply := await web.send(b"", verb="GET", path=path, headers=BASIC)).status == 202:
            await anyio.sleep(0.05)
    assert (reply.status, reply.headers["content-encoding"]) == (200, "gzip")
    return unpack(reply.body)


@pytest.mark.anyio
async def test_data_are_those_that_the_command_writes(web: Asked, index: Path, tmp_path: Path, invoke: Invoke) -> None:
    invoke("inspect", "--db", index, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (packed,) = re.findall(r'id="data">([^<]*)</script>', page)
    assert await data_of(web) == unpack(base64.b64decode(packed))


@pytest.mark.anyio
async def test_data_come_before_the_library_is_asked_its_own_requests(web: Asked) -> None:
    first = await data_of(web, "/inspect/data")
    assert (first["is_asked"], first["requests"], len(first["fragments"])) == (False, [], 22)
    assert len((await data_of(web))["requests"]) > 20


@pytest.mark.anyio
async def test_data_are_collected_once_for_a_generation_and_again_for_the_next(
    web: Asked, index: Path, newer: Path, started: list[asyncio.subprocess.Process]
) -> None:
    one = await data_of(web)
    assert await data_of(web) == one
    assert len(started) == 1
    shutil.copy(newer, index.with_suffix(".new"))
    index.with_suffix(".new").replace(index)
    other = await data_of(web)
    assert len(started) == 2
    assert [len(data["fragments"]) for data in (one, other)] == [22, 23]
    assert one["library"]["generation"] != other["library"]["generation"]
    live = (await web.send({"query": "retry"}, path="/inspect/search", headers=BASIC)).message
    assert live["generation"] == other["library"]["generation"]


@pytest.mark.anyio
async def test_data_that_cannot_be_collected_are_a_sentence_and_tried_again(
    web: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with anyio.fail_after(PATIENCE):
            while (reply := await web.send(b"", verb="GET", path="/inspect/data", headers=BASIC)).status == 202:
                await anyio.sleep(0.01)
    assert (reply.status, b"see the server's log" in reply.body, b"/" in reply.body) == (503, True, False)
    assert (await data_of(web))["is_asked"]


@pytest.mark.anyio
@pytest.mark.parametrize("ask", [("GET", "/inspect/data"), ("POST", "/inspect/search")])
async def test_missing_index_is_a_sentence_without_its_path(web: Asked, index: Path, ask: tuple[str, str]) -> None:
    index.unlink()
    verb, path = ask
    reply = await web.send({"query": "retry"}, verb=verb, path=path, headers=BASIC)
    assert (reply.status, reply.body.startswith(b"There is no library to answer from")) == (503, True)
    assert str(index.parent).encode() not in reply.body


def test_process_that_collects_lets_others_run_first_and_says_what_is_wrong(index: Path) -> None:
    code = "import os, sys; from orchestr8_sqlite.inspection.__main__ import main; from pathlib import Path; "
    code += "main(Path(sys.argv[1])); print(os.nice(0), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, str(index)], capture_output=True, check=True)
    assert done.stderr.strip() == b"19"
    failed = subprocess.run(
        [sys.executable, "-m", "orchestr8_sqlite.inspection", f"{index}x"], capture_output=True, check=False
    )
    assert (failed.returncode, failed.stdout, failed.stderr.count(b"\n")) == (1, b"", 1)


@needs_proc
@pytest.mark.anyio
@pytest.mark.parametrize("steps", range(8))
async def test_collecting_that_ends_at_once_leaves_no_process(index: Path, steps: int) -> None:
    collector = Collector(index)
    assert collector.of("this one") is None
    for _ in range(steps):
        await asyncio.sleep(0)
    assert collector.of("the next one") is None
    for _ in range(steps):
        await asyncio.sleep(0)
    await collector.close()
    assert processes(index) == []


@pytest.mark.anyio
@pytest.mark.parametrize("steps", range(4))
async def test_process_that_has_collected_all_has_ended_when_the_server_has(
    index: Path, steps: int, started: list[asyncio.subprocess.Process]
) -> None:
    with Catalog.open(index) as catalog:
        generation = catalog.generation
    collector = Collector(index)
    with anyio.fail_after(PATIENCE):
        while (collected := collector.of(generation)) is None or not collected.is_asked:
            await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    await collector.close()
    assert [process.returncode is None for process in started] == [False]


@pytest.mark.slow
@needs_proc
def test_server_that_ends_leaves_no_process_that_collects(tmp_path: Path) -> None:
    index = Path(shutil.copy(bundled_index(), tmp_path / "index.db"))
    with web_server("--db", index) as server:
        assert len(processes(index)) == 1
        assert server.send("GET", "/inspect/data").status == 202
        until = time.monotonic() + PATIENCE
        while len(processes(index)) == 1 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(processes(index)) > 1
        assert server.end() == 0
        assert processes(index) == []


def test_served_page_may_ask_its_own_server_and_nothing_else() -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', render_served_page())
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert (rules["default-src"], rules["connect-src"]) == ("'none'", "'self'")
    assert "connect-src" not in render_page({}).partition("<style>")[0]
