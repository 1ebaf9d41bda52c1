"""Pulling: everything is checked before the index is replaced; nothing older comes without being asked for."""

import hashlib
import shutil
import sqlite3
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from file_servers import DROPPED, Answer, FileServer, Request, file_server
from releases import edit, index_of, replay, ship, version_of
from support import Invoke

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.errors import Orchestr8Error, RefusedRelease, RequestError, ShippingError, SourceError
from orchestr8_sqlite.index.catalog import SCHEMA_MAJOR, Catalog
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.shipping import pull as pulling
from orchestr8_sqlite.shipping import shelf, web
from orchestr8_sqlite.shipping.publish import Order, publish
from orchestr8_sqlite.shipping.pull import Outcome, Wish, pull, roll_back
from orchestr8_sqlite.shipping.shelf import Shelf, read_state
from orchestr8_sqlite.shipping.stores import open_source, open_target
from orchestr8_sqlite.system import is_posix

CHANNEL = "stable.channel.json"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pulling, "RETRIES", (0.0, 0.0))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(store: Path) -> Iterator[FileServer]:
    with file_server(store) as running:
        yield running


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


@pytest.fixture(params=["folder", "server"])
def source(request: pytest.FixtureRequest, store: Path, server: FileServer) -> str:
    return str(store) if request.param == "folder" else server.url


def get(index: Path, source: str | Path, channel: str = "stable", **details: object) -> Outcome:
    """Pull and return what became of it."""
    wish = Wish(index, channel)._replace(**details)  # type: ignore[arg-type]
    return pull(wish, open_source(str(source)), lambda _, __: None)[0]


def refused(index: Path, source: str | Path, why: str, kind: type[Orchestr8Error] = RefusedRelease) -> None:
    """Check that a pull is refused for that reason, and that the index in use is as before."""
    before = index.read_bytes() if index.exists() else None
    with pytest.raises(kind, match=why) as problem:
        get(index, source)
    assert "\n" not in str(problem.value)
    assert (index.read_bytes() if index.exists() else None) == before


def test_newest_release_is_put_in_place_and_the_same_one_is_not_fetched_again(source: str, index: Path) -> None:
    ship(1, source)
    assert (get(index, source), version_of(index)) == (Outcome.PULLED, 1)
    assert get(index, source) == Outcome.CURRENT
    ship(2, source)
    assert (get(index, source), version_of(index)) == (Outcome.PULLED, 2)


def test_index_in_use_is_fetched_once(server: FileServer, index: Path) -> None:
    name = ship(1, server.url).file_name
    server.requests.clear()
    get(index, server.url)
    get(index, server.url)
    assert server.names("GET") == [CHANNEL, name, CHANNEL]


def test_channels_are_followed_apart(source: str, index: Path) -> None:
    ship(1, source)
    ship(2, source, "beta")
    get(index, source, "beta")
    assert version_of(index) == 2
    refused_channel = "has no channel nightly: there is no nightly.channel.json"
    with pytest.raises(SourceError, match=refused_channel):
        get(index, source, "nightly")


def test_download_that_breaks_off_goes_on_where_it_was(server: FileServer, index: Path) -> None:
    release = ship(1, server.url)
    server.requests.clear()
    server.fault = lambda asked: (
        Answer(cut_to=9000) if asked.name == release.file_name and asked.start < 18000 else None
    )
    assert get(index, server.url) == Outcome.PULLED
    assert [one.start for one in server.requests] == [0, 0, 9000, 18000]
    assert version_of(index) == 1


def test_server_that_knows_no_ranges_is_asked_for_the_whole_file_again(store: Path, index: Path) -> None:
    with file_server(store, ranges=False) as plain:
        release = ship(1, plain.url)
        cuts = iter([9000])
        plain.fault = lambda asked: Answer(cut_to=next(cuts, None)) if asked.name == release.file_name else None
        assert (get(index, plain.url), version_of(index)) == (Outcome.PULLED, 1)


def test_a_download_of_an_earlier_pull_is_completed(server: FileServer, index: Path) -> None:
    release = ship(1, server.url)
    server.fault = lambda asked: Answer(cut_to=9000) if asked.name == release.file_name else None
    refused(index, server.url, "broke off", SourceError)
    server.fault = lambda _: None
    server.requests.clear()
    get(index, server.url)
    assert [one.start for one in server.requests] == [0, 27000]
    assert version_of(index) == 1


def test_spoilt_beginning_of_a_download_is_thrown_away_and_fetched_again(source: str, index: Path) -> None:
    release = ship(1, source)
    part = index.with_name("index.db.pulled") / f"{release.sha256}.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * 9000)
    assert (get(index, source), version_of(index)) == (Outcome.PULLED, 1)


@pytest.mark.parametrize("spoil", ["cut", "longer", "changed", "other", "reordered"])
def test_file_that_is_not_the_named_one_never_replaces_the_index(
    source: str, store: Path, index: Path, spoil: str
) -> None:
    ship(1, source)
    get(index, source)
    file = store / ship(2, source).file_name
    whole = file.read_bytes()
    changed = bytearray(whole)
    changed[20_000] ^= 1
    file.write_bytes(
        {
            "cut": whole[:-1],
            "longer": whole + b"x",
            "changed": bytes(changed),
            "other": index_of(3).read_bytes(),
            "reordered": whole[4096:8192] + whole[:4096] + whole[8192:],
        }[spoil]
    )
    why = "ended after|with 416" if spoil == "cut" else "SHA-256|more bytes|has [0-9,]+ bytes"
    refused(index, source, why, SourceError if spoil == "cut" else RefusedRelease)
    assert version_of(index) == 1


def test_older_release_is_refused_unless_it_is_asked_for(source: str, store: Path, index: Path, tmp_path: Path) -> None:
    first = ship(1, source)
    shutil.copytree(store, tmp_path / "earlier")
    ship(2, source)
    get(index, source)
    replay(store, tmp_path / "earlier")
    refused(index, source, "offers serial 1 of stable, older than serial 2, which was here before")
    assert (get(index, source, pin=first.generation), version_of(index)) == (Outcome.PULLED, 1)
    refused(index, source, "older than serial 2")
    assert get(index, source, allow_older=True) == Outcome.CURRENT
    assert get(index, source) == Outcome.CURRENT


def test_two_contents_under_one_serial_are_refused(source: str, store: Path, index: Path) -> None:
    ship(1, source)
    get(index, source)
    for file in store.iterdir():
        file.unlink()
    ship(2, source)
    refused(index, source, "offers serial 1 of stable with other content than before")


def test_restored_state_of_a_killed_pull_still_knows_the_newest_serial(
    source: str, store: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, source)
    get(index, source)
    shutil.copytree(store, tmp_path / "earlier")
    ship(2, source)
    with monkeypatch.context() as broken:
        broken.setattr(Shelf, "_switch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            get(index, source)
    assert version_of(index) == 1
    replay(store, tmp_path / "earlier")
    refused(index, source, "older than serial 2")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"highest": 3}', b'{"highest": {}, "history": [{}]}'])
def test_damaged_state_is_not_taken_for_a_new_one(source: str, index: Path, content: bytes) -> None:
    ship(1, source)
    get(index, source)
    (index.with_name("index.db.pulled") / "state.json").write_bytes(content)
    refused(index, source, "state.json is damaged; remove it", ShippingError)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"channel": "beta"}, "it is of the channel 'beta'"),
        ({"format": 2}, "its format is 2, this program reads 1"),
        ({"serial": 0}, "`serial` is not a number"),
        ({"serial": True}, "`serial` is not a number"),
        ({"size": 1 << 40}, "`size` is not a number"),
        ({"sha256": "../../etc"}, "`sha256` is missing or malformed"),
        ({"earlier": [{}]}, "`serial` is not a number"),
        ({"earlier": 3}, "`earlier` is not a list"),
        (
            {"schema": f"{SCHEMA_MAJOR + 1}.0.0"},
            f"has the schema version {SCHEMA_MAJOR + 1}, this program reads {SCHEMA_MAJOR}; upgrade",
        ),
        ({"schema": f"{SCHEMA_MAJOR - 1}.0.0"}, "build and publish it again"),
        ({"generation": "0123456789abcdef"}, "its channel names 0123456789abcdef"),
        ({"note": "x" * 300_000}, "more than 262,144 bytes"),
    ],
)
def test_channel_that_cannot_be_right_is_refused(
    source: str, store: Path, index: Path, fields: dict[str, object], why: str
) -> None:
    ship(1, source)
    get(index, source)
    ship(2, source)
    edit(store, **fields)
    refused(index, source, why, Orchestr8Error)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[" * 90_000, b'{"serial": 1, "serial": 2}', b"<html>", b"9" * 9999]
)
def test_anything_else_in_place_of_a_channel_is_refused(store: Path, index: Path, content: bytes) -> None:
    (store / CHANNEL).write_bytes(content)
    refused(index, store, "does not say what is in the channel stable")


def test_a_file_that_is_no_index_is_refused_although_its_hash_is_right(
    store: Path, index: Path, tmp_path: Path
) -> None:
    ship(1, store)
    other = tmp_path / "other"
    other.write_bytes(b"SQLite format 3\0" + b"\0" * 5000)
    digest = hashlib.sha256(other.read_bytes()).hexdigest()
    shutil.copy(other, store / f"{digest}.db")
    edit(store, sha256=digest, size=other.stat().st_size)
    refused(index, store, "index that was pulled|not a usable index|checksum")


@pytest.mark.parametrize("status", [500, 403, DROPPED])
def test_source_that_is_down_leaves_the_index_and_is_one_sentence(server: FileServer, index: Path, status: int) -> None:
    ship(1, server.url)
    get(index, server.url)
    server.fault = lambda _: Answer(status)
    refused(index, server.url, "answered GET with|broke off|cannot be reached", SourceError)
    assert version_of(index) == 1


def test_source_that_nobody_listens_at_is_one_sentence(server: FileServer, index: Path) -> None:
    server.close()
    refused(index, server.url, r"cannot be reached: Connection refused\.", SourceError)


def test_redirects_to_another_scheme_are_not_followed(server: FileServer, index: Path) -> None:
    server.fault = lambda _: Answer(302, location="file:///etc/passwd")
    refused(index, server.url, "redirects to another scheme|answered GET with 302", SourceError)
    server.fault = lambda _: Answer(302, location="https://127.0.0.1:9/")
    refused(index, server.url, "redirects to another scheme", SourceError)


def test_token_stays_behind_at_a_redirect(
    server: FileServer, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, server.url)
    monkeypatch.setenv("ORCHESTR8_TOKEN", "secret-of-the-team")
    with file_server(tmp_path / "front") as front:
        monkeypatch.setenv("ORCHESTR8_TOKEN_FOR", front.url)
        front.fault = lambda asked: Answer(302, location=f"{server.url}/{asked.name}")
        server.requests.clear()
        assert get(index, front.url) == Outcome.PULLED
    assert {one.authorization for one in front.requests} == {"Bearer secret-of-the-team"}
    assert {one.authorization for one in server.requests} == {None}


def test_server_that_drips_is_given_up(server: FileServer, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship(1, server.url)
    monkeypatch.setattr(web, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(web, "LEAST_RATE", 1 << 60)
    with pytest.raises(SourceError, match=r"comes too slowly|cannot be reached|broke off"):
        get(index, server.url)


def test_index_that_has_no_room_is_not_begun(
    source: str, store: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, source)
    usage = shutil.disk_usage(store)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5))
    refused(index, source, "bytes more in .*, where 5 are free", ShippingError)


def test_something_else_at_the_place_of_the_index_is_not_replaced(source: str, index: Path) -> None:
    ship(1, source)
    index.write_text("my notes", encoding="utf-8")
    refused(index, source, "is not an orchestr8-sqlite index", ShippingError)


def test_two_pulls_of_one_index_do_not_mix(source: str, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "LOCK_SECONDS", 0.1)
    ship(1, source)
    with Shelf.opened(index):
        refused(index, source, "Another program is pulling", ShippingError)


def test_going_back_waits_for_a_pull_that_is_under_way(source: str, index: Path) -> None:
    for version in (1, 2):
        ship(version, source)
        get(index, source)
    pulling, going_back = threading.Event(), threading.Event()

    def pull_slowly() -> None:
        with Shelf.opened(index):
            pulling.set()
            assert going_back.wait(10)
            time.sleep(0.1)

    thread = threading.Thread(target=pull_slowly)
    thread.start()
    assert pulling.wait(10)
    going_back.set()
    roll_back(index)
    thread.join()
    assert version_of(index) == 1


def test_rollback_goes_back_and_stays_back_until_there_is_a_newer_release(source: str, index: Path) -> None:
    first, _ = ship(1, source), get(index, source)
    second, _ = ship(2, source), get(index, source)
    assert (roll_back(index).release, version_of(index)) == (first, 1)
    assert (get(index, source), version_of(index)) == (Outcome.HELD, 1)
    with pytest.raises(ShippingError, match="no other version to go back to"):
        roll_back(index)
    assert (get(index, source, pin=second.sha256[:12]), version_of(index)) == (Outcome.PULLED, 2)
    assert get(index, source) == Outcome.CURRENT
    roll_back(index)
    ship(3, source)
    assert (get(index, source), version_of(index)) == (Outcome.PULLED, 3)


def test_other_bytes_of_the_same_generation_are_neither_gone_back_to_nor_pulled_again(
    source: str, index: Path, tmp_path: Path
) -> None:
    first, _ = ship(1, source), get(index, source)
    second, _ = ship(2, source), get(index, source)
    shutil.copy(index_of(2), tmp_path / "twin.db")
    with closing(sqlite3.connect(tmp_path / "twin.db")) as db:
        db.execute("VACUUM")
    add_checksum(tmp_path / "twin.db")
    twin = publish(Order(tmp_path / "twin.db", "stable"), open_target(source), open_source(source)).release
    assert (twin.generation, twin.sha256 == second.sha256) == (second.generation, False)
    assert get(index, source) is Outcome.PULLED
    assert roll_back(index).release == first
    ship(2, source)
    assert (get(index, source), version_of(index)) == (Outcome.HELD, 1)


def test_rollback_to_a_chosen_version_needs_no_source(server: FileServer, index: Path) -> None:
    releases = []
    for version in (1, 2, 3):
        releases.append(ship(version, server.url))
        get(index, server.url)
    server.close()
    assert roll_back(index, releases[0].generation).release == releases[0]
    assert version_of(index) == 1
    with pytest.raises(ShippingError, match="no other version"):
        roll_back(index, "0123456789")


def test_kept_version_that_was_damaged_is_not_gone_back_to(source: str, index: Path) -> None:
    first, _ = ship(1, source), get(index, source)
    ship(2, source)
    get(index, source)
    kept = index.with_name("index.db.pulled") / first.file_name
    kept.write_bytes(kept.read_bytes()[:-5] + b"xxxxx")
    with pytest.raises(ShippingError, match="no other version to go back to"):
        roll_back(index)
    assert version_of(index) == 2


def test_only_the_last_versions_are_kept(source: str, index: Path) -> None:
    for version in (1, 2, 3):
        ship(version, source)
        get(index, source, keep=2)
    kept = [version_of(file) for file in index.with_name("index.db.pulled").glob("*.db")]
    assert sorted(filter(None, kept)) == [2, 3]
    assert not list(index.parent.glob(".*tmp*"))


def test_kept_versions_and_the_index_in_use_share_their_space(source: str, index: Path) -> None:
    release = ship(1, source)
    get(index, source)
    assert index.samefile(index.with_name("index.db.pulled") / release.file_name)


def test_index_keeps_its_permissions(source: str, index: Path) -> None:
    ship(1, source)
    get(index, source)
    index.chmod(0o640)
    ship(2, source)
    get(index, source)
    assert index.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not is_posix(), reason="there are no modes")
def test_versions_beside_an_index_are_private(source: str, index: Path) -> None:
    ship(1, source)
    get(index, source)
    assert index.with_name("index.db.pulled").stat().st_mode & 0o077 == 0


def test_folder_that_does_not_exist_is_one_sentence(source: str, tmp_path: Path) -> None:
    ship(1, source)
    refused(tmp_path / "none" / "index.db", source, "cannot be used .No such file or directory", ShippingError)
    assert not (tmp_path / "none").exists()


def test_going_back_does_not_make_the_last_check_older(
    source: str, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, source)
    monkeypatch.setattr(pulling, "now", lambda: "2026-01-01T00:00:00Z")
    get(index, source)
    ship(2, source)
    monkeypatch.setattr(pulling, "now", lambda: "2026-02-01T00:00:00Z")
    get(index, source)
    roll_back(index)
    assert read_state(index).checked == "2026-02-01T00:00:00Z"


def test_pulled_index_can_be_built_over(source: str, index: Path, make_library: object, tmp_path: Path) -> None:
    ship(1, source)
    get(index, source)
    library = tmp_path / "own"
    library.mkdir()
    (library / "a.md").write_text("# A\n", encoding="utf-8")
    build_index([library], index)
    with Catalog.open(index) as catalog:
        assert catalog.size == 1
    assert get(index, source) == Outcome.PULLED
    assert version_of(index) == 1


def test_pin_that_the_channel_does_not_list_says_what_it_lists(source: str, index: Path) -> None:
    ship(1, source)
    with pytest.raises(RequestError, match="lists no release 0123456789: its newest is serial 1"):
        get(index, source, pin="0123456789")


def locked_index(lock: Path) -> dict[str, Any]:
    index: dict[str, Any] = tomllib.loads(lock.read_text(encoding="utf-8"))["index"]
    return index


def test_lock_keeps_what_else_the_file_says(invoke: Invoke, server: FileServer, tmp_path: Path) -> None:
    lock = tmp_path / "orchestr8.lock"
    other = '# pinned\n[[source]]\nname = "acme"\n'
    lock.write_text(other, encoding="utf-8")
    ship(1, server.url)
    assert invoke("pull", server.url, "--lock")[0] == 0
    assert lock.read_text(encoding="utf-8").startswith(other)
    assert locked_index(lock)["serial"] == 1


def test_lock_names_what_was_pulled_and_is_obeyed(invoke: Invoke, server: FileServer, tmp_path: Path) -> None:
    first = ship(1, server.url)
    assert invoke("pull", server.url, "--lock")[0] == 0
    lock = tmp_path / "orchestr8.lock"
    said = locked_index(lock)
    assert (said["source"], said["channel"], said["sha256"]) == (server.url, "stable", first.sha256)
    before = lock.read_bytes()
    ship(2, server.url)
    elsewhere = tmp_path / "elsewhere.db"
    assert invoke("pull", "--locked", "-o", elsewhere)[0] == 0
    assert (version_of(elsewhere), lock.read_bytes() == before) == (1, True)
    assert invoke("pull")[0] == 0
    assert (version_of(tmp_path / "index.db"), lock.read_bytes() == before) == (2, False)


def test_lock_protects_a_fresh_machine_from_an_older_release(
    invoke: Invoke, store: Path, server: FileServer, tmp_path: Path
) -> None:
    ship(1, server.url)
    shutil.copytree(store, tmp_path / "earlier")
    ship(2, server.url)
    invoke("pull", server.url, "--lock")
    replay(store, tmp_path / "earlier")
    code, _, said = invoke("pull", "-o", tmp_path / "fresh.db")
    assert (code, "older than serial 2" in said) == (1, True)


def test_lock_goes_back_with_the_index_and_stays_back(invoke: Invoke, server: FileServer, tmp_path: Path) -> None:
    for version in (1, 2):
        ship(version, server.url)
        invoke("pull", server.url, "--lock")
    lock = tmp_path / "orchestr8.lock"
    assert invoke("rollback")[0] == 0
    assert locked_index(lock)["serial"] == 1
    assert "stays rolled back" in invoke("pull")[1]
    assert locked_index(lock)["serial"] == 1


def test_no_lock_is_written_unless_it_is_asked_for(invoke: Invoke, server: FileServer, tmp_path: Path) -> None:
    ship(1, server.url)
    invoke("pull", server.url)
    assert not (tmp_path / "orchestr8.lock").exists()
    assert invoke("pull")[0] == invoke("pull", "--locked")[0] == 2


def test_lock_that_names_a_hash_that_is_not_there_pulls_nothing_else(
    invoke: Invoke, server: FileServer, tmp_path: Path
) -> None:
    ship(1, server.url)
    invoke("pull", server.url, "--lock")
    lock = tmp_path / "orchestr8.lock"
    lock.write_text(lock.read_text("utf-8").replace(locked_index(lock)["sha256"], "0" * 64), encoding="utf-8")
    code, _, said = invoke("pull", "--locked", "-o", "other.db")
    assert (code, "has no such file" in said) == (1, True)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("content", ["{", "[index]", "index = 3", "[index]\nsource = 3\nchannel = 4"])
def test_lock_that_cannot_be_read_is_one_sentence(invoke: Invoke, tmp_path: Path, content: str) -> None:
    (tmp_path / "orchestr8.lock").write_text(content, encoding="utf-8")
    code, _, said = invoke("pull", "--locked")
    assert (code, said.startswith("orchestr8.lock cannot be read: "), said.count("\n")) == (1, True, 1)


def test_requests_stop_once_a_file_is_longer_than_promised(server: FileServer, index: Path) -> None:
    release = ship(1, server.url)

    def endless(asked: Request) -> Answer | None:
        return Answer(content=b"x" * (release.size + (8 << 20))) if asked.name == release.file_name else None

    server.fault = endless
    refused(index, server.url, "more bytes than its channel names")
    assert not list(index.with_name("index.db.pulled").glob("*.part"))
