"""A root folder → the files of its library, classified by their paths.

orchestr8 layout   {agents,skills,…}/**/*.md at the top of the root
prompts            prompts/**/*.md and commands/**/*.md
Agent Skills       any folder with a SKILL.md; everything else in it is bundled with the skill
clients' folders   .claude/agents and the like, at any depth: see `client_folders`
plain folder       none of these at the top: every Markdown file is a fragment
"""

import os
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from operator import itemgetter
from pathlib import Path

from orchestr8_sqlite.library.client_folders import (
    CLIENT_FOLDERS,
    count_markdown,
    is_skipped,
    library_path,
)
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.model.requests import CATEGORIES, CATEGORY_FOLDERS
from orchestr8_sqlite.model.uris import compose
from orchestr8_sqlite.settings import Limits

PROMPT_FOLDERS = frozenset({"prompts", "commands"})
SKILL_FILE = "SKILL.md"
GIT = ".git"
LAID_OUT = tuple(f"{folder}/" for folder in (*CATEGORIES, *PROMPT_FOLDERS))
"""Path prefixes that distinguish a library with category folders from a plain folder."""

MOST_NAMED = 5
"""Skipped folders that a message names at most."""

OTHER_SUFFIXES = (".md", ".markdown", ".mdx", ".mdown")


MOST_LINKED = 10_000
"""Linked folders of a root that are followed at most; links inside linked folders multiply."""


class Kind(StrEnum):
    """How a file of a library is read."""

    FRAGMENT = "fragment"
    SKILL = "skill"
    SKILL_FILE = "skill_file"
    PROMPT = "prompt"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a root.

    `path` is relative to the root with `/`. `category` is None if only the content can tell.
    `id` is the fragment id; for a plain file without category it is the path without `.md`.
    `skill` is the folder of the skill that the file belongs to; for a SKILL.md, `skill_path` is the path of that folder
    in `skill://` URIs. `own` is the library's own category that its folder names; `category` is what it maps to.
    `namespace` is the prefix that the names of its source have.
    """

    path: str
    kind: Kind
    category: str | None = None
    id: str = ""
    skill: str | None = None
    skill_path: str = ""
    own: str = ""
    namespace: str = ""


LATEST = (1 << 63) - 1
"""ns since 1970 (11 April 2262); files may have later times, but SQLite integers and arrays cannot hold them."""


def file_time(status: os.stat_result) -> int:
    """Return the modification time of a file in ns since 1970, clamped to what can be stored."""
    return max(-LATEST, min(status.st_mtime_ns, LATEST))


class Files:
    """The files below a root that can belong to its library, in path order, and the git checkouts."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.sizes = array("q")
        self.modified = array("q")
        self.changed = array("q")
        self.checkouts: list[str] = []
        self.linked = 0
        self.passed: dict[str, int] = {}  # skipped folders, with the number of Markdown files seen there

    def add(self, path: str, status: os.stat_result) -> None:
        """Add the file at *path*, relative to the root with `/`: its size in bytes, its times in ns since 1970."""
        modified = file_time(status)
        changed = max(modified, min(status.st_ctime_ns, LATEST))
        self.paths.append(path)
        self.sizes.append(status.st_size)
        self.modified.append(modified)
        self.changed.append(changed)

    def only(self, wanted: Callable[[str], bool]) -> "Files":
        """Return the files whose paths are *wanted*, and all else as it is."""
        files = Files()
        for path, size, modified, changed in zip(self.paths, self.sizes, self.modified, self.changed, strict=True):
            if wanted(path):
                files.paths.append(path)
                files.sizes.append(size)
                files.modified.append(modified)
                files.changed.append(changed)
        files.checkouts, files.linked, files.passed = self.checkouts, self.linked, self.passed
        return files


def list_files(root: Path, notes: Notes, depth: int = Limits().folder_depth) -> Files:
    """Return the files below *root* that can belong to its library: files of skills, and Markdown.

    Symbolic links out of the root and folders deeper than *depth* are noted, not followed.
    """
    files = Files()
    _Walker(files, notes, depth).walk(os.fspath(root), "", (root.resolve(),))
    _note_passed(files.passed, notes)
    return files


OwnCategories = tuple[tuple[str, str], ...]
"""(folder, category) for each of a library's own categories."""


class Layout:
    """Classifies the files of a root; the kind of one file depends on which others exist.

    A *namespace* stands in the names of its records: `skills/NAMESPACE/retry`.
    """

    def __init__(self, root: Path, paths: Iterable[str], own: OwnCategories = (), namespace: str = "") -> None:
        self._root = root
        self._namespace = namespace
        self._own = dict(own)
        paths = list(paths)
        ending = [path for path in paths if path.endswith(SKILL_FILE)]
        self.skills = frozenset(_folder(path) for path in ending if _is_skill_file(path))
        self.has_categories = any(path.startswith(LAID_OUT) and self._is_read(path) for path in paths)

    def classify(self, path: str) -> FoundFile | None:
        """Return how the file at *path* is read, or None if it does not belong to the library."""
        skill = _skill_of(path, self.skills)
        if skill is not None:
            return _in_namespace(_classify_in_skill(path, skill, self._root, self.skills), self._namespace)
        return _in_namespace(self._classify_markdown(path), self._namespace) if path.endswith(".md") else None

    def _classify_markdown(self, path: str) -> FoundFile:
        top, _, rest = library_path(path).partition("/")
        if rest and top in PROMPT_FOLDERS:
            return FoundFile(path, Kind.PROMPT)
        if rest and top in CATEGORIES:
            return FoundFile(path, Kind.FRAGMENT, CATEGORIES[top], f"{top}/{_without_suffix(rest)}")
        if rest and top in self._own:
            category = self._own[top]
            fragment_id = f"{CATEGORY_FOLDERS[category]}/{_without_suffix(path)}"
            return FoundFile(path, Kind.FRAGMENT, category, fragment_id, own=top)
        if self.has_categories:
            return FoundFile(path, Kind.OUTSIDE)
        named = [self._root.name, *path.split("/")[:-1]]
        own = next((name for name in reversed(named) if name in self._own or name in CATEGORIES), "")
        category_of = {**CATEGORIES, **self._own}.get(own)
        return FoundFile(path, Kind.FRAGMENT, category_of, _without_suffix(path), own=own if own in self._own else "")

    def note_suffixes(self, paths: Iterable[str], notes: Notes) -> None:
        """Note the Markdown files that are not read because of their suffix."""
        for path in paths:
            if path.endswith(".md") or not path.casefold().endswith(OTHER_SUFFIXES):
                continue
            if not self._is_read(path):
                notes.inform("other-suffix", f"{path} is not read: only files named .md are", "rename it to .md")

    def _is_read(self, path: str) -> bool:
        return path.endswith(".md") or _skill_of(path, self.skills) is not None


def _is_skill_file(path: str) -> bool:
    return path.rpartition("/")[2] == SKILL_FILE


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


class _Walker:
    """Adds the files below a root, folder by folder, from the top down."""

    def __init__(self, files: Files, notes: Notes, depth: int) -> None:
        self._files = files
        self._notes = notes
        self._depth = depth

    def walk(self, folder: str, below: str, chain: tuple[Path, ...], *, in_skill: bool = False) -> None:
        """Add the files in *folder*, *below* its root; *chain* holds the real folders from the root down to it."""
        try:
            with os.scandir(folder) as entries:
                named = _named([*entries])
        except OSError as problem:
            self._notes.error("unreadable-folder", f"{below or '.'}: {problem.strerror}", "make the folder readable")
            return
        names = [name for name, _ in named]
        _note_alike(names, below, self._notes)
        if GIT in names:
            self._files.checkouts.append(below)
        are_readable = "".join(names).isprintable()  # neither are lone surrogates
        inside = None if in_skill else CLIENT_FOLDERS.get(below.rpartition("/")[2])
        in_skill = in_skill or (inside is None and SKILL_FILE in names)
        for name, entry in named:
            path = _join(below, name)
            if _is_left(name, inside, in_skill=in_skill):
                _pass(entry, path, self._files)
            elif not (are_readable or name.isprintable()):
                self._notes.error("file-name", f"{path!a} is not a readable name", "rename it")
            else:
                self._add(entry, path, chain, in_skill=in_skill)

    def _add(self, entry: os.DirEntry[str], path: str, chain: tuple[Path, ...], *, in_skill: bool) -> None:
        """Add a file, or the files in a folder."""
        if entry.is_symlink() and _followed(entry, chain) is None:
            what = f"{path} is a symbolic link that cannot be followed"
            self._notes.error("link-leaves-root", what, "copy the file instead")
        elif entry.is_file():
            if in_skill or path.endswith(".md") or path.casefold().endswith(OTHER_SUFFIXES):
                try:
                    self._files.add(path, entry.stat())
                except OSError as problem:
                    what = f"{path} cannot be read: {problem.strerror}"
                    self._notes.error("unreadable", what, "make it readable or remove it")
        else:
            self._enter(entry, path, chain, in_skill=in_skill)

    def _enter(self, entry: os.DirEntry[str], path: str, chain: tuple[Path, ...], *, in_skill: bool) -> None:
        """Add the files in an entry that is not a file itself."""
        if entry.is_dir() and len(chain) > self._depth:
            what = f"{shown(path)} lies in {self._depth} folders inside one another; deeper ones are not read"
            self._notes.error("folder-depth", what, "move it up, or raise ORCHESTR8_MAX_FOLDER_DEPTH")
        elif entry.is_dir() and entry.is_symlink() and self._files.linked >= MOST_LINKED:
            self._files.linked += 1
            if self._files.linked == MOST_LINKED + 1:
                what = (
                    f"{shown(path)} is the symbolic link to a folder after {MOST_LINKED:,} others; no more are followed"
                )
                self._notes.error("many-links", what, "remove links to folders that hold links to others")
        elif entry.is_dir():
            self._files.linked += entry.is_symlink()
            real = (_followed(entry, chain) if entry.is_symlink() else None) or chain[-1] / entry.name
            self.walk(entry.path, path, (*chain, real), in_skill=in_skill)
        elif entry.name.endswith(".md"):
            self._notes.error("not-a-file", f"{path} is neither a file nor a folder", "remove it or make it a file")


def _is_left(name: str, inside: Collection[str] | None, *, in_skill: bool) -> bool:
    """Tell whether an entry is skipped; *inside* holds the folders that are read in a client's folder."""
    if inside is not None:
        return name not in inside
    return is_skipped(name) and (in_skill or name not in CLIENT_FOLDERS)


def _pass(entry: os.DirEntry[str], path: str, files: Files) -> None:
    """Record a skipped folder if it holds Markdown that an author might miss."""
    if entry.is_dir(follow_symlinks=False) and (count := count_markdown(entry.path)):
        files.passed[path] = count


def _note_passed(passed: Mapping[str, int], notes: Notes) -> None:
    """Note, in one diagnostic, the skipped folders that hold Markdown."""
    if passed:
        named = [f"{shown(path)} ({count:,})" for path, count in islice(passed.items(), MOST_NAMED)]
        more = f" and {len(passed) - MOST_NAMED:,} more" if len(passed) > MOST_NAMED else ""
        what = f"not looked into for Markdown: {', '.join(named)}{more}"
        notes.inform("skipped-folder", what, "give a folder as a root of its own to read it")


def _named(entries: Sequence[os.DirEntry[str]]) -> list[tuple[str, os.DirEntry[str]]]:
    """Return (name, entry) sorted by name; names are composed if the file system finds the entry by that form too."""
    names = [entry.name for entry in entries]
    if not "".join(names).isascii():
        there = {*names}
        names = [_composed(entry, there) for entry in entries]
    return sorted(zip(names, entries, strict=True), key=itemgetter(0))


def _composed(entry: os.DirEntry[str], there: Collection[str]) -> str:
    name = compose(entry.name)
    return name if name not in there and _is_found(entry, name) else entry.name


def _is_found(entry: os.DirEntry[str], name: str) -> bool:
    try:
        return Path(entry.path).with_name(name).samefile(entry.path)
    except OSError:
        return False


def _note_alike(names: Iterable[str], below: str, notes: Notes) -> None:
    """Note names in one folder that macOS and Windows treat as the same."""
    folded = [compose(name).casefold() for name in names]
    if len({*folded}) == len(folded):
        return
    first: dict[str, str] = {}
    for name, key in zip(names, folded, strict=True):
        other = first.setdefault(key, name)
        if other != name and not is_skipped(name):
            what = f"{_join(below, other)!a} and {name!a} differ in case or accents only; macOS and Windows keep one"
            notes.warn("names-alike", what, "rename one of them")


def _followed(entry: os.DirEntry[str], chain: tuple[Path, ...]) -> Path | None:
    """Return the target of a link, or None if it leads out of the root or back to a folder above it."""
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return target if target.is_relative_to(chain[0]) and target not in chain else None


def _classify_in_skill(path: str, skill: str, root: Path, skills: Collection[str]) -> FoundFile:
    if path == _join(skill, SKILL_FILE):
        fragment_id = compose(f"skills/{_below_category(skill) or root.resolve().name}")
        return FoundFile(path, Kind.SKILL, "skill", fragment_id, skill, _skill_path(skill, root, skills))
    return FoundFile(path, Kind.SKILL_FILE, skill=skill)


def _in_namespace(found: FoundFile, namespace: str) -> FoundFile:
    """Return a file with *namespace* in the names of its record."""
    if not namespace:
        return found
    top, slash, rest = found.id.partition("/")
    is_below = bool(slash) and top in CATEGORIES
    id_ = f"{top}/{namespace}/{rest}" if is_below else f"{namespace}/{found.id}" if found.id else ""
    skill_path = f"{namespace}/{found.skill_path}" if found.skill_path else ""
    return replace(found, id=id_, skill_path=skill_path, namespace=namespace)


def _skill_of(path: str, skills: Collection[str]) -> str | None:
    """Return the innermost skill folder that holds *path*, or None; a nested skill owns its files."""
    folder = path.rpartition("/")[0]
    while folder not in skills:
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
    return folder


def skills_around(folder: str, skills: Collection[str], *, itself: bool = False) -> list[str]:
    """Return the skill folders around *folder*, innermost first; *itself* includes *folder* if it is a skill folder."""
    around = [folder] if itself and folder in skills else []
    while folder:
        folder = folder.rpartition("/")[0]
        if folder in skills:
            around.append(folder)
    return around


def _skill_path(folder: str, root: Path, skills: Collection[str]) -> str:
    """Return the path of a skill in `skill://` URIs; a nested skill lies below the path of the skill around it."""
    outermost = [folder, *skills_around(folder, skills)][-1]
    path = _below_category(outermost) or root.resolve().name
    return compose(_join(path, folder.removeprefix(outermost).lstrip("/")) if folder != outermost else path)


def _below_category(folder: str) -> str:
    """Return a skill's folder without the first `skills` folder in it, if it has one."""
    folder = library_path(f"{folder}/{SKILL_FILE}").removesuffix(f"/{SKILL_FILE}")
    parts = [part for part in folder.split("/") if part and part != "_fragments"]
    if "skills" in parts[:-1]:
        cut = parts.index("skills")
        parts = parts[:cut] + parts[cut + 1 :]
    return "/".join(parts)


def _without_suffix(path: str) -> str:
    return compose("/".join(part for part in path.removesuffix(".md").split("/") if part != "_fragments"))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def plain_id(found: FoundFile, category: str) -> str:
    """Return the id of a file in *category*: its path below the folder of the category."""
    folder = CATEGORY_FOLDERS[category]
    return found.id if found.id.startswith(f"{folder}/") else f"{folder}/{found.id}"
