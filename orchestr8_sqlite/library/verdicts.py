"""A file that was read → what becomes of it in a library where others may have its name already."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import Outcome, Task
from orchestr8_sqlite.library.queries import own_queries
from orchestr8_sqlite.library.trust.findings import is_denied
from orchestr8_sqlite.library.walk import Kind
from orchestr8_sqlite.model.records import Diagnostic, Fragment, LibraryQuery, Prompt, SourceFile

COLLISION = "collision"
SHARED_ID = "duplicate-id"

COPY = "copy"


class Holding(NamedTuple):
    """The place of the file whose record has a name, and the digest of what it holds."""

    place: str
    sha256: str


Holder = Callable[[Fragment | Prompt], Holding | None]
"""Returns the file whose record has the name of another one already."""


class Verdict(NamedTuple):
    """A file, what became of it (as table `source` has it), its record where it has one, and what is said of it.

    `sources` are the files bundled with it, and what became of these. `prepared` is what was prepared of a fragment,
    or its place in its batch where all of that was prepared together, `id_line` the line of its `id`, `queries` its own
    requests. A file is not `finished` where it looks as if it were just being written.
    """

    source: SourceFile
    outcome: str
    record: Fragment | Prompt | None
    prepared: Any
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[tuple[SourceFile, str], ...] = ()
    id_line: int | None = None
    queries: tuple[LibraryQuery, ...] = ()
    finished: bool = True

    @property
    def bundled(self) -> tuple[SourceFile, ...]:
        """Return the files bundled with it."""
        return tuple(source for source, _ in self.sources)

    @property
    def author_id(self) -> str | None:
        """Return the id that the front matter of a fragment gives, which nothing is found by."""
        written = self.record.metadata.get("id") if isinstance(self.record, Fragment) else None
        return written if isinstance(written, str) else None


def judge(task: Task, outcome: Outcome, holder: Holder, denied: str | None = None) -> Verdict:
    """Return what becomes of the file of *task*, from which *outcome* was read.

    Args:
        denied: Level of the findings with which a file, or a skill with one of its files, is left out.
    """
    parsed = outcome.parsed
    notes = Notes(*task.key, [*parsed.diagnostics])
    record, queries = parsed.record, tuple[LibraryQuery, ...]()
    if task.found.kind is Kind.OUTSIDE:
        notes.inform(
            "outside-layout",
            "lies in no category, prompt or skill folder; not indexed",
            "move it into a category folder, or give its folder as a root of its own",
        )
    elif record is not None and denied and parsed.worst and is_denied(parsed.worst, denied):
        notes.error("denied", f"holds what is of level {denied} or worse; this file is left out", "mend what is found")
        record = None
    elif record is not None and (first := holder(record)) is not None:
        name = record.name if isinstance(record, Prompt) else record.id
        if first.sha256 == outcome.source.sha256:
            notes.inform(COPY, f"is the same as {first.place}; it is left out", "nothing, or remove one of them")
        else:
            what = f"{name} is already taken by {first.place}; this file is left out"
            notes.error(COLLISION, what, "rename one of them")
        record = None
    elif isinstance(record, Fragment):
        queries = tuple(own_queries(record, notes))
    bundle = task.bundle
    bundled = [(file.source, "skill_file" if file.sha256 else "ignored") for file in bundle.own]
    bundled += [(source, "rejected") for source in bundle.unreadable]
    return Verdict(
        source=outcome.source,
        outcome=_outcome(task, record),
        record=record,
        prepared=outcome.prepared,
        diagnostics=(*notes.diagnostics, *bundle.diagnostics),
        sources=tuple(bundled),
        id_line=parsed.id_line,
        queries=queries,
        finished=parsed.finished,
    )


def name_of(record: Fragment | Prompt) -> tuple[str, str]:
    """Return what no two records of a library share."""
    return ("prompt", record.name) if isinstance(record, Prompt) else ("fragment", record.id)


class Author(NamedTuple):
    """A fragment whose front matter gives an id: its own id, its file, and the line."""

    id: str
    root: str
    path: str
    line: int | None


def note_shared_id(written: str, authors: Iterable[Author]) -> Iterator[Diagnostic]:
    """Yield a warning for all but the first of *authors*, in the order of reading, whose front matter has one id."""
    first = None
    for other in authors:
        if first is None:
            first = other
            continue
        notes = Notes(other.root, other.path)
        what = f"id {written!r} is also that of {first.id}"
        notes.warn(SHARED_ID, what, "give each file its own id", line=other.line, field="id")
        yield from notes.diagnostics


def _outcome(task: Task, record: Fragment | Prompt | None) -> str:
    if task.found.kind is Kind.OUTSIDE:
        return "ignored"
    if record is None:
        return "rejected"
    return "prompt" if isinstance(record, Prompt) else "fragment"
