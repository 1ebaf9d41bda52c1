"""`install`: connects a client to this server, by printing its configuration or writing it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Channel, Database, Json, RequireSignature, print_json, print_lines
from orchestr8_sqlite.cli.terminal import echo, echo_json
from orchestr8_sqlite.errors import RequestError

if TYPE_CHECKING:
    from orchestr8_sqlite.clients.documents import Entry
    from orchestr8_sqlite.clients.known import Client, Scope

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every client accepts, and that TOML allows as bare keys."""

SHARED = (
    "It contains paths of this machine; if others share the file, install with uvx from a URL that they can reach too."
)


def install(
    client: Annotated[
        str | None,
        typer.Argument(
            help="claude-code | claude-desktop | cursor | vscode | codex | gemini | windsurf | zed", show_default=False
        ),
    ] = None,
    list_clients: Annotated[bool, typer.Option("--list", help="Show the clients and their files.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Edit the client's file and keep a backup beside it.")] = False,
    scope: Annotated[
        str, typer.Option(help="user | project | local (claude-code only: you in this project).")
    ] = "user",
    name: Annotated[str, typer.Option(help="Name of the server in the client.")] = "orchestr8",
    db: Database = None,
    root: Annotated[
        list[Path] | None, typer.Option("--root", help="Library folder to serve; repeatable.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SOURCE", help="Folder or http(s) address to pull the index from."),
    ] = None,
    channel: Channel = "stable",
    key: RequireSignature = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="library|skills", help="Tools to offer. Default: library.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another server of that name.")] = False,
    hook: Annotated[
        bool,
        typer.Option(
            "--hook", help="Instead of the server: ask `suggest` before each prompt (claude-code, codex, gemini)."
        ),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="With --hook: remove it from the client's file.")] = False,
    as_json: Json = False,
) -> None:
    """Connect a client: print its configuration, or write it with --write.

    Example: orchestr8-sqlite install cursor --db index.db --write
    """
    from orchestr8_sqlite.clients.documents import make_entry
    from orchestr8_sqlite.clients.known import find_client
    from orchestr8_sqlite.clients.launch import client_command, serve_arguments
    from orchestr8_sqlite.settings import SourceSettings, read_places, read_settings

    if remove and not hook:
        raise RequestError("--remove takes back what --hook has written; use them together.")
    if client is None and (write or hook):
        raise RequestError("Name the client to write for, such as: orchestr8-sqlite install cursor --write")
    if client is None or list_clients:
        _list(as_json)
        return
    wanted, index = _parse_scope(scope), None if db is None else read_settings(db).file
    if hook:
        from orchestr8_sqlite.cli.install_hook import install_hook

        install_hook(find_client(client), wanted, index, root or [], write=write, remove=remove, as_json=as_json)
        return
    chosen = find_client(client).within(read_places(), wanted)
    if not SERVER_NAME.fullmatch(name):
        raise RequestError(f"--name must be 1 to 64 letters, digits, hyphens and underscores, not {name!r}.")
    origin = SourceSettings(source, channel, key) if source is not None else None
    entry = make_entry(chosen, client_command(wanted), serve_arguments(index, root or [], profile or "", origin))
    if write:
        _write(chosen, wanted, name, entry, force=force, as_json=as_json)
    else:
        _print(chosen, wanted, name, entry, as_json=as_json)


def _parse_scope(scope: str) -> "Scope":
    from orchestr8_sqlite.clients.known import Scope

    try:
        return Scope(scope)
    except ValueError:
        raise RequestError(
            f"--scope must be one of {', '.join(each.value for each in Scope)}, not {scope!r}."
        ) from None


def _list(as_json: bool) -> None:
    """Print each client's files, and whether the client and each file exist."""
    from orchestr8_sqlite.clients.known import CLIENTS
    from orchestr8_sqlite.settings import read_places

    places = read_places()
    rows = [
        {
            "client": client.id,
            "title": client.title,
            "scope": scope.value,
            "installed": client.is_installed(places),
            "path": str(client.path(places, scope)),
            "exists": client.path(places, scope).is_file(),
        }
        for client in CLIENTS.values()
        for scope in client.scopes
    ]
    if as_json:
        print_json(rows)
        return
    cells = [(row["client"], row["scope"], _yes(row["installed"]), _yes(row["exists"]), row["path"]) for row in rows]
    print_lines(("client", "scope", "installed", "exists", "file"), cells)


def _yes(holds: object) -> str:
    return "yes" if holds else "no"


def _print(client: "Client", scope: "Scope", name: str, entry: "Entry", *, as_json: bool) -> None:
    """Print the text to paste to standard output, and where to paste it to standard error."""
    from orchestr8_sqlite.clients.documents import snippet
    from orchestr8_sqlite.settings import read_places

    path = client.path(read_places(), scope)
    text = snippet(client, name, entry)
    if as_json:
        print_json({**_facts(client, scope, name, entry, path), "written": False, "configuration": text})
        return
    echo(f"{client.title} reads {path}; add this to it, or run again with --write:", err=True)
    echo_json(text.removesuffix("\n"))


def _write(client: "Client", scope: "Scope", name: str, entry: "Entry", *, force: bool, as_json: bool) -> None:
    """Write the entry to the client's file and print what was done."""
    from orchestr8_sqlite.clients.documents import with_server
    from orchestr8_sqlite.clients.files import edit_text
    from orchestr8_sqlite.clients.known import Scope
    from orchestr8_sqlite.settings import read_places

    places = read_places()
    path = client.path(places, scope)
    if scope is not Scope.PROJECT and not client.is_installed(places):
        echo(f"{client.title} does not seem to be installed here; writing {path} anyway.", err=True)
    edited = edit_text(path, lambda text: with_server(client, text, name, entry, path=path, force=force))
    if as_json:
        facts = {"written": edited.changed, "backup": str(edited.backup) if edited.backup else None}
        print_json({**_facts(client, scope, name, entry, path), **facts})
    elif not edited.changed:
        echo(f"{client.title}: {name} is already in {path}.")
    else:
        kept = f" (backup: {edited.backup})" if edited.backup else ""
        shared = f" {SHARED}" if scope is Scope.PROJECT and _names_this_machine(entry) else ""
        echo(f"{client.title}: {name} is written to {path}{kept}. {client.afterwards}{shared}")
    _tell_other_scopes(client, scope, name, entry)


def _names_this_machine(entry: "Entry") -> bool:
    """Tell whether an entry contains an absolute path, which other machines may lack."""
    arguments = entry["args"]
    assert isinstance(arguments, list)
    return any(Path(word).is_absolute() for word in (str(entry["command"]), *arguments))


def _tell_other_scopes(client: "Client", scope: "Scope", name: str, entry: "Entry") -> None:
    """Warn on standard error if another scope has a different server of that name, and say which of the two wins."""
    from orchestr8_sqlite.clients.documents import servers_of
    from orchestr8_sqlite.clients.files import read_text
    from orchestr8_sqlite.clients.known import find_client
    from orchestr8_sqlite.errors import ClientFileError
    from orchestr8_sqlite.settings import read_places

    places, scopes = read_places(), client.scopes
    for other in scopes:
        path = client.path(places, other)
        try:
            there = servers_of(find_client(client.id).within(places, other), read_text(path), path).get(name)
        except (ClientFileError, OSError):  # `doctor` reports it; this scope is done
            continue
        if other is not scope and isinstance(there, dict) and not there.items() >= entry.items():
            winner = max(scope, other, key=scopes.index)
            told = f"{client.title} has another {name} in its {other.value} scope ({path})"
            echo(f"{told}; the {winner.value} scope wins here.", err=True)


def _facts(client: "Client", scope: "Scope", name: str, entry: "Entry", path: Path) -> dict[str, object]:
    return {
        "client": client.id,
        "scope": scope.value,
        "path": str(path),
        "exists": path.is_file(),
        "name": name,
        "entry": entry,
    }
