"""One file of a library → what it holds, without a look at any other: work for whichever process has time."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.content import Fragment, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.library.document import decode, parse_document
from orchestr8_sqlite.library.memory import Key, Parsed, Stored, read_stored
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.records import read_fragment, read_prompt
from orchestr8_sqlite.library.walk import SKILL_FILE, Found, Kind

UNCLOSED = "unclosed-front-matter"

Store = Callable[[Path, Key], Stored]
"""Reads a file; raises OSError where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files beside a SKILL.md: the skill's own, and those of the skills nested in its folder."""

    own: tuple[SkillFile, ...] = ()
    nested: tuple[SkillFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A file to be read, and all that this takes.

    `label` is the name of its root, `category` that of plain files that do not say theirs; `latest` bounds the
    recorded file time.
    """

    root: Path
    label: str
    found: Found
    category: str | None = None
    latest: int | None = None
    bundle: Bundle = Bundle()

    @property
    def key(self) -> Key:
        """Return the name of the root and the path below it."""
        return self.label, self.found.path


def read_file(task: Task) -> tuple[SourceFile, Parsed]:
    """Return the file of *task* and what it holds."""
    notes = Notes(*task.key)
    source, content = read_source(task, notes, read_stored)
    if content is None or task.found.kind is Kind.OUTSIDE:
        return source, Parsed(None, tuple(notes.diagnostics))
    return source, parse_content(task, source, content)


def read_source(task: Task, notes: Notes, store: Store) -> tuple[SourceFile, bytes | None]:
    """Return the file of *task* and its bytes, None (and an error noted) where it cannot be read."""
    label, path = task.key
    try:
        stored = store(task.root / path, task.key)
    except OSError as problem:
        notes.error("unreadable", f"cannot be read: {problem.strerror}", "make it readable or remove it")
        return SourceFile(label, path, 0, 0, ""), None
    mtime_ns = stored.mtime_ns if task.latest is None else min(stored.mtime_ns, task.latest)
    return SourceFile(label, path, mtime_ns, len(stored.content), stored.sha256), stored.content


def parse_content(task: Task, source: SourceFile, content: bytes) -> Parsed:
    """Return what *content* holds; an empty file, or one whose front matter has no end, may be half written."""
    notes = Notes(source.root, source.path)
    text = decode(content, notes)
    document = None if text is None else parse_document(text, notes)
    if document is None:
        return Parsed(None, tuple(notes.diagnostics))
    found, bundle = task.found, task.bundle
    record: Fragment | Prompt | None
    if found.kind is Kind.PROMPT:
        record = read_prompt(found, document, source, notes)
    else:
        skill_files: list[SkillFile] = []
        if found.kind is Kind.SKILL:
            skill_files = [SkillFile(SKILL_FILE, content, source.sha256, source), *bundle.own]
        record = read_fragment(
            found, document, source, skill_files, bundle.nested, notes, fallback_category=task.category
        )
    finished = bool(content.strip()) and all(note.code != UNCLOSED for note in notes.diagnostics)
    return Parsed(record, tuple(notes.diagnostics), document.line_of("id"), finished)
