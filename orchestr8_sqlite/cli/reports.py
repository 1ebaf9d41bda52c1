"""Writes diagnostics for people and programs: as text, JSON, GitHub Actions annotations or SARIF 2.1.0.

Source: GitHub, "Workflow commands"; OASIS, SARIF 2.1.0.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from orchestr8_sqlite import __version__
from orchestr8_sqlite.library.project import Project
from orchestr8_sqlite.library.reviews import located_in, written_folder
from orchestr8_sqlite.library.roots import label_roots
from orchestr8_sqlite.library.rules import SAID
from orchestr8_sqlite.library.verdicts import COLLISION, COPY, OVERRIDDEN
from orchestr8_sqlite.model.records import Diagnostic, Severity

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
NAMING_FILES = (COLLISION, COPY, OVERRIDDEN)
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class Places:
    """Finds the files of a library: you can open `Places(project).path(diagnostic)` from the working folder."""

    def __init__(self, project: Project) -> None:
        sources = [origin.name for origin in project.origins]
        self._folders = dict(zip(label_roots(project.roots, sources), project.roots, strict=True))
        self._folders |= {one.name: one.folder for one in project.origins if not one.location}
        self._project = project
        base = project.base or Path.cwd()
        self._written = {label: written_folder(folder, base) for label, folder in self._folders.items()}
        self._written |= {one.name: one.name for one in project.origins if one.location}
        self.locate = located_in(self._written)

    def path(self, diagnostic: Diagnostic) -> str:
        """Return the file of a diagnostic, or its root folder; relative to the working folder if it lies below it."""
        return _below(self._file(diagnostic), Path.cwd())

    def written(self, root: str, path: str) -> str:
        """Return the file at *path* below the root named *root* as reviews.toml writes it."""
        return "/".join(filter(None, (self._written.get(root, root), path)))

    def line(self, diagnostic: Diagnostic) -> str:
        """Return a diagnostic as one line: path and line, severity, message, rule, what to do."""
        place = self.path(diagnostic) + (f":{diagnostic.line}" if diagnostic.line else "")
        return f"{place}: {diagnostic.severity.value}: {self.message(diagnostic)} [{diagnostic.code}]; {diagnostic.fix}"

    def message(self, diagnostic: Diagnostic) -> str:
        """Return the message of a diagnostic, naming any other file so that you can open it too."""
        message = diagnostic.message
        if diagnostic.code in NAMING_FILES:
            for label, folder in self._folders.items():
                message = message.replace(f" {label}/", f" {_below(folder, Path.cwd())}/".replace(" ./", " "))
        return message

    def is_wanted(self, diagnostic: Diagnostic) -> bool:
        """Tell whether the library's rules select a diagnostic."""
        path = _below(self._file(diagnostic), self._project.base or Path.cwd())
        return self._project.rules.want(diagnostic, path)

    def _file(self, diagnostic: Diagnostic) -> Path:
        folder = self._folders.get(diagnostic.root, Path(diagnostic.root))
        return folder / diagnostic.path if diagnostic.path else folder


def _below(file: Path, folder: Path) -> str:
    """Return *file* relative to *folder* if it lies below it, else as given; with / between its parts."""
    real, base = Path.cwd() / file, folder.absolute()
    parts: list[str] = []
    for part in real.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    plain = Path(*parts)
    return (plain.relative_to(base) if plain.is_relative_to(base) else file).as_posix()


def write_report(form: str, diagnostics: Sequence[Diagnostic], places: Places) -> Iterator[str]:
    """Yield the lines of a report.

    Args:
        form: text, json, github or sarif.
    """
    if form == "json":
        yield json.dumps([_fields(one, places) for one in diagnostics], ensure_ascii=False, indent=2)
    elif form == "sarif":
        yield json.dumps(_sarif(diagnostics, places), ensure_ascii=False, indent=2)
    elif form == "github":
        yield from (_annotation(one, places) for one in diagnostics)
    else:
        yield from (places.line(one) for one in diagnostics)


def _fields(one: Diagnostic, places: Places) -> dict[str, object]:
    return {
        "severity": one.severity.value,
        "code": one.code,
        "file": places.path(one),
        "root": one.root,
        "path": one.path,
        "line": one.line,
        "field": one.field,
        "message": places.message(one),
        "fix": one.fix,
    }


def _annotation(one: Diagnostic, places: Places) -> str:
    """Return a workflow command; GitHub Actions shows it beside the line."""
    properties = {"file": places.path(one), "line": str(one.line or 1), "title": one.code}
    listed = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{COMMANDS[one.severity]} {listed}::{_escaped(f'{places.message(one)}; {one.fix}')}"


def _escaped(text: str, more: str = "") -> str:
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _sarif(diagnostics: Iterable[Diagnostic], places: Places) -> dict[str, Any]:
    found = list(diagnostics)
    codes = sorted({one.code for one in found})
    rules = [{"id": code, "shortDescription": {"text": SAID.get(code, code)}} for code in codes]
    driver = {"name": "orchestr8-sqlite", "version": __version__, "rules": rules}
    results = [_result(one, places) for one in found]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(one: Diagnostic, places: Places) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(places.path(one))}}
    if one.line:
        location["region"] = {"startLine": one.line}
    return {
        "ruleId": one.code,
        "level": LEVELS[one.severity],
        "message": {"text": f"{places.message(one)}; {one.fix}"},
        "locations": [{"physicalLocation": location}],
    }
