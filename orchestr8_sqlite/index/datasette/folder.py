"""An index → a folder that Datasette starts from: a copy of the index, what to show of it, and a plugin.

Datasette 0.65 reads how to show tables, and the stored queries, from `metadata.json`, and settings from
`settings.json`. Datasette 1.0 reads all three from `datasette.json`, and only descriptions from `metadata.json`. So
`metadata.json` holds everything but the settings, and `datasette.json` everything but the descriptions.

Source: docs.datasette.io, "Metadata", "Configuration", "Configuration directory mode".
"""

import hashlib
import html
import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlite_utils import Database

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.comments import read_comments
from orchestr8_sqlite.index.datasette.queries import StoredQuery, find_examples, read_stored_queries
from orchestr8_sqlite.index.leftovers import remove_leftovers, temporary_beside
from orchestr8_sqlite.system import replace

DATABASE = "library"
"""Names the copy of the index, and so its pages: /library/fragment."""

SEARCHED = {"fts_table": "fragment_text", "fts_pk": "id"}
SHOWN: Mapping[str, Mapping[str, object]] = {
    "fragment": {"label_column": "path", "sort": "path", "facets": ["category"], **SEARCHED},
    "fragment_body": {"size": 20, **SEARCHED, "fts_pk": "fragment_id"},
    "fragment_detail": {"sort": "uri", "facets": ["category"], "size": 20},
    "fragment_searched": {"size": 20, **SEARCHED},
    "tag": {"facets": ["tag"]},
    "keyword": {"label_column": "text", "sort_desc": "fragment_count", "fts_table": "keyword_text", "fts_pk": "id"},
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
    "posting": {"hidden": True},
    "field_posting": {"hidden": True},
    "score_evidence": {"allow": False},  # Datasette gives up on it, unless a statement names the keywords
}
"""How Datasette shows tables and views; it finds the foreign keys by itself. What `allow` excludes, SQL still reads."""

RANKING = "rank_"
"""Begins the names of tables that serve the ranking alone; they are hidden, like the full text's own tables."""

SETTINGS = {"truncate_cells_html": 400, "sql_time_limit_ms": 5_000, "facet_time_limit_ms": 1_000}
"""Characters of a cell, and more milliseconds than Datasette grants to strangers: this folder has one user."""

TABLES = """
SELECT name, type = 'virtual' FROM pragma_table_list
 WHERE schema = 'main' AND type <> 'shadow' AND name NOT LIKE 'sqlite_%' ORDER BY name
"""
PLUGIN = "links.py"
BEGIN = {
    "fragment?_col=title&amp;_col=category&amp;_col=uri&amp;_col=token_estimate&amp;_col=description": "all fragments",
    "search": "search the full text",
    "coverage": "which words the library covers",
    "problems": "files by their problems",
    "near-copies": "fragments that say nearly the same",
}
"""Pages that a newcomer is led to, with their labels; Datasette 1.0 lists only the first few stored queries."""


def export_datasette(catalog: Catalog, folder: Path) -> list[Path]:
    """Write what `datasette FOLDER` needs into *folder* and return the paths.

    Raises:
        CatalogError: The index is damaged, or was replaced meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / f"{DATABASE}.db"
    _copy(catalog, database)
    tables = {name: {**SHOWN.get(name, {}), **_hidden(name, is_virtual)} for name, is_virtual in catalog.rows(TABLES)}
    queries = {query.name: _stored(catalog, query) for query in read_stored_queries()}
    shown = {DATABASE: {"tables": tables, "queries": queries}}
    documents: dict[str, object] = {
        "metadata.json": _merged(_metadata(catalog, tables.keys()), {"databases": shown}),
        "datasette.json": {"settings": SETTINGS, "databases": shown},
        "settings.json": SETTINGS,
        "inspect-data.json": {DATABASE: _inspected(catalog, database)},
    }
    for name, document in documents.items():
        text = json.dumps(document, ensure_ascii=False, indent=2)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    plugin = folder / "plugins" / PLUGIN
    plugin.parent.mkdir(exist_ok=True)
    plugin.write_bytes(Path(__file__).with_name(PLUGIN).read_bytes())
    return [database, *(folder / name for name in documents), plugin]


def _copy(catalog: Catalog, target: Path) -> None:
    """Copy the index in one step, so that a Datasette that is running keeps the file it has open."""
    catalog.verify(fully=True)
    remove_leftovers(target)
    with temporary_beside(target) as temporary:
        shutil.copyfile(catalog.path, temporary)
        if not catalog.is_current():
            raise CatalogError(f"{catalog.path} was replaced while it was copied; export again.")
        replace(temporary, target)


def _hidden(name: str, is_virtual: bool) -> Mapping[str, object]:
    return {"hidden": True} if is_virtual or name.startswith(RANKING) else {}


def _stored(catalog: Catalog, query: StoredQuery) -> dict[str, object]:
    """Return a stored query; its page links to itself with examples for its parameters."""
    page = f"<p>{html.escape(query.description)}</p>"
    examples = {name: value for name, value in find_examples(catalog, query).items() if value}
    if examples:
        address = html.escape("?" + urlencode(examples))
        label = html.escape(", ".join(f"{name} = {value}" for name, value in examples.items()))
        page += f'<p>For example: <a href="{address}">{label}</a></p>'
    return {
        "title": query.title,
        "description": query.description,
        "description_html": page,
        "sql": query.sql,
        "params": [*query.parameters],
        "hide_sql": True,
    }


def _metadata(catalog: Catalog, tables: Collection[str]) -> dict[str, Any]:
    """Return titles, and what the schema's comments say of tables and columns."""
    counts = ", ".join(f"{int(catalog.meta[what]):,} {what}" for what in ("fragments", "scenarios", "prompts"))
    begin = " · ".join(f'<a href="{DATABASE}/{page}">{label}</a>' for page, label in BEGIN.items())
    heads = {
        "title": " ".join(("Library", *json.loads(catalog.meta.get("roots", "[]")))),
        "description_html": f"<p>{counts}</p><p>Begin here: {begin}</p>",
    }
    said = {
        name: {"description": comment.text, "columns": comment.columns}
        for name, comment in read_comments().items()
        if name in tables
    }
    return {**heads, "databases": {DATABASE: {**heads, "tables": said}}}


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
