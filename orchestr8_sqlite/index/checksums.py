"""The checksum of an index file: one extra page after the database, where SQLite never looks.

SQLite notices damage only if a page is malformed. A changed byte within a text, a number or a key goes unnoticed and
gives wrong answers. So a build appends the CRC-32 of all bytes, and the server compares it: a thread reads the whole
file while an answer is being made.
"""

import os
import zlib
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import BinaryIO

from orchestr8_sqlite.errors import CatalogError, Orchestr8Error
from orchestr8_sqlite.index.connections import Identity, identity_of

REBUILD = "build it again with: orchestr8-sqlite build ROOT -o INDEX --full"

MARK = b"o8sq checksum 1\0"
PAGE = 4096
"""Bytes of the page after the database: MARK, the sum as four big-endian bytes, and zeros."""

SMALL = 1 << 24
"""Compare a file up to this many bytes whenever it is opened: 6 ms, while the rest of a first answer takes 130 ms."""

PATIENCE = 1 << 27
"""For files up to this many bytes, answers wait for a comparison that has begun: 50 ms."""

PIECE = 1 << 22
"""Bytes to read at a time; other threads can run between two pieces."""

HEADER = 100
"""Bytes of a database's header. Source: https://www.sqlite.org/fileformat2.html#the_database_header."""


_written: dict[Path, Identity] = {}
"""The files that this process put in place: it computed their checksums itself, so it need not compare them."""


def add_checksum(path: Path) -> None:
    """Append the checksum to the finished database at *path*, which must not be open; keep the file's times.

    Raises:
        OSError: The file cannot be read or written.
    """
    with path.open("rb+") as file:
        status = os.fstat(file.fileno())
        end = _end_of_database(file)
        page = _page(_sum(file, end))
        file.truncate(end)
        file.seek(end)
        file.write(page)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def remember_written(path: Path, identity: Identity) -> None:
    """Trust the index at *path* without comparing it, as long as it is the file that this process put there."""
    _written[path] = identity


class Comparison:
    """Compares a file with its checksum: the mark at its end at once, the sum once a thread has read all of it.

    `fault` says what is wrong with the file, and is empty until something is known. A SMALL file is read at once.
    """

    def __init__(self, path: Path, identity: Identity) -> None:
        self.fault = ""
        self._path = path
        self._identity = identity
        self._lock = Lock()
        self._begun = False
        self._over = Event()
        with path.open("rb", buffering=0) as file:
            self._last_page = _read_last_page(file, identity)
            if _end_of_database(file) != identity[2] - PAGE or not self._last_page.startswith(MARK):
                self._begun, self.fault = True, "it does not end with the checksum of a build"
                self._over.set()
            elif _written.get(path) == identity:
                self._begun = True
                self._over.set()
        if identity[2] <= SMALL:
            self.begin()

    @property
    def is_soon_over(self) -> bool:
        """Tell whether answers should wait for the comparison: it has begun and will not take long."""
        return self._begun and self._identity[2] <= PATIENCE

    def begin(self) -> None:
        """Begin to read the whole file, unless that has begun."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
        try:
            file = self._path.open("rb", buffering=0)
        except OSError:
            self._end("it has gone")
            return
        Thread(target=self._read, args=(file,), name="checksum", daemon=True).start()

    def result(self) -> str:
        """Wait until the whole file is read and return what is wrong with it; empty if nothing is."""
        self.begin()
        self._over.wait()
        return self.fault

    def require_no_fault(self) -> None:
        """Raise CatalogError if a fault is already known."""
        if self.fault:
            what = "was changed by another program, or is damaged"
            raise CatalogError(f"The index {self._path} {what}: {self.fault}; {REBUILD}.")

    def require(self, *, fully: bool) -> None:
        """Raise CatalogError if a fault is known, after waiting for the comparison if it is soon over.

        Args:
            fully: Wait for the comparison, however large the file is.
        """
        if fully or self.is_soon_over:
            self.result()
        self.require_no_fault()

    def require_after(self, error: BaseException | None) -> None:
        """Raise CatalogError if the file is damaged or was overwritten during work that ended with *error*.

        After an unexpected error, wait for the comparison of a file of any size.
        """
        is_foreseen = error is None or isinstance(error, Orchestr8Error) or not isinstance(error, Exception)
        self.require(fully=not is_foreseen)
        if self._is_overwritten():
            raise CatalogError(f"The index {self._path} was overwritten while it was being read; ask again.")

    def _is_overwritten(self) -> bool:
        """Tell whether the file was overwritten in place, so that we may have read a mix of old and new content.

        Systems without file numbers cannot tell this from a replaced file.
        """
        try:
            identity = identity_of(os.stat(self._path))  # noqa: PTH116 - takes half the time
            if identity == self._identity or identity[0] != self._identity[0] or not identity[0]:
                return False
            now = comparison_of(self._path, identity)
        except OSError:
            return False
        return now.result() != "" or now._last_page != self._last_page  # noqa: SLF001 - of the same class

    def _read(self, file: BinaryIO) -> None:
        try:
            with file:
                fault = self._compared(file)
        except OSError as problem:
            fault = f"it cannot be read: {problem.strerror}"
        self._end(fault)  # after closing the file: a waiter may want to replace it

    def _compared(self, file: BinaryIO) -> str:
        number, _, size = identity_of(os.fstat(file.fileno()))
        if (number, size) != (self._identity[0], self._identity[2]):  # a renewed time changes nothing else
            return "another file has taken its place"
        same = self._last_page == _page(_sum(file, self._identity[2] - PAGE))
        return "" if same else "its checksum is not that of its build"

    def _end(self, fault: str) -> None:
        self.fault = fault
        self._over.set()


@lru_cache(maxsize=8)
def comparison_of(path: Path, identity: Identity) -> Comparison:
    """Return the comparison of the file at *path*, which all callers share.

    Raises:
        OSError: The file cannot be read.
    """
    return Comparison(path, identity)


def _end_of_database(file: BinaryIO) -> int:
    """Return the size of the database in bytes, from its header: page size times page count."""
    file.seek(0)
    header = file.read(HEADER)
    size = int.from_bytes(header[16:18], "big")
    return (65536 if size == 1 else size) * int.from_bytes(header[28:32], "big")


def _read_last_page(file: BinaryIO, identity: Identity) -> bytes:
    file.seek(max(identity[2] - PAGE, 0))
    return file.read(PAGE)


def _page(sum_: int) -> bytes:
    return (MARK + sum_.to_bytes(4, "big")).ljust(PAGE, b"\0")


def _sum(file: BinaryIO, end: int) -> int:
    """Return the CRC-32 of the first *end* bytes. Reading and summing both release the interpreter lock."""
    piece = memoryview(bytearray(PIECE))
    file.seek(0)
    sum_ = 0
    while end > 0 and (count := file.readinto(piece[: min(PIECE, end)])):  # type: ignore[attr-defined]
        sum_ = zlib.crc32(piece[:count], sum_)
        end -= count
    return sum_
