"""What an index says, whatever its rows are numbered: two indexes of one library have the same dump."""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

FULL_TEXTS = ("fragment_text", "keyword_text")

NAMES = {
    "fragment": "SELECT id, path FROM fragment",
    "keyword": "SELECT id, text FROM keyword",
    "source": "SELECT id, root || '/' || path FROM source",
    "prompt": "SELECT id, name FROM prompt",
    "query": """
        SELECT q.id, q.origin || ':' || q.text || ' ' || group_concat(f.path, ' ')
          FROM library_query q LEFT JOIN library_answer a ON a.query_id = q.id
          LEFT JOIN (SELECT id, path FROM fragment ORDER BY path) f ON f.id = a.fragment_id
         GROUP BY q.id
    """,
}
"""Tables whose rows have numbers that an updated index gives in another order, and what to call a row instead."""

SHOWN = 5
"""Rows of each index that are printed where the two differ."""

NUMBERED = {"fragment", "keyword", "source", "skill_file", "prompt", "library_query", "diagnostic"}
MEASURED = {"least_coverage", "least_coverage_of", "least_coverage_drift", "unsettled"}
TABLES = """
SELECT name FROM pragma_table_list
 WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'
"""
INSTANCES = "SELECT term, doc, col, offset FROM temp.instance_of_{0}"


Dump = dict[str, list[tuple[object, ...]]]


def dump(path: Path) -> Dump:
    """Return the rows of every table of the index at *path*, sorted; numbers of rows as what they stand for."""
    with closing(sqlite3.connect(path)) as db:
        names = {table: dict(db.execute(sql).fetchall()) for table, sql in NAMES.items()}
        tables = {name: _rows(db, name, names) for (name,) in db.execute(TABLES).fetchall()}
        for table in FULL_TEXTS:
            db.execute(f"CREATE VIRTUAL TABLE temp.instance_of_{table} USING fts5vocab (main, {table}, instance)")
            known = names[table.removesuffix("_text")]
            found = db.execute(INSTANCES.format(table))
            tables[table] = sorted((term, known[number], column, offset) for term, number, column, offset in found)
    tables["meta"] = [row for row in tables["meta"] if row[0] not in MEASURED]
    return tables


def _rows(db: sqlite3.Connection, table: str, names: Mapping[str, Mapping[int, str]]) -> list[tuple[object, ...]]:
    columns = [row[1] for row in db.execute(f"PRAGMA table_info ({table})")]
    points = {f"{name}_id": known for name, known in names.items()}
    points |= {"target_id": names["fragment"], "first_id": names["fragment"]}
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


def assert_same_rows(found: Path, expected: Path, *, but: tuple[str, ...] = ()) -> None:
    """Compare two indexes table by table, but for the tables named."""
    rows_found, rows_expected = dump(found), dump(expected)
    assert rows_found.keys() == rows_expected.keys()
    for table in sorted(rows_expected.keys() - {*but}):
        there, wanted = rows_found[table], rows_expected[table]
        assert there == wanted, _difference(table, Counter(there), Counter(wanted))
    check_full_texts(found)


def _difference(table: str, there: Counter[tuple[object, ...]], wanted: Counter[tuple[object, ...]]) -> str:
    return f"{table} has {[*(there - wanted)][:SHOWN]} instead of {[*(wanted - there)][:SHOWN]}"


def check_full_texts(path: Path) -> None:
    """Raise sqlite3.DatabaseError where the full texts of the index at *path* are not what its rows say."""
    with closing(sqlite3.connect(path)) as index, closing(sqlite3.connect(":memory:")) as db:
        index.backup(db)
        for table in FULL_TEXTS:
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")
