"""Logging of the server: one line an event on standard error, `message key=value …`."""

import json
import logging
import sys

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Formats a record on one line, its extra fields as `key=value` with JSON values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback, where there is one, follows in lines of its own."""
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.getMessage()}"
        for key, value in vars(record).items():
            if key not in STANDARD_FIELDS:
                line += f" {key}={json.dumps(value, ensure_ascii=False)}"
        line = line.replace("\n", "\\n").replace("\r", "\\r")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(level: str) -> None:
    """Send this package's log at *level* to standard error, and warnings of the libraries below it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("orchestr8_sqlite").setLevel(LEVELS[level])
