"""Collects diagnostics while a file is read: the file is given once, each problem takes one call."""

from dataclasses import dataclass, field

from orchestr8_sqlite.model.records import Diagnostic, Severity


@dataclass
class Notes:
    """Collects the diagnostics of one file (or, with an empty path, of a whole root)."""

    root: str
    path: str
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def error(self, code: str, message: str, fix: str, *, line: int | None = None, field: str | None = None) -> None:
        """Note a problem that leaves something out of the index."""
        self.add(Severity.ERROR, code, message, fix, line, field)

    def warn(self, code: str, message: str, fix: str, *, line: int | None = None, field: str | None = None) -> None:
        """Note a problem that was repaired, or that will trouble readers of the library."""
        self.add(Severity.WARNING, code, message, fix, line, field)

    def inform(self, code: str, message: str, fix: str, *, line: int | None = None, field: str | None = None) -> None:
        """Note something worth knowing that is not a fault."""
        self.add(Severity.INFO, code, message, fix, line, field)

    def add(
        self, severity: Severity, code: str, message: str, fix: str, line: int | None, field_name: str | None = None
    ) -> None:
        """Note a problem of any severity; line breaks in its names become spaces."""
        field_name = field_name and " ".join(field_name.split())
        message = " ".join(message.split())
        self.diagnostics.append(Diagnostic(severity, code, self.root, self.path, line, field_name, message, fix))


def shown(value: str, limit: int = 80) -> str:
    """Return *value* quoted for a message, on one line and cut to *limit* characters."""
    text = " ".join(value.split())
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
