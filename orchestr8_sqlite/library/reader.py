"""Reads whole roots: walk, decode, parse, then what only the library as a whole can tell."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from orchestr8_sqlite.content import Diagnostic, Fragment, Library, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.document import decode, parse_document
from orchestr8_sqlite.library.memory import Memory, Parsed
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.queries import read_queries
from orchestr8_sqlite.library.records import read_fragment, read_prompt
from orchestr8_sqlite.library.references import resolve_references
from orchestr8_sqlite.library.skills import settle_skill_paths
from orchestr8_sqlite.library.walk import SKILL_FILE, Found, Kind, find_files, skills_around
from orchestr8_sqlite.settings import latest_file_time
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.wordlists import OWN as SYNONYMS

R = TypeVar("R", Fragment, Prompt)
Progress = Callable[[int, int], None]
"""Called with (files done, files in all) while a library is read."""

UNCLOSED = "unclosed-front-matter"


@dataclass
class _Reading:
    """What has been read so far, over all roots; `latest` bounds the recorded file times."""

    memory: Memory
    category: str | None
    latest: int | None
    fragments: dict[str, Fragment] = field(default_factory=dict)
    prompts: dict[str, Prompt] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    written_ids: dict[str, list[tuple[Fragment, int | None]]] = field(default_factory=lambda: defaultdict(list))
    rejected: list[SourceFile] = field(default_factory=list)
    ignored: list[SourceFile] = field(default_factory=list)


@dataclass
class _Bundle:
    """The files beside a SKILL.md: the skill's own, and those of the skills nested in its folder."""

    own: list[SkillFile] = field(default_factory=list)
    nested: list[SkillFile] = field(default_factory=list)


def read_library(
    roots: Sequence[Path],
    *,
    category: str | None = None,
    progress: Progress | None = None,
    memory: Memory | None = None,
) -> Library:
    """Return everything in *roots*; where two roots hold the same fragment the first one wins.

    Args:
        roots: Folders; each is recognised by what it contains.
        category: For files of plain folders that do not say theirs.
        progress: Called after each file.
        memory: Of the last reading of the same roots. What it knows is not read again, and where a file is
            refused the record it had before stays.

    Raises:
        LibraryError: A root is missing, is no folder, or holds no Markdown at all.
    """
    labels = _labels(roots)
    reading = _Reading(memory or Memory(), category, latest_file_time())
    found = [(root, label, _find(root, label, reading)) for root, label in zip(roots, labels, strict=True)]
    total = sum(len(files) for _, _, files in found)
    done = 0
    for root, label, files in found:
        bundled = _bundled_files(root, label, files, reading)
        for file in files:
            if file.kind is not Kind.SKILL_FILE:
                _read_file(root, label, file, bundled.get(file.skill or "", _Bundle()), reading)
            done += 1
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


def _read_file(root: Path, label: str, file: Found, bundled: _Bundle, reading: _Reading) -> None:
    notes = Notes(label, file.path)
    source, content = _read_source(root, label, file.path, notes, reading)
    if file.kind is Kind.OUTSIDE:
        notes.inform(
            "outside-layout",
            "lies in no category, prompt or skill folder; not indexed",
            "move it into a category folder, or give its folder as a root of its own",
        )
        reading.ignored.append(source)
    elif not _take(file, source, content, bundled, notes, reading):
        reading.rejected.append(source)
    reading.diagnostics += notes.diagnostics


def _take(
    file: Found,
    source: SourceFile,
    content: bytes | None,
    bundled: _Bundle,
    notes: Notes,
    reading: _Reading,
) -> bool:
    """Add the record in *content* to *reading*, else the last good one; False (and an error noted) without any."""
    key = source.root, source.path
    good = reading.memory.good.get(key)
    if content is not None:
        basis = file, source, tuple(one.source for one in (*bundled.own, *bundled.nested))
        parsed = reading.memory.parsed(key, basis, lambda: _parse(file, source, content, bundled, reading.category))
        notes.diagnostics += parsed.diagnostics
        unfinished = good is not None and good.finished and not parsed.finished
        if not unfinished and _add(parsed, notes, reading):
            reading.memory.good[key] = parsed
            return True
    if good is None or not _add(good, Notes(*key), reading):
        return False
    notes.warn("kept", "the version before this one stays in the index", "correct the file and save it again")
    return True


def _parse(file: Found, source: SourceFile, content: bytes, bundled: _Bundle, category: str | None) -> Parsed:
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
            skill_files = [SkillFile(SKILL_FILE, content, source.sha256, source), *bundled.own]
        record = read_fragment(file, document, source, skill_files, bundled.nested, notes, fallback_category=category)
    finished = bool(content.strip()) and all(note.code != UNCLOSED for note in notes.diagnostics)
    return Parsed(record, tuple(notes.diagnostics), document.line_of("id"), finished)


def _add(parsed: Parsed, notes: Notes, reading: _Reading) -> bool:
    """Add the record of a file to *reading*; False (and an error noted) where it has none or its name is taken."""
    record = parsed.record
    if isinstance(record, Prompt):
        return _place_record(reading.prompts, record.name, record, notes)
    if record is None or not _place_record(reading.fragments, record.id, record, notes):
        return False
    if isinstance(written := record.metadata.get("id"), str):
        reading.written_ids[written].append((record, parsed.id_line))
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


def _read_source(root: Path, label: str, path: str, notes: Notes, reading: _Reading) -> tuple[SourceFile, bytes | None]:
    try:
        stored = reading.memory.stored(root / path, (label, path))
    except OSError as problem:
        notes.error("unreadable", f"cannot be read: {problem.strerror}", "make it readable or remove it")
        return SourceFile(label, path, 0, 0, ""), None
    mtime_ns = stored.mtime_ns if reading.latest is None else min(stored.mtime_ns, reading.latest)
    return SourceFile(label, path, mtime_ns, len(stored.content), stored.sha256), stored.content


def _bundled_files(root: Path, label: str, files: Iterable[Found], reading: _Reading) -> dict[str, _Bundle]:
    """Return the readable files beside each SKILL.md, by skill folder, sorted by path."""
    bundles: dict[str, _Bundle] = defaultdict(_Bundle)
    skills = {file.skill for file in files if file.skill is not None}
    for file in files:
        if file.skill is None or (file.kind is Kind.SKILL and not skills_around(file.skill, skills)):
            continue
        notes = Notes(label, file.path)
        source, content = _read_source(root, label, file.path, notes, reading)
        if content is not None:
            for folder in skills_around(file.skill, skills):
                bundles[folder].nested.append(_skill_file(folder, content, source))
        if file.kind is Kind.SKILL:
            continue  # read, and said where it cannot be, as a skill of its own
        reading.diagnostics += notes.diagnostics
        if content is None:
            reading.rejected.append(source)
            continue
        bundles[file.skill].own.append(_skill_file(file.skill, content, source))
    return bundles


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
