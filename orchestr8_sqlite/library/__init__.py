"""Library roots → records and diagnostics. Nothing is dropped in silence: each file is a record or a diagnostic."""

from orchestr8_sqlite.library.reader import Progress, read_library

__all__ = ["Progress", "read_library"]
