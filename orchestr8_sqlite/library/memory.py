"""What was read of the files of a library, from one reading to the next.

A file is read and parsed again only where it may have changed. A file whose new version is refused keeps the record
of the last version that was not.
"""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.content import Diagnostic, Fragment, Prompt

Key = tuple[str, str]
"""Name of the root, path below it."""

DOUBT_NS = 2_000_000_000
"""A file that was changed less than this before it was read is read again: file systems tell no two changes apart
that come within the same tick, two seconds at the worst."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The bytes of a file and when they were written; `settled` where no later change can look the same."""

    content: bytes
    sha256: str
    mtime_ns: int
    signature: tuple[int, ...]
    settled: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file was read as: a record, or None where there is none, and the diagnostics.

    `id_line` is the line of its `id`. A file is not `finished` where it looks as if it were just being written.
    """

    record: Fragment | Prompt | None
    diagnostics: tuple[Diagnostic, ...]
    id_line: int | None = None
    finished: bool = True


def read_stored(path: Path, _: Key) -> Stored:
    """Return the file at *path*.

    Raises:
        OSError: It cannot be read.
    """
    status = path.stat()
    now = time.time_ns()
    content = path.read_bytes()
    settled = now - max(status.st_mtime_ns, status.st_ctime_ns) > DOUBT_NS
    digest = hashlib.sha256(content).hexdigest()
    return Stored(content, digest, status.st_mtime_ns, _signature(status), settled)


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


class Memory:
    """The files of a library as they were read last. Belongs to one set of roots."""

    def __init__(self) -> None:
        self._stored: dict[Key, Stored] = {}
        self._parsed: dict[Key, tuple[Hashable, Parsed]] = {}
        self._before: dict[Key, str] = {}
        self.good: dict[Key, Parsed] = {}

    def stored(self, path: Path, key: Key) -> Stored:
        """Return the file at *path*, from memory where it is surely the same.

        Raises:
            OSError: It cannot be read.
        """
        try:
            status = path.stat()
        except OSError:
            self._stored.pop(key, None)
            raise
        signature = _signature(status)
        known = self._stored.get(key)
        if known is not None and known.settled and known.signature == signature:
            return known
        self._stored.pop(key, None)
        self._stored[key] = stored = read_stored(path, key)
        return stored

    def parsed(self, key: Key, basis: Hashable, parse: Callable[[], Parsed]) -> Parsed:
        """Return what *parse* returned last time for *key*, where that was on the same *basis*."""
        known = self._parsed.get(key)
        if known is None or known[0] != basis:
            known = self._parsed[key] = (basis, parse())
        return known[1]

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all files but *keys*."""
        for known in (self._stored, self._parsed, self.good):
            for key in known.keys() - set(keys):
                del known[key]

    def take_changes(self) -> list[Key]:
        """Return the files whose bytes are not those of the last time this was asked, in their order."""
        now = {key: stored.sha256 for key, stored in self._stored.items()}
        before, self._before = self._before, now
        return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
