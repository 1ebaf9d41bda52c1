"""Files that were read → the rows of a new database, and what an index says of itself."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Protocol

from orchestr8_sqlite import __version__
from orchestr8_sqlite.content import Fragment, Prompt
from orchestr8_sqlite.evidence_rows import write_bytes
from orchestr8_sqlite.evidence_writer import EvidenceWriter
from orchestr8_sqlite.fragment_rows import (
    PreparedBatch,
    json_text,
    write_files,
    write_full_text,
    write_own_rows,
    write_said,
    write_scenarios,
)
from orchestr8_sqlite.inversion import Keywords
from orchestr8_sqlite.library.verdicts import Verdict, name_of
from orchestr8_sqlite.model import LookupResult, Ranker
from orchestr8_sqlite.resolution import OFFERED, RowDocuments
from orchestr8_sqlite.vocabulary import KeywordWriter, write_places

SCHEMA_VERSION = "4.1.0"

PAGE_CACHE = "PRAGMA cache_size = -16000"
"""16 MB: rows of `scenario`, `keyword` and `fragment` come in another order than the keys of their indexes."""

FULL_TEXT_OPTION = "INSERT INTO fragment_text (fragment_text, rank) VALUES (?, ?)"
WHILE_WRITING = {"hashsize": 1 << 24, "automerge": 0}
"""16 MB of the full text are gathered before any is written, and what is written is merged in few large steps.

For that, statements for many rows say OR FAIL: before one that SQLite may have to take back alone, FTS5 writes what it
has gathered. Nothing is lost, as no build goes on after an error.
"""

AFTERWARDS = {"hashsize": 1 << 20, "automerge": 4}
"""What FTS5 does where it is told nothing."""

INSERT_QUICK = """
INSERT INTO quick_lookup
VALUES (?, ?, ?, ?, ?, (SELECT id FROM scenario WHERE fragment_id = ? AND text = ?), ?, ?)
"""
CONTENTS = "contents"
"""Row of `meta`: the digests of all files, added up."""

OUTCOMES = "outcomes"
"""Row of `meta`: how many files became what, as JSON."""

CONTENTS_BOUND = 1 << 256
ALL_CONTENTS = "SELECT root, path, sha256 FROM source"
TOTALS = ("fragment", "prompt", "scenario", "keyword", "diagnostic")


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the empty tables and views in a new database."""
    connection.executescript(files("orchestr8_sqlite").joinpath("schema.sql").read_text(encoding="utf-8"))


class KeywordTaker(Protocol):
    """Something that writes the keyword tables, as `KeywordWriter` does."""

    def add(self, numbers: Sequence[int | None], first_scenario: int, keywords: Keywords) -> None:
        """Take what fragments hold that get *numbers*."""

    def close(self, meanwhile: Callable[[], None]) -> None:
        """Write all that is left, and do *meanwhile*."""


class IndexWriter:
    """Writes the rows of single files into an empty index as they come. Close it when done.

    Fragments are numbered as they come. Nothing of a file is kept in memory for longer than a batch, but for what
    the lists by keyword and term need.
    """

    def __init__(self, db: sqlite3.Connection, keywords: KeywordTaker | None = None) -> None:
        """Write through *db*, the keyword tables by *keywords* where that is given."""
        db.execute(OFFERED)
        self._db = db
        self._documents = RowDocuments(db)
        self._names: dict[tuple[str, str], str] = {}
        self._fragments = 0
        self._scenarios = 0
        self._keywords = keywords or KeywordWriter(db)
        self._evidence = EvidenceWriter(db)
        db.execute(PAGE_CACHE)
        db.executemany(FULL_TEXT_OPTION, WHILE_WRITING.items())

    def holder(self, record: Fragment | Prompt) -> str | None:
        """Return the place of the file whose record has the name of *record* already, if any has."""
        return self._names.get(name_of(record)) or self._documents.holder(record)

    def write(self, verdicts: Iterable[Verdict], prepared: PreparedBatch) -> None:
        """Write the files of a batch, in the order of reading; each may be judged when the one before was taken.

        Args:
            prepared: What was prepared of the fragments; `prepared` of a verdict is the place of its fragment there.

        Raises:
            BuildError: Two scenarios could not be told apart by their hash.
        """
        taken: list[Verdict] = []
        for verdict in verdicts:
            taken.append(verdict)
            if verdict.record is not None:
                self._names[name_of(verdict.record)] = f"{verdict.source.root}/{verdict.source.path}"
        numbered = list(enumerate((v for v in taken if v.outcome == "fragment"), start=self._fragments + 1))
        numbers: list[int | None] = [None] * len(prepared.texts)
        for number, verdict in numbered:
            numbers[verdict.prepared] = number
        self._write_rows(taken, numbered)
        write_full_text(self._db, ((n, texts) for n, texts in zip(numbers, prepared.texts, strict=True) if n))
        self._evidence.add(numbers, prepared.terms)
        self._keywords.add(numbers, self._scenarios + 1, prepared.keywords)
        self._scenarios += sum(len(v.record.use_when) for _, v in numbered if isinstance(v.record, Fragment))
        self._fragments += len(numbered)
        self._names.clear()

    def _write_rows(self, verdicts: Sequence[Verdict], numbered: Sequence[tuple[int, Verdict]]) -> None:
        write_files(self._db, verdicts)
        fragments = [(number, v.record) for number, v in numbered if isinstance(v.record, Fragment)]
        write_own_rows(self._db, fragments)
        write_scenarios(self._db, fragments, self._scenarios)
        write_said(self._db, numbered)

    def close(self) -> None:
        """Write what is left of all that single files tell."""
        self._keywords.close(self._close_others)
        write_places(self._db)

    def _close_others(self) -> None:
        # the full text first: the lists take the pages that this leaves free
        self._db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('optimize')")
        self._evidence.close()
        write_bytes(self._db)
        self._db.executemany(FULL_TEXT_OPTION, AFTERWARDS.items())


def write_quick_lookups(connection: sqlite3.Connection, ranker: Ranker, answers: Mapping[str, LookupResult]) -> None:
    """Write finished answers by their queries."""
    rows = [
        (ranker.value, query, rank, c.fragment_id, c.score, c.fragment_id, c.scenario, answer.total, answer.coverage)
        for query, answer in sorted(answers.items())
        for rank, c in enumerate(answer.candidates, start=1)
    ]
    connection.executemany(INSERT_QUICK, rows)


def write_meta(db: sqlite3.Connection, settings: Mapping[str, str]) -> str:
    """Write the totals of an index, *settings*, and the digest of all that it is made from; return the digest."""
    known = db.execute("SELECT value FROM meta WHERE key = ?", (CONTENTS,)).fetchone()
    contents = known[0] if known else f"{add_contents(db.execute(ALL_CONTENTS)):064x}"
    totals = {
        f"{table}s": str(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - from TOTALS
        for table in TOTALS
    }
    outcomes = json_text(dict(db.execute("SELECT outcome, count(*) FROM source GROUP BY outcome")))
    values = {**made_by(), **totals, **settings, CONTENTS: contents, OUTCOMES: outcomes}
    values["generation"] = hashlib.sha256(json_text(values).encode()).hexdigest()[:16]
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", sorted(values.items()))
    return values["generation"]


def add_contents(files: Iterable[tuple[str, str, str]]) -> int:
    """Return the digests of (root, path, digest of the content) of files, added up.

    A sum is the same in whatever order they come, and what a change does to it hangs on the files that change alone.
    """
    digests = (hashlib.sha256("\0".join(file).encode()).digest() for file in files)
    return sum(int.from_bytes(digest, "big") for digest in digests) % CONTENTS_BOUND


def made_by() -> dict[str, str]:
    """Return what an index says of the program that made it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "built_by": f"orchestr8-sqlite {__version__}",
        "sqlite_version": sqlite3.sqlite_version,
    }
