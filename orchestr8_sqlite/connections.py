"""Connections to index files, which are replaced as a whole and never changed: what is read of one stays true."""

import os
import sqlite3
from pathlib import Path
from typing import Any

Identity = tuple[int, int, int]
"""What tells a file from the one that was in its place before: inode, modification time in ns, size in bytes."""


class Reader(sqlite3.Connection):
    """A connection to a file that never changes: what was read of it and is worth keeping stays true."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of sqlite3.connect
        super().__init__(*args, **kwargs)
        self.kept: dict[str, dict[Any, Any]] = {}
        self.own: dict[Any, Any] = {}
        self.pages: int | None = None


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


def connect(path: Path) -> tuple[sqlite3.Connection, Identity]:
    """Open *path* immutable, for any thread, and return with it which file that is, however often it is replaced."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    while True:
        identity = identity_of(path.stat())
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=Reader)
        if is_at(path, identity):
            return db, identity
        db.close()


def identity_of(status: os.stat_result) -> Identity:
    """Return what changes when another file is put in the place of one, from what the system says of it."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def is_at(path: Path, identity: Identity) -> bool:
    """Tell whether the file at *path* is the one that *identity* was taken of."""
    try:
        return identity_of(os.stat(path)) == identity  # noqa: PTH116 - half as dear
    except OSError:
        return False
