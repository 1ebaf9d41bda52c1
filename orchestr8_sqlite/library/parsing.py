"""One file of a library → its record and diagnostics. No other file is needed, so any worker process can do it."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestr8_sqlite.library.document import decode, parse_document
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.records import read_fragment, read_prompt
from orchestr8_sqlite.library.trust.findings import RULES, note_findings
from orchestr8_sqlite.library.walk import SKILL_FILE, FoundFile, Kind, OwnCategories, file_time
from orchestr8_sqlite.model.records import Accepted, Diagnostic, Fragment, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.processes import map_in_processes
from orchestr8_sqlite.settings import Limits

if TYPE_CHECKING:
    from orchestr8_sqlite.library import transfer

UNCLOSED = "unclosed-front-matter"
EMPTY = "empty-file"
UNSETTLED = "written-while-read"
HALF_WRITTEN = frozenset({UNCLOSED, UNSETTLED})

FEWEST = 200
"""Fewest files for which starting worker processes pays off."""

FIRST_BATCH, BATCH = 32, 256
"""Files per batch: the first batch, and the largest."""

Key = tuple[str, str]
"""(name of the root, path below it)."""

Prepare = Callable[[Fragment], Any]
"""Called with each fragment, in the process that parsed it."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files beside a SKILL.md: the skill's own, those of skills nested in its folder, and unreadable ones.

    `diagnostics` covers the skill's own files.
    """

    own: tuple[SkillFile, ...] = ()
    nested: tuple[SkillFile, ...] = ()
    unreadable: tuple[SourceFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing a file: its record, or None if it has none, and the diagnostics.

    `id_line` is the line of its `id`. `finished` is False if the file seems to be still being written. `found` has the
    kinds of findings in the file and in everything bundled with it, each as a review would accept it.
    """

    record: Fragment | Prompt | None
    diagnostics: tuple[Diagnostic, ...]
    id_line: int | None = None
    finished: bool = True
    found: frozenset[Accepted] = frozenset()


@dataclass(frozen=True, slots=True)
class Task:
    """A file to be read, and all that this takes.

    `label` is the name of its root, `category` that of plain files that do not say theirs; `latest` bounds the
    recorded file time, `most` the bytes; `own` are the library's own categories.
    """

    root: Path
    label: str
    found: FoundFile
    category: str | None = None
    latest: int | None = None
    bundle: Bundle = Bundle()
    most: int = Limits().file_bytes
    own: OwnCategories = ()

    @property
    def key(self) -> Key:
        """Return the name of the root and the path below it."""
        return self.label, self.found.path


class Outcome(NamedTuple):
    """A file, its parsed content, and the result of preparing its fragment."""

    source: SourceFile
    parsed: Parsed
    prepared: Any

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the function and arguments with which pickle rebuilds it."""
        from orchestr8_sqlite.library import transfer

        source, parsed, prepared = self
        record = transfer.flat_record(parsed.record, source)
        notes = transfer.flat_diagnostics(parsed.diagnostics)
        rest = (parsed.id_line, parsed.finished, parsed.found)
        return _outcome, (transfer.flat_source(source), record, notes, rest, prepared)


def _outcome(
    source: "transfer.Flat",
    record: "transfer.FlatRecord",
    notes: "transfer.Flat",
    rest: tuple[int | None, bool, frozenset[Accepted]],
    prepared: object,
) -> Outcome:
    from orchestr8_sqlite.library import transfer

    file = transfer.read_source(source)
    parsed = Parsed(transfer.read_record(record, file), transfer.read_diagnostics(notes), *rest)
    return Outcome(file, parsed, prepared)


def nothing(_: Fragment) -> None:
    """Prepare nothing for a fragment."""


def read_files(tasks: Iterable[Task], prepare: Prepare) -> Iterator[Outcome]:
    """Yield the outcome of each task, in order; several processes read them if there are at least FEWEST."""
    remaining = iter(tasks)
    first = list(islice(remaining, FEWEST))
    batches, read = _batches(chain(first, remaining)), partial(_read_each, prepare=prepare)
    for outcomes in map(read, batches) if len(first) < FEWEST else map_in_processes(read, batches):
        yield from outcomes


def _batches(tasks: Iterator[Task]) -> Iterator[Sequence[Task]]:
    """Yield *tasks* in batches, small ones first so that the first results come soon."""
    size = FIRST_BATCH
    while batch := list(islice(tasks, size)):
        yield batch
        size = min(2 * size, BATCH)


def _read_each(tasks: Sequence[Task], prepare: Prepare) -> Sequence[Outcome]:
    return [read_file(task, prepare) for task in tasks]


def read_file(task: Task, prepare: Prepare = nothing) -> Outcome:
    """Return the file of *task* with its parsed content."""
    notes = Notes(*task.key)
    source, content = read_source(task, notes)
    if content is None or task.found.kind is Kind.OUTSIDE:
        return Outcome(source, Parsed(None, tuple(notes.diagnostics)), None)
    parsed = parse_content(task, source, content, notes)
    return Outcome(source, parsed, prepare(parsed.record) if isinstance(parsed.record, Fragment) else None)


def read_source(task: Task, notes: Notes) -> tuple[SourceFile, bytes | None]:
    """Return the file of *task* and its bytes; None and an error noted if it cannot be read or is too large."""
    label, path = task.key
    try:
        status, content, stood_still = read_regular(task.root, path, task.most)
    except OSError as problem:
        notes.error("unreadable", f"cannot be read: {problem.strerror}", "make it readable or remove it")
        return SourceFile(label, path, 0, 0, ""), None
    modified = file_time(status)
    mtime_ns = modified if task.latest is None else min(modified, task.latest)
    if content is None:
        what = f"has {status.st_size:,} bytes, and {task.most:,} are read at most; it is left out"
        notes.error("file-size", what, "split it, or raise ORCHESTR8_MAX_FILE_BYTES")
        return SourceFile(label, path, mtime_ns, status.st_size, ""), None
    if not stood_still:
        notes.inform(UNSETTLED, "was written to while it was read", "build again once it is saved")
    return SourceFile(label, path, mtime_ns, len(content), hashlib.sha256(content).hexdigest()), content


def parse_content(task: Task, source: SourceFile, content: bytes, notes: Notes) -> Parsed:
    """Return the parsed *content* with the diagnostics in *notes*.

    A file may be half written if it is empty, its front matter has no end, or it changed while it was read.
    """
    text = decode(content, notes)
    if text is not None and not text.strip() and task.found.kind is not Kind.SKILL:
        notes.warn(EMPTY, "holds no text; it is left out", "write the text or remove the file")
        return Parsed(None, tuple(notes.diagnostics), finished=False)
    document = None if text is None else parse_document(text, notes)
    if text is None or document is None:
        return Parsed(None, tuple(notes.diagnostics))
    findings = _look_through(task.bundle, text, source, notes)
    found, bundle = task.found, task.bundle
    record: Fragment | Prompt | None
    if found.kind is Kind.PROMPT:
        record = read_prompt(found, document, source, notes)
    else:
        skill_files: list[SkillFile] = []
        if found.kind is Kind.SKILL:
            skill_files = [SkillFile(SKILL_FILE, content, source.sha256, source), *bundle.own]
        record = read_fragment(
            found,
            document,
            source,
            skill_files,
            bundle.nested,
            notes,
            fallback_category=task.category,
            own=dict(task.own),
        )
    finished = all(note.code not in HALF_WRITTEN for note in notes.diagnostics)
    return Parsed(record, tuple(notes.diagnostics), document.line_of("id"), finished, findings)


def _look_through(bundle: Bundle, main: str, source: SourceFile, notes: Notes) -> frozenset[Accepted]:
    """Note the findings in a file and its bundle, and return their kinds, including those in nested skills."""
    note_findings(main.encode(), notes)
    found = set(_kinds(notes, source))
    for files, is_own in ((bundle.own, True), (bundle.nested, False)):
        for file in files:
            apart = Notes(file.source.root, file.source.path)
            text = decode(file.content, Notes("", ""))
            if text is not None:
                note_findings(text.encode(), apart)
                found.update(_kinds(apart, file.source))
                notes.diagnostics += apart.diagnostics if is_own else []
    return frozenset(found)


def _kinds(notes: Notes, source: SourceFile) -> Iterator[Accepted]:
    """Yield the kinds of findings that *notes* have of the file *source*."""
    for code in {note.code for note in notes.diagnostics} & RULES.keys():
        yield source.root, source.path, source.sha256, code
