"""Builds of one library one after the other, each of which does again only what has changed.

What is refused, a file or the library as a whole, leaves what was there: the last good version of the file, the last
index.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.builder import build_index
from orchestr8_sqlite.content import Diagnostic
from orchestr8_sqlite.jobs import How
from orchestr8_sqlite.renewal import settle_index


@dataclass(frozen=True, slots=True)
class Built:
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
    ) -> None:
        self.roots = roots
        self.target = target
        self._category = category
        self._strict = strict
        self._deny = deny
        self._generation = ""
        self._is_settled = True

    def build(self) -> Built | None:
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
        )
        if report.how is How.UNCHANGED and report.generation == self._generation:
            return None
        self._generation, self._is_settled = report.generation, report.how is How.WHOLE
        changed = set(report.changed)
        return Built(
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
