"""Files of a source → a folder of the cache, named after their content; nothing else is ever written there."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.sources.lock import Pin
from orchestr8_sqlite.model.digests import digest_list
from orchestr8_sqlite.system import is_posix

MOST_FILES = 50_000
MOST_BYTES = 512 << 20
"""Files of a source, and bytes of all of them, that are accepted."""

NAMED = 32
"""Digits of the content's digest in the name of its folder."""


class Listed(NamedTuple):
    """The digest of a list of files, and by path the digest of each."""

    content: str
    digests: dict[str, str]


class Hostile(LibraryError):
    """A source holds what none should: a path out of its folder, or more than is accepted."""


class Tree:
    """Writes the files of one source below *folder*, each path once.

    `left_out` counts what is no file with a plain name.

    Use::

        with making(cache) as tree:
            tree.add("skills/retry.md", content)
            pin = tree.finish(...)
    """

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.left_out = 0
        self._source = source
        self._digests: dict[str, str] = {}
        self._bytes = 0

    def add(self, path: str, content: bytes) -> None:
        """Write a file.

        Raises:
            Hostile: Its path leads out of the folder or repeats another one, or there are too many files or bytes.
        """
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "\0" in path:
            raise Hostile(f"The source {self._source} has a file outside its folder; do not use it.")
        if not _is_plain(parts):
            self.left_out += 1
            return
        self.check(1, len(content))
        self._bytes += len(content)
        place = self.folder.joinpath(*parts)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(content)
        except (FileExistsError, NotADirectoryError):
            raise Hostile(f"The source {self._source} has {path!r} twice; do not use it.") from None
        if is_posix():  # elsewhere nobody could remove it
            place.chmod(0o444)
        self._digests[path] = hashlib.sha256(content).hexdigest()

    def check(self, files: int, size: int) -> None:
        """Raise Hostile if so many more files, of so many bytes together, are more than is accepted."""
        if self._bytes + size > MOST_BYTES or len(self._digests) + files > MOST_FILES:
            raise self.too_much()

    def too_much(self) -> Hostile:
        """Return the error for a source with more files or bytes than are accepted."""
        most = f"{MOST_FILES:,} files or {MOST_BYTES >> 20:,} MiB"
        return Hostile(f"The source {self._source} has more than {most}; name a folder of it.")

    @contextmanager
    def scratch(self) -> Iterator[IO[bytes]]:
        """Yield an empty file on the disk of the cache, which is removed at the end."""
        with tempfile.TemporaryFile(dir=self.folder.parent) as file:
            yield file

    def listed(self) -> Listed:
        """Return what was written."""
        return Listed(digest_list(self._digests), self._digests)


def _is_plain(parts: Iterable[str]) -> bool:
    """Tell whether every system can hold a path, and none of its parts belongs to git."""
    return all(
        part not in ("", ".") and part.casefold() != ".git" and part.isprintable() and not set(part) & set('\\:*?"<>|')
        and part == part.rstrip(". ")
        for part in parts
    )  # fmt: skip


@contextmanager
def making(cache: Path, source: str) -> Iterator[Tree]:
    """Yield a tree in a folder beside its place in the *cache*; the folder is removed unless `keep` has moved it.

    Raises:
        LibraryError: The cache cannot be written to.
    """
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
    except OSError as problem:
        raise LibraryError(f"The cache {cache} cannot be written: {problem.strerror}.") from None
    try:
        yield Tree(folder, source)
    except OSError as problem:
        raise LibraryError(f"The source {source} cannot be kept in {cache}: {problem.strerror}.") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(tree: Tree, cache: Path, pin: Pin) -> None:
    """Move the tree that *pin* describes to its place, in place of a damaged one there."""
    for path in [*tree.folder.rglob("*"), tree.folder]:
        os.utime(path, (pin.time, pin.time))
    place = place_of(cache, pin)
    kept = list_kept(place)
    if kept is not None and kept.content == pin.content:
        return
    shutil.rmtree(place, ignore_errors=True)
    tree.folder.replace(place)


def place_of(cache: Path, pin: Pin) -> Path:
    """Return the folder of the *cache* that holds the files of a pin, whose times are part of them."""
    return cache / f"{pin.content[:NAMED]}-{pin.time}"


def list_kept(folder: Path) -> Listed | None:
    """Return what a folder of the cache holds; None if it is not there or cannot be read."""
    digests = {}
    try:
        for at, folders, names in os.walk(folder, onerror=_raise):
            folders.sort()
            for name in names:
                path = Path(at, name).relative_to(folder).as_posix()
                content = read_regular(folder, path, MOST_BYTES).content
                digests[path] = hashlib.sha256(content or b"").hexdigest()
    except OSError:
        return None
    return Listed(digest_list(digests), digests)


def _raise(problem: OSError) -> None:
    raise problem
