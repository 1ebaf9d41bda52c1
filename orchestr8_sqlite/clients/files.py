"""Configuration files on disk: read as they are, backed up, replaced as a whole."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

from orchestr8_sqlite.errors import ClientFileError
from orchestr8_sqlite.system import replace, sync_file


def read_text(path: Path) -> str:
    """Return the text of *path* with its line ends and byte order mark; empty where there is no file.

    Raises:
        ClientFileError: It is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as problem:
        raise ClientFileError(f"{path} is not UTF-8 (byte {problem.start}); mend it, then try again.") from None


def replace_text(path: Path, text: str) -> Path | None:
    """Put *text* into *path* at once, and return the backup of what was there, None where nothing was.

    Missing folders are made. A symbolic link stays one: what it leads to is replaced. Access rights stay.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    backup = _back_up(target, path.parent) if target.exists() else None
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            sync_file(file.fileno())
        if backup is not None:
            shutil.copymode(target, temporary)
        replace(Path(temporary), target)
    finally:
        Path(temporary).unlink(missing_ok=True)  # it is there only where something failed
    return backup


def _back_up(target: Path, folder: Path) -> Path:
    """Copy *target* into *folder* under the first free name of x.json.bak, x.json.bak.1, x.json.bak.2 and so on."""
    for number in itertools.count():
        backup = folder / f"{target.name}.bak{f'.{number}' if number else ''}"
        try:
            os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        shutil.copy2(target, backup)
        return backup
    raise AssertionError
