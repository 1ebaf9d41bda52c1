"""The command that starts this server: as this process was started, and as a client should start it."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestr8_sqlite.clients.known import Scope
from orchestr8_sqlite.errors import RequestError

PROGRAM = "orchestr8-sqlite"
CACHE_TAG = "CACHEDIR.TAG"
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
"""Source: bford.info/cachedir, the Cache Directory Tagging Specification."""


def is_ephemeral(prefix: Path) -> bool:
    """Tell whether the environment at *prefix* may be deleted at any time: it lies inside a cache.

    `uvx` and `pipx run` keep their environments below a folder that is tagged as a cache, `uv tool install`
    and `pipx install` do not. The tag in the environment itself says nothing: both kinds have one there.
    """
    return any(_is_cache(folder) for folder in prefix.absolute().parents)


def _is_cache(folder: Path) -> bool:
    try:
        with (folder / CACHE_TAG).open("rb") as tag:
            return tag.read(len(CACHE_SIGNATURE)) == CACHE_SIGNATURE
    except OSError:
        return False


def own_command() -> list[str]:
    """Return the command that starts this very program, with absolute paths."""
    called = Path(sys.argv[0])
    found = shutil.which(called) if called.stem == PROGRAM else None
    beside = shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    program = found or beside
    return [str(Path(program).absolute())] if program else [sys.executable, "-m", "orchestr8_sqlite"]


def client_command(scope: Scope, prefix: Path | None = None) -> list[str]:
    """Return the command that a client's configuration should hold.

    It is this program's absolute path where it is installed to stay. In an environment of `uvx` or
    `pipx run` it is `uvx orchestr8-sqlite`: `uvx` with its path for the user, whose desktop programs
    often lack the shell's PATH; bare in a project's file, which other machines read too.
    """
    if not is_ephemeral(prefix or Path(sys.prefix)):
        return own_command()
    uvx = shutil.which("uvx") if scope is Scope.USER else None
    return [uvx or "uvx", PROGRAM]


def serve_arguments(database: Path | None, roots: Sequence[Path]) -> list[str]:
    """Return the arguments of `serve` with absolute paths.

    Raises:
        RequestError: A folder is missing, or the index is, and no folder is there to build it from.
    """
    arguments = ["serve"]
    if database is not None:
        if not roots and not database.is_file():
            raise RequestError(f"There is no index at {database}; build it with: {PROGRAM} build ROOT -o {database}.")
        arguments += ["--db", str(database.absolute())]
    for root in roots:
        if not root.is_dir():
            raise RequestError(f"There is no folder {root}; --root names a folder of Markdown files.")
        arguments += ["--root", str(root.absolute())]
    return arguments
