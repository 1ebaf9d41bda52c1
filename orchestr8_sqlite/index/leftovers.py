"""The temporary files of builds beside an index: gives them unique names and removes those of killed builds.

While a build or one of its helper processes runs, it holds a lock on `.index.db.PID.RANDOM.tmp-lock`. The process id
proves nothing: it is reused, and means something else on another machine or in another container. The lock does prove
it. On systems without such locks, age decides.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestr8_sqlite.system import is_posix, try_lock

OLD_SECONDS = 86_400.0
"""A lock-less temporary file older than this is orphaned; no build goes a day without writing."""

KEYWORDS, LOCK = "-keywords", "-lock"
"""Endings of the files beside the temporary one. The lock is created first and removed last; only earlier versions
wrote keywords."""

OURS = r"(\.{name}\.\d+(?:\.[0-9a-f]{{8}})?\.tmp)(?:-keywords|-lock)?"


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield a path beside *target* that no other build uses, and remove its file afterwards.

    Raises:
        OSError: No file can be created there.
    """
    path, lock = _claim(target)
    try:
        yield path
    finally:
        _remove(path, lock)


def remove_leftovers(target: Path) -> None:
    """Remove the files that killed builds of *target* left, as far as permissions allow."""
    ours = re.compile(OURS.format(name=re.escape(target.name)))
    with suppress(OSError):
        for name in {found[1] for file in target.parent.iterdir() if (found := ours.fullmatch(file.name))}:
            _remove_dead(target.with_name(name))


def _claim(target: Path) -> tuple[Path, int]:
    """Return a new path and its held lock; retry if another build took the lock for an orphan before it was held."""
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
    """Tell whether no file of a build was written for OLD_SECONDS; a time far in the future also counts as old."""
    times = []
    for file in (path, _beside(path, KEYWORDS), _beside(path, LOCK)):
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    now = time.time()
    return all(abs(now - one) > OLD_SECONDS for one in times)


def _remove(path: Path, lock: int | None) -> None:
    """Remove the files of a build; if one cannot be removed, it and its lock stay for the next build."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        _beside(path, KEYWORDS).unlink(missing_ok=True)
        if is_posix():
            _beside(path, LOCK).unlink(missing_ok=True)
    if lock is not None:
        os.close(lock)
    if not is_posix():  # Windows cannot remove an open file
        with suppress(OSError):
            _beside(path, LOCK).unlink(missing_ok=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
