"""`sql` on a terminal: reads each statement until it is complete, runs it, and prints its problems."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from orchestr8_sqlite.cli.options import print_rows
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.catalog import Catalog

PROMPT, MORE = "sql> ", "...> "
HELP = """End a statement with ; to run it. Statements can only read.

.tables        tables and views
.schema NAME   the SQL that creates one of them, with a comment for each column
.quit          leave; so does the end of input"""
NAMES = """
SELECT name, type FROM sqlite_schema
 WHERE type IN ('table', 'view') AND name NOT LIKE '%\\_text\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
 ORDER BY type DESC, name
"""
SCHEMA = "SELECT sql FROM sqlite_schema WHERE name = ?"


def read_statements(catalog: Catalog, run: Callable[[str], None]) -> None:
    """Read statements from the terminal and *run* each, until the end of input."""
    with suppress(ImportError):  # Windows
        import_module("readline")  # gives input() its history and editing
    echo(f"{catalog.path}: .help for help, .quit to leave")
    text = ""
    while True:
        try:
            text += input(MORE if text else PROMPT) + "\n"
        except EOFError:
            echo("")
            return
        except KeyboardInterrupt:
            echo("")
            text = ""
            continue
        if text.strip() == ".quit":
            return
        if text.startswith("."):
            _tell(catalog.db, text)
        elif not text.strip() or sqlite3.complete_statement(text):
            _attempt(run, text.strip())
        else:
            continue
        text = ""


def _attempt(run: Callable[[str], None], statement: str) -> None:
    try:
        if statement:
            run(statement)
    except RequestError as problem:
        echo(str(problem), err=True)


def _tell(db: sqlite3.Connection, line: str) -> None:
    """Answer a line that begins with a dot."""
    command, _, name = line.strip().partition(" ")
    if command == ".tables":
        print_rows(("name", "kind"), db.execute(NAMES).fetchall())
    elif command == ".schema" and name:
        row = db.execute(SCHEMA, (name.strip().rstrip(";"),)).fetchone()
        echo(row[0] if row else f"There is no {name.strip()}; .tables lists what there is.")
    else:
        echo(HELP)
