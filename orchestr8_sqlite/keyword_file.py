"""The keyword tables of a new index, in a file of their own until they are complete.

Where there are many files, another process writes it, while this one writes what else an index has. In the end the
tables are copied record by record, which takes a tenth of the time that writing them takes, and leaves them the same
whoever wrote them.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from orchestr8_sqlite.inversion import Keywords
from orchestr8_sqlite.jobs import open_for_writing
from orchestr8_sqlite.leftovers import KEYWORDS
from orchestr8_sqlite.processes import Companion, Gatherer, are_many_processors, nothing
from orchestr8_sqlite.vocabulary import KeywordWriter

TABLES = (
    *("keyword", "keyword_suffix", "keyword_part", "posting", "posting_block", "containing_block", "field_block"),
    *("scenario_owner", "scenario_end"),
)
"""What a `KeywordWriter` writes."""

SCHEMA = """
SELECT sql FROM sqlite_schema
 WHERE tbl_name IN (SELECT value FROM json_each(?)) AND sql IS NOT NULL
 ORDER BY rowid
"""
COPY = {table: f"INSERT INTO main.{table} SELECT * FROM aside.{table}" for table in TABLES}  # noqa: S608 - from TABLES
"""SQLite copies whole records and sorts nothing where the tables have the same schema and the new one is empty."""

Message = tuple[Sequence[int | None], int, Keywords]
"""What `KeywordWriter.add` takes."""


class KeywordFile:
    """Takes what `KeywordWriter` does, and writes it into *db* when it is closed."""

    def __init__(self, db: sqlite3.Connection, path: Path, gatherer: Gatherer[Message]) -> None:
        """Take the tables from the file at *path*, which the gatherer writes."""
        self._db = db
        self._path = path
        self._gatherer = gatherer

    def add(self, numbers: Sequence[int | None], first_scenario: int, keywords: Keywords) -> None:
        """Take what fragments hold that get *numbers*; see `KeywordWriter`."""
        self._gatherer.tell((numbers, first_scenario, keywords))

    def close(self, meanwhile: Callable[[], None] = nothing) -> None:
        """Write all that is left, and do *meanwhile* while another process is at it."""
        self._gatherer.finish(meanwhile)
        self._db.execute("COMMIT")
        self._db.execute("ATTACH ? AS aside", (str(self._path),))
        self._db.execute("BEGIN")
        for statement in COPY.values():
            self._db.execute(statement)
        self._db.execute("COMMIT")
        self._db.execute("DETACH aside")
        self._db.execute("BEGIN")


class _Tables:
    """Writes the file: the tables of *schema* and nothing else."""

    def __init__(self, path: Path, schema: Sequence[str]) -> None:
        self._db = open_for_writing(path)
        for statement in schema:
            self._db.execute(statement)
        self._db.execute("BEGIN")
        self._writer = KeywordWriter(self._db)

    def tell(self, message: Message) -> None:
        self._writer.add(*message)

    def finish(self, meanwhile: Callable[[], None] = nothing) -> None:
        self._writer.close(meanwhile)
        self._db.execute("COMMIT")
        self.stop()

    def stop(self) -> None:
        self._db.close()


@contextmanager
def keywords_aside(db: sqlite3.Connection, path: Path, *, apart: bool) -> Iterator[KeywordFile]:
    """Yield what takes the keywords of a new index, which *db* has open at *path* with a transaction begun.

    Args:
        apart: Let another process write them, where there is a processor for it.
    """
    aside = path.with_name(path.name + KEYWORDS)
    schema = [sql for (sql,) in db.execute(SCHEMA, (json.dumps(TABLES),))]
    begin = partial(_Tables, aside, schema)
    gatherer: Gatherer[Message] = Companion(begin) if apart and are_many_processors() else begin()
    try:
        yield KeywordFile(db, aside, gatherer)
    finally:
        gatherer.stop()
        aside.unlink(missing_ok=True)
