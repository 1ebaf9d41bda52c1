"""Builds under a clock that is wrong or jumps, and of files whose times are.

Each is followed by an edit that leaves a file its size and its time, which the next build must see all the same.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from torture import Case, Wrong
from torture.build_sources import check_followed
from torture.builds import FIRST, UPDATE, WHOLE, Bench, Kind
from torture.patches import DEEDS
from torture.stages import stage

DAY = 86_400.0
JUMPS = {
    "a day ahead": DAY,
    "a day behind": -DAY,
    "ten years ahead": 3650 * DAY,
    "fifty years behind": -50 * 365 * DAY,
    "an hour ahead": 3600.0,
    "an hour behind": -3600.0,
    "two seconds ahead": 2.0,
    "two seconds behind": -2.0,
}
EDITED = ("skills/s3.md", "guides/g2.md", "skills/pdf/SKILL.md", "prompts/workflows/ship.md")


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield builds with clocks that are wrong from their start on or from a later look, files and indexes likewise."""
    jumps = dict([*JUMPS.items()][:2]) if bounded else JUMPS
    for jump, seconds in jumps.items():
        for number, kind in enumerate((UPDATE,) if bounded else (FIRST, WHOLE, UPDATE)):
            path = EDITED[(seed + number) % len(EDITED)]
            for first in (0,) if bounded else (0, 1):
                details = {"changes": {"clock": seconds, "from": first}}
                run = partial(_jumping, kind=kind, details=details, path=path)
                yield Case("clock jumps", f"{kind.name}, {jump} from look {first}", run)
            run = partial(_wrong, kind=kind, seconds=seconds, path=path)
            yield Case("clock stays wrong", f"{kind.name}, {jump}", run)
            run = partial(_dated, kind=kind, seconds=seconds, path=path)
            yield Case("files dated ahead or behind", f"{kind.name}, {jump}", run)
            run = partial(_dated_index, kind=kind, seconds=seconds, path=path)
            yield Case("index dated ahead or behind", f"{kind.name}, {jump}", run)


def _laid(folder: Path, kind: Kind) -> Bench:
    root = folder / "library"
    shutil.copytree(stage(kind.size).new, root)
    return Bench(folder, kind, root)


def _edit_and_follow(bench: Bench, path: str, **details: object) -> None:
    DEEDS["replaced with the same size and time"](bench.root / path, "---\nuseWhen: [Baking bread]\n---\n\n# Bread\n")
    check_followed(bench, **details)


def _jumping(folder: Path, kind: Kind, details: Mapping[str, object], path: str) -> None:
    bench = _laid(folder, kind)
    told = bench.build(**details)
    if told.code:
        raise Wrong(f"the clock keeps the library from being built: {told.text}")
    _edit_and_follow(bench, path)


def _wrong(folder: Path, kind: Kind, seconds: float, path: str) -> None:
    """Build and build again under the same clock, which is not that of the files."""
    bench, changes = _laid(folder, kind), {"clock": seconds}
    told = bench.build(changes=changes)
    if told.code:
        raise Wrong(f"the clock keeps the library from being built: {told.text}")
    _edit_and_follow(bench, path, changes=changes)


def _dated(folder: Path, kind: Kind, seconds: float, path: str) -> None:
    bench = _laid(folder, kind)
    for one in bench.root.rglob("*.md"):
        os.utime(one, (time.time() + seconds,) * 2)
    if (told := bench.build()).code:
        raise Wrong(f"times keep the library from being built: {told.text}")
    _edit_and_follow(bench, path)


def _dated_index(folder: Path, kind: Kind, seconds: float, path: str) -> None:
    """The time of an index ahead of the clock says nothing; one behind only costs time."""
    bench = _laid(folder, kind)
    if (told := bench.build()).code:
        raise Wrong(f"the library is not built: {told.text}")
    if seconds > 0:  # a build under a clock that was ahead
        os.utime(bench.index, (time.time() + seconds,) * 2)
    _edit_and_follow(bench, path)
