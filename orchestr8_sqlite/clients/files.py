"""Configuration files on disk: read unchanged, edited by one process at a time, backed up, replaced in one step."""

import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import ClientFileError
from orchestr8_sqlite.system import give, is_posix, replace, sync_file, try_lock

MOST_BYTES = 64 << 20
"""Maximum size of a file to read; the largest known one, Claude Code's, has a few megabytes."""

PATIENCE_SECONDS = 10.0
"""How long to wait while another process edits a file in the same folder."""

MOST_TRIES = 5
"""Maximum attempts at an edit while other programs keep changing the file."""

READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags that open a file as bytes, without waiting for the other end if it is a pipe."""


class Edited(NamedTuple):
    """The result of an edit: whether it changed anything, and the backup; None if it replaced no file."""

    changed: bool
    backup: Path | None = None


def read_text(path: Path) -> str:
    """Return the text of *path* with its line ends and byte order mark; empty if there is no file.

    Raises:
        ClientFileError: It is not UTF-8, not a regular file, or too large.
    """
    content = _read(path)
    try:
        return "" if content is None else content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ClientFileError(f"{path} is not UTF-8 (byte {problem.start}); fix it, then try again.") from None


def edit_text(path: Path, change: Callable[[str], str]) -> Edited:
    """Replace the text of *path* with what *change* returns for it, and keep a backup of the old file.

    This creates missing folders, keeps owner and access rights, and replaces the target of a symbolic link, not the
    link. If another program writes the file meanwhile, *change* is called again with that text, so nothing is lost.

    Raises:
        ClientFileError: The file cannot be read, or must not be written.
    """
    target = Path(os.path.realpath(path))
    _make_folder(target.parent)
    with _locked(target.parent):
        for _ in range(MOST_TRIES):
            before = read_text(target)
            text = change(before)
            if text == before:
                return Edited(changed=False)
            with _written(target, text) as temporary:
                if read_text(target) == before:
                    backup = _back_up(target, path.parent) if target.exists() else None
                    replace(temporary, target)
                    return Edited(changed=True, backup=backup)
    raise ClientFileError(f"Another program keeps changing {path}; quit its client, then try again.")


def _read(path: Path) -> bytes | None:
    """Return the bytes of a file; None if there is none."""
    try:
        number = os.open(path, READING)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ClientFileError(f"{path} is not a regular file; put one in its place, then try again.")
        with os.fdopen(number, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    finally:
        os.close(number)
    if len(content) > MOST_BYTES:
        raise ClientFileError(f"{path} has more than {MOST_BYTES:,} bytes; paste the entry by hand.")
    return content


def _make_folder(folder: Path) -> None:
    """Create a folder and its missing parents; each gets the owner of the folder that contains it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    give(folder, folder.parent.stat())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes of this program from editing a file in *folder*, if the system has such locks.

    Raises:
        ClientFileError: Another process holds the lock for too long.
    """
    if not is_posix():
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        if try_lock(number, PATIENCE_SECONDS) is False:
            raise ClientFileError(f"Another program is editing a file in {folder}; try again when it is done.")
        yield
    finally:
        os.close(number)


@contextmanager
def _written(target: Path, text: str) -> Iterator[Path]:
    """Yield a file beside *target* with *text* and the same owner and rights; remove it at the end if it still exists.

    Raises:
        ClientFileError: *target* is read-only, or its owner would change.
    """
    status = target.stat() if target.exists() else None
    if status is not None and not (status.st_mode & 0o222 and os.access(target, os.W_OK)):
        raise ClientFileError(f"{target} is read-only; make it writable, or paste the entry by hand.")
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            sync_file(file.fileno())
        if status is None:
            give(temporary, target.parent.stat())
        elif not give(temporary, status):
            raise ClientFileError(
                f"{target} belongs to another user, and the edit would make it yours; let them do it, or paste the "
                "entry by hand."
            )
        else:
            temporary.chmod(stat.S_IMODE(status.st_mode))
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _back_up(target: Path, folder: Path) -> Path:
    """Copy *target* into *folder* under the first free name of x.json.bak, x.json.bak.1, x.json.bak.2 and so on."""
    for number in itertools.count():
        backup = folder / f"{target.name}.bak{f'.{number}' if number else ''}"
        try:
            os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        give(backup, target.stat())
        shutil.copy2(target, backup)
        return backup
    raise AssertionError
