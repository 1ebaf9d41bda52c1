"""Options that several commands share, and functions that print rows and JSON."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.terminal import echo, echo_json, harmless

NUMBER = re.compile(r"~?[-+]?\d[\d,.]*%?|")


def _categories() -> Iterable[str]:
    from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS

    return CATEGORY_FOLDERS


def complete_file(begun: str) -> Iterable[str]:
    """Return the files and folders whose paths start with what was typed."""
    from glob import escape

    return map(str, Path().glob(f"{escape(begun)}*"))


Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="<path>",
        help="Index: a file, or where PostgreSQL has it. Default: ORCHESTR8_DB, else the bundled index.",
        show_default=False,
        autocompletion=complete_file,
    ),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="With several databases: go on without those that do not answer, and say so."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Channel = Annotated[str, typer.Option("--channel", help="Channel that others follow.")]
RequireSignature = Annotated[
    str | None,
    typer.Option(
        "--require-signature",
        metavar="KEY",
        help="Refuse what this public key of minisign did not sign: a .pub file, or its second line.",
        show_default=False,
    ),
]
Category = Annotated[
    str | None,
    typer.Option("--category", help="Category of files that name none.", autocompletion=lambda: [*_categories()]),
]
Deny = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="Refuse files with findings of this level or worse: high | medium | low."),
]
Roots = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[ROOT]...",
        help="Folders of Markdown files. Default: as ./orchestr8.toml says.",
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
    list[str] | None, typer.Option("--select", metavar="RULES", help="Apply only these rules: a,b; repeatable.")
]
Reviews = Annotated[bool, typer.Option("--reviews/--no-reviews", help="Heed reviews.toml beside your orchestr8.toml.")]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="RULES", help="Skip these rules: a,b; repeatable.")
]


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as comma-separated values with a header line.

    Source: RFC 4180, except that lines end like all other output.
    """
    import csv
    import io

    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_hex(value) if isinstance(value, bytes) else value for value in row] for row in rows)
    echo(written.getvalue().removesuffix("\n"))


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
    cells = [[harmless(_cell(value)) for value in row] for row in rows]
    _print_table([harmless(column) for column in columns], cells)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table if it fits without cutting a word, else one line per value, so that you can copy whole values."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, table = Console(), Table()
    cells = [[column, *(row[place] for row in rows)] for place, column in enumerate(columns)]
    numeric = [all(map(NUMBER.fullmatch, column[1:])) and len(column) > 1 for column in cells]
    widths = _widths(cells, numeric, console.width - 3 * len(columns) - 1)
    if widths is None:
        name = max(map(len, columns))
        records = ("\n".join(f"{c:{name}}  {v}" for c, v in zip(columns, row, strict=True)) for row in rows)
        echo("\n\n".join(records))
        return
    for column, width, is_number in zip(columns, widths, numeric, strict=True):
        table.add_column(Text(column), justify="right" if is_number else "left", width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _widths(cells: Sequence[Sequence[str]], whole: Sequence[bool], room: int) -> list[int] | None:
    """Return the widths at which the columns *cells* cut no word; None if *room* is too small.

    Args:
        whole: Whether each column must not wrap.
    """
    from rich.cells import cell_len

    most = [max(map(cell_len, column)) for column in cells]
    least = [
        wide if is_whole else max(cell_len(word) for cell in column for word in ("", *cell.split()))
        for column, wide, is_whole in zip(cells, most, whole, strict=True)
    ]
    left, wanted = room - sum(least), sum(most) - sum(least)
    if left < 0:
        return None
    share = min(1.0, left / wanted) if wanted else 0.0
    return [low + int((high - low) * share) for low, high in zip(least, most, strict=True)]


def print_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as lines that you can copy: aligned on a terminal, where the last column wraps and nothing is cut."""
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
