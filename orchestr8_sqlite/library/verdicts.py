"""A parsed file → its fate in a library where another file may already have its name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import Outcome, Task
from orchestr8_sqlite.library.queries import own_queries
from orchestr8_sqlite.library.trust.findings import RULES, is_denied
from orchestr8_sqlite.library.walk import Kind
from orchestr8_sqlite.model.records import Accepted, Diagnostic, Fragment, LibraryQuery, Prompt, SourceFile

COLLISION = "collision"
OVERRIDDEN = "overridden"
SHARED_ID = "duplicate-id"

COPY = "copy"


class Holding(NamedTuple):
    """The file whose record holds a name, and the digest of its content."""

    place: str
    sha256: str


Holder = Callable[[Fragment | Prompt], Holding | None]
"""Returns the file that already holds the name of a record, or None."""


class Verdict(NamedTuple):
    """A file, its outcome (as in table `source`), its record if it has one, and its diagnostics.

    `sources` holds the files bundled with it and their outcomes. `prepared` is the result of preparing a fragment, or
    its position in its batch if the whole batch was prepared together. `id_line` is the line of its `id`, `queries` its
    own requests. `finished` is False if the file seems to be still being written.
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
        """Return the `id` in the front matter of a fragment; lookups never use it."""
        written = self.record.metadata.get("id") if isinstance(self.record, Fragment) else None
        return written if isinstance(written, str) else None


class Policy(NamedTuple):
    """What decides on files beside their content.

    `denied` has by root the level of findings for which a file, and a skill with such a file, is left out. `accepted`
    findings do not count. `overriding` roots may take a name that another file has.
    """

    denied: Mapping[str, str] = {}
    accepted: AbstractSet[Accepted] = frozenset()
    overriding: AbstractSet[str] = frozenset()


ALL = Policy()
"""Every file is let in."""


def judge(task: Task, outcome: Outcome, holder: Holder, policy: Policy = ALL) -> Verdict:
    """Return the verdict on the file of *task*, which was read as *outcome*."""
    parsed = outcome.parsed
    notes = Notes(*task.key, [*parsed.diagnostics])
    denied = policy.denied.get(task.label)
    record, queries = parsed.record, tuple[LibraryQuery, ...]()
    if task.found.kind is Kind.OUTSIDE:
        notes.inform(
            "outside-layout",
            "lies in no category, prompt or skill folder; not indexed",
            "move it into a category folder, or give its folder as a root of its own",
        )
    elif record is not None and denied and _is_denied(parsed.found - policy.accepted, denied):
        notes.error("denied", f"has findings of level {denied} or worse; this file is left out", "fix the findings")
        record = None
    elif record is not None and (first := holder(record)) is not None:
        name = record.name if isinstance(record, Prompt) else record.id
        if first.sha256 == outcome.source.sha256:
            notes.inform(COPY, f"is the same as {first.place}; it is left out", "nothing, or remove one of them")
        elif first.place.partition("/")[0] in policy.overriding:
            what = f"{name} is overridden by {first.place}; this file is left out"
            notes.inform(OVERRIDDEN, what, "nothing, or take override from that source in orchestr8.toml")
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


def _is_denied(found: Iterable[Accepted], level: str) -> bool:
    return any(is_denied(RULES[code].severity, level) for *_, code in found)


def name_of(record: Fragment | Prompt) -> tuple[str, str]:
    """Return the kind and name of a record, unique within a library."""
    return ("prompt", record.name) if isinstance(record, Prompt) else ("fragment", record.id)


class Author(NamedTuple):
    """A fragment whose front matter gives an id: its real id, its file, and the line of the given id."""

    id: str
    root: str
    path: str
    line: int | None


def note_shared_id(written: str, authors: Iterable[Author]) -> Iterator[Diagnostic]:
    """Yield a warning for each of *authors* except the first, in reading order; all give the id *written*."""
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
