"""Options that several commands share, and how commands print rows and JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.terminal import echo, echo_json, harmless

Database = Annotated[
    Path | None,
    typer.Option("--db", help="Index file. Default: ORCHESTR8_DB, else the bundled index.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Category = Annotated[str | None, typer.Option("--category", help="Category of files that name none.")]
Deny = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="Refuse files with findings of this level or worse: high | medium | low."),
]
Roots = Annotated[list[Path], typer.Argument(metavar="ROOT...", help="Folders of Markdown files.", show_default=False)]


def print_json(value: object) -> None:
    """Print *value* as indented JSON."""
    echo_json(json.dumps(value, ensure_ascii=False, indent=2, default=_hex))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table on a terminal, tab-separated with a header line in a pipe."""
    if not sys.stdout.isatty():
        echo("\t".join(columns))
        for row in rows:
            echo("\t".join(_cell(value) for value in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(Text(harmless(column)))
    for row in rows:
        table.add_row(*(Text(harmless(_cell(value))) for value in row))
    Console().print(table)


def print_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as lines that can be copied: aligned on a terminal, which wraps the last column but cuts nothing."""
    if not sys.stdout.isatty():
        print_rows(columns, rows)
        return
    cells = [[_cell(value) for value in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    for *first, last in cells:
        echo("  ".join([*(cell.ljust(width) for cell, width in zip(first, widths, strict=True)), last]))


def _cell(value: object) -> str:
    text = "" if value is None else _hex(value) if isinstance(value, bytes) else str(value)
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")


def _hex(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value[:32].hex()}{'…' if len(value) > 32 else ''}'"
    raise TypeError(f"no JSON for {type(value).__name__}")
