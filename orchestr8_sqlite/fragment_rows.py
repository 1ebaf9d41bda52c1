"""A fragment → the rows that belong to it alone: all but keywords, evidence and quick lookups."""

import json
import sqlite3
from collections.abc import Mapping, Sequence

import sqlite_utils

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import index_text
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.vocabulary import scenario_ids

INSERT_TEXT = """
INSERT INTO fragment_text (rowid, name, title, tags, capabilities, scenarios, description, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

Numbered = Sequence[tuple[int, Fragment]]
"""(number, fragment); the number is the fragment's row."""

ScenarioIds = Mapping[tuple[str, str], str]
"""(fragment id, text) of a scenario → its id."""


def write_fragments(
    db: sqlite_utils.Database,
    numbered: Numbered,
    numbers: Mapping[str, int],
    sources: Mapping[tuple[str, str], int],
    scenarios: ScenarioIds,
) -> list[tuple[int, int, str]]:
    """Write the rows that belong to the fragments *numbered* each by itself, behind those of other fragments.

    These are all but keywords, evidence and quick lookups.

    Args:
        numbers: The number of every fragment of the library by its id.
        sources: Root and path of every file of the library, and its row.
        scenarios: The ids of all scenarios of the library.

    Returns:
        (scenario row, fragment number, text) of each scenario.
    """
    _write_fragments(db, numbered, sources)
    _write_skills(db, numbered, sources)
    _write_references(db, numbered, numbers)
    _write_full_text(db.conn, numbered)
    taken = db.execute("SELECT coalesce(max(id), 0) FROM scenario").fetchone()[0]
    return _write_scenarios(db, numbered, scenarios, taken)


def _write_fragments(db: sqlite_utils.Database, numbered: Numbered, sources: Mapping[tuple[str, str], int]) -> None:
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
            "metadata": json_text(f.metadata),
            "source_id": sources[f.source.root, f.source.path],
        }
        for number, f in numbered
    )
    db.table("fragment_body").insert_all({"fragment_id": n, "body": f.body} for n, f in numbered)
    db.table("tag").insert_all(
        {"fragment_id": n, "tag": tag, "ordinal": i} for n, f in numbered for i, tag in enumerate(f.tags)
    )
    db.table("capability").insert_all(
        {"fragment_id": n, "ordinal": i, "text": text} for n, f in numbered for i, text in enumerate(f.capabilities)
    )


def _write_skills(db: sqlite_utils.Database, numbered: Numbered, sources: Mapping[tuple[str, str], int]) -> None:
    db.table("skill").insert_all(
        {
            "fragment_id": number,
            "path": fragment.skill.path,
            "frontmatter": json.dumps(fragment.skill.frontmatter, ensure_ascii=False),
        }
        for number, fragment in numbered
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
        for number, fragment in numbered
        for file in fragment.skill_files
    )


def fragment_scenarios(fragments: Sequence[Fragment]) -> ScenarioIds:
    """Return the id of each scenario of a library by (fragment id, text).

    Raises:
        BuildError: Two could not be told apart by their hash.
    """
    owned = [(fragment.id, text) for fragment in fragments for text in fragment.use_when]
    return dict(zip(owned, scenario_ids(owned), strict=True))


def _write_scenarios(
    db: sqlite_utils.Database, numbered: Numbered, ids: ScenarioIds, taken: int = 0
) -> list[tuple[int, int, str]]:
    """Write the scenarios behind row *taken* and return (scenario row, fragment number, text) of each."""
    owned = [(number, f.id, i, text) for number, f in numbered for i, text in enumerate(f.use_when)]
    rows = list(enumerate(owned, start=taken + 1))
    db.table("scenario").insert_all(
        {"id": row, "scenario_id": ids[id_, text], "fragment_id": number, "ordinal": ordinal, "text": text}
        for row, (number, id_, ordinal, text) in rows
    )
    return [(row, number, text) for row, (number, _, _, text) in rows]


def _write_references(db: sqlite_utils.Database, numbered: Numbered, numbers: Mapping[str, int]) -> None:
    db.table("reference").insert_all(
        {
            "fragment_id": number,
            "ordinal": ordinal,
            "target": reference.target,
            "target_id": numbers.get(reference.target),
            "kind": reference.kind,
            "line": reference.line,
        }
        for number, fragment in numbered
        for ordinal, reference in enumerate(fragment.references)
    )


def _write_full_text(connection: sqlite3.Connection, numbered: Numbered) -> None:
    connection.executemany(INSERT_TEXT, ((number, *indexed_texts(fragment)) for number, fragment in numbered))


def indexed_texts(fragment: Fragment) -> tuple[str, ...]:
    """Return the columns of `fragment_text` for a fragment."""
    lists = ("\n".join(lines) for lines in (fragment.tags, fragment.capabilities, fragment.use_when))
    texts = (fragment.name, fragment.title, *lists, fragment.description, fragment.body)
    return tuple(index_text(text) for text in texts)


def json_text(value: object) -> str:
    """Return *value* as JSON with sorted names."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=dict)
