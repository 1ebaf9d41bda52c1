"""The index file that a build writes: checks the target beforehand and replaces it in one step.

An error of the system or SQLite becomes one sentence: what, where, what to do.
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
"""SQLite's codes for a fault of the machine, not of the database: a full build would fail the same way."""

TICK_NS = 100_000_000
"""How far a file's change time may lag on the same clock, in ns: file systems use the time of the last tick."""

FAST_WRITES = """
PRAGMA page_size = 4096;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
"""
"""Safe here, because the whole file is synced before it gets its name."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield the path to write an index to, then put it in place of *target*; after a failure *target* is unchanged.

    Raises:
        BuildError: The index could not be written or put in place.
    """
    with _writing(target) as temporary:
        yield temporary
        put_in_place(temporary, target)


@contextmanager
def _writing(target: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside *target*; turn errors of the system or SQLite into a BuildError."""
    try:
        with temporary_beside(target) as temporary:
            if target.exists():  # keep the new file private until it gets the target's permissions
                os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield temporary
    except (OSError, sqlite3.Error) as problem:
        raise BuildError(explain(problem, target)) from problem


def behind_links(target: Path) -> Path:
    """Return the file behind *target* if that is a symbolic link: a build replaces the file and keeps the link."""
    return target.resolve() if target.is_symlink() else target


def check_target(target: Path) -> None:
    """Raise BuildError if writing to *target* would lose something or cannot work."""
    if not target.parent.is_dir():
        raise BuildError(f"The folder {target.parent} does not exist; create it first.")
    if target.is_dir():
        raise BuildError(f"{target} is a folder; name a file.")
    if target.exists() and not target.is_file():  # opening a pipe would block; a device would be replaced
        raise BuildError(f"{target} is not a file; name another one.")
    if not target.exists() or target.stat().st_size == 0:
        return
    with target.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0") or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise BuildError(f"{target} exists and is not an orchestr8-sqlite index; name another file or remove it.")
    for suffix in ("-wal", "-journal"):
        if target.with_name(target.name + suffix).exists():
            raise BuildError(
                f"{target}{suffix} exists: another program is changing the index; close it and remove the file."
            )


class Moment(NamedTuple):
    """A moment by two clocks, in ns: the wall clock since 1970, which may be wrong, and the monotonic clock."""

    since_1970: int
    running: int


def date(index: Path | int, began: Moment) -> None:
    """Set the modification time of *index*, a path or a descriptor, to when its build *began* to read files.

    Later builds compare this with the change times of files, which are by the clock of the file system. That clock may
    belong to another machine and be behind ours.
    """
    os.utime(index, ns=(began.since_1970, began.since_1970))
    if is_posix():  # other systems do not record when a file was last changed
        status = os.stat(index)  # noqa: PTH116 - of a path or a descriptor
        by_its_clock = status.st_ctime_ns - (time.monotonic_ns() - began.running)
        if by_its_clock < began.since_1970 - TICK_NS:
            os.utime(index, ns=(by_its_clock, by_its_clock))


def renew_time(target: Path, identity: Identity, began: Moment) -> None:
    """Set the time of the index at *target* to when this build *began* to read files, if that is possible.

    The next build then need not check files again that were touched before this one.
    """
    if os.utime not in os.supports_fd:
        return
    with suppress(OSError), target.open("rb") as file:  # a readable file whose time we may not set stays as it is
        if identity_of(os.fstat(file.fileno())) == identity:
            date(file.fileno(), began)


class Draft:
    """A copy of a file, made and synced by a thread while the caller works out what to change in it."""

    def __init__(self, source: Path, path: Path) -> None:
        self.path = path
        self.is_wanted = False
        self._source = source
        self._thread: Thread | None = None
        self._is_there = Event()
        self._is_over = False
        self._problem: OSError | None = None

    def begin(self) -> None:
        """Begin to copy, unless that has begun."""
        if self._thread is None:
            self._thread = Thread(target=self._write, name="draft", daemon=True)
            self._thread.start()

    def ready(self) -> Path:
        """Wait for the copy and return its path; anything written to it from then on is not synced yet.

        Raises:
            OSError: The copy could not be made.
        """
        self.begin()
        self.is_wanted = True
        self._is_there.wait()
        if self._problem is not None:
            raise self._problem
        return self.path

    def finish(self) -> None:
        """Wait until the copy is on the disk; an unwanted copy need not be synced.

        Raises:
            OSError: The copy is wanted, but could not be made or synced.
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
    """Yield a copy of *target*, then put it in place of *target* if it is wanted.

    Raises:
        BuildError: The copy could not be written or put in place.
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
    """Sync a file in a thread while *work* reads it.

    Raises:
        OSError: The disk failed; the system reports this only once, so a later sync would not.
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
    """Add the checksum to the finished file, sync it, rename it over *target*, and sync the folder.

    Raises:
        OSError: The file could not be synced or renamed.
        BuildError: The file is in place, but the folder could not be synced; or another program has *target* open.
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
    """Give *temporary* the mode of *target*, if that exists, and its owner and group if that is allowed."""
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
    """Free the replaced file's space in a background thread: that takes as long as copying the file."""
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
    """Close a deleted file that was only read; if the disk fails now, nothing is lost."""
    with suppress(OSError):
        os.close(number)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection to the database at *path*, which no other program uses yet."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(FAST_WRITES)
    return db


def is_of_the_disk(problem: sqlite3.Error) -> bool:
    """Tell whether SQLite failed because of the machine, not because of the database's content."""
    return _code(problem) in OF_THE_DISK


def explain(problem: OSError | sqlite3.Error, target: Path) -> str:
    """Return why the index at *target* could not be written, and what to do."""
    return f"The index {target} could not be written: {_reason(problem, target.parent)}."


def _reason(problem: OSError | sqlite3.Error, folder: Path) -> str:
    code = problem.errno if isinstance(problem, OSError) else _code(problem)
    said = problem.strerror if isinstance(problem, OSError) else problem
    if isinstance(problem, OSError):
        if problem.filename is not None and Path(problem.filename).parent.resolve() != folder.resolve():
            return f"{problem.filename} cannot be used ({said}); fix that and build again"
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
    """Return SQLite's primary result code, 0 if Python raised the error itself."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF
