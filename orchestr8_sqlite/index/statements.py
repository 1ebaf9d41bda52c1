"""Runs a user's SQL statement on an index: it can only read, and its time and memory are bounded.

settings      query_only, untrusted schema, no sorting in files
authorizer    only SELECT, its functions, and the pragmas that describe tables
limits        seconds; bytes of a value, of all rows and of SQLite's memory; no ATTACH
"""

import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestr8_sqlite.errors import RequestError

LARGEST_VALUE = 64 << 20
"""Limit in bytes of one value or function result; every skill file that a build accepts is smaller."""

LARGEST_RESULT = 256 << 20
"""Limit in bytes of all rows as Python objects; they stay in memory until the last one is read."""

DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Primary result codes of SQLite for a damaged file."""

MOST_MEMORY = 512 << 20
"""Limit in bytes of SQLite's memory in this process, sorting included: it never sorts in files."""

STEPS_BETWEEN_CHECKS = 20_000
"""Steps of SQLite's virtual machine, a few milliseconds, between two looks at the clock."""

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "eval"}
"""Functions that some builds of SQLite have and that reach beyond the database."""

DESCRIBING = ("table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list")
"""Pragmas that only describe, whatever their argument, both as statements and as tables."""

TELLING = {"application_id", "user_version", "page_count", "page_size", "encoding", "data_version"}
"""Pragmas that only describe if they have no argument; FTS5 reads the last one."""

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
"""Run before the authorizer is set: on first use SQLite declares a virtual table as if it were created."""


def run_statement(db: sqlite3.Connection, statement: str, seconds: float) -> tuple[list[str], list[Sequence[object]]]:
    """Return the column names and the rows of *statement*, which may run for about *seconds*.

    A single function call on large values can take longer; a caller that cannot wait ends the process.

    Raises:
        RequestError: The statement is wrong, does more than read, or exceeds its time or memory.
        sqlite3.DatabaseError: The index is damaged.
    """
    confine(db)
    with _deadline(db, seconds):
        try:
            cursor = db.execute(statement)
            rows = list(_bounded(cursor))
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as problem:
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
                raise
            raise RequestError(_sentence(problem, seconds)) from None
    if cursor.description is None:  # only blanks and comments: every statement that reads has columns
        raise RequestError("The statement is empty; write a SELECT.")
    return [column[0] for column in cursor.description], rows


def confine(db: sqlite3.Connection) -> None:
    """Restrict *db* to reading within the memory limits; calling this again changes nothing."""
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
    """Interrupt the statements of *db* once *seconds* have passed in the context."""
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
    """Return the sentence about a statement that was stopped after *seconds*."""
    return f"The statement was ended after {seconds:g} s; narrow it down, or allow it more with --timeout."
