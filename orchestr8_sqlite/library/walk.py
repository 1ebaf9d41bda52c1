"""A root folder → the files of its library, classified by where they lie.

orchestr8 layout   {agents,skills,…}/**/*.md at the top of the root
prompts            prompts/**/*.md and commands/**/*.md
Agent Skills       any folder with a SKILL.md; everything else in it is bundled with the skill
plain folder       none of these at the top: every Markdown file is a fragment
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.model import CATEGORIES, CATEGORY_FOLDERS

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv"})
PROMPT_FOLDERS = frozenset({"prompts", "commands"})
SKILL_FILE = "SKILL.md"
OTHER_SUFFIXES = (".md", ".markdown", ".mdx", ".mdown")


class Kind(StrEnum):
    """What a file of a library is read as."""

    FRAGMENT = "fragment"
    SKILL = "skill"
    SKILL_FILE = "skill_file"
    PROMPT = "prompt"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a root.

    `path` is relative to the root with `/`. `category` is None where only the file itself can tell.
    `id` is the fragment id; for a plain file without category it is the path without `.md`.
    `skill` is the folder of the skill that the file belongs to, `skill_path` for a SKILL.md where `skill://` URIs
    find that folder.
    """

    path: str
    kind: Kind
    category: str | None = None
    id: str = ""
    skill: str | None = None
    skill_path: str = ""


def find_files(root: Path, notes: Notes) -> list[Found]:
    """Return the files below *root* that belong to its library, sorted by path.

    Symbolic links that lead out of the root are noted and not followed.
    """
    files = sorted(_walk(root, "", (root.resolve(),), notes), key=lambda path: path.split("/"))
    skills = {path.rpartition("/")[0] for path in files if path.rpartition("/")[2] == SKILL_FILE}
    top = {
        path.partition("/")[0] for path in files if "/" in path and (path.endswith(".md") or _skill_of(path, skills))
    }
    laid_out = bool(top & (CATEGORIES.keys() | PROMPT_FOLDERS))
    for path in files:
        if path.casefold().endswith(OTHER_SUFFIXES) and not path.endswith(".md") and not _skill_of(path, skills):
            notes.inform("other-suffix", f"{path} is not read: only files named .md are", "rename it to .md")
    found = (_classify(path, root, skills, laid_out) for path in files)
    return [file for file in found if file is not None]


def is_skipped(name: str) -> bool:
    """Tell whether a file or folder of that name is never read."""
    return name.startswith(".") or name in SKIPPED_FOLDERS


def _walk(root: Path, below: str, chain: tuple[Path, ...], notes: Notes) -> Iterator[str]:
    """Yield the files below the folder *below*; *chain* holds the real folders from the root down to it."""
    try:
        entries = sorted(os.scandir(root / below), key=lambda entry: entry.name)
    except OSError as problem:
        notes.error("unreadable-folder", f"{below or '.'}: {problem.strerror}", "make the folder readable")
        return
    for entry in entries:
        path = f"{below}/{entry.name}" if below else entry.name
        if is_skipped(entry.name):
            continue
        real = _followed(entry, chain)
        if not path.isprintable() or not _is_text(path):
            notes.error("file-name", f"{path!a} is no readable name", "rename it")
        elif real is None:
            notes.error(
                "link-leaves-root", f"{path} is a symbolic link that cannot be followed", "copy the file instead"
            )
        elif entry.is_dir():
            yield from _walk(root, path, (*chain, real), notes)
        elif entry.is_file():
            yield path
        elif entry.name.endswith(".md"):
            notes.error("not-a-file", f"{path} is neither a file nor a folder", "remove it or make it a file")


def _followed(entry: os.DirEntry[str], chain: tuple[Path, ...]) -> Path | None:
    """Return where an entry really lies, None for a link out of the root or back into a folder above itself."""
    if not entry.is_symlink():
        return chain[-1] / entry.name
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return target if target.is_relative_to(chain[0]) and target not in chain else None


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _classify(path: str, root: Path, skills: set[str], laid_out: bool) -> Found | None:
    skill = _skill_of(path, skills)
    if skill is not None:
        if path == _join(skill, SKILL_FILE):
            fragment_id = f"skills/{_below_category(skill) or root.resolve().name}"
            return Found(path, Kind.SKILL, "skill", fragment_id, skill, _skill_path(skill, root, skills))
        return Found(path, Kind.SKILL_FILE, skill=skill)
    return _classify_markdown(path, root, laid_out) if path.endswith(".md") else None


def _classify_markdown(path: str, root: Path, laid_out: bool) -> Found:
    top, _, rest = path.partition("/")
    if rest and top in PROMPT_FOLDERS:
        return Found(path, Kind.PROMPT)
    if rest and top in CATEGORIES:
        return Found(path, Kind.FRAGMENT, CATEGORIES[top], f"{top}/{_without_suffix(rest)}")
    if laid_out:
        return Found(path, Kind.OUTSIDE)
    return Found(path, Kind.FRAGMENT, _folder_category(path, root), _without_suffix(path))


def _skill_of(path: str, skills: set[str]) -> str | None:
    """Return the innermost skill folder that holds *path*; nested skills are their own."""
    folder = path.rpartition("/")[0]
    while folder not in skills:
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
    return folder


def skills_around(folder: str, skills: Collection[str]) -> list[str]:
    """Return the skill folders that hold the skill folder *folder*, the innermost first."""
    around = []
    while folder:
        folder = folder.rpartition("/")[0]
        if folder in skills:
            around.append(folder)
    return around


def _skill_path(folder: str, root: Path, skills: Collection[str]) -> str:
    """Return the path of a skill in `skill://` URIs: a nested one lies below the path of the skill around it."""
    outermost = [folder, *skills_around(folder, skills)][-1]
    path = _below_category(outermost) or root.resolve().name
    return _join(path, folder.removeprefix(outermost).lstrip("/")) if folder != outermost else path


def _below_category(folder: str) -> str:
    """Return a skill's folder below the first `skills` folder, or whole where there is none."""
    parts = [part for part in folder.split("/") if part and part != "_fragments"]
    if "skills" in parts[:-1]:
        cut = parts.index("skills")
        parts = parts[:cut] + parts[cut + 1 :]
    return "/".join(parts)


def _folder_category(path: str, root: Path) -> str | None:
    folders = [root.name, *path.split("/")[:-1]]
    return next((CATEGORIES[name] for name in reversed(folders) if name in CATEGORIES), None)


def _without_suffix(path: str) -> str:
    return "/".join(part for part in path.removesuffix(".md").split("/") if part != "_fragments")


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def plain_id(found: Found, category: str) -> str:
    """Return the id of a file whose category was found in it: below the category's folder."""
    folder = CATEGORY_FOLDERS[category]
    return found.id if found.id.startswith(f"{folder}/") else f"{folder}/{found.id}"
