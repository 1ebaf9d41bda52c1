"""What differs from one operating system to another: all of it, so that no other module asks which one this is.

What decides takes the name of the system as `sys.platform` has it, and what only some systems have is imported where it
is used; so both are tested wherever the tests run. docs/platforms.md says what follows for whom.
"""

import errno
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

HELD = frozenset({5, 32})
"""What Windows says of a file that another program has open: ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION."""

PATIENCE_SECONDS = 10.0
"""How long a file that is open is waited for: longer than nearly every request and every look of a virus scanner."""

RETRY_SECONDS = 0.05

NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""What a file system says that knows no sync of a folder."""

KILL = 9
"""SIGKILL, which the module `signal` does not name on Windows; there it is the exit code."""

NEW_PROCESS_GROUP = 0x200
"""CREATE_NEW_PROCESS_GROUP of Windows."""

M_ARENA_MAX = -8
"""Of mallopt(3)."""


def is_posix(platform: str = sys.platform) -> bool:
    """Tell whether descriptors, sockets and files are those of POSIX.

    A file that is open can be removed and replaced there, a pipe can be polled, a socket goes to another process by its
    number, and an address can be bound anew at once without another server's being able to share it.
    """
    return platform != "win32"


def can_fork(platform: str = sys.platform) -> bool:
    """Tell whether a process without threads can safely go on as two: not where the system's libraries have their own.

    Source: docs.python.org, `multiprocessing`, "Contexts and start methods": on macOS it may crash the child.
    """
    return platform not in ("darwin", "win32") and hasattr(os, "fork")


def file_number(status: os.stat_result, platform: str = sys.platform) -> int:
    """Return what tells a file from another of the same time and size, 0 where nothing does so for sure.

    On Windows the number hangs on the file system, and on whether a path or an open file was asked for.
    """
    return status.st_ino if is_posix(platform) else 0


def file_uri(path: PurePath) -> str:
    """Return the URI of an absolute path as SQLite reads it: one of another machine, too, has no authority."""
    uri = path.as_uri()
    return uri if uri.startswith("file:///") else uri.replace("file://", "file:////", 1)


def apart(platform: str = sys.platform) -> dict[str, Any]:
    """Return the arguments of `subprocess` for a process that an interrupt from this one's terminal does not reach."""
    return {"start_new_session": True} if is_posix(platform) else {"creationflags": NEW_PROCESS_GROUP}


def kill_apart(process: int, platform: str = sys.platform) -> None:
    """Kill a process that was started `apart`, and what it has started as far as the system knows of that."""
    with suppress(OSError):  # it is gone
        os.kill(-process if is_posix(platform) else process, KILL)


def more_descriptors(wanted: int) -> int:
    """Let this process have *wanted* descriptors, or as many as the system allows; return how many it may have."""
    resource = _module("resource")
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == unlimited else soft


def can_be_polled(descriptor: int, platform: str = sys.platform) -> bool:
    """Tell whether an event loop can wait for *descriptor*: a pipe or a socket; what else there is needs a thread."""
    kind = os.fstat(descriptor).st_mode
    return is_posix(platform) and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))


def replace(temporary: Path, target: Path) -> None:
    """Put *temporary* in the place of *target* in one step, as soon as nobody forbids it who has that open.

    Raises:
        OSError: It cannot be done, `is_held` tells whether for that reason; both files are as they were.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            temporary.replace(target)
        except OSError as problem:
            if not is_held(problem) or time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def is_held(problem: OSError) -> bool:
    """Tell whether a file could not be replaced or removed because a program has it open."""
    return getattr(problem, "winerror", None) in HELD


def sync_file(descriptor: int) -> None:
    """Bring a file to the disk: on macOS by the call that the disk's own memory heeds, too, where there is one.

    Raises:
        OSError: The disk failed.
    """
    fcntl = _module("fcntl")
    if fcntl is not None and hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as problem:  # file systems of other machines do not know it
            if problem.errno == errno.EIO:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_folder(folder: Path, platform: str = sys.platform) -> None:
    """Bring the names in *folder* to the disk, where the system and the file system know that.

    Raises:
        OSError: The disk failed.
    """
    if not is_posix(platform):
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        sync_file(number)
    except OSError as problem:
        if problem.errno not in NO_SYNC:
            raise
    finally:
        os.close(number)


def give(path: Path, like: os.stat_result) -> bool:
    """Give a file the owner and group of another one, as far as that is allowed; tell whether it has that owner now.

    Where files have no owners of this kind they all are alike.
    """
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, like.st_uid, like.st_gid)
    return path.stat().st_uid == like.st_uid


def try_lock(descriptor: int) -> bool | None:
    """Lock a file until *descriptor* is closed and tell whether that could be done: None where there are no locks."""
    fcntl = _module("fcntl")
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def let_block(descriptor: int, platform: str = sys.platform) -> None:
    """Let whoever reads or writes *descriptor* wait, where others that share it may have said otherwise."""
    if is_posix(platform) and hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)


def open_process(process: int) -> int | None:
    """Return a descriptor that can be read once *process* has ended; None where there is no such thing."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return int(os.pidfd_open(process))
    return None


def share_one_arena(platform: str = sys.platform) -> None:
    """Let threads that start from now on take memory where the first one does; with a C library but glibc, nothing.

    In an arena of its own each would keep what its largest request took.
    """
    ctypes: Any = _module("ctypes") if platform == "linux" else None
    if ctypes and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(M_ARENA_MAX, 1)


def _module(name: str) -> ModuleType | None:
    """Return a module of the standard library that not every system has."""
    try:
        return __import__(name)
    except ImportError:
        return None
