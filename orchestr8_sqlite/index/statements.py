"""A user's SQL statement on an index: it can only read, and it ends within bounds of time and memory.

settings      query_only, a schema that is not trusted, nothing sorted in files
authorizer    SELECT, its functions and the pragmas that describe tables, nothing else
limits        seconds, bytes of a value, of all rows and of SQLite's memory; no ATTACH
"""

import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestr8_sqlite.errors import RequestError

LARGEST_VALUE = 64 << 20
"""Bytes of one value or of the result of a function; every skill file that a build accepts is smaller."""

LARGEST_RESULT = 256 << 20
"""Bytes that all rows take as Python objects; they stay in memory until the last one is there."""

MOST_MEMORY = 512 << 20
"""Bytes that SQLite may take in this process, sorting included: it sorts nothing in files."""

STEPS_BETWEEN_CHECKS = 20_000
"""Steps of SQLite's machine, a few milliseconds, after which a statement looks at the clock."""

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "eval"}
"""Functions that reach beyond the database in one build of SQLite or another."""

DESCRIBING = ("table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list")
"""Pragmas that only describe, whatever their argument, as statements and as tables."""

TELLING = {"application_id", "user_version", "page_count", "page_size", "encoding", "data_version"}
"""Pragmas that only describe unless they have an argument; FTS5 asks for the last one."""

SETTINGS = f"""
PRAGMA query_only = ON;
PRAGMA trusted_schema = OFF;
PRAGMA temp_store = MEMORY;
PRAGMA hard_heap_limit = {MOST_MEMORY};
"""
LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
VIRTUAL_TABLES = """
SELECT name FROM sqlite_schema WHERE name IN ('fragment_text', 'fragment_vocabulary', 'keyword_text')
"""
TABLE_FUNCTIONS = ("json_each", "json_tree", *(f"pragma_{name}" for name in DESCRIBING))
CONNECT = "SELECT 1 FROM {} LIMIT 0"
"""To run before only reading is allowed: on its first use SQLite declares such a table, as if it were created."""


def run_statement(db: sqlite3.Connection, statement: str, seconds: float) -> tuple[list[str], list[Sequence[object]]]:
    """Return the column names and the rows of *statement*, which may run for about *seconds*.

    A single function call on large values can take longer; a caller that cannot wait ends the process.

    Raises:
        RequestError: The statement is wrong, does more than read, or exceeds its time or memory.
    """
    confine(db)
    with _deadline(db, seconds):
        try:
            cursor = db.execute(statement)
            rows = list(_bounded(cursor))
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as problem:
            raise RequestError(_sentence(problem, seconds)) from None
    if cursor.description is None:  # nothing but blanks and comments: whatever reads has columns
        raise RequestError("The statement is empty; write a SELECT.")
    return [column[0] for column in cursor.description], rows


def confine(db: sqlite3.Connection) -> None:
    """Restrict *db* to reading, within bounds of memory; again and again it makes no difference."""
    db.set_authorizer(None)
    for table in (*(name for (name,) in db.execute(VIRTUAL_TABLES).fetchall()), *TABLE_FUNCTIONS):
        db.execute(CONNECT.format(table))
    for setting in SETTINGS.split(";"):
        db.execute(setting)
    for limit, value in LIMITS:
        db.setlimit(limit, value)
    db.set_authorizer(_authorize)


def _authorize(action: int, name: str | None, argument: str | None, *_: object) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = str(argument).casefold() not in FORBIDDEN_FUNCTIONS
    elif action == sqlite3.SQLITE_PRAGMA:
        pragma = str(name).casefold()
        allowed = pragma in DESCRIBING or (pragma in TELLING and argument is None)
    else:
        allowed = action in READING
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


@contextmanager
def _deadline(db: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt *db* once the context has lasted *seconds*."""
    end = time.monotonic() + seconds
    db.set_progress_handler(lambda: time.monotonic() > end, STEPS_BETWEEN_CHECKS)
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)


def _bounded(rows: sqlite3.Cursor) -> Iterator[Sequence[object]]:
    """Yield *rows*.

    Raises:
        MemoryError: They exceed LARGEST_RESULT.
    """
    left = LARGEST_RESULT
    for row in rows:
        left -= sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if left < 0:
            raise MemoryError
        yield row


def _sentence(problem: BaseException, seconds: float) -> str:
    code = getattr(problem, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_INTERRUPT:
        return out_of_time(seconds)
    if code in (sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_TOOBIG) or isinstance(problem, MemoryError):
        return (
            f"The statement needs more memory than it may have ({LARGEST_VALUE >> 20} MiB a value, "
            f"{LARGEST_RESULT >> 20} MiB of rows); narrow it down with WHERE or LIMIT."
        )
    if code == sqlite3.SQLITE_AUTH:
        return f"SQLite says: {problem}. Only reading is allowed here."
    return f"SQLite says: {problem}."


def out_of_time(seconds: float) -> str:
    """Return what to say of a statement that was stopped after *seconds*."""
    return f"The statement was ended after {seconds:g} s; narrow it down, or allow it more with --timeout."
