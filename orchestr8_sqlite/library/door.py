"""The one way by which a file of a library is opened: a regular file inside its root, read up to a bound.

A name may lead elsewhere a moment after it was looked at. So the folders on the way to a file are opened one by one,
none of them through a symbolic link.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LINKED = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""What systems say of a symbolic link that is not to be followed; NetBSD the last one."""

FILE = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file is opened: without waiting for the other end of what is a pipe."""

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
CAN_OPEN_BELOW = os.open in os.supports_dir_fd
"""Whether files can be opened relative to an open folder: everywhere but on Windows."""

CHUNK = 1 << 20
"""Bytes that are read at a time."""


class NotOfLibrary(OSError):
    """The file is not a regular one, or a symbolic link leads out of the root."""


class Opened(NamedTuple):
    """What the system says of a file, its bytes (None of one that is too large), and whether it stood still meanwhile.

    All of it is of one file even if another one has replaced it; it has stood still if nobody wrote to it.
    """

    status: os.stat_result
    content: bytes | None
    stood_still: bool = True


def read_regular(root: Path, path: str, most: int) -> Opened:
    """Return a file of a library.

    Args:
        root: The folder that the file must be in.
        path: Where it is there, with /; symbolic links may lead to it that stay inside.
        most: The bytes of the largest file that is read.

    Raises:
        NotOfLibrary: It is not a regular file, or not inside *root*.
        OSError: It cannot be read.
    """
    number = _open_inside(root, path)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise NotOfLibrary(errno.EINVAL, "it is not a regular file")
        if status.st_size > most:
            return Opened(status, None)
        content, now = _read(number, most), os.fstat(number)
        stood_still = (now.st_size, now.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        return Opened(status, content if len(content) <= most else None, stood_still)
    finally:
        os.close(number)


def _open_inside(root: Path, path: str) -> int:
    """Open a file; only where a part of *path* is a link, or the system knows no better way, ask where that leads."""
    if CAN_OPEN_BELOW:
        try:
            return _open_below(os.fspath(root), path.split("/"))
        except OSError as problem:
            if problem.errno not in LINKED:
                raise
    inside, place = os.path.realpath(root), os.path.realpath(root / path)
    if not place.startswith(inside.rstrip(os.sep) + os.sep):
        raise NotOfLibrary(errno.EXDEV, "a symbolic link leads out of the library")
    if not CAN_OPEN_BELOW:
        return os.open(place, FILE)
    return _open_below(inside, Path(place).relative_to(inside).parts)


def _open_below(root: str, parts: Sequence[str]) -> int:
    """Open the file that *parts* name below *root*, where none of them is a link."""
    folder = os.open(root, FOLDER)
    try:
        for name in parts[:-1]:
            inner = os.open(name, FOLDER | NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(parts[-1], FILE | NO_LINK, dir_fd=folder)
    finally:
        os.close(folder)


def _read(number: int, most: int) -> bytes:
    """Return the bytes of an open file, at most one more than *most*: it may have grown since it was looked at."""
    parts, left = [], most + 1
    while left and (part := os.read(number, min(left, CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
