"""The commands and the server on a system where an open file cannot be replaced, nothing is locked or polled.

That system is this one, pretending; what Windows itself does beyond that cannot be seen here.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import servers
import windows
from releases import ship, version_of
from support import MakeLibrary, markdown, rows, write_files

from orchestr8_sqlite import system
from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.errors import BuildError, ShippingError
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.shipping.pull import Wish, pull, roll_back
from orchestr8_sqlite.shipping.stores import Folder

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="who has a file open is read from /proc")

RETRY = markdown("description: Waiting\nuseWhen: [Retrying a flaky call]", "# Retry\n\nWait.\n")
LONGER = RETRY.replace("Wait.", "Wait longer.")
BEGINNING = [servers.INITIALIZE, servers.INITIALIZED]


@pytest.fixture(autouse=True)
def pretending(monkeypatch: pytest.MonkeyPatch) -> None:
    windows.pretend(monkeypatch.setattr)


@pytest.fixture
def root(make_library: MakeLibrary) -> Path:
    """Return a library of one fragment."""
    return make_library({"skills/retry.md": RETRY})


@pytest.fixture
def index(root: Path, tmp_path: Path) -> Path:
    """Return its index, in a folder of its own."""
    target = tmp_path / "out" / "index.db"
    target.parent.mkdir()
    build_index([root], target)
    return target


def test_file_that_is_open_can_be_neither_replaced_nor_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "PATIENCE_SECONDS", 0)
    held, other = tmp_path / "held", tmp_path / "other"
    other.touch()
    with held.open("wb"):
        with pytest.raises(PermissionError):
            held.unlink()
        for source, target in ((other, held), (held, other)):
            with pytest.raises(PermissionError):
                system.replace(source, target)
    system.replace(other, held)
    held.unlink()


def test_index_is_published_pulled_and_gone_back_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, index = tmp_path / "store", tmp_path / "index.db"
    store.mkdir()
    for version in (1, 2):
        ship(version, store)
        pull(Wish(index, "stable"), Folder(store), lambda _, __: None)
        assert version_of(index) == version
    monkeypatch.setattr(system, "PATIENCE_SECONDS", 0)
    with (
        index.open("rb"),
        pytest.raises(ShippingError, match=r"is open in another program.*; end the servers that use it, then pull"),
    ):
        roll_back(index)
    assert version_of(index) == 2
    roll_back(index)
    assert version_of(index) == 1


@pytest.mark.parametrize("full", [False, True])
def test_index_is_replaced_between_the_requests_of_a_server(index: Path, root: Path, full: bool) -> None:
    with closing(Service(Settings(index, "info", 20))) as service:
        assert "Wait." in service.read("orchestr8://skills/retry").text
        assert not windows.is_open(index)
        write_files(root, {"skills/retry.md": LONGER})
        assert build_index([root], index, full=full).how is (How.WHOLE if full else How.UPDATED)
        assert "Wait longer." in service.read("orchestr8://skills/retry").text
        assert "Retry" in service.search(MatchRequest("retry")).text


def test_build_waits_for_the_request_that_is_under_way(
    index: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(Settings(index, "info", 20))
    refused = threading.Event()

    def is_held(problem: OSError) -> bool:
        refused.set()
        return bool(problem.winerror == windows.IN_USE)  # type: ignore[attr-defined,unused-ignore]

    monkeypatch.setattr(system, "is_held", is_held)
    write_files(root, {"skills/retry.md": LONGER})
    building = threading.Thread(target=build_index, args=([root], index))
    with service.snapshots.snapshot():
        assert "Wait." in service.read("orchestr8://skills/retry").text
        building.start()
        assert refused.wait(10)
        assert "Wait." in service.read("orchestr8://skills/retry").text
    building.join(10)
    assert "Wait longer." in service.read("orchestr8://skills/retry").text
    service.close()


@pytest.mark.parametrize("full", [False, True])
def test_index_that_another_program_keeps_open_is_named_and_nothing_is_lost(
    index: Path, root: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "PATIENCE_SECONDS", 0.2)
    before = index.read_bytes()
    write_files(root, {"skills/retry.md": LONGER})
    with closing(sqlite3.connect(index)) as db:
        db.execute("SELECT * FROM fragment").fetchall()
        with pytest.raises(BuildError) as refused:
            build_index([root], index, full=full)
    assert str(refused.value) == (
        f"The index {index} is open in another program, which this system does not let be replaced; end the servers "
        "that use it, then build again."
    )
    assert index.read_bytes() == before
    assert os.listdir(index.parent) == ["index.db"]  # noqa: PTH208
    build_index([root], index, full=full)
    assert rows(index, "SELECT body FROM fragment_body") == [("# Retry\n\nWait longer.",)]


def test_age_alone_tells_what_killed_builds_have_left(index: Path, root: Path) -> None:
    left = [index.with_name(f".index.db.7.0123abcd.tmp{ending}") for ending in ("", "-keywords", "-lock")]
    for path in left:
        path.touch()
    build_index([root], index)
    assert all(path.exists() for path in left)
    for path in left:
        os.utime(path, (time.time() - 172_800,) * 2)
    build_index([root], index)
    assert os.listdir(index.parent) == ["index.db"]  # noqa: PTH208


def run(*arguments: str, conversation: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own, which pretends too."""
    command = [sys.executable, "-m", "windows", *arguments]
    return subprocess.run(command, input=conversation, capture_output=True, check=True, cwd=Path(__file__).parent)


def test_server_answers_where_nothing_can_be_polled_and_ends_with_its_input(index: Path) -> None:
    conversation = servers.lines(*BEGINNING, servers.search(1, "retry"))
    done = run("serve", "--db", str(index), conversation=conversation)
    answers = done.stdout.splitlines()
    assert len(answers) == 2
    assert b"orchestr8://skills/retry" in answers[1]
    assert b"Traceback" not in done.stderr


def test_server_that_is_told_to_end_does_not_wait_for_its_input(index: Path) -> None:
    command = [sys.executable, "-m", "windows", "serve", "--db", str(index)]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parent
    )
    servers.greet(server)
    server.send_signal(signal.SIGINT)
    assert server.wait(10) == 0
    servers.release(server)


def test_descriptors_that_a_thread_may_be_reading_are_left_alone() -> None:
    """Whoever closed one there would wait until the read is over."""
    code = """
import os, windows
windows.pretend()
from orchestr8_sqlite.server.stdio.descriptors import private_descriptors
with private_descriptors() as private:
    pass
for descriptor in private:
    os.fstat(descriptor)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_several_workers_are_refused_in_one_sentence(index: Path) -> None:
    command = [sys.executable, "-m", "windows", "serve", "--http", "127.0.0.1:0", "--workers", "2", "--db", str(index)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Several workers need a POSIX system; leave --workers out." in done.stderr


def test_server_that_builds_its_index_renews_it(root: Path, tmp_path: Path) -> None:
    index = tmp_path / "own.db"
    conversation = servers.lines(*BEGINNING, servers.search(1, "retry"))
    done = run("serve", "--root", str(root), "--db", str(index), conversation=conversation)
    assert any(b'"id":1' in line and b"orchestr8://skills/retry" in line for line in done.stdout.splitlines())
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_build_by_processes_that_start_anew_gives_the_same_bytes(make_library: MakeLibrary, tmp_path: Path) -> None:
    """300 files are more than one process reads; those that help it are forked here and started anew there."""
    root = make_library({f"guides/g{number}.md": f"# Rose {number}\n\nPrune it.\n" for number in range(300)})
    here = subprocess.run(
        [sys.executable, "-m", "orchestr8_sqlite", "build", str(root), "-o", str(tmp_path / "here.db")],
        capture_output=True,
        check=False,
    )
    assert here.returncode == 0, here.stderr
    run("build", str(root), "-o", str(tmp_path / "there.db"))
    assert (tmp_path / "here.db").read_bytes() == (tmp_path / "there.db").read_bytes()
