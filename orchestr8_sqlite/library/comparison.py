"""The files of a library beside those that its index was made from → what must be read again."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.walk import SKILL_FILE, Layout, skills_around

DOUBT_NS = 2_000_000_000
"""A file that was changed less than this before its library was read is looked at again: file systems tell no two
changes apart that come within the same tick, two seconds at the worst."""


KnownFile = tuple[int, int, str]
"""A file as it was when it was read: time in ns since 1970, bytes, and the digest of the content."""


class Change(NamedTuple):
    """How a library differs from what it was: files to read again, files that are gone, and new times of others."""

    read: frozenset[Key]
    gone: frozenset[Key]
    times: Mapping[Key, int]


def compare_files(roots: Iterable[Root], known: Mapping[Key, KnownFile], read_ns: int, latest: int | None) -> Change:
    """Return what has changed since the files of *roots* were *known*.

    A file is the same where its size and time are and nothing was done to it since; else its content decides.

    Args:
        read_ns: When the reading of the known files began, in ns since 1970.
        latest: Bounds the recorded file times.
    """
    read: set[Key] = set()
    times: dict[Key, int] = {}
    there: set[Key] = set()
    trusted = read_ns - DOUBT_NS
    for root in roots:
        files = root.files
        keys = [(root.label, path) for path in files.paths]
        there.update(keys)
        modified = files.modified if latest is None else [min(time, latest) for time in files.modified]
        found = zip(keys, map(known.get, keys), files.sizes, modified, files.changed, strict=True)
        for key, was, size, mtime_ns, changed in found:
            if was is None:
                if root.layout.classify(key[1]) is not None:
                    read.add(key)
                continue
            known_ns, known_size, sha256 = was
            if mtime_ns == known_ns and size == known_size and changed < trusted and sha256:
                continue
            if size != known_size or not _is_same(root.folder / key[1], sha256):
                read.add(key)
            elif mtime_ns != known_ns:
                times[key] = mtime_ns
    gone = known.keys() - there
    for root in roots:
        if gone or not read <= known.keys():
            read |= _moved(root, [path for label, path in known if label == root.label])
        read |= _around(root, [path for label, path in read | gone if label == root.label])
    return Change(frozenset(read), frozenset(gone), times)


def _is_same(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _moved(root: Root, known: list[str]) -> set[Key]:
    """Return the files that are still there, but are read as something else for what lies beside them now."""
    before, there = Layout(root.folder, known), set(root.files.paths)
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
