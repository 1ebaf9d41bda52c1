"""Reads whole roots: walk, decode, parse, then what only the library as a whole can tell."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from orchestr8_sqlite.content import Diagnostic, Fragment, Library, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.memory import Memory, Parsed, read_stored
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import (
    Bundle,
    Outcome,
    Prepare,
    Task,
    nothing,
    parse_content,
    prepared_outcome,
    read_files,
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
    """What has been read so far, over all roots."""

    memory: Memory | None
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
    reading = _Reading(memory, take)
    found = [(root, label, _find(root, label, reading)) for root, label in zip(roots, labels, strict=True)]
    latest = latest_file_time()
    tasks = [Task(root, label, file, category, latest) for root, label, files in found for file in files]
    known = {task.key for task in tasks}
    readable = [task for task in _with_bundles(tasks, reading) if task.found.kind is not Kind.SKILL_FILE]
    bundled = len(tasks) - len(readable)
    outcomes = read_files(readable, prepare) if memory is None else (_read(task, memory, prepare) for task in readable)
    for done, (task, outcome) in enumerate(zip(readable, outcomes, strict=True), start=bundled + 1):
        _take(task, outcome, reading)
        if progress:
            progress(done, len(tasks))
    if memory is not None:
        memory.keep(known | _remember_lists(roots, labels, memory))
    settled, apart = settle_skill_paths(reading.fragments.values(), labels)
    resolved, dangling = resolve_references(settled, known)
    fragments = tuple(sorted(resolved, key=lambda fragment: fragment_uri(fragment.id)))
    queries, unclear = read_queries(list(zip(roots, labels, strict=True)), fragments)
    return Library(
        fragments=fragments,
        prompts=tuple(sorted(reading.prompts.values(), key=lambda prompt: prompt.name)),
        diagnostics=tuple(
            sorted([*reading.diagnostics, *dangling, *unclear, *apart, *_shared_ids(reading)], key=_place)
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


def _read(task: Task, memory: Memory, prepare: Prepare) -> Outcome:
    """Return the file of *task* and what it holds, from *memory* where that is the same as last time."""
    notes = Notes(*task.key)
    source, content = read_source(task, notes, memory.stored)
    if content is None or task.found.kind is Kind.OUTSIDE:
        return Outcome(source, Parsed(None, tuple(notes.diagnostics)), None)
    basis = task.found, source, tuple(one.source for one in (*task.bundle.own, *task.bundle.nested))
    parsed = memory.parsed(task.key, basis, lambda: parse_content(task, source, content))
    return prepared_outcome(source, parsed, prepare)


def _take(task: Task, outcome: Outcome, reading: _Reading) -> None:
    """Add a file to *reading*: its record, else the last good one, else that it has none."""
    notes = Notes(*task.key, [*outcome.parsed.diagnostics])
    if task.found.kind is Kind.OUTSIDE:
        notes.inform(
            "outside-layout",
            "lies in no category, prompt or skill folder; not indexed",
            "move it into a category folder, or give its folder as a root of its own",
        )
        reading.ignored.append(outcome.source)
    elif not _take_record(task, outcome, notes, reading):
        reading.rejected.append(outcome.source)
    reading.diagnostics += notes.diagnostics


def _take_record(task: Task, outcome: Outcome, notes: Notes, reading: _Reading) -> bool:
    """Add the record of a file, else its last good one, to *reading*; False (and an error noted) without any."""
    known = {} if reading.memory is None else reading.memory.good
    good = known.get(task.key)
    unfinished = good is not None and good.finished and not outcome.parsed.finished
    if not unfinished and _add(outcome.parsed, outcome.prepared, notes, reading):
        known[task.key] = outcome.parsed
        return True
    if good is None or not _add(good, None, Notes(*task.key), reading):
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


def _with_bundles(tasks: Sequence[Task], reading: _Reading) -> Iterator[Task]:
    """Yield *tasks*, those of skills with the files of their folders, which are read root by root."""
    for _, group in itertools.groupby(tasks, key=lambda task: task.label):
        of_root = list(group)
        bundles = _read_bundles(of_root, reading)
        for task in of_root:
            bundle = None if task.found.skill is None else bundles.get(task.found.skill)
            yield task if bundle is None else replace(task, bundle=bundle)


def _read_bundles(tasks: Sequence[Task], reading: _Reading) -> dict[str, Bundle]:
    """Return the readable files beside each SKILL.md of a root, by skill folder, sorted by path."""
    own: dict[str, list[SkillFile]] = defaultdict(list)
    nested: dict[str, list[SkillFile]] = defaultdict(list)
    store = read_stored if reading.memory is None else reading.memory.stored
    skills = {task.found.skill for task in tasks if task.found.skill is not None}
    for task in tasks:
        skill = task.found.skill
        if skill is None or (task.found.kind is Kind.SKILL and not skills_around(skill, skills)):
            continue
        notes = Notes(*task.key)
        source, content = read_source(task, notes, store)
        if content is not None:
            for folder in skills_around(skill, skills):
                nested[folder].append(_skill_file(folder, content, source))
        if task.found.kind is Kind.SKILL:
            continue  # read, and said where it cannot be, as a skill of its own
        reading.diagnostics += notes.diagnostics
        if content is None:
            reading.rejected.append(source)
            continue
        own[skill].append(_skill_file(skill, content, source))
    return {folder: Bundle(tuple(own[folder]), tuple(nested[folder])) for folder in own.keys() | nested.keys()}


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


def _place(diagnostic: Diagnostic) -> tuple[str, str, int, str, str]:
    return diagnostic.root, diagnostic.path, diagnostic.line or 0, diagnostic.code, diagnostic.message
