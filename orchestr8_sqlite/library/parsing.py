"""One file → what it holds, for a single file here or for many in worker processes."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite.content import Fragment, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.library.document import decode, parse_document
from orchestr8_sqlite.library.memory import Memory, Parsed
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.records import read_fragment, read_prompt
from orchestr8_sqlite.library.walk import SKILL_FILE, Found, Kind

FEWEST = 500
"""Files from which on worker processes pay for their start."""

BATCH = 64
"""Files that a worker parses at a time."""

AHEAD = 3
"""Batches a worker that may wait to be taken."""

UNCLOSED = "unclosed-front-matter"

Prepare = Callable[[Fragment], Any]
"""Called with a fragment in the process that has parsed it."""


@dataclass
class Bundle:
    """The files beside a SKILL.md: the skill's own, and those of the skills nested in its folder."""

    own: list[SkillFile] = field(default_factory=list)
    nested: list[SkillFile] = field(default_factory=list)


class Task(NamedTuple):
    """A file to parse: its root and the name of that, where it lies, and what is bundled with it."""

    root: Path
    label: str
    file: Found
    bundle: Bundle


class Parsing(NamedTuple):
    """How files are parsed: the category of those that do not say theirs, and a bound of the recorded file times."""

    category: str | None
    latest: int | None
    prepare: Prepare


class Outcome(NamedTuple):
    """What became of a file: `parsed` unless there was a `problem` to read it."""

    source: SourceFile
    parsed: Parsed | None
    prepared: Any
    problem: str | None


def nothing(_: Fragment) -> None:
    """Prepare nothing of a fragment."""


def parse_all(tasks: Sequence[Task], parsing: Parsing) -> Iterator[Outcome]:
    """Yield what becomes of each task, in their order; many are parsed in several processes."""
    workers = os.cpu_count() or 1
    if len(tasks) < FEWEST or workers < 2 or multiprocessing.current_process().daemon:
        yield from parse_here(tasks, parsing, Memory(keeps=False))
        return
    with ProcessPoolExecutor(workers, mp_context=_context()) as pool:
        batches = (tasks[at : at + BATCH] for at in range(0, len(tasks), BATCH))
        waiting: deque[Future[list[Outcome]]] = deque()
        try:
            for batch in islice(batches, AHEAD * workers):
                waiting.append(pool.submit(_parse_batch, batch, parsing))
            while waiting:
                yield from waiting.popleft().result()
                waiting.extend(pool.submit(_parse_batch, batch, parsing) for batch in islice(batches, 1))
        finally:
            for future in waiting:
                future.cancel()


def parse_here(tasks: Sequence[Task], parsing: Parsing, memory: Memory) -> Iterator[Outcome]:
    """Yield what becomes of each task, in their order; what *memory* knows is not read again."""
    for task in tasks:
        yield parse_file(task, parsing, memory)


def parse_file(task: Task, parsing: Parsing, memory: Memory) -> Outcome:
    """Return what becomes of a file."""
    file, bundle = task.file, task.bundle
    try:
        source, content = read_source(task.root, task.label, file.path, memory, parsing.latest)
    except OSError as problem:
        return Outcome(SourceFile(task.label, file.path, 0, 0, ""), None, None, problem.strerror)
    if file.kind is Kind.OUTSIDE:
        return Outcome(source, None, None, None)
    basis = file, source, tuple(one.source for one in (*bundle.own, *bundle.nested))
    key = task.label, file.path
    parsed = memory.parsed(key, basis, lambda: _parse(file, source, content, bundle, parsing.category))
    prepared = parsing.prepare(parsed.record) if isinstance(parsed.record, Fragment) else None
    return Outcome(source, parsed, prepared, None)


def read_source(root: Path, label: str, path: str, memory: Memory, latest: int | None) -> tuple[SourceFile, bytes]:
    """Return a file and its bytes.

    Raises:
        OSError: It cannot be read.
    """
    stored = memory.stored(root / path, (label, path))
    mtime_ns = stored.mtime_ns if latest is None else min(stored.mtime_ns, latest)
    return SourceFile(label, path, mtime_ns, len(stored.content), stored.sha256), stored.content


def _context() -> multiprocessing.context.BaseContext:
    """Return how workers start: as copies of this process where that is safe, else anew."""
    can_fork = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if can_fork else "spawn")


def _parse_batch(tasks: Sequence[Task], parsing: Parsing) -> list[Outcome]:
    memory = Memory(keeps=False)
    return [parse_file(task, parsing, memory) for task in tasks]


def _parse(file: Found, source: SourceFile, content: bytes, bundle: Bundle, category: str | None) -> Parsed:
    """Return what *content* holds; an empty file, or one whose front matter has no end, may be half written."""
    notes = Notes(source.root, source.path)
    text = decode(content, notes)
    document = None if text is None else parse_document(text, notes)
    if document is None:
        return Parsed(None, tuple(notes.diagnostics))
    record: Fragment | Prompt | None
    if file.kind is Kind.PROMPT:
        record = read_prompt(file, document, source, notes)
    else:
        skill_files = []
        if file.kind is Kind.SKILL:
            skill_files = [SkillFile(SKILL_FILE, content, source.sha256, source), *bundle.own]
        record = read_fragment(file, document, source, skill_files, bundle.nested, notes, fallback_category=category)
    finished = bool(content.strip()) and all(note.code != UNCLOSED for note in notes.diagnostics)
    return Parsed(record, tuple(notes.diagnostics), document.line_of("id"), finished)
