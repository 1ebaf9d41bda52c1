"""Who may reach the server over HTTP: what is refused before it starts, and which names and origins it goes by."""

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from support import Invoke

from orchestr8_sqlite.errors import ServeError, SettingsError
from orchestr8_sqlite.server.http.access import Access, Names, bind, own_names, read_access
from orchestr8_sqlite.settings import read_http_token

TOKEN = "correct-horse-battery-staple"
NO_TOKEN = "An HTTP token is 16 or more letters, digits or any of - . _ ~ + /; make one with: openssl rand -hex 32"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ORCHESTR8_HTTP_TOKEN", "ORCHESTR8_HTTP_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("127.0.0.1:8765", "127.0.0.1", 8765), ("localhost:0", "localhost", 0), ("[::1]:65535", "::1", 65_535)],
)
def test_an_address_is_a_host_and_a_port(address: str, host: str, port: int) -> None:
    access = read_access(address)
    assert (access.host, access.port) == (host, port)


@pytest.mark.parametrize(
    "address", ["8765", "localhost", ":8765", "::1:8765", "localhost:65536", "localhost:-1", "a:b"]
)
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(SettingsError, match=r"127\.0\.0\.1:8765"):
        read_access(address)


@pytest.mark.parametrize("name", ["", "*", "a b", "http://a", "a/b"])
def test_what_is_no_host_cannot_be_allowed(name: str) -> None:
    with pytest.raises(SettingsError, match="is not a host name"):
        read_access("localhost:0", hosts=[name])


@pytest.mark.parametrize("origin", ["tools.example.org", "*", "null", "https://a.example/page", "file://a"])
def test_what_is_no_origin_cannot_be_allowed(origin: str) -> None:
    with pytest.raises(SettingsError, match="is not an origin"):
        read_access("localhost:0", origins=[origin])


@pytest.fixture
def names() -> Iterator[tuple[Names, int]]:
    """Return the names of a server on loopback with further ones, and its port."""
    access = read_access("127.0.0.1:0", hosts=["library.example.org"], origins=["https://tools.example.org"])
    with bind(access) as listener:
        yield Names(own_names(access, listener), access), listener.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "bound", "names"),
    [
        ("127.0.0.5:80", ("127.0.0.5", 80), {"127.0.0.5:80", "127.0.0.1:80", "localhost:80", "[::1]:80"}),
        ("[::1]:80", ("::1", 80, 0, 0), {"127.0.0.1:80", "localhost:80", "[::1]:80"}),
        ("[2001:db8::1]:80", ("2001:db8::1", 80, 0, 0), {"[2001:db8::1]:80"}),
        ("library.example.org:0", ("192.0.2.1", 80), {"library.example.org:80"}),
        ("[::]:80", ("::", 80, 0, 0), {"127.0.0.1:80", "localhost:80", "[::1]:80"}),
    ],
)
def test_a_server_goes_by_its_own_name_and_by_those_of_loopback_only_where_it_is_there(
    address: str, bound: tuple[object, ...], names: set[str]
) -> None:
    listener = cast("socket.socket", SimpleNamespace(getsockname=lambda: bound))
    assert set(own_names(read_access(address), listener)) == names


def test_a_rate_is_that_of_the_command_line() -> None:
    assert read_access("localhost:0", rate=5).rate == 5
    assert read_access("localhost:0").rate == 20


def test_an_address_is_looked_up_for_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a system may answer with another kind of socket first."""

    def look_up(host: str, port: int, *, type: int = 0) -> list[tuple[object, ...]]:  # noqa: A002
        kind = type or socket.SOCK_DGRAM
        return [(socket.AF_INET, kind, 0, "", (host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with bind(read_access("127.0.0.1:0")) as listener:
        assert listener.type == socket.SOCK_STREAM


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:PORT", True),
        ("localhost:PORT", True),
        ("[::1]:PORT", True),
        ("library.example.org", True),
        ("library.example.org:8443", True),
        ("127.0.0.1", False),
        ("127.0.0.1:1", False),
        ("library.example.org:", False),
        ("library.example.org:8443.evil.example", False),
        ("library.example.org.evil.example", False),
        ("evil.example:PORT", False),
        ("", False),
    ],
)
def test_a_server_on_loopback_goes_by_the_names_of_loopback_and_by_those_it_is_given(
    names: tuple[Names, int], host: str, *, known: bool
) -> None:
    own, port = names
    assert own.knows_host(host.replace("PORT", str(port)), ("127.0.0.1", port)) is known


@pytest.mark.parametrize(
    ("origin", "known"),
    [
        ("http://127.0.0.1:PORT", True),
        ("http://localhost:PORT", True),
        ("https://tools.example.org", True),
        ("https://127.0.0.1:PORT", False),
        ("http://library.example.org", False),
        ("https://tools.example.org.evil.example", False),
        ("null", False),
    ],
)
def test_web_pages_of_the_server_itself_and_of_allowed_origins_may_ask(
    names: tuple[Names, int], origin: str, *, known: bool
) -> None:
    own, port = names
    assert own.knows_origin(origin.replace("PORT", str(port))) is known


@pytest.mark.parametrize(("address", "written"), [("10.0.0.5", "10.0.0.5"), ("2001:db8::5", "[2001:db8::5]")])
def test_a_server_on_every_address_goes_by_the_one_that_a_connection_came_to(address: str, written: str) -> None:
    access = read_access("0.0.0.0:0", token=TOKEN)
    with bind(access) as listener:
        own, port = Names(own_names(access, listener), access), listener.getsockname()[1]
    assert own.knows_host(f"{written}:{port}", (address, port))
    assert not own.knows_host(f"{written}:{port}", ("10.0.0.6", port))
    assert not own.knows_host(f"{written}:{port}", None)
    assert not own.knows_host(f"0.0.0.0:{port}", (address, port))


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_that_others_reach_is_not_listened_on_without_a_token(address: str) -> None:
    with pytest.raises(SettingsError) as refused:
        bind(read_access(address))
    at = address.replace("[", "").replace("]", "")
    assert str(refused.value) == (
        f"Other machines can reach {at}: set ORCHESTR8_HTTP_TOKEN or ORCHESTR8_HTTP_TOKEN_FILE, or listen on 127.0.0.1."
    )


def test_a_name_is_judged_by_the_address_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(SettingsError, match="Other machines"):
        bind(read_access("localhost:0"))


def test_an_address_in_use_is_named_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            ServeError, match=rf"^The server cannot listen on 127\.0\.0\.1:{port}: .*; choose another address\.$"
        ):
            bind(read_access(f"127.0.0.1:{port}"))


def test_small_answers_are_not_held_back() -> None:
    """asyncio turns off that delay for sockets that say to be of TCP."""
    with bind(read_access("127.0.0.1:0")) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_the_token_comes_from_the_environment_or_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert read_http_token() is None
    monkeypatch.setenv("ORCHESTR8_HTTP_TOKEN", TOKEN)
    assert read_http_token() == TOKEN
    (tmp_path / "token").write_text("from-the-file-0123\n")
    monkeypatch.setenv("ORCHESTR8_HTTP_TOKEN_FILE", "token")
    with pytest.raises(SettingsError, match=r"^Set ORCHESTR8_HTTP_TOKEN or ORCHESTR8_HTTP_TOKEN_FILE, not both\.$"):
        read_http_token()
    monkeypatch.delenv("ORCHESTR8_HTTP_TOKEN")
    assert read_http_token() == "from-the-file-0123"


@pytest.mark.parametrize("token", ["", "tooshort", "sixteen letters!", "naïve-naïve-naïve"])
def test_a_token_that_is_short_or_cannot_be_sent_is_refused_without_being_shown(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTR8_HTTP_TOKEN", token)
    with pytest.raises(SettingsError) as refused:
        read_http_token()
    assert str(refused.value) == NO_TOKEN


def test_a_file_that_holds_no_text_is_refused_as_any_other_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe" * 20)
    monkeypatch.setenv("ORCHESTR8_HTTP_TOKEN_FILE", "token")
    with pytest.raises(SettingsError) as refused:
        read_http_token()
    assert str(refused.value) == NO_TOKEN


def test_a_missing_token_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTR8_HTTP_TOKEN_FILE", "nowhere")
    with pytest.raises(SettingsError, match="nowhere"):
        read_http_token()


def test_no_text_about_the_access_shows_the_token() -> None:
    assert TOKEN not in repr(Access("127.0.0.1", 0, token=TOKEN))


def test_the_command_refuses_an_open_address_in_one_line(invoke: Invoke) -> None:
    code, out, err = invoke("serve", "--http", "0.0.0.0:0")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "ORCHESTR8_HTTP_TOKEN" in err


@pytest.mark.parametrize("option", [["--workers", "2"], ["--allow-host", "a"], ["--allow-origin", "http://a"]])
def test_options_of_http_need_an_address(invoke: Invoke, option: list[str]) -> None:
    code, _, err = invoke("serve", *option)
    assert code == 2
    assert "--http" in err
