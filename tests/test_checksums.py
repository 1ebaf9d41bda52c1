"""The checksum of an index: what differs from it is never answered from, and what does not is as before."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

import pytest
from servers import greet, receive, release, search, send, start
from serving import asking, call
from support import Invoke, build, markdown, write_files

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.doctor.index import check_index
from orchestr8_sqlite.doctor.report import CheckVerdict
from orchestr8_sqlite.errors import BuildError, CatalogError
from orchestr8_sqlite.index import checksums
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.checksums import Comparison, add_checksum
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

PAGE = 4096
ROSES = markdown("description: About roses\nuseWhen: [Pruning roses]", "# Roses\n\nPrune {}.\n")
"""Its short texts are as long whatever is written into it."""

FILES = {
    "skills/retry.md": markdown("title: Retry\ntags: [http]\nuseWhen: [Retrying a flaky call]", "# Retry\n\nWait.\n"),
    "guides/roses.md": ROSES.format("them"),
}
DAMAGED = (
    r"index\.db was changed by another program, or is damaged: its checksum is not that of its build; "
    "build it again with: orchestr8-sqlite build"
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return write_files(tmp_path / "library", FILES)


@pytest.fixture
def index(library: Path, tmp_path: Path) -> Path:
    return build(library, tmp_path / "index.db")


@pytest.fixture
def service(index: Path) -> Iterator[Service]:
    with closing(Service(Settings(index, "info", 10))) as service:
        yield service


@pytest.fixture
def any_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every index be too large to be compared when it is opened, and no comparison end before it is waited for."""
    waited_for = Event()
    result, compared = Comparison.result, Comparison._compared

    def wait(self: Comparison) -> str:
        waited_for.set()
        return result(self)

    def compare(self: Comparison, file: BinaryIO) -> str:
        waited_for.wait()
        return compared(self, file)

    monkeypatch.setattr(checksums, "SMALL", 0)
    monkeypatch.setattr(checksums, "PATIENCE", 0)
    monkeypatch.setattr(Comparison, "result", wait)
    monkeypatch.setattr(Comparison, "_compared", compare)
    yield
    waited_for.set()


def change_text(path: Path) -> None:
    """Give a byte of a text another value, as no program would notice that reads it."""
    data = path.read_bytes()
    assert b"Wait." in data
    path.write_bytes(data.replace(b"Wait.", b"Wajt."))


def test_page_behind_the_database_holds_the_crc_of_all_before_it(index: Path) -> None:
    data = index.read_bytes()
    pages = int.from_bytes(data[28:32], "big")
    assert len(data) == (pages + 1) * PAGE
    assert data[pages * PAGE :].rstrip(b"\0") == b"o8sq checksum 1\0" + zlib.crc32(data[: pages * PAGE]).to_bytes(
        4, "big"
    )


def test_sqlite_does_not_mind_the_page(index: Path) -> None:
    with closing(sqlite3.connect(index)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA page_count").fetchone()[0] == index.stat().st_size // PAGE - 1


def test_adding_a_checksum_again_changes_nothing_and_keeps_the_times(index: Path) -> None:
    before, status = index.read_bytes(), index.stat()
    add_checksum(index)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == (before, status.st_mtime_ns)


def test_changed_text_that_sqlite_reads_without_a_word_is_never_answered(index: Path, service: Service) -> None:
    change_text(index)
    with closing(sqlite3.connect(index)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for _ in range(2):
        with pytest.raises(CatalogError, match=DAMAGED):
            service.read("orchestr8://skills/retry")
    with pytest.raises(CatalogError, match=DAMAGED):
        service.search(MatchRequest("retry"))


def test_what_a_damaged_index_does_not_find_is_not_said_to_be_unknown(index: Path, service: Service) -> None:
    with closing(sqlite3.connect(index, isolation_level=None)) as db:
        db.execute("UPDATE fragment SET path = 'skills/none' WHERE path = 'skills/retry'")
    with pytest.raises(CatalogError, match=DAMAGED):
        service.read("orchestr8://skills/retry")


def test_index_that_is_mended_is_read_again(index: Path, service: Service, tmp_path: Path) -> None:
    sound = Path(shutil.copy(index, tmp_path / "sound.db"))
    change_text(index)
    with pytest.raises(CatalogError, match=DAMAGED):
        service.read("orchestr8://skills/retry")
    sound.replace(index)
    assert "Wait." in service.read("orchestr8://skills/retry").text


@pytest.mark.parametrize("change", ["cut", "longer", "vacuumed"])
def test_index_without_its_checksum_is_refused(index: Path, change: str) -> None:
    if change == "cut":
        os.truncate(index, index.stat().st_size - 1)
    elif change == "longer":
        with index.open("ab") as file:
            file.write(bytes(PAGE))
    else:
        with closing(sqlite3.connect(index)) as db:
            db.execute("VACUUM")
    with pytest.raises(CatalogError, match="is damaged: it does not end with the checksum of a build; build it again"):
        Catalog.open(index)


def test_fault_that_sqlite_tells_in_no_utf_8_is_a_sentence(index: Path) -> None:
    data = index.read_bytes()
    assert b"CREATE TABLE source" in data
    index.write_bytes(data.replace(b"CREATE TABLE source", b"CREATE \xe4ABLE source"))
    with pytest.raises(CatalogError, match=r"(is not a usable index|is damaged).*; build it again"):
        Catalog.open(index)


@pytest.mark.parametrize(
    "line", [("search", "retry"), ("load", "orchestr8://skills/retry"), ("stats",), ("sql", "SELECT 1")]
)
def test_command_says_one_sentence_and_nothing_else(index: Path, invoke: Invoke, line: tuple[str, ...]) -> None:
    change_text(index)
    code, out, err = invoke(*line, "--db", index)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "is damaged: its checksum is not that of its build" in err


def test_doctor_compares_an_index_of_any_size(index: Path, any_is_large: None) -> None:
    change_text(index)
    (found,) = [check for check in check_index(index) if check.verdict is CheckVerdict.PROBLEM]
    assert (found.name, found.advice) == ("index", "build it again with: orchestr8-sqlite build ROOT -o INDEX --full")
    assert found.finding.endswith("is damaged: its checksum is not that of its build")


def test_server_tells_of_a_large_index_as_soon_as_it_is_compared(
    index: Path, service: Service, any_is_large: None
) -> None:
    change_text(index)
    assert "Wajt." in service.read("orchestr8://skills/retry").text
    service.snapshots.compare_all()
    with closing(Catalog.open(index)) as catalog:
        assert catalog.comparison is not None
        catalog.begin_to_verify()
        assert catalog.comparison.result() == "its checksum is not that of its build"
        with pytest.raises(CatalogError, match=DAMAGED):
            service.read("orchestr8://skills/retry")
        assert service.snapshots.unchanged_edition() is None


def test_fault_of_reading_a_large_index_is_put_down_to_its_damage(
    index: Path, service: Service, any_is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_text(index)
    monkeypatch.setattr(Catalog, "body", lambda *_: next(iter(())))
    with pytest.raises(CatalogError, match=DAMAGED):
        service.read("orchestr8://skills/retry")


def test_fault_of_reading_a_sound_index_is_a_bug_and_said_to_be_one(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "body", lambda *_: next(iter(())))
    with pytest.raises(StopIteration):
        service.read("orchestr8://skills/retry")


def test_answer_is_withheld_where_the_file_was_overwritten_meanwhile(index: Path, tmp_path: Path) -> None:
    other = build(write_files(tmp_path / "other", {"guides/ivy.md": "# Ivy\n\nCut it.\n"}), tmp_path / "other.db")
    with pytest.raises(CatalogError, match="was overwritten while it was being read; ask again"), Catalog.open(index):
        index.write_bytes(other.read_bytes())


def test_answer_stands_where_only_the_time_of_the_file_was_renewed_or_another_took_its_place(index: Path) -> None:
    with Catalog.open(index) as catalog:
        os.utime(index)
        assert catalog.size == 2
    with Catalog.open(index) as catalog:
        Path(shutil.copy(index, index.with_suffix(".next"))).replace(index)
        assert catalog.size == 2


# --- builds


@pytest.mark.usefixtures("any_is_large")
def test_update_of_a_damaged_index_writes_everything_anew(library: Path, index: Path) -> None:
    change_text(index)
    write_files(library, {"guides/roses.md": ROSES.format("them hard")})
    assert build_index([library], index).how is How.WHOLE
    with closing(Service(Settings(index, "info", 10))) as service:
        assert "Wait." in service.read("orchestr8://skills/retry").text


def test_build_without_changes_writes_a_small_damaged_index_anew(library: Path, index: Path) -> None:
    change_text(index)
    os.utime(index, (time.time() + 10, time.time() + 10))  # no file is in doubt
    assert build_index([library], index).how is How.WHOLE
    with closing(Service(Settings(index, "info", 10))) as service:
        assert "Wait." in service.read("orchestr8://skills/retry").text


def test_update_ends_with_a_checksum_too(library: Path, index: Path) -> None:
    write_files(library, {"guides/roses.md": ROSES.format("them hard")})
    assert build_index([library], index).how is How.UPDATED
    with closing(Service(Settings(index, "info", 10))) as service:
        assert "hard" in service.read("orchestr8://guides/roses").text


def test_index_that_this_process_has_put_in_place_is_not_compared_by_its_next_update(
    library: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Path] = []
    compare = Comparison._compared

    def compare_and_note(self: Comparison, file: BinaryIO) -> str:
        compared.append(index)
        return compare(self, file)

    monkeypatch.setattr(Comparison, "_compared", compare_and_note)
    for text in ("hard", "softly"):
        write_files(library, {"guides/roses.md": ROSES.format(text)})
        assert build_index([library], index).how is How.UPDATED
    assert compared == []
    index.write_bytes(index.read_bytes().replace(b"softly", b"loudly"))  # by another process
    write_files(library, {"skills/retry.md": "# Retry\n\nWait long.\n"})
    assert build_index([library], index).how is How.WHOLE
    assert len(compared) == 1


def test_build_leaves_what_is_no_index_as_it_is(library: Path, tmp_path: Path) -> None:
    places = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(places)) as db:
        db.execute("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR)")
    before = places.read_bytes()
    with pytest.raises(BuildError, match="exists and is not an orchestr8-sqlite index; name another file or remove it"):
        build_index([library], places)
    assert places.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("command", ["stats --db {}", "search waiting --db {}", "build {library} -o {}"])
def test_pipe_in_the_place_of_an_index_is_said_and_not_waited_for(library: Path, tmp_path: Path, command: str) -> None:
    pipe = tmp_path / "pipe.db"
    os.mkfifo(pipe)
    arguments = command.format(pipe, library=library).split()
    done = subprocess.run(
        [sys.executable, "-m", "orchestr8_sqlite", *arguments], capture_output=True, text=True, timeout=20, check=False
    )
    todo = "name another one" if arguments[0] == "build" else "name the file of an index"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{pipe} is not a file; {todo}.\n")


@pytest.mark.skipif(os.name != "posix", reason="there are no files of devices here")
def test_device_in_the_place_of_an_index_is_neither_read_nor_replaced(library: Path, tmp_path: Path) -> None:
    device = tmp_path / "device.db"
    device.symlink_to("/dev/null")  # which a build would replace, had its user the right to
    with pytest.raises(BuildError, match=r"device\.db is not a file; name another one\."):
        build_index([library], device)
    assert device.is_symlink()
    assert next(check_index(device)).finding == f"{device} is not a file"


# --- the server


def test_first_answer_of_a_server_waits_for_an_index_of_medium_size(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "SMALL", 0)
    change_text(index)
    with closing(Service(Settings(index, "info", 10))) as command:
        assert "Wajt." in command.read("orchestr8://skills/retry").text
    os.utime(index)
    with asking(index) as ask:
        assert "error" in ask("resources/read", uri="orchestr8://skills/retry")
        assert call(ask, "search", query="retry")["isError"]


@pytest.mark.slow
def test_server_stays_up_over_a_damaged_index_and_recovers(index: Path, tmp_path: Path) -> None:
    sound = Path(shutil.copy(index, tmp_path / "sound.db"))
    change_text(index)
    server = start(index)
    try:
        greet(server)
        for damage in [change_text, lambda path: path.write_bytes(b"garbage" * 10_000), None]:
            failed = tool_result(server)
            assert failed["isError"]
            assert texts(failed) == ["The library's index cannot be read; see the server's log."]
            Path(shutil.copy(sound, tmp_path / "next.db")).replace(index)
            assert "orchestr8://skills/retry" in texts(tool_result(server))[0]
            if damage is not None:
                damage(index)
    finally:
        release(server)


def tool_result(server: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """Return the result of a search, whatever the server tells besides."""
    send(server, search(1, "retry"))
    while (message := receive(server)).get("id") != 1:
        pass
    result: dict[str, Any] = message["result"]
    return result


def texts(result: dict[str, Any]) -> list[str]:
    return [one["text"] for one in result["content"] if one["type"] == "text"]
