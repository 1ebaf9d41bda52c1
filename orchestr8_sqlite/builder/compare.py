"""The files of a library beside those that its index was made from → what must be read again."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, repeat
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.walk import SKILL_FILE, Layout, skills_around

DOUBT_NS = 2_000_000_000
"""A file that was changed less than this before its library was read is looked at again: file systems tell no two
changes apart that come within the same tick, two seconds at the worst."""

OTHER_CLOCK_NS = 3_600_000_000_000
"""The same where files are on another file system than the index, perhaps of a machine whose clock is behind."""


KnownFile = tuple[str, str, int, int]
"""A file as it was when it was read: its root and path, its time in ns since 1970, its bytes; -1 where it could not be
read."""


class Change(NamedTuple):
    """How a library differs from what it was: files to read again, files that are gone, and new times of others."""

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
    """Return what has changed since the files of *roots* were *known*.

    A file is the same where its size and time are and nothing was done to it since; else its content decides.

    Args:
        digest_of: Tells the digest that the content of a known file had.
        trusted: Up to when changes of the files of each root were seen for sure, in ns since 1970: see `trusted_until`.
        latest: Bounds the recorded file times.
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
        read |= _around(root, [path for label, path in read | gone if label == root.label])
    return Change(frozenset(read), frozenset(gone), times)


def trusted_until(roots: Iterable[Root], index: Path, read_ns: int) -> dict[str, int]:
    """Return for each root until when changes of its files were seen for sure by a build, in ns since 1970.

    Args:
        index: What the build has written, which has the clock of its file system.
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
    """Tell whether a file has the digest; one without was not read, and may be too large to."""
    try:
        content = read_regular(root, path, size).content if sha256 else None
        return content is not None and hashlib.sha256(content).hexdigest() == sha256
    except OSError:
        return False


def _moved(root: Root, known: list[str]) -> set[Key]:
    """Return the files that are still there, but are read as something else for what lies beside them now."""
    before, there = Layout(root.folder, known, root.own), set(root.files.paths)
    if (before.skills, before.has_categories) == (root.layout.skills, root.layout.has_categories):
        return set()
    moved = (path for path in known if path in there and before.classify(path) != root.layout.classify(path))
    return {(root.label, path) for path in moved}


def _around(root: Root, changed: Iterable[str]) -> set[Key]:
    """Return the SKILL.md of each skill in whose folder a file was changed: they are read together."""
    folders = {
        skill for path in changed for skill in skills_around(path.rpartition("/")[0], root.layout.skills, itself=True)
    }
    return {(root.label, f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE) for folder in folders}
