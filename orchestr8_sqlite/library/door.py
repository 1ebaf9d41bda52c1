"""Opens library files, the only module that does: regular files inside their root, read up to a size limit.

A name may point elsewhere a moment after it was checked. So each folder on the path is opened in turn, never through a
symbolic link.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LINKED = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""Error numbers for a symbolic link that must not be followed; EMLINK is NetBSD's."""

FILE = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open a file; opening a pipe does not wait for its other end."""

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
CAN_OPEN_BELOW = os.open in os.supports_dir_fd
"""Whether files can be opened relative to an open folder: everywhere except on Windows."""

CHUNK = 1 << 20
"""Bytes per read."""


class NotOfLibrary(OSError):
    """The file is not a regular file, or a symbolic link leads out of the root."""


class Opened(NamedTuple):
    """The status of a file, its bytes (None if it is too large), and whether it stood still: unchanged while read.

    All three describe the same file, even if another has replaced it meanwhile.
    """

    status: os.stat_result
    content: bytes | None
    stood_still: bool = True


def read_regular(root: Path, path: str, most: int) -> Opened:
    """Return the status and bytes of a library file.

    Args:
        root: The folder that the file must be in.
        path: Its path below *root*, with /; symbolic links on it must stay inside *root*.
        most: Size of the largest file that is read, in bytes.

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
    """Open a file; resolve links only if *path* has one, or if the system cannot open relative to a folder."""
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
    """Open the file that *parts* name below *root*; none of them may be a link."""
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
    """Return at most *most* + 1 bytes of an open file, which may have grown since its size was checked."""
    parts, left = [], most + 1
    while left and (part := os.read(number, min(left, CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
