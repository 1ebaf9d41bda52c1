"""Builds of a library that changes while it is read: files vanish, change, and become what is no file."""

import hashlib
import os
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dumps import dump
from support import rows

from orchestr8_sqlite.builder.build import build_index
from torture import Case, Lost, Wrong
from torture.build_errors import NOBODY
from torture.builds import UPDATE, WHOLE, Bench, Kind, check_message
from torture.patches import DEEDS
from torture.stages import SMALL, Dump, look, only_index, stage

TEXT = "---\nuseWhen: [Rolling back a release at night]\n---\n\n# Other\n\nWritten meanwhile.\n"
SOURCES = "SELECT path, sha256 FROM source"


class Change(NamedTuple):
    """What becomes of a file, and before how many files have been read; 0 is right after the listing."""

    deed: str
    path: str
    read: int


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield each deed at several files, after the listing and between reads."""
    chosen = random.Random(seed)
    for number, deed in enumerate(DEEDS):
        for kind in [(WHOLE, UPDATE)[number % 2]] if bounded else (WHOLE, UPDATE):
            for path in _paths(chosen, 1 if bounded else 3):
                for read in (0,) if bounded else (0, chosen.randint(1, SMALL)):
                    change = Change(deed, path, read)
                    name = f"{kind.name}, {path} {deed} before read {read}"
                    yield Case("library changes while it is read", name, partial(_changing, kind=kind, change=change))


def _paths(chosen: random.Random, count: int) -> list[str]:
    """Return so many files of the library, most of them those that are no plain fragments or have changed."""
    root = stage(SMALL).new
    others = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    special = ["patterns/canary.md", "skills/pdf/SKILL.md", "skills/pdf/fill.py", "prompts/workflows/ship.md"]
    return [chosen.choice(special), *chosen.sample(others, count - 1)]


def _changing(folder: Path, kind: Kind, change: Change) -> None:
    root = folder / "library"
    shutil.copytree(stage(kind.size).new, root)
    bench = Bench(folder, kind, root)
    user = _give_away(folder) if change.deed == "forbidden" and os.geteuid() == 0 else None
    known = _digests(root)
    changes = {"deed": change.deed, "path": str(root / change.path), "read": change.read, "text": TEXT}
    told = bench.build(changes=changes, user=user)
    if told.code:
        check_message(told.text)
    else:
        _check_versions(bench.index, known, _digests(root))
    check_followed(bench)


def check_followed(bench: Bench, **details: Any) -> None:  # noqa: ANN401 - of an Order
    """Check that the next build, with what is wrong then, makes what a build from nothing makes.

    Raises:
        Lost, Wrong: It does not.
    """
    told = bench.told(bench.order(**details))
    if told.code:
        raise Lost(f"the next build fails: {told.text}")
    fresh = bench.folder / "fresh.db"
    build_index([bench.root], fresh, full=True)
    look(bench.index)
    made, wanted = _content(bench.index), _content(fresh)
    if made != wanted:
        tables = [table for table in wanted if made[table] != wanted[table]]
        raise Wrong(f"the next build makes something else than a build from nothing, in {', '.join(tables)}")
    only_index(bench.index)


def _content(index: Path) -> Dump:
    """Return the rows of an index, but for the digest of the times that its files had in the listing."""
    tables = dump(index)
    return {**tables, "meta": [row for row in tables["meta"] if row[0] != "files"]}


def _give_away(folder: Path) -> int:
    """Let another user own all files, who may not read what is forbidden, and return the user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return NOBODY


def _digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def _check_versions(index: Path, before: dict[str, str], after: dict[str, str]) -> None:
    """Raise Wrong where an index holds of any file what that never held."""
    look(index)
    for path, digest in rows(index, SOURCES):
        if digest and digest not in (before.get(str(path)), after.get(str(path))):
            raise Wrong(f"{path} is in the index as it never was")
