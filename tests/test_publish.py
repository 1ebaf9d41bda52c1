"""Publishing: the index first, then what its channel says, in one step; nothing below the bounds, nothing in halves."""

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_servers import DROPPED, Answer, FileServer, Request, file_server
from releases import index_of, ship, version_of
from support import Invoke, write_files

from orchestr8_sqlite.errors import CatalogError, RefusedRelease, ShippingError, SourceError
from orchestr8_sqlite.shipping.publish import Order, publish
from orchestr8_sqlite.shipping.stores import Changed, Folder, Found, Server, open_source, open_target

CHANNEL = "stable.channel.json"


@pytest.fixture
def server(store: Path) -> Iterator[FileServer]:
    with file_server(store) as running:
        yield running


@pytest.fixture(params=["folder", "server"])
def target(request: pytest.FixtureRequest, store: Path, server: FileServer) -> str:
    return str(store) if request.param == "folder" else server.url


def said_in(store: Path) -> dict[str, object]:
    fields: dict[str, object] = json.loads((store / CHANNEL).read_text(encoding="utf-8"))
    return fields


def test_channel_names_the_published_file_and_all_that_is_known_of_it(target: str, store: Path) -> None:
    release = ship(1, target)
    said = said_in(store)
    assert version_of(store / f"{said['sha256']}.db") == 1
    assert (said["serial"], said["size"], said["roots"]) == (1, index_of(1).stat().st_size, ["library"])
    assert (said["generation"], said["gate"], said["fragments"]) == (release.generation, None, 6)


def test_serials_of_a_channel_rise_and_earlier_releases_stay_listed(target: str, store: Path) -> None:
    releases = [ship(1, target), ship(2, target), ship(1, target), ship(3, target, "beta")]
    assert [one.serial for one in releases] == [1, 2, 3, 1]
    earlier = said_in(store)["earlier"]
    assert isinstance(earlier, list)
    assert [one["generation"] for one in earlier] == [releases[1].generation, releases[0].generation]


def test_the_same_index_again_changes_nothing(target: str, store: Path) -> None:
    ship(1, target)
    before = (store / CHANNEL).read_bytes()
    assert ship(1, target).serial == 1
    assert (store / CHANNEL).read_bytes() == before


@pytest.mark.parametrize("content", [None, b"", b"something else"])
def test_the_same_index_again_brings_back_a_file_that_was_lost_or_damaged(
    target: str, store: Path, content: bytes | None
) -> None:
    file = store / ship(1, target).file_name
    before = (store / CHANNEL).read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    ship(1, target)
    assert version_of(file) == 1
    assert (store / CHANNEL).read_bytes() == before


def test_half_a_file_of_a_publisher_that_was_killed_is_replaced(target: str, store: Path) -> None:
    name = ship(1, target).file_name
    (store / CHANNEL).unlink()
    (store / name).write_bytes(index_of(1).read_bytes()[:5000])
    ship(1, target)
    assert version_of(store / name) == 1


def test_upload_that_arrives_in_half_is_named_by_no_channel(server: FileServer, store: Path) -> None:
    ship(1, server.url)
    before = (store / CHANNEL).read_bytes()
    server.fault = lambda asked: Answer(stored=5000) if asked.method == "PUT" else None
    with pytest.raises(
        ShippingError, match=r"did not arrive whole at http://127\.0\.0\.1:\d+; the channel is unchanged"
    ):
        ship(2, server.url)
    assert (store / CHANNEL).read_bytes() == before


@pytest.mark.parametrize("status", [500, 403, 405, DROPPED, 307])
def test_server_that_takes_no_files_is_one_sentence_and_changes_nothing(
    server: FileServer, store: Path, status: int
) -> None:
    server.fault = lambda asked: Answer(status, location=f"{server.url}/x") if asked.method == "PUT" else None
    with pytest.raises(
        SourceError, match=r"^http://127\.0\.0\.1\S* (answered PUT with \d+.*|broke off.*|cannot be .*)\.$"
    ):
        ship(1, server.url)
    assert list(store.iterdir()) == []


def test_of_two_publishers_at_once_one_wins_whole(target: str, store: Path) -> None:
    ship(1, target)
    together = threading.Barrier(2)

    class Hasty:
        """Replaces the channel only once another publisher is about to do the same."""

        def __init__(self) -> None:
            self._target = open_target(target)
            self.place, self.says_who_won = self._target.place, True
            self.write = self._target.write

        def replace(self, name: str, content: bytes, before: Found | None) -> None:
            together.wait(10)
            self._target.replace(name, content, before)

    outcomes: dict[int, str] = {}

    def run(version: int) -> None:
        try:
            publish(Order(index_of(version), "stable"), Hasty(), open_source(target))
            outcomes[version] = "won"
        except RefusedRelease as problem:
            outcomes[version] = str(problem)

    threads = [threading.Thread(target=run, args=(version,)) for version in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [version for version, outcome in outcomes.items() if outcome == "won"]
    said = said_in(store)
    assert version_of(store / f"{said['sha256']}.db") == winner
    assert said["serial"] == 2
    assert "Another publisher has changed" in outcomes[5 - winner]


def test_publisher_that_was_overtaken_on_a_server_without_conditions_hears_of_it(tmp_path: Path) -> None:
    with file_server(tmp_path / "store", tags=False, heeds_conditions=False) as plain:
        ship(1, plain.url)
        target = Server(plain.url)
        before = target.read(CHANNEL)
        puts = 0

        def overtake(asked: Request) -> Answer | None:
            nonlocal puts
            puts += asked.method == "PUT"
            return Answer(content=b"what the other one wrote") if puts and asked.method == "GET" else None

        plain.fault = overtake
        with pytest.raises(Changed):
            target.replace(CHANNEL, b"ours", before)


def test_command_uploads_both_files_by_their_names_without_a_shell(tmp_path: Path, store: Path) -> None:
    script = tmp_path / "upload it.py"
    script.write_text("import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])\n", encoding="utf-8")
    command = f"{shlex.join([sys.executable, str(script)])} {{file}} '{store}/{{name}}'"
    published = publish(Order(index_of(1), "stable", serial=7), open_target(command), None)
    assert published.release.serial == said_in(store)["serial"] == 7
    assert version_of(store / published.release.file_name) == 1
    again = publish(Order(index_of(2), "stable"), open_target(command), Folder(store))
    assert (again.release.serial, said_in(store)["serial"]) == (8, 8)


def test_command_that_fails_is_one_sentence_with_its_last_words(invoke: Invoke, tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    script.write_text("raise SystemExit('the bucket is gone')\n", encoding="utf-8")
    command = f"{shlex.join([sys.executable, str(script)])} {{file}} {{name}}"
    code, _, said = invoke("publish", index_of(1), "--to", command, "--serial", "1", "--no-gate")
    assert code == 1
    assert said.endswith("db: the bucket is gone\n")


def test_command_needs_a_serial_or_where_to_read_the_last_one(invoke: Invoke, store: Path) -> None:
    code, _, said = invoke("publish", index_of(1), "--to", "cp {file} x/{name}", "--no-gate")
    assert (code, "give --read" in said) == (2, True)
    ship(1, store)
    code, _, said = invoke("publish", index_of(2), "--to", str(store), "--serial", "1", "--no-gate")
    assert (code, said) == (2, "--serial must be a number above 1, the last one of the channel stable.\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--serial", "1"], "PostgreSQL takes neither --sign nor --serial: its roles say who may publish.\n"),
        (["--read", "x"], "PostgreSQL takes no --read: what arrives is compared over the same connection.\n"),
    ],
)
def test_what_postgresql_has_no_use_for_is_refused(invoke: Invoke, options: list[str], said: str) -> None:
    to = "postgresql://publisher@127.0.0.1:1/library"
    assert invoke("publish", index_of(1), "--to", to, "--no-gate", *options) == (2, "", said)


def test_index_that_misses_its_bounds_is_not_published(
    invoke: Invoke, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"orchestr8.toml": '[eval]\nfail-under = ["recall@5=1.01"]\n'})
    code, _, said = invoke("publish", index_of(1), "--to", store)
    assert code == 1
    assert said.startswith("Not published: recall@5 is ")
    assert list(store.iterdir()) == []


def test_index_that_meets_its_bounds_is_published_with_the_figures(invoke: Invoke, store: Path) -> None:
    code, _, _ = invoke("publish", index_of(1), "--to", store, "--fail-under", "recall@5=0", "--json")
    assert code == 0
    gate = said_in(store)["gate"]
    assert isinstance(gate, dict)
    assert gate["bounds"] == ["recall@5=0"]
    assert gate["figures"]["scenario"]["queries"] == 5


def test_without_any_bound_it_must_be_said_that_there_is_none(
    invoke: Invoke, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = invoke("publish", index_of(1), "--to", store)
    assert (code, said.endswith("or say --no-gate.\n")) == (2, True)
    assert invoke("publish", index_of(1), "--to", store, "--no-gate")[0] == 0


def test_damaged_index_is_not_published(store: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "index.db"
    content = bytearray(index_of(1).read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(CatalogError, match="its checksum is not that of its build"):
        publish(Order(damaged, "stable"), Folder(store), Folder(store))
    assert list(store.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("s3://bucket", "give the command that does"),
        ("nowhere", "create it first"),
        ("http://user:word@host/x", "ORCHESTR8_TOKEN=USER:PASSWORD"),
    ],
)
def test_place_that_nothing_can_be_published_to_is_one_sentence(invoke: Invoke, place: str, why: str) -> None:
    code, _, said = invoke("publish", index_of(1), "--to", place, "--no-gate")
    assert code
    assert why in said
    assert "word@" not in said
    assert said.count("\n") == 1


def test_token_goes_to_its_own_origin_only_and_into_no_message(
    invoke: Invoke, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTR8_TOKEN", "secret-of-the-team")
    monkeypatch.setenv("ORCHESTR8_TOKEN_FOR", f"{server.url}/")
    said: list[object] = [*invoke("publish", index_of(1), "--to", server.url, "--no-gate")]
    assert said[0] == 0
    assert {one.authorization for one in server.requests} == {"Bearer secret-of-the-team"}
    server.requests.clear()
    monkeypatch.setenv("ORCHESTR8_TOKEN_FOR", "https://127.0.0.1")
    said.extend(invoke("publish", index_of(2), "--to", server.url, "--no-gate"))
    assert {one.authorization for one in server.requests} == {None}
    server.fault = lambda _: Answer(403)
    said.extend(invoke("publish", index_of(3), "--to", server.url, "--no-gate"))
    assert not any("secret" in str(one) for one in said)


def test_token_with_a_colon_is_a_name_and_a_password(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTR8_TOKEN", "Aladdin:open sesame")
    monkeypatch.setenv("ORCHESTR8_TOKEN_FOR", server.url)
    ship(1, server.url)
    assert server.requests[0].authorization == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="  # RFC 7617, section 2


def test_token_without_whom_it_is_for_is_refused(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTR8_TOKEN", "secret-of-the-team")
    code, _, said = invoke("publish", index_of(1), "--to", "https://host.invalid/x", "--no-gate")
    assert (code, "ORCHESTR8_TOKEN_FOR" in said, "secret" in said) == (1, True, False)


def test_token_does_not_travel_in_the_clear(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTR8_TOKEN", "secret-of-the-team")
    monkeypatch.setenv("ORCHESTR8_TOKEN_FOR", "http://host.invalid")
    code, _, said = invoke("publish", index_of(1), "--to", "http://host.invalid/x", "--no-gate")
    assert (code, "use https" in said, "secret" in said) == (1, True, False)
