"""One file of a library → what it holds, without a look at any other: work for whichever process has time."""

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
from orchestr8_sqlite.library.trust.findings import note_findings, worst_of
from orchestr8_sqlite.library.walk import SKILL_FILE, FoundFile, Kind, OwnCategories, file_time
from orchestr8_sqlite.model.records import Diagnostic, Fragment, Prompt, Severity, SkillFile, SourceFile
from orchestr8_sqlite.processes import map_in_processes
from orchestr8_sqlite.settings import Limits

if TYPE_CHECKING:
    from orchestr8_sqlite.library import transfer

UNCLOSED = "unclosed-front-matter"
EMPTY = "empty-file"
UNSETTLED = "written-while-read"
HALF_WRITTEN = frozenset({UNCLOSED, UNSETTLED})

FEWEST = 200
"""Files from which on worker processes pay for their start."""

FIRST_BATCH, BATCH = 32, 256
"""Files that a worker reads at a time, at first and at most."""

Key = tuple[str, str]
"""Name of the root, path below it."""

Prepare = Callable[[Fragment], Any]
"""Called with a fragment in the process that has parsed it."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files beside a SKILL.md: the skill's own, those of the skills nested in its folder, and what cannot be read.

    `diagnostics` are those of the skill's own files.
    """

    own: tuple[SkillFile, ...] = ()
    nested: tuple[SkillFile, ...] = ()
    unreadable: tuple[SourceFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file was read as: a record, or None where there is none, and the diagnostics.

    `id_line` is the line of its `id`. A file is not `finished` where it looks as if it were just being written. `worst`
    is how bad the worst is that was found in it and all that is bundled with it.
    """

    record: Fragment | Prompt | None
    diagnostics: tuple[Diagnostic, ...]
    id_line: int | None = None
    finished: bool = True
    worst: Severity | None = None


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
    """A file, what it holds, and what was prepared of its fragment."""

    source: SourceFile
    parsed: Parsed
    prepared: Any

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle makes it of again."""
        from orchestr8_sqlite.library import transfer

        source, parsed, prepared = self
        record = transfer.flat_record(parsed.record, source)
        notes = transfer.flat_diagnostics(parsed.diagnostics)
        rest = (parsed.id_line, parsed.finished, parsed.worst)
        return _outcome, (transfer.flat_source(source), record, notes, rest, prepared)


def _outcome(
    source: "transfer.Flat",
    record: "transfer.FlatRecord",
    notes: "transfer.Flat",
    rest: tuple[int | None, bool, Severity | None],
    prepared: object,
) -> Outcome:
    from orchestr8_sqlite.library import transfer

    file = transfer.read_source(source)
    parsed = Parsed(transfer.read_record(record, file), transfer.read_diagnostics(notes), *rest)
    return Outcome(file, parsed, prepared)


def nothing(_: Fragment) -> None:
    """Prepare nothing of a fragment."""


def read_files(tasks: Iterable[Task], prepare: Prepare) -> Iterator[Outcome]:
    """Yield what the file of each task holds, in their order; many are read in several processes."""
    remaining = iter(tasks)
    first = list(islice(remaining, FEWEST))
    batches, read = _batches(chain(first, remaining)), partial(_read_each, prepare=prepare)
    for outcomes in map(read, batches) if len(first) < FEWEST else map_in_processes(read, batches):
        yield from outcomes


def _batches(tasks: Iterator[Task]) -> Iterator[Sequence[Task]]:
    """Yield *tasks* in batches, small ones first so that nobody waits long for the first of them."""
    size = FIRST_BATCH
    while batch := list(islice(tasks, size)):
        yield batch
        size = min(2 * size, BATCH)


def _read_each(tasks: Sequence[Task], prepare: Prepare) -> Sequence[Outcome]:
    return [read_file(task, prepare) for task in tasks]


def read_file(task: Task, prepare: Prepare = nothing) -> Outcome:
    """Return the file of *task* and what it holds."""
    notes = Notes(*task.key)
    source, content = read_source(task, notes)
    if content is None or task.found.kind is Kind.OUTSIDE:
        return Outcome(source, Parsed(None, tuple(notes.diagnostics)), None)
    parsed = parse_content(task, source, content, notes)
    return Outcome(source, parsed, prepare(parsed.record) if isinstance(parsed.record, Fragment) else None)


def read_source(task: Task, notes: Notes) -> tuple[SourceFile, bytes | None]:
    """Return the file of *task* and its bytes, None (and an error noted) where it cannot be read or is too large."""
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
    """Return what *content* holds, and what *notes* say of its reading.

    It may be half written if it is empty, its front matter has no end, or it was written to while it was read.
    """
    text = decode(content, notes)
    if text is not None and not text.strip() and task.found.kind is not Kind.SKILL:
        notes.warn(EMPTY, "holds no text; it is left out", "write the text or remove the file")
        return Parsed(None, tuple(notes.diagnostics), finished=False)
    document = None if text is None else parse_document(text, notes)
    if text is None or document is None:
        return Parsed(None, tuple(notes.diagnostics))
    worst = _look_through(task.bundle, text, notes)
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
    return Parsed(record, tuple(notes.diagnostics), document.line_of("id"), finished, worst)


def _look_through(bundle: Bundle, main: str, notes: Notes) -> Severity | None:
    """Note what is found in a file and its bundle, and return how bad the worst is, that of nested skills included."""
    found = [note_findings(main.encode(), notes)]
    for files, is_own in ((bundle.own, True), (bundle.nested, False)):
        for file in files:
            apart = Notes(file.source.root, file.source.path)
            text = decode(file.content, Notes("", ""))
            if text is not None:
                found.append(note_findings(text.encode(), apart))
                notes.diagnostics += apart.diagnostics if is_own else []
    return worst_of(found)
