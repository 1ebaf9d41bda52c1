"""Publishes an index to PostgreSQL: a schema of its own on each shard, then one row that names it.

Each shard gets its part in one transaction, which compares what arrived with the index before it ends. The first shard
ends last: the same transaction changes `orchestr8.current`, so no reader ever finds a generation that a shard lacks.
What a publisher that died has left on other shards is named nowhere, and the next one removes it.
"""

import hashlib
import json
import sqlite3
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from orchestr8_sqlite.errors import CatalogError, RefusedRelease, RequestError, ShippingError, SourceError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.checksums import REBUILD
from orchestr8_sqlite.index.matching import WEIGHTS
from orchestr8_sqlite.index.postgresql import read_address, reason
from orchestr8_sqlite.settings import Address
from orchestr8_sqlite.shipping.postgresql_schema import (
    FULL_TEXT,
    Column,
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

URIS = "SELECT id, uri FROM fragment"
SORT_ON_DISK = "PRAGMA temp_store = FILE"
READ_WORDS = "CREATE VIRTUAL TABLE temp.instance USING fts5vocab (main, fragment_text, instance)"
INSTANCES = """
SELECT doc, term, col, "offset" FROM temp.instance
 ORDER BY doc, CASE col WHEN 'name' THEN 0 WHEN 'title' THEN 1 WHEN 'tags' THEN 2 WHEN 'capabilities' THEN 3
                        WHEN 'scenarios' THEN 4 WHEN 'description' THEN 5 WHEN 'body' THEN 6 ELSE 7 END, "offset"
"""
"""Every word of the full text, fragment by fragment, as FTS5 has read them."""

WORDS = SQL(
    "(SELECT fragment_id, lexeme, positions::text AS positions, weights::text AS weights "
    "FROM fragment_text, unnest(words)) AS word"
)
WORD_COLUMNS = [Column("fragment_id", "INTEGER")] + [
    Column(name, "TEXT") for name in ("lexeme", "positions", "weights")
]

TEXTS = {
    "INTEGER": SQL("{}::text"),
    "TEXT": SQL("{}"),
    "REAL": SQL("encode(float8send({}), 'hex')"),
    "BLOB": SQL("encode({}, 'hex')"),
}
ROW_DIGESTS = SQL("""
SELECT count(*), encode(sha256(coalesce(string_agg(digest, ''::bytea ORDER BY digest), ''::bytea)), 'hex')
  FROM (SELECT sha256(convert_to({}, 'UTF8')) AS digest FROM {}) AS digested
""")
"""Does in PostgreSQL what `digest` does with the rows that are sent."""

Row = tuple[Any, ...]


class Announced(NamedTuple):
    """What a publisher did: whether the channel names something new, and what it names.

    `left` counts old schemas that could not be removed, because somebody reads them; the next release removes them.
    """

    is_new: bool
    fields: Mapping[str, Any]
    left: int = 0


class Shard:
    """An open connection to one database, and the digests of the rows that it was given, by table.

    `place` is its address without user and password.
    """

    def __init__(self, address: str) -> None:
        self.place, self._secrets, given = read_address(address)
        with self.told():
            self.db = psycopg.connect(**{"connect_timeout": CONNECT_SECONDS, **given, "client_encoding": "UTF8"})
        self.digests: dict[str, list[bytes]] = {}

    def run(self, *statements: SQL | Composed, **values: object) -> list[Row]:
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
    ((number,),) = first.run(NEXT_NUMBER)
    schema = f"orchestr8_{number}"
    _fill(catalog, shards, schema)
    if not catalog.is_current():
        raise CatalogError(f"{order.file} was replaced while it was read; publish again.")
    values = {**fields, "number": number, "schema": schema, "shards": len(shards), "gate": json.dumps(order.gate)}
    first.run(ANNOUNCE, **values)
    for shard in (*shards[1:], first):
        shard.commit()
    return Announced(is_new=True, fields={"schema": schema, **fields}, left=_remove_old(shards))


def _fill(catalog: Catalog, shards: Sequence[Shard], schema: str) -> None:
    """Make the schema on each shard, copy its part of the index into it, and compare the two."""
    tables = read_tables()
    for shard in shards:
        name = Identifier(schema)
        shard.run(
            SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name)
        )  # left by a publisher that died: no one reads it
        shard.run(SQL("CREATE SCHEMA {}").format(name), SQL("SET LOCAL search_path TO {}").format(name))
        shard.run(*create_tables(tables))
    try:
        shard_of = {id_: shard_of_uri(uri, len(shards)) for id_, uri in catalog.db.execute(URIS)}
        for table in tables:
            _copy_table(catalog.db, table, shards, shard_of)
        _copy_words(catalog.db, shards, shard_of)
    except sqlite3.Error as problem:
        raise CatalogError(f"{catalog.path} cannot be read ({problem}); {REBUILD}.") from None
    for shard in shards:
        shard.run(*finish_tables(tables, is_whole=len(shards) == 1))
        for table in tables:
            _compare(shard, table.name, table.columns, Identifier(table.name))
        _compare(shard, FULL_TEXT, WORD_COLUMNS, WORDS)


def shard_of_uri(uri: str, shards: int) -> int:
    """Return the number of the shard, from 0 on, that holds a fragment: 8 bytes of its URI's SHA-256, modulo."""
    return int.from_bytes(hashlib.sha256(uri.encode()).digest()[:8]) % shards


def _copy_table(db: sqlite3.Connection, table: Table, shards: Sequence[Shard], shard_of: Mapping[int, int]) -> None:
    """Copy each row to the shard of its fragment, or to all of them."""
    columns = [column.name for column in table.columns]
    owner = columns.index(table.owner) if table.owner else None
    listed = ", ".join(f'"{column}"' for column in columns)
    rows = db.execute(f'SELECT {listed} FROM "{table.name}"')  # noqa: S608 - names of schema.sql
    with _copying(table.name, columns, shards) as write:
        for row in rows:
            places = range(len(shards)) if owner is None else (shard_of[row[owner]],)
            for place in places:
                write(place, row, digest(row))


def _copy_words(db: sqlite3.Connection, shards: Sequence[Shard], shard_of: Mapping[int, int]) -> None:
    """Copy the words of each fragment, as FTS5 has read them, to its shard."""
    db.execute(SORT_ON_DISK)
    db.execute(READ_WORDS)
    with _copying(FULL_TEXT, ["fragment_id", "words"], shards) as write:
        for id_, instances in groupby(db.execute(INSTANCES), itemgetter(0)):
            words = places_of((term, field, place) for _, term, field, place in instances)
            digests = [
                digest((id_, word, _array(place for place, _ in places), _array(weight for _, weight in places)))
                for word, places in words.items()
            ]
            write(shard_of[id_], (id_, vector(words)), *digests)


def places_of(instances: Iterable[tuple[str, str, int]]) -> dict[str, list[tuple[int, str]]]:
    """Return the places of each word in a fragment, from 1 on and rising, each with its weight.

    *instances* are words with field and place in it, field by field. Between two fields one place stays empty, so that
    no phrase is found across them. A tsvector holds no more than MOST_PLACES of a word, none above PLACES, and no word
    of more than LONGEST_WORD bytes.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    last, start, before = 0, 0, ""
    for word, field, offset in instances:
        if field != before:
            start, before = last + (2 if before else 1), field
        last = start + offset
        if len(word.encode()) > LONGEST_WORD:
            continue
        places = found.setdefault(word, [])
        place = min(last, PLACES)
        if len(places) < MOST_PLACES and not (places and places[-1][0] == place):
            places.append((place, WEIGHTS[field]))
    return found


def vector(words: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """Return words with their places in the form that PostgreSQL reads as a tsvector."""
    quoted = ((word.replace("\\", "\\\\").replace("'", "''"), places) for word, places in words.items())
    return " ".join(f"'{word}':" + ",".join(f"{place}{weight}" for place, weight in places) for word, places in quoted)


def _array(values: Iterable[object]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


@contextmanager
def _copying(name: str, columns: Sequence[str], shards: Sequence[Shard]) -> Iterator[Callable[..., None]]:
    """Yield a function that copies a row to the shard of a number and keeps its digests there."""
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(name), names(columns))
    with ExitStack() as stack:
        copies = []
        for shard in shards:
            shard.digests[name] = []
            stack.enter_context(shard.told())
            copies.append(stack.enter_context(shard.db.cursor().copy(statement)))

        def write(number: int, row: Row, *digests: bytes) -> None:
            shards[number].digests[name] += digests
            with shards[number].told():
                copies[number].write_row(row)

        yield write


def digest(row: Row) -> bytes:
    """Return the SHA-256 of a row: of each value its length in bytes, a colon and its text; a dash for NULL."""
    said = hashlib.sha256()
    for value in row:
        text = _text(value)
        said.update(b"-" if text is None else b"%d:%b" % (len(text), text))
    return said.digest()


def _text(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, float):
        return struct.pack(">d", value).hex().encode()
    return value.hex().encode() if isinstance(value, bytes) else str(value).encode()


def _compare(shard: Shard, name: str, columns: Sequence[Column], rows: Composed | SQL | Identifier) -> None:
    """Compare the number and the digests of a table's rows with those that were copied.

    Raises:
        ShippingError: They differ.
    """
    parts = []
    for column in columns:
        text = TEXTS[column.type].format(Identifier(column.name))
        parts.append(SQL("coalesce(octet_length({0}) || ':' || {0}, '-')").format(text))
    query = ROW_DIGESTS.format(SQL(" || ").join(parts), rows)
    sent = sorted(shard.digests.pop(name))
    if shard.run(query) != [(len(sent), hashlib.sha256(b"".join(sent)).hexdigest())]:
        raise ShippingError(f"{shard.place} holds other rows than the index in {name}; nothing was announced.")


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
