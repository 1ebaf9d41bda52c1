"""Builds whenever the files of a library change, until interrupted; each does again only what has changed.

What is refused, a file or the library as a whole, leaves what was there: the last good version of the file, the last
index.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import watchfiles

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How, Wanted, all_wanted
from orchestr8_sqlite.builder.update import settle_index
from orchestr8_sqlite.errors import BuildError, CatalogError, LibraryError, RefusedLibrary
from orchestr8_sqlite.library.client_folders import is_passed_over
from orchestr8_sqlite.library.walk import OwnCategories
from orchestr8_sqlite.model.records import Diagnostic
from orchestr8_sqlite.model.uris import compose
from orchestr8_sqlite.processes import growing_pauses


@dataclass(frozen=True, slots=True)
class SessionBuild:
    """What one build of a session did; `seconds` of wall time.

    `changed` are the files (root/path) whose content is not that of the build before, `diagnostics` theirs; none where
    another program has brought the index up to date.
    """

    generation: str
    fragments: int
    changed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    seconds: float


class BuildSession:
    """The roots and the index that follows them."""

    def __init__(
        self,
        roots: Sequence[Path],
        target: Path,
        *,
        category: str | None = None,
        strict: bool = False,
        deny: str | None = None,
        own: OwnCategories = (),
        lists: Sequence[tuple[str, str]] = (),
        wanted: Wanted = all_wanted,
    ) -> None:
        self.roots = roots
        self.target = target
        self._category = category
        self._strict = strict
        self._deny = deny
        self._own = own
        self._lists = lists
        self._wanted = wanted
        self._generation = ""
        self._is_settled = True

    def build(self) -> SessionBuild | None:
        """Bring the index up to date and return what was done, None where it is what it was after the last build.

        Raises:
            LibraryError: A root cannot be read.
            BuildError: The target cannot be written or replaced, the library is refused, or a check failed.
        """
        started = time.perf_counter()
        keep = self._generation != ""
        report = build_index(
            self.roots,
            self.target,
            category=self._category,
            strict=self._strict,
            deny=self._deny,
            leave_out=True,
            keep=keep,
            settle=False,
            own=self._own,
            lists=self._lists,
            wanted=self._wanted,
        )
        if report.how is How.UNCHANGED and report.generation == self._generation:
            return None
        self._generation, self._is_settled = report.generation, report.how is How.WHOLE
        changed = set(report.changed)
        return SessionBuild(
            generation=report.generation,
            fragments=report.fragments,
            changed=tuple(f"{root}/{path}" for root, path in sorted(changed)),
            diagnostics=tuple(one for one in report.diagnostics if (one.root, one.path) in changed),
            seconds=time.perf_counter() - started,
        )

    def settle(self) -> None:
        """Write what the last builds left for a quiet moment, if anything, and put the index with it in place.

        Raises:
            BuildError: The index contradicts itself, or the target cannot be replaced.
        """
        if not self._is_settled:
            settle_index(self.target)
            self._is_settled = True


QUIET_MS = 40
"""A build begins once no file has changed for so long: what is saved together is built together."""

LONGEST_MS = 400
"""However long files go on to change, a build begins after this."""

LOOK_MS = 200
"""How often it is looked whether the roots are still the folders that are watched."""

CALM_SECONDS = 5.0
"""After so long without a change the index is settled."""

OnBuilt = Callable[[SessionBuild], None]
OnFailed = Callable[[str], None]
OnCurrent = Callable[[], None]


def watch_roots(session: BuildSession, on_built: OnBuilt, on_failed: OnFailed, on_current: OnCurrent) -> None:
    """Build, and build again on every change below the roots of *session*, until KeyboardInterrupt.

    A build that fails is told once to *on_failed*. It is tried again in growing pauses, or, where the library is
    refused, at the next change; a root that is gone is waited for. Where nothing is left to build after a failure,
    *on_current* is told.
    """
    builds, roots = Builds(session, on_built, on_failed, on_current), session.roots
    while True:
        if not _are_there(roots):
            builds.attempt()
            while not _are_there(roots):
                time.sleep(LOOK_MS / 1000)
        try:
            _watch_folders(roots, session.target.resolve(), builds)
        except FileNotFoundError:  # a root went while the watch was being set up
            continue


def _watch_folders(roots: Sequence[Path], index: Path, builds: "Builds") -> None:
    """Build now and on every change, until a root is no longer the folder that it was."""
    folders = [root.resolve() for root in roots]
    identities = _identities(roots)
    begun = False
    for changes in watchfiles.watch(
        *folders,
        watch_filter=lambda _, path: _is_of_library(Path(path), folders, index),
        debounce=LONGEST_MS,
        step=QUIET_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    ):
        if _identities(roots) != identities:
            return
        if changes or not begun:
            begun = True  # not before the watch stands, or a change in between would go unseen
            builds.attempt()
        else:
            builds.look()


class Failure(NamedTuple):
    """What failed, and what was told of it."""

    action: Callable[[], None]
    message: str


class Builds:
    """Attempts to build, and what became of the last one."""

    def __init__(
        self,
        session: BuildSession,
        on_built: OnBuilt,
        on_failed: OnFailed,
        on_current: OnCurrent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._on_built = on_built
        self._on_failed = on_failed
        self._on_current = on_current
        self._clock = clock
        self._failure: Failure | None = None
        self._last = clock()
        self._is_behind = False
        self._pauses = growing_pauses()
        self._not_before = 0.0

    def attempt(self) -> None:
        """Build and tell what became of it; nothing where nothing has changed."""
        self._is_behind = True
        self._try(self._build)
        self._last = self._clock()

    def look(self) -> None:
        """Try again what failed for the moment, or settle the index where it has been calm for long enough."""
        now = self._clock()
        if now < self._not_before:
            return
        if self._is_behind:
            self._try(self._build)
        elif now - self._last > CALM_SECONDS:
            self._try(self._session.settle)

    def _build(self) -> None:
        built = self._session.build()
        self._is_behind = False
        if built is not None:
            self._failure = None
            self._on_built(built)

    def _try(self, action: Callable[[], None]) -> None:
        """Do something; where it fails for the moment, nothing is done again before the end of a pause."""
        try:
            action()
        except (RefusedLibrary, LibraryError) as problem:
            self._is_behind = False  # until a file changes
            self._tell(Failure(action, str(problem)))
        except (BuildError, CatalogError) as problem:
            self._not_before = self._clock() + next(self._pauses)
            self._tell(Failure(action, str(problem)))
        else:
            self._pauses, self._not_before = growing_pauses(), 0.0
            if self._failure is not None and action in (self._failure.action, self._build):
                self._failure = None
                self._on_current()

    def _tell(self, failure: Failure) -> None:
        if failure != self._failure:
            self._failure = failure
            self._on_failed(failure.message)


def _are_there(roots: Sequence[Path]) -> bool:
    return all(root.is_dir() for root in roots)


def _identities(roots: Sequence[Path]) -> list[tuple[int, int]] | None:
    try:
        return [(status.st_dev, status.st_ino) for status in map(Path.stat, roots)]
    except OSError:
        return None


def _is_of_library(path: Path, folders: Sequence[Path], index: Path) -> bool:
    """Tell whether a change of *path* can concern the library: it is neither the index nor where nothing is read.

    macOS tells of a folder by its name, in whatever case and form that was given.
    """
    folded = _folded(path)
    return folded != _folded(index) and any(
        folded.is_relative_to(_folded(folder)) and not is_passed_over(path.parts[len(folder.parts) :])
        for folder in folders
    )


def _folded(path: Path) -> Path:
    return Path(compose(str(path)).casefold())
