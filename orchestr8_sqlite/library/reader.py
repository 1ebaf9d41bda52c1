"""Reads whole roots: walk, decode, parse, then what only the library as a whole can tell."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from orchestr8_sqlite.content import Diagnostic, Fragment, Library, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.memory import Memory, Parsed
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import (
    Bundle,
    Outcome,
    Parsing,
    Prepare,
    Task,
    nothing,
    parse_all,
    parse_here,
    read_source,
)
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.queries import read_queries
from orchestr8_sqlite.library.references import resolve_references
from orchestr8_sqlite.library.skills import settle_skill_paths
from orchestr8_sqlite.library.walk import Found, Kind, find_files, skills_around
from orchestr8_sqlite.settings import latest_file_time
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.wordlists import OWN as SYNONYMS

R = TypeVar("R", Fragment, Prompt)
Progress = Callable[[int, int], None]
"""Called with (files done, files in all) while a library is read."""

Take = Callable[[Fragment, Any], Fragment]
"""Called with each fragment of a library in the order of reading, and with what was prepared of it; returns what is to
be kept of it."""


@dataclass
class _Reading:
    """What has been read so far, over all roots; `latest` bounds the recorded file times."""

    memory: Memory
    category: str | None
    latest: int | None
    take: Take
    fragments: dict[str, Fragment] = field(default_factory=dict)
    prompts: dict[str, Prompt] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    written_ids: dict[str, list[tuple[Fragment, int | None]]] = field(default_factory=lambda: defaultdict(list))
    rejected: list[SourceFile] = field(default_factory=list)
    ignored: list[SourceFile] = field(default_factory=list)


def read_library(
    roots: Sequence[Path],
    *,
    category: str | None = None,
    progress: Progress | None = None,
    memory: Memory | None = None,
    prepare: Prepare = nothing,
    take: Take = lambda fragment, _: fragment,
) -> Library:
    """Return everything in *roots*; where two roots hold the same fragment the first one wins.

    Args:
        roots: Folders; each is recognised by what it contains.
        category: For files of plain folders that do not say theirs.
        progress: Called after each file.
        memory: Of the last reading of the same roots. What it knows is not read again, and where a file is
            refused the record it had before stays.
        prepare: Called with each fragment in the process that has parsed it: one of several for a large library that
            is read without *memory*. It must be a function of a module.
        take: Called with each fragment and what was prepared of it.

    Raises:
        LibraryError: A root is missing, is no folder, or holds no Markdown at all.
    """
    labels = _labels(roots)
    reading = _Reading(memory or Memory(keeps=False), category, latest_file_time(), take)
    found = [(root, label, _find(root, label, reading)) for root, label in zip(roots, labels, strict=True)]
    total = sum(len(files) for _, _, files in found)
    done = 0
    tasks = [
        Task(root, label, file, bundled.get(file.skill or "", Bundle()))
        for root, label, files in found
        for bundled in [_bundled_files(root, label, files, reading)]
        for file in files
        if file.kind is not Kind.SKILL_FILE
    ]
    parsing = Parsing(category, reading.latest, prepare)
    outcomes = parse_here(tasks, parsing, memory) if memory else parse_all(tasks, parsing)
    for done, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True), start=total - len(tasks) + 1):
        _place(task, outcome, reading)
        if progress:
            progress(done, total)
    known = {(label, file.path) for _, label, files in found for file in files}
    reading.memory.keep(known | _remember_lists(roots, labels, reading.memory))
    settled, apart = settle_skill_paths(reading.fragments.values(), labels)
    resolved, dangling = resolve_references(settled, known)
    fragments = tuple(sorted(resolved, key=lambda fragment: fragment_uri(fragment.id)))
    queries, unclear = read_queries(list(zip(roots, labels, strict=True)), fragments)
    return Library(
        fragments=fragments,
        prompts=tuple(sorted(reading.prompts.values(), key=lambda prompt: prompt.name)),
        diagnostics=tuple(
            sorted([*reading.diagnostics, *dangling, *unclear, *apart, *_shared_ids(reading)], key=_by_place)
        ),
        rejected=tuple(reading.rejected),
        ignored=tuple(reading.ignored),
        queries=tuple(queries),
    )


def _find(root: Path, label: str, reading: _Reading) -> list[Found]:
    """Return the files of a root, what is wrong with their places noted."""
    notes = Notes(label, "")
    files = find_files(root, notes)
    if not any(file.kind is not Kind.SKILL_FILE for file in files):
        raise LibraryError(f"{root} holds no Markdown files; give the folder of a library.")
    reading.diagnostics += notes.diagnostics
    return files


def _remember_lists(roots: Sequence[Path], labels: Sequence[str], memory: Memory) -> set[tuple[str, str]]:
    """Let *memory* know the files of the roots that hold no records, and return them."""
    keys = set()
    for root, label in zip(roots, labels, strict=True):
        for name in (QUERIES, SYNONYMS):
            with suppress(OSError):
                memory.stored(root / name, (label, name))
                keys.add((label, name))
    return keys


def _labels(roots: Sequence[Path]) -> list[str]:
    """Return a name for each root: its folder's, numbered where two are the same."""
    labels: list[str] = []
    for root in roots:
        if not root.is_dir():
            raise LibraryError(f"{root} is no folder; give the folder of a library.")
        name = root.resolve().name or "root"
        taken = sum(label == name or label.startswith(f"{name}~") for label in labels)
        labels.append(f"{name}~{taken + 1}" if taken else name)
    return labels


def _place(task: Task, outcome: Outcome, reading: _Reading) -> None:
    """Add what became of a file to *reading*."""
    notes = Notes(task.label, task.file.path)
    if outcome.problem is not None:
        _note_unreadable(outcome.problem, notes)
    if task.file.kind is Kind.OUTSIDE:
        notes.inform(
            "outside-layout",
            "lies in no category, prompt or skill folder; not indexed",
            "move it into a category folder, or give its folder as a root of its own",
        )
        reading.ignored.append(outcome.source)
    elif not _take(outcome, notes, reading):
        reading.rejected.append(outcome.source)
    reading.diagnostics += notes.diagnostics


def _take(outcome: Outcome, notes: Notes, reading: _Reading) -> bool:
    """Add the record of a file to *reading*, else the last good one; False (and an error noted) without any."""
    key = notes.root, notes.path
    good, parsed = reading.memory.good.get(key), outcome.parsed
    if parsed is not None:
        notes.diagnostics += parsed.diagnostics
        unfinished = good is not None and good.finished and not parsed.finished
        if not unfinished and _add(parsed, outcome.prepared, notes, reading):
            reading.memory.accept(key, parsed)
            return True
    if good is None or not _add(good, None, Notes(*key), reading):
        return False
    notes.warn("kept", "the version before this one stays in the index", "correct the file and save it again")
    return True


def _add(parsed: Parsed, prepared: object, notes: Notes, reading: _Reading) -> bool:
    """Add the record of a file to *reading*; False (and an error noted) where it has none or its name is taken."""
    record = parsed.record
    if isinstance(record, Prompt):
        return _place_record(reading.prompts, record.name, record, notes)
    if record is None or not _place_record(reading.fragments, record.id, record, notes):
        return False
    if isinstance(written := record.metadata.get("id"), str):
        reading.written_ids[written].append((record, parsed.id_line))
    reading.fragments[record.id] = reading.take(record, prepared)
    return True


def _place_record(records: dict[str, R], name: str, record: R, notes: Notes) -> bool:
    first = records.setdefault(name, record)
    if first is record:
        return True
    notes.error(
        "collision",
        f"{name} is already taken by {first.source.root}/{first.source.path}; this file is left out",
        "rename one of them",
    )
    return False


def _bundled_files(root: Path, label: str, files: Iterable[Found], reading: _Reading) -> dict[str, Bundle]:
    """Return the readable files beside each SKILL.md, by skill folder, sorted by path."""
    bundles: dict[str, Bundle] = defaultdict(Bundle)
    skills = {file.skill for file in files if file.skill is not None}
    for file in files:
        if file.skill is None or (file.kind is Kind.SKILL and not skills_around(file.skill, skills)):
            continue
        try:
            source, content = read_source(root, label, file.path, reading.memory, reading.latest)
        except OSError as problem:
            if file.kind is not Kind.SKILL:  # that is said of it as a skill of its own
                notes = Notes(label, file.path)
                _note_unreadable(problem.strerror, notes)
                reading.diagnostics += notes.diagnostics
                reading.rejected.append(SourceFile(label, file.path, 0, 0, ""))
            continue
        for folder in skills_around(file.skill, skills):
            bundles[folder].nested.append(_skill_file(folder, content, source))
        if file.kind is not Kind.SKILL:
            bundles[file.skill].own.append(_skill_file(file.skill, content, source))
    return bundles


def _note_unreadable(problem: str | None, notes: Notes) -> None:
    notes.error("unreadable", f"cannot be read: {problem}", "make it readable or remove it")


def _skill_file(folder: str, content: bytes, source: SourceFile) -> SkillFile:
    below = source.path.removeprefix(f"{folder}/") if folder else source.path
    return SkillFile(below, content, source.sha256, source)


def _shared_ids(reading: _Reading) -> list[Diagnostic]:
    """Return a warning for each id that a front matter shares with another file's."""
    diagnostics: list[Diagnostic] = []
    for written, sharing in reading.written_ids.items():
        first = sharing[0][0].id
        for fragment, line in sharing[1:]:
            notes = Notes(fragment.source.root, fragment.source.path)
            what = f"id {written!r} is also that of {first}"
            notes.warn("duplicate-id", what, "give each file its own id", line=line, field="id")
            diagnostics += notes.diagnostics
    return diagnostics


def _by_place(diagnostic: Diagnostic) -> tuple[str, str, int, str, str]:
    return diagnostic.root, diagnostic.path, diagnostic.line or 0, diagnostic.code, diagnostic.message
