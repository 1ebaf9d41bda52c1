"""A library → the rows of a new database, those of its fragments by `fragment_rows`."""

import hashlib
import itertools
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files

import sqlite_utils

from orchestr8_sqlite import __version__
from orchestr8_sqlite.content import Fragment, Library, SourceFile
from orchestr8_sqlite.evidence_rows import write_bytes
from orchestr8_sqlite.evidence_writer import EvidenceWriter
from orchestr8_sqlite.fragment_rows import (
    Prepared,
    json_text,
    prepare,
    write_full_text,
    write_own_rows,
    write_references,
    write_scenarios,
    write_skills,
)
from orchestr8_sqlite.model import LookupResult, Ranker
from orchestr8_sqlite.vocabulary import KeywordWriter

SCHEMA_VERSION = "3.0.0"
BATCH = 256
"""Fragments that are written together."""

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


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the empty tables and views in a new database."""
    connection.executescript(files("orchestr8_sqlite").joinpath("schema.sql").read_text(encoding="utf-8"))


class IndexWriter:
    """Writes an index into an empty one: each fragment as it comes, then what only the whole library tells.

    Fragments are numbered as they come.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._numbers: dict[str, int] = {}
        self._sources: dict[tuple[str, str], int] = {}
        self._waiting: list[tuple[int, Fragment, Prepared]] = []
        self._scenarios = 0
        self._keywords = KeywordWriter(db)
        self._evidence = EvidenceWriter(db)
        db.execute(PAGE_CACHE)
        db.executemany(FULL_TEXT_OPTION, WHILE_WRITING.items())

    def add(self, fragment: Fragment, prepared: Prepared) -> Fragment:
        """Take a fragment with what was prepared of it, and return it without its body."""
        number = len(self._numbers) + 1
        self._numbers[fragment.id] = number
        self._sources[fragment.source.root, fragment.source.path] = number
        self._waiting.append((number, fragment, prepared))
        if len(self._waiting) >= BATCH:
            self._write_waiting()
        return replace(fragment, body="")

    def close(self, library: Library, settings: Mapping[str, str]) -> None:
        """Write what is left of *library*, whose fragments are all taken: all rows but the quick lookups.

        Args:
            settings: Build settings for the `meta` table.

        Raises:
            BuildError: Two scenarios could not be told apart by their hash.
        """
        self._write_waiting()
        self._evidence.close()
        self._keywords.close()
        db = sqlite_utils.Database(self._db, execute_plugins=False)
        numbered = sorted((self._numbers[fragment.id], fragment) for fragment in library.fragments)
        sources = write_sources(self._db, library, self._sources)
        write_skills(self._db, numbered, sources)
        write_references(self._db, numbered, self._numbers)
        self._db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('optimize')")
        self._db.executemany(FULL_TEXT_OPTION, AFTERWARDS.items())
        write_prompts(db, library, sources)
        write_queries(db, library, self._numbers)
        write_bytes(self._db)
        write_diagnostics(db, library)
        write_meta(db, library, settings)

    def _write_waiting(self) -> None:
        numbered = [(number, fragment) for number, fragment, _ in self._waiting]
        write_own_rows(self._db, numbered, self._sources)
        write_scenarios(self._db, numbered, self._scenarios)
        write_full_text(self._db, ((number, prepared.texts) for number, _, prepared in self._waiting))
        for number, _, prepared in self._waiting:
            self._evidence.add(number, prepared.held)
            self._keywords.add(number, self._scenarios + 1, prepared.keywords)
            self._scenarios += len(prepared.keywords.scenarios)
        self._waiting.clear()


def write_library(db: sqlite3.Connection, library: Library, settings: Mapping[str, str]) -> None:
    """Write all rows of *library* but the quick lookups, its fragments numbered in their order there."""
    writer = IndexWriter(db)
    for fragment in library.fragments:
        writer.add(fragment, prepare(fragment))
    writer.close(library, settings)


def write_quick_lookups(connection: sqlite3.Connection, ranker: Ranker, answers: Mapping[str, LookupResult]) -> None:
    """Write finished answers by their queries."""
    rows = [
        (ranker.value, query, rank, c.fragment_id, c.score, c.fragment_id, c.scenario, answer.total, answer.coverage)
        for query, answer in sorted(answers.items())
        for rank, c in enumerate(answer.candidates, start=1)
    ]
    connection.executemany(INSERT_QUICK, rows)


def source_outcomes(library: Library) -> list[tuple[SourceFile, str]]:
    """Return every file of the library with what became of it, by root and path."""
    outcomes: dict[tuple[str, str], tuple[SourceFile, str]] = {}  # a nested SKILL.md is also a file of another skill

    def note(source: SourceFile, outcome: str) -> None:
        outcomes[source.root, source.path] = source, outcome

    for fragment in library.fragments:
        for file in fragment.skill_files:
            note(file.source, "skill_file")
    for outcome, read in (("fragment", library.fragments), ("prompt", library.prompts)):
        for record in read:
            note(record.source, outcome)
    for outcome, unread in (("rejected", library.rejected), ("ignored", library.ignored)):
        for source in unread:
            note(source, outcome)
    return [outcomes[place] for place in sorted(outcomes)]


def write_sources(
    db: sqlite3.Connection, library: Library, numbers: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Write the files of a library and return their rows: those in *numbers*, the others behind them."""
    following = itertools.count(max(numbers.values(), default=0) + 1)
    outcomes = source_outcomes(library)
    rows = {(s.root, s.path): numbers.get((s.root, s.path)) or next(following) for s, _ in outcomes}
    db.executemany(
        "INSERT INTO source (id, root, path, outcome, mtime_ns, size, sha256) VALUES (?, ?, ?, ?, ?, ?, ?)",
        sorted((rows[s.root, s.path], s.root, s.path, what, s.mtime_ns, s.size, s.sha256) for s, what in outcomes),
    )
    return rows


def write_prompts(db: sqlite_utils.Database, library: Library, sources: Mapping[tuple[str, str], int]) -> None:
    """Write the prompts with their arguments, numbered by name."""
    numbered = list(enumerate(library.prompts, start=1))
    db.table("prompt").insert_all(
        {
            "id": n,
            "name": p.name,
            "title": p.title,
            "description": p.description,
            "version": p.version,
            "category": p.category,
            "body": p.body,
            "token_estimate": p.token_estimate,
            "metadata": json_text(p.metadata),
            "source_id": sources[p.source.root, p.source.path],
        }
        for n, p in numbered
    )
    db.table("prompt_argument").insert_all(
        {"prompt_id": n, "ordinal": i, "name": a.name, "description": a.description, "required": int(a.required)}
        for n, p in numbered
        for i, a in enumerate(p.arguments)
    )


def write_queries(db: sqlite_utils.Database, library: Library, numbers: Mapping[str, int]) -> None:
    """Write the requests of the library with the numbers of the fragments that answer them."""
    numbered = list(enumerate(library.queries, start=1))
    db.table("library_query").insert_all({"id": n, "text": q.text, "origin": q.origin} for n, q in numbered)
    db.table("library_answer").insert_all(
        {"query_id": n, "fragment_id": row} for n, q in numbered for row in sorted({numbers[id_] for id_ in q.answers})
    )


def write_diagnostics(db: sqlite_utils.Database, library: Library) -> None:
    """Write the diagnostics of the library, numbered in their order."""
    db.table("diagnostic").insert_all(
        {
            "severity": d.severity.value,
            "code": d.code,
            "root": d.root,
            "path": d.path,
            "line": d.line,
            "field": d.field,
            "message": d.message,
            "fix": d.fix,
        }
        for d in library.diagnostics
    )


def write_meta(db: sqlite_utils.Database, library: Library, settings: Mapping[str, str]) -> None:
    """Write the totals of the library, *settings*, and the digest of all that the index is made from."""
    generation = hashlib.sha256()
    for row in db.execute("SELECT root, path, sha256 FROM source ORDER BY root, path"):
        generation.update("\0".join(row).encode() + b"\n")
    values = {
        "schema_version": SCHEMA_VERSION,
        "built_by": f"orchestr8-sqlite {__version__}",
        "sqlite_version": sqlite3.sqlite_version,
        "fragments": len(library.fragments),
        "prompts": len(library.prompts),
        **{f"{name}s": db.table(name).count for name in ("scenario", "keyword", "diagnostic")},
        **settings,
    }
    generation.update(json_text(values).encode())
    values["generation"] = generation.hexdigest()[:16]
    db.table("meta").insert_all({"key": key, "value": str(value)} for key, value in sorted(values.items()))
