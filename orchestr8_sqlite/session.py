"""Builds of one library one after the other, each of which does again only what has changed.

What is refused, a file or the library as a whole, leaves what was there: the last good version of the file, the last
index.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.builder import check_target, put_in_place, refuse_problems, settings_of, temporary_name
from orchestr8_sqlite.catalog import Catalog, check_sqlite
from orchestr8_sqlite.content import Diagnostic, Library
from orchestr8_sqlite.errors import BuildError, CatalogError
from orchestr8_sqlite.library import Memory, Progress, read_library
from orchestr8_sqlite.update import LibraryIndex
from orchestr8_sqlite.wordlists import Synonym, read_synonyms


@dataclass(frozen=True, slots=True)
class Built:
    """What one build of a session did; `seconds` of wall time.

    `changed` are the files (root/path) whose content is not that of the build before, `diagnostics` theirs.
    """

    generation: str
    fragments: int
    changed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    seconds: float


class BuildSession:
    """The roots and the index that follows them. Close it when done."""

    def __init__(
        self, roots: Sequence[Path], target: Path, *, category: str | None = None, strict: bool = False
    ) -> None:
        self.roots = roots
        self.target = target
        self._category = category
        self._strict = strict
        self._memory = Memory()
        self._index: LibraryIndex | None = None
        self._state: tuple[Library, Sequence[Synonym]] | None = None
        self._changed: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Drop what the session keeps in memory; the index file stays."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def build(self, progress: Progress | None = None) -> Built | None:
        """Bring the index up to date and return what was done, None where nothing has changed.

        Raises:
            LibraryError: A root cannot be read.
            BuildError: The target cannot be written or replaced, the library is refused, or a check failed.
        """
        started = time.perf_counter()
        check_sqlite()
        check_target(self.target)
        library = read_library(self.roots, category=self._category, progress=progress, memory=self._memory)
        self._changed.update(self._memory.take_changes())
        synonyms = read_synonyms(self.roots)
        if self._strict:
            refuse_problems(library)
        if (library, synonyms) == self._state and self.target.exists():
            return None
        index = self._follow(library, synonyms)
        self._save(index)
        self._state = library, synonyms
        changed, self._changed = self._changed, set()
        return Built(
            generation=index.generation,
            fragments=len(library.fragments),
            changed=tuple(f"{root}/{path}" for root, path in sorted(changed)),
            diagnostics=tuple(one for one in library.diagnostics if (one.root, one.path) in changed),
            seconds=time.perf_counter() - started,
        )

    def settle(self) -> None:
        """Write what the last builds left for a quiet moment, if anything, and put the index with it in place.

        Raises:
            BuildError: The index contradicts itself, or the target cannot be replaced.
        """
        index = self._index
        if index is None or index.is_settled:
            return
        self._index = None  # after a failure the next build is one from scratch
        try:
            index.settle()
            self._save(index)
            self._index = index
        finally:
            if self._index is None:
                index.close()

    def _follow(self, library: Library, synonyms: Sequence[Synonym]) -> LibraryIndex:
        """Return the index of *library*; after a failure the next one is written from scratch."""
        settings = settings_of(self._category, synonyms, library)
        index, self._index = self._index, None
        try:
            if index is None or not index.follow(library, synonyms, settings):
                if index is not None:
                    index.close()
                index = LibraryIndex(library, synonyms, settings, least_coverage=self._measured_before())
            self._index = index
        except sqlite3.Error as problem:
            raise BuildError(f"The index {self.target} could not be made: {problem}.") from problem
        finally:
            if self._index is None and index is not None:
                index.close()
        return index

    def _measured_before(self) -> dict[str, str]:
        """Return generation → `least_coverage` of the index that is in place, where it was measured on just that."""
        try:
            with Catalog.open(self.target) as catalog:
                generation = catalog.meta["generation"]
                own = catalog.meta.get("least_coverage_of", generation) == generation
                return {generation: catalog.meta["least_coverage"]} if own else {}
        except (CatalogError, KeyError):
            return {}

    def _save(self, index: LibraryIndex) -> None:
        temporary = temporary_name(self.target)
        try:
            temporary.unlink(missing_ok=True)
            index.save(temporary)
            put_in_place(temporary, self.target)
        except (OSError, sqlite3.Error) as problem:
            raise BuildError(f"The index {self.target} could not be written: {problem}.") from problem
        finally:
            temporary.unlink(missing_ok=True)
