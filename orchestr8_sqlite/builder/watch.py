"""Builds whenever the files of a library change, until interrupted; each build only redoes what has changed.

If a file is refused, its last good version stays. If the library is refused, the last index stays.
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
from orchestr8_sqlite.library.roots import Origin
from orchestr8_sqlite.library.walk import OwnCategories
from orchestr8_sqlite.model.records import Diagnostic, Review
from orchestr8_sqlite.model.uris import compose
from orchestr8_sqlite.processes import growing_pauses


@dataclass(frozen=True, slots=True)
class SessionBuild:
    """What one build of a session did; `seconds` is wall time.

    `changed` names the files (root/path) whose content differs from the previous build, and `diagnostics` are theirs.
    Both are empty if another program has updated the index.
    """

    generation: str
    fragments: int
    changed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    seconds: float


class BuildSession:
    """Builds one index of the same roots again and again, and remembers the last generation."""

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
        pinned: Sequence[str] = (),
        wanted: Wanted = all_wanted,
        reviews: tuple[Review, ...] = (),
        origins: Sequence[Origin] = (),
    ) -> None:
        self.roots = roots
        self.target = target
        self._category = category
        self._strict = strict
        self._deny = deny
        self._own = own
        self._lists = lists
        self._pinned = pinned
        self._wanted = wanted
        self._reviews = reviews
        self._origins = origins
        self.folders = [*roots, *(origin.folder for origin in origins)]
        self._generation = ""
        self._is_settled = True

    def build(self) -> SessionBuild | None:
        """Update the index and return what was done, or None if it is the same as after the last build.

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
            pinned=self._pinned,
            wanted=self._wanted,
            reviews=self._reviews,
            origins=self._origins,
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
        """Do the work that the last builds postponed, if any, and replace the index.

        Raises:
            BuildError: The index contradicts itself, or the target cannot be replaced.
        """
        if not self._is_settled:
            settle_index(self.target)
            self._is_settled = True


QUIET_MS = 40
"""A build begins once no file has changed for this long, so that files saved together are built together."""

LONGEST_MS = 400
"""A build begins after this time even if files keep changing."""

LOOK_MS = 200
"""How often to check that the roots are still the watched folders."""

CALM_SECONDS = 5.0
"""The index is settled after this long without a change."""

OnBuilt = Callable[[SessionBuild], None]
OnFailed = Callable[[str], None]
OnCurrent = Callable[[], None]


def watch_roots(session: BuildSession, on_built: OnBuilt, on_failed: OnFailed, on_current: OnCurrent) -> None:
    """Build, and build again on every change below the roots of *session*, until KeyboardInterrupt.

    *on_failed* is called once per failure. A failed build is tried again after growing pauses, or at the next change
    if the library was refused. If a root is missing, this waits until it is back. *on_current* is called if nothing is
    left to build after a failure.
    """
    builds, roots = Builds(session, on_built, on_failed, on_current), session.folders
    while True:
        if not _are_there(roots):
            builds.attempt()
            while not _are_there(roots):
                time.sleep(LOOK_MS / 1000)
        try:
            _watch_folders(roots, session.target.resolve(), builds)
        except FileNotFoundError:  # a root was removed while the watch was being set up
            continue


def _watch_folders(roots: Sequence[Path], index: Path, builds: "Builds") -> None:
    """Build now and on every change, until a root is no longer the same folder."""
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
            begun = True  # build only once the watch is running, so that no change in between is missed
            builds.attempt()
        else:
            builds.look()


class Failure(NamedTuple):
    """The action that failed, and the message about it."""

    action: Callable[[], None]
    message: str


class Builds:
    """Attempts builds, reports each failure once, and keeps track of retries."""

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
        """Build and report the outcome, unless nothing has changed."""
        self._is_behind = True
        self._try(self._build)
        self._last = self._clock()

    def look(self) -> None:
        """Retry a build that failed temporarily, or settle the index if it has been calm for long enough."""
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
        """Run *action*; after a temporary failure, nothing is tried again before a pause has ended."""
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
    """Tell whether a change of *path* can affect the library: it is not the index, and not in a skipped folder.

    Names are compared folded, because macOS reports a folder in the letter case and Unicode form that we passed.
    """
    folded = _folded(path)
    return folded != _folded(index) and any(
        folded.is_relative_to(_folded(folder)) and not is_passed_over(path.parts[len(folder.parts) :])
        for folder in folders
    )


def _folded(path: Path) -> Path:
    return Path(compose(str(path)).casefold())
