"""What goes on while clients ask: a library is edited, or an index replaced."""

import asyncio
import atexit
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from support import build, write_files

from torture import Lost
from torture.load.library import DOCUMENTS, LEDGER, PROMPT, URIS, editions_in, file_of, ledger_of, library_of
from torture.load.questions import Message, Question, loading, reading
from torture.load.samples import family
from torture.load.truth import Files, Truth, Whole

PATIENCE = 30.0
"""Seconds after which an index is taken as not following its library."""

WORKERS, KILLS = 4, 10
"""Workers of the server of which some are killed, and how many; the pauses before others start grow."""

EDITIONS = 6
"""Indexes of the same library that replace one another, each of an edition of its own."""

Ask = Callable[[Question], Awaitable[Message]]


class Change(Protocol):
    """What goes on while clients ask."""

    def __init__(self, folder: Path, chance: random.Random) -> None: ...

    @property
    def options(self) -> Sequence[str]:
        """Return the options of `serve` for it."""

    @property
    def breaks(self) -> bool:
        """Tell whether connections may break, and workers end."""

    @property
    def truth(self) -> Truth:
        """Return what may be answered when."""

    @property
    def whole(self) -> bool:
        """Tell whether the index is always one of the whole library at one moment."""

    async def go_on(self, until: float) -> None:
        """Change what is served until the time is over."""

    async def settle(self, ask: Ask) -> None:
        """Raise Lost or Wrong where the last change is not served in the end."""

    def told(self) -> str:
        """Return how much has been changed."""


class Replacements:
    """Finished indexes of several editions are renamed over the one that is served."""

    whole, breaks = True, False

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.truth = Whole()
        self._index = folder / "index.db"
        self._chance = chance
        self._count = 0
        self.options: Sequence[str] = ("--db", str(self._index))
        for edition in reversed(range(EDITIONS)):
            self._replace(edition)

    async def go_on(self, until: float) -> None:
        """Replace the index until the time is over, at any moment, by another edition."""
        edition = 0
        while time.monotonic() < until:
            edition = (edition + self._chance.randrange(1, EDITIONS)) % EDITIONS
            self._replace(edition)
            await asyncio.sleep(self._chance.uniform(0, 0.1))

    def _replace(self, edition: int) -> None:
        new = Path(shutil.copy(prepared(edition), self._index.with_suffix(".new")))
        began = time.monotonic()
        new.replace(self._index)
        self.truth.replaced(edition, began, time.monotonic())
        self._count += 1

    async def settle(self, ask: Ask) -> None:
        """Look whether the edition that was put in place last is answered."""
        await ask(loading(list(URIS[:20])))

    def told(self) -> str:
        """Return how often the index was replaced."""
        return f"{self._count:,} replacements"


class Kills(Replacements):
    """Workers are killed too, at any moment, as they start as well; the server starts others after growing pauses."""

    breaks = True

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.options = (*self.options, "--workers", str(WORKERS))
        self.killed = 0

    async def go_on(self, until: float) -> None:
        """Kill KILLS workers and replace the index until the time is over.

        Raises:
            Lost: There were not enough of them.
        """
        pause = (until - time.monotonic()) / KILLS
        killing = asyncio.create_task(super().go_on(until))
        while time.monotonic() < until and self.killed < KILLS:
            if there := list(workers()):
                os.kill(self._chance.choice(there), signal.SIGKILL)
                self.killed += 1
            await asyncio.sleep(self._chance.uniform(0, pause))
        await killing
        if self.killed < KILLS:
            raise Lost(f"only {self.killed} workers were there to be killed")

    async def settle(self, ask: Ask) -> None:
        """Look whether all workers are there again."""
        until = time.monotonic() + PATIENCE
        while (count := len(list(workers()))) != WORKERS:
            if time.monotonic() > until:
                raise Lost(f"{count} workers instead of {WORKERS}")
            await asyncio.sleep(0.1)
        await super().settle(ask)

    def told(self) -> str:
        """Return how much was killed and replaced."""
        return f"{self.killed} workers killed, {super().told()}"


def workers() -> Iterator[int]:
    """Yield the workers below this process."""
    for process in family(os.getpid()):
        with suppress(OSError):
            if b"orchestr8_sqlite.server.http.worker" in Path(f"/proc/{process}/cmdline").read_bytes():
                yield process


class Edits:
    """Files of a watched library are changed, renamed, made and deleted; now and then an index of before comes back."""

    whole, breaks = False, False

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.truth = Files()
        self._root, self._index, self._kept = folder / "library", folder / "index.db", folder / "kept.db"
        self._chance = chance
        self._edition = self._ledger = 1
        self._put_back = 0
        self.truth.written |= dict.fromkeys((*DOCUMENTS, LEDGER), 1)
        write_files(self._root, library_of(1))
        self.options = ("--root", str(self._root), "--db", str(self._index), "--watch")

    async def go_on(self, until: float) -> None:
        """Edit the library until the time is over."""
        actions = [self._change] * 12 + [self._rename, self._make, self._delete, self._keep, self._go_back]
        while time.monotonic() < until:
            self._edition += 1
            self._chance.choice(actions)()
            await asyncio.sleep(self._chance.uniform(0.02, 0.4))

    def _change(self) -> None:
        self._write(self._chance.choice(DOCUMENTS))

    def _write(self, document: str) -> None:
        self.truth.written[document] = self._edition
        self._save(*file_of(document, self._edition))

    def _save(self, path: str, text: str) -> None:
        beside = self._root / f".{Path(path).name}.swp"
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._root / path)

    def _rename(self) -> None:
        self.truth.written[LEDGER] = self._edition
        (self._root / ledger_of(self._ledger)[0]).rename(self._root / ledger_of(self._edition)[0])
        self._ledger = self._edition

    def _make(self) -> None:
        self._save(f"guides/more{self._edition}.md", "# More\n\nAbout marmalade.\n")

    def _delete(self) -> None:
        for path in list(self._root.glob("guides/more*.md"))[:1]:
            path.unlink()

    def _keep(self) -> None:
        shutil.copy(self._index, self._kept)

    def _go_back(self) -> None:
        if self._kept.exists():
            Path(shutil.copy(self._kept, self._index.with_suffix(".new"))).replace(self._index)
            self.truth.went_back()
            self._put_back += 1

    async def settle(self, ask: Ask) -> None:
        """Change one more file, and look whether the index comes to hold what the library does."""
        self._edition += 1
        self._write(URIS[0])
        until = time.monotonic() + PATIENCE
        while late := [one for one in DOCUMENTS if one != PROMPT and await self._is_late(one, ask)]:
            if time.monotonic() > until:
                raise Lost(f"the index does not follow {late[:5]}")

    async def _is_late(self, document: str, ask: Ask) -> bool:
        return editions_in(await ask(reading(document))) != {self.truth.written[document]}

    def told(self) -> str:
        """Return how much was edited."""
        return f"{self._edition:,} edits, {self._put_back} times an earlier index"


@cache
def prepared(edition: int) -> Path:
    """Return the finished index of an edition."""
    folder = Path(tempfile.mkdtemp(prefix="torture-load-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(write_files(folder / "library", library_of(edition)), folder / "index.db")
