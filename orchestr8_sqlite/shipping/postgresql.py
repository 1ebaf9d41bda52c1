"""Publishes an index to PostgreSQL: a schema of its own on each shard, then one row that names it.

Each shard gets its part in one transaction, which compares what arrived with the index before it ends. The first shard
ends last: the same transaction changes `orchestr8.current`, so no reader ever finds a generation that a shard lacks.
What a publisher that died has left on other shards is named nowhere, and the next one removes it.

Only what changed travels: rows of a fragment that the release before has alike are copied from its schema.
"""

import hashlib
import json
import sqlite3
import struct
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from orchestr8_sqlite.errors import CatalogError, RefusedRelease, RequestError, ShippingError, SourceError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.checksums import REBUILD
from orchestr8_sqlite.index.matching import WEIGHTS
from orchestr8_sqlite.index.postgresql import is_pooled, read_address, reason
from orchestr8_sqlite.settings import Address
from orchestr8_sqlite.shipping.postgresql_schema import (
    Table,
    create_tables,
    finish_tables,
    names,
    read_tables,
)
from orchestr8_sqlite.shipping.publish import Order, describe

KEPT = 3
"""Releases of each channel whose schemas stay, the current one included."""

LOCK = SQL("SELECT pg_try_advisory_lock(1865970545)")
"""Held by a publisher on each shard; the key is the application id of an index."""

LOCK_SECONDS = 5.0
"""How long to wait for another publisher to finish."""

CONNECT_SECONDS = 10

PATIENCE = SQL("SET LOCAL lock_timeout = '10s'")
"""How long the removal of an old schema waits for its readers."""

PLACES = 16_383
"""The highest place of a word that a tsvector can hold; later words are said to be there too."""

MOST_PLACES = 255
"""How many places of one word a tsvector can hold."""

LONGEST_WORD = 2046
"""Bytes of the longest word that a tsvector can hold; longer ones are left out."""

LISTED = [f"{place}{weight}" for place in range(PLACES + 1) for weight in ("A", "B", "C", "")]
"""Each place with each weight, as a tsvector lists them; D is not said."""

CONTROL = (
    SQL("CREATE SCHEMA IF NOT EXISTS orchestr8"),
    SQL(
        "CREATE TABLE IF NOT EXISTS orchestr8.shard (single boolean PRIMARY KEY DEFAULT true CHECK (single), "
        "home text NOT NULL, number integer NOT NULL)"
    ),
)
"""What each shard has: which set of shards it belongs to, and its number there, 0 for the first."""

ANNOUNCING = (
    SQL(
        'CREATE TABLE IF NOT EXISTS orchestr8.release (number bigint PRIMARY KEY, channel text COLLATE "C" NOT NULL, '
        "schema_name text NOT NULL, generation text NOT NULL, sha256 text NOT NULL, shards integer NOT NULL, "
        "gate json, published_at timestamptz NOT NULL)"
    ),
    SQL(
        'CREATE TABLE IF NOT EXISTS orchestr8.current (channel text COLLATE "C" PRIMARY KEY, '
        "schema_name text NOT NULL, generation text NOT NULL, sha256 text NOT NULL, shards integer NOT NULL, "
        "published_at timestamptz NOT NULL)"
    ),
    SQL("COMMENT ON TABLE orchestr8.release IS 'All releases, oldest first by number.'"),
    SQL("COMMENT ON TABLE orchestr8.current IS 'The newest release of each channel: read from its schema.'"),
)
"""What the first shard has besides."""

HOME = SQL("SELECT home, number FROM orchestr8.shard")
JOIN = SQL("INSERT INTO orchestr8.shard (home, number) VALUES (%(home)s, %(number)s)")
NEW_HOME = SQL("SELECT gen_random_uuid()::text")
DATABASE = SQL(
    "SELECT system_identifier::text || current_database(), current_setting('server_encoding') FROM pg_control_system()"
)
CURRENT = SQL("SELECT schema_name, sha256, shards FROM orchestr8.current WHERE channel = %(channel)s")
NEXT_NUMBER = SQL("SELECT coalesce(max(number), 0) + 1 FROM orchestr8.release")
HAS_SCHEMA = SQL("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(name)s)")
ANNOUNCE = SQL("""
WITH new AS (
    INSERT INTO orchestr8.release (number, channel, schema_name, generation, sha256, shards, gate, published_at)
    VALUES (%(number)s, %(channel)s, %(schema)s, %(generation)s, %(sha256)s, %(shards)s, %(gate)s::json, now())
    RETURNING channel, schema_name, generation, sha256, shards, published_at)
INSERT INTO orchestr8.current (channel, schema_name, generation, sha256, shards, published_at) SELECT * FROM new
ON CONFLICT (channel) DO UPDATE
   SET schema_name = excluded.schema_name, generation = excluded.generation, sha256 = excluded.sha256,
       shards = excluded.shards, published_at = excluded.published_at
""")
KEPT_SCHEMAS = SQL("""
SELECT schema_name FROM (SELECT schema_name, row_number() OVER (PARTITION BY channel ORDER BY number DESC) AS age
                           FROM orchestr8.release) AS aged
 WHERE age <= %(kept)s
""")
OUR_SCHEMAS = SQL(r"SELECT nspname FROM pg_namespace WHERE nspname ~ '^orchestr8_\d+$' ORDER BY 1")

VERSION = SQL("SELECT value FROM {}.meta WHERE key = 'schema_version'")

LAST = "SELECT coalesce(max(id), 0) FROM fragment"
URIS = "SELECT id, uri FROM fragment"
BEGIN = """
PRAGMA temp_store = FILE;
CREATE VIRTUAL TABLE temp.instance USING fts5vocab (main, fragment_text, instance);
CREATE TABLE temp.going (part INTEGER PRIMARY KEY, shard INTEGER NOT NULL);
CREATE TABLE temp.fragment_text (fragment_id INTEGER PRIMARY KEY, words TEXT NOT NULL);
BEGIN;
"""
"""Makes tables beside the index, on disk: its words; which fragments of a table go to which shard; tsvectors. The name
fragment_text means the last one from then on."""

INSTANCES = 'SELECT doc, term, col, "offset" FROM temp.instance ORDER BY doc'
"""Every word of the full text, fragment by fragment, as FTS5 has read them."""

TO_TEXT = "INSERT INTO temp.fragment_text (fragment_id, words) VALUES (?, ?)"
NONE_GOES = "DELETE FROM temp.going"
GOES = "INSERT INTO temp.going (part, shard) VALUES (?, ?)"

SAID = {
    "INTEGER": "\"{0}\" || ' '",
    "REAL": "bytes_of(\"{0}\") || ' '",
    "BLOB": "lower(hex(\"{0}\")) || ' '",
    "TEXT": 'length(CAST("{0}" AS BLOB)) || \':\' || "{0}"',
    "TSVECTOR": 'length(CAST("{0}" AS BLOB)) || \':\' || "{0}"',
}
SAID_THERE = {
    "INTEGER": SQL("{0} || ' '"),
    "REAL": SQL("encode(float8send({0}), 'hex') || ' '"),
    "BLOB": SQL("encode({0}, 'hex') || ' '"),
    "TEXT": SQL("octet_length({0}) || ':' || {0}"),
    "TSVECTOR": SQL("octet_length({0}::text) || ':' || {0}::text"),
}
"""A value as the digests have it, in SQLite and in PostgreSQL; '- ' stands for NULL."""

ESCAPED = (
    """replace(replace(replace(replace("{0}", '\\', '\\\\'), char(9), '\\t'), char(10), '\\n'), char(13), '\\r')"""
)
COPIED = {
    "INTEGER": '"{0}"',
    "REAL": 'shortest("{0}")',
    "BLOB": """'\\\\x' || hex("{0}")""",
    "TEXT": ESCAPED,
    "TSVECTOR": ESCAPED,
}
"""A value as COPY reads it."""

BATCH = 200
"""Rows that are sent at once."""

DIGESTS = SQL("""
SELECT part, count(*) AS rows, sha256(convert_to(string_agg({said}, ''), 'UTF8')) AS digest
  FROM (SELECT *, {part} AS part FROM {table} ORDER BY part, {key}) AS ordered
 GROUP BY part
""")
CHECKSUM = SQL("""
SELECT count(*), coalesce(sum(rows), 0),
       coalesce(sum(('x' || encode(substr(digest, 1, 8), 'hex'))::bit(64)::bigint), 0),
       coalesce(sum(('x' || encode(substr(digest, 9, 8), 'hex'))::bit(64)::bigint), 0)
  FROM ({digests}) AS digested
""")
"""Does in PostgreSQL what `Checksum` does with the rows of the index."""

FIRST_HALVES = SQL("""
SELECT coalesce(string_agg(int8send(part) || substr(digest, 1, 8), ''::bytea), ''::bytea) FROM ({digests}) AS digested
""")
KEEP = SQL("INSERT INTO {table} ({columns}) SELECT {columns} FROM {before}.{table} AS old WHERE {condition}")
NOT_GONE = SQL("NOT EXISTS (SELECT FROM unnest(%(gone)s::bigint[]) AS gone (id) WHERE gone.id = old.{})")

T = TypeVar("T")
Row = tuple[Any, ...]


class Announced(NamedTuple):
    """What a publisher did: whether the channel names something new, and what it names.

    `left` counts old schemas that could not be removed, because somebody reads them; the next release removes them.
    `sent` counts the rows that travelled, of `rows` on all shards; the others were copied from the release before.
    """

    is_new: bool
    fields: Mapping[str, Any]
    left: int = 0
    sent: int = 0
    rows: int = 0


class Checksum(NamedTuple):
    """How many parts a table has, how many rows they have, and the sums of two halves of the parts' digests.

    A part is all rows of a fragment, sorted by their primary key; each row where no fragment owns it. Its digest is the
    SHA-256 of their values, of which 64 bits each are added up as signed numbers. So a checksum has one size however
    many rows there are, and needs no order of the parts. It differs if a value or a row is missing, added or changed,
    or at another fragment: by accident two tables have the same one with a probability of 2^-128. It is no signature;
    who can choose the rows can find others with the same sums.
    """

    parts: int = 0
    rows: int = 0
    first: int = 0
    second: int = 0

    def plus(self, rows: int, first: int, second: int) -> "Checksum":
        """Return the checksum with another part."""
        return Checksum(self.parts + 1, self.rows + rows, self.first + first, self.second + second)


class Shard:
    """An open connection to one database, and the checksums of what it should hold, by table.

    `place` is its address without user and password.
    """

    def __init__(self, address: str) -> None:
        self.place, self._secrets, given = read_address(address)
        with self.told():
            self.db = psycopg.connect(**{"connect_timeout": CONNECT_SECONDS, **given, "client_encoding": "UTF8"})
            if is_pooled(self.db):
                self.db.close()
                raise RequestError(
                    f"{self.place} is a pooler, which does not hold the lock of a publisher; name the database's own "
                    "address."
                )
        self.checksums: dict[str, Checksum] = {}

    def run(self, *statements: SQL | Composed | bytes, **values: object) -> list[Row]:
        """Return the rows of the last of the statements, each of which may use the values."""
        found: list[Row] = []
        with self.told():
            for statement in statements:
                done = self.db.execute(statement, values or None)
                found = done.fetchall() if done.description else []
        return found

    def commit(self) -> None:
        """End the transaction."""
        with self.told():
            self.db.commit()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Make one sentence, without a password, of what goes wrong with the server meanwhile."""
        try:
            yield
        except psycopg.Error as problem:
            why = reason(problem, self._secrets)
            if isinstance(problem, psycopg.OperationalError):
                raise SourceError(f"{self.place} cannot be reached or broke off: {why}.") from None
            raise ShippingError(f"{self.place} refused: {why}.") from None


def publish_to_postgresql(order: Order, to: str) -> Announced:
    """Publish an index to the shards that *to* lists, the first of which announces it.

    Raises:
        CatalogError: The file is not a whole index.
        RequestError: An address cannot be used.
        RefusedRelease: Another publisher is at work; nothing was changed.
        ShippingError: A server refused something, or holds other rows than the index; nothing was announced.
        SourceError: A server cannot be reached, or broke off.
    """
    if order.key is not None or order.serial is not None:
        raise RequestError("PostgreSQL takes neither --sign nor --serial: its roles say who may publish.")
    with ExitStack() as stack:
        catalog = stack.enter_context(Catalog.open(order.file))
        draft = describe(order.file)
        shards: list[Shard] = []
        for address in Address(to).shards:
            shards.append(Shard(address))
            stack.enter_context(closing(shards[-1].db))  # without a commit
        _claim(shards)
        return _publish(order, draft, catalog, shards)


def _claim(shards: Sequence[Shard]) -> None:
    """Lock every shard against other publishers until its connection ends, and let each belong to one set of shards."""
    databases = [shard.run(DATABASE)[0] for shard in shards]
    if len({name for name, _ in databases}) < len(shards):
        raise RequestError("Two of the addresses lead to the same database; name each shard once.")
    for shard, (_, encoding) in zip(shards, databases, strict=True):
        if encoding != "UTF8":
            raise RequestError(f"{shard.place} has the encoding {encoding}; create the database with UTF8.")
        _lock(shard)
    home = ""
    for number, shard in enumerate(shards):
        found = shard.run(*CONTROL, HOME)
        home = home or (found[0][0] if found else shard.run(NEW_HOME)[0][0])
        if not found:
            shard.run(JOIN, home=home, number=number)
        elif found != [(home, number)]:
            raise RequestError(
                f"{shard.place} is shard {found[0][1] + 1} of other addresses; name the shards in the order of before, "
                "and new ones last."
            )
        shard.commit()


def _lock(shard: Shard) -> None:
    """Wait until no other publisher is at work; a server takes a moment to see that one has died."""
    until = time.monotonic() + LOCK_SECONDS
    while not shard.run(LOCK)[0][0]:
        if time.monotonic() > until:
            raise RefusedRelease(f"Another publisher is at work on {shard.place}; publish again when it is done.")
        time.sleep(0.1)


def _publish(order: Order, draft: Mapping[str, Any], catalog: Catalog, shards: Sequence[Shard]) -> Announced:
    first, places = shards[0], [shard.place for shard in shards]
    fields = {"channel": order.channel, "generation": draft["generation"], "sha256": draft["sha256"]}
    fields |= {"fragments": draft["fragments"], "gate": order.gate, "shards": places}
    now = first.run(*ANNOUNCING, CURRENT, channel=order.channel)
    if now and now[0][1:] == (draft["sha256"], len(shards)):
        schema = now[0][0]
        if all(shard.run(HAS_SCHEMA, name=schema)[0][0] for shard in shards):
            return Announced(is_new=False, fields={"schema": schema, **fields})
    before = now[0][0] if now and _is_like(now[0], draft["schema"], shards) else None
    ((number,),) = first.run(NEXT_NUMBER)
    schema = f"orchestr8_{number}"
    sent = _fill(catalog, shards, schema, before)
    if order.sql:
        _on_each(shards, lambda shard: shard.run(order.sql.encode()))
    if not catalog.is_current():
        raise CatalogError(f"{order.file} was replaced while it was read; publish again.")
    values = {**fields, "number": number, "schema": schema, "shards": len(shards), "gate": json.dumps(order.gate)}
    first.run(ANNOUNCE, **values)
    for shard in (*shards[1:], first):
        shard.commit()
    rows = sum(checksum.rows for shard in shards for checksum in shard.checksums.values())
    fields = {"schema": schema, **fields}
    return Announced(is_new=True, fields=fields, left=_remove_old(shards), sent=sent, rows=rows)


def _is_like(release: Row, version: str, shards: Sequence[Shard]) -> bool:
    """Tell whether the shards hold a release whose rows can be copied: as many shards, the same version of the schema.

    *release* is its schema, its SHA-256 and the number of its shards.
    """
    schema, _, count = release
    return count == len(shards) and all(
        shard.run(HAS_SCHEMA, name=schema)[0][0] and shard.run(VERSION.format(Identifier(schema))) == [(version,)]
        for shard in shards
    )


def _fill(catalog: Catalog, shards: Sequence[Shard], schema: str, before: str | None) -> int:
    """Make the schema on each shard, bring its part of the index into it, and compare; return how many rows were sent.

    Rows that *before* has too, the schema of another release, are copied from it.
    """
    tables = read_tables()
    try:
        db = catalog.db
        db.executescript(BEGIN)
        db.create_function("bytes_of", 1, lambda number: struct.pack(">d", number).hex(), deterministic=True)
        db.create_function("shortest", 1, repr, deterministic=True)
        shard_of = _place(db, len(shards))
        db.executemany(TO_TEXT, _read_texts(db))
        _on_each(shards, partial(_create, schema=schema, tables=tables))
        sent = sum(_copy_table(db, table, shards, shard_of, before) for table in tables)
    except sqlite3.Error as problem:
        raise CatalogError(f"{catalog.path} cannot be read ({problem}); {REBUILD}.") from None
    _on_each(shards, partial(_finish, tables=tables, is_whole=len(shards) == 1))
    return sent


def _place(db: sqlite3.Connection, shards: int) -> Sequence[int]:
    """Return the number of each fragment's shard by its id; ids have few gaps, and an array is small."""
    ((last,),) = db.execute(LAST)
    shard_of = array("H", bytes(2 * (last + 1)))
    for id_, uri in db.execute(URIS):
        shard_of[id_] = shard_of_uri(uri, shards)
    return shard_of


def _on_each(shards: Sequence[Shard], act: Callable[..., T], *of_each: Sequence[object]) -> list[T]:
    """Do the same on all shards at once, each with its own of the other values, and return what each gave."""
    with ThreadPoolExecutor(len(shards)) as threads:
        return list(threads.map(act, shards, *of_each))


def _create(shard: Shard, schema: str, tables: Sequence[Table]) -> None:
    name = Identifier(schema)
    shard.run(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))  # left by a publisher that died: no one reads it
    shard.run(SQL("CREATE SCHEMA {}").format(name), SQL("SET LOCAL search_path TO {}").format(name))
    shard.run(*create_tables(tables))


def _finish(shard: Shard, tables: Sequence[Table], *, is_whole: bool) -> None:
    """Complete full tables, and compare each with the index.

    Raises:
        ShippingError: One differs.
    """
    shard.run(*finish_tables(tables, is_whole=is_whole))
    for table in tables:
        if _checksum(shard, table) != shard.checksums[table.name]:
            raise ShippingError(
                f"{shard.place} holds other rows than the index in {table.name}; nothing was announced."
            )


def shard_of_uri(uri: str, shards: int) -> int:
    """Return the number of the shard, from 0 on, that holds a fragment: 8 bytes of its URI's SHA-256, modulo."""
    return int.from_bytes(hashlib.sha256(uri.encode()).digest()[:8]) % shards


def _copy_table(
    db: sqlite3.Connection, table: Table, shards: Sequence[Shard], shard_of: Sequence[int], before: str | None
) -> int:
    """Bring each row to the shard of its fragment, or to all of them, and return how many were sent.

    The others are alike in the schema *before*, and copied from there.
    """
    schema = Identifier(before) if before else None
    db.execute(NONE_GOES)
    if table.owner is None:
        total = Checksum()
        for _, *part in _digests(db, table):
            total = total.plus(*part)
        are_alike = _on_each(shards, partial(_keep_alike, table=table, schema=schema, checksum=total))
        db.executemany(GOES, [(number, number) for number, is_alike in enumerate(are_alike) if not is_alike])
        return _send(db, table, shards)
    known = _on_each(shards, partial(_first_halves, table=table, schema=schema)) if schema else [{} for _ in shards]
    db.executemany(GOES, _choose(db, table, shards, shard_of, known))
    sent = _send(db, table, shards)
    if schema:
        keep = _keep(table, schema, NOT_GONE.format(Identifier(table.owner)))
        _on_each(shards, lambda shard, gone: shard.run(keep, gone=f"{{{','.join(map(str, gone))}}}"), known)
    return sent


def _keep_alike(shard: Shard, table: Table, schema: Identifier | None, checksum: Checksum) -> bool:
    """Copy a whole table from a schema if it has the checksum there that it should have, and tell whether it had."""
    shard.checksums[table.name] = checksum
    if schema is None or _checksum(shard, table, schema) != checksum:
        return False
    shard.run(_keep(table, schema, SQL("true")))
    return True


def _choose(
    db: sqlite3.Connection,
    table: Table,
    shards: Sequence[Shard],
    shard_of: Sequence[int],
    known: Sequence[dict[int, int]],
) -> Iterator[tuple[int, int]]:
    """Yield the fragments whose rows have to be sent, with their shards; add up the checksums of all.

    *known* are the first halves of the digests that each shard has already; those that stay right are removed.
    """
    totals = [Checksum() for _ in shards]
    for owner, *part in _digests(db, table):
        number = shard_of[owner]
        totals[number] = totals[number].plus(*part)
        if known[number].get(owner) == part[1]:
            del known[number][owner]
        else:
            yield owner, number
    for shard, total in zip(shards, totals, strict=True):
        shard.checksums[table.name] = total


def _digests(db: sqlite3.Connection, table: Table) -> Iterator[tuple[int, int, int, int]]:
    """Yield each part of a table: its fragment, how many rows it has, and two halves of the digest of their values."""
    part = f'"{table.owner}"' if table.owner else "row_number() OVER ()"
    said = " || ".join(f"coalesce({SAID[column.type].format(column.name)}, '- ')" for column in table.columns)
    key = ", ".join(f'"{name}"' for name in table.key)
    rows = db.execute(f'SELECT {part} AS part, {said} FROM "{table.name}" ORDER BY part, {key}')  # noqa: S608 - names of schema.sql
    for id_, group in groupby(rows, itemgetter(0)):
        texts = [text for _, text in group]
        first, second = struct.unpack_from(">qq", hashlib.sha256("".join(texts).encode()).digest())
        yield id_, len(texts), first, second


def _send(db: sqlite3.Connection, table: Table, shards: Sequence[Shard]) -> int:
    """Send the rows that `temp.going` names to their shards, in the order of the index, and return how many."""
    line = " || char(9) || ".join(
        f"coalesce({COPIED[column.type].format(column.name)}, '\\N')" for column in table.columns
    )
    on = f'going.part = "{table.name}"."{table.owner}"' if table.owner else "true"
    rows = db.execute(f'SELECT shard, {line} || char(10) FROM "{table.name}" CROSS JOIN temp.going ON {on}')  # noqa: S608 - names of schema.sql
    statement = SQL("COPY {} ({}) FROM STDIN (FREEZE)").format(
        Identifier(table.name), names([c.name for c in table.columns])
    )
    sent = 0
    with ExitStack() as stack:
        copies = []
        for shard in shards:
            stack.enter_context(shard.told())
            copies.append(stack.enter_context(shard.db.cursor().copy(statement)))
        while some := rows.fetchmany(BATCH):
            lines: list[list[str]] = [[] for _ in shards]
            for number, text in some:
                lines[number].append(text)
            for shard, copy, mine in zip(shards, copies, lines, strict=True):
                with shard.told():
                    copy.write("".join(mine))
            sent += len(some)
    return sent


def _keep(table: Table, schema: Identifier, condition: SQL | Composed) -> Composed:
    """Return the statement that copies the rows of the condition from a schema."""
    columns = names([column.name for column in table.columns])
    return KEEP.format(table=Identifier(table.name), columns=columns, before=schema, condition=condition)


def _checksum(shard: Shard, table: Table, schema: Identifier | None = None) -> Checksum:
    """Return the checksum of a table on a shard, in the schema at work or another one."""
    return Checksum(*map(int, shard.run(CHECKSUM.format(digests=_digests_of(table, schema)))[0]))


def _first_halves(shard: Shard, table: Table, schema: Identifier) -> dict[int, int]:
    """Return the first half of the digest of each fragment's rows in a table."""
    ((packed,),) = shard.run(FIRST_HALVES.format(digests=_digests_of(table, schema)))
    return dict(struct.iter_unpack(">qq", packed))


def _digests_of(table: Table, schema: Identifier | None) -> Composed:
    said = [
        SQL("coalesce({}, '- ')").format(SAID_THERE[column.type].format(Identifier(column.name)))
        for column in table.columns
    ]
    part = Identifier(table.owner) if table.owner else SQL("row_number() OVER ()")
    name = SQL("{}.{}").format(schema, Identifier(table.name)) if schema else Identifier(table.name)
    return DIGESTS.format(said=SQL(" || ").join(said), part=part, table=name, key=names(table.key))


def _read_texts(db: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """Yield each fragment with its words as a tsvector, in the form that PostgreSQL gives it."""
    for id_, instances in groupby(db.execute(INSTANCES), itemgetter(0)):
        places = places_of(list(instances))
        words = (word for word in sorted(places) if len(word.encode()) <= LONGEST_WORD)
        yield id_, " ".join([f"{_quoted(word)}:{_listed(places[word])}" for word in words])


def places_of(instances: Sequence[tuple[int, str, str, int]]) -> dict[str, list[int]]:
    """Return the places of each word in a fragment, from 1 on: each times four, plus 0 to 3 for the weights A to D.

    *instances* are rows of INSTANCES, in any order. Between two fields one place stays empty, so that no
    phrase is found across them.
    """
    lasts: dict[str, int] = {}
    for _, _, field, offset in instances:
        if offset > lasts.get(field, -1):
            lasts[field] = offset
    starts, start = {}, 1
    for field, weight in WEIGHTS.items():
        if field in lasts:
            starts[field] = 4 * start + "ABCD".index(weight)
            start += lasts[field] + 2
    found: defaultdict[str, list[int]] = defaultdict(list)
    for _, word, field, offset in instances:
        found[word].append(starts[field] + 4 * offset)
    return found


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _listed(places: list[int]) -> str:
    """Return places of a word as a tsvector lists them: no more than MOST_PLACES, those above PLACES as one."""
    places.sort()
    while len(places) > 1 and places[-2] >= 4 * PLACES:
        places.pop()
    if places[-1] > 4 * PLACES:
        places[-1] = 4 * PLACES + places[-1] % 4
    return ",".join([LISTED[place] for place in places[:MOST_PLACES]])


def _remove_old(shards: Sequence[Shard]) -> int:
    """Remove the schemas that no channel keeps, and return how many could not be removed."""
    left = 0
    try:
        kept = {name for (name,) in shards[0].run(KEPT_SCHEMAS, kept=KEPT)}
        for shard in shards:
            for (name,) in shard.run(OUR_SCHEMAS):
                if name not in kept:
                    left += not _remove(shard, name)
            shard.commit()
    except ShippingError:
        left += 1
    return left


def _remove(shard: Shard, name: str) -> bool:
    """Remove a schema, unless somebody still reads it, and tell whether it is gone."""
    shard.commit()
    try:
        shard.run(PATIENCE, SQL("DROP SCHEMA {} CASCADE").format(Identifier(name)))
        shard.commit()
    except ShippingError:
        with shard.told():
            shard.db.rollback()
        return False
    return True
