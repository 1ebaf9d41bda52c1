"""A library → the rows of a new database, those of its fragments by `fragment_rows`."""

import hashlib
import sqlite3
from collections.abc import Mapping
from importlib.resources import files

import sqlite_utils

from orchestr8_sqlite import __version__
from orchestr8_sqlite.content import Library, SourceFile
from orchestr8_sqlite.evidence import fragment_texts, hold
from orchestr8_sqlite.evidence_rows import EvidenceWriter, write_bytes
from orchestr8_sqlite.fragment_rows import fragment_scenarios, json_text, write_fragments
from orchestr8_sqlite.model import LookupResult, Ranker
from orchestr8_sqlite.vocabulary import write_vocabulary

SCHEMA_VERSION = "3.0.0"
INSERT_QUICK = """
INSERT INTO quick_lookup
VALUES (?, ?, ?, ?, ?, (SELECT id FROM scenario WHERE fragment_id = ? AND text = ?), ?, ?)
"""


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the empty tables and views in a new database."""
    connection.executescript(files("orchestr8_sqlite").joinpath("schema.sql").read_text(encoding="utf-8"))


def write_library(connection: sqlite3.Connection, library: Library, settings: Mapping[str, str]) -> None:
    """Write all rows of *library* but the quick lookups, which need the finished index.

    Args:
        settings: Build settings for the `meta` table.

    Raises:
        BuildError: Two scenarios could not be told apart by their hash.
    """
    db = sqlite_utils.Database(connection, execute_plugins=False)
    numbered = list(enumerate(library.fragments, start=1))
    numbers = {fragment.id: number for number, fragment in numbered}
    sources = _write_sources(db, library)
    scenarios = write_fragments(db, numbered, numbers, sources, fragment_scenarios(library.fragments))
    connection.execute("INSERT INTO fragment_text (fragment_text) VALUES ('optimize')")
    write_vocabulary(connection, numbered, scenarios)
    write_prompts(db, library, sources)
    write_queries(db, library, numbers)
    write_bytes(connection)
    evidence = EvidenceWriter(connection)
    for number, fragment in numbered:
        evidence.add(number, hold(fragment_texts(fragment)))
    evidence.close()
    write_diagnostics(db, library)
    write_meta(db, library, settings)


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


def _write_sources(db: sqlite_utils.Database, library: Library) -> dict[tuple[str, str], int]:
    ordered = source_outcomes(library)
    db.table("source").insert_all(
        {
            "id": number,
            "root": source.root,
            "path": source.path,
            "outcome": outcome,
            "mtime_ns": source.mtime_ns,
            "size": source.size,
            "sha256": source.sha256,
        }
        for number, (source, outcome) in enumerate(ordered, start=1)
    )
    return {(source.root, source.path): number for number, (source, _) in enumerate(ordered, start=1)}


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
