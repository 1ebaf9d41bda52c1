"""What the system or SQLite says when a file cannot be written → one sentence: what, where, what to do."""

import errno
import sqlite3
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

SQLITE_DENIED = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH})
OF_THE_DISK = SQLITE_DENIED | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}
"""What SQLite reports where not the database is wrong but the machine: another try would end the same."""


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
