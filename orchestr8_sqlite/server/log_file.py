"""The log file: rotated by size, and shared by all processes that are told to use it.

Lines of several processes do not mix, because each is appended with one write. No process waits for another: the one
that finds the file full rotates it, unless another is about to, and writes to what is there. The others see by the
number of the file that theirs has another name now, and open the new one.
"""

import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.settings import LogFile
from orchestr8_sqlite.system import file_number, try_lock

logger = logging.getLogger(__name__)


def open_log_file(file: LogFile) -> "SharedFileHandler":
    """Return the handler that writes to *file*.

    Raises:
        SettingsError: It cannot be written.
    """
    if file.path.exists() and not file.path.is_file():  # such as /dev/stdout, which belongs to the protocol
        raise SettingsError(f"ORCHESTR8_LOG_FILE {file.path} is no regular file; name one that can be rotated.")
    try:
        return SharedFileHandler(file)
    except OSError as problem:
        raise SettingsError(f"ORCHESTR8_LOG_FILE {file.path} cannot be written: {problem.strerror}.") from None


class SharedFileHandler(RotatingFileHandler):
    """The standard library's handler, for a file that other processes write to and rotate, too."""

    stream: io.TextIOWrapper

    def __init__(self, file: LogFile) -> None:
        self._path = file.path.absolute()
        self._has_told = False
        super().__init__(self._path, maxBytes=file.file_bytes, backupCount=file.kept, encoding="utf-8")

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - named by the base class
        """Return whether the file is full; if another process has rotated it, open the new one first."""
        if not self._is_current():
            self._reopen()
        return os.fstat(self.stream.fileno()).st_size >= self.maxBytes

    def doRollover(self) -> None:  # noqa: N802
        """Rotate the file, unless another process is about to or has done so; if that fails, the file grows."""
        try:
            lock = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if try_lock(lock) is not False and self._is_current():
                    self.stream.close()
                    self._path.rename(self._path)  # fails on Windows, before any file moves, if another has it open
                    super().doRollover()
            finally:
                os.close(lock)
        except OSError as problem:
            self._tell("The log file cannot be rotated", problem)
            self._reopen()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say once that a line could not be written; the server goes on."""
        problem = sys.exc_info()[1]
        if isinstance(problem, OSError):
            self._tell("The log file cannot be written", problem)
        else:
            super().handleError(record)

    def _open(self) -> io.TextIOWrapper:
        """Return the file, opened to append each line with one write."""
        return io.TextIOWrapper(io.FileIO(self._path, "a"), encoding="utf-8", newline="\n", write_through=True)

    def _reopen(self) -> None:
        self.stream.close()
        self.stream = self._open()

    def _is_current(self) -> bool:
        """Return whether the name still leads to the open file."""
        if self.stream.closed:
            return False
        try:
            return file_number(self._path.stat()) == file_number(os.fstat(self.stream.fileno()))
        except FileNotFoundError:
            return False

    def _tell(self, what: str, problem: OSError) -> None:
        if not self._has_told:
            self._has_told = True
            logger.error(what, extra={"reason": problem.strerror})
