"""Connections to index files, which are replaced as a whole and never changed: what is read of one stays true."""

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.system import file_number, file_uri

Identity = tuple[int, int, int]
"""What tells a file from the one that was in its place before: number, modification time in ns, size in bytes."""

STEPS_BETWEEN_CHECKS = 200_000
"""Steps of SQLite's machine, about 25 ms of work, after which a statement asks whether anybody waits for it still."""


class Reader(sqlite3.Connection):
    """A connection to a file that never changes: what was read of it and is worth keeping stays true."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of sqlite3.connect
        super().__init__(*args, **kwargs)
        self.kept: dict[str, dict[Any, Any]] = {}
        self.own: dict[Any, Any] = {}
        self.pages: int | None = None
        self.is_abandoned: Callable[[], bool] | None = None


def kept_of(db: sqlite3.Connection, what: str) -> dict[Any, Any]:
    """Return what *db* keeps under the name *what*, perhaps with others: whoever changes it allows for other threads.

    Of a database that may change, nothing is kept.
    """
    return db.kept.setdefault(what, {}) if isinstance(db, Reader) else {}


def own_of(db: sqlite3.Connection) -> dict[Any, Any]:
    """Return what *db* keeps for itself alone; of a database that may change, nothing is kept."""
    return db.own if isinstance(db, Reader) else {}


def keep_together(db: sqlite3.Connection, other: sqlite3.Connection) -> None:
    """Let *db*, of which nothing was read yet, keep what it reads in one place with *other*, of the same file."""
    if isinstance(db, Reader) and isinstance(other, Reader):
        db.kept = other.kept


def limit_pages(db: sqlite3.Connection, kibibytes: int) -> None:
    """Let *db* keep no more than so much of the file's pages from now on."""
    if isinstance(db, Reader) and db.pages != kibibytes:
        db.execute(f"PRAGMA cache_size = -{kibibytes:d}")
        db.pages = kibibytes


def heed(db: sqlite3.Connection, is_abandoned: Callable[[], bool] | None) -> None:
    """From now on ask *is_abandoned* in the midst of long work whether anybody waits for what *db* is asked."""
    db.set_progress_handler(is_abandoned, STEPS_BETWEEN_CHECKS if is_abandoned else 0)
    if isinstance(db, Reader):
        db.is_abandoned = is_abandoned


def stop_if_abandoned(db: sqlite3.Connection) -> None:
    """Fail as a statement of *db* does where nobody waits any more; for work on what was read, between its parts."""
    if isinstance(db, Reader) and db.is_abandoned is not None and db.is_abandoned():
        problem = sqlite3.OperationalError("interrupted")
        problem.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
        raise problem


def connect(path: Path, look: Callable[[Path, Identity], object] | None = None) -> tuple[sqlite3.Connection, Identity]:
    """Open *path* immutable, for any thread, and return with it which file that is, however often it is replaced.

    Args:
        look: Called for every file that is opened, while it is in its place.

    Raises:
        CatalogError: It is a pipe, a device or a folder; opening one could wait without end.
    """
    uri = f"{file_uri(path.absolute())}?mode=ro&immutable=1"
    while True:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CatalogError(f"{path} is no file; name the file of an index.")
        identity = identity_of(status)
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=Reader)
        if look is not None:
            look(path, identity)
        if is_at(path, identity):
            return db, identity
        db.close()


def identity_of(status: os.stat_result) -> Identity:
    """Return what changes when another file is put in the place of one, from what the system says of it."""
    return file_number(status), status.st_mtime_ns, status.st_size


def is_at(path: Path, identity: Identity) -> bool:
    """Tell whether the file at *path* is the one that *identity* was taken of."""
    try:
        return identity_of(os.stat(path)) == identity  # noqa: PTH116 - half as dear
    except OSError:
        return False
