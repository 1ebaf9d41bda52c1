"""Editions of an index whose every text names its edition, and which of them was in place when."""

import os
import re
import tempfile
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from pathlib import Path

from support import build, write_files

from orchestr8_sqlite.index.catalog import Catalog

MARK = re.compile(rb"edition(\d)")
EDITIONS = range(1, 5)
NOTHING, GARBAGE = 0, -1
"""What may be in place instead of an edition."""

RETRY, OTHER, LARGE = "orchestr8://skills/retry", "orchestr8://skills/other", "orchestr8://guides/large"
LARGE_BYTES = 30_000


def _files(edition: int) -> dict[str, str]:
    mark = f"edition{edition}"
    return {
        "skills/retry.md": f"---\ntitle: Retrying {mark}\nuseWhen: [Retrying a flaky call]\n---\n\nWait {mark}.\n",
        "skills/other.md": f"---\ntitle: Other {mark}\nuseWhen: [Something else]\n---\n\nNo {mark}.\n",
        "guides/large.md": f"---\ntitle: Large {mark}\n---\n\n" + f"Roses {mark}.\n" * (LARGE_BYTES // 15),
    }


@cache
def _pool() -> "tuple[tempfile.TemporaryDirectory[str], dict[int, Path], dict[int, str]]":
    """Return a folder that is kept, and in it the editions with their generations; made once in a process."""
    folder = tempfile.TemporaryDirectory(prefix="simulation-")
    paths, generations = {}, {}
    for edition in EDITIONS:
        root = write_files(Path(folder.name) / f"library{edition}", _files(edition))
        paths[edition] = build(root, Path(folder.name) / f"{edition}.db")
        with Catalog.open(paths[edition]) as catalog:
            generations[edition] = catalog.generation
    paths[GARBAGE] = Path(folder.name) / "garbage"
    paths[GARBAGE].write_bytes(b"no index at all")
    (Path(folder.name) / "place").mkdir()
    return folder, paths, generations


class Shelf:
    """The place of an index, and what was there when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        folder, self._paths, generations = _pool()
        self.edition_of = {generation: edition for edition, generation in generations.items()}
        self.path = Path(folder.name) / "place" / "index.db"
        self._clock = clock
        self.path.unlink(missing_ok=True)
        self.times: list[float] = [clock()]
        self.contents: list[int] = [NOTHING]

    @property
    def content(self) -> int:
        """Return what is there."""
        return self.contents[-1]

    def put(self, content: int) -> None:
        """Put something else there, in one step."""
        if content == self.content:
            return
        if content == NOTHING:
            self.path.unlink()
        else:
            new = self.path.with_suffix(".new")
            os.link(self._paths[content], new)
            new.replace(self.path)
        self.times.append(self._clock())
        self.contents.append(content)

    def between(self, first: float, last: float) -> set[int]:
        """Return all that was there from the time *first* to *last*."""
        begin = max(bisect_right(self.times, first) - 1, 0)
        # what was put there at the very moment *first* may have come just after it
        while begin > 0 and self.times[begin] >= first:
            begin -= 1
        return set(self.contents[begin : bisect_right(self.times, last)])

    def marks(self, body: bytes) -> set[int]:
        """Return the editions that an answer names."""
        return {int(mark) for mark in MARK.findall(body)}
