"""Builds of one index at the same time, and what builds that are gone or stopped have beside it."""

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torture import Case, Lost, Wrong
from torture.builds import MANY, UPDATE, WHOLE, Bench, Kind, Told, starter
from torture.stages import SMALL, expect, only_index, stage
from torture.starter import Order

LEFT = ("", "-keywords", "-lock")
DEAD, DAYS = 4_194_303, 2 * 86_400
"""A number that hardly any process has; how old what is left must be where no lock tells whose it is."""


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield builds beside others that run, stand still, are killed, or are gone."""
    chosen = random.Random(seed)
    for kind, other in ((WHOLE, WHOLE), (UPDATE, UPDATE), (WHOLE, UPDATE), (MANY, MANY)):
        for number in range(1 if bounded else 6):
            delay = chosen.uniform(0, 0.15)
            name = f"{kind.name} and {other.name}, {delay:.3f} s later ({number})"
            yield Case("two builds at once", name, partial(_two, kind=kind, other=other, delay=delay))
    for kind in (UPDATE,) if bounded else (WHOLE, UPDATE):
        for read in (1,) if bounded else (1, 3, 5):
            for ending in (signal.SIGCONT, signal.SIGKILL):
                run = partial(_beside_stopped, kind=kind, read=read, ending=ending)
                yield Case("build beside one that stands still", f"{kind.name}, {ending.name} at read {read}", run)
    for is_locked in (True, False):
        for is_old in (is_locked,) if bounded else (True, False):
            for is_named_alive in (not is_locked,) if bounded else (True, False):
                run = partial(_leftovers, is_locked=is_locked, is_old=is_old, is_named_alive=is_named_alive)
                name = f"locked {is_locked}, old {is_old}, number of a process that runs {is_named_alive}"
                yield Case("files of others beside the index", name, run)
    for name in (".index.db.12.tmp", ".index.db.12.tmp-keywords"):
        yield Case("files of others beside the index", f"{name} without a lock", partial(_old_style, name=name))


def _two(folder: Path, kind: Kind, other: Kind, delay: float) -> None:
    """Both are of the new library, or one of the old: then the index may be that of either."""
    bench = Bench(folder, kind)
    first = bench.order(*kind.options)
    command = ("build", str(bench.stage.old), "-o", str(bench.index), *other.options)
    second = Order(command, str(folder / "output2"))
    starter(0).order(first)
    time.sleep(delay)
    starter(1).order(second)
    for number, order in enumerate((first, second)):
        told = Told(starter(number).ended(), Path(order.output).read_text(encoding="utf-8"))
        if told.code:
            raise Lost(f"a build beside another fails: {told.text}")
    expect(bench.index, {"old": (bench.stage.before,), "new": bench.stage.after})
    only_index(bench.index)
    bench.mend()


def _beside_stopped(folder: Path, kind: Kind, read: int, ending: signal.Signals) -> None:
    """A build stands still with its files half written, another is done, and the first goes on or is killed."""
    bench = Bench(folder, kind)
    stopped = folder / "stopped"
    starter(0).order(bench.order(*kind.options, changes={"stop": str(stopped), "read": read}))
    process = _until_stopped(stopped)
    try:
        files = _beside(bench.index)
        if not files:  # its lock is there first; an update may not have begun its copy yet
            raise Lost("a build has no file of its own")
        told = bench.told(Order(bench.order().arguments, str(folder / "output2")), at=1)
        if told.code:
            raise Lost(f"a build beside one that stands still fails: {told.text}")
        if _beside(bench.index) != files:
            raise Wrong("a build has removed what another one needs")
        expect(bench.index, {"new": bench.stage.after})
    finally:
        os.kill(process, ending)
        ended = starter(0).ended()
    if ending == signal.SIGCONT and ended.code:
        raise Lost(f"a build that stood still fails: {(folder / 'output').read_text(encoding='utf-8')}")
    expect(bench.index, {"new": bench.stage.after})
    bench.mend()


def _until_stopped(path: Path) -> int:
    """Return the number of the process that stands still, once it does."""
    for _ in range(2000):
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            while Path(f"/proc/{text}/stat").exists() and " T " not in Path(f"/proc/{text}/stat").read_text("utf-8"):
                time.sleep(0.005)
            return int(text)
        time.sleep(0.01)
    raise Lost("the build did not come so far")


def _beside(index: Path) -> list[str]:
    return sorted(path.name for path in index.parent.iterdir() if path != index)


def _leftovers(folder: Path, *, is_locked: bool, is_old: bool, is_named_alive: bool) -> None:
    """Only the lock counts: neither their age nor the number in their names make files those of a build that runs."""
    import fcntl  # POSIX has it alone

    bench = Bench(folder, UPDATE)
    stem = f".index.db.{os.getpid() if is_named_alive else DEAD}.0123abcd.tmp"
    files = [bench.index.with_name(stem + ending) for ending in LEFT]
    _make(files, is_old=is_old)
    with files[-1].open("rb+") as lock:
        if is_locked:
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (told := bench.build()).code:
            raise Lost(f"the build fails: {told.text}")
        left = _beside(bench.index)
    if left != (sorted(path.name for path in files) if is_locked else []):
        raise Wrong(f"these files are beside the index: {left}")
    bench.mend()


def _old_style(folder: Path, name: str) -> None:
    """Of files without a lock nobody can tell whose they are: they stay for a day."""
    bench = Bench(folder, UPDATE)
    file = bench.index.with_name(name)
    for is_old in (False, True):
        _make([file], is_old=is_old)
        if (told := bench.build()).code:
            raise Lost(f"the build fails: {told.text}")
        if file.exists() == is_old:
            raise Wrong(f"{name} is {'still' if is_old else 'no longer'} there")
    expect(bench.index, {"new": stage(SMALL).after})
    bench.mend()


def _make(files: list[Path], *, is_old: bool) -> None:
    for path in files:
        path.write_bytes(b"half")
        if is_old:
            os.utime(path, (time.time() - DAYS,) * 2)
