"""Checks that the clients' files can be read and name this server, and that the commands in them start it."""

import itertools
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite.clients.documents import servers_of
from orchestr8_sqlite.clients.files import read_text
from orchestr8_sqlite.clients.known import CLIENTS, Client, Scope
from orchestr8_sqlite.clients.launch import PROGRAM, SERVER
from orchestr8_sqlite.doctor.conversation import Launch
from orchestr8_sqlite.doctor.report import Check, CheckVerdict, ok, omitted, problem
from orchestr8_sqlite.doctor.server import check_launch
from orchestr8_sqlite.errors import ClientFileError
from orchestr8_sqlite.settings import Places

MODULE = "orchestr8_sqlite"

KEPT = ("--db", "--root", "--from", "--channel", "--require-signature", "--profile")
"""Options of `serve` that a repaired entry keeps."""

VARIABLE = "${"
"""Begins a placeholder that a client fills in; only the client knows the resulting command."""


class _Place(NamedTuple):
    """One client's servers in one scope, and the problem with the file, if any."""

    client: Client
    scope: Scope
    path: Path
    servers: Mapping[str, object] = {}
    trouble: Check | None = None

    @property
    def name(self) -> str:
        return f"{self.client.id}, {self.scope.value}"

    @property
    def install(self) -> str:
        """Return the command that writes this server to the file."""
        scope = "" if self.scope is Scope.USER else f" --scope {self.scope.value}"
        return f"{PROGRAM} install {self.client.id}{scope} --write"

    @property
    def ours(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the entries that are meant to start this server, by name."""
        return {
            name: entry
            for name, entry in self.servers.items()
            if isinstance(entry, Mapping) and _is_meant_for_us(name, launch_of(entry))
        }


def check_clients(places: Places, *, patience: float, trusts_project: bool = False) -> Iterator[Check]:
    """Yield the checks of each installed client, and of each file in this project.

    This starts every command that the user's files have for this server.

    Args:
        patience: Seconds to wait for each answer of a server.
        trusts_project: Whether to start commands in the working folder's files too; others may have written them.
    """
    absent = []
    for client in CLIENTS.values():
        found = [_look(client, places, scope) for scope in client.scopes if _is_there(client, places, scope)]
        if found:
            yield from _check_client(found, patience, trusts_project)
        else:
            absent.append(client.title)
    if absent:
        yield omitted("other clients", f"not found here: {', '.join(absent)}")


def _is_there(client: Client, places: Places, scope: Scope) -> bool:
    if scope is Scope.PROJECT:
        return client.path(places, scope).is_file()
    return client.is_installed(places)


def _look(client: Client, places: Places, scope: Scope) -> _Place:
    found = _Place(client.within(places, scope), scope, client.path(places, scope))
    try:
        return found._replace(servers=servers_of(found.client, read_text(found.path), found.path))
    except ClientFileError as error:
        return found._replace(trouble=problem(found.name, str(error), f"fix {found.path}"))
    except OSError as error:
        finding = f"{found.path} cannot be read: {error.strerror}"
        return found._replace(trouble=problem(found.name, finding, f"make {found.path} readable"))


def _check_client(found: list[_Place], patience: float, trusts_project: bool) -> Iterator[Check]:
    """Yield the checks of one client's files; say that it does not know this server only if no file names it."""
    unreadable = {place.path: place.trouble for place in reversed(found) if place.trouble}
    yield from unreadable.values()
    ours = [place for place in found if place.ours]
    for place in ours:
        for name, entry in place.ours.items():
            yield _check_entry(place, name, entry, patience, trusts_project)
    if not ours and not unreadable:
        first = found[0]
        yield omitted(first.name, f"{first.path} does not name this server", first.install)


def _check_entry(place: _Place, name: str, entry: Mapping[str, Any], patience: float, trusts_project: bool) -> Check:
    """Return the check of one entry, after talking to the server that it starts."""
    where = f"{name} in {place.path}"
    launch = launch_of(entry)
    if launch is None:
        return omitted(place.name, f"{where} has a URL instead of a command; it was not checked")
    if VARIABLE in " ".join((*launch.command, launch.folder or "", *launch.variables.values())):
        return omitted(
            place.name, f"{where} has placeholders that only {place.client.title} can fill in; it was not started"
        )
    if place.scope is Scope.PROJECT and not trusts_project:
        finding = f"{where} was not started: others may have written it"
        return omitted(place.name, finding, f"read it, then run: {PROGRAM} doctor --trust-project")
    said = check_launch(launch, patience=patience)
    asked = shlex.join(launch.command[1:])
    if said.verdict is CheckVerdict.OK:
        return ok(place.name, f"{where}: {said.finding}, by: {asked}")
    words = list(launch.command)
    pairs = itertools.pairwise(words[words.index("serve") :] if "serve" in words else words)  # uvx has a --from too
    kept = [part for option, value in pairs if option in KEPT for part in (option, value)]
    again = shlex.join([*place.install.split(), "--name", name, *kept, "--force"])
    return problem(place.name, f"{where}: {said.finding}", f"{again}, or {said.advice}" if said.advice else again)


def launch_of(entry: Mapping[str, Any]) -> Launch | None:
    """Return how a client starts the server of *entry*; None if it does not start one."""
    if not isinstance(entry.get("command"), str):
        return None
    arguments, variables, folder = entry.get("args"), entry.get("env"), entry.get("cwd")
    return Launch(
        (entry["command"], *(map(str, arguments) if isinstance(arguments, list) else ())),
        {str(key): str(value) for key, value in variables.items()} if isinstance(variables, Mapping) else {},
        folder if isinstance(folder, str) else None,
    )


def _is_meant_for_us(name: str, launch: Launch | None) -> bool:
    """Tell whether a server is meant to be this one: by its name, its command, or an argument of uvx or python."""
    return name == SERVER or (launch is not None and any(map(_is_us, launch.command)))


def _is_us(word: str) -> bool:
    last = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return last in (MODULE, PROGRAM) or last.startswith((f"{PROGRAM}@", f"{PROGRAM}=", f"{PROGRAM}["))
