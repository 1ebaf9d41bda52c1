"""One build: the library's folders, the options, and what an index records about its library."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from heapq import merge
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from orchestr8_sqlite import __version__
from orchestr8_sqlite.builder.reviews import Reviewed, reviewed
from orchestr8_sqlite.builder.target import Moment
from orchestr8_sqlite.builder.writer import json_text
from orchestr8_sqlite.errors import RefusedLibrary
from orchestr8_sqlite.index.catalog import COMMITS, PINNED, REVIEWS, Catalog
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.reviews import digest_reviews, in_force
from orchestr8_sqlite.library.roots import Origin, Progress, Root, digest_files, own_synonyms
from orchestr8_sqlite.library.trust.findings import denied
from orchestr8_sqlite.library.verdicts import Policy
from orchestr8_sqlite.library.walk import OwnCategories
from orchestr8_sqlite.model.records import Diagnostic, Review, Severity
from orchestr8_sqlite.settings import LEVELS
from orchestr8_sqlite.text.languages import language_of
from orchestr8_sqlite.text.wording import counted
from orchestr8_sqlite.text.wordlists import OWN as SYNONYMS
from orchestr8_sqlite.text.wordlists import Synonym, read_synonyms

SCHEMA_VERSION = "6.0.0"

PINS = "pins"
"""Row of `meta`: by source, what may change without changing its fragments, such as its version, as JSON."""

SET_META = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"

CONTENT_DIGEST = "contents"
"""Row of `meta`: the digest of the content of all files."""

DESCRIBED = "SELECT title, description FROM fragment ORDER BY uri LIMIT 200"
"""Texts from which the language of a library is detected."""

OUTCOMES = "outcomes"
"""Row of `meta`: the number of files by outcome, as JSON."""

TOTALS = ("fragment", "prompt", "scenario", "keyword", "diagnostic")
CONTENTS = "SELECT root, path, sha256 FROM source ORDER BY root, path"
DIAGNOSTICS = """
SELECT severity, code, root, path, line, field, message, fix FROM unreviewed
 ORDER BY root, path, coalesce(line, 0), code, message
"""
SEVERITIES = {severity.value: severity for severity in Severity}


Wanted = Callable[[Diagnostic], bool]
"""Returns whether a diagnostic is wanted."""


def all_wanted(_: Diagnostic) -> bool:
    """Return True for every diagnostic."""
    return True


Content = tuple[Key, str]
"""A file and the digest of its content."""


class How(StrEnum):
    """How a build made its index: from scratch, from the previous one, or not at all because nothing had changed."""

    WHOLE = "whole"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Job:
    """A library as its folders are now, and the options of its build: see `build_index`.

    `began` is when the build began to read the files; `latest` is the upper bound of recorded file times, in ns since
    1970. `reviews` are judged on `day`, as YYYY-MM-DD.
    """

    folders: Sequence[Path]
    roots: Sequence[Root]
    category: str | None
    latest: int | None
    began: Moment
    strict: bool
    deny: str | None
    leave_out: bool
    keep: bool
    settle: bool
    progress: Progress | None
    own: OwnCategories = ()
    lists: Sequence[tuple[str, str]] = ()
    pinned: Sequence[str] = ()
    wanted: Wanted = all_wanted
    reviews: tuple[Review, ...] = ()
    day: str = ""

    @cached_property
    def settings(self) -> dict[str, str]:
        """Return the rows of `meta` for everything that shapes the index, except the files."""
        return {
            "category": self.category or "",
            "categories": json.dumps(self.own, ensure_ascii=False),
            "lists": hashlib.sha256(repr(self.lists).encode()).hexdigest()[:16] if self.lists else "",
            PINNED: json_text(self.pinned),
            "denied": self.withheld or "",
            "sources": json.dumps([_policy_of(root.origin, self) for root in self.roots if root.origin]),
            REVIEWS: digest_reviews(self.reviews, self.day),
            "limits": json.dumps([*{root.limits for root in self.roots}]),
            "roots": json.dumps([root.label for root in self.roots], ensure_ascii=False),
            "code": _digest_code(),
            "synonyms": json.dumps([root.side_digest(SYNONYMS) for root in self.roots]),
            "queries": json.dumps([root.side_digest(QUERIES) for root in self.roots]),
        }

    @cached_property
    def provenance(self) -> dict[str, str]:
        """Return the rows of `meta` that say where the files come from; they do not affect the content."""
        commits = {root.label: root.commits for root in self.roots if root.commits}
        sources = {root.label: root.origin for root in self.roots if root.origin}
        pins = {name: [of.owner, of.location, of.version, of.content] for name, of in sources.items()}
        return {name: json_text(said) for name, said in ((COMMITS, commits), (PINS, pins))}

    def read_synonyms(self) -> list[Synonym]:
        """Return the synonyms of the library and of this package.

        Raises:
            LibraryError: A list cannot be read.
        """
        return read_synonyms([*own_synonyms(self.roots), *self.lists])

    @property
    def withheld(self) -> str | None:
        """Return the level of findings from which files are left out; None if none are."""
        return self.deny if self.leave_out else None

    @cached_property
    def levels(self) -> dict[str, str]:
        """Return by root the level of findings that is denied there: the stricter of the job's and the source's own."""
        return denied_levels(self.roots, self.deny)

    @cached_property
    def policy(self) -> Policy:
        """Return what decides on files beside their content."""
        denied = self.levels if self.leave_out else {}
        return Policy(denied, in_force(self.reviews, self.day), overriding(self.roots))

    @cached_property
    def digest(self) -> str:
        """Return the digest of the names, sizes and times of all files."""
        return digest_files(self.roots, self.latest)


SHAPING = ("text", "model", "library", "ranking", "builder", "index/schema.sql")
"""The parts of this package that shape rows and weights; if their code has changed, the index is built from scratch."""


@lru_cache(maxsize=1)
def _digest_code() -> str:
    """Return the digest of the code and word lists that shape rows; cached, since a running program never reloads."""
    package = Path(__file__).parents[1]
    places = (package / name for name in SHAPING)
    found = (path for place in places for path in ([place] if place.is_file() else place.rglob("*.*")))
    digest = hashlib.sha256()
    for path in sorted(path for path in found if path.suffix in {".py", ".sql", ".txt"}):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Described(NamedTuple):
    """What an index records about itself: `meta`, files by outcome, diagnostics, and its size in bytes.

    The diagnostics are those that no review accepts.
    """

    meta: Mapping[str, str]
    outcomes: Mapping[str, int]
    diagnostics: tuple[Diagnostic, ...]
    reviewed: Reviewed
    size: int


class Built(NamedTuple):
    """How an index was made, the files whose content changed, and the seconds of each stage.

    `described` is what the index records about itself, if that was read.
    """

    how: How
    changed: tuple[Key, ...] = ()
    stages: Mapping[str, float] = MappingProxyType({})
    described: Described | None = None


class Laps:
    """Times consecutive stages, in seconds; the first begins now."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = time.perf_counter()

    def end(self, stage: str) -> None:
        """End *stage* now and record how long it took."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._begun
        self._begun = now


def write_settings(job: Job, db: sqlite3.Connection) -> None:
    """Write `meta`: what an index records about itself."""
    write_meta(db, job.settings)
    db.executemany(SET_META, (("files", job.digest), *job.provenance.items()))


def write_meta(db: sqlite3.Connection, settings: Mapping[str, str]) -> str:
    """Write totals, *settings* and the generation; return the generation, a digest of all that makes the index."""
    totals = {f"{table}s": str(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TOTALS}  # noqa: S608
    contents = hashlib.sha256()
    for file in db.execute(CONTENTS):
        contents.update("\0".join(file).encode() + b"\n")
    outcomes = json_text(dict(db.execute("SELECT outcome, count(*) FROM source GROUP BY outcome")))
    language = language_of("\n".join(chain.from_iterable(db.execute(DESCRIBED)))) or ""
    values = {**made_by(), **totals, **settings, CONTENT_DIGEST: contents.hexdigest(), OUTCOMES: outcomes}
    values["language"] = language
    values["generation"] = hashlib.sha256(json_text(values).encode()).hexdigest()[:16]
    db.executemany(SET_META, sorted(values.items()))
    return values["generation"]


def made_by() -> dict[str, str]:
    """Return the rows of `meta` about the program that made an index."""
    return {
        "schema_version": SCHEMA_VERSION,
        "built_by": f"orchestr8-sqlite {__version__}",
        "sqlite_version": sqlite3.sqlite_version,
    }


def contents_of(db: sqlite3.Connection) -> Iterator[Content]:
    """Yield the files and lists that an index was made from, with the digest of each, sorted."""
    lists = sorted(lists_of(dict(db.execute("SELECT key, value FROM meta"))))
    yield from merge((((root, path), sha256) for root, path, sha256 in db.execute(CONTENTS)), lists)


def differing(some: Iterable[Content], others: Iterable[Content]) -> Iterator[Content]:
    """Yield the items that only one of two sorted series contains."""
    for content, found in groupby(merge(some, others)):
        if len(list(found)) == 1:
            yield content


def lists_of(meta: Mapping[str, str]) -> set[Content]:
    """Return the query and synonym lists that `meta` records, with the digest of each."""
    roots, queries, synonyms = (json.loads(meta[name]) for name in ("roots", "queries", "synonyms"))
    listed = ((QUERIES, queries), (SYNONYMS, synonyms))
    return {((root, file), one) for file, digests in listed for root, one in zip(roots, digests, strict=True) if one}


def places_of(changed: Iterable[Content]) -> tuple[Key, ...]:
    """Return the files in *changed*, sorted, each once."""
    return tuple(sorted({key for key, _ in changed}))


def describe(catalog: Catalog) -> Described:
    """Return what an index records about itself."""
    outcomes, diagnostics = json.loads(catalog.meta[OUTCOMES]), tuple(diagnostics_of(catalog.db))
    return Described(catalog.meta, outcomes, diagnostics, reviewed(catalog.db), catalog.path.stat().st_size)


def _policy_of(of: Origin, job: Job) -> tuple[object, ...]:
    """Return what shapes the rows of a source, except its files."""
    return of.name, of.namespace, of.include, of.exclude, of.override, of.deny if job.leave_out else None


def denied_levels(roots: Iterable[Root], level: str | None) -> dict[str, str]:
    """Return by root the level of findings that is denied there: the stricter of *level* and that of a source."""
    named = {root.label: [one for one in (level, root.origin and root.origin.deny) if one] for root in roots}
    return {label: max(levels, key=LEVELS.index) for label, levels in named.items() if levels}


def overriding(roots: Iterable[Root]) -> frozenset[str]:
    """Return the roots that may take a name that another file has."""
    return frozenset(root.label for root in roots if root.origin and root.origin.override)


def refuse(job: Job, db: sqlite3.Connection) -> None:
    """Raise RefusedLibrary if the index has diagnostics that the job does not allow."""
    if job.strict:
        _refuse_problems(db, job.wanted)
    if job.levels and not job.leave_out:
        _refuse_findings(db, job.levels)


def _refuse_findings(db: sqlite3.Connection, levels: Mapping[str, str]) -> None:
    findings = list(denied(diagnostics_of(db), levels))
    if findings:
        level = max((levels[one.root] for one in findings), key=LEVELS.index)
        found = counted(len(findings), f"finding of level {level} or worse", f"findings of level {level} or worse")
        sentence = f"Not built: {found}; mend them, or build without --deny once they are judged."
        raise RefusedLibrary(sentence, findings)


def _refuse_problems(db: sqlite3.Connection, wanted: Wanted) -> None:
    """Raise RefusedLibrary with the *wanted* warnings and errors of the index, if there are any."""
    problems = [d for d in diagnostics_of(db) if d.severity is not Severity.INFO and wanted(d)]
    if problems:
        found = counted(len(problems), "problem")
        raise RefusedLibrary(f"Not built: {found}, and strict mode allows none.", problems)


def diagnostics_of(db: sqlite3.Connection) -> list[Diagnostic]:
    """Return the diagnostics of an index that no review accepts, in the order of root, path and line."""
    return [Diagnostic(SEVERITIES[severity], *rest) for severity, *rest in db.execute(DIAGNOSTICS)]
