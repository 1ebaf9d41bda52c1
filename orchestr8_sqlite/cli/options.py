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
Roots = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[ROOT]...",
        help="Folders of Markdown files. Default: those of orchestr8.toml here.",
        show_default=False,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="Settings of the library. Default: orchestr8.toml in the first folder, or beside it.",
        show_default=False,
    ),
]
Select = Annotated[
    list[str] | None, typer.Option("--select", metavar="RULES", help="Only these rules: a,b; repeatable.")
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="RULES", help="Not these rules: a,b; repeatable.")
]


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


def _cell(value: object) -> str:
    text = "" if value is None else _hex(value) if isinstance(value, bytes) else str(value)
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")


def _hex(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value[:32].hex()}{'…' if len(value) > 32 else ''}'"
    raise TypeError(f"no JSON for {type(value).__name__}")
