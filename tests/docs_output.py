"""Renews what README.md and docs/schema.md show of the program; with --check, exits 1 where they differ from it.

A `console` block behind `<!-- generated -->` shows what its command prints. Between `<!-- rows -->` and `<!-- end -->`
stand the rows of the `sql` block before, between `<!-- schema -->` and `<!-- end -->` the tables and views of an index.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.db import Table

from orchestr8_sqlite.builder.writer import create_schema

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "schema.md")
SCHEMA = ROOT / "orchestr8_sqlite" / "index" / "schema.sql"
CONSOLE = re.compile(r"(<!-- generated -->\n```console\n\$ (?P<command>.*)\n)(?:.*\n)*?(```)")
ROWS = re.compile(r"(```sql\n(?P<sql>[^`]*)```\n\n<!-- rows -->\n)(?:.*\n)*?(<!-- end -->)")
TABLES = re.compile(r"(<!-- schema -->\n)(?:.*\n)*?(<!-- end -->)")
COLUMN = re.compile(r"    (\w+) +(?:TEXT|INTEGER|REAL|BLOB)\b")


def run(command: str) -> str:
    """Return what *command* prints on both streams, with this environment's programs first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ORCHESTR8_")}
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env={**environment, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout.rstrip("\n") + "\n"


def renewed(text: str) -> str:
    """Return *text* with fresh output in every generated part."""
    text = CONSOLE.sub(lambda part: part[1] + run(part["command"]) + part[3], text)
    text = ROWS.sub(lambda part: f"{part[1]}\n{rows_of(part['sql'])}\n{part[3]}", text)
    return TABLES.sub(lambda part: "\n".join((part[1], *schema(), part[2])), text)


def rows_of(sql: str) -> str:
    """Return the rows of a statement on the bundled index as a Markdown table."""
    rows = json.loads(run(f"orchestr8-sqlite sql {shlex.quote(sql)} --json"))
    return markdown_table(list(rows[0]), [list(row.values()) for row in rows]) if rows else "No rows.\n"


def schema() -> Iterator[str]:
    """Yield a section for each table and view of an index, with what schema.sql says of it."""
    tables = Database(memory=True)
    create_schema(tables.conn)
    strict = [table for table in tables.tables if table.strict]
    virtual = [table for table in tables.tables if table.virtual_table_using]
    for table in strict:
        described = markdown_table(("column", "type", "meaning"), columns(table))
        yield f"### {table.name}\n\n{comment_of(table.schema)}{described}"
    for other in (*virtual, *tables.views):
        said, colon, example = comment_before(other.name).rstrip("\n").partition(":\n")
        code = f":\n\n```sql\n{example}\n```" if colon else ""
        names = ", ".join(f"`{column.name}`" for column in other.columns)
        yield f"### {other.name}\n\n{said}{code}\n\nColumns: {names}.\n"


def columns(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and comment of each column; the type with what the column points to."""
    pointed = {name: key.other_table for key in table.foreign_keys for name in key.columns}
    said: dict[str, str] = {}
    name = ""
    for line in table.schema.splitlines()[1:]:
        code, _, comment = line.partition("--")
        name = found[1] if (found := COLUMN.match(code)) else name
        said[name] = f"{said.get(name, '')} {comment.strip()}".strip()
    code = re.sub("--.*", "", table.schema)
    for column in table.columns:
        kind = f"{column.type}{', key' if column.is_pk else '' if column.notnull else ' or NULL'}"
        target = f" → `{pointed[column.name]}`" if column.name in pointed else ""
        allowed = re.search(rf"CHECK \({column.name} IN\s*\(([^)]*)\)", code)
        values = f" (one of {' '.join(allowed[1].split())})" if allowed else ""
        yield f"`{column.name}`", kind + target, said[column.name] + values


def comment_of(statement: str) -> str:
    """Return the comment on the first line of a CREATE TABLE as a paragraph, empty if there is none."""
    comment = statement.splitlines()[0].partition("--")[2].strip()
    return f"{comment[:1].upper()}{comment[1:]}.\n\n" if comment else ""


def comment_before(name: str) -> str:
    """Return the comment lines in front of a view or a virtual table."""
    text = SCHEMA.read_text(encoding="utf-8")
    found = re.search(rf"((?:^-- .*\n)+)CREATE (?:VIRTUAL TABLE|VIEW) {name}\b", text, re.MULTILINE)
    assert found, f"schema.sql says nothing of {name}"
    return "".join(line.removeprefix("-- ") for line in found[1].splitlines(keepends=True))


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(value: object) -> str:
    """Return a value as it stands in a Markdown table."""
    text = "" if value is None else " ".join(str(value).split())
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    """Write or check the documents."""
    outdated = []
    for document in DOCUMENTS:
        old = document.read_text(encoding="utf-8")
        new = renewed(old)
        if old != new:
            outdated.append(document.relative_to(ROOT).as_posix())
        if "--check" not in sys.argv:
            document.write_text(new, encoding="utf-8")
    if outdated and "--check" in sys.argv:
        sys.stderr.write(f"{' and '.join(outdated)} show output that commands no longer print; run: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
