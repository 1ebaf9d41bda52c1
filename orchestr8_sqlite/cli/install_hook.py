"""`install --hook`: lets a client ask this library before each prompt, or takes that back with `--remove`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestr8_sqlite.cli.options import print_json
from orchestr8_sqlite.cli.terminal import echo, echo_json

if TYPE_CHECKING:
    from orchestr8_sqlite.clients.known import Client, Scope

NAME = "the hook `suggest`"


def install_hook(
    client: "Client",
    scope: "Scope",
    db: Path | None,
    roots: Sequence[Path],
    *,
    write: bool,
    remove: bool,
    as_json: bool,
) -> None:
    """Print the settings with the hook; or write it to the client's file, or remove it there.

    Raises:
        RequestError: The client has no such hook, or there is nothing to ask.
        ClientFileError: The file cannot be read or must not be changed.
    """
    from orchestr8_sqlite.clients.files import edit_text
    from orchestr8_sqlite.clients.hooks import command_line, find_hook, snippet, with_hook, without_hook
    from orchestr8_sqlite.clients.launch import client_command
    from orchestr8_sqlite.settings import read_places

    hook = find_hook(client, scope)
    places = read_places()
    path = hook.files[scope](places)
    command = command_line([*client_command(scope), "suggest", *_index(db, roots)], places.platform)
    facts = {"client": client.id, "scope": scope.value, "path": str(path), "event": hook.event, "command": command}
    if not (write or remove):
        if as_json:
            print_json({**facts, "written": False, "configuration": snippet(hook, command)})
            return
        echo(f"{client.title} reads {path}; add this to it, or run again with --write:", err=True)
        echo_json(snippet(hook, command).removesuffix("\n"))
        return
    edited = edit_text(
        path,
        lambda text: (
            without_hook(client, hook, text, path=path) if remove else with_hook(client, hook, text, command, path=path)
        ),
    )
    if as_json:
        backup = str(edited.backup) if edited.backup else None
        print_json({**facts, "written": edited.changed, "removed": remove and edited.changed, "backup": backup})
        return
    kept = f" (backup: {edited.backup})" if edited.backup else ""
    if not edited.changed:
        echo(f"{client.title}: {NAME} is {'not' if remove else 'already'} in {path}.")
    elif remove:
        echo(f"{client.title}: {NAME} is removed from {path}{kept}.")
    else:
        echo(f"{client.title}: {NAME} is written to {path}{kept}. {hook.afterwards}")


def _index(db: Path | None, roots: Sequence[Path]) -> list[str]:
    """Return the option that names the index: the given one, or that which the server builds from *roots*."""
    from orchestr8_sqlite.clients.launch import serve_arguments
    from orchestr8_sqlite.settings import index_of

    serve_arguments(db, roots)  # raises if something is missing
    if db is None and roots:
        db = index_of([root.absolute() for root in roots])
    return [] if db is None else ["--db", str(db.absolute())]
