"""Folders → a checked index database, put in place in one step.

A build writes to a temporary file beside the target, checks it, and renames it over the target: a new database, or a
copy of the one that is there with the rows of changed files written anew. Whatever goes wrong before the rename leaves
the old index as it was.
"""

import itertools
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.catalog import Catalog, check_sqlite
from orchestr8_sqlite.content import Diagnostic, Severity
from orchestr8_sqlite.errors import BuildError, CatalogError
from orchestr8_sqlite.evidence_rows import replace_synonyms, write_synonyms
from orchestr8_sqlite.finishing import SET_META, UNSETTLED, leave_unsettled, settle_rows
from orchestr8_sqlite.fragment_rows import prepare
from orchestr8_sqlite.integrity import check_counts, check_index, check_links
from orchestr8_sqlite.library.comparison import DOUBT_NS, Change, KnownFile, compare_files
from orchestr8_sqlite.library.parsing import Key, read_files
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.reader import Progress
from orchestr8_sqlite.library.roots import Root, digest_file, digest_files, open_roots
from orchestr8_sqlite.library.verdicts import judge
from orchestr8_sqlite.resolution import settle_library
from orchestr8_sqlite.settings import latest_file_time
from orchestr8_sqlite.target import check_target, renew_time, replacing
from orchestr8_sqlite.update import Follower, Following
from orchestr8_sqlite.wordlists import OWN as SYNONYMS
from orchestr8_sqlite.wordlists import read_synonyms, shipped_synonyms
from orchestr8_sqlite.writer import IndexWriter, create_schema, made_by, write_meta

MOST_CHANGED = 0.25
"""Share of the files above which writing everything anew is no slower."""

FEW_FILES = 8
"""Files that may change however small the library is."""

MOST_FREE = 0.25
"""Share of an index that may be left free by changes before it is written anew."""

FAST_WRITES = """
PRAGMA page_size = 4096;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
"""
"""Safe here: the file is synced as a whole before it gets its name."""

KNOWN_FILES = "SELECT root, path, mtime_ns, size, sha256 FROM source"
CONTENTS = "SELECT root, path, sha256 FROM source"
OUTCOMES = "SELECT outcome, count(*) FROM source GROUP BY outcome"
SAID = "SELECT severity, code, root, path, line, field, message, fix FROM diagnostic"
SAID_IN_ORDER = f"{SAID} ORDER BY root, path, coalesce(line, 0), code, message"
PLACES_SAID = f"{SAID} WHERE path = ''"
SEVERITIES = {severity.value: severity for severity in Severity}


class How(StrEnum):
    """How a build made its index: from nothing, from the one that was there, or not at all as nothing has changed."""

    WHOLE = "whole"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did; `size` in bytes, `seconds` of wall time.

    `changed` are the files that are not what they were in the index before, or all where there was none.
    """

    target: Path
    how: How
    changed: tuple[Key, ...]
    files: int
    fragments: int
    scenarios: int
    keywords: int
    prompts: int
    rejected: int
    ignored: int
    diagnostics: tuple[Diagnostic, ...]
    generation: str
    size: int
    seconds: float


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
    keep: bool
    settle: bool
    progress: Progress | None

    @cached_property
    def settings(self) -> dict[str, str]:
        """Return what shapes the index beside its files, for `meta`."""
        return {
            "category": self.category or "",
            "roots": json.dumps([root.label for root in self.roots], ensure_ascii=False),
            "shipped": json.dumps([digest_file(path) for path in shipped_synonyms()]),
            "synonyms": json.dumps([digest_file(folder / SYNONYMS) for folder in self.folders]),
            "queries": json.dumps([digest_file(folder / QUERIES) for folder in self.folders]),
        }

    @cached_property
    def digest(self) -> str:
        """Return what tells the files from others."""
        return digest_files(self.roots, self.latest)

    def follower(self, db: sqlite3.Connection) -> Follower:
        """Return what brings the index *db* up to date."""
        return Follower(db, self.roots, self.category, self.latest, keep=self.keep)


class Built(NamedTuple):
    """How an index was made, and the files that are not what they were before."""

    how: How
    changed: tuple[Key, ...] = ()


def build_index(
    folders: Sequence[Path],
    target: Path,
    *,
    category: str | None = None,
    strict: bool = False,
    full: bool = False,
    keep: bool = False,
    settle: bool = True,
    progress: Progress | None = None,
) -> BuildReport:
    """Build the index of the library in *folders* at *target* and return what was done.

    Where *target* is an index of the same folders, only the files that have changed are read, if they are not too many.

    Args:
        category: For files of plain folders that do not say theirs.
        strict: Refuse to build where the library has warnings or errors.
        full: Read and write everything anew.
        keep: Where a file is refused, let its version before that stay in the index, with a warning.
        settle: Write what takes long after a change; else `settle_index` does so later.
        progress: Called with (files done, files in all) while everything is read.

    Raises:
        LibraryError: A root cannot be read.
        BuildError: The target cannot be written or replaced, the library is refused, or a check failed.
    """
    started = time.perf_counter()
    check_sqlite()
    check_target(target)
    job = Job(
        folders, open_roots(folders), category, latest_file_time(), time.time_ns(), strict, keep, settle, progress
    )
    built = (None if full else _bring_up_to_date(job, target)) or _build_anew(job, target)
    return _report(target, built, started)


def settle_index(target: Path) -> None:
    """Write what a build with `settle=False` has left, if anything, to the index at *target*.

    Raises:
        BuildError: The index cannot be written, or contradicts itself.
    """
    with Catalog.open(target) as catalog:
        if UNSETTLED not in catalog.meta:
            return
        with replacing(target) as temporary:
            shutil.copy2(target, temporary)
            if not catalog.is_current():
                temporary.unlink()  # another program has built it meanwhile
                return
            with closing(_open(temporary)) as db:
                db.execute("BEGIN")
                settle_rows(db, temporary)
                check_links(db)
            shutil.copystat(target, temporary)


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(FAST_WRITES)
    return db


def _build_anew(job: Job, target: Path) -> Built:
    """Write a new index, check it, and put it in place of *target*."""
    with replacing(target) as path, closing(_open(path)) as db:
        create_schema(db)
        db.execute("BEGIN")
        _read_all(job, IndexWriter(db))
        settle_library(db, job.roots)
        if job.strict:
            refuse_problems(db)
        write_synonyms(db, read_synonyms(job.folders))
        _write_meta(job, db)
        settle_rows(db, path)
        check_index(Catalog(db, path, identity=(0, 0, 0)))
        changed = _contents(db) ^ _contents_at(target)
        os.utime(path, ns=(job.began, job.began))
    return Built(How.WHOLE, _places(changed))


def _contents_at(target: Path) -> set[tuple[Key, str]]:
    """Return the contents that the index at *target* was made from, none where there is no such index."""
    with suppress(CatalogError, sqlite3.Error, LookupError, ValueError), Catalog.open(target) as catalog:
        return _contents(catalog.db)
    return set()


def _contents(db: sqlite3.Connection) -> set[tuple[Key, str]]:
    """Return each file that an index was made from, lists of the roots included, with the digest of its content."""
    contents = {((root, path), sha256) for root, path, sha256 in db.execute(CONTENTS)}
    return contents | _lists(dict(db.execute("SELECT key, value FROM meta")))


def _lists(meta: Mapping[str, str]) -> set[tuple[Key, str]]:
    """Return the lists of the roots that `meta` knows, with the digests of their contents."""
    roots, queries, synonyms = (json.loads(meta[name]) for name in ("roots", "queries", "synonyms"))
    listed = ((QUERIES, queries), (SYNONYMS, synonyms))
    return {((root, file), one) for file, digests in listed for root, one in zip(roots, digests, strict=True) if one}


def _places(changed: Iterable[tuple[Key, str]]) -> tuple[Key, ...]:
    return tuple(sorted({key for key, _ in changed}))


def _read_all(job: Job, writer: IndexWriter) -> None:
    tasks, same = itertools.tee(task for root in job.roots for task in root.tasks(job.category, job.latest))
    done, total = 0, sum(len(root.files.paths) for root in job.roots)
    for task, outcome in zip(tasks, read_files(same, prepare), strict=True):
        writer.take(judge(task, outcome, writer.holder))
        done += 1 + len(task.bundle.own) + len(task.bundle.unreadable)
        if job.progress:
            job.progress(done, total)
    writer.close()


def _write_meta(job: Job, db: sqlite3.Connection) -> None:
    write_meta(db, job.settings)
    db.execute(SET_META, ("files", job.digest))


def _bring_up_to_date(job: Job, target: Path) -> Built | None:
    """Bring the index at *target* up to date; None where there is none, or everything is to be written anew."""
    try:
        with Catalog.open(target) as catalog:
            wanted = {**made_by(), **{name: job.settings[name] for name in ("category", "roots", "shipped")}}
            if wanted.items() <= catalog.meta.items() and not _is_fragmented(catalog.db):
                return _follow(job, catalog, target.stat().st_mtime_ns)
    except BuildError as problem:
        if not isinstance(problem.__cause__, sqlite3.Error):
            raise
    except (CatalogError, sqlite3.Error):  # damaged
        pass
    return None


def _follow(job: Job, catalog: Catalog, read_ns: int) -> Built | None:
    """Bring an index of the same folders up to date; None where everything is to be written anew.

    Args:
        read_ns: When its files were looked at, in ns since 1970.
    """
    if _is_untouched(job, catalog, read_ns):
        return _leave(job, catalog)
    known: dict[Key, KnownFile] = {row[:2]: row[2:] for row in catalog.db.execute(KNOWN_FILES)}
    change = compare_files(job.roots, known, read_ns, job.latest)
    is_small = len(change.read | change.gone) <= max(FEW_FILES, MOST_CHANGED * len(known))
    if not (is_small or job.keep):
        return None
    following = job.follower(catalog.db).judge(change)
    if _is_nothing(job, catalog, change, following):
        if not following.kept:
            renew_time(catalog.path, catalog.identity, job.began)
        return _leave(job, catalog)
    return _write_changes(job, catalog, change, following, known) if is_small or following.kept else None


def _is_untouched(job: Job, catalog: Catalog, read_ns: int) -> bool:
    """Tell whether no file and no setting is other than when the index was built, without a look at any content."""
    last = max((max(root.files.changed, default=0) for root in job.roots), default=0)
    wanted = {**job.settings, "files": job.digest}
    return last < read_ns - DOUBT_NS and wanted.items() <= catalog.meta.items()


def _is_nothing(job: Job, catalog: Catalog, change: Change, following: Following) -> bool:
    """Tell whether the index says all that there is to say already."""
    if following.verdicts or following.stale or change.times or not job.settings.items() <= catalog.meta.items():
        return False
    said = [Diagnostic(SEVERITIES[severity], *rest) for severity, *rest in catalog.db.execute(PLACES_SAID)]
    saying = [diagnostic for root in job.roots for diagnostic in root.diagnostics]
    return sorted(said, key=Diagnostic.order) == sorted(saying, key=Diagnostic.order) and job.follower(
        catalog.db
    ).is_said(following.kept)


def _is_fragmented(db: sqlite3.Connection) -> bool:
    free, pages = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    return bool(free > MOST_FREE * pages)


def _leave(job: Job, catalog: Catalog) -> Built:
    """Leave the index as it is, but for what an earlier build has left for later."""
    if job.strict:
        refuse_problems(catalog.db)
    if job.settle:
        settle_index(catalog.path)
    return Built(How.UNCHANGED)


def _write_changes(
    job: Job, catalog: Catalog, change: Change, following: Following, known: Mapping[Key, KnownFile]
) -> Built | None:
    """Write a copy of the index with the changes and put it in place; None where all must be written anew."""
    target = catalog.path
    with replacing(target) as path:
        shutil.copyfile(target, path)
        if not catalog.is_current():  # another program has built it meanwhile: look again
            path.unlink()
            return _bring_up_to_date(job, target)
        with closing(_open(path)) as db:
            db.execute("BEGIN")
            written = job.follower(db).write(following, change.times)
            if job.strict:
                refuse_problems(db)
            if job.settings["synonyms"] != catalog.meta["synonyms"]:
                replace_synonyms(db, read_synonyms(job.folders))
            _write_meta(job, db)
            leave_unsettled(db, written)
            if job.settle:
                settle_rows(db, path)
            else:
                db.execute("COMMIT")
            check_counts(db)
        os.utime(path, ns=(job.began, job.began))
    verdicts = (*following.verdicts, *following.kept)
    now = {(source.root, source.path): source.sha256 for v in verdicts for source in (v.source, *v.bundled)}
    before = {key: known[key][2] for key in (now.keys() | following.stale) & known.keys()}
    changed = (now.items() ^ before.items()) | (_lists(job.settings) ^ _lists(catalog.meta))
    return Built(How.UPDATED, _places(changed))


def refuse_problems(db: sqlite3.Connection) -> None:
    """Raise BuildError with all warnings and errors that an index says of its library, where there are any."""
    problems = [d for d in _diagnostics(db) if d.severity is not Severity.INFO]
    if problems:
        lines = "\n".join(f"{d.place}: {d.severity.value}: {d.message} [{d.code}]; {d.fix}" for d in problems)
        raise BuildError(f"{lines}\nNot built: {len(problems)} problems, and strict mode allows none.")


def _diagnostics(db: sqlite3.Connection) -> list[Diagnostic]:
    return [Diagnostic(SEVERITIES[severity], *rest) for severity, *rest in db.execute(SAID_IN_ORDER)]


def _report(target: Path, built: Built, started: float) -> BuildReport:
    with Catalog.open(target) as catalog:
        outcomes = dict(catalog.db.execute(OUTCOMES))
        totals = {name: int(catalog.meta[name]) for name in ("fragments", "scenarios", "keywords", "prompts")}
        return BuildReport(
            target=target,
            how=built.how,
            changed=built.changed,
            files=sum(count for outcome, count in outcomes.items() if outcome != "skill_file"),
            rejected=outcomes.get("rejected", 0),
            ignored=outcomes.get("ignored", 0),
            diagnostics=tuple(_diagnostics(catalog.db)),
            generation=catalog.generation,
            size=target.stat().st_size,
            seconds=time.perf_counter() - started,
            **totals,
        )
