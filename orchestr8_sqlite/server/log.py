"""Logging of the server: one line per event on standard error, as text `message key=value …` or as JSON.

With a log file, the same lines go there too, as JSON. Each place shows the texts of requests, digests of them, or
neither.
"""

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType

from orchestr8_sqlite.settings import DIGEST, ServerSettings

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

TEXTS = frozenset({"query", "terms", "uncovered", "mistake", "parameters"})
"""Fields with texts of requests, or with sentences that may quote them."""

DIGEST_LENGTH = 16

of_request: ContextVar[Mapping[str, object]] = ContextVar("of_request", default=MappingProxyType({}))
"""Fields of every line that is logged during a request."""


class _Formatter(logging.Formatter):
    """Knows what to show of the texts of requests: `off`, `hash` or `on`."""

    def __init__(self, queries: str = "on") -> None:
        super().__init__()
        self._queries = queries

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the fields of a line, in order: those of its request, then its own."""
        own = {key: value for key, value in vars(record).items() if key not in STANDARD_FIELDS}
        if self._queries == "off":
            own = {key: value for key, value in own.items() if key not in TEXTS}
        elif self._queries == "hash":
            own = {key: digest(value) if key in TEXTS else value for key, value in own.items()}
        return {**of_request.get(), **own}


class LineFormatter(_Formatter):
    """Formats a record on one line, its extra fields as `key=value` with JSON values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; any traceback follows on lines of its own."""
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.getMessage()}"
        for key, value in self.fields(record).items():
            line += f" {key}={json.dumps(value, ensure_ascii=False)}"
        line = line.replace("\n", "\\n").replace("\r", "\\r")
        line = line if line.isprintable() else "".join(map(_visible, line))
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(_Formatter):
    """Formats a record as one JSON object on one line: time (ISO 8601, UTC), level, message, its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; any traceback is in the field `traceback`."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(fields, ensure_ascii=False)
        return line if line.isprintable() else "".join(map(_visible, line))


FORMATTERS = {"text": LineFormatter, "json": JsonFormatter}


def configure_logging(settings: ServerSettings, *, queries: str) -> None:
    """Send this package's log, and warnings of other libraries, to standard error and to the log file.

    Args:
        queries: What standard error shows of the texts of requests, unless the settings say otherwise.

    Raises:
        SettingsError: The log file cannot be written.
    """
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(FORMATTERS[settings.log_format](settings.log_queries or queries))
    handlers: list[logging.Handler] = [stderr]
    if settings.log_file is not None:
        from orchestr8_sqlite.server.log_file import open_log_file  # noqa: PLC0415 - few servers have one

        handlers.append(open_log_file(settings.log_file))
        handlers[-1].setFormatter(JsonFormatter(settings.log_queries or "hash"))
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.getLogger("orchestr8_sqlite").setLevel(LEVELS[settings.base.log_level])


def digest(value: object) -> object:
    """Return what stands for a text, or for each text of a list: the same for texts that differ only in case."""
    if isinstance(value, list | tuple):
        return [digest(one) for one in value]
    folded = str(value).casefold().encode("utf-8", "surrogatepass")
    return DIGEST + sha256(folded).hexdigest()[:DIGEST_LENGTH]


def _visible(character: str) -> str:
    """Return *character*, escaped as in JSON if it is not printable: it might control a terminal."""
    return character if character.isprintable() else json.dumps(character)[1:-1]
