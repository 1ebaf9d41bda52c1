"""Rows that are written many at a time."""

import sqlite3
from contextlib import closing

import pytest

from orchestr8_sqlite.bulk import ROWS, insert_rows

INSERT = "INSERT INTO word VALUES (?, ?)"
ADD = "INSERT INTO word VALUES (?, ?) ON CONFLICT (text) DO UPDATE SET held = held + excluded.held"


def words(db: sqlite3.Connection) -> list[tuple[str, int]]:
    return db.execute("SELECT * FROM word ORDER BY text").fetchall()


@pytest.mark.parametrize("count", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS, 3 * ROWS + 7])
def test_all_rows_are_written_however_many_there_are(count: int) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE word (text TEXT PRIMARY KEY, held INTEGER)")
        rows = [(f"{number:04}", number) for number in range(count)]
        insert_rows(db, INSERT, iter(rows))
        assert words(db) == rows


def test_rows_that_are_there_are_changed_where_the_statement_says_so() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE word (text TEXT PRIMARY KEY, held INTEGER)")
        rows = [(f"{number:04}", 1) for number in range(2 * ROWS)]
        insert_rows(db, ADD, rows)
        insert_rows(db, ADD, [(text, 2) for text, _ in rows[5:]])
        assert words(db) == rows[:5] + [(text, 3) for text, _ in rows[5:]]


def test_row_that_is_there_is_an_error_where_the_statement_says_nothing_of_it() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE word (text TEXT PRIMARY KEY, held INTEGER)")
        with pytest.raises(sqlite3.IntegrityError):
            insert_rows(db, INSERT, [(f"{number}", 0) for number in range(ROWS)] + [("7", 0)])
