"""Reads whole roots: walk, decode, parse, then what only the library as a whole can tell."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.document import decode, parse_document
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.queries import read_queries
from orchestr8_sqlite.library.records import read_fragment, read_prompt
from orchestr8_sqlite.library.references import resolve_references
from orchestr8_sqlite.library.skills import settle_skill_paths
from orchestr8_sqlite.library.walk import SKILL_FILE, Found, Kind, find_files, skills_around
from orchestr8_sqlite.model import Diagnostic, Fragment, Library, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.settings import latest_file_time
from orchestr8_sqlite.uris import fragment_uri

R = TypeVar("R", Fragment, Prompt)
Progress = Callable[[int, int], None]
"""Called with (files done, files in all) while a library is read."""


@dataclass
class _Reading:
    """What has been read so far, over all roots."""

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


def read_library(roots: Sequence[Path], *, category: str | None = None, progress: Progress | None = None) -> Library:
    """Return everything in *roots*; where two roots hold the same fragment the first one wins.

    Args:
        roots: Folders; each is recognised by what it contains.
        category: For files of plain folders that do not say theirs.
        progress: Called after each file.

    Raises:
        LibraryError: A root is missing, is no folder, or holds no Markdown at all.
    """
    labels = _labels(roots)
    found = []
    reading = _Reading()
    for root, label in zip(roots, labels, strict=True):
        notes = Notes(label, "")
        files = find_files(root, notes)
        if not any(file.kind is not Kind.SKILL_FILE for file in files):
            raise LibraryError(f"{root} holds no Markdown files; give the folder of a library.")
        found.append((root, label, files))
        reading.diagnostics += notes.diagnostics
    total = sum(len(files) for _, _, files in found)
    done = 0
    for root, label, files in found:
        bundled = _bundled_files(root, label, files, reading)
        for file in files:
            if file.kind is not Kind.SKILL_FILE:
                _read_file(root, label, file, bundled.get(file.skill or "", _Bundle()), category, reading)
            done += 1
            if progress:
                progress(done, total)
    known = {(label, file.path) for _, label, files in found for file in files}
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


def _read_file(root: Path, label: str, file: Found, bundled: _Bundle, category: str | None, reading: _Reading) -> None:
    notes = Notes(label, file.path)
    source, content = _read_source(root, label, file.path, notes)
    if file.kind is Kind.OUTSIDE:
        notes.inform(
            "outside-layout",
            "lies in no category, prompt or skill folder; not indexed",
            "move it into a category folder, or give its folder as a root of its own",
        )
        reading.ignored.append(source)
    elif not (content is not None and _take(file, source, content, bundled, category, notes, reading)):
        reading.rejected.append(source)
    reading.diagnostics += notes.diagnostics


def _take(
    file: Found,
    source: SourceFile,
    content: bytes,
    bundled: _Bundle,
    category: str | None,
    notes: Notes,
    reading: _Reading,
) -> bool:
    """Add the record in *content* to *reading*; False (and an error noted) where there is none."""
    text = decode(content, notes)
    document = None if text is None else parse_document(text, notes)
    if document is None:
        return False
    if file.kind is Kind.PROMPT:
        prompt = read_prompt(file, document, source, notes)
        return _add(reading.prompts, prompt.name, prompt, notes)
    skill_files = []
    if file.kind is Kind.SKILL:
        skill_files = [SkillFile(SKILL_FILE, content, source.sha256, source), *bundled.own]
    fragment = read_fragment(file, document, source, skill_files, bundled.nested, notes, fallback_category=category)
    if fragment is None or not _add(reading.fragments, fragment.id, fragment, notes):
        return False
    if isinstance(written := fragment.metadata.get("id"), str):
        reading.written_ids[written].append((fragment, document.line_of("id")))
    return True


def _add(records: dict[str, R], name: str, record: R, notes: Notes) -> bool:
    first = records.setdefault(name, record)
    if first is record:
        return True
    notes.error(
        "collision",
        f"{name} is already taken by {first.source.root}/{first.source.path}; this file is left out",
        "rename one of them",
    )
    return False


def _read_source(root: Path, label: str, path: str, notes: Notes) -> tuple[SourceFile, bytes | None]:
    try:
        content = (root / path).read_bytes()
        status = (root / path).stat()
    except OSError as problem:
        notes.error("unreadable", f"cannot be read: {problem.strerror}", "make it readable or remove it")
        return SourceFile(label, path, 0, 0, ""), None
    digest = hashlib.sha256(content).hexdigest()
    latest = latest_file_time()
    mtime_ns = status.st_mtime_ns if latest is None else min(status.st_mtime_ns, latest)
    return SourceFile(label, path, mtime_ns, len(content), digest), content


def _bundled_files(root: Path, label: str, files: Iterable[Found], reading: _Reading) -> dict[str, _Bundle]:
    """Return the readable files beside each SKILL.md, by skill folder, sorted by path."""
    bundles: dict[str, _Bundle] = defaultdict(_Bundle)
    skills = {file.skill for file in files if file.skill is not None}
    for file in files:
        if file.skill is None or (file.kind is Kind.SKILL and not skills_around(file.skill, skills)):
            continue
        notes = Notes(label, file.path)
        source, content = _read_source(root, label, file.path, notes)
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
