"""What is changed in the process of a build before it begins: its clock, and what becomes of files that it reads."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orchestr8_sqlite.builder import build
from orchestr8_sqlite.library import parsing, roots
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.model.records import SourceFile

Deed = Callable[[Path, str], None]


def _remove(path: Path, _: str) -> None:
    path.unlink()


def _make_folder(path: Path, _: str) -> None:
    path.unlink()
    path.mkdir()


def _make_pipe(path: Path, _: str) -> None:
    path.unlink()
    os.mkfifo(path)


def _make_link(path: Path, _: str) -> None:
    path.unlink()
    path.symlink_to("/nowhere")


def _forbid(path: Path, _: str) -> None:
    path.chmod(0)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_binary(path: Path, _: str) -> None:
    path.write_bytes(b"\xff\xfe\0\x80" * 64)


def _remove_folder(path: Path, _: str) -> None:
    shutil.rmtree(path.parent)


def _replace(path: Path, text: str) -> None:
    """Put another file in the place of one, with its time and, as far as the text reaches, its size."""
    before = path.stat()
    other = path.with_name("." + path.name)
    other.write_text(text[: before.st_size].ljust(before.st_size), encoding="utf-8")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


DEEDS: dict[str, Deed] = {
    "removed": _remove,
    "made a folder": _make_folder,
    "made a pipe": _make_pipe,
    "made a broken link": _make_link,
    "forbidden": _forbid,
    "emptied": _write,
    "written": _write,
    "made binary": _write_binary,
    "removed with its folder": _remove_folder,
    "replaced with the same size and time": _replace,
}
"""What may become of a file between two looks at it."""


def apply(changes: Mapping[str, Any]) -> None:
    """Do what *changes* say.

    The clock is wrong by `clock` seconds `from` its look of that number on; before file number `read`, 0 for right
    after the listing, `deed` is done to `path`, or the process stands still and writes its number to `stop`.
    """
    if "clock" in changes:
        _change_clock(changes["clock"], changes.get("from", 0))
    if "stop" in changes:
        _before_reading(changes["read"], partial(_stand_still, Path(changes["stop"])))
    if "deed" in changes:

        def deed() -> None:
            DEEDS[changes["deed"]](Path(changes["path"]), changes.get("text", ""))

        if changes["read"] == 0:
            _after_listing(deed)
        else:
            _before_reading(changes["read"], deed)


def _stand_still(path: Path) -> None:
    path.write_text(str(os.getpid()), encoding="utf-8")
    os.kill(os.getpid(), signal.SIGSTOP)


def _change_clock(seconds: float, first: int) -> None:
    """Let the clock be wrong by so many seconds from its look number *first* on."""
    now, now_ns = time.time, time.time_ns
    looks = iter(range(1_000_000_000))
    time.time = lambda: now() + (seconds if next(looks) >= first else 0)
    time.time_ns = lambda: now_ns() + (int(seconds * 1e9) if next(looks) >= first else 0)


def _after_listing(deed: Callable[[], object]) -> None:
    open_roots = roots.open_roots

    def open_and_change(folders: Sequence[Path], *rest: object) -> list[roots.Root]:
        found = open_roots(folders, *rest)  # type: ignore[arg-type]
        deed()
        return found

    setattr(build, "open_roots", open_and_change)  # noqa: B010 - what a module imports it does not export


def _before_reading(number: int, deed: Callable[[], object]) -> None:
    """Do it once, before so many files have been read."""
    read_source = parsing.read_source
    looks = iter(range(1, 1_000_000_000))

    def read_and_change(task: parsing.Task, notes: Notes) -> tuple[SourceFile, bytes | None]:
        if next(looks) == number:
            deed()
        return read_source(task, notes)

    for module in (parsing, roots):
        setattr(module, "read_source", read_and_change)  # noqa: B010
