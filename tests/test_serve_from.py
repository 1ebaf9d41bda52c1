"""A server that pulls its index: it begins with what it has, follows its source, and says how old that is."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from file_servers import Answer, FileServer, Request, file_server
from listening import HANDSHAKE, MODERN, Listener
from minisign import KeyPair
from releases import index_of, ship, version_of
from replacing import RESOURCES, UPDATED
from support import Invoke
from web_servers import web_server

from orchestr8_sqlite.errors import BuildError, SettingsError
from orchestr8_sqlite.server.supply import pull_process
from orchestr8_sqlite.server.supply.freshness import LIBRARY
from orchestr8_sqlite.server.supply.supply import Supply
from orchestr8_sqlite.settings import ServerSettings, Settings, SourceSettings, index_from, read_server_settings
from orchestr8_sqlite.shipping.signatures import write_keys

VERSION = "orchestr8://skills/version"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[FileServer]:
    with file_server(tmp_path / "store") as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def follow(index: Path, reports: list[dict[str, Any] | str], monkeypatch: pytest.MonkeyPatch) -> Supply:
    """Let pulls report what is given, one after the other; return the supply after them."""
    over = asyncio.Event()
    left = iter(reports)

    async def run_command(_: Path, *arguments: str) -> dict[str, Any]:
        assert arguments[:2] == ("pull", "https://host/x")
        report = next(left, None)
        if report is None:
            over.set()
            await asyncio.Event().wait()
        if isinstance(report, str):
            raise BuildError(report)
        assert report is not None
        return report

    async def tell() -> None:
        """Tell nobody."""

    monkeypatch.setattr(pull_process, "run_command", run_command)
    monkeypatch.setattr(pull_process, "growing_pauses", lambda: iter([0.001] * 9))
    source = SourceSettings("https://host/x", every=0.001)
    supply = Supply(ServerSettings(Settings(index, "info", 10), "text", source=source))

    async def play() -> None:
        async with supply.kept_up(tell):
            await asyncio.wait_for(over.wait(), 20)

    asyncio.run(play())
    return supply


def report(outcome: str, serial: int = 2) -> dict[str, Any]:
    fields = {"channel": "stable", "generation": "0123456789abcdef", "published": "2026-11-24T10:00:00Z"}
    return {"outcome": outcome, "serial": serial, **fields}


def test_log_names_each_release_that_was_pulled_or_held_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestr8_sqlite")
    outcomes = ["current", "pulled", "current", "held", "held"]
    supply = follow(tmp_path / "index.db", [report(one) for one in outcomes], monkeypatch)
    assert [(one.getMessage(), vars(one)["serial"]) for one in caplog.records] == [("pulled", 2), ("held", 2)]
    assert supply.freshness.of(LIBRARY) is None


def test_failed_pulls_are_errors_and_the_library_is_stale_until_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    supply = follow(tmp_path / "index.db", [report("pulled"), "It is down.", "It is down."], monkeypatch)
    stale = supply.freshness.of(LIBRARY)
    assert stale is not None
    assert stale.why == pull_process.FAILED
    errors = [vars(one)["reason"] for one in caplog.records if one.levelname == "ERROR"]
    assert errors == ["It is down."] * 2
    supply = follow(tmp_path / "index.db", ["It is down.", report("current")], monkeypatch)
    assert supply.freshness.of(LIBRARY) is None


def test_requests_wait_for_the_first_pull_only_where_there_is_no_index(tmp_path: Path) -> None:
    source = SourceSettings("https://host/x")
    empty = Supply(ServerSettings(Settings(tmp_path / "none.db", "info", 10), "text", source=source))
    there = Supply(ServerSettings(Settings(index_of(1), "info", 10), "text", source=source))
    assert (empty.first_build.is_set(), there.first_build.is_set()) == (False, True)


def test_each_source_channel_and_key_has_an_index_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")
    monkeypatch.delenv("ORCHESTR8_DB", raising=False)
    sources = [SourceSettings("https://a/x"), SourceSettings("https://b/x"), SourceSettings("https://a/x", "beta")]
    sources.append(SourceSettings("https://a/x", key="RWQ"))
    assert len({index_from(one) for one in sources}) == 4
    assert index_from(SourceSettings("https://a/x/")) == index_from(sources[0])
    assert read_server_settings(source=sources[0]).base.database == index_from(sources[0])
    with pytest.raises(SettingsError, match="not from both"):
        read_server_settings(roots=[tmp_path], source=sources[0])


@pytest.mark.slow
def test_server_goes_back_where_rollback_names_its_source_and_its_clients_are_told(
    source: FileServer, cache: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.chdir(cache)
    options = ("--from", source.url, "--channel", "beta")
    ship(1, source.url, "beta")
    listener = Listener(cache, *options, "--every", "1")
    try:
        listener.logged("pulled", serial=1)
        listener.listen(VERSION)
        ship(2, source.url, "beta")
        assert listener.hear(2) == [RESOURCES, f"{UPDATED} {VERSION}"]
        code, said, _ = invoke("rollback", *options)
        assert (code, said.startswith("back to serial 1 of beta")) == (0, True)
        assert listener.hear(2) == [RESOURCES, f"{UPDATED} {VERSION}"]
        assert "Version 1" in listener.read(VERSION)
        listener.logged("held", serial=2)
        listener.end()
    finally:
        listener.close()


def test_going_back_needs_a_pulled_index_and_one_name_for_it(
    invoke: Invoke, source: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    code, _, said = invoke("rollback", "--from", source.url)
    assert (code, said.startswith("Nothing was pulled to ")) == (1, True)
    assert invoke("rollback")[2].startswith("Nothing was pulled to index.db; ")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert invoke("rollback", "--from", source.url, "-o", "index.db")[0] == 2
    assert invoke("rollback", "--channel", "beta")[0] == 2


def test_a_key_has_one_index_however_it_is_named_and_another_key_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def indexes(*keys: str) -> set[Path]:
        return {index_from(SourceSettings("https://a/x", key=key)) for key in keys}

    monkeypatch.chdir(tmp_path)
    _, file, text = write_keys(tmp_path / "team")
    mine = indexes("team.pub", str(file), f"../{tmp_path.name}/team.pub", text)
    file.unlink()
    (tmp_path / "team.key").unlink()
    write_keys(tmp_path / "team")
    assert (len(mine), len(mine | indexes("team.pub"))) == (1, 2)


def test_channel_without_a_source_is_wrong_usage(invoke: Invoke) -> None:
    code, _, said = invoke("serve", "--channel", "beta")
    assert (code, "need --from SOURCE" in said) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
def test_new_release_is_answered_from_and_announced(source: FileServer, cache: Path, revision: str) -> None:
    ship(1, source.url)
    listener = Listener(cache, "--from", source.url, "--every", "1", revision=revision)
    try:
        listener.logged("pulled", serial=1)
        listener.listen(VERSION)
        assert "Version 1" in listener.read(VERSION)
        ship(2, source.url)
        assert listener.hear(2) == [RESOURCES, f"{UPDATED} {VERSION}"]
        assert "Version 2" in listener.read(VERSION)
        listener.end()
    finally:
        listener.close()


@pytest.mark.slow
def test_server_keeps_what_it_has_while_its_source_is_down_and_says_how_old_that_is(
    source: FileServer, cache: Path
) -> None:
    ship(1, source.url)
    first = Listener(cache, "--from", source.url)
    first.logged("pulled", serial=1)
    first.end()
    first.close()
    source.fault = lambda _: Answer(503)
    listener = Listener(cache, "--from", source.url)
    try:
        listener.listen()
        assert "Version 1" in listener.read(VERSION)
        assert listener.logged("serving what was pulled before")["serial"] == 1
        failed = listener.logged("not pulled", serial=1)
        assert "answered GET with 503" in failed["reason"]
        assert failed["published"] <= failed["checked"]
        source.fault = lambda _: None
        ship(2, source.url)
        listener.logged("pulled", serial=2)
        assert "Version 2" in listener.read(VERSION)
        listener.end()
    finally:
        listener.close()


@pytest.mark.slow
def test_release_that_is_not_signed_is_not_served(source: FileServer, cache: Path, tmp_path: Path) -> None:
    ship(1, source.url)
    key = KeyPair.generate().public_key.to_base64().decode()
    listener = Listener(cache, "--from", source.url, "--require-signature", key)
    try:
        listener.listen()
        assert "is not signed" in listener.logged("not pulled")["reason"]
        answer = listener.answer("resources/read", uri=VERSION)
        assert "Version" not in str(answer)
        listener.end()
    finally:
        listener.close()


@pytest.mark.slow
def test_end_of_the_server_ends_a_pull_that_hangs(source: FileServer, cache: Path) -> None:
    ship(1, source.url)

    def hang(_: Request) -> Answer | None:
        import time

        time.sleep(3)
        return None

    source.fault = hang
    listener = Listener(cache, "--from", source.url)
    try:
        listener.listen()
        assert listener.end() < 2
    finally:
        listener.close()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_server_over_http_follows_its_source_and_its_health_says_when_it_cannot(
    source: FileServer, cache: Path, workers: int
) -> None:
    ship(1, source.url)
    variables = {"XDG_CACHE_HOME": str(cache)}
    options = ("--from", source.url, "--every", "1", "--workers", str(workers))
    with web_server(*options, variables=variables) as server:
        first = server.send("GET", "/healthz").message
        ship(2, source.url)
        server.wait_for("pulled", serial=2)
        second = server.send("GET", "/healthz").message
        source.fault = lambda _: Answer(503)
        server.wait_for("not pulled")
        stale = server.wait_for_health("stale").message
    assert first["generation"] != second["generation"] == stale["generation"]
    assert second["status"] == "ok"
    assert stale["stale"][0]["why"] == pull_process.FAILED


def test_doctor_says_where_an_index_was_pulled_from_and_how_old_it_is(
    invoke: Invoke, source: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestr8_sqlite.doctor.index import check_source

    monkeypatch.chdir(tmp_path)
    index = tmp_path / "index.db"
    assert list(check_source(index)) == []
    ship(1, source.url)
    assert invoke("pull", source.url)[0] == 0
    (check,) = check_source(index)
    assert check.finding == f"serial 1 of stable from {source.url}, published just now, asked for a newer one just now"
    monkeypatch.setattr("time.time", lambda: 4e9)
    (check,) = check_source(index)
    assert "days ago, asked for a newer one" in check.finding
    index.write_bytes(index_of(2).read_bytes())
    (check,) = check_source(index)
    assert check.finding == "the index in use is none that was pulled"
    assert version_of(index) == 2
