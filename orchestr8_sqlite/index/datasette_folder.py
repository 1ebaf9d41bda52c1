"""An index → a folder that Datasette starts from: a copy of the index, and what to show of it.

Datasette 0.65 reads how to show tables, and the stored queries, from `metadata.json`, and settings from
`settings.json`. Datasette 1.0 reads all three from `datasette.json`, and only descriptions from `metadata.json`. So
`metadata.json` holds everything but the settings, and `datasette.json` everything but the descriptions.

Source: docs.datasette.io, "Metadata", "Configuration", "Configuration directory mode".
"""

import hashlib
import html
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlite_utils import Database

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.comments import read_comments
from orchestr8_sqlite.index.leftovers import remove_leftovers, temporary_beside
from orchestr8_sqlite.index.stored_queries import StoredQuery, read_stored_queries
from orchestr8_sqlite.system import replace

DATABASE = "library"
"""Names the copy of the index, and so its pages: /library/fragment."""

FULL_TEXT = "fragment_text"
SHOWN: Mapping[str, Mapping[str, object]] = {
    "fragment": {
        "label_column": "path",
        "sort": "path",
        "facets": ["category"],
        "fts_table": FULL_TEXT,
        "fts_pk": "id",
    },
    "fragment_body": {"fts_table": FULL_TEXT, "fts_pk": "fragment_id", "size": 20},
    "fragment_detail": {"sort": "uri", "facets": ["category"], "size": 20},
    "tag": {"facets": ["tag"]},
    "keyword": {
        "label_column": "text",
        "sort_desc": "fragment_count",
        "fts_table": "keyword_text",
        "fts_pk": "id",
    },
    "near_copy": {"sort": "first_id", "facets": ["first_id"]},
    "reference": {"facets": ["kind", "dangles"]},
    "reference_detail": {"facets": ["kind"]},
    "source": {"label_column": "path", "sort": "path", "facets": ["root", "outcome"]},
    "root": {"sort": "ordinal"},
    "prompt": {"label_column": "name", "sort": "name", "facets": ["category"]},
    "skill": {"label_column": "path", "sort": "path"},
    "skill_file": {"label_column": "path", "sort": "path", "facets": ["fragment_id"]},
    "diagnostic": {"facets": ["severity", "code", "root"]},
    "unreviewed": {"facets": ["severity", "code", "root"]},
    "finding": {"facets": ["level", "code", "root"]},
    "review": {"facets": ["state", "rule", "reviewer"]},
    "provenance": {"facets": ["root", "owner"]},
    "library_query": {"label_column": "text", "facets": ["origin"]},
    "quick_lookup": {"facets": ["ranker"]},
}
"""How Datasette shows each table and view; it finds foreign keys by itself, and hides the full text's own tables."""

RANKING = "rank_"
HIDDEN = {"posting", "field_posting", "fragment_searched", "score_evidence"}
"""What is only of use in statements. Without a keyword, `score_evidence` takes longer than Datasette waits."""

SETTINGS = {"truncate_cells_html": 400}
"""Characters of a cell in a table; the page of a row shows all."""

NAMES = """
SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow' AND name NOT LIKE 'sqlite_%'
"""


def export_datasette(catalog: Catalog, folder: Path) -> list[Path]:
    """Write what `datasette FOLDER` needs into *folder* and return the paths.

    Raises:
        CatalogError: The index is damaged, or was replaced meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / f"{DATABASE}.db"
    _copy(catalog, database)
    present = {name for (name,) in catalog.rows(NAMES)}
    shown = {
        DATABASE: {
            "tables": _options(present),
            "queries": {query.name: _stored(query) for query in read_stored_queries()},
        }
    }
    documents: dict[str, object] = {
        "metadata.json": _merged(_metadata(catalog, present), {"databases": shown}),
        "datasette.json": {"settings": SETTINGS, "databases": shown},
        "settings.json": SETTINGS,
        "inspect-data.json": {DATABASE: _inspected(catalog, database)},
    }
    for name, document in documents.items():
        text = json.dumps(document, ensure_ascii=False, indent=2)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return [database, *(folder / name for name in documents)]


def _copy(catalog: Catalog, target: Path) -> None:
    """Copy the index in one step, so that a Datasette that is running keeps the file it has open."""
    catalog.verify(fully=True)
    remove_leftovers(target)
    with temporary_beside(target) as temporary:
        shutil.copyfile(catalog.path, temporary)
        if not catalog.is_current():
            raise CatalogError(f"{catalog.path} was replaced while it was copied; export again.")
        replace(temporary, target)


def _options(present: set[str]) -> dict[str, Mapping[str, object]]:
    """Return how to show each table and view of the index."""
    hidden = HIDDEN | {name for name in present if name.startswith(RANKING)}
    return {name: {**SHOWN.get(name, {}), **({"hidden": True} if name in hidden else {})} for name in sorted(present)}


def _stored(query: StoredQuery) -> dict[str, object]:
    """Return a stored query; its page links to itself with the examples for its parameters."""
    page = f"<p>{html.escape(query.description)}</p>"
    if query.parameters:
        address = html.escape("?" + urlencode(query.parameters))
        example = html.escape(", ".join(f"{name} = {value}" for name, value in query.parameters.items()))
        page += f'<p>For example: <a href="{address}">{example}</a></p>'
    return {
        "title": query.title,
        "description": query.description,
        "description_html": page,
        "sql": query.sql,
        "params": [*query.parameters],
    }


def _metadata(catalog: Catalog, present: set[str]) -> dict[str, Any]:
    """Return titles, and what the schema's comments say of tables and columns."""
    roots = ", ".join(json.loads(catalog.meta.get("roots", "[]")))
    counts = ", ".join(f"{int(catalog.meta[what]):,} {what}" for what in ("fragments", "scenarios", "prompts"))
    return {
        "title": f"Library {roots}".strip(),
        "description_html": f'<p>{counts}. Begin with the <a href="{DATABASE}/fragment">fragments</a>, whose '
        f'search covers all their texts, or with a <a href="{DATABASE}#queries">stored query</a>.</p>',
        "databases": {
            DATABASE: {
                "tables": {
                    name: {"description": comment.text, "columns": comment.columns}
                    for name, comment in read_comments().items()
                    if name in present
                }
            }
        },
    }


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return both documents as one; where both have a mapping, its entries are merged."""
    both = {name: _merged(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _inspected(catalog: Catalog, database: Path) -> dict[str, object]:
    """Return what `datasette inspect` would: Datasette opens a file that it describes as one that never changes."""
    with database.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with catalog.reading():
        tables = Database(catalog.db, recursive_triggers=False, execute_plugins=False).tables
        counts = {table.name: {"count": table.count} for table in tables}
    return {
        "hash": digest,
        "size": database.stat().st_size,
        "file": database.name,
        "tables": counts,
    }
