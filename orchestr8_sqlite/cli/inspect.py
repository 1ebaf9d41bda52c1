"""`inspect`: writes a page that shows an index, and needs neither a network nor a server."""

from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Database
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.text.wording import counted


def inspect(
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    db: Database = None,
    since: Annotated[
        Path | None,
        typer.Option(metavar="OLD", help="An older index: show what changed, answers too.", show_default=False),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Log of a server in JSON, also .gz: show what is used; repeatable.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Write one HTML file to look into an index: sizes, coverage, overlaps, answers, findings, changes, use.

    It asks the library its own requests, so 2,000 fragments take some seconds.

    Example: orchestr8-sqlite inspect -o report.html --open --db index.db
    """
    from orchestr8_sqlite.inspection.assembly import render_page
    from orchestr8_sqlite.inspection.collecting import inspect as inspect_index
    from orchestr8_sqlite.settings import read_settings

    data = inspect_index(read_settings(db).file, since=since, logs=log or ())
    page = render_page(data).encode()
    output.write_bytes(page)
    fragments, requests = counted(len(data["fragments"]), "fragment"), counted(len(data["requests"]), "request")
    echo(f"{output}: {fragments}, {requests} asked, {len(page) / 1e6:.1f} MB")
    if show:
        import webbrowser

        webbrowser.open(output.absolute().as_uri())
