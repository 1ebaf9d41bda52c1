"""Renews what the documents show of the program; a test compares.

A `console` block behind `<!-- generated -->` shows what its command prints. Behind `<!-- generated, scratch -->` the
command runs in an empty folder that all such blocks of a document share, and a block behind `<!-- file: PATH -->` is
written there first. Between `<!-- rows -->` and `<!-- end -->` stand the rows of the `sql` block before, between
`<!-- schema -->` and `<!-- end -->` the tables and views of an index, between `<!-- queries -->` and `<!-- end -->` the
stored queries for Datasette, and between `<!-- commands -->` and `<!-- end -->` the help of each command.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlite_utils import Database
from sqlite_utils.db import Table

from orchestr8_sqlite.builder.writer import create_schema
from orchestr8_sqlite.cli.app import COMMANDS
from orchestr8_sqlite.index.comments import read_comments
from orchestr8_sqlite.index.datasette.queries import read_stored_queries

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("tutorial.md", "schema.md", "cli.md", "datasette.md")),
)
SHOWN = re.compile(
    r"<!-- file: (?P<path>\S+) -->\n(?P<fence>`{3,4})\w*\n(?P<content>(?:.*\n)*?)(?P=fence)"
    r"|(?P<head><!-- generated(?P<scratch>, scratch)? -->\n```console\n\$ (?P<command>.*)\n)(?:.*\n)*?(?P<tail>```)"
)
COMMANDS_SHOWN = re.compile(r"(<!-- commands -->\n)(?:.*\n)*?(<!-- end -->)")
WIDTH = "100"
"""Columns that the help of commands is laid out for."""
ROWS = re.compile(r"(```sql\n(?P<sql>[^`]*)```\n\n<!-- rows -->\n)(?:.*\n)*?(<!-- end -->)")
QUERIES = re.compile(r"(<!-- queries -->\n)(?:.*\n)*?(<!-- end -->)")
TABLES = re.compile(r"(<!-- schema -->\n)(?:.*\n)*?(<!-- end -->)")


def run(command: str, folder: Path = ROOT) -> str:
    """Return what *command* prints on both streams in *folder*, with this environment's programs first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ORCHESTR8_")}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**environment, "PATH": path, "COLUMNS": WIDTH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout.rstrip("\n") + "\n"


def renewed(text: str) -> str:
    """Return *text* with fresh output in every generated part."""
    with TemporaryDirectory() as scratch:
        text = SHOWN.sub(lambda part: _shown(part, Path(scratch)), text)
    text = COMMANDS_SHOWN.sub(lambda part: "\n".join((part[1], *helps(), part[2])), text)
    text = ROWS.sub(lambda part: f"{part[1]}\n{rows_of(part['sql'])}\n{part[3]}", text)
    text = QUERIES.sub(lambda part: f"{part[1]}\n{queries()}\n{part[2]}", text)
    return TABLES.sub(lambda part: "\n".join((part[1], *schema(), part[2])), text)


def _shown(part: re.Match[str], scratch: Path) -> str:
    """Return a console block with what its command prints, or a block of a file, which is written, as it is."""
    if part["path"]:
        path = scratch / part["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(part["content"], encoding="utf-8")
        return part[0]
    return part["head"] + run(part["command"], scratch if part["scratch"] else ROOT) + part["tail"]


def helps() -> Iterator[str]:
    """Yield a section with the help of each command."""
    for name in COMMANDS:
        yield f"## {name}\n\n```text\n{run(f'orchestr8-sqlite {name} --help').strip()}\n```\n"


def rows_of(sql: str) -> str:
    """Return the rows of a statement on the bundled index as a Markdown table."""
    rows = json.loads(run(f"orchestr8-sqlite sql {shlex.quote(sql)} --json"))
    return markdown_table(list(rows[0]), [list(row.values()) for row in rows]) if rows else "No rows.\n"


def queries() -> str:
    """Return a table of the stored queries."""
    rows = [
        (f"`{query.name}`", f"**{query.title}.** {query.description}", ", ".join(query.parameters))
        for query in read_stored_queries()
    ]
    return markdown_table(("page", "shows", "parameters"), rows)


def schema() -> Iterator[str]:
    """Yield a section for each table and view of an index, with what schema.sql says of it."""
    tables = Database(memory=True)
    create_schema(tables.conn)
    said = read_comments()
    strict = [table for table in tables.tables if table.strict]
    virtual = [table for table in tables.tables if table.virtual_table_using]
    for table in strict:
        comment = said[table.name]
        described = markdown_table(("column", "type", "meaning"), columns(table, comment.columns))
        yield f"### {table.name}\n\n{comment.text}\n\n{described}"
    for other in (*virtual, *tables.views):
        comment = said[other.name]
        text = (
            comment.text.removesuffix(".") + f":\n\n```sql\n{comment.example}\n```" if comment.example else comment.text
        )
        names = ", ".join(f"`{column.name}`" for column in other.columns)
        yield f"### {other.name}\n\n{text}\n\nColumns: {names}.\n"


def columns(table: Table, said: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and comment of each column; the type with what the column points to."""
    pointed = {name: key.other_table for key in table.foreign_keys for name in key.columns}
    code = re.sub("--.*", "", table.schema)
    for column in table.columns:
        kind = f"{column.type}{', key' if column.is_pk else '' if column.notnull else ' or NULL'}"
        target = f" → `{pointed[column.name]}`" if column.name in pointed else ""
        allowed = re.search(rf"CHECK \({column.name} IN\s*\(([^)]*)\)", code)
        values = f" (one of {' '.join(allowed[1].split())})" if allowed else ""
        yield f"`{column.name}`", kind + target, said[column.name] + values


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(value: object) -> str:
    """Return a value as it stands in a Markdown table."""
    text = "" if value is None else " ".join(str(value).split())
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Write the documents anew."""
    for document in DOCUMENTS:
        document.write_text(renewed(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
