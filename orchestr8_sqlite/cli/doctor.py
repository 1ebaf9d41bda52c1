"""`doctor`: starts the server as a client would, and reports what is wrong."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Channel, Database, Json, RequireSignature, print_json, print_rows
from orchestr8_sqlite.cli.terminal import echo

if TYPE_CHECKING:
    from orchestr8_sqlite.doctor.report import Check


def doctor(
    db: Database = None,
    root: Annotated[
        list[Path] | None, typer.Option("--root", help="Library folder to serve; repeatable.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SOURCE", help="Check the index that `serve --from` pulls.", show_default=False),
    ] = None,
    channel: Channel = "stable",
    key: RequireSignature = None,
    trust_project: Annotated[
        bool, typer.Option("--trust-project", help="Also start what client files in this folder name.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for each answer.", min=0.1)] = 20,
    as_json: Json = False,
) -> None:
    """Check the installation, the index, the server and the clients; exit code 1 if something is wrong.

    Starts this server with each command in your clients' files, as the client would.

    Example: orchestr8-sqlite doctor --db index.db
    """
    from orchestr8_sqlite.doctor.report import CheckVerdict

    if source is not None and db is None:
        from orchestr8_sqlite.settings import SourceSettings, index_from

        db = str(index_from(SourceSettings(source, channel, key)))
    checks = list(_checks(db, root or [], timeout, trusts_project=trust_project))
    failed = any(check.verdict is CheckVerdict.PROBLEM for check in checks)
    if as_json:
        rows = [
            {"check": check.name, "verdict": check.verdict.value, "finding": check.finding, "advice": check.advice}
            for check in checks
        ]
        print_json({"ok": not failed, "checks": rows})
    else:
        _print(checks)
    if failed:
        raise typer.Exit(1)


def _print(checks: "Sequence[Check]") -> None:
    """Print a table to a pipe; print lines to a terminal, which may wrap them but cuts nothing."""
    if not sys.stdout.isatty():
        columns = ("check", "verdict", "finding", "what to do")
        print_rows(columns, [(check.name, check.verdict.value, check.finding, check.advice) for check in checks])
        return
    for check in checks:
        echo(f"{check.verdict.value:<8} {check.name}: {check.finding}")
        if check.advice:
            echo(f"         → {check.advice}")


def _checks(db: str | None, roots: Sequence[Path], patience: float, *, trusts_project: bool) -> Iterator["Check"]:
    """Yield all checks; with folders but no index, skip the index, which the server has yet to build."""
    from orchestr8_sqlite.clients.launch import own_command, serve_arguments
    from orchestr8_sqlite.doctor.configurations import check_clients
    from orchestr8_sqlite.doctor.index import check_index, check_installation, check_source, typical_query
    from orchestr8_sqlite.doctor.report import omitted
    from orchestr8_sqlite.doctor.server import check_server
    from orchestr8_sqlite.settings import Address, read_place, read_places, read_settings

    place = read_place(db or "")
    at = place.text if isinstance(place, Address) else str(place.absolute())
    database = ["--db", at] if db is not None else []
    command = [*own_command(), *serve_arguments(None, roots), *database]
    yield from check_installation()
    query = "test"
    if roots and db is None:
        yield omitted("index", "the server builds it from the folders of --root")
    else:
        path = read_settings(db).database
        yield from check_index(path)
        if not isinstance(path, Address):
            yield from check_source(path)
        query = typical_query(path)
    yield from check_server(command, query, patience=patience)
    yield from check_clients(read_places(), patience=patience, trusts_project=trusts_project)
