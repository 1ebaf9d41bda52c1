"""Files that were read → the rows of a new database, and what an index says of itself."""

import hashlib
import sqlite3
from collections.abc import Mapping
from importlib.resources import files

from orchestr8_sqlite import __version__
from orchestr8_sqlite.content import Fragment, Prompt
from orchestr8_sqlite.evidence_rows import write_bytes
from orchestr8_sqlite.evidence_writer import EvidenceWriter
from orchestr8_sqlite.fragment_rows import (
    json_text,
    write_files,
    write_full_text,
    write_own_rows,
    write_said,
    write_scenarios,
)
from orchestr8_sqlite.library.verdicts import Verdict, name_of
from orchestr8_sqlite.model import LookupResult, Ranker
from orchestr8_sqlite.resolution import OFFERED, RowDocuments
from orchestr8_sqlite.vocabulary import KeywordWriter

SCHEMA_VERSION = "3.1.0"
BATCH = 256
"""Files that are written together."""

PAGE_CACHE = "PRAGMA cache_size = -16000"
"""16 MB: rows of `scenario`, `keyword` and `fragment` come in another order than the keys of their indexes."""

FULL_TEXT_OPTION = "INSERT INTO fragment_text (fragment_text, rank) VALUES (?, ?)"
WHILE_WRITING = {"hashsize": 1 << 24, "automerge": 0}
"""Much of the full text is gathered before any is written, and what is written is merged in few large steps."""

AFTERWARDS = {"hashsize": 1 << 20, "automerge": 4}
"""What FTS5 does where it is told nothing."""

INSERT_QUICK = """
INSERT INTO quick_lookup
VALUES (?, ?, ?, ?, ?, (SELECT id FROM scenario WHERE fragment_id = ? AND text = ?), ?, ?)
"""
TOTALS = ("fragment", "prompt", "scenario", "keyword", "diagnostic")


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the empty tables and views in a new database."""
    connection.executescript(files("orchestr8_sqlite").joinpath("schema.sql").read_text(encoding="utf-8"))


class IndexWriter:
    """Writes the rows of single files into an empty index as they come. Close it when done.

    Fragments are numbered as they come. Nothing of a file is kept in memory for longer than a batch, but for what
    the lists by keyword and term need.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        db.execute(OFFERED)
        self._db = db
        self._documents = RowDocuments(db)
        self._waiting: list[Verdict] = []
        self._names: dict[tuple[str, str], str] = {}
        self._fragments = 0
        self._scenarios = 0
        self._keywords = KeywordWriter(db)
        self._evidence = EvidenceWriter(db)
        db.execute(PAGE_CACHE)
        db.executemany(FULL_TEXT_OPTION, WHILE_WRITING.items())

    def holder(self, record: Fragment | Prompt) -> str | None:
        """Return the place of the file whose record has the name of *record* already, if any has."""
        return self._names.get(name_of(record)) or self._documents.holder(record)

    def take(self, verdict: Verdict) -> None:
        """Take what became of a file, the next one in the order of reading."""
        self._waiting.append(verdict)
        if verdict.record is not None:
            self._names[name_of(verdict.record)] = f"{verdict.source.root}/{verdict.source.path}"
        if len(self._waiting) >= BATCH:
            self._write_waiting()

    def close(self) -> None:
        """Write what is left of all that single files tell.

        Raises:
            BuildError: Two scenarios could not be told apart by their hash.
        """
        self._write_waiting()
        self._evidence.close()
        self._keywords.close()
        write_bytes(self._db)
        self._db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('optimize')")
        self._db.executemany(FULL_TEXT_OPTION, AFTERWARDS.items())

    def _write_waiting(self) -> None:
        write_files(self._db, self._waiting)
        numbered = list(enumerate((v for v in self._waiting if v.outcome == "fragment"), start=self._fragments + 1))
        fragments = [(number, v.record) for number, v in numbered if isinstance(v.record, Fragment)]
        write_own_rows(self._db, fragments)
        write_scenarios(self._db, fragments, self._scenarios)
        write_said(self._db, numbered)
        write_full_text(self._db, ((number, v.prepared.texts) for number, v in numbered))
        for number, verdict in numbered:
            self._evidence.add(number, verdict.prepared.held)
            self._keywords.add(number, self._scenarios + 1, verdict.prepared.keywords)
            self._scenarios += len(verdict.prepared.keywords.scenarios)
        self._fragments += len(numbered)
        self._waiting.clear()
        self._names.clear()


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
    generation = hashlib.sha256()
    for row in db.execute("SELECT root, path, sha256 FROM source ORDER BY root, path"):
        generation.update("\0".join(row).encode() + b"\n")
    totals = {
        f"{table}s": str(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - from TOTALS
        for table in TOTALS
    }
    values = {**made_by(), **totals, **settings}
    generation.update(json_text(values).encode())
    values["generation"] = generation.hexdigest()[:16]
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", sorted(values.items()))
    return values["generation"]


def made_by() -> dict[str, str]:
    """Return what an index says of the program that made it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "built_by": f"orchestr8-sqlite {__version__}",
        "sqlite_version": sqlite3.sqlite_version,
    }
