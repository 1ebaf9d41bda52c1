"""The temporary files of builds beside an index: unique names, and the removal of what killed builds left.

A build holds a lock on one of its files while it or a process that helps it runs: `.index.db.PID.RANDOM.tmp-lock`.
The process id proves nothing, since it is reused and means something else on another machine or in another container;
the lock does. Without such locks, age decides.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestr8_sqlite.system import is_posix, try_lock

OLD_SECONDS = 86_400.0
"""A temporary file without a lock that is older is orphaned; no build goes a day without writing."""

KEYWORDS, LOCK = "-keywords", "-lock"
"""Endings of the files beside the temporary one. The lock is made first and removed last; earlier versions also wrote
keywords."""

OURS = r"(\.{name}\.\d+(?:\.[0-9a-f]{{8}})?\.tmp)(?:-keywords|-lock)?"


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield a name beside *target* that no other build has, and remove a file of that name afterwards.

    Raises:
        OSError: No file can be created there.
    """
    path, lock = _claim(target)
    try:
        yield path
    finally:
        _remove(path, lock)


def remove_leftovers(target: Path) -> None:
    """Remove what killed builds of *target* left, as far as that is allowed."""
    ours = re.compile(OURS.format(name=re.escape(target.name)))
    with suppress(OSError):
        for name in {found[1] for file in target.parent.iterdir() if (found := ours.fullmatch(file.name))}:
            _remove_dead(target.with_name(name))


def _claim(target: Path) -> tuple[Path, int]:
    """Return a new name and its held lock; until it is held, another build may take it for that of a killed build."""
    while True:
        path = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        lock = os.open(_beside(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if try_lock(lock) is not False and _beside(path, LOCK).exists():
            return path, lock
        os.close(lock)


def _remove_dead(path: Path) -> None:
    """Remove the files of a build that no longer runs."""
    try:
        lock = os.open(_beside(path, LOCK), os.O_RDWR)
    except OSError:
        lock = None
    is_dead = None if lock is None else try_lock(lock)
    if is_dead or (is_dead is None and _is_old(path)):
        _remove(path, lock)
    elif lock is not None:
        os.close(lock)


def _is_old(path: Path) -> bool:
    """Tell whether the files of a build were not written to for long; a time far ahead is from a wrong clock."""
    times = []
    for file in (path, _beside(path, KEYWORDS), _beside(path, LOCK)):
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    now = time.time()
    return all(abs(now - one) > OLD_SECONDS for one in times)


def _remove(path: Path, lock: int | None) -> None:
    """Remove the files of a build; one that cannot be removed stays for the next build, with its lock."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        _beside(path, KEYWORDS).unlink(missing_ok=True)
        if is_posix():
            _beside(path, LOCK).unlink(missing_ok=True)
    if lock is not None:
        os.close(lock)
    if not is_posix():  # there it must be closed before
        with suppress(OSError):
            _beside(path, LOCK).unlink(missing_ok=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
