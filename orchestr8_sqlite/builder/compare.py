"""A library's files now and when its index was built → the files to read again."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, repeat
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.walk import SKILL_FILE, skills_around

DOUBT_NS = 2_000_000_000
"""Check a file again if it changed less than this before its library was read: file systems cannot tell apart two
changes within one tick, which lasts two seconds at worst."""

OTHER_CLOCK_NS = 3_600_000_000_000
"""The same for files on another file system than the index: it may belong to a machine whose clock is behind."""


KnownFile = tuple[str, str, int, int]
"""A file when it was read: root, path, modification time in ns since 1970, size in bytes (-1: could not be read)."""


class Change(NamedTuple):
    """How a library has changed: files to read again, files that are gone, and new times of unchanged ones."""

    read: frozenset[Key]
    gone: frozenset[Key]
    times: Mapping[Key, int]


def compare_files(
    roots: Sequence[Root],
    known: AbstractSet[KnownFile],
    digest_of: Callable[[Key], str | None],
    trusted: Mapping[str, int],
    latest: int | None,
) -> Change:
    """Return what has changed in *roots* since their files were as in *known*.

    A file is unchanged if its size and time are equal and nothing touched it since; otherwise its content decides.

    Args:
        digest_of: Returns the digest that a known file had.
        trusted: By root, the time (ns since 1970) before which every change was seen: see `trusted_until`.
        latest: Upper bound of recorded file times.
    """
    there: list[KnownFile] = []
    doubted: set[KnownFile] = set()
    for root in roots:
        found = _files_of(root, latest)
        there += found
        until = trusted[root.label]
        if max(root.files.changed, default=0) >= until:
            doubted.update(compress(found, map(until.__le__, root.files.changed)))
    other = known ^ set(there)
    was = {file[:2]: file[2:] for file in known & (other | doubted)}
    by_label = {root.label: root for root in roots}
    read: set[Key] = set()
    times: dict[Key, int] = {}
    gone = set(was)
    has_come = False
    for label, path, mtime_ns, size in (other - known) | doubted:
        key, root = (label, path), by_label[label]
        if key not in was:
            if root.layout.classify(path) is not None:
                read.add(key)
                has_come = True
            continue
        gone.discard(key)
        known_ns, known_size = was[key]
        if size != known_size or not _is_same(root.folder, path, size, digest_of(key)):
            read.add(key)
        elif mtime_ns != known_ns:
            times[key] = mtime_ns
    for root in roots:
        if gone or has_come:
            read |= _moved(root, [file[1] for file in known if file[0] == root.label])
        read |= skills_of(root, [path for label, path in read | gone if label == root.label])
    return Change(frozenset(read), frozenset(gone), times)


def trusted_until(roots: Iterable[Root], index: Path, read_ns: int) -> dict[str, int]:
    """Return by root the time, in ns since 1970, before which a build surely saw every change of a file.

    Args:
        index: The file that the build wrote; its time is by the clock of its file system.
        read_ns: When the build began to read.
    """
    here = index.parent.stat().st_dev
    doubts = {root.label: DOUBT_NS if root.folder.stat().st_dev == here else OTHER_CLOCK_NS for root in roots}
    return {label: read_ns - doubt for label, doubt in doubts.items()}


def _files_of(root: Root, latest: int | None) -> list[KnownFile]:
    """Return the files of a root as they are now."""
    files = root.files
    modified = files.modified if latest is None else [min(time, latest) for time in files.modified]
    return list(zip(repeat(root.label), files.paths, modified, files.sizes, strict=False))


def _is_same(root: Path, path: str, size: int, sha256: str | None) -> bool:
    """Tell whether a file has the digest; without one, the file was never read and may be too large."""
    try:
        content = read_regular(root, path, size).content if sha256 else None
        return content is not None and hashlib.sha256(content).hexdigest() == sha256
    except OSError:
        return False


def _moved(root: Root, known: list[str]) -> set[Key]:
    """Return the files that still exist but are classified differently because of the files around them."""
    before, there = root.layout_of(known), set(root.files.paths)
    if (before.skills, before.has_categories) == (root.layout.skills, root.layout.has_categories):
        return set()
    moved = (path for path in known if path in there and before.classify(path) != root.layout.classify(path))
    return {(root.label, path) for path in moved}


def skills_of(root: Root, changed: Iterable[str]) -> set[Key]:
    """Return the SKILL.md of each skill with a changed file in its folder: a skill is read as a whole."""
    folders = {
        skill for path in changed for skill in skills_around(path.rpartition("/")[0], root.layout.skills, itself=True)
    }
    return {(root.label, f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE) for folder in folders}
