"""The commands that start this server: the one that started this process, and the one for a client."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestr8_sqlite.clients.known import Scope
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.settings import SourceSettings, read_profile

PROGRAM = "orchestr8-sqlite"
SERVER = "orchestr8"
"""The server's name for itself, and its default name in clients."""

CACHE_TAG = "CACHEDIR.TAG"
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
"""Source: bford.info/cachedir, the Cache Directory Tagging Specification."""


def is_ephemeral(prefix: Path) -> bool:
    """Tell whether the environment at *prefix* may be deleted at any time because it is inside a cache.

    `uvx` and `pipx run` keep their environments below a folder that is tagged as a cache; `uv tool install`
    and `pipx install` do not. A tag in the environment itself proves nothing: both kinds have one there.
    """
    return any(_is_cache(folder) for folder in prefix.absolute().parents)


def _is_cache(folder: Path) -> bool:
    try:
        with (folder / CACHE_TAG).open("rb") as tag:
            return tag.read(len(CACHE_SIGNATURE)) == CACHE_SIGNATURE
    except OSError:
        return False


def own_programs() -> Path | None:
    """Return the folder that a runner has put on PATH only for this process; None if it is permanently installed."""
    return Path(sys.executable).parent if is_ephemeral(Path(sys.prefix)) else None


def own_command() -> list[str]:
    """Return the command that starts this program, with absolute paths."""
    called = Path(sys.argv[0])
    found = shutil.which(called) if called.stem == PROGRAM else None
    beside = shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    program = found or beside
    return [str(Path(program).absolute())] if program else [sys.executable, "-P", "-m", "orchestr8_sqlite"]


def client_command(scope: Scope, prefix: Path | None = None) -> list[str]:
    """Return the command to write into a client's configuration.

    If this program is permanently installed, that is its absolute path. In an environment of `uvx` or `pipx run`, it
    is that runner with the same wheel, folder or URL. A user's file gets the runner's path, because desktop programs
    often lack the shell's PATH. A project's file gets only its name, because other machines read the file too.
    """
    environment = prefix or Path(sys.prefix)
    if not is_ephemeral(environment):
        return own_command()
    runner, option = ("pipx", "--spec") if "pipx" in environment.parts else ("uvx", "--from")
    found = None if scope is Scope.PROJECT else shutil.which(runner)
    origin = _origin()
    given = [option, origin] if origin else []
    return [found or runner, *(["run"] if runner == "pipx" else []), *given, PROGRAM]


def _origin() -> str | None:
    """Return where this package was installed from, as `uvx --from` takes it; None for a package registry."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution(PROGRAM).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return requirement_of(json.loads(text)) if text else None


def requirement_of(origin: Mapping[str, Any]) -> str:
    """Return the argument with which an installer gets the package again from the *origin* that it recorded.

    A checkout without a named revision is pinned to its commit, so that each start of the server runs the same program.

    Source: packaging.python.org, "Recording the Direct URL Origin of installed distributions".
    """
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url, checkout = str(origin["url"]), origin.get("vcs_info")
    if checkout:
        url = f"{checkout['vcs']}+{url}@{checkout.get('requested_revision') or checkout['commit_id']}"
    if "subdirectory" in origin:
        return f"{url}#subdirectory={origin['subdirectory']}"
    parts = urlsplit(url)
    return url2pathname(parts.path) if parts.scheme == "file" else url


def serve_arguments(
    database: Path | None, roots: Sequence[Path], profile: str = "", source: SourceSettings | None = None
) -> list[str]:
    """Return the arguments of `serve` with absolute paths.

    Raises:
        RequestError: A folder is missing; or the index is, and nothing is given to build or pull it from.
        SettingsError: There is no such profile.
    """
    arguments = ["serve"]
    if database is not None:
        if not roots and source is None and not database.is_file():
            raise RequestError(f"There is no index at {database}; build it with: {PROGRAM} build ROOT -o {database}.")
        arguments += ["--db", str(database.absolute())]
    for root in roots:
        if not root.is_dir():
            raise RequestError(f"There is no folder {root}; --root must name a folder of Markdown files.")
        arguments += ["--root", str(root.absolute())]
    if source is not None:
        arguments += _following(source)
    return [*arguments, "--profile", read_profile(profile)] if profile else arguments


def _following(source: SourceSettings) -> list[str]:
    """Return the options of `serve` that follow *source*.

    Raises:
        RequestError: It is a folder that is missing.
    """
    is_web = source.place.startswith(("http://", "https://"))
    if not is_web and not Path(source.place).is_dir():
        raise RequestError(f"There is no folder {source.place}; --from must name a folder or an http(s) address.")
    options = ["--from", source.place if is_web else str(Path(source.place).absolute())]
    if source.channel != "stable":
        options += ["--channel", source.channel]
    if source.key is not None:
        key = Path(source.key)
        options += ["--require-signature", str(key.absolute()) if key.is_file() else source.key]
    return options
