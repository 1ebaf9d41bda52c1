"""An existing index → an up-to-date one: a copy in which the rows of changed files are replaced."""

import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path

from orchestr8_sqlite.builder.changes import Follower, Following, files_of
from orchestr8_sqlite.builder.checks import check_counts, check_links
from orchestr8_sqlite.builder.compare import Change, KnownFile, compare_files, trusted_until
from orchestr8_sqlite.builder.copies import SLOW
from orchestr8_sqlite.builder.job import (
    CONTENT_DIGEST,
    OUTCOMES,
    PINS,
    Built,
    Described,
    How,
    Job,
    describe,
    diagnostics_of,
    lists_of,
    made_by,
    places_of,
    refuse,
    write_settings,
)
from orchestr8_sqlite.builder.precomputed import UNSETTLED, drop_answers, settle_rows
from orchestr8_sqlite.builder.references import NOT_OFFERED, settle_library
from orchestr8_sqlite.builder.reviews import write_reviews
from orchestr8_sqlite.builder.target import (
    Draft,
    behind_links,
    date,
    drafting,
    is_of_the_disk,
    open_for_writing,
    renew_time,
)
from orchestr8_sqlite.builder.writer import (
    SET_TIME,
    IndexWriter,
    OtherLengths,
    write_diagnostics,
    write_synonyms,
)
from orchestr8_sqlite.errors import BuildError, CatalogError, CheckError
from orchestr8_sqlite.index.catalog import REVIEWS, Catalog
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.model.records import Diagnostic
from orchestr8_sqlite.ranking.evidence import read_typical_lengths

logger = logging.getLogger(__name__)

MOST_CHANGED = 0.25
"""Share of changed files above which a full build is no slower than an update."""

FEW_FILES = 8
"""Number of changed files that an update accepts however small the library is."""

MOST_FREE = 0.25
"""Share of free pages in an index above which the whole index is written again."""

KNOWN_FILES = "SELECT root, path, mtime_ns, iif(sha256 = '', -1, size) FROM source"
UNREADABLE = "SELECT DISTINCT root, path FROM diagnostic WHERE code = 'unreadable' AND path <> ''"
DIGEST = "SELECT sha256 FROM source WHERE root = ? AND path = ?"


class Anew(Enum):
    """Why everything is written again: no index could be updated, or there is a sound one, whose versions may stay."""

    OVER_NOTHING = auto()
    OVER_SOUND = auto()


class _OvertakenError(Exception):
    """Another program has replaced the index meanwhile."""


def bring_up_to_date(job: Job, target: Path) -> Built | Anew:
    """Update the index at *target* and return how; return Anew if there is none or everything must be written again."""
    try:
        with Catalog.open(target) as catalog:
            shaping: tuple[str, ...] = (
                "category",
                "categories",
                "lists",
                "limits",
                "roots",
                "code",
                "denied",
                "sources",
            )
            if job.policy.denied:  # the reviews decide which files are left out
                shaping = (*shaping, REVIEWS)
            wanted = {**made_by(), **{name: job.settings[name] for name in shaping}}
            is_like_ours = wanted.items() <= catalog.meta.items() and {CONTENT_DIGEST, OUTCOMES} <= catalog.meta.keys()
            if is_like_ours:
                trusted = trusted_until(job.roots, catalog.path, _read_ns(job, catalog))
                trusted |= dict.fromkeys(_moved_sources(job, catalog), 0)
                return _follow(job, catalog, trusted) or Anew.OVER_SOUND
    except CheckError as problem:  # the old rows or the new ones failed a check
        _say_anew(target, problem)
    except BuildError as problem:
        if not isinstance(problem.__cause__, sqlite3.Error) or is_of_the_disk(problem.__cause__):
            raise
        _say_anew(target, problem.__cause__)
    except (CatalogError, sqlite3.Error) as problem:
        if target.exists() and target.stat().st_size:
            _say_anew(target, problem)
    except _OvertakenError:  # compare with the new index
        return bring_up_to_date(job, target)
    except OtherLengths:  # the weight of every word has changed
        return Anew.OVER_SOUND
    return Anew.OVER_NOTHING


def _say_anew(target: Path, problem: Exception) -> None:
    """Log why an existing index is built from scratch, which takes longer than an update."""
    why = str(problem).partition("; ")[0].rstrip(".").removeprefix(f"The index {target} ")  # drop the advice
    logger.warning("The index %s cannot be brought up to date and is built from scratch (%s).", target, why)


def _moved_sources(job: Job, catalog: Catalog) -> Iterator[str]:
    """Yield the sources that were read from other folders, whose times say nothing of those that are read now."""
    before, now = json.loads(catalog.meta.get(PINS, "{}")), json.loads(job.provenance[PINS])
    yield from (name for name, said in now.items() if before.get(name) != said)


def _read_ns(job: Job, catalog: Catalog) -> int:
    """Return when the build of an index began to read, in ns since 1970; 0 if the clock was or is wrong."""
    modified = catalog.identity[1]
    return modified if modified <= job.began.since_1970 else 0


def _follow(job: Job, catalog: Catalog, trusted: Mapping[str, int]) -> Built | None:
    """Update an index of the same folders and return how; None if everything must be written again.

    Args:
        trusted: By root, the time (ns since 1970) before which every change was seen.
    """
    if not _is_untouched(job, catalog, trusted):
        with drafting(catalog.path) as draft:
            if job.digest != catalog.meta["files"]:
                draft.begin()  # copy while we find out what has changed
            built = _write_what_changed(job, catalog, trusted, draft)
        if built is None or built.how is How.UPDATED:
            return built
    return _leave(job, catalog)


def _write_what_changed(job: Job, catalog: Catalog, trusted: Mapping[str, int], draft: Draft) -> Built | None:
    """Write what has changed to a copy of an index and return how; None if everything must be written again."""
    known: set[KnownFile] = set(catalog.db.execute(KNOWN_FILES))
    change = compare_files(job.roots, known, partial(_digest, catalog.db), trusted, job.latest)
    is_small = len(change.read | change.gone) <= max(FEW_FILES, MOST_CHANGED * len(known))
    is_small = is_small and not _is_fragmented(catalog.db)
    if not (is_small or job.keep):
        return None
    following = _follower(job, catalog.db).judge(change)
    if _is_nothing(job, catalog, change, following):
        if not following.kept:
            renew_time(catalog.path, catalog.identity, job.began)
        return Built(How.UNCHANGED)
    if not (is_small or following.kept):
        return None
    verdicts = (*following.verdicts, *following.kept)
    now = {(source.root, source.path): source.sha256 for v in verdicts for source in (v.source, *v.bundled)}
    before = {key: digest for key in now.keys() | following.stale if (digest := _digest(catalog.db, key)) is not None}
    changed = (now.items() ^ before.items()) | (lists_of(job.settings) ^ lists_of(catalog.meta))
    described = _write_changes(job, catalog, change, following, draft)
    return Built(How.UPDATED, places_of(changed), described=described)


def _digest(db: sqlite3.Connection, key: Key) -> str | None:
    """Return the digest of a file in the index, empty if it could not be read, None if it was not there."""
    row = db.execute(DIGEST, key).fetchone()
    return row and str(row[0])


def _follower(job: Job, db: sqlite3.Connection) -> Follower:
    return Follower(db, job.roots, job.category, job.latest, keep=job.keep, policy=job.policy)


def _is_untouched(job: Job, catalog: Catalog, trusted: Mapping[str, int]) -> bool:
    """Tell whether no file or setting has changed since the index was built, without reading file contents."""
    is_as_it_was = all(max(root.files.changed, default=0) < trusted[root.label] for root in job.roots)
    is_as_it_was = is_as_it_was and _says_settings(job, catalog)
    return is_as_it_was and not _is_readable_again(job, catalog.db)


def _says_settings(job: Job, catalog: Catalog) -> bool:
    """Tell whether the settings and the file list that the index records are still true.

    The list can differ although every file that we read is the same: a file changed after the listing, or is not read.
    """
    return {**job.settings, **job.provenance, "files": job.digest}.items() <= catalog.meta.items()


def _is_readable_again(job: Job, db: sqlite3.Connection) -> bool:
    """Tell whether an unreadable file can be read now: recovery of a disk or network changes no file time."""
    roots = {root.label: root for root in job.roots}
    for label, path in db.execute(UNREADABLE):
        root = roots[label]
        with suppress(OSError):
            read_regular(root.folder, path, root.limits.file_bytes)
            return True
    return False


def _is_nothing(job: Job, catalog: Catalog, change: Change, following: Following) -> bool:
    """Tell whether there is nothing to write: the rows, settings and diagnostics of the index are up to date."""
    if following.verdicts or following.stale or change.times or not _says_settings(job, catalog):
        return False
    saying = sorted((one for root in job.roots for one in root.diagnostics), key=Diagnostic.order)
    said = [one for one in diagnostics_of(catalog.db) if not one.path and one.code != NOT_OFFERED]
    return said == saying and _follower(job, catalog.db).is_said(following.kept)


def _is_fragmented(db: sqlite3.Connection) -> bool:
    free, pages = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    return bool(free > MOST_FREE * pages)


def _leave(job: Job, catalog: Catalog) -> Built:
    """Leave the index as it is, except for the work that an earlier build postponed."""
    refuse(job, catalog.db)
    if job.settle and UNSETTLED in catalog.meta:
        settle_index(catalog.path)
        return Built(How.UNCHANGED)
    return Built(How.UNCHANGED, described=describe(catalog))


def _write_changes(job: Job, catalog: Catalog, change: Change, following: Following, draft: Draft) -> Described:
    """Write the changes to a copy of the index and return what the copy records about itself."""
    with _opened(draft, catalog) as db:
        db.execute("BEGIN")
        writer = IndexWriter(db)
        judged = files_of((*following.verdicts, *following.kept))
        writer.delete(following.stale, judged)
        writer.write(following.verdicts)
        write_diagnostics(db, (diagnostic for verdict in following.kept for diagnostic in verdict.diagnostics))
        db.executemany(SET_TIME, ((time, root, path) for (root, path), time in change.times.items()))
        writer.close(read_typical_lengths(catalog.meta), must_stay=bool(following.kept))
        settle_library(db, job.roots, job.pinned)
        write_reviews(db, job.reviews, job.day, SLOW)
        refuse(job, db)
        if job.settings["synonyms"] != catalog.meta["synonyms"]:
            write_synonyms(db, job.read_synonyms())
        write_settings(job, db)
        drop_answers(db, changed=len(following.stale | judged))
        if job.settle:
            settle_rows(db, draft.path)
        else:
            db.execute("COMMIT")
        check_counts(db)
        described = describe(Catalog(db, draft.path, identity=(0, 0, 0)))
    date(draft.path, job.began)
    return described


@contextmanager
def _opened(draft: Draft, catalog: Catalog) -> Iterator[sqlite3.Connection]:
    """Yield the copy of an index for writing, then close the index.

    Raises:
        _OvertakenError: Another program has replaced the index.
        CatalogError: The index is damaged, and therefore the copy too.
    """
    path = draft.ready()
    _check_current(draft, catalog)
    catalog.begin_to_verify()  # in a thread, while we write
    with closing(open_for_writing(path)) as db:
        yield db
    _check_current(draft, catalog)
    catalog.verify(fully=True)
    catalog.close()


def _check_current(draft: Draft, catalog: Catalog) -> None:
    if not catalog.is_current():
        draft.is_wanted = False
        raise _OvertakenError


def settle_index(target: Path) -> None:
    """Do the work that a build with `settle=False` has postponed, if any, on the index at *target*.

    Raises:
        BuildError: The index cannot be written, or contradicts itself.
    """
    target = behind_links(target)
    with Catalog.open(target) as catalog:
        if UNSETTLED not in catalog.meta:
            return
        with suppress(_OvertakenError), drafting(target) as draft:
            with _opened(draft, catalog) as db:
                db.execute("BEGIN")
                settle_rows(db, draft.path)
                check_links(db)
            os.utime(draft.path, ns=(catalog.identity[1], catalog.identity[1]))
