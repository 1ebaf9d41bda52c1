"""The index file that a build makes: checked before, and put in place in one step."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from orchestr8_sqlite.catalog import APPLICATION_ID
from orchestr8_sqlite.connections import Identity, identity_of
from orchestr8_sqlite.errors import BuildError


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield where to write an index; afterwards it takes the place of *target*, which stays as it is after a failure.

    Raises:
        BuildError: It could not be written or put in place.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        yield temporary
        if temporary.exists():
            put_in_place(temporary, target)
    except (OSError, sqlite3.Error) as problem:
        raise BuildError(f"The index {target} could not be written: {problem}.") from problem
    finally:
        temporary.unlink(missing_ok=True)


def check_target(target: Path) -> None:
    """Raise BuildError where writing to *target* would lose something or cannot work."""
    if not target.parent.is_dir():
        raise BuildError(f"The folder {target.parent} does not exist; create it first.")
    if target.is_dir():
        raise BuildError(f"{target} is a folder; name a file.")
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


def renew_time(target: Path, identity: Identity, began: int) -> None:
    """Let the index that is *target* be as old as the last look at its files, in ns since 1970, where that is possible.

    The next build need not doubt files then that were touched before this one.
    """
    if os.utime not in os.supports_fd:
        return
    with suppress(OSError), target.open("rb") as file:  # one that may be read, but not touched, stays as it is
        if identity_of(os.fstat(file.fileno())) == identity:
            os.utime(file.fileno(), ns=(began, began))


class _Sync(Thread):
    """Waits until what a file holds is on the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="sync", daemon=True)
        self._path = path
        self.problem: OSError | None = None

    def run(self) -> None:
        try:
            _sync(self._path)
        except OSError as problem:
            self.problem = problem


@contextmanager
def syncing(path: Path) -> Iterator[None]:
    """Let what the file holds already reach the disk while the context lasts, so that less is left for its end.

    Raises:
        OSError: It does not.
    """
    sync = _Sync(path)
    sync.start()
    try:
        yield
    finally:
        sync.join()
    if sync.problem is not None:
        raise sync.problem


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def put_in_place(temporary: Path, target: Path) -> None:
    """Sync the finished file, rename it over *target*, and sync the folder that names it."""
    _sync(temporary)
    temporary.replace(target)
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
