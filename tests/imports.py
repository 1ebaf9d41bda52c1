"""What a Python process imports, counted in a fresh one, and through whom each module came in."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache

MARK = "import time:"
PACKAGE = "orchestr8_sqlite"
AT_END = "modules at the end: "
TELL = f"""
import atexit, sys
atexit.register(lambda: sys.stderr.write({AT_END!r} + " ".join(sys.modules) + "\\n"))
"""
"""What a process runs first to name its modules at the end: `-X importtime` is silent on `importlib.import_module`."""


class Imports:
    """The modules that a process has imported, of itself and on top of *floor*, which any process of its kind needs."""

    def __init__(self, importers: Mapping[str, str | None], floor: "Imports | None" = None) -> None:
        self._importers = importers
        self._floor = floor

    @property
    def own(self) -> list[str]:
        """Return the modules of this package."""
        return sorted(name for name in self._importers if name.partition(".")[0] == PACKAGE)

    @property
    def others(self) -> list[str]:
        """Return all modules but those of this package and of the floor."""
        known = {*self.own, *(self._floor.all if self._floor else ())}
        return sorted(name for name in self._importers if name not in known)

    @property
    def all(self) -> list[str]:
        """Return all modules."""
        return sorted(self._importers)

    def way(self, name: str) -> str:
        """Return *name* and the modules that imported it, one another and so on, the nearest first."""
        way = [name]
        while (importer := self._importers[way[-1]]) and importer not in way:
            way.append(importer)
        return " <- ".join([*way, "a function, when it was called"])


def read_imports(stderr: str, floor: Imports | None = None) -> Imports:
    """Return what `-X importtime` reports in *stderr*: each module below and after those that it imports."""
    importers: dict[str, str | None] = {}
    open_modules: list[str] = []
    for line in reversed(stderr.splitlines()):
        if line.startswith(AT_END):
            importers |= dict.fromkeys(line.removeprefix(AT_END).split())
        column = line.rpartition("|")[2]
        name = column.strip()
        if not line.startswith(MARK) or name == "imported package":
            continue
        depth = (len(column) - len(column.lstrip(" ")) - 1) // 2
        del open_modules[depth:]
        importers[name] = open_modules[-1] if open_modules else None
        open_modules.append(name)
    return Imports(importers, floor)


def imports_of(code: str, arguments: Sequence[str] = (), floor: Imports | None = None) -> Imports:
    """Return what a fresh process imports that runs *code*, which must end well."""
    command = [sys.executable, "-X", "importtime", "-c", TELL + code, *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return read_imports(done.stderr, floor)


@cache
def floor_of(code: str) -> Imports:
    """Return what *code*, of which there is no less, imports."""
    return imports_of(code)
