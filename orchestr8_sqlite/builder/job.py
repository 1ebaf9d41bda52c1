"""One build: a library as its folders are now, how its index is to be made, and what an index says of its library."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from heapq import merge
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from orchestr8_sqlite import __version__
from orchestr8_sqlite.builder.writer import json_text
from orchestr8_sqlite.errors import RefusedLibrary
from orchestr8_sqlite.index.catalog import COMMITS, Catalog
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.roots import Progress, Root, digest_files
from orchestr8_sqlite.library.trust.findings import denied
from orchestr8_sqlite.model.records import Diagnostic, Severity
from orchestr8_sqlite.text.wording import counted
from orchestr8_sqlite.text.wordlists import OWN as SYNONYMS

SCHEMA_VERSION = "5.1.0"

SET_META = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"

CONTENT_DIGEST = "contents"
"""Row of `meta`: the digest of what all files hold."""

OUTCOMES = "outcomes"
"""Row of `meta`: how many files became what, as JSON."""

TOTALS = ("fragment", "prompt", "scenario", "keyword", "diagnostic")
CONTENTS = "SELECT root, path, sha256 FROM source ORDER BY root, path"
DIAGNOSTICS = """
SELECT severity, code, root, path, line, field, message, fix FROM diagnostic
 ORDER BY root, path, coalesce(line, 0), code, message
"""
SEVERITIES = {severity.value: severity for severity in Severity}


Content = tuple[Key, str]
"""A file and the digest of what it holds."""


class How(StrEnum):
    """How a build made its index: from nothing, from the one that was there, or not at all as nothing has changed."""

    WHOLE = "whole"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Job:
    """A library as its folders are now, and how its index is to be built: see `build_index`.

    `began` is when its files were looked at, in ns since 1970; `latest` bounds the recorded file times.
    """

    folders: Sequence[Path]
    roots: Sequence[Root]
    category: str | None
    latest: int | None
    began: int
    strict: bool
    deny: str | None
    leave_out: bool
    keep: bool
    settle: bool
    progress: Progress | None

    @cached_property
    def settings(self) -> dict[str, str]:
        """Return what shapes the index beside its files, for `meta`."""
        return {
            "category": self.category or "",
            "denied": self.withheld or "",
            "limits": json.dumps([*{root.limits for root in self.roots}]),
            "roots": json.dumps([root.label for root in self.roots], ensure_ascii=False),
            "code": _digest_code(),
            "synonyms": json.dumps([root.side_digest(SYNONYMS) for root in self.roots]),
            "queries": json.dumps([root.side_digest(QUERIES) for root in self.roots]),
        }

    @cached_property
    def provenance(self) -> dict[str, str]:
        """Return where the files come from, for `meta`: no part of what the index holds of them."""
        commits = {root.label: root.commits for root in self.roots if root.commits}
        return {COMMITS: json.dumps(commits, ensure_ascii=False, sort_keys=True)}

    @property
    def withheld(self) -> str | None:
        """Return the level of the findings with which files are left out, None where none are."""
        return self.deny if self.leave_out else None

    @cached_property
    def digest(self) -> str:
        """Return what tells the files from others."""
        return digest_files(self.roots, self.latest)


SHAPING = ("text", "model", "library", "ranking", "builder", "index/schema.sql")
"""The parts of this package that shape rows and their weights: an index that other code made is built from scratch."""


@lru_cache(maxsize=1)
def _digest_code() -> str:
    """Return the digest of the code and word lists that shape rows, which no running program sees change."""
    package = Path(__file__).parents[1]
    places = (package / name for name in SHAPING)
    found = (path for place in places for path in ([place] if place.is_file() else place.rglob("*.*")))
    digest = hashlib.sha256()
    for path in sorted(path for path in found if path.suffix in {".py", ".sql", ".txt"}):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Described(NamedTuple):
    """What an index says of itself: `meta`, how many files became what, what is wrong with them, and its bytes."""

    meta: Mapping[str, str]
    outcomes: Mapping[str, int]
    diagnostics: tuple[Diagnostic, ...]
    size: int


class Built(NamedTuple):
    """How an index was made, the files that are not what they were before, and the seconds of each stage.

    `described` is what it says of itself, where that was read.
    """

    how: How
    changed: tuple[Key, ...] = ()
    stages: Mapping[str, float] = MappingProxyType({})
    described: Described | None = None


class Laps:
    """The seconds that one stage after the other takes, from now on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = time.perf_counter()

    def end(self, stage: str) -> None:
        """Note how long *stage* took, which ends now."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._begun
        self._begun = now


def write_settings(job: Job, db: sqlite3.Connection) -> None:
    """Write what an index says of itself."""
    write_meta(db, job.settings)
    db.executemany(SET_META, (("files", job.digest), *job.provenance.items()))


def write_meta(db: sqlite3.Connection, settings: Mapping[str, str]) -> str:
    """Write the totals of an index, *settings*, and the digest of all that it is made from; return the digest."""
    totals = {f"{table}s": str(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TOTALS}  # noqa: S608
    contents = hashlib.sha256()
    for file in db.execute(CONTENTS):
        contents.update("\0".join(file).encode() + b"\n")
    outcomes = json_text(dict(db.execute("SELECT outcome, count(*) FROM source GROUP BY outcome")))
    values = {**made_by(), **totals, **settings, CONTENT_DIGEST: contents.hexdigest(), OUTCOMES: outcomes}
    values["generation"] = hashlib.sha256(json_text(values).encode()).hexdigest()[:16]
    db.executemany(SET_META, sorted(values.items()))
    return values["generation"]


def made_by() -> dict[str, str]:
    """Return what an index says of the program that made it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "built_by": f"orchestr8-sqlite {__version__}",
        "sqlite_version": sqlite3.sqlite_version,
    }


def contents_of(db: sqlite3.Connection) -> Iterator[Content]:
    """Yield the files and lists that an index was made from, with the digests of their contents, sorted."""
    lists = sorted(lists_of(dict(db.execute("SELECT key, value FROM meta"))))
    yield from merge((((root, path), sha256) for root, path, sha256 in db.execute(CONTENTS)), lists)


def differing(some: Iterable[Content], others: Iterable[Content]) -> Iterator[Content]:
    """Yield what only one of two sorted series holds."""
    for content, found in groupby(merge(some, others)):
        if len(list(found)) == 1:
            yield content


def lists_of(meta: Mapping[str, str]) -> set[Content]:
    """Return the lists of the roots that `meta` knows, with the digests of their contents."""
    roots, queries, synonyms = (json.loads(meta[name]) for name in ("roots", "queries", "synonyms"))
    listed = ((QUERIES, queries), (SYNONYMS, synonyms))
    return {((root, file), one) for file, digests in listed for root, one in zip(roots, digests, strict=True) if one}


def places_of(changed: Iterable[Content]) -> tuple[Key, ...]:
    """Return the files whose contents are in *changed*, in their order."""
    return tuple(sorted({key for key, _ in changed}))


def describe(catalog: Catalog) -> Described:
    """Return what an index says of itself."""
    outcomes, diagnostics = json.loads(catalog.meta[OUTCOMES]), tuple(diagnostics_of(catalog.db))
    return Described(catalog.meta, outcomes, diagnostics, catalog.path.stat().st_size)


def refuse(job: Job, db: sqlite3.Connection) -> None:
    """Raise RefusedLibrary where an index says something of its library that is not allowed."""
    if job.strict:
        _refuse_problems(db)
    if job.deny and not job.leave_out:
        _refuse_findings(db, job.deny)


def _refuse_findings(db: sqlite3.Connection, level: str) -> None:
    findings = list(denied(diagnostics_of(db), level))
    if findings:
        lines = "\n".join(finding.line_of_text for finding in findings)
        found = counted(len(findings), f"finding of level {level} or worse", f"findings of level {level} or worse")
        raise RefusedLibrary(f"{lines}\nNot built: {found}; mend them, or build without --deny once they are judged.")


def _refuse_problems(db: sqlite3.Connection) -> None:
    """Raise RefusedLibrary with all warnings and errors that an index says of its library, where there are any."""
    problems = [d for d in diagnostics_of(db) if d.severity is not Severity.INFO]
    if problems:
        lines = "\n".join(problem.line_of_text for problem in problems)
        raise RefusedLibrary(f"{lines}\nNot built: {len(problems)} problems, and strict mode allows none.")


def diagnostics_of(db: sqlite3.Connection) -> list[Diagnostic]:
    """Return what an index says is wrong with its library, in the order of root, path and line."""
    return [Diagnostic(SEVERITIES[severity], *rest) for severity, *rest in db.execute(DIAGNOSTICS)]
