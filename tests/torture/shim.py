"""The library that is preloaded into builds, and the plan of a fault that it shares with all processes of one."""

import errno
import shutil
import struct
import subprocess
import sys
import tempfile
from enum import IntEnum, IntFlag
from functools import cache
from pathlib import Path
from typing import NamedTuple

from torture import Skipped

SOURCE = Path(__file__).with_name("shim.c")
LAYOUT = struct.Struct("=10q512x1024s1024s1024s1024s1024s")
"""`struct plan` of shim.c; 512 bytes are 64 inodes."""


class Action(IntEnum):
    """What happens when the call comes; with the power goes what was not synced, and perhaps the last rename."""

    NOTHING = 0
    KILL_SELF = 1
    KILL_MAIN = 2
    KILL_GROUP = 3
    FAIL = 4
    LOSE_POWER = 5
    LOSE_POWER_AND_RENAME = 6


class Call(IntFlag):
    """Kinds of calls: on files beside the index, but for the last two: files of the library, pipes of helpers."""

    WRITE = 1
    SYNC = 2
    NAME = 4
    READ_INDEX = 8
    READ_LIBRARY = 16
    PIPE = 32


CHANGES = Call.WRITE | Call.SYNC | Call.NAME


class Who(IntEnum):
    """Whose calls count."""

    ANYBODY = 0
    MAIN = 1
    HELPERS = 2


class Fault(NamedTuple):
    """What happens at the call number `at` of these kinds, or at all from there on where it is `sticky`."""

    action: Action = Action.NOTHING
    at: int = 0
    calls: Call = CHANGES
    who: Who = Who.ANYBODY
    error: int = 0
    sticky: bool = False

    def __str__(self) -> str:
        what = errno.errorcode[self.error] if self.error else self.action.name.lower()
        return f"{what} at call {self.at}{' and all after' if self.sticky else ''}"


class Plan:
    """A fault in the file that the processes of a build share, and how far it came."""

    def __init__(self, path: Path, fault: Fault, folder: Path, library: Path) -> None:
        self.path = path
        numbers = (fault.action, fault.error, fault.at, fault.sticky, fault.who, 0, fault.calls, 0, 0, 0)
        places = (folder.resolve(), library.resolve(), "", "", path.with_suffix(".kept"))
        path.write_bytes(LAYOUT.pack(*numbers, *(str(one).encode() if one else b"" for one in places)))

    @property
    def count(self) -> int:
        """Return how many calls there were."""
        return int(LAYOUT.unpack(self.path.read_bytes())[7])

    @property
    def fired(self) -> int:
        """Return how often the fault came."""
        return int(LAYOUT.unpack(self.path.read_bytes())[8])

    def is_safe(self, index: Path) -> bool:
        """Tell whether an index was synced, and the folder that names it."""
        renamed, *unsynced = struct.unpack_from("=65q", self.path.read_bytes(), 72)
        return not renamed and index.stat().st_ino not in unsynced


@cache
def compiled() -> Path:
    """Return the library, compiled for this machine.

    Raises:
        Skipped: There is no compiler, or libraries cannot be preloaded here.
    """
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise Skipped("calls cannot be intercepted: that takes Linux and a C compiler")
    library = Path(tempfile.mkdtemp(prefix="torture-shim-")) / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"calls cannot be intercepted: {done.stderr.splitlines()[0]}")
    return library
