"""Gives each request one version of the index file, from its first read to its end.

The next request notices a replaced file. Running requests keep their version, whose last connection is closed when the
last of them ends.
"""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.connections import Identity, heed, hurry, limit_pages
from orchestr8_sqlite.settings import LEVELS, Place
from orchestr8_sqlite.system import is_posix

logger = logging.getLogger(__name__)

Edition = tuple[Identity, str]
"""Identifies a version of the index, even if the file of another version happens to have the same identity."""

MOST_IDLE = 4
"""Most connections to keep open for later requests."""

MOST_PAGES, MOST_SHARED_PAGES = 20_000, 12_000
"""Page cache in KiB: of a single connection, and of several together."""


class Snapshots:
    """The open connections to an index file. Close it when no request is running.

    Args:
        path: The index, which may be replaced at any time.
        forget: Called when the file was replaced, by other content or a new calibration.
        denied: Refuse an index that does not leave out findings of this level.
    """

    def __init__(self, path: Place, forget: Callable[[], None], denied: str | None = None) -> None:
        self._path = path
        self._forget = forget
        self._denied = denied
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._idle: list[Catalog] = []
        self._current: Catalog | None = None
        self._open = 0
        self._compares_all = False

    def snapshot(self) -> "Snapshot":
        """Return a context in which the thread that enters it reads a single version of the index."""
        return Snapshot(self, self._threads)

    @property
    def catalog(self) -> Catalog:
        """Return the version of the index that this thread's snapshot reads.

        Raises:
            CatalogError: There is no usable index at the path.
        """
        snapshot: Snapshot | None = getattr(self._threads, "snapshot", None)
        assert snapshot is not None, "the index is read within a snapshot"
        return snapshot.catalog

    @property
    def generation(self) -> str:
        """Return the generation of the newest version read so far; empty before the first read."""
        current = self._current
        return "" if current is None else current.generation

    def unchanged_edition(self) -> Edition | None:
        """Return the newest version read so far if its file is still in place, else None; opens nothing."""
        current = self._current
        is_whole = current is not None and not current.missing and not current.is_known_damaged
        is_good = is_whole and current is not None and current.is_known_current()
        return edition_of(current) if is_good and current is not None else None

    def compare_all(self) -> None:
        """From now on, compare a file of any size with its checksum when it is opened."""
        self._compares_all = True

    def take(self) -> Catalog:
        """Return a connection to the current file, for this caller alone until it is given back.

        Raises:
            CatalogError: There is no usable index at the path.
        """
        taken = self._take_idle() or self._open_another()
        self._limit(taken)
        return taken

    def _take_idle(self) -> Catalog | None:
        current = self._current
        if current is None or not current.is_current():  # without the lock: it may have to ask a server
            return None
        with self._lock:
            idle = self._idle
            is_good = idle and idle[-1].identity == current.identity and not idle[-1].is_known_damaged
            return idle.pop() if is_good else None

    def _open_another(self) -> Catalog:
        fresh = Catalog.open(self._path)
        if self._denied is not None and not _leaves_out(fresh, self._denied):
            fresh.close()
            raise CatalogError(
                f"The index {self._path} was built without --deny {self._denied}, which this server was told, and the "
                "build that leaves out what that says is not done; see why in the log."
            )
        if self._compares_all:
            fresh.begin_to_verify()
        with self._lock:
            self._open += 1
        self._notice(fresh)
        return fresh

    def _limit(self, catalog: Catalog) -> None:
        """Set a connection's share of the page cache; only its current user may call this."""
        limit_pages(catalog.reader, MOST_PAGES if self._open <= 1 else MOST_SHARED_PAGES // self._open)

    def _notice(self, fresh: Catalog) -> None:
        """Record *fresh* as the newest version, unless a slow thread has opened an older one."""
        with self._lock:
            before = self._current
            if before is not None and (before.identity == fresh.identity or not fresh.is_current()):
                return
            outdated, self._idle, self._current = self._idle, [], fresh
        self._close(outdated)
        if before is not None:
            self._forget()
            logger.info("index replaced", extra={"generation": fresh.generation})

    def give_back(self, catalog: Catalog) -> None:
        """Keep a connection for a later request, or close it if there are enough or its file was replaced.

        On systems that cannot replace an open file it is always closed, so that builds can finish.
        """
        self._limit(catalog)
        catalog.rest()
        most = MOST_IDLE if is_posix() else 0
        with self._lock:
            newest = self._current is not None and self._current.identity == catalog.identity
            if newest and len(self._idle) < most and not catalog.is_known_damaged:
                self._idle.append(catalog)
                return
        self._close([catalog])

    def close(self) -> None:
        """Close idle connections, and from now on every connection that is given back."""
        with self._lock:
            idle, self._idle, self._current = self._idle, [], None
        self._close(idle)

    def _close(self, catalogs: list[Catalog]) -> None:
        with self._lock:
            self._open -= len(catalogs)
        for catalog in catalogs:
            catalog.close()


class Snapshot:
    """One version of the index for everything a thread reads in this context and nested ones; enter it only once.

    If that version is damaged, leaving the outermost context raises `CatalogError` instead of any other outcome.
    """

    __slots__ = ("_abandoned", "_catalog", "_nested", "_snapshots", "_threads")

    def __init__(self, snapshots: Snapshots, threads: threading.local) -> None:
        self._snapshots = snapshots
        self._threads = threads
        self._catalog: Catalog | None = None
        self._nested = False
        self._abandoned = False

    @property
    def catalog(self) -> Catalog:
        """Return the version of the index to read, taken on first use."""
        if self._catalog is None:
            self._catalog = self._snapshots.take()
            heed(self._catalog.reader, lambda: self._abandoned)
        return self._catalog

    @property
    def edition(self) -> Edition | None:
        """Return which version is or was read; None if nothing was."""
        return None if self._catalog is None else edition_of(self._catalog)

    def abandon(self) -> None:
        """Interrupt the current statement of this snapshot soon, and every long one after it."""
        self._abandoned = True
        if self._catalog is not None:
            hurry(self._catalog.reader)

    def __enter__(self) -> Self:
        self._nested = getattr(self._threads, "snapshot", None) is not None
        if not self._nested:
            self._threads.snapshot = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nested:
            return
        self._threads.snapshot = None
        if self._catalog is not None:
            heed(self._catalog.reader, None)
            try:
                self._catalog.verify_after(error)
            finally:
                self._snapshots.give_back(self._catalog)


def _leaves_out(catalog: Catalog, level: str) -> bool:
    """Tell whether the index leaves out files with findings of *level* or worse."""
    denied = catalog.meta.get("denied")
    return denied in LEVELS and LEVELS.index(denied) >= LEVELS.index(level)


def edition_of(catalog: Catalog) -> Edition:
    """Return which version of the index *catalog* reads."""
    lacking = f" without {', '.join(catalog.missing)}" if catalog.missing else ""
    return catalog.identity, f"{catalog.generation}{lacking}"
