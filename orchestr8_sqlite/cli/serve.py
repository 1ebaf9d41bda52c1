"""`serve`: the MCP server."""

from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Database


def serve(
    db: Database = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Build the index from this folder, then serve it; repeatable. Default: ORCHESTR8_ROOTS."),
    ] = None,
    watch: Annotated[
        bool | None,
        typer.Option(
            "--watch/--no-watch",
            help="Build again when a file changes.  [default: with --root, unless ORCHESTR8_ENV is production]",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="text | json, on standard error. Default: LOG_FORMAT, else text.")
    ] = None,
) -> None:
    """Serve the index to an AI coding assistant: MCP over standard input and output.

    Example: claude mcp add orchestr8 -- orchestr8-sqlite serve --root ~/library
    """
    from orchestr8_sqlite.server import run
    from orchestr8_sqlite.settings import read_server_settings

    run(read_server_settings(db, root or (), watch=watch, log_format=log_format).base)
