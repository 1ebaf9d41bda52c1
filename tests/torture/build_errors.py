"""Builds that the system refuses something: full disks, failing disks, limits, and folders that may not be written."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torture import Case, Lost, Skipped, Wrong
from torture.builds import FIRST, MANY, UPDATE, WHOLE, Bench, Kind, faults
from torture.shim import CHANGES, Action, Call, Fault
from torture.stages import look, only_index

MOST, MOST_BOUNDED = 16, 2
NOBODY = 65534

FULL = Fault(Action.FAIL, error=errno.ENOSPC, calls=Call.WRITE | Call.SYNC, sticky=True)
BROKEN = Fault(Action.FAIL, error=errno.EIO, calls=CHANGES)
UNREADABLE = Fault(Action.FAIL, error=errno.EIO, calls=Call.READ_INDEX)
UNREADABLE_FILE = Fault(Action.FAIL, error=errno.EIO, calls=Call.READ_LIBRARY)
DENIED = Fault(Action.FAIL, error=errno.EACCES, calls=Call.NAME, sticky=True)

REFUSED = (
    *(("disk full (ENOSPC)", kind, FULL) for kind in (FIRST, WHOLE, UPDATE, MANY)),
    *(("I/O error on a write, sync or rename", kind, BROKEN) for kind in (FIRST, WHOLE, UPDATE, MANY)),
    *(("I/O error on reading the index", kind, UNREADABLE) for kind in (WHOLE, UPDATE)),
    *(("I/O error on reading the library", kind, UNREADABLE_FILE) for kind in (WHOLE, UPDATE)),
    *(("permission denied", kind, DENIED) for kind in (FIRST, WHOLE, UPDATE)),
)


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield builds whose calls fail, and builds on disks that are really full, limited or not to be written."""
    for name, kind, fault in REFUSED:
        for one in faults(kind, fault, MOST_BOUNDED if bounded else MOST, seed):
            yield Case(name, f"{kind.name}, {one}", partial(_refused, kind=kind, fault=one))
    for kind in (WHOLE, UPDATE):
        for size in (
            (100_000, 1_500_000) if bounded else (4096, 8192, 100_000, 1_000_000, 1_400_000, 1_466_000, 1_500_000)
        ):
            yield Case(
                "files may not get longer", f"{kind.name}, {size:,} bytes", partial(_limited, kind=kind, size=size)
            )
        for size in (2000,) if bounded else range(1500, 6000, 500):
            yield Case("disk really full (tmpfs)", f"{kind.name}, {size} KiB", partial(_full, kind=kind, size=size))
        yield Case("folder not to be written", kind.name, partial(_read_only, kind=kind))
        yield Case("file system not to be written", kind.name, partial(_read_only_system, kind=kind))


def _refused(folder: Path, kind: Kind, fault: Fault) -> None:
    bench = Bench(folder, kind)
    told = bench.build_with(fault)
    if told.code and not fault.calls & Call.NAME:
        _check_cleared(bench)
    if told.code == 0 and fault.calls == Call.READ_LIBRARY:  # what cannot be read is left out, and read the next time
        look(bench.index)
        bench.mend()
        return
    bench.check(told)


def _check_cleared(bench: Bench) -> None:
    """Raise Lost where a build that was refused has left anything."""
    if bench.index.exists():
        only_index(bench.index)
    elif any(bench.index.parent.iterdir()):
        raise Lost("left where there is no index")


def _limited(folder: Path, kind: Kind, size: int) -> None:
    bench = Bench(folder, kind)
    told = bench.build(bytes=size)
    if told.code:
        _check_cleared(bench)
    bench.check(told)


def _full(folder: Path, kind: Kind, size: int) -> None:
    bench = _mounted(folder, kind, size)
    try:
        told = bench.build()
        if told.code:
            _check_cleared(bench)
        _remount(bench, "size=64m")
        bench.check(told)
    finally:
        _unmount(bench)


def _read_only_system(folder: Path, kind: Kind) -> None:
    bench = _mounted(folder, kind, 8000)
    try:
        _remount(bench, "ro")
        told = bench.build()
        if told.code == 0:
            raise Wrong("a build says that it wrote what it cannot")
        _remount(bench, "rw")
        bench.check(told)
    finally:
        _unmount(bench)


def _mounted(folder: Path, kind: Kind, kib: int) -> Bench:
    """Return a bench whose index lies in a file system of its own."""
    bench = Bench(folder, kind)
    aside = shutil.copy2(bench.index, folder / "aside")
    bench.index.unlink()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "torture", str(bench.index.parent)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        raise Skipped("no file system can be mounted here")
    try:
        shutil.copy2(aside, bench.index)
    except OSError as problem:
        _unmount(bench)
        raise Skipped("there the index has no room") from problem
    return bench


def _remount(bench: Bench, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(bench.index.parent)], check=True)


def _unmount(bench: Bench) -> None:
    subprocess.run(["umount", str(bench.index.parent)], check=False)


def _read_only(folder: Path, kind: Kind) -> None:
    """The superuser may write everywhere: then another user builds."""
    is_root = os.geteuid() == 0
    bench = Bench(folder, kind)
    folder.chmod(0o755)
    bench.index.parent.chmod(0o555)
    told = bench.build(user=NOBODY if is_root else None)
    if told.code == 0:
        raise Wrong("a build says that it wrote what it cannot")
    _check_cleared(bench)
    bench.index.parent.chmod(0o755)
    bench.check(told)
