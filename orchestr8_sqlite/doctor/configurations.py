"""The clients' files: whether they can be read, name this server, and name a command that exists."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestr8_sqlite.clients.documents import servers_of
from orchestr8_sqlite.clients.files import read_text
from orchestr8_sqlite.clients.known import CLIENTS, Client, Scope
from orchestr8_sqlite.clients.launch import PROGRAM
from orchestr8_sqlite.doctor.report import Check, ok, omitted, problem
from orchestr8_sqlite.errors import ClientFileError
from orchestr8_sqlite.settings import Places

MODULE = "orchestr8_sqlite"

VARIABLE = "${"
"""What clients put values of their own into; a command with one is known to them alone."""


def check_clients(places: Places) -> Iterator[Check]:
    """Yield what is to be said of each client that is here, and of each file in this project."""
    absent = []
    for client in CLIENTS.values():
        if client.is_installed(places):
            yield _check_file(client, Scope.USER, client.path(places))
        else:
            absent.append(client.title)
        if Scope.PROJECT in client.scopes and (path := client.path(places, Scope.PROJECT)).is_file():
            yield _check_file(client, Scope.PROJECT, path)
    if absent:
        yield omitted("other clients", f"not found here: {', '.join(absent)}")


def _check_file(client: Client, scope: Scope, path: Path) -> Check:
    """Return what is to be said of one file of one client."""
    name = f"{client.id}, {scope.value}"
    install = f"{PROGRAM} install {client.id}{' --scope project' if scope is Scope.PROJECT else ''} --write"
    try:
        servers = servers_of(client, read_text(path), path)
    except ClientFileError as error:
        return problem(name, str(error), f"mend {path}")
    except OSError as error:
        return problem(name, f"{path} cannot be read: {error.strerror}", f"make {path} readable")
    ours = {key: entry for key, entry in servers.items() if _starts_us(entry)}
    if not ours:
        return omitted(name, f"{path} does not name this server", install)
    for key, entry in ours.items():
        command = str(entry["command"]) if isinstance(entry, dict) else ""
        if VARIABLE not in command and shutil.which(command) is None:
            finding = f"{key} in {path} starts {command}, which does not exist or is no program"
            uv = "install uv, or run: " if command == "uvx" else ""
            return problem(name, finding, f"{uv}{install} --name {key} --force")
    return ok(name, f"{', '.join(ours)} in {path}")


def _starts_us(entry: object) -> bool:
    """Tell whether a server entry starts this program: as a command, or as an argument of uvx or python."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("command"), str):
        return False
    arguments = entry.get("args")
    words = [entry["command"], *(arguments if isinstance(arguments, list) else [])]
    return any(_is_us(word) for word in words if isinstance(word, str))


def _is_us(word: str) -> bool:
    last = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return last in (MODULE, PROGRAM) or last.startswith((f"{PROGRAM}@", f"{PROGRAM}=", f"{PROGRAM}["))
