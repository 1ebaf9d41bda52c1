"""What differs from one operating system to another, decided as on each, and the parts that Linux has run."""

import ast
import errno
import os
import platform
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace

import pytest

import orchestr8_sqlite
from orchestr8_sqlite import system
from orchestr8_sqlite.index.connections import connect, identity_of

SYSTEMS = ("linux", "darwin", "win32", "freebsd14")
OWN_TO_SYSTEMS = {"fcntl", "termios", "msvcrt", "winreg", "winerror"}
SAYING = {"os.name", "sys.platform", "os.fork", "os.pidfd_open", "os.set_blocking", "select.poll", "signal.SIGHUP"}
MAY_ASK = {"system.py", "settings.py"}
"""settings.py for the places of other programs' configuration."""

THREADS = """
import ctypes, sys, threading
from orchestr8_sqlite.system import share_one_arena
if sys.argv[1] == "shared":
    share_one_arena()
begin = threading.Barrier(4)
def hold():
    begin.wait()
    held.append([bytes(5_000) for _ in range(100)])
    begin.wait()
held = []
threads = [threading.Thread(target=hold) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has an arena for each thread")
@pytest.mark.parametrize(("how", "is_one"), [("shared", True), ("as it is", False)])
def test_threads_share_an_arena_where_each_would_have_its_own(how: str, is_one: bool) -> None:
    done = subprocess.run([sys.executable, "-c", THREADS, how], capture_output=True, text=True, check=True)
    assert (done.stderr.count("Arena ") == 1) is is_one


def names_in(source: str) -> set[str]:
    """Return what a module imports, and which attributes of modules it names."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    return names


def test_no_other_module_asks_which_system_this_is() -> None:
    assert names_in("import fcntl\nfrom os import name\nsys.platform") == {"fcntl", "os", "os.name", "sys.platform"}
    package = Path(orchestr8_sqlite.__file__).parent
    asking = {
        str(path.relative_to(package)): found
        for path in package.rglob("*.py")
        if (found := names_in(path.read_text(encoding="utf-8")) & (OWN_TO_SYSTEMS | SAYING))
    }
    assert asking.keys() <= MAY_ASK, asking
    assert asking["settings.py"] == {"sys.platform"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process forks here")
def test_processes_fork_where_the_libraries_of_the_system_allow_it() -> None:
    assert {name: system.can_fork(name) for name in SYSTEMS} == {
        "linux": True,
        "darwin": False,  # its frameworks start threads of their own
        "win32": False,
        "freebsd14": True,
    }


def test_only_windows_is_not_like_the_others() -> None:
    assert [name for name in SYSTEMS if not system.is_posix(name)] == ["win32"]


def test_started_process_is_apart_from_the_terminal_in_the_manner_of_the_system() -> None:
    assert system.apart("linux") == system.apart("darwin") == {"start_new_session": True}
    assert system.apart("win32") == {"creationflags": 512}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/srv/a b/index.db"), "file:///srv/a%20b/index.db"),
        (PureWindowsPath(r"C:\Users\Jo Doe\100%\index.db"), "file:///C:/Users/Jo%20Doe/100%25/index.db"),
        (PureWindowsPath(r"\\host\share\index.db"), "file:////host/share/index.db"),
    ],
)
def test_index_is_opened_by_a_uri_without_authority(path: PurePosixPath | PureWindowsPath, uri: str) -> None:
    """SQLite refuses any authority but localhost. Source: https://www.sqlite.org/uri.html, "URI Path"."""
    assert system.file_uri(path) == uri


def test_sqlite_reads_a_uri_with_four_slashes(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "one.db").close()
    (tmp_path / "one.db").write_bytes(b"")
    sqlite3.connect(f"file:///{tmp_path}/one.db?mode=ro", uri=True).close()
    with pytest.raises(sqlite3.OperationalError, match="invalid uri authority"):
        sqlite3.connect("file://host/share/one.db?mode=ro", uri=True)


def status_of(number: int, modified_ns: int, size: int) -> os.stat_result:
    plain = (0o100644, number, 1, 1, 0, 0, size, modified_ns // 10**9, modified_ns // 10**9, 0)
    times = {"st_atime_ns": 0, "st_mtime_ns": modified_ns, "st_ctime_ns": 0}
    return os.stat_result(plain, times)


def test_time_and_size_tell_files_apart_where_no_number_does() -> None:
    before = identity_of(status_of(0, 1_000, 7))
    assert identity_of(status_of(0, 1_000, 7)) == before
    assert identity_of(status_of(0, 1_100, 7)) != before
    assert identity_of(status_of(0, 1_000, 8)) != before


def test_number_of_a_file_counts_but_on_windows() -> None:
    """There a path and an open file may give two numbers of one file, which would pass for damage."""
    assert [system.file_number(status_of(5, 0, 0), name) for name in SYSTEMS] == [5, 5, 0, 5]


def test_index_is_opened_and_known_without_numbers_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.file_number, "__defaults__", ("win32",))
    path = tmp_path / "index.db"
    sqlite3.connect(path).close()
    path.write_bytes(b"1234")
    db, identity = connect(path)
    db.close()
    assert identity == (0, path.stat().st_mtime_ns, 4)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return the two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_pipes_and_sockets_are_polled_but_on_windows(tmp_path: Path, pipe: tuple[int, int]) -> None:
    one, other = socket.socketpair()
    with (tmp_path / "file").open("wb") as file, one, other:
        for name in ("linux", "darwin"):
            assert system.can_be_polled(pipe[0], name)
            assert system.can_be_polled(one.fileno(), name)
            assert not system.can_be_polled(file.fileno(), name)
        assert not system.can_be_polled(pipe[0], "win32")


Put = Callable[..., list[str]]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Return a function that gives the system a module fcntl, and returns what files are brought to the disk by."""

    def put(*, full: bool, fault: int | None = None) -> list[str]:
        called: list[str] = []

        def flush(_descriptor: int, operation: int) -> None:
            assert operation == 51  # <sys/fcntl.h> of macOS
            called.append("F_FULLFSYNC")
            if fault is not None:
                raise OSError(fault, os.strerror(fault))

        module = SimpleNamespace(fcntl=flush, **({"F_FULLFSYNC": 51} if full else {}))
        monkeypatch.setitem(sys.modules, "fcntl", module)
        monkeypatch.setattr(os, "fsync", lambda _: called.append("fsync"))
        return called

    return put


def test_file_reaches_the_disk_itself_where_fsync_stops_before(disk: Put, tmp_path: Path) -> None:
    called = disk(full=True)
    system.sync_file(0)
    system.sync_folder(tmp_path)
    assert called == ["F_FULLFSYNC", "F_FULLFSYNC"]


def test_file_is_synced_by_fsync_elsewhere(disk: Put) -> None:
    called = disk(full=False)
    system.sync_file(0)
    assert called == ["fsync"]


def test_file_system_that_does_not_know_the_stronger_call_gets_the_weaker(disk: Put) -> None:
    called = disk(full=True, fault=errno.ENOTSUP)
    system.sync_file(0)
    assert called == ["F_FULLFSYNC", "fsync"]


def test_disk_that_failed_is_not_asked_again(disk: Put) -> None:
    called = disk(full=True, fault=errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        system.sync_file(0)
    assert called == ["F_FULLFSYNC"]


def test_folders_are_not_synced_on_windows(tmp_path: Path) -> None:
    system.sync_folder(tmp_path / "none", "win32")


def test_nothing_is_locked_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with (tmp_path / "lock").open("wb") as file:
        assert system.try_lock(file.fileno()) is None


def test_no_memory_is_arranged_but_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    for name in ("darwin", "win32"):
        system.share_one_arena(name)


def refusing(monkeypatch: pytest.MonkeyPatch, times: int, winerror: int | None) -> list[int]:
    """Let replacing fail so many times, and return a list of the tries."""
    tries: list[int] = []
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        tries.append(len(tries))
        if len(tries) <= times:
            problem = PermissionError(errno.EACCES, "Access is denied")
            if winerror is not None:
                problem.winerror = winerror  # type: ignore[attr-defined,unused-ignore]
            raise problem
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    return tries


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Return a new file and the one that it is to replace."""
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    old.write_text("old")
    return new, old


@pytest.mark.parametrize("winerror", [5, 32])
def test_file_that_is_open_is_replaced_once_it_is_closed(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, winerror: int
) -> None:
    tries = refusing(monkeypatch, 2, winerror)
    system.replace(*two)
    assert two[1].read_text() == "new"
    assert len(tries) == 3


def test_file_that_stays_open_is_waited_for_no_longer_than_some_seconds(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "PATIENCE_SECONDS", 0.2)
    tries = refusing(monkeypatch, 10_000, 32)
    with pytest.raises(PermissionError) as refused:
        system.replace(*two)
    assert system.is_held(refused.value)
    assert len(tries) > 1
    assert [path.read_text() for path in two] == ["new", "old"]


@pytest.mark.parametrize("winerror", [None, 17])
def test_other_refusals_are_final(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, winerror: int | None
) -> None:
    tries = refusing(monkeypatch, 10_000, winerror)
    with pytest.raises(PermissionError) as refused:
        system.replace(*two)
    assert not system.is_held(refused.value)
    assert len(tries) == 1
