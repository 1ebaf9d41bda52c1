"""`serve`: the MCP server."""

from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Channel, Database, Partial, RequireSignature


def serve(
    db: Database = None,
    partial: Partial = False,
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
    deny: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="With --root: leave out files with findings of this level or worse: high | medium | low. Default: "
            "ORCHESTR8_DENY.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Pull the index from this folder or http(s) address, and again whenever it offers a newer one.",
            show_default=False,
        ),
    ] = None,
    channel: Channel = "stable",
    key: RequireSignature = None,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, max=86_400, help="How often to ask the source of --from.")
    ] = 300,
    profile: Annotated[
        str,
        typer.Option(
            help="library: the tools search and load; skills: search_skill and load_skill, for Agent Skills only."
        ),
    ] = "library",
    log_format: Annotated[
        str | None, typer.Option(help="text | json, on standard error. Default: LOG_FORMAT, else text.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve streamable HTTP at http://HOST:PORT/mcp instead, e.g. 127.0.0.1:8765, and the page of "
            "`inspect` at /inspect. Other machines can reach it only if you set a token in ORCHESTR8_HTTP_TOKEN or "
            "ORCHESTR8_HTTP_TOKEN_FILE.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer over HTTP.")] = 1,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name that HTTP clients may use for the server; repeatable.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="An origin whose web pages may call the server; repeatable.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1_000_000,
            help="Requests per second that a client on another machine may send to a worker; 0 for no limit.  "
            "[default: 20]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the index to an AI coding assistant: MCP over standard input and output, or over HTTP.

    Example: claude mcp add orchestr8 -- orchestr8-sqlite serve --root ~/library
    """
    from orchestr8_sqlite.settings import Address, SourceSettings, read_server_settings

    origin = SourceSettings(source, channel, key, every) if source is not None else None
    settings = read_server_settings(
        db, root or (), watch=watch, log_format=log_format, deny=deny, profile=profile, source=origin
    )
    place = settings.base.database
    if isinstance(place, Address):
        settings = settings._replace(base=settings.base._replace(database=place._replace(channel=channel)))
    if source is None and (key is not None or (channel != "stable" and not isinstance(place, Address))):
        raise typer.BadParameter("--channel and --require-signature need --from SOURCE.")
    if partial:
        settings = settings._replace(base=settings.base.partial())
    if http is None:
        from orchestr8_sqlite.server.stdio.start import serve_stdio

        if workers > 1 or allow_host or allow_origin or rate is not None:
            raise typer.BadParameter("--workers, --allow-host, --allow-origin and --rate need --http HOST:PORT.")
        serve_stdio(settings)
        return
    from orchestr8_sqlite.server.http.access import RATE, read_access
    from orchestr8_sqlite.server.http.serve import serve_http
    from orchestr8_sqlite.settings import read_http_token

    rate = RATE if rate is None else rate
    access = read_access(http, hosts=allow_host or (), origins=allow_origin or (), token=read_http_token(), rate=rate)
    serve_http(settings, access, workers)
