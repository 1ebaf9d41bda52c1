"""Roots → a checked index database, put in place in one step.

A build writes to a temporary file beside the target, checks it, and renames it over the target.
Whatever goes wrong before the rename leaves the old index as it was.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from orchestr8_sqlite.catalog import APPLICATION_ID, Catalog, check_sqlite
from orchestr8_sqlite.content import Diagnostic, Library, Severity
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.evidence_rows import write_synonyms
from orchestr8_sqlite.fragment_rows import prepare
from orchestr8_sqlite.holdout import measure_least_coverage
from orchestr8_sqlite.integrity import check_index
from orchestr8_sqlite.library import Progress, read_library
from orchestr8_sqlite.lookup import QUICK_MIN_SCORE, find
from orchestr8_sqlite.model import LookupResult, MatchRequest, Ranker
from orchestr8_sqlite.tiers.shortcut import DEPTH
from orchestr8_sqlite.wordlists import Synonym, read_synonyms
from orchestr8_sqlite.writer import IndexWriter, create_schema, write_library, write_quick_lookups

FEWEST_MEASURED = 20
"""Fragments below which a build cannot tell what an answer must cover: there, every answer stands."""

QUICK_LOOKUPS = 20
"""Keywords with a precomputed answer: those that most fragments hold. Source: shared/seeds/index-lookup.md."""

MOST_USED_KEYWORDS = """
SELECT k.text FROM keyword k
 WHERE k.fragment_count OR :fields = 63
 ORDER BY iif(:fields = 63, (SELECT sum(length(fields)) FROM field_block WHERE keyword_id = k.id), k.fragment_count)
          DESC, k.text
 LIMIT :limit
"""
SEARCHED_FIELDS = {Ranker.DEFAULT: 63, Ranker.CLASSIC: 7}
"""Bits of field_posting.fields that a ranker searches."""

FAST_WRITES = """
PRAGMA page_size = 4096;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
"""
"""Safe here: the file is synced as a whole before it gets its name."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did; `size` in bytes, `seconds` of wall time."""

    target: Path
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


def build_index(
    roots: Sequence[Path],
    target: Path,
    *,
    category: str | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Build the index of *roots* at *target* and return what was done.

    Args:
        category: For files of plain folders that do not say theirs.
        strict: Refuse to build where the library has warnings or errors.
        progress: Called with (files done, files in all) while reading.

    Raises:
        LibraryError: A root cannot be read.
        BuildError: The target cannot be written or replaced, the library is refused, or a check failed.
    """
    started = time.perf_counter()
    check_sqlite()
    check_target(target)
    temporary = temporary_name(target)
    temporary.unlink(missing_ok=True)
    try:
        library, meta = _write(temporary, roots, category, strict=strict, progress=progress)
        size = temporary.stat().st_size
        put_in_place(temporary, target)
    except (OSError, sqlite3.Error) as problem:
        raise BuildError(f"The index {target} could not be written: {problem}.") from problem
    finally:
        temporary.unlink(missing_ok=True)
    return BuildReport(
        target=target,
        files=len(library.fragments) + len(library.prompts) + len(library.rejected) + len(library.ignored),
        fragments=len(library.fragments),
        scenarios=int(meta["scenarios"]),
        keywords=int(meta["keywords"]),
        prompts=len(library.prompts),
        rejected=len(library.rejected),
        ignored=len(library.ignored),
        diagnostics=library.diagnostics,
        generation=meta["generation"],
        size=size,
        seconds=time.perf_counter() - started,
    )


def _write(
    path: Path, roots: Sequence[Path], category: str | None, *, strict: bool, progress: Progress | None
) -> tuple[Library, dict[str, str]]:
    """Write and check the database at *path*; return the library that was read and the `meta` table."""
    synonyms = read_synonyms(roots)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.executescript(FAST_WRITES)
        create_schema(db)
        writer = IndexWriter(db)
        db.execute("BEGIN")
        library = read_library(roots, category=category, progress=progress, prepare=prepare, take=writer.add)
        if strict:
            refuse_problems(library)
        writer.close(library, settings_of(category, synonyms, library))
        finish_index(db, synonyms)
        return library, _measure(db, path, library)
    finally:
        db.close()


def settings_of(category: str | None, synonyms: Sequence[Synonym], library: Library) -> dict[str, str]:
    """Return what shapes an index beside its files, for `meta`."""
    return {"category": category or "", "synonyms": _digest(tuple(synonyms)), "queries": _hash(library.queries)}


def temporary_name(target: Path) -> Path:
    """Return where this process writes an index before it takes the place of *target*."""
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")


@lru_cache(maxsize=2)
def _digest(synonyms: tuple[Synonym, ...]) -> str:
    texts = ((sorted(map(sorted, one.slots)), one.forms, one.how) for one in synonyms)
    return _hash(list(texts))


def _hash(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def check_target(target: Path) -> None:
    """Raise BuildError where writing to *target* would lose something or cannot work."""
    if not target.parent.is_dir():
        raise BuildError(f"The folder {target.parent} does not exist; create it first.")
    if target.is_dir():
        raise BuildError(f"{target} is a folder; name a file.")
    if not target.exists() or target.stat().st_size == 0:
        return
    with target.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0") or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise BuildError(f"{target} exists and is no orchestr8-sqlite index; name another file or remove it.")
    for suffix in ("-wal", "-journal"):
        if target.with_name(target.name + suffix).exists():
            raise BuildError(
                f"{target}{suffix} exists: another program is changing the index; close it and remove the file."
            )


def refuse_problems(library: Library) -> None:
    """Raise BuildError with all warnings and errors of *library* where it has any."""
    problems = [d for d in library.diagnostics if d.severity is not Severity.INFO]
    if problems:
        lines = "\n".join(f"{d.place}: {d.severity.value}: {d.message} [{d.code}]; {d.fix}" for d in problems)
        raise BuildError(f"{lines}\nNot built: {len(problems)} problems, and strict mode allows none.")


def _measure(db: sqlite3.Connection, path: Path, library: Library) -> dict[str, str]:
    """Measure and check the finished database at *path* and return its `meta` table."""
    catalog = Catalog(db, path, identity=(0, 0, 0))
    db.execute("INSERT INTO meta VALUES ('least_coverage', ?)", (least_coverage(catalog),))
    catalog = Catalog(db, path, identity=(0, 0, 0))
    check_index(catalog, library)
    return dict(catalog.meta)


def fill_index(
    db: sqlite3.Connection,
    library: Library,
    synonyms: Sequence[Synonym],
    settings: Mapping[str, str],
) -> None:
    """Write everything but `least_coverage` to the new database *db*."""
    create_schema(db)
    db.execute("BEGIN")
    write_library(db, library, settings)
    finish_index(db, synonyms)


def finish_index(db: sqlite3.Connection, synonyms: Sequence[Synonym]) -> None:
    """Write the synonyms and the quick lookups, and end the transaction."""
    write_synonyms(db, synonyms)
    write_answers(db)
    db.execute("COMMIT")


def write_answers(db: sqlite3.Connection) -> None:
    """Write the answers to the most used keywords."""
    catalog = Catalog(db, Path(), identity=(0, 0, 0))
    for ranker in Ranker:
        write_quick_lookups(db, ranker, _quick_answers(catalog, ranker))


def _quick_answers(catalog: Catalog, ranker: Ranker) -> dict[str, LookupResult]:
    answers: dict[str, LookupResult] = {}
    parameters = {"fields": SEARCHED_FIELDS[ranker], "limit": QUICK_LOOKUPS}
    for (keyword,) in catalog.db.execute(MOST_USED_KEYWORDS, parameters).fetchall():
        request = MatchRequest(keyword, max_results=DEPTH, min_score=QUICK_MIN_SCORE, ranker=ranker)
        result = find(catalog, request, quick=False)
        answers[" ".join(result.keywords)] = result
    return answers


def least_coverage(catalog: Catalog) -> str:
    """Return what an answer must cover for `meta`, measured where the library is large enough for that."""
    return str(measure_least_coverage(catalog) if catalog.size >= FEWEST_MEASURED else 0.0)


def put_in_place(temporary: Path, target: Path) -> None:
    """Sync the finished file, rename it over *target*, and sync the folder that names it."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(target)
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
