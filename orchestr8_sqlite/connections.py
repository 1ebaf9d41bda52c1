"""Connections to index files, which are replaced as a whole and never changed: what is read of one stays true."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

Identity = tuple[int, int, int]
"""What tells a file from the one that was in its place before: inode, modification time in ns, size in bytes."""


class Reader(sqlite3.Connection):
    """A connection to a file that never changes: what was read of it and is worth keeping stays true."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of sqlite3.connect
        super().__init__(*args, **kwargs)
        self.kept: dict[str, dict[Any, Any]] = {}


def kept_of(db: sqlite3.Connection, what: str) -> dict[Any, Any]:
    """Return what *db* keeps under the name *what*; of a database that may change, nothing is kept."""
    return db.kept.setdefault(what, {}) if isinstance(db, Reader) else {}


def connect(path: Path, look: Callable[[Path, Identity], object] | None = None) -> tuple[sqlite3.Connection, Identity]:
    """Open *path* immutable, for any thread, and return with it which file that is, however often it is replaced.

    Args:
        look: Called for every file that is opened, while it is in its place.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    while True:
        identity = identity_of(path.stat())
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=Reader)
        if look is not None:
            look(path, identity)
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
