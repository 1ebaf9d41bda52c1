"""Folders → a checked index database, put in place in one step.

A build writes to a temporary file beside the target, checks it and renames it over the target. The file is either a new
database or a copy of the old index in which only the rows of changed files are replaced. If anything fails before the
rename, the old index stays as it was.
"""

import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orchestr8_sqlite.builder.changes import good_name
from orchestr8_sqlite.builder.checks import check_index
from orchestr8_sqlite.builder.copies import SLOW, find_similar
from orchestr8_sqlite.builder.job import (
    CONTENTS,
    Built,
    Described,
    How,
    Job,
    Laps,
    Wanted,
    all_wanted,
    contents_of,
    denied_levels,
    describe,
    diagnostics_of,
    differing,
    overriding,
    places_of,
    refuse,
    write_settings,
)
from orchestr8_sqlite.builder.precomputed import settle_rows
from orchestr8_sqlite.builder.references import settle_library
from orchestr8_sqlite.builder.reviews import Reviewed, reviewed, write_reviews
from orchestr8_sqlite.builder.target import Moment, behind_links, check_target, date, open_for_writing, replacing
from orchestr8_sqlite.builder.update import Anew, bring_up_to_date
from orchestr8_sqlite.builder.writer import IndexWriter, create_schema, prepare, write_diagnostics, write_synonyms
from orchestr8_sqlite.errors import BuildError, CatalogError, LibraryError
from orchestr8_sqlite.index.catalog import Catalog, check_sqlite
from orchestr8_sqlite.index.leftovers import remove_leftovers
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import BATCH, Key, Prepare, Task, nothing, read_files
from orchestr8_sqlite.library.roots import Origin, Progress, Root, open_roots, own_synonyms
from orchestr8_sqlite.library.trust.findings import denied
from orchestr8_sqlite.library.verdicts import ALL, Policy, Verdict, judge
from orchestr8_sqlite.library.walk import OwnCategories
from orchestr8_sqlite.model.records import Diagnostic, Review
from orchestr8_sqlite.processes import rare_collections
from orchestr8_sqlite.settings import latest_file_time, read_limits, today
from orchestr8_sqlite.text.wordlists import OWN as SYNONYMS
from orchestr8_sqlite.text.wordlists import read_synonyms

if TYPE_CHECKING:
    from orchestr8_sqlite.evaluation.overlaps import Lost


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did; `size` is in bytes, `seconds` is wall time, and `stages` has it by stage of a full build.

    `changed` names the files whose content differs from the previous index: all files, if there was none.
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
    reviewed: Reviewed
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
    own: OwnCategories = (),
    lists: Sequence[tuple[str, str]] = (),
    pinned: Sequence[str] = (),
    wanted: Wanted = all_wanted,
    reviews: tuple[Review, ...] = (),
    origins: Sequence[Origin] = (),
) -> BuildReport:
    """Build the index of the library in *folders* at *target* and return what was done.

    If *target* is an index of the same folders and few files have changed, only those are read.

    Args:
        category: Category of files in plain folders that do not state one.
        strict: Refuse to build if the library has warnings or errors.
        deny: Refuse to build if the library has findings of this level or worse: high, medium or low.
        leave_out: Leave out files with such findings instead of refusing.
        full: Read and write everything again.
        keep: If a file is refused, keep its previous version in the index, with a warning.
        settle: After a change, also write the slow parts; otherwise `settle_index` does so later.
        progress: Called with (files done, total files) during a full read.
        own: The library's own categories.
        lists: Names and texts of the library's synonym lists that are not in its roots.
        pinned: Paths of the skills that listings begin with, the first one first.
        wanted: Selects the diagnostics that are reported and that *strict* refuses.
        reviews: Diagnostics that are accepted: they are not reported, and neither refused nor left out.
        origins: Sources that are read beside the folders.

    Raises:
        LibraryError: A root cannot be read.
        BuildError: The target cannot be written or replaced, the library is refused, or a check failed.
    """
    started = time.perf_counter()
    check_sqlite()
    check_target(target)
    target = behind_links(target)
    remove_leftovers(target)
    began = Moment(time.time_ns(), time.monotonic_ns())
    job = Job(
        folders=folders,
        roots=open_roots(folders, read_limits(), own, origins),
        category=category,
        latest=latest_file_time(),
        began=began,
        strict=strict,
        deny=deny,
        leave_out=leave_out,
        keep=keep,
        settle=settle,
        progress=progress,
        own=own,
        lists=lists,
        pinned=pinned,
        wanted=wanted,
        reviews=reviews,
        day=today(),
    )
    built = _build(job, target, full=full)
    try:
        return _report(target, built, started, wanted)
    except sqlite3.Error as problem:
        raise BuildError(
            f"The index {target} is in place, but cannot be read ({problem}); check the disk, "
            "then build again with --full."
        ) from problem


class Lint(NamedTuple):
    """What is wrong with a library and not accepted, and how many fragments and prompts it has.

    The diagnostics are in the order of files; overlaps come last, the worst first.
    `digests` holds the digest of each file. `is_denied` says whether there are findings for which a build is refused.
    """

    diagnostics: tuple[Diagnostic, ...]
    reviewed: Reviewed
    digests: Mapping[Key, str]
    is_denied: bool
    fragments: int
    prompts: int


def lint_library(
    folders: Sequence[Path],
    *,
    category: str | None = None,
    progress: Progress | None = None,
    own: OwnCategories = (),
    lists: Sequence[tuple[str, str]] = (),
    pinned: Sequence[str] = (),
    deny: str | None = None,
    similar: bool = False,
    overlap: bool = False,
    reviews: Sequence[Review] = (),
    origins: Sequence[Origin] = (),
) -> Lint:
    """Return what a build would report about the library in *folders*; nothing is written.

    This is an in-memory build without the ranking rows. A problem that would end a build is one more error here.

    Args:
        deny: Level of findings for which a build is refused.
        similar: Also compare all texts, names and descriptions with each other, which is too slow for a build.
        overlap: Then also ask an index of the library all scenarios, each while its line is hidden: some ms for each.
        reviews: Diagnostics that are accepted.
        origins: Sources that are read beside the folders.

    Raises:
        LibraryError: A root cannot be read.
    """
    roots = open_roots(folders, read_limits(), own, origins)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        create_schema(db)
        writer = IndexWriter(db, is_ranked=False)
        for verdicts in _verdicts(
            roots,
            category,
            latest_file_time(),
            writer,
            nothing,
            policy=Policy(overriding=overriding(roots)),
            progress=progress,
        ):
            writer.write(verdicts)
        settle_library(db, roots, pinned)
        fragments, prompts = db.execute("SELECT (SELECT count(*) FROM fragment), count(*) FROM prompt").fetchone()
        overlaps: list[Diagnostic] = []
        if similar:
            from orchestr8_sqlite.evaluation.overlaps import find_overlaps  # noqa: PLC0415 - no build needs it

            lost = _lost_scenarios(folders, category, own, lists, origins) if overlap else {}
            overlaps += find_overlaps(db, lost)
        write_diagnostics(db, [*_check_synonyms(roots, lists), *(find_similar(db) if similar else ()), *overlaps])
        write_reviews(db, reviews, today(), () if similar else SLOW)
        digests: dict[Key, str] = {(root, path): sha256 for root, path, sha256 in db.execute(CONTENTS)}
        place = {(one.root, one.path, one.message): number for number, one in enumerate(overlaps)}
        diagnostics = tuple(
            sorted(diagnostics_of(db), key=lambda one: place.get((one.root, one.path, one.message), -1))
        )
        is_denied = any(denied(diagnostics, denied_levels(roots, deny)))
        return Lint(diagnostics, reviewed(db), digests, is_denied, fragments, prompts)


def _lost_scenarios(
    folders: Sequence[Path],
    category: str | None,
    own: OwnCategories,
    lists: Sequence[tuple[str, str]],
    origins: Sequence[Origin],
) -> "Lost":
    from orchestr8_sqlite.evaluation.overlaps import find_lost_scenarios  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index.db"
        build_index(folders, index, category=category, own=own, lists=lists, settle=False, origins=origins)
        with Catalog.open(index) as catalog:
            return find_lost_scenarios(catalog)


def _check_synonyms(roots: Sequence[Root], lists: Sequence[tuple[str, str]]) -> Iterator[Diagnostic]:
    """Yield an error for each synonym list that cannot be read; a build would end there."""
    for root in roots:
        try:
            read_synonyms(own_synonyms([root]))
        except LibraryError as problem:
            notes = Notes(root.label, SYNONYMS)
            line, colon, what = str(problem).removeprefix(f"{root.label}/{SYNONYMS}").lstrip(": ").partition(": ")
            number = int(line) if colon and line.isdecimal() else None
            what = what if number else f"{line}{colon}{what}"
            notes.error("synonyms-form", what.rstrip("."), "correct it; a build stops there", line=number)
            yield from notes.diagnostics
    read_synonyms(lists)


class _SpoiltError(Exception):
    """A file was complete when the update read it, but no longer when the full build read it again."""


def _build(job: Job, target: Path, *, full: bool) -> Built:
    """Return how the index was made. If a file is being saved meanwhile, update again: that keeps its last version."""
    while True:
        built = Anew.OVER_NOTHING if full else bring_up_to_date(job, target)
        if isinstance(built, Built):
            return built
        with suppress(_SpoiltError):
            return _build_anew(job, target, keep=job.keep and built is Anew.OVER_SOUND)


def _build_anew(job: Job, target: Path, *, keep: bool) -> Built:
    """Write a new index, check it, and put it in place of *target*.

    Raises:
        _SpoiltError: *keep* is set, and a last good version would be lost that an update keeps.
    """
    laps, bad = Laps(), list[Verdict]()
    with rare_collections(), replacing(target) as path, closing(open_for_writing(path)) as db:
        create_schema(db)
        db.execute("BEGIN")
        write_synonyms(db, job.read_synonyms())
        writer = IndexWriter(db)
        for verdicts in _verdicts(
            job.roots, job.category, job.latest, writer, prepare, policy=job.policy, progress=job.progress
        ):
            writer.write(_noting(bad, verdicts))
        if keep:
            _check_kept(bad, writer, target)
        laps.end("files")
        writer.close()
        laps.end("postings")
        settle_library(db, job.roots, job.pinned)
        write_reviews(db, job.reviews, job.day, SLOW)
        refuse(job, db)
        write_settings(job, db)
        laps.end("references")
        settle_rows(db, path)
        laps.end("answers and calibration")
        check_index(db, path)
        laps.end("checks")
        changed = _changed(db, target)
        date(path, job.began)
    laps.end("sync and rename")
    return Built(How.WHOLE, changed, laps.seconds)


def _noting(bad: list[Verdict], verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield *verdicts*; append to *bad* those of files that have no record or are not finished."""
    for verdict in verdicts:
        if verdict.record is None or not verdict.finished:
            bad.append(verdict)
        yield verdict


def _check_kept(bad: Iterable[Verdict], writer: IndexWriter, target: Path) -> None:
    """Raise _SpoiltError if *target* has a version of a *bad* file and no other file has taken its name."""
    with suppress(CatalogError, sqlite3.Error), Catalog.open(target) as catalog:
        for verdict in bad:
            name = good_name(catalog.db, verdict)
            place = f"{verdict.source.root}/{verdict.source.path}"
            if name is not None and writer.place_of(name) in (None, place):
                raise _SpoiltError


def _verdicts(
    roots: Sequence[Root],
    category: str | None,
    latest: int | None,
    writer: IndexWriter,
    prepare: Prepare,
    *,
    policy: Policy = ALL,
    progress: Progress | None = None,
) -> Iterable[Iterable[Verdict]]:
    """Yield the files of *roots* in batches; each batch is judged once the one before it is written."""
    tasks = [task for root in roots for task in root.tasks(category, latest)]
    total, done = sum(map(_count_files, tasks)), 0
    outcomes = read_files(tasks, prepare)
    for start in range(0, len(tasks), BATCH):
        batch = tasks[start : start + BATCH]
        read = list(islice(outcomes, len(batch)))
        yield (judge(task, outcome, writer.holder, policy) for task, outcome in zip(batch, read, strict=True))
        if progress:
            for _ in range(sum(map(_count_files, batch))):
                done += 1
                progress(done, total)


def _count_files(task: Task) -> int:
    """Return how many files *task* reads, its own included."""
    return 1 + len(task.bundle.own) + len(task.bundle.unreadable)


def _changed(db: sqlite3.Connection, target: Path) -> tuple[Key, ...]:
    """Return the files whose content differs from the index at *target*: all files, if it cannot be read."""
    with suppress(CatalogError, sqlite3.Error, LookupError, ValueError), Catalog.open(target) as catalog:
        return places_of(differing(contents_of(db), contents_of(catalog.db)))
    return places_of(contents_of(db))


def _describe(target: Path) -> Described:
    with Catalog.open(target) as catalog:
        return describe(catalog)


def _report(target: Path, built: Built, started: float, wanted: Wanted) -> BuildReport:
    meta, outcomes, diagnostics, reviewed_, size = built.described or _describe(target)
    totals = {name: int(meta[name]) for name in ("fragments", "scenarios", "keywords", "prompts")}
    return BuildReport(
        target=target,
        how=built.how,
        changed=built.changed,
        files=sum(count for outcome, count in outcomes.items() if outcome != "skill_file"),
        rejected=outcomes.get("rejected", 0),
        ignored=outcomes.get("ignored", 0),
        diagnostics=tuple(filter(wanted, diagnostics)),
        reviewed=reviewed_,
        generation=meta["generation"],
        size=size,
        seconds=time.perf_counter() - started,
        stages=built.stages,
        **totals,
    )
