"""What an index says, whatever its rows are numbered: two indexes of one library have the same dump."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

NAMES = {
    "fragment": "SELECT id, path FROM fragment",
    "scenario": "SELECT s.id, f.path || ':' || s.ordinal FROM scenario s JOIN fragment f ON f.id = s.fragment_id",
    "keyword": "SELECT id, text FROM keyword",
    "source": "SELECT id, root || '/' || path FROM source",
    "prompt": "SELECT id, name FROM prompt",
    "query": "SELECT id, origin || ':' || text FROM library_query",
}
"""Tables whose rows have numbers that an updated index gives in another order, and what to call a row instead."""

NUMBERED = {"fragment", "scenario", "keyword", "source", "skill_file", "prompt", "library_query", "diagnostic"}
VIEWS = {"evidence": ("evidence_posting", "name_posting"), "body_evidence": ("body_posting",)}
"""Packed tables, and the views that unpack them."""

MEASURED = {
    "least_coverage",
    "least_coverage_of",
    "least_coverage_drift",
    "unsettled",
    "most_used_default",
    "most_used_classic",
}
PACKED = {
    *("posting_block", "containing_block", "field_block"),
    *("scenario_owner", "scenario_end", "scenario_order", "fragment_place"),
}
"""Tables that say by the numbers of rows what other tables and views say too."""

TABLES = """
SELECT name FROM pragma_table_list
 WHERE schema = 'main' AND (type = 'table' AND name NOT LIKE 'sqlite%' OR name = 'field_posting')
"""
INSTANCES = "SELECT term, doc, col, offset FROM temp.instance"


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of every table of the index at *path*, sorted; numbers of rows as what they stand for.

    Those of a packed table are the rows of its views.
    """
    db = sqlite3.connect(path)
    try:
        names = {table: dict(db.execute(sql).fetchall()) for table, sql in NAMES.items()}
        tables = {
            name: [row for view in VIEWS.get(name, (name,)) for row in _rows(db, view, names)]
            for (name,) in db.execute(TABLES).fetchall()
            if name not in PACKED
        }
        db.execute("CREATE VIRTUAL TABLE temp.instance USING fts5vocab (main, fragment_text, instance)")
        tables["fragment_text"] = sorted(
            (term, names["fragment"][number], column, offset) for term, number, column, offset in db.execute(INSTANCES)
        )
    finally:
        db.close()
    tables["meta"] = [row for row in tables["meta"] if row[0] not in MEASURED]
    return tables


def _rows(db: sqlite3.Connection, table: str, names: Mapping[str, Mapping[int, str]]) -> list[tuple[object, ...]]:
    columns = [row[1] for row in db.execute(f"PRAGMA table_info ({table})")]
    points = {f"{name}_id": known for name, known in names.items()}
    points |= {"target_id": names["fragment"], "prefix_id": names["keyword"], "part_id": names["keyword"]}
    if table == "scenario":
        del points["scenario_id"]  # the digest, not a number
    kept = [
        (number, points.get(column))
        for number, column in enumerate(columns)
        if not (column == "id" and table in NUMBERED)
    ]
    if [known for _, known in kept] == [None] * len(columns):  # nothing in it is numbered: the database sorts it
        places = ", ".join(str(number) for number, _ in enumerate(columns, start=1))
        return db.execute(f"SELECT * FROM {table} ORDER BY {places}").fetchall()
    rows = (
        tuple(row[at] if known is None or row[at] is None else known[row[at]] for at, known in kept)
        for row in db.execute(f"SELECT * FROM {table}")
    )
    return sorted(rows, key=repr)
