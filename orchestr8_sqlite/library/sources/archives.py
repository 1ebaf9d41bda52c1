"""Files of a zip or tar.gz archive, which nobody trusts: sizes are counted while they are read, links are left out."""

import gzip
import hashlib
import tarfile
import time
import zipfile
import zlib
from calendar import timegm
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    UnknownHandler,
)

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.sources import trees
from orchestr8_sqlite.library.sources.manifest import SourceSpec
from orchestr8_sqlite.library.sources.trees import MOST_BYTES, MOST_FILES, Hostile, Tree

MOST_PACKED = 256 << 20
"""Bytes of an archive that are read at most."""

PATIENCE, SECONDS = 30, 600
"""Seconds that a server may be silent, and that a download may take."""

CHUNK = 1 << 20
UNPACKED = MOST_BYTES + MOST_FILES * 2048
"""Bytes that a tar archive may unpack to: contents, and the headers and padding of each file."""

BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError, ValueError)


def fetch(spec: SourceSpec, base: Path, tree: Tree) -> int:
    """Write the files of the source's archive to *tree*, and return the time of the newest in seconds since 1970.

    Args:
        base: The folder that a path of an archive is below.

    Raises:
        LibraryError: It cannot be read, or is not what the manifest says.
        Hostile: It holds what is not accepted.
    """
    archive = spec.asked["archive"]
    with tree.scratch() as packed:
        if "://" in archive:
            _download(archive, packed, spec.name)
        else:
            _copy(base, archive, packed, spec.name)
        _check(packed, spec)
        packed.seek(0)
        try:
            if archive.partition("?")[0].endswith(".zip"):
                return _unzip(packed, spec.folder, tree)
            return _untar(packed, spec, tree)
        except BROKEN as problem:
            raise LibraryError(f"The archive of the source {spec.name} cannot be read: {problem}.") from None


def _copy(base: Path, path: str, packed: IO[bytes], source: str) -> None:
    try:
        content = read_regular(base, path, MOST_PACKED).content
    except OSError as problem:
        raise LibraryError(f"The archive {path} of the source {source} cannot be read: {problem.strerror}.") from None
    if content is None:
        raise _too_large(source)
    packed.write(content)


def _download(url: str, packed: IO[bytes], source: str) -> None:
    """Write what *url* has, by http or https alone, to which redirects are held too."""
    opener = OpenerDirector()
    for handler in (ProxyHandler, UnknownHandler, HTTPHandler, HTTPSHandler, HTTPRedirectHandler):
        opener.add_handler(handler())
    opener.add_handler(HTTPErrorProcessor())
    opener.add_handler(HTTPDefaultErrorHandler())
    started, size = time.monotonic(), 0
    try:
        with closing(opener.open(url, timeout=PATIENCE)) as answer:
            while part := answer.read(CHUNK):
                size += len(part)
                if size > MOST_PACKED:
                    raise _too_large(source)
                if time.monotonic() - started > SECONDS:
                    raise LibraryError(f"The archive of the source {source} took over {SECONDS} s; try again.")
                packed.write(part)
    except (HTTPException, OSError) as problem:
        if isinstance(problem, HTTPError):
            problem.close()
        why = getattr(problem, "reason", None) or problem
        raise LibraryError(f"The archive of the source {source} cannot be fetched: {why}.") from None


def _too_large(source: str) -> Hostile:
    return Hostile(f"The archive of the source {source} has more than {MOST_PACKED >> 20} MiB; use a smaller one.")


def _check(packed: IO[bytes], spec: SourceSpec) -> None:
    packed.seek(0)
    found = hashlib.file_digest(packed, "sha256").hexdigest()  # type: ignore[arg-type]
    if found != spec.asked["sha256"]:
        what = f"The archive of the source {spec.name} has the SHA-256 {found}, not the one in orchestr8.toml"
        raise LibraryError(f"{what}; find out why before you change that.")


def _below(path: str, folder: str) -> str | None:
    """Return *path* relative to *folder*, or None if it does not lie in it."""
    path = path.removeprefix("./")
    if not folder:
        return path
    return path.removeprefix(f"{folder}/") if path.startswith(f"{folder}/") else None


def _unzip(packed: IO[bytes], folder: str, tree: Tree) -> int:
    newest = 0
    with zipfile.ZipFile(packed) as archive:
        members = archive.infolist()
        tree.check(len(members), 0)
        for member in members:
            path = _below(member.filename, folder)
            if path is None or member.is_dir():
                continue
            if (member.external_attr >> 16) & 0o170000 not in (0, 0o100000):
                tree.left_out += 1  # a link or a device
                continue
            with archive.open(member) as file:
                tree.add(path, _bounded(file, tree))
            newest = max(newest, timegm((*member.date_time, 0, 0, 0)))
    return newest


def _untar(packed: IO[bytes], spec: SourceSpec, tree: Tree) -> int:
    newest, seen = 0, 0
    with gzip.GzipFile(fileobj=packed) as unpacked:
        counted = _Counted(unpacked, spec.name)
        with tarfile.open(fileobj=counted, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                seen += 1
                if seen > trees.MOST_FILES:
                    raise tree.too_much()
                path = _below(member.name, spec.folder)
                if path is None or member.isdir():
                    continue
                file = archive.extractfile(member) if member.isreg() else None
                if file is None:
                    tree.left_out += 1  # a link or a device
                    continue
                tree.add(path, _bounded(file, tree))
                newest = max(newest, int(member.mtime))
    return newest


def _bounded(file: IO[bytes], tree: Tree) -> bytes:
    """Return the bytes of a member, whatever size its header claims."""
    parts, size = [], 0
    while part := file.read(CHUNK):
        size += len(part)
        tree.check(1, size)
        parts.append(part)
    return b"".join(parts)


class _Counted:
    """A stream that ends with an error where more is unpacked than any accepted archive holds."""

    def __init__(self, stream: gzip.GzipFile, source: str) -> None:
        self._stream = stream
        self._source = source
        self._left = UNPACKED

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes.

        Raises:
            Hostile: Too many were read.
        """
        part = self._stream.read(min(size, self._left + 1))
        self._left -= len(part)
        if self._left < 0:
            raise Hostile(f"The archive of the source {self._source} unpacks to more than is accepted; do not use it.")
        return part
