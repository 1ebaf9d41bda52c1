"""Folders → a checked index database, put in place in one step.

A build writes to a temporary file beside the target, checks it, and renames it over the target: a new database, or a
copy of the one that is there with the rows of changed files written anew. Whatever goes wrong before the rename leaves
the old index as it was.
"""

import itertools
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestr8_sqlite.catalog import Catalog, check_sqlite
from orchestr8_sqlite.checksums import remember_written
from orchestr8_sqlite.content import Diagnostic
from orchestr8_sqlite.errors import BuildError, CatalogError
from orchestr8_sqlite.evidence_rows import begin_synonyms
from orchestr8_sqlite.finishing import settle_rows
from orchestr8_sqlite.fragment_rows import prepare_batch
from orchestr8_sqlite.integrity import check_index
from orchestr8_sqlite.jobs import (
    Built,
    Described,
    How,
    Job,
    Laps,
    contents_of,
    describe,
    differing,
    open_for_writing,
    places_of,
    refuse,
    write_settings,
)
from orchestr8_sqlite.keyword_file import keywords_aside
from orchestr8_sqlite.leftovers import remove_leftovers
from orchestr8_sqlite.library.parsing import FEWEST, Key, read_batches
from orchestr8_sqlite.library.reader import Progress
from orchestr8_sqlite.library.roots import open_roots
from orchestr8_sqlite.library.verdicts import judge
from orchestr8_sqlite.renewal import bring_up_to_date
from orchestr8_sqlite.resolution import settle_library
from orchestr8_sqlite.settings import latest_file_time, read_limits
from orchestr8_sqlite.target import check_target, replacing
from orchestr8_sqlite.writer import IndexWriter, create_schema


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did; `size` in bytes, `seconds` of wall time, also of each stage of a build from nothing.

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
    stages: Mapping[str, float]


def build_index(
    folders: Sequence[Path],
    target: Path,
    *,
    category: str | None = None,
    strict: bool = False,
    deny: str | None = None,
    leave_out: bool = False,
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
        deny: Refuse to build where findings of this level or worse are in it: high, medium or low.
        leave_out: Leave files with such findings out instead.
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
    remove_leftovers(target)
    began = time.time_ns()
    job = Job(
        folders,
        open_roots(folders, read_limits()),
        category,
        latest_file_time(),
        began,
        strict,
        deny,
        leave_out,
        keep,
        settle,
        progress,
    )
    built = (None if full else bring_up_to_date(job, target)) or _build_anew(job, target)
    if built.how is not How.UNCHANGED:
        remember_written(target, began)
    try:
        return _report(target, built, started)
    except sqlite3.Error as problem:
        raise BuildError(
            f"The index {target} is in place, but cannot be read ({problem}); check the disk, "
            "then build again with --full."
        ) from problem


def _build_anew(job: Job, target: Path) -> Built:
    """Write a new index, check it, and put it in place of *target*."""
    laps = Laps()
    with replacing(target) as path, closing(open_for_writing(path)) as db:
        create_schema(db)
        begin_synonyms(db, job.settings, job.folders)
        db.execute("BEGIN")
        with keywords_aside(db, path, apart=_count_files(job) >= FEWEST) as keywords:
            writer = IndexWriter(db, keywords)
            _read_all(job, writer)
            laps.end("files")
            writer.close()
        laps.end("postings")
        settle_library(db, job.roots)
        refuse(job, db)
        write_settings(job, db)
        laps.end("references")
        settle_rows(db, path, partial(check_index, db, path))
        laps.end("answers, calibration and checks")
        changed = _changed(db, target)
        os.utime(path, ns=(job.began, job.began))
    laps.end("sync and rename")
    return Built(How.WHOLE, changed, laps.seconds)


def _changed(db: sqlite3.Connection, target: Path) -> tuple[Key, ...]:
    """Return the files whose content is not that in the index at *target*; all where there is no such index."""
    with suppress(CatalogError, sqlite3.Error, LookupError, ValueError), Catalog.open(target) as catalog:
        return places_of(differing(contents_of(db), contents_of(catalog.db)))
    return places_of(contents_of(db))


def _read_all(job: Job, writer: IndexWriter) -> None:
    tasks, same = itertools.tee(task for root in job.roots for task in root.tasks(job.category, job.latest))
    done, total = 0, _count_files(job)
    for batch in read_batches(same, prepare_batch):
        read = list(zip(itertools.islice(tasks, len(batch.outcomes)), batch.outcomes, strict=True))
        writer.write((judge(task, outcome, writer.holder, job.withheld) for task, outcome in read), batch.prepared)
        for task, _ in read:
            for _ in (task, *task.bundle.own, *task.bundle.unreadable):
                done += 1
                if job.progress:
                    job.progress(done, total)


def _count_files(job: Job) -> int:
    return sum(len(root.files.paths) for root in job.roots)


def _describe(target: Path) -> Described:
    with Catalog.open(target) as catalog:
        return describe(catalog)


def _report(target: Path, built: Built, started: float) -> BuildReport:
    meta, outcomes, diagnostics, size = built.described or _describe(target)
    totals = {name: int(meta[name]) for name in ("fragments", "scenarios", "keywords", "prompts")}
    return BuildReport(
        target=target,
        how=built.how,
        changed=built.changed,
        files=sum(count for outcome, count in outcomes.items() if outcome != "skill_file"),
        rejected=outcomes.get("rejected", 0),
        ignored=outcomes.get("ignored", 0),
        diagnostics=diagnostics,
        generation=meta["generation"],
        size=size,
        seconds=time.perf_counter() - started,
        stages=built.stages,
        **totals,
    )
