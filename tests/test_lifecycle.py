"""How the server ends: with code 0, soon, and after what it was asked has been answered."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from servers import INITIALIZE, INITIALIZED, META, command, greet, lines, receive, release, request, search, send, start
from support import build, markdown, write_files

from orchestr8_sqlite.server.stdio import parent as parent_module
from orchestr8_sqlite.server.stdio.descriptors import Descriptors
from orchestr8_sqlite.server.stdio.parent import watch_parent
from orchestr8_sqlite.server.stdio.stdio import MOST_IN_FLIGHT, stdio_streams

fcntl = pytest.importorskip("fcntl", reason="pipes are asked what waits on POSIX only")
termios = pytest.importorskip("termios", reason="pipes are asked what waits on POSIX only")

SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"]
SOON = 1.0
"""Seconds. Half a second is what is promised; the machine that runs the tests may be busy."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lifecycle")
    files = {"skills/retry.md": markdown("useWhen:\n  - Retrying a flaky call")}
    return build(write_files(folder / "library", files), folder / "index.db")


@pytest.fixture
def server(index: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start(index)
    yield process
    release(process)


def assert_ends_well(process: subprocess.Popen[bytes], *, within: float = SOON) -> None:
    started = time.monotonic()
    assert process.wait(timeout=10) == 0
    assert time.monotonic() - started < within
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_signals_upon_signals_change_nothing(server: subprocess.Popen[bytes]) -> None:
    greet(server)
    while server.poll() is None:
        server.terminate()
        time.sleep(0.001)
    assert_ends_well(server)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_signal_ends_a_server_that_is_idle(server: subprocess.Popen[bytes], name: str) -> None:
    greet(server)
    server.send_signal(getattr(signal, name))
    assert_ends_well(server)


@pytest.mark.parametrize("name", SIGNALS)
def test_signal_ends_a_server_that_still_imports_the_sdk(index: Path, name: str) -> None:
    python, *arguments = command(index)
    pipe = subprocess.PIPE
    process = subprocess.Popen([python, "-X", "importtime", *arguments], stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stderr is not None
    while b"pydantic" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(getattr(signal, name))
    assert_ends_well(process)
    assert process.stdout is not None
    assert process.stdout.read() == b""
    release(process)


def test_signal_that_is_ignored_from_the_start_stays_ignored(index: Path) -> None:
    """As under nohup, whose user wants the server to outlive the terminal."""
    code = "import os, signal, sys\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])\n"
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code, *command(index)], stdin=pipe, stdout=pipe, stderr=pipe)
    greet(process)
    process.send_signal(signal.SIGHUP)
    send(process, request(1, "ping"))
    assert receive(process)["id"] == 1
    process.terminate()
    assert_ends_well(process)
    release(process)


@pytest.mark.slow
def test_signal_waits_for_the_answer_to_what_was_read(server: subprocess.Popen[bytes]) -> None:
    send(server, request(1, "tools/list"))
    wait_until_read(server)
    server.send_signal(signal.SIGTERM)
    assert receive(server)["id"] == 1
    assert_ends_well(server)


def wait_until_read(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has taken all that was sent."""
    assert process.stdin is not None
    deadline = time.monotonic() + 10
    while any(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.slow
def test_end_of_input_ends_a_server_that_is_idle(server: subprocess.Popen[bytes]) -> None:
    greet(server)
    assert server.stdin is not None
    server.stdin.close()
    assert_ends_well(server)


def test_end_of_input_behind_the_handshake_ends_the_server(server: subprocess.Popen[bytes]) -> None:
    send(server, INITIALIZE)
    assert receive(server)["id"] == 0
    assert server.stdin is not None
    server.stdin.close()
    assert_ends_well(server)


def test_input_without_a_byte_ends_the_server_with_code_0(index: Path) -> None:
    done = subprocess.run(command(index), input=b"", capture_output=True, timeout=10, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_empty_device_as_input_ends_the_server_with_code_0(index: Path) -> None:
    done = subprocess.run(command(index), stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_client_that_closes_its_reading_end_ends_the_server(server: subprocess.Popen[bytes]) -> None:
    greet(server)
    assert server.stdout is not None
    server.stdout.close()
    assert_ends_well(server)


STARTS_AND_LEAVES = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL)
sys.stderr.write(str(server.pid) + "\\n")
sys.stderr.flush()
sys.stderr.close()
server.wait()
"""


@pytest.mark.slow
def test_server_ends_when_its_parent_vanishes_though_its_input_stays_open(index: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_LEAVES, *command(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    greet(parent)
    parent.kill()
    parent.wait()
    started = time.monotonic()
    assert parent.stdout is not None
    assert select.select([parent.stdout], [], [], 10)[0]
    assert parent.stdout.read() == b""  # nobody holds the writing end any more
    assert time.monotonic() - started < SOON
    release(parent)


def test_vanished_parent_is_noticed_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([77, 77, 77, 1])
    monkeypatch.setattr(parent_module, "open_process", lambda _: None)
    monkeypatch.setattr(os, "getppid", lambda: next(parents))

    async def scenario() -> None:
        vanished = asyncio.Event()
        watch_parent(77, vanished.set)
        await asyncio.wait_for(vanished.wait(), 5)

    asyncio.run(scenario())


def test_parent_that_vanished_during_the_start_is_noticed() -> None:
    async def scenario() -> None:
        vanished = asyncio.Event()
        watch_parent(os.getppid() + 1, vanished.set)
        await asyncio.wait_for(vanished.wait(), 5)

    asyncio.run(scenario())


PRINTS = """
import ctypes, os, sys
import orchestr8_sqlite.service.service as service
find = service.find
def find_and_chatter(*arguments, **options):
    print("stray print", flush=True)
    os.write(1, b"stray write\\n")
    ctypes.CDLL(None).puts(b"stray puts")
    ctypes.CDLL(None).fflush(None)
    assert sys.stdin.read() == ""
    return find(*arguments, **options)
service.find = find_and_chatter
from orchestr8_sqlite.cli import main
main()
"""


@pytest.mark.slow
def test_stray_prints_of_python_and_of_c_never_reach_the_client(index: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS, "serve", "--db", str(index)],
        input=lines(INITIALIZE, INITIALIZED, search(1, "retry")),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1]
    assert all(b"stray " + kind in done.stderr for kind in (b"print", b"write", b"puts"))


@pytest.mark.slow
def test_memory_stays_bounded_while_64_mib_arrive_in_one_line(server: subprocess.Popen[bytes]) -> None:
    greet(server)
    before = peak_memory(server)
    send(server, b"x" * (64 << 20))
    assert "4,194,304 bytes" in receive(server)["error"]["message"]
    assert peak_memory(server) - before < 16 << 20


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    """Return the bytes that *process* has held at most."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.is_file():
        pytest.skip("needs /proc")
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.slow
def test_socket_that_is_input_and_output_at_once_is_served(index: Path) -> None:
    here, there = socket.socketpair()
    with here, there:
        process = subprocess.Popen(command(index), stdin=there.fileno(), stdout=there.fileno(), stderr=subprocess.PIPE)
        with here.makefile("rwb") as client:
            for number in range(1, 4):
                client.write(lines(request(number, "tools/call", name="search", arguments={"query": "retry"})))
                client.flush()
                assert json.loads(client.readline())["id"] == number
            here.shutdown(socket.SHUT_WR)
            assert_ends_well(process)
        release(process)


class Wire:
    """The two ends of a connection to a server in this process."""

    def __init__(self) -> None:
        self.here, self._there = socket.socketpair()
        self.here.settimeout(5)
        self.stop = asyncio.Event()
        self.all_answered: bool | None = None

    @property
    def _descriptors(self) -> Descriptors:
        return Descriptors(self._there.fileno(), self._there.fileno())

    async def serve(self, server: Server[dict[str, Any]], at_end: Callable[[], None] = lambda: None) -> None:
        async with stdio_streams(self._descriptors, self.stop, at_end=at_end) as streams:
            await server.run(*streams, server.create_initialization_options())
        self.all_answered = streams[0].all_answered

    def answers(self) -> list[dict[str, Any]]:
        """Return what arrived until the server closed its end, which it leaves to us."""
        self._there.close()
        with self.here.makefile("rb") as client:
            return [json.loads(line) for line in client]

    def close(self) -> None:
        self.here.close()
        self._there.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


def test_open_subscription_is_closed_with_its_result_at_end_of_input(wire: Wire) -> None:
    listen = ListenHandler(InMemorySubscriptionBus())
    server = Server[dict[str, Any]]("test", on_subscriptions_listen=listen)
    wire.here.sendall(lines(request(7, "subscriptions/listen", _meta=META, notifications={"promptsListChanged": True})))
    wire.here.shutdown(socket.SHUT_WR)
    asyncio.run(asyncio.wait_for(wire.serve(server, at_end=listen.close), 2))
    acknowledgement, result = wire.answers()
    assert acknowledgement["method"] == "notifications/subscriptions/acknowledged"
    assert (result["id"], "result" in result) == (7, True)
    assert wire.all_answered is True


async def take_forever(*_: object) -> types.ListToolsResult:
    await asyncio.Event().wait()
    raise AssertionError


def test_request_that_takes_too_long_is_answered_with_an_error_when_the_server_must_stop(wire: Wire) -> None:
    server = Server[dict[str, Any]]("test", on_list_tools=take_forever)
    wire.here.sendall(lines(request(1, "tools/list", _meta=META), request(2, "server/discover", _meta=META)))

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        serving = loop.create_task(wire.serve(server))
        assert json.loads(await asyncio.to_thread(wire.here.recv, 1 << 16))["id"] == 2
        wire.stop.set()
        started = loop.time()
        await serving
        return loop.time() - started

    assert asyncio.run(scenario()) < SOON
    assert [(answer["id"], answer["error"]["message"]) for answer in wire.answers()] == [(1, "Connection closed")]
    assert wire.all_answered is False


def test_requests_of_one_id_are_each_answered_and_a_cancelled_one_holds_nothing_up(wire: Wire) -> None:
    server = Server[dict[str, Any]]("test", on_list_tools=take_forever)
    discover = request(1, "server/discover", _meta=META)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    wire.here.sendall(lines(discover, discover, request(2, "tools/list", _meta=META), cancel, cancel))
    wire.here.shutdown(socket.SHUT_WR)
    asyncio.run(asyncio.wait_for(wire.serve(server), 2))
    assert [answer["id"] for answer in wire.answers()] == [1, 1]
    assert wire.all_answered is True


def test_requests_beyond_a_thousand_under_way_are_held_back(wire: Wire) -> None:
    begun = 0

    async def count(*_: object) -> types.ListToolsResult:
        nonlocal begun
        begun += 1
        return await take_forever()

    wire.here.sendall(lines(*(request(number, "tools/list", _meta=META) for number in range(MOST_IN_FLIGHT + 9))))

    async def scenario() -> None:
        serving = asyncio.create_task(wire.serve(Server[dict[str, Any]]("test", on_list_tools=count)))
        while begun < MOST_IN_FLIGHT:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == MOST_IN_FLIGHT
        wire.stop.set()
        await serving

    asyncio.run(scenario())


def test_client_that_does_not_read_cannot_keep_the_server(wire: Wire) -> None:
    async def give_much(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="x" * 1_000_000, input_schema={"type": "object"})])

    wire.here.sendall(lines(*(request(number, "tools/list", _meta=META) for number in range(5))))

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        serving = loop.create_task(wire.serve(Server[dict[str, Any]]("test", on_list_tools=give_much)))
        await asyncio.to_thread(wire.here.recv, 1)
        wire.stop.set()
        started = loop.time()
        await serving
        return loop.time() - started

    assert asyncio.run(scenario()) < SOON


@pytest.mark.slow
def test_server_that_outlives_its_client_says_so_in_no_traceback(wire: Wire, capfd: pytest.CaptureFixture[str]) -> None:
    server = Server[dict[str, Any]]("test", on_list_tools=take_forever)
    wire.here.sendall(lines(request(1, "tools/list", _meta=META)))
    wire.here.close()
    asyncio.run(asyncio.wait_for(wire.serve(server), 7))
    assert capfd.readouterr().err == ""


def test_descriptors_are_what_they_were_once_the_server_has_ended() -> None:
    code = (
        "import os\n"
        "from orchestr8_sqlite.server.stdio.descriptors import private_descriptors\n"
        "before = [os.fstat(number).st_ino for number in (0, 1)]\n"
        "with private_descriptors() as private:\n"
        "    assert [os.fstat(number).st_ino for number in private] == before\n"
        "    assert not any(os.get_inheritable(number) for number in private)\n"
        "    print('stray')\n"
        "assert [os.fstat(number).st_ino for number in (0, 1)] == before\n"
        "os.write(1, b'said')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"said", b"stray\n")
