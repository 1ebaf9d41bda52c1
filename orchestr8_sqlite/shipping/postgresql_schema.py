"""schema.sql as PostgreSQL statements: the same tables, columns, keys, indexes and comments, and the full text.

What differs: INTEGER is bigint, REAL is double precision, BLOB is bytea, and texts are compared by their bytes (COLLATE
"C"), as SQLite compares them. The tables of FTS5 become two: `fragment_text` holds the stems of each fragment as a
tsvector, `fragment_vocabulary` in how many fragments each occurs. The trigrams of keywords become an index. Of the
views, only VIEWS are there.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.resources import files
from typing import NamedTuple

from psycopg.sql import SQL, Composed, Identifier, Literal

from orchestr8_sqlite.index.comments import read_comments
from orchestr8_sqlite.index.dialect import FUNCTIONS, translate

TYPES = {
    "INTEGER": SQL("bigint"),
    "TEXT": SQL('text COLLATE "C"'),
    "REAL": SQL("double precision"),
    "BLOB": SQL("bytea"),
    "TSVECTOR": SQL("tsvector"),
}

OWNER = "fragment_id"
"""The column that says which fragment a row belongs to."""

VIEWS = ("unreviewed", "finding", "keyword_detail")
"""Those that PostgreSQL can have too."""

FULL_TEXT, VOCABULARY = "fragment_text", "fragment_vocabulary"

FULL_TEXT_COMMENTS = (
    SQL("COMMENT ON TABLE fragment_text IS 'Full text of each fragment as stems, those that FTS5 finds it by.'"),
    SQL("COMMENT ON COLUMN fragment_text.fragment_id IS 'The fragment.'"),
    SQL(
        "COMMENT ON COLUMN fragment_text.words IS 'Its stems with their places; A: name and title, B: tags, "
        "capabilities and description, C: scenarios, D: body.'"
    ),
)


class Column(NamedTuple):
    """A column; `type` is that of SQLite, `key` its place in the primary key from 1 on, 0 if it is not part of it."""

    name: str
    type: str
    is_required: bool = False
    default: str | None = None
    key: int = 0


class Table(NamedTuple):
    """A table of schema.sql; CHECKs and the conditions of indexes are text of that file."""

    name: str
    columns: Sequence[Column]
    checks: Sequence[str] = ()
    uniques: Sequence[Sequence[str]] = ()
    indexes: Sequence[tuple[str, Sequence[str], str]] = ()
    """Name, columns, condition or an empty text."""
    links: Sequence[tuple[str, Sequence[str], Sequence[str]]] = ()
    """Foreign keys: the other table, the columns here, the columns there."""

    @property
    def owner(self) -> str | None:
        """Return the column that names the fragment of a row; None if each shard holds all rows."""
        return "id" if self.name == "fragment" else next((c.name for c in self.columns if c.name == OWNER), None)

    @property
    def key(self) -> list[str]:
        """Return the columns of the primary key."""
        return [column.name for column in sorted(self.columns, key=lambda column: column.key) if column.key]


COPIED_VOCABULARY = Table(
    VOCABULARY,
    [Column("term", "TEXT", is_required=True, key=1), Column("doc", "INTEGER"), Column("cnt", "INTEGER")],
)
COPIED_TEXT = Table(
    FULL_TEXT,
    [Column(OWNER, "INTEGER", is_required=True, key=1), Column("words", "TSVECTOR", is_required=True)],
    links=[("fragment", [OWNER], ["id"])],
)


def read_tables() -> list[Table]:
    """Return the tables of schema.sql, then the vocabulary, which every shard holds too, and the full text."""
    schema = files("orchestr8_sqlite.index").joinpath("schema.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        plain = {name for _, name, kind, *_ in db.execute("PRAGMA table_list") if kind == "table"}
        return [*(_read_table(db, name) for name in read_comments() if name in plain), COPIED_VOCABULARY, COPIED_TEXT]


def _read_table(db: sqlite3.Connection, name: str) -> Table:
    columns = [
        Column(column, kind, bool(required) or bool(key), default, key)
        for column, kind, required, default, key in db.execute(
            'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?) ORDER BY cid', (name,)
        )
    ]
    uniques, indexes = [], []
    for index, origin in db.execute("SELECT name, origin FROM pragma_index_list(?) ORDER BY name", (name,)).fetchall():
        names = [row[0] for row in db.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,))]
        if origin == "u":
            uniques.append(names)
        elif origin == "c":
            (sql,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
            indexes.append((index, names, sql.partition(" WHERE ")[2]))
    links: dict[int, tuple[str, list[str], list[str]]] = {}
    for number, other, here, there in db.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', (name,)
    ):
        _, mine, theirs = links.setdefault(number, (other, [], []))
        mine.append(here)
        theirs.append(there)
    (sql,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    return Table(name, columns, list(_checks(sql)), uniques, indexes, list(links.values()))


def _checks(statement: str) -> Iterator[str]:
    """Yield what each CHECK of a CREATE TABLE has within its parentheses."""
    code = re.sub(r"--.*", "", statement)
    for check in re.finditer(r"CHECK \(", code):
        depth, end = 1, check.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        yield code[check.end() : end - 1]


def names(columns: Sequence[str]) -> Composed:
    """Return the quoted names with commas between them."""
    return SQL(", ").join(map(Identifier, columns))


def create_tables(tables: Sequence[Table]) -> Iterator[Composed | SQL]:
    """Yield the statements that make the empty tables, without what is quicker to add to full ones."""
    for name, definition in FUNCTIONS.items():
        yield SQL("CREATE FUNCTION {}{}").format(Identifier(name), SQL(definition))
    for table in tables:
        parts = [_column(column) for column in table.columns]
        parts += [SQL("CHECK ({})").format(SQL(check)) for check in table.checks]
        yield SQL("CREATE TABLE {} ({})").format(Identifier(table.name), SQL(", ").join(parts))


def _column(column: Column) -> Composed:
    return SQL("{} {}{}{}").format(
        Identifier(column.name),
        TYPES[column.type],
        SQL(" NOT NULL" if column.is_required else ""),
        SQL("" if column.default is None else f" DEFAULT {column.default}"),
    )


def finish_tables(tables: Sequence[Table], *, is_whole: bool) -> Iterator[Composed | SQL]:
    """Yield the statements that give full tables their keys, indexes and comments, and count them for the planner.

    Args:
        is_whole: Whether the tables hold all fragments. Otherwise a row may name a fragment of another shard, unless it
            belongs to that fragment.
    """
    for table in tables:
        yield SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(Identifier(table.name), names(table.key))
        for unique in table.uniques:
            yield SQL("ALTER TABLE {} ADD UNIQUE ({})").format(Identifier(table.name), names(unique))
        for index, columns, condition in table.indexes:
            where = SQL(f" WHERE {condition}" if condition else "")
            yield SQL("CREATE INDEX {} ON {} ({}){}").format(
                Identifier(index), Identifier(table.name), names(columns), where
            )
    yield SQL("CREATE INDEX fragment_text_by_word ON fragment_text USING gin (words)")
    yield SQL("CREATE INDEX fragment_text_by_body ON fragment_text USING gin (ts_filter(words, '{d}'))")
    yield SQL("CREATE INDEX keyword_by_trigram ON keyword USING gin (trigrams(text))")
    yield from _link_tables(tables, is_whole=is_whole)
    yield from map(SQL, _read_views())
    yield from _comment_on(tables)
    for table in tables:
        yield SQL("ANALYZE {}").format(Identifier(table.name))


def _read_views() -> Iterator[str]:
    """Yield the statements of schema.sql that make the VIEWS."""
    schema = files("orchestr8_sqlite.index").joinpath("schema.sql").read_text(encoding="utf-8")
    for name in VIEWS:
        (view,) = re.findall(rf"^CREATE VIEW {name} .*?;$", schema, re.DOTALL | re.MULTILINE)
        yield translate(view, {})


def _link_tables(tables: Sequence[Table], *, is_whole: bool) -> Iterator[Composed | SQL]:
    for table in tables:
        for other, here, there in table.links:
            if other != "fragment" or here == [OWNER] or is_whole:
                yield SQL("ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({})").format(
                    Identifier(table.name), names(here), Identifier(other), names(there)
                )


def _comment_on(tables: Sequence[Table]) -> Iterator[Composed | SQL]:
    comments = read_comments()
    for name in (table.name for table in tables):
        yield SQL("COMMENT ON TABLE {} IS {}").format(Identifier(name), Literal(comments[name].text))
        for column, text in comments[name].columns.items():
            yield SQL("COMMENT ON COLUMN {} IS {}").format(Identifier(name, column), Literal(text))
    yield from FULL_TEXT_COMMENTS
