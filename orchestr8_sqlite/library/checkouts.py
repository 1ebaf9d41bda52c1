"""The git checkouts around and below a folder → their current commits, read from git's files.

No git command runs and no setting of a checkout applies, because the checkout may be untrusted.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from orchestr8_sqlite.library.door import read_regular

MARK = ".git"
MAX_BYTES = 64 << 20
"""Largest file of git that is read, in bytes; `packed-refs` takes about 70 bytes per branch or tag."""

MAX_LINKS = 5
"""Longest chain of symbolic references that is followed. Source: git, `refs.c`, SYMREF_MAXDEPTH."""

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
REFERENCE = re.compile(r"refs/[^\0-\x20\x7f~^:?*\[\\]+")


def read_commits(folder: Path, below: Iterable[str]) -> dict[str, str]:
    """Return the commit of the checkout around *folder* under "", and of the checkouts *below* it under their paths.

    A place without a known commit is missing: outside any checkout, or before the first commit.
    """
    around = next((one for one in (folder.resolve(), *folder.resolve().parents) if (one / MARK).exists()), None)
    places = {"": around, **{path: folder / path for path in below if path}}
    commits = {path: read_commit(place) for path, place in places.items() if place is not None}
    return {path: commit for path, commit in commits.items() if commit is not None}


def read_commit(checkout: Path) -> str | None:
    """Return the current commit of *checkout*, a folder with a `.git`, or None if it cannot be determined."""
    try:
        own = _git_folder(checkout / MARK)
        common = own / (_read(own, "commondir") or ".")
        return _resolve("HEAD", (own, common))
    except (OSError, ValueError, RuntimeError):
        return None


def _git_folder(mark: Path) -> Path:
    """Return git's folder: *mark* itself or, in a worktree or submodule, the folder that it names."""
    if mark.is_dir():
        return mark
    return mark.parent / (_read(mark.parent, mark.name) or "").removeprefix("gitdir:").strip()


def _resolve(name: str, folders: tuple[Path, Path]) -> str | None:
    """Return the commit of a git reference, looked up in the worktree's own folder and then the common one."""
    for _ in range(MAX_LINKS):
        found = next((text for folder in folders if (text := _read(folder, name))), None) or _packed(name, folders[1])
        if found is None or COMMIT.fullmatch(found):
            return found
        name = found.removeprefix("ref:").strip()
        if not REFERENCE.fullmatch(name) or ".." in name:
            return None
    return None


def _packed(name: str, folder: Path) -> str | None:
    """Return the commit that `packed-refs` gives for *name*, or None."""
    for line in (_read(folder, "packed-refs") or "").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name and COMMIT.fullmatch(commit):
            return commit
    return None


def _read(folder: Path, name: str) -> str | None:
    """Return the text of a file in *folder* without surrounding white space, or None if it cannot be read."""
    try:
        content = read_regular(folder, name, MAX_BYTES).content
    except OSError:
        return None
    return None if content is None else content.decode(errors="replace").strip()
