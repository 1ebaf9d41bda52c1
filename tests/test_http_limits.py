"""What one client can take of a server over HTTP: requests a second, time for a request, and bytes."""

import asyncio
import hmac
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import anyio
import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from support import Invoke

from orchestr8_sqlite.server.http import patience
from orchestr8_sqlite.server.http.access import RATE, Names, read_access
from orchestr8_sqlite.server.http.patience import PatientProtocol, Seldom
from orchestr8_sqlite.server.http.rate import BURST_SECONDS, MOST_CLIENTS, Rate
from orchestr8_sqlite.server.http.web import Gate

pytestmark = pytest.mark.usefixtures("quiet_log")
NEIGHBOUR = "192.0.2.7"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
NAMES = Names((), read_access("127.0.0.1:0", hosts=["a"]))
"""The server of these tests is called `a`."""


@pytest.fixture
def quiet_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings of the test before, which would keep out those of the next second."""
    monkeypatch.setattr(patience, "seldom", Seldom())


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_client_may_send_a_burst_and_then_so_many_a_second() -> None:
    clock = Clock()
    rate = Rate(10, clock)
    assert [rate.wait(NEIGHBOUR) for _ in range(10 * BURST_SECONDS)] == [0] * 10 * BURST_SECONDS
    assert rate.wait(NEIGHBOUR) == pytest.approx(0.1)
    for _ in range(20):
        clock.now += 0.1001
        assert rate.wait(NEIGHBOUR) == 0
        assert rate.wait(NEIGHBOUR) > 0


def test_requests_that_are_refused_do_not_make_the_wait_longer() -> None:
    clock = Clock()
    rate = Rate(1, clock)
    while not rate.wait(NEIGHBOUR):
        pass
    for _ in range(100):
        rate.wait(NEIGHBOUR)
    clock.now += 1.001
    assert rate.wait(NEIGHBOUR) == 0


def test_clients_do_not_count_for_each_other_unless_one_may_have_both_addresses() -> None:
    rate = Rate(0.2, Clock())
    assert rate.wait(NEIGHBOUR) == 0
    assert rate.wait("192.0.2.8") == 0
    assert rate.wait(f"::ffff:{NEIGHBOUR}") > 0
    assert rate.wait("2001:db8:0:1::1") == 0
    assert rate.wait("2001:db8:0:1:ffff::2") > 0
    assert rate.wait("2001:db8:0:2::1") == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_not_limited(address: str) -> None:
    rate = Rate(0.2, Clock())
    assert [rate.wait(address) for _ in range(100)] == [0] * 100


def test_addresses_without_number_take_bounded_memory() -> None:
    rate = Rate(1, Clock())
    for number in range(3 * MOST_CLIENTS):
        rate.wait(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(rate._buckets) == MOST_CLIENTS


def asked(gate: Gate, *, address: str = NEIGHBOUR, path: str = "/mcp", token: str = "", body: bytes = PING) -> Message:
    """Return the first message that answers a POST from *address*."""
    headers = [(b"host", b"a"), *([(b"authorization", f"Bearer {token}".encode())] if token else [])]
    scope = {"type": "http", "path": path, "method": "POST", "headers": headers, "client": (address, 1)}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    anyio.run(gate, scope, receive, send)
    return sent[0]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 to a request whose body is the one that was sent."""
    message = await receive() if scope["path"] == "/mcp" else {"body": PING}
    assert message["body"] == PING
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize("path", ["/mcp", "/healthz", "/elsewhere"])
def test_too_many_requests_are_answered_with_429_and_when_to_come_back(path: str) -> None:
    gate = Gate(answer, NAMES, None, Rate(0.2, Clock()))
    assert asked(gate, path=path)["status"] in (200, 404)
    refused = asked(gate, path=path)
    assert refused["status"] == 429
    assert dict(refused["headers"])[b"retry-after"] == b"5"
    assert asked(gate, address="127.0.0.1")["status"] == 200


def test_wrong_tokens_count_so_that_they_cannot_be_tried_out() -> None:
    gate = Gate(answer, NAMES, "the-right-token-0123", Rate(0.2, Clock()))
    assert asked(gate, token="wrong")["status"] == 401
    assert asked(gate, token="the-right-token-0123")["status"] == 429


def test_only_a_comparison_in_constant_time_lets_a_token_through(monkeypatch: pytest.MonkeyPatch) -> None:
    token = "the-right-token-0123"
    assert asked(Gate(answer, NAMES, token), token=token)["status"] == 200
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: False)
    assert asked(Gate(answer, NAMES, token), token=token)["status"] == 401


def test_the_rate_is_20_unless_told_otherwise() -> None:
    assert read_access("127.0.0.1:0").rate == RATE == 20
    assert read_access("127.0.0.1:0", rate=0).rate == 0


def test_the_rate_needs_an_address(invoke: Invoke) -> None:
    code, _, err = invoke("serve", "--rate", "5")
    assert code == 2
    assert "--http" in err


# Slow ones


LARGE = 8 << 20
"""Bytes of a large answer: more than the system keeps for a connection."""


async def large_answer(_: Scope, __: Receive, send: Send) -> None:
    """Answer with LARGE bytes, whatever is asked."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * LARGE})


@contextmanager
def patient_server(app: ASGIApp | None = None) -> Iterator[tuple[str, int]]:
    """Yield the address of a server of uvicorn with the protocol: for *app*, or what stands behind the gate."""
    config = uvicorn.Config(
        app or Gate(answer, NAMES, None), http=PatientProtocol, log_config=None, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:
            server.should_exit = True
            thread.join()


def ended(connection: socket.socket, within: float) -> bytes:
    """Return what comes until the server ends the connection, which it does *within* so many seconds."""
    connection.settimeout(within)
    came = b""
    try:
        while chunk := connection.recv(1 << 16):
            came += chunk
    except ConnectionResetError:
        pass
    return came


@pytest.mark.parametrize(
    "begun", [b"", b"POST /mcp HTTP/1.1\r\nHost: a\r\n", b"POST /mcp HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 5000]
)
def test_a_connection_whose_request_does_not_get_going_is_ended(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.2)
    with patient_server() as address, socket.create_connection(address) as connection:
        connection.sendall(begun)
        assert ended(connection, 5) == b""


def test_a_head_that_drips_is_not_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.4)
    with patient_server() as address, socket.create_connection(address) as connection:
        started = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - started < 4:
                connection.sendall(b"X")
                time.sleep(0.05)
        assert time.monotonic() - started < 4


def test_a_client_has_so_many_connections_and_others_are_let_in_still(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "MOST_OF_A_CLIENT", 2)
    monkeypatch.setattr(patience, "client_of", lambda _: NEIGHBOUR)
    request = b"POST /mcp HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(PING), PING)
    with (
        patient_server() as address,
        socket.create_connection(address),
        socket.create_connection(address) as second,
    ):
        with socket.create_connection(address) as third:
            assert ended(third, 5).startswith(b"HTTP/1.1 503 ")
        assert [record.getMessage() for record in caplog.records] == ["too many connections of one client"]
        monkeypatch.setattr(patience, "client_of", lambda _: None)  # this machine, another one alike
        with socket.create_connection(address) as other:
            other.sendall(request)
            assert ended(other, 5).startswith(b"HTTP/1.1 200 ")
        second.sendall(request)
        assert ended(second, 5).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(patience, "client_of", lambda _: NEIGHBOUR)
        with socket.create_connection(address) as again:
            again.sendall(request)
            assert ended(again, 5).startswith(b"HTTP/1.1 200 ")


def test_a_process_has_so_many_connections_and_refuses_others_with_few_lines_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PatientProtocol, "most", 2)
    with patient_server() as address, ExitStack() as open_ones:
        for _ in range(2):
            open_ones.enter_context(socket.create_connection(address))
        for _ in range(20):
            with socket.create_connection(address) as another:
                assert ended(another, 5).startswith(b"HTTP/1.1 503 ")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "too many connections"
    assert len(said) <= 3


@pytest.mark.parametrize(("seconds", "most"), [(1.5, 64 << 20), (60.0, 8 << 20)])
def test_a_client_that_does_not_read_its_answer_is_ended_and_others_are_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float, most: int
) -> None:
    """By the time that it takes nothing, or by the bytes that wait for it and others."""
    monkeypatch.setattr(patience, "UNREAD_SECONDS", seconds)
    monkeypatch.setattr(patience, "MOST_UNREAD", most)
    request = b"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    with patient_server(large_answer) as address, ExitStack() as open_ones:
        for _ in range(3):
            deaf = open_ones.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(address)
            deaf.sendall(request)
        until = time.monotonic() + 5
        while "answer not read" not in [record.getMessage() for record in caplog.records]:
            assert time.monotonic() < until
            time.sleep(0.02)
        with socket.create_connection(address) as reader:
            reader.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert len(ended(reader, 5)) > LARGE


def test_a_client_that_reads_slowly_gets_its_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "UNREAD_SECONDS", 0.3)
    with patient_server(large_answer) as address, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        slow.connect(address)
        slow.sendall(b"POST /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        slow.settimeout(5)
        came = 0
        while chunk := slow.recv(1 << 18):
            came += len(chunk)
            time.sleep(0.02)
        assert came > LARGE


def test_a_body_that_does_not_come_is_answered_with_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BODY_SECONDS", 0.2)
    with patient_server() as address, socket.create_connection(address) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx")
        assert ended(connection, 5).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_thinks_between_requests_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.2)
    request = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(PING), PING)
    with patient_server() as address, socket.create_connection(address) as connection:
        connection.settimeout(5)
        for _ in range(2):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):  # it may come in parts
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.5)
        connection.sendall(b"POST")
        assert b"200" not in ended(connection, 5)


def test_warnings_come_seldom_and_count_those_left_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    seldom = Seldom(clock)
    for _ in range(100):
        seldom.warn("too many", client="a")
    clock.now += 1.001
    seldom.warn("too many", client="b")
    assert [vars(record).get("left_out") for record in caplog.records] == [None, 99]


def test_connections_are_fewer_where_descriptors_are() -> None:
    count = "from orchestr8_sqlite.server.http.patience import most_connections; print(most_connections())"
    for limit, most in ((4096, 1000), (256, 128), (100, 50)):
        limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); {count}"
        done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
        assert int(done.stdout) == most
