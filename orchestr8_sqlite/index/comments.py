"""What the comments in schema.sql say of tables, views and columns, for programs that show it."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

TABLE = re.compile(r"^CREATE TABLE (\w+) \(  -- (.*)\n((?:    .*\n)+)", re.MULTILINE)
OTHER = re.compile(r"^((?:-- .*\n)+)CREATE (?:VIRTUAL TABLE|VIEW) (\w+)", re.MULTILINE)
COLUMN = re.compile(r"    (\w+) +(?:TEXT|INTEGER|REAL|BLOB)\b")


class Comment(NamedTuple):
    """What is said of a table or view and of its columns; `example` is a statement to begin with, or empty."""

    text: str
    columns: Mapping[str, str]
    example: str


def read_comments() -> dict[str, Comment]:
    """Return the comments of all tables and views by name, in the order of the schema; views have none of columns."""
    schema = files("orchestr8_sqlite.index").joinpath("schema.sql").read_text(encoding="utf-8")
    found = {}
    for table in TABLE.finditer(schema):
        found[table.start()] = table[1], Comment(_sentence(table[2]), _of_columns(table[3]), "")
    for other in OTHER.finditer(schema):
        text, _, example = other[1].replace("\n-- ", "\n").removeprefix("-- ").rstrip("\n").partition(":\n")
        found[other.start()] = other[2], Comment(_sentence(text), {}, example)
    return dict(found[place] for place in sorted(found))


def _of_columns(lines: str) -> dict[str, str]:
    """Return what is said beside each column and on the lines after it."""
    said: dict[str, str] = {}
    name = ""
    for line in lines.splitlines():
        code, _, comment = line.partition("--")
        name = column[1] if (column := COLUMN.match(code)) else name
        said[name] = f"{said.get(name, '')} {comment.strip()}".strip()
    return said


def _sentence(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return f"{line[:1].upper()}{line[1:]}."
