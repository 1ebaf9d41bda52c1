"""The checksum of an index file: a page behind the last one of the database, which SQLite never looks at.

SQLite notices damage where a page makes no sense. A byte that has become another one within a text, a list or a key
makes sense, and what is read of it is wrong. So a build adds the CRC-32 of all the bytes before it, and whoever answers
from the file compares: a thread reads it whole while the answer is being made.
"""

import os
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import BinaryIO

from orchestr8_sqlite.connections import Identity, identity_of
from orchestr8_sqlite.errors import CatalogError, Orchestr8Error

REBUILD = "build it again with: orchestr8-sqlite build ROOT -o INDEX --full"

MARK = b"o8sq checksum 1\0"
PAGE = 4096
"""Bytes of the page behind the database: MARK, the sum in four bytes with the high one first, and zeros."""

SMALL = 1 << 24
"""Bytes of the largest file that is compared whenever it is opened. It takes 6 ms, the rest of a first answer 130."""

PATIENCE = 1 << 27
"""Bytes of the largest file whose comparison, where it has begun, answers wait for. That takes 50 ms."""

PIECE = 1 << 22
"""Bytes read at a time: between two pieces a thread may have to wait for the others."""

HEADER = 100
"""Bytes that a database begins with. Source: https://www.sqlite.org/fileformat2.html#the_database_header."""


_written: dict[Path, Identity] = {}
"""The files that this process has put in place: what it has summed up just now need not be compared."""


def add_checksum(path: Path) -> None:
    """Let the finished database at *path*, which nobody has open, end with its checksum; its times stay.

    Raises:
        OSError: It cannot be read or written.
    """
    with path.open("rb+") as file:
        status = os.fstat(file.fileno())
        end = _end_of_database(file)
        page = _page(_sum(file, end))
        file.truncate(end)
        file.seek(end)
        file.write(page)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def remember_written(path: Path, modified: int) -> None:
    """Let the index at *path* pass for what was built, where it has the time that this process has given it.

    Args:
        modified: That time, in ns since 1970; the file of another process has another.
    """
    with suppress(OSError):
        identity = identity_of(path.stat())
        if identity[1] == modified:
            _written[path] = identity


class Comparison:
    """What is known of a file: that it ends as a build leaves it, and, once it is read whole, that nothing has changed.

    `fault` says what is wrong with it, empty while nothing is known to be. A SMALL file begins to be read at once.
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
        """Tell whether the file is being read, or was, and answers wait until it is read whole."""
        return self._begun and self._identity[2] <= PATIENCE

    def begin(self) -> None:
        """Begin to read the file whole, if that is not done already."""
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
        """Return what is wrong with the file, empty where nothing is, once it is read whole."""
        self.begin()
        self._over.wait()
        return self.fault

    def require_no_fault(self) -> None:
        """Raise CatalogError where something is known to be wrong with the file."""
        if self.fault:
            raise CatalogError(f"The index {self._path} is damaged: {self.fault}; {REBUILD}.")

    def require(self, *, fully: bool) -> None:
        """Raise CatalogError where something is wrong with the file, once that is known.

        Args:
            fully: Wait for that however large the file is.
        """
        if fully or self.is_soon_over:
            self.result()
        self.require_no_fault()

    def require_after(self, error: BaseException | None) -> None:
        """Raise CatalogError where work that ended with *error* has read of a file that is damaged or was overwritten.

        Where nobody foresaw the error, that is found out however large the file is.
        """
        is_foreseen = error is None or isinstance(error, Orchestr8Error) or not isinstance(error, Exception)
        self.require(fully=not is_foreseen)
        if self._is_overwritten():
            raise CatalogError(f"The index {self._path} was overwritten while it was being read; ask again.")

    def _is_overwritten(self) -> bool:
        """Tell whether the very file has been given another content since, so that what was read may be of both.

        Where files have no numbers, that cannot be told from another file in its place.
        """
        try:
            identity = identity_of(os.stat(self._path))  # noqa: PTH116 - half as dear
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
        self._end(fault)  # once the file is closed, which may be waited for

    def _compared(self, file: BinaryIO) -> str:
        number, _, size = identity_of(os.fstat(file.fileno()))
        if (number, size) != (self._identity[0], self._identity[2]):  # whoever renews its time leaves it as it is
            return "another file has taken its place"
        same = self._last_page == _page(_sum(file, self._identity[2] - PAGE))
        return "" if same else "its checksum is not that of its build"

    def _end(self, fault: str) -> None:
        self.fault = fault
        self._over.set()


@lru_cache(maxsize=8)
def comparison_of(path: Path, identity: Identity) -> Comparison:
    """Return what is known of the file at *path*, the same for all who ask for this one.

    Raises:
        OSError: It cannot be read.
    """
    return Comparison(path, identity)


def _end_of_database(file: BinaryIO) -> int:
    """Return how many bytes the database takes by its own account."""
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
    """Return the CRC-32 of the first *end* bytes. Both reading and summing let other threads run."""
    piece = memoryview(bytearray(PIECE))
    file.seek(0)
    sum_ = 0
    while end > 0 and (count := file.readinto(piece[: min(PIECE, end)])):  # type: ignore[attr-defined]
        sum_ = zlib.crc32(piece[:count], sum_)
        end -= count
    return sum_
