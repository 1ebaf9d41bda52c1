"""The index file that a build makes: checked before, and put in place in one step.

What the system or SQLite refuses meanwhile becomes one sentence: what, where, what to do.
"""

import errno
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.index.catalog import APPLICATION_ID
from orchestr8_sqlite.index.checksums import add_checksum, remember_written
from orchestr8_sqlite.index.connections import Identity, identity_of
from orchestr8_sqlite.index.leftovers import temporary_beside
from orchestr8_sqlite.system import give, is_held, is_posix, replace, sync_file, sync_folder

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

SQLITE_DENIED = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH})
OF_THE_DISK = SQLITE_DENIED | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}
"""What SQLite reports where not the database is wrong but the machine: another try would end the same."""

TICK_NS = 100_000_000
"""By how much the time of a change may be behind on the same clock; it is taken from the last tick."""

FAST_WRITES = """
PRAGMA page_size = 4096;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
"""
"""Safe here: the file is synced as a whole before it gets its name."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield where to write an index; afterwards it takes the place of *target*, which stays as it is after a failure.

    Raises:
        BuildError: It could not be written or put in place.
    """
    with _writing(target) as temporary:
        yield temporary
        put_in_place(temporary, target)


@contextmanager
def _writing(target: Path) -> Iterator[Path]:
    """Yield the name of a temporary file beside *target*; what the system refuses meanwhile is a BuildError."""
    try:
        with temporary_beside(target) as temporary:
            if target.exists():  # until it has the rights of that one, nobody else may read it
                os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield temporary
    except (OSError, sqlite3.Error) as problem:
        raise BuildError(explain(problem, target)) from problem


def behind_links(target: Path) -> Path:
    """Return the file that *target* leads to, where it is a symbolic link: that is replaced, and the link stays."""
    return target.resolve() if target.is_symlink() else target


def check_target(target: Path) -> None:
    """Raise BuildError where writing to *target* would lose something or cannot work."""
    if not target.parent.is_dir():
        raise BuildError(f"The folder {target.parent} does not exist; create it first.")
    if target.is_dir():
        raise BuildError(f"{target} is a folder; name a file.")
    if target.exists() and not target.is_file():  # a pipe would be waited for, a device replaced
        raise BuildError(f"{target} is no file; name another one.")
    if not target.exists() or target.stat().st_size == 0:
        return
    with target.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0") or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise BuildError(f"{target} exists and is no orchestr8-sqlite index; name another file or remove it.")
    for suffix in ("-wal", "-journal"):
        if target.with_name(target.name + suffix).exists():
            raise BuildError(
                f"{target}{suffix} exists: another program is changing the index; close it and remove the file."
            )


class Moment(NamedTuple):
    """A moment by two clocks, in ns: since 1970, which may be set and be wrong, and since whenever, which only runs."""

    since_1970: int
    running: int


def date(index: Path | int, began: Moment) -> None:
    """Let an index, a path or a descriptor, be as old as the look at its files that *began* then.

    Files are compared with that time by when they were changed, and this is said by the clock of the file system: of
    another machine, it may be behind ours.
    """
    os.utime(index, ns=(began.since_1970, began.since_1970))
    if is_posix():  # elsewhere nothing is said of the last change
        status = os.stat(index)  # noqa: PTH116 - of a path or a descriptor
        by_its_clock = status.st_ctime_ns - (time.monotonic_ns() - began.running)
        if by_its_clock < began.since_1970 - TICK_NS:
            os.utime(index, ns=(by_its_clock, by_its_clock))


def renew_time(target: Path, identity: Identity, began: Moment) -> None:
    """Let the index that is *target* be as old as the last look at its files, where that is possible.

    The next build need not doubt files then that were touched before this one.
    """
    if os.utime not in os.supports_fd:
        return
    with suppress(OSError), target.open("rb") as file:  # one that may be read, but not touched, stays as it is
        if identity_of(os.fstat(file.fileno())) == identity:
            date(file.fileno(), began)


class Draft:
    """A copy of a file that a thread makes and brings to the disk while it is looked what is to be changed in it."""

    def __init__(self, source: Path, path: Path) -> None:
        self.path = path
        self.is_wanted = False
        self._source = source
        self._thread: Thread | None = None
        self._is_there = Event()
        self._is_over = False
        self._problem: OSError | None = None

    def begin(self) -> None:
        """Begin to copy, if that is not done already."""
        if self._thread is None:
            self._thread = Thread(target=self._write, name="draft", daemon=True)
            self._thread.start()

    def ready(self) -> Path:
        """Return where the copy is once it is whole; what is written to it from then on is yet to be synced.

        Raises:
            OSError: It could not be made.
        """
        self.begin()
        self.is_wanted = True
        self._is_there.wait()
        if self._problem is not None:
            raise self._problem
        return self.path

    def finish(self) -> None:
        """Wait until the copy is on the disk; where nobody wants it, that is not waited for.

        Raises:
            OSError: It could not be made or synced, and is wanted.
        """
        self._is_over = not self.is_wanted
        if self._thread is not None:
            self._thread.join()
        if self.is_wanted and self._problem is not None:
            raise self._problem

    def _write(self) -> None:
        try:
            shutil.copyfile(self._source, self.path)
            self._is_there.set()
            if not self._is_over:
                _sync(self.path)
        except OSError as problem:
            self._problem = problem
        finally:
            self._is_there.set()


@contextmanager
def drafting(target: Path) -> Iterator[Draft]:
    """Yield a copy of *target* that takes its place afterwards where it is wanted.

    Raises:
        BuildError: It could not be written or put in place.
    """
    with _writing(target) as path:
        draft = Draft(target, path)
        try:
            yield draft
        finally:
            draft.finish()
        if draft.is_wanted:
            put_in_place(path, target)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        sync_file(file.fileno())


def _sync_meanwhile(path: Path, work: Callable[[Path], None]) -> None:
    """Write most of a file to the disk while *work* reads it.

    Raises:
        OSError: The disk failed, which it says but once.
    """
    problems: list[OSError] = []

    def sync() -> None:
        try:
            _sync(path)
        except OSError as problem:
            problems.append(problem)

    syncing = Thread(target=sync, name="sync")
    syncing.start()
    try:
        work(path)
    finally:
        syncing.join()
    if problems:
        raise problems[0]


def put_in_place(temporary: Path, target: Path) -> None:
    """Add its checksum to the finished file, sync it, rename it over *target*, and sync the folder that names it.

    Raises:
        OSError: The file could not be synced or renamed.
        BuildError: It is in place, but the folder could not be synced; or a program holds what is there.
    """
    _sync_meanwhile(temporary, add_checksum)
    _sync(temporary)
    _copy_rights(target, temporary)
    identity = identity_of(temporary.stat())
    with _freeing_aside(target):
        _replace(temporary, target)
    remember_written(target, identity)
    try:
        sync_folder(target.parent)
    except OSError as problem:
        raise BuildError(
            f"The index {target} is in place, but its folder could not be synced ({problem.strerror}): a loss of power "
            "may bring the one before back; check the disk, then build again with --full."
        ) from problem


def _copy_rights(target: Path, temporary: Path) -> None:
    """Give *temporary* the mode of *target*, if that is there, and its owner and group where that is allowed."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return
    give(temporary, status)
    temporary.chmod(stat.S_IMODE(status.st_mode))


def _replace(temporary: Path, target: Path) -> None:
    try:
        replace(temporary, target)
    except OSError as problem:
        if not is_held(problem):
            raise
        raise BuildError(
            f"The index {target} is open in another program, which this system does not let be replaced; end the "
            "servers that use it, then build again."
        ) from problem


@contextmanager
def _freeing_aside(target: Path) -> Iterator[None]:
    """Let a thread give free what *target* occupies, where it is replaced: that takes as long as copying it."""
    before = None
    if is_posix():
        with suppress(FileNotFoundError):
            before = os.open(target, os.O_RDONLY)
    try:
        yield
    finally:
        if before is not None:
            Thread(target=_close, args=(before,), name="free", daemon=True).start()


def _close(number: int) -> None:
    """Close a file that was only read and is no more: a disk that fails now loses nothing."""
    with suppress(OSError):
        os.close(number)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the database at *path*, which nobody else knows yet."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(FAST_WRITES)
    return db


def is_of_the_disk(problem: sqlite3.Error) -> bool:
    """Tell whether SQLite failed for the machine and not for what a database holds."""
    return _code(problem) in OF_THE_DISK


def explain(problem: OSError | sqlite3.Error, target: Path) -> str:
    """Return why the index at *target* could not be written, and what to do."""
    return f"The index {target} could not be written: {_reason(problem, target.parent)}."


def _reason(problem: OSError | sqlite3.Error, folder: Path) -> str:
    code = problem.errno if isinstance(problem, OSError) else _code(problem)
    said = problem.strerror if isinstance(problem, OSError) else problem
    if isinstance(problem, OSError):
        if problem.filename is not None and Path(problem.filename).parent.resolve() != folder.resolve():
            return f"{problem.filename} cannot be used ({said}); mend that and build again"
        is_full, is_denied, is_broken = code in FULL, code in DENIED, code == errno.EIO
    else:
        is_full, is_denied = code == sqlite3.SQLITE_FULL, code in SQLITE_DENIED
        is_broken = code == sqlite3.SQLITE_IOERR
    if is_full:
        return f"no space is left in {folder}, or where temporary files go ({said}); free some and build again"
    if is_denied:
        return f"{folder} may not be written to ({said}); allow it, or name another place for the index"
    if is_broken:
        return f"the disk of {folder} failed ({said}); check it, then build again with --full"
    return f"{said}; build again with --full"


def _code(problem: sqlite3.Error) -> int:
    """Return the primary result code of SQLite, 0 where Python raised the error itself."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF
