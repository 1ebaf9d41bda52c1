"""Library roots → records and diagnostics. Nothing is dropped in silence: each file is a record or a diagnostic."""

from orchestr8_sqlite.library.reader import Progress, read_library
from orchestr8_sqlite.library.walk import is_skipped

__all__ = ["Progress", "is_skipped", "read_library"]
