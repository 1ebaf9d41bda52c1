"""The records read from a library: fragments, prompts, skills, and their diagnostics.

All are frozen: a stage makes new records and never edits those of the stage before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from orchestr8_sqlite.model.requests import PromptArgument


class Severity(StrEnum):
    """How bad a diagnostic is: `error` left something out, `warning` was repaired, `info` is worth knowing.

    Leaving something out without loss is not an error: an empty file, or a copy of another one.

    For findings of `library/trust/` these are the levels high, medium and low.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem of a library: what, where, and how to fix it."""

    severity: Severity
    code: str
    root: str
    path: str
    line: int | None
    field: str | None
    message: str
    fix: str

    @property
    def place(self) -> str:
        """Return `root/path:line`, which editors and terminals make clickable."""
        where = f"{self.root}/{self.path}" if self.path else self.root
        return where if self.line is None else f"{where}:{self.line}"

    @property
    def line_of_text(self) -> str:
        """Return the diagnostic as one line: place, severity, message, code, fix."""
        return f"{self.place}: {self.severity.value}: {self.message} [{self.code}]; {self.fix}"

    def order(self) -> tuple[str, str, int, str, str]:
        """Return the sort key of diagnostics: root, path, line, code, message."""
        return self.root, self.path, self.line or 0, self.code, self.message


class Review(NamedTuple):
    """An entry of reviews.toml: the diagnostics of one kind in one file, which *reviewer* accepts.

    `sha256` is that of the judged bytes, `until` the last day on which the entry counts, as YYYY-MM-DD. `root` is empty
    if no root that is read holds the file; `path` is then the file as the entry names it.
    """

    root: str
    path: str
    rule: str
    sha256: str
    reason: str
    reviewer: str
    until: str


Accepted = tuple[str, str, str, str]
"""What a review accepts: root, path, digest of the bytes, kind of diagnostic."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file below a root, as it was when it was read."""

    root: str
    path: str
    mtime_ns: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer from one fragment to another document; `target` is a fragment id such as `skills/retry`."""

    target: str
    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file bundled with an Agent Skill, `path` relative to the skill's folder.

    If the skill is too large to be offered, the content is not read and `sha256` is empty.
    """

    path: str
    content: bytes
    sha256: str
    source: SourceFile


@dataclass(frozen=True, slots=True)
class Skill:
    """The extra fields of a fragment that is an Agent Skill and can be offered to any client.

    `path` is its folder in `skill://` URIs (`acme/refunds`). `frontmatter` is the verbatim front matter of SKILL.md:
    every field in the author's order, with values that JSON can represent.
    """

    path: str
    frontmatter: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One Markdown document with its metadata, ready to be indexed.

    `id` is the URI without scheme (`skills/error-handling`), `body` is the text that is served. `skill` is set if the
    fragment is an Agent Skill that conforms to the format; its `skill_files` then include those of nested skills.
    """

    id: str
    category: str
    name: str
    title: str
    description: str
    version: str | None
    tags: tuple[str, ...]
    capabilities: tuple[str, ...]
    use_when: tuple[str, ...]
    author_tokens: int | None
    token_estimate: int
    metadata: Mapping[str, object]
    body: str
    references: tuple[Reference, ...]
    source: SourceFile
    skill_files: tuple[SkillFile, ...] = ()
    skill: Skill | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template that a client offers to its user, often as a slash command."""

    name: str
    title: str
    description: str
    version: str | None
    category: str
    arguments: tuple[PromptArgument, ...]
    metadata: Mapping[str, object]
    body: str
    token_estimate: int
    source: SourceFile


@dataclass(frozen=True, slots=True)
class LibraryQuery:
    """A request and the ids of the fragments that its author says answer it; none if nothing fits."""

    text: str
    answers: tuple[str, ...]
    origin: str
    terms: tuple[str, ...] = ()
