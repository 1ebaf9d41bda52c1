"""An entry for this server → the text to paste, or a client's configuration with the entry in it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestr8_sqlite.clients import jsonc, toml
from orchestr8_sqlite.clients.known import Client, Dialect
from orchestr8_sqlite.errors import ClientFileError

Entry = Mapping[str, object]


def make_entry(client: Client, command: Sequence[str], arguments: Sequence[str]) -> Entry:
    """Return the entry of a server for *client*: the program and its arguments."""
    entry = {"command": command[0], "args": [*command[1:], *arguments]}
    return {"type": "stdio", **entry} if client.says_type else entry


def snippet(client: Client, name: str, entry: Entry) -> str:
    """Return a configuration with only this server in it, ready to paste."""
    if client.dialect is Dialect.TOML:
        return toml.render_table((*client.keys, name), entry)
    return jsonc.with_member("", (*client.keys, name), entry)


def servers_of(client: Client, text: str, path: Path) -> dict[str, object]:
    """Return the servers that a configuration names; *path* appears only in errors.

    Raises:
        ClientFileError: The client cannot read the text.
    """
    servers = parse(client, text, path)
    for key in client.keys:
        inner = servers.get(key, {})
        if not isinstance(inner, dict):
            raise ClientFileError(f"{key} in {path} is not a table of servers; fix it, then try again.")
        servers = inner
    return servers


def with_server(client: Client, text: str, name: str, entry: Entry, *, path: Path, force: bool = False) -> str:
    """Return *text* with the server *name*; unchanged if it is already there.

    Args:
        path: The file that contains the text, for errors.
        force: Replace another server of that name.

    Raises:
        ClientFileError: The text cannot be parsed, has another server of that name, or cannot be edited safely.
    """
    present = servers_of(client, text, path)
    own = present.get(name)
    if isinstance(own, dict) and own.get("command") == entry["command"]:
        entry = {**own, **entry}  # keep what the user has added, such as an environment
    if own == entry:
        return text
    if name in present and not force:
        raise ClientFileError(
            f"{path} has another server named {name!r}; replace it with --force, or choose another --name."
        )
    wanted = _with_value(parse(client, text, path), (*client.keys, name), entry)
    try:
        edited = _edited(client, text, name, entry, replace=name in present)
        if parse(client, edited, path) == wanted:
            return edited
    except ValueError:
        pass  # an inline table cannot be extended
    raise ClientFileError(f"{path} is written in a way that cannot be edited safely; paste the entry by hand.")


def _with_value(table: Mapping[str, Any], keys: Sequence[str], value: object) -> dict[str, Any]:
    """Return *table* with *value* at the path *keys*, creating missing tables."""
    key, *inner = keys
    return {**table, key: _with_value(table.get(key, {}), inner, value) if inner else value}


def _edited(client: Client, text: str, name: str, entry: Entry, *, replace: bool) -> str:
    if client.dialect is not Dialect.TOML:
        return jsonc.with_member(text, (*client.keys, name), entry)
    edit = toml.with_replaced_table if replace else toml.with_table
    return edit(text, (*client.keys, name), entry)


def parse(client: Client, text: str, path: Path) -> dict[str, object]:
    """Return the value of a configuration; *path* appears only in errors.

    Raises:
        ClientFileError: The client cannot read the text.
    """
    try:
        document = toml.parse(text) if client.dialect is Dialect.TOML else jsonc.parse(text)
    except (ValueError, RecursionError) as problem:
        raise ClientFileError(f"{path} cannot be parsed ({problem}); fix it, then try again.") from None
    if client.dialect is Dialect.JSON and not jsonc.is_strict(text):
        raise ClientFileError(
            f"{path} contains comments or trailing commas, which {client.title} cannot read; remove them."
        )
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ClientFileError(f"{path} does not contain a JSON object; fix it, then try again.")
    return document
