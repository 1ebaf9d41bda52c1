"""Libraries and indexes that builds are tortured with: an old library, a new one, and what an index of each says."""

import os
import random
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dumps import dump
from support import GARDENING, write_files

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings
from torture import Lost, Wrong

SMALL, LARGE = 36, 230
"""Files; from 200 on, other processes help."""

OLD_TIME, NEW_TIME = 1_700_000_000, 1_700_100_000
QUERIES = ("retrying call number 3", "pruning roses", "rolling back a release", "retry")
WORDS = "cache queue index token socket thread schema branch canary ledger metric replica shard vector window".split()

Dump = Mapping[str, list[tuple[object, ...]]]


@dataclass(frozen=True)
class Seen:
    """What an index says: all of its rows, and its answers to some requests."""

    rows: Dump
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A library as it was and as it is, the index of the old one, and what indexes may say, by how they were made."""

    old: Path
    new: Path
    index: Path
    before: Seen
    after: tuple[Seen, ...]

    def lay(self, folder: Path) -> Path:
        """Return where the old index is now: alone in a folder of that folder."""
        place = folder / "out"
        place.mkdir()
        return Path(shutil.copy2(self.index, place / "index.db"))


def library(size: int, *, changed: bool) -> dict[str, str | bytes]:
    """Return so many files of all kinds; a few of them differ where it has *changed*."""
    chosen = random.Random(size)
    files: dict[str, str | bytes] = {**GARDENING}
    for number in range(size - len(files) - 5):
        words = chosen.sample(WORDS, 4)
        text = f"# Call {number}\n\nRetry with {words[0]} and {words[1]}.\n\nSee orchestr8://skills/s{number // 2}.\n"
        extra = "Changed: wait for the replica first.\n" if changed and number % 9 == 0 else ""
        front = f"tags: [{words[2]}]\nuseWhen: [Retrying call number {number}, Watching the {words[3]} {number}]"
        files[f"skills/s{number}.md"] = f"---\n{front}\n---\n\n{text}{extra}"
    files["skills/pdf/SKILL.md"] = "---\nname: pdf\ndescription: Fill in forms\n---\n\n# PDF\n\nFill.\n"
    files["skills/pdf/fill.py"] = "print('new')\n" if changed else "print('old')\n"
    files["prompts/workflows/ship.md"] = "---\nname: ship\ntitle: Ship it\n---\n\nBegin.\n"
    files["patterns/rollback.md"] = "---\nuseWhen: [Rolling back a release]\n---\n\n# Rollback\n\nTurn it round.\n"
    files["examples/wrong.md"] = "---\nuseWhen: {not: closed\n---\n\nRetry.\n"
    if changed:
        del files["guides/g7.md"]
        files["patterns/canary.md"] = "---\nuseWhen: [Rolling back a release by steps]\n---\n\n# Canary\n\nStep.\n"
    return files


@cache
def stage(size: int) -> Stage:
    """Return libraries of so many files, made once."""
    home = Path(tempfile.mkdtemp(prefix="torture-stage-"))
    home.chmod(0o755)
    old, new = (home / age / "library" for age in ("old", "new"))
    before, after = library(size, changed=False), library(size, changed=True)
    write_files(old, before)
    write_files(new, after)
    for root, files in ((old, before), (new, after)):
        for path, content in files.items():
            seconds = OLD_TIME if before.get(path) == content else NEW_TIME
            os.utime(root / path, (seconds, seconds))
    index, whole, updated = (home / f"{name}.db" for name in ("index", "whole", "updated"))
    build_index([old], index, full=True)
    build_index([new], whole, full=True)
    shutil.copy2(index, updated)
    build_index([new], updated)
    first, *rest = (look(path) for path in (index, whole, updated))
    if first.rows == rest[0].rows or rest[0].rows != rest[1].rows:
        raise AssertionError("the stage itself is not as it should be")
    return Stage(old, new, index, first, tuple(rest))


def look(index: Path) -> Seen:
    """Return what the index says.

    Raises:
        Lost: It cannot be opened, or is not in order.
    """
    try:
        with Catalog.open(index) as catalog:
            verdict = catalog.db.execute("PRAGMA integrity_check").fetchone()[0]
        if verdict != "ok":
            raise Lost(f"integrity_check says: {verdict}")
        return Seen(dump(index), answers_of(index))
    except CatalogError as problem:
        raise Lost(str(problem)) from problem


def answers_of(index: Path) -> tuple[str, ...]:
    """Return what the index answers to some requests."""
    with closing(Service(Settings(index, "error", 10))) as service:
        return tuple(service.search(MatchRequest(query)).text for query in QUERIES)


def is_same(index: Path, stage: Stage) -> bool:
    """Tell whether an index is the old one of a stage to the last byte, and opens and answers as that did."""
    if not index.exists() or index.read_bytes() != stage.index.read_bytes():
        return False
    return answers_of(index) == stage.before.answers


def expect(index: Path, allowed: Mapping[str, tuple[Seen, ...]]) -> str:
    """Return as which of the *allowed* ones an index answers.

    Raises:
        Lost: It is not there, cannot be opened, or is not in order.
        Wrong: Its rows or its answers are those of none.
    """
    seen = look(index)
    for name, states in allowed.items():
        if seen.rows == states[0].rows:
            if seen.answers not in {one.answers for one in states}:
                raise Wrong(f"the rows are {name}, the answers are not")
            return name
    names = " and ".join(allowed)
    tables = {name: [t for t in seen.rows if seen.rows[t] != s[0].rows.get(t)] for name, s in allowed.items()}
    raise Wrong(f"the index is neither {names}; these tables differ: {tables}")


def only_index(index: Path) -> None:
    """Raise Lost where anything lies beside an index."""
    beside = sorted(path.name for path in index.parent.iterdir() if path != index)
    if beside:
        raise Lost(f"left beside the index: {', '.join(beside)}")
