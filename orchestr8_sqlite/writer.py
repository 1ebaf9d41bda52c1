"""Records → rows of a new database. The only module that writes an index."""

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from importlib.resources import files

import sqlite_utils

from orchestr8_sqlite import __version__
from orchestr8_sqlite.evidence import write_evidence
from orchestr8_sqlite.keywords import index_text
from orchestr8_sqlite.model import Candidate, Fragment, Library, Ranker, SourceFile
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.vocabulary import scenario_ids, write_vocabulary

SCHEMA_VERSION = "2.1.0"
INSERT_QUICK = """
INSERT INTO quick_lookup
VALUES (?, ?, ?, ?, ?, (SELECT id FROM scenario WHERE fragment_id = ? AND text = ?), ?)
"""


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the empty tables and views in a new database."""
    connection.executescript(files("orchestr8_sqlite").joinpath("schema.sql").read_text(encoding="utf-8"))


def write_library(connection: sqlite3.Connection, library: Library, settings: Mapping[str, str]) -> None:
    """Write all rows of *library* but the quick lookups, which need the finished index to be asked.

    Args:
        settings: Build settings for the `meta` table.

    Raises:
        BuildError: Two scenarios could not be told apart by their hash.
    """
    db = sqlite_utils.Database(connection, execute_plugins=False)
    sources = _write_sources(db, library)
    _write_fragments(db, library.fragments, sources)
    _write_skills(db, library.fragments, sources)
    _write_prompts(db, library, sources)
    write_vocabulary(connection, library.fragments, _write_scenarios(db, library.fragments))
    _write_references(db, library.fragments)
    _write_queries(db, library)
    _write_full_text(connection, library.fragments)
    write_evidence(connection, library.fragments)
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
    _write_meta(db, library, settings)


def write_quick_lookups(
    connection: sqlite3.Connection, ranker: Ranker, answers: Mapping[str, tuple[Sequence[Candidate], int]]
) -> None:
    """Write finished answers: for each query its candidates, best first, and how many fragments match in all."""
    rows = [
        (ranker.value, query, rank, c.fragment_id, c.score, c.fragment_id, c.scenario, total)
        for query, (candidates, total) in sorted(answers.items())
        for rank, c in enumerate(candidates, start=1)
    ]
    connection.executemany(INSERT_QUICK, rows)


def _write_sources(db: sqlite_utils.Database, library: Library) -> dict[tuple[str, str], int]:
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
    ordered = [outcomes[place] for place in sorted(outcomes)]
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


def _write_fragments(
    db: sqlite_utils.Database, fragments: Sequence[Fragment], sources: Mapping[tuple[str, str], int]
) -> None:
    db.table("fragment").insert_all(
        {
            "id": number,
            "uri": fragment_uri(f.id),
            "category": f.category,
            "name": f.name,
            "path": f.id,
            "title": f.title,
            "description": f.description,
            "version": f.version,
            "size": len(f.body.encode()),
            "token_estimate": f.token_estimate,
            "author_tokens": f.author_tokens,
            "metadata": _json(f.metadata),
            "source_id": sources[f.source.root, f.source.path],
        }
        for number, f in enumerate(fragments, start=1)
    )
    numbered = list(enumerate(fragments, start=1))
    db.table("fragment_body").insert_all({"fragment_id": n, "body": f.body} for n, f in numbered)
    db.table("tag").insert_all(
        {"fragment_id": n, "tag": tag, "ordinal": i} for n, f in numbered for i, tag in enumerate(f.tags)
    )
    db.table("capability").insert_all(
        {"fragment_id": n, "ordinal": i, "text": text} for n, f in numbered for i, text in enumerate(f.capabilities)
    )


def _write_skills(
    db: sqlite_utils.Database, fragments: Sequence[Fragment], sources: Mapping[tuple[str, str], int]
) -> None:
    db.table("skill").insert_all(
        {
            "fragment_id": number,
            "path": fragment.skill.path,
            "frontmatter": json.dumps(fragment.skill.frontmatter, ensure_ascii=False),
        }
        for number, fragment in enumerate(fragments, start=1)
        if fragment.skill is not None
    )
    db.table("skill_file").insert_all(
        {
            "fragment_id": number,
            "path": file.path,
            "size": len(file.content),
            "sha256": file.sha256,
            "content": file.content,
            "source_id": sources[file.source.root, file.source.path],
        }
        for number, fragment in enumerate(fragments, start=1)
        for file in fragment.skill_files
    )


def _write_prompts(db: sqlite_utils.Database, library: Library, sources: Mapping[tuple[str, str], int]) -> None:
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
            "metadata": _json(p.metadata),
            "source_id": sources[p.source.root, p.source.path],
        }
        for n, p in numbered
    )
    db.table("prompt_argument").insert_all(
        {"prompt_id": n, "ordinal": i, "name": a.name, "description": a.description, "required": int(a.required)}
        for n, p in numbered
        for i, a in enumerate(p.arguments)
    )


def _write_scenarios(db: sqlite_utils.Database, fragments: Sequence[Fragment]) -> list[tuple[int, int, str]]:
    """Write the scenarios and return (scenario row, fragment row, text) of each."""
    owned = [(number, f.id, i, text) for number, f in enumerate(fragments, 1) for i, text in enumerate(f.use_when)]
    hashes = scenario_ids((fragment_id, text) for _, fragment_id, _, text in owned)
    db.table("scenario").insert_all(
        {"id": row, "scenario_id": scenario_id, "fragment_id": number, "ordinal": ordinal, "text": text}
        for row, (scenario_id, (number, _, ordinal, text)) in enumerate(zip(hashes, owned, strict=True), start=1)
    )
    return [(row, number, text) for row, (number, _, _, text) in enumerate(owned, start=1)]


def _write_references(db: sqlite_utils.Database, fragments: Sequence[Fragment]) -> None:
    numbers = {fragment.id: number for number, fragment in enumerate(fragments, start=1)}
    db.table("reference").insert_all(
        {
            "fragment_id": number,
            "ordinal": ordinal,
            "target": reference.target,
            "target_id": numbers.get(reference.target),
            "kind": reference.kind,
            "line": reference.line,
        }
        for number, fragment in enumerate(fragments, start=1)
        for ordinal, reference in enumerate(fragment.references)
    )


def _write_queries(db: sqlite_utils.Database, library: Library) -> None:
    rows = {fragment.id: number for number, fragment in enumerate(library.fragments, start=1)}
    numbered = list(enumerate(library.queries, start=1))
    db.table("library_query").insert_all({"id": n, "text": q.text, "origin": q.origin} for n, q in numbered)
    db.table("library_answer").insert_all(
        {"query_id": n, "fragment_id": row} for n, q in numbered for row in sorted({rows[id_] for id_ in q.answers})
    )


def _write_full_text(connection: sqlite3.Connection, fragments: Sequence[Fragment]) -> None:
    connection.executemany(
        "INSERT INTO fragment_text (rowid, name, title, tags, capabilities, scenarios, description, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                number,
                index_text(f.name),
                index_text(f.title),
                index_text("\n".join(f.tags)),
                index_text("\n".join(f.capabilities)),
                index_text("\n".join(f.use_when)),
                index_text(f.description),
                index_text(f.body),
            )
            for number, f in enumerate(fragments, start=1)
        ),
    )
    connection.execute("INSERT INTO fragment_text (fragment_text) VALUES ('optimize')")


def _write_meta(db: sqlite_utils.Database, library: Library, settings: Mapping[str, str]) -> None:
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
    generation.update(_json(values).encode())
    values["generation"] = generation.hexdigest()[:16]
    db.table("meta").insert_all({"key": key, "value": str(value)} for key, value in sorted(values.items()))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=dict)
