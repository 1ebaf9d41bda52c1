"""Connections to index files. Builds replace these as a whole and never change them, so reads stay consistent."""

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.system import file_number, file_uri

Identity = tuple[int, int, int]
"""Distinguishes a file from its predecessor at the same path: file number, modification time in ns, size in bytes."""

STEPS_BETWEEN_CHECKS = 200_000
"""Steps of SQLite's virtual machine, about 25 ms, between two checks whether a caller still waits."""

bytearray(1 << 23)
"""Allocated and freed at once, to raise the size above which glibc maps memory and unmaps it when freed. Otherwise
glibc may do so for the temporary tables of every statement, and a small search takes twice as long."""


def limit_pages(db: sqlite3.Connection, kibibytes: int) -> None:
    """Limit the page cache of *db*."""
    db.execute(f"PRAGMA cache_size = -{kibibytes:d}")


def heed(db: sqlite3.Connection, is_abandoned: Callable[[], bool] | None) -> None:
    """Interrupt the statements of *db* once *is_abandoned* returns True: no caller waits any more. None: never."""
    db.set_progress_handler(is_abandoned, STEPS_BETWEEN_CHECKS if is_abandoned else 0)


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
