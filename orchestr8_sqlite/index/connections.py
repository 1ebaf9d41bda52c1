"""Connections to index files. Builds replace these as a whole and never change them, so reads stay consistent."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.system import file_number, file_uri

Identity = tuple[int, int, int]
"""Distinguishes a file from its predecessor at the same path: file number, modification time in ns, size in bytes."""

STEPS_BETWEEN_CHECKS = 200_000
"""Steps of SQLite's virtual machine, about 25 ms, between two checks whether a caller still waits."""

bytearray(1 << 23)
"""Allocated and freed at once, to raise the size above which glibc maps memory and unmaps it when freed. Otherwise
glibc may do so for the temporary tables of every statement, and a small search takes twice as long."""


class Rows(Protocol):
    """What a statement has found; a cursor of SQLite is one."""

    @property
    def description(self) -> Sequence[Sequence[Any]]:
        """Return the columns, the name of each first."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Remote(Protocol):
    """A connection to an index that is not in a file."""

    def execute(self, sql: str, parameters: Mapping[str, object] = ..., /) -> Rows:
        """Return the rows of a statement that is written for SQLite."""

    def heed(self, is_abandoned: Callable[[], bool] | None, /) -> None:
        """Begin no further statement once *is_abandoned* returns True."""

    def interrupt(self) -> None:
        """End the statement that is running, from another thread, soon."""

    def close(self) -> None:
        """Close the connection."""


Reader = sqlite3.Connection | Remote
"""What an index is read through."""


def limit_pages(db: Reader, kibibytes: int) -> None:
    """Limit the page cache of *db*, if it reads a file."""
    if isinstance(db, sqlite3.Connection):
        db.execute(f"PRAGMA cache_size = -{kibibytes:d}")


def heed(db: Reader, is_abandoned: Callable[[], bool] | None) -> None:
    """Interrupt the statements of *db* once *is_abandoned* returns True: no caller waits any more. None: never.

    Only SQLite looks while a statement runs; elsewhere, the one who no longer waits interrupts it.
    """
    if isinstance(db, sqlite3.Connection):
        db.set_progress_handler(is_abandoned, STEPS_BETWEEN_CHECKS if is_abandoned else 0)
    else:
        db.heed(is_abandoned)


def hurry(db: Reader) -> None:
    """End the statement that runs on *db* soon, if it does not look by itself whether anybody waits."""
    if not isinstance(db, sqlite3.Connection):
        db.interrupt()


def connect(path: Path, look: Callable[[Path, Identity], object] | None = None) -> tuple[sqlite3.Connection, Identity]:
    """Return a connection to *path*, opened as immutable and usable from any thread, and the file's identity.

    Args:
        look: Called with each file that is opened, before it is checked that the file is still in place.

    Raises:
        CatalogError: The path is a pipe, a device or a folder; opening one could block forever.
    """
    uri = f"{file_uri(path.absolute())}?mode=ro&immutable=1"
    while True:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CatalogError(f"{path} is not a file; name the file of an index.")
        identity = identity_of(status)
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        if look is not None:
            look(path, identity)
        if is_at(path, identity):
            return db, identity
        db.close()


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity of a file from its *status*."""
    return file_number(status), status.st_mtime_ns, status.st_size


def is_at(path: Path, identity: Identity) -> bool:
    """Tell whether the file at *path* is the one with *identity*."""
    try:
        return identity_of(os.stat(path)) == identity  # noqa: PTH116 - takes half the time
    except OSError:
        return False
