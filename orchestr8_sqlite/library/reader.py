"""Reads whole roots into memory: their files, then what only the library as a whole can tell."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestr8_sqlite.content import Diagnostic, Fragment, Library, LibraryQuery, Prompt, SourceFile
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import nothing, read_files
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.queries import listed_queries
from orchestr8_sqlite.library.references import resolve_references
from orchestr8_sqlite.library.roots import Root, open_roots
from orchestr8_sqlite.library.skills import Offered, settle_skill_paths
from orchestr8_sqlite.library.verdicts import Author, Verdict, judge, note_shared_id
from orchestr8_sqlite.settings import latest_file_time, read_limits
from orchestr8_sqlite.uris import fragment_uri

Progress = Callable[[int, int], None]
"""Called with (files done, files in all) while a library is read."""


@dataclass
class _Reading:
    """What has been read so far, over all roots."""

    fragments: dict[str, Fragment] = field(default_factory=dict)
    prompts: dict[str, Prompt] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    author_ids: dict[str, list[Author]] = field(default_factory=lambda: defaultdict(list))
    queries: list[LibraryQuery] = field(default_factory=list)
    sources: dict[tuple[str, str], tuple[SourceFile, str]] = field(default_factory=dict)

    def holder(self, record: Fragment | Prompt) -> str | None:
        """Return the file that has the name of *record*, if any has."""
        known = self.prompts.get(record.name) if isinstance(record, Prompt) else self.fragments.get(record.id)
        return None if known is None else f"{known.source.root}/{known.source.path}"

    def take(self, verdict: Verdict) -> None:
        """Add a file, and those bundled with it."""
        for source, outcome in (*verdict.sources, (verdict.source, verdict.outcome)):
            self.sources[source.root, source.path] = source, outcome
        self.diagnostics += verdict.diagnostics
        self.queries += verdict.queries
        record = verdict.record
        if isinstance(record, Prompt):
            self.prompts[record.name] = record
        elif record is not None:
            self.fragments[record.id] = record
            if (written := verdict.author_id) is not None:
                author = Author(record.id, record.source.root, record.source.path, verdict.id_line)
                self.author_ids[written].append(author)

    def files(self, outcome: str) -> tuple[SourceFile, ...]:
        """Return the files of which *outcome* became."""
        return tuple(source for source, what in self.sources.values() if what == outcome)


def read_library(folders: Sequence[Path], *, category: str | None = None, progress: Progress | None = None) -> Library:
    """Return everything in *folders*; where two roots hold the same fragment the first one wins.

    Args:
        folders: The roots; each is recognised by what it contains.
        category: For files of plain folders that do not say theirs.
        progress: Called after each file.

    Raises:
        LibraryError: A root is missing, is no folder, or holds no Markdown at all.
    """
    roots = open_roots(folders, read_limits())
    reading = _Reading()
    latest = latest_file_time()
    tasks = [task for root in roots for task in root.tasks(category, latest)]
    for done, (task, outcome) in enumerate(zip(tasks, read_files(tasks, nothing), strict=True), start=1):
        reading.take(judge(task, outcome, reading.holder))
        if progress:
            progress(done, len(tasks))
    for root in roots:
        reading.diagnostics += root.diagnostics
    _settle_skills(reading, [root.label for root in roots])
    library = _Documents(reading)
    _resolve_references(reading, library)
    _read_queries(reading, roots, library)
    for written, authors in reading.author_ids.items():
        reading.diagnostics += note_shared_id(written, authors)
    return Library(
        fragments=tuple(sorted(reading.fragments.values(), key=lambda fragment: fragment_uri(fragment.id))),
        prompts=tuple(sorted(reading.prompts.values(), key=lambda prompt: prompt.name)),
        diagnostics=tuple(sorted(reading.diagnostics, key=Diagnostic.order)),
        rejected=reading.files("rejected"),
        ignored=reading.files("ignored"),
        queries=tuple(reading.queries),
    )


class _Documents:
    """What was read, for whoever looks for something by a name."""

    def __init__(self, reading: _Reading) -> None:
        self._fragments = reading.fragments
        self._sources = reading.sources
        self._names: dict[str, list[str]] = defaultdict(list)
        for fragment in reading.fragments.values():
            self._names[fragment.name].append(fragment.id)
        places = ((fragment.source, fragment.id) for fragment in reading.fragments.values())
        self._ids = {(source.root, source.path): id_ for source, id_ in places}

    def has_id(self, fragment_id: str) -> bool:
        return fragment_id in self._fragments

    def ids_of_name(self, name: str) -> Sequence[str]:
        return self._names.get(name, ())

    def id_of_file(self, root: str, path: str) -> str | None:
        return self._ids.get((root, path))

    def has_file(self, root: str, path: str) -> bool:
        return (root, path) in self._sources


def _settle_skills(reading: _Reading, labels: Sequence[str]) -> None:
    """Offer no skill whose path is that of another one."""
    of_files = {(f.source.root, f.source.path): f for f in reading.fragments.values() if f.skill is not None}
    offered = (
        Offered(fragment.skill.path, labels.index(root), root, path)
        for (root, path), fragment in of_files.items()
        if fragment.skill is not None
    )
    for skill, notes in settle_skill_paths(offered):
        fragment = of_files[skill.root, skill.file]
        reading.fragments[fragment.id] = replace(fragment, skill=None)
        reading.diagnostics += notes.diagnostics


def _resolve_references(reading: _Reading, library: _Documents) -> None:
    for fragment in [*reading.fragments.values()]:
        notes = Notes(fragment.source.root, fragment.source.path)
        resolved = tuple(resolve_references(fragment.id, fragment.references, library, notes))
        reading.fragments[fragment.id] = replace(fragment, references=resolved)
        reading.diagnostics += notes.diagnostics


def _read_queries(reading: _Reading, roots: Iterable[Root], library: _Documents) -> None:
    """Add the requests that the roots list, behind those of the fragments."""
    for root in roots:
        notes = Notes(root.label, QUERIES)
        reading.queries += listed_queries(root.folder, library, notes)
        reading.diagnostics += notes.diagnostics
