"""All differences between operating systems, so that no other module asks which one it runs on.

Functions that depend on the system take its `sys.platform` name, and modules that only some systems have are imported
on use; so every branch can be tested on every system. docs/platforms.md says what this means for users.
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
"""Windows errors for a file that another program has open: ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION."""

PATIENCE_SECONDS = 10.0
"""How long to wait for an open file: longer than nearly every request and every virus scan of a file."""

RETRY_SECONDS = 0.05

NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Errors of file systems that cannot sync a folder."""

KILL = 9
"""SIGKILL, which the module `signal` lacks on Windows; there this becomes the exit code."""

NEW_PROCESS_GROUP = 0x200
"""CREATE_NEW_PROCESS_GROUP of Windows."""

LEAST_URGENT = 19
"""The largest niceness. Source: POSIX, nice(): 2 * NZERO - 1, which is at least 39, less NZERO."""

M_ARENA_MAX = -8
"""Parameter of mallopt(3): the maximum number of arenas."""


def is_posix(platform: str = sys.platform) -> bool:
    """Tell whether descriptors, sockets and files behave as in POSIX.

    There, an open file can be removed and replaced, a pipe can be polled, a socket can be passed to another process by
    its number, and an address can be bound again at once without letting another server share it.
    """
    return platform != "win32"


def can_fork(platform: str = sys.platform) -> bool:
    """Tell whether a process without threads can safely fork: not if the system's libraries start threads.

    Source: docs.python.org, `multiprocessing`, "Contexts and start methods": on macOS it may crash the child.
    """
    return platform not in ("darwin", "win32") and hasattr(os, "fork")


def file_number(status: os.stat_result, platform: str = sys.platform) -> int:
    """Return the number that distinguishes a file from another of the same time and size; 0 if there is none.

    On Windows the number depends on the file system, and on whether a path or an open file was asked.
    """
    return status.st_ino if is_posix(platform) else 0


def file_uri(path: PurePath) -> str:
    """Return the URI of an absolute path for SQLite, which wants no authority, even for a path on another machine."""
    uri = path.as_uri()
    return uri if uri.startswith("file:///") else uri.replace("file://", "file:////", 1)


def apart(platform: str = sys.platform) -> dict[str, Any]:
    """Return `subprocess` arguments for a process that an interrupt from this one's terminal does not reach."""
    return {"start_new_session": True} if is_posix(platform) else {"creationflags": NEW_PROCESS_GROUP}


def give_way() -> None:
    """Let every other process run first, from now on, also those of the children of this one, if the system can."""
    if sys.platform != "win32":  # as the type checker reads it
        os.nice(LEAST_URGENT)


def kill_apart(process: int, platform: str = sys.platform) -> None:
    """Kill a process that was started with `apart`, and its children if the system can."""
    with suppress(OSError):  # it has ended already
        os.kill(-process if is_posix(platform) else process, KILL)


def more_descriptors(wanted: int) -> int:
    """Return how many descriptors this process may have, after raising its limit to *wanted* if the system allows."""
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
    """Tell whether an event loop can wait for *descriptor* (a pipe or a socket); anything else needs a thread."""
    kind = os.fstat(descriptor).st_mode
    return is_posix(platform) and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))


def replace(temporary: Path, target: Path) -> None:
    """Replace *target* with *temporary* in one step, waiting up to PATIENCE_SECONDS for programs that have it open.

    Raises:
        OSError: The replacement failed, and both files are unchanged; `is_held` tells whether a program has one open.
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
    """Sync a file to the disk: on macOS with the call that also flushes the disk's own cache, if it is supported.

    Raises:
        OSError: The disk failed.
    """
    fcntl = _module("fcntl")
    if fcntl is not None and hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as problem:  # network file systems do not support it
            if problem.errno == errno.EIO:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_folder(folder: Path, platform: str = sys.platform) -> None:
    """Sync the names in *folder* to the disk, if the system and the file system support it.

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
    """Give a file the owner and group of another one, if allowed, and return whether it now has that owner.

    On systems without such owners, all files count as having the same one.
    """
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, like.st_uid, like.st_gid)
    return path.stat().st_uid == like.st_uid


def try_lock(descriptor: int, seconds: float = 0) -> bool | None:
    """Lock a file until *descriptor* is closed and return whether that worked; None if there are no locks.

    Args:
        seconds: How long to wait for another process to release it.
    """
    fcntl = _module("fcntl")
    if fcntl is None:
        return None
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(RETRY_SECONDS)
        except OSError:
            return None
        else:
            return True


def let_block(descriptor: int, platform: str = sys.platform) -> None:
    """Make *descriptor* blocking again, in case a process that shares it has changed that."""
    if is_posix(platform) and hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)


def open_process(process: int) -> int | None:
    """Return a descriptor that becomes readable when *process* has ended; None if the system has none."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return int(os.pidfd_open(process))
    return None


def share_one_arena(platform: str = sys.platform) -> None:
    """Make threads that start from now on share the first one's memory arena; only glibc needs this.

    With its own arena, each thread would keep the memory that its largest request took.
    """
    ctypes: Any = _module("ctypes") if platform == "linux" else None
    if ctypes and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(M_ARENA_MAX, 1)


def _module(name: str) -> ModuleType | None:
    """Return a module of the standard library, or None if this system lacks it."""
    try:
        return __import__(name)
    except ImportError:
        return None
