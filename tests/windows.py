"""Linux as if it were Windows, as far as this package sees it: no locks, no polling, and no file goes that is open.

python -m windows build LIBRARY -o INDEX        the command, on such a system
"""

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path

from orchestr8_sqlite import system

IN_USE = 32
"""ERROR_SHARING_VIOLATION."""


def pretend(put: Callable[[object, str, object], None] = setattr) -> None:
    """Let this process take the system for Windows.

    Args:
        put: Sets an attribute; that of a monkeypatch puts back what was there before.
    """
    for _, function in inspect.getmembers(system, inspect.isfunction):
        if function is not system.apart and "platform" in inspect.signature(function).parameters:
            put(function, "__defaults__", ("win32",))
    module = system._module
    put(system, "_module", lambda name: None if name == "fcntl" else module(name))
    put(os, "replace", _refusing(os.replace))
    put(os, "unlink", _refusing(os.unlink))


def is_open(path: Path) -> bool:
    """Tell whether any process has *path* open."""
    return any(_target(link) == str(path) for link in Path("/proc").glob("[0-9]*/fd/*"))


def _target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - as text
    except OSError:
        return ""


def _refusing(act: Callable[..., None]) -> Callable[..., None]:
    """Return *act* on paths, which fails as on Windows where one of them is open."""

    def refuse(*paths: str | Path, **options: int | None) -> None:
        for path in map(Path, paths):
            if path.is_absolute() and is_open(path):
                problem = PermissionError(13, "The process cannot access the file", str(path))
                problem.winerror = IN_USE  # type: ignore[attr-defined,unused-ignore]
                raise problem
        act(*paths, **options)

    return refuse


if __name__ == "__main__":
    pretend()
    from orchestr8_sqlite.cli import main

    sys.argv[0] = "orchestr8-sqlite"
    main()
