"""Logging of the server: one line per event on standard error, as text `message key=value …` or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Formats a record on one line, its extra fields as `key=value` with JSON values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; any traceback follows on lines of its own."""
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.getMessage()}"
        for key, value in _extra(record).items():
            line += f" {key}={json.dumps(value, ensure_ascii=False)}"
        line = line.replace("\n", "\\n").replace("\r", "\\r")
        line = line if line.isprintable() else "".join(map(_visible, line))
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line: time (ISO 8601, UTC), level, message, its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; any traceback is in the field `traceback`."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(fields, ensure_ascii=False)
        return line if line.isprintable() else "".join(map(_visible, line))


FORMATTERS = {"text": LineFormatter, "json": JsonFormatter}


def configure_logging(level: str, form: str = "text") -> None:
    """Send this package's log at *level* in *form* to standard error, and warnings of other libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[form]())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("orchestr8_sqlite").setLevel(LEVELS[level])


def _visible(character: str) -> str:
    """Return *character*, escaped as in JSON if it is not printable: it might control a terminal."""
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in STANDARD_FIELDS}
