"""The folders of a library: their files, and the reading tasks for each."""

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import BuildError, LibraryError
from orchestr8_sqlite.library.agent_skills import MAX_BYTES, MAX_FILES
from orchestr8_sqlite.library.checkouts import read_commits
from orchestr8_sqlite.library.door import NotOfLibrary, read_regular
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.library.parsing import Bundle, Task, read_source
from orchestr8_sqlite.library.walk import (
    SKILL_FILE,
    Files,
    FoundFile,
    Kind,
    Layout,
    OwnCategories,
    list_files,
    skills_around,
)
from orchestr8_sqlite.model.records import Diagnostic, SkillFile, SourceFile
from orchestr8_sqlite.settings import Limits
from orchestr8_sqlite.text.wordlists import OWN as SYNONYMS

Progress = Callable[[int, int], None]
"""Called with (files done, total files) while a library is read."""


class Origin(NamedTuple):
    """A source of a manifest that is read like a root: where its files are, and what they may do in the library.

    `name` is its label. `location` is the address it was fetched from, empty for a folder; `version` the tag, branch or
    commit that was asked for; `content` the digest of its files.
    """

    name: str
    folder: Path
    owner: str = ""
    namespace: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    deny: str | None = None
    override: bool = False
    location: str = ""
    version: str = ""
    commit: str = ""
    content: str = ""

    def reads(self, path: str) -> bool:
        """Tell whether the filters let the file at *path* in."""
        is_in = not self.include or any(fnmatchcase(path, pattern) for pattern in self.include)
        return is_in and not any(fnmatchcase(path, pattern) for pattern in self.exclude)


@dataclass(frozen=True)
class Root:
    """A folder of a library, its label, its files, and problems with their locations; a source has its origin."""

    folder: Path
    label: str
    files: Files
    notes: Notes
    limits: Limits
    own: OwnCategories = ()
    origin: Origin | None = None

    @cached_property
    def commits(self) -> dict[str, str]:
        """Return the commit of the git checkout around the root under "", and of those below it under their paths."""
        if self.origin is not None and self.origin.location:
            return {"": self.origin.commit} if self.origin.commit else {}
        return read_commits(self.folder, self.files.checkouts)

    @property
    def namespace(self) -> str:
        """Return the prefix of the ids of its fragments below their category; empty for none."""
        return self.origin.namespace if self.origin else ""

    def layout_of(self, paths: Iterable[str]) -> Layout:
        """Return the layout that *paths* imply; a source is named by itself, not by its place in a cache."""
        named = Path(self.label) if self.origin else self.folder
        return Layout(named, paths, self.own, self.namespace)

    @cached_property
    def layout(self) -> Layout:
        """Return the layout that the files of the root imply."""
        return self.layout_of(self.files.paths)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Return the problems with the locations and names of files."""
        notes = Notes(self.label, "", [*self.notes.diagnostics])
        self.layout.note_suffixes(self.files.paths, notes)
        return notes.diagnostics

    def side_file(self, name: str) -> bytes | None:
        """Return the bytes of a file beside the fragments; None if it is missing or a link leads out of the root.

        Raises:
            LibraryError: It is larger than the limits allow.
            BuildError: It cannot be read, perhaps only temporarily.
        """
        if self.origin is not None and not self.origin.reads(name):
            return None
        try:
            status, content, _ = read_regular(self.folder, name, self.limits.file_bytes)
        except (FileNotFoundError, NotOfLibrary):
            return None
        except OSError as problem:
            what = f"{self.label}/{name} cannot be read: {problem.strerror}; mend that and build again."
            raise BuildError(what) from problem
        if content is None:
            raise LibraryError(
                f"{self.label}/{name} has {status.st_size:,} bytes, and {self.limits.file_bytes:,} are read at most; "
                "shorten it, or raise ORCHESTR8_MAX_FILE_BYTES."
            )
        return content

    def side_digest(self, name: str) -> str:
        """Return a digest of a file beside the fragments; empty if it is missing or too large."""
        try:
            content = self.side_file(name)
        except LibraryError:
            return ""
        return "" if content is None else hashlib.sha256(content).hexdigest()[:16]

    def tasks(self, category: str | None, latest: int | None, wanted: Collection[str] | None = None) -> Iterator[Task]:
        """Yield the tasks that read the root, or only its *wanted* files; a skill comes with its bundled files.

        Args:
            category: Category of files in plain folders that name none.
            latest: Upper bound of recorded file times, in ns since 1970.
        """
        paths = self.files.paths if wanted is None else sorted(wanted, key=lambda path: path.split("/"))
        for path in paths:
            found = self.layout.classify(path)
            if found is None or found.kind is Kind.SKILL_FILE:
                continue
            bundle = Bundle()
            if found.skill is not None and found.skill in self._bundled:
                bundle = self._read_bundle(found.skill, self._bundled[found.skill], latest)
            yield Task(self.folder, self.label, found, category, latest, bundle, self.limits.file_bytes, self.own)

    @cached_property
    def _bundled(self) -> dict[str, list[int]]:
        """Return skill folder → positions of its files except its SKILL.md, including those of nested skills."""
        bundled: dict[str, list[int]] = defaultdict(list)
        if self.layout.skills:
            for place, path in enumerate(self.files.paths):
                folder = path.rpartition("/")[0]
                own = path.rpartition("/")[2] == SKILL_FILE
                for skill in skills_around(folder, self.layout.skills, itself=not own):
                    bundled[skill].append(place)
        return bundled

    def _read_bundle(self, skill: str, places: Sequence[int], latest: int | None) -> Bundle:
        """Return the files beside the SKILL.md of a folder; with contents only if it is small enough to be offered."""
        are_read = len(places) < MAX_FILES and sum(map(self.files.sizes.__getitem__, places)) <= MAX_BYTES
        own: list[SkillFile] = []
        nested: list[SkillFile] = []
        unreadable: list[SourceFile] = []
        diagnostics: list[Diagnostic] = []
        for place in places:
            path = self.files.paths[place]
            found = self.layout.classify(path)
            is_own = found is not None and found.kind is Kind.SKILL_FILE and found.skill == skill
            notes = Notes(self.label, path)
            task = Task(self.folder, self.label, FoundFile(path, Kind.SKILL_FILE), None, latest, most=MAX_BYTES)
            source, content = read_source(task, notes) if are_read else self._unread(place, latest)
            if content is not None:
                below = path.removeprefix(f"{skill}/") if skill else path
                (own if is_own else nested).append(SkillFile(below, content, source.sha256, source))
            elif is_own:  # a nested skill reports its own
                unreadable.append(source)
                diagnostics += notes.diagnostics
        return Bundle(tuple(own), tuple(nested), tuple(unreadable), tuple(diagnostics))

    def _unread(self, place: int, latest: int | None) -> tuple[SourceFile, bytes]:
        """Return a file as it was listed, with empty content."""
        modified = self.files.modified[place]
        mtime_ns = modified if latest is None else min(modified, latest)
        return SourceFile(self.label, self.files.paths[place], mtime_ns, self.files.sizes[place], ""), b""


def open_roots(
    folders: Sequence[Path], limits: Limits, own: OwnCategories = (), origins: Sequence[Origin] = ()
) -> list[Root]:
    """Return the roots in *folders* with their files, in reading order; *limits* bounds what is read.

    Args:
        own: The library's own categories.
        origins: Sources that are read too: those that may override others first, the other ones last.

    Raises:
        LibraryError: A root is missing, is not a folder, or holds no Markdown.
    """
    labels = label_roots(folders, [origin.name for origin in origins])
    named: list[tuple[Path, str, Origin | None]] = [
        *((origin.folder, origin.name, origin) for origin in origins if origin.override),
        *((folder, label, None) for folder, label in zip(folders, labels, strict=True)),
        *((origin.folder, origin.name, origin) for origin in origins if not origin.override),
    ]
    if missing := next((folder for folder, *_ in named if not folder.is_dir()), None):
        raise LibraryError(f"{missing} is not a folder; give the folder of a library.")
    roots = []
    for folder, label, origin in named:
        notes = Notes(label, "")
        files = list_files(folder, notes, limits.folder_depth)
        if origin is not None:
            files = files.only(origin.reads)
        if not any(path.endswith(".md") for path in files.paths):
            hidden = next(
                (f", but in {shown(path)}, which is not read unless you give it" for path in files.passed), ""
            )
            where = folder if origin is None else f"The source {label}"
            raise LibraryError(f"{where} holds no Markdown files{hidden}; give the folder of a library.")
        roots.append(Root(folder, label, files, notes, limits, own, origin))
    return roots


def digest_files(roots: Iterable[Root], latest: int | None) -> str:
    """Return a digest of the names, sizes and times of all files, and of the problems noted while listing them.

    Args:
        latest: Upper bound of file times, in ns since 1970.
    """
    digest = hashlib.sha256()
    for root in roots:
        files = root.files
        times = files.modified if latest is None else array("q", (min(time, latest) for time in files.modified))
        names = "\0".join([root.label, repr(root.notes.diagnostics), *files.paths, ""])
        digest.update(names.encode() + files.sizes.tobytes() + times.tobytes())
    return digest.hexdigest()[:16]


def own_synonyms(roots: Iterable[Root]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the word list of each root that has one.

    Raises:
        LibraryError: One is too large, or is not UTF-8.
        BuildError: One cannot be read.
    """
    for root in roots:
        content = root.side_file(SYNONYMS)
        if content is None:
            continue
        try:
            yield f"{root.label}/{SYNONYMS}", content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise LibraryError(f"{root.label}/{SYNONYMS} is not UTF-8; save it as UTF-8.") from None


def label_roots(roots: Sequence[Path], taken: Sequence[str] = ()) -> list[str]:
    """Return a label for each root: the name of its folder, numbered if it is taken, as the names in *taken* are."""
    labels: list[str] = [*taken]
    for root in roots:
        name = root.resolve().name or "root"
        if name != name.encode(errors="replace").decode():
            raise LibraryError(f"The name of the folder {name!a} is not UTF-8; rename it.")
        alike = sum(label == name or label.startswith(f"{name}~") for label in labels)
        labels.append(f"{name}~{alike + 1}" if alike else name)
    return labels[len(taken) :]
