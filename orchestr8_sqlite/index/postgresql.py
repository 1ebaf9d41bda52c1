"""Reads an index that `publish` has copied to PostgreSQL, through the statements that are written for SQLite.

A generation is a schema that never changes; `orchestr8.current` on the first shard names the newest. A request reads
one of them in one transaction, so that no publisher removes it meanwhile.
"""

import atexit
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.sql import SQL, Identifier, Literal

from orchestr8_sqlite.errors import CatalogError, MissingIndex, RequestError, Unreachable
from orchestr8_sqlite.index.catalog import SCHEMA_MAJOR, Catalog
from orchestr8_sqlite.index.connections import Identity
from orchestr8_sqlite.index.dialect import translate
from orchestr8_sqlite.index.gathering import Row, parameter_of, plan_of, with_tables
from orchestr8_sqlite.index.statements import out_of_time
from orchestr8_sqlite.settings import Address

T = TypeVar("T")

CONNECT_SECONDS = 10

STATEMENT_SECONDS = 30
"""How long a statement may take."""

CANCEL_SECONDS = 5.0

POLL_SECONDS = 1.0
"""How old the knowledge of the newest generation may be when a request begins."""

BEGIN = SQL(
    "BEGIN READ ONLY; SET LOCAL search_path TO {}; SET LOCAL statement_timeout TO {}; SET LOCAL jit TO off; "
    "SET LOCAL client_min_messages TO error; SET LOCAL join_collapse_limit TO 1; SET LOCAL enable_seqscan TO off; "
    "SET LOCAL enable_hashjoin TO off; SET LOCAL enable_mergejoin TO off; "
    "SET LOCAL work_mem TO '64MB'; SET LOCAL plan_cache_mode TO force_generic_plan"
)
"""Joins are made in the order in which they are written, by indexes, as SQLite makes them: PostgreSQL cannot know that
a list has five rows. So a plan does not depend on values, and is made once for each prepared statement."""

PROCESS = SQL("SELECT pg_backend_pid()")
HAS_RELEASES = SQL("SELECT to_regclass('orchestr8.current') IS NOT NULL")
CURRENT = SQL("""
SELECT schema_name, generation, shards, (extract(epoch FROM published_at) * 1000000)::bigint
  FROM orchestr8.current WHERE channel = %(channel)s
""")
HAS_SCHEMA = SQL("SELECT to_regnamespace(%(name)s) IS NOT NULL")
MOST_ROWS = 1 << 31

ASKING = ThreadPoolExecutor(32, thread_name_prefix="shard")
"""Asks several shards at once."""


class NumberLoader(Loader):
    """Reads sums, which PostgreSQL gives as decimals, as Python's numbers."""

    def load(self, data: Buffer) -> int | float:
        """Return the number in *data*."""
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class Release(NamedTuple):
    """A generation that a channel names: its schema, the number of its shards, and since when, in µs since 1970."""

    schema: str
    generation: str
    shards: int
    since: int

    @property
    def identity(self) -> Identity:
        """Return what distinguishes it from others of the same place."""
        return int(self.schema.rpartition("_")[2]), self.since, self.shards


def read_address(address: str) -> tuple[str, Sequence[str], dict[str, Any]]:
    """Return the address without user and password, what must not be printed of it, and its parts.

    Raises:
        RequestError: It is no address.
    """
    try:
        if address.partition("?")[0].count("@") > 1:  # what follows the first one would be taken for the host
            raise psycopg.ProgrammingError
        given = conninfo.conninfo_to_dict(address)
    except psycopg.Error:  # whose message may hold a part of the password
        raise RequestError(
            "An address of PostgreSQL cannot be read: write postgresql://USER@HOST:PORT/DATABASE, with %40 for an @ "
            "in a name or password, and so on."
        ) from None
    secrets = [str(given[key]) for key in ("password", "sslpassword") if given.get(key)]
    place = f"postgresql://{given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"
    return place, secrets, given


def reason(problem: psycopg.Error, secrets: Sequence[str]) -> str:
    """Return what a server says, without a period and without *secrets*."""
    said = (problem.diag.message_primary or str(problem)).strip().splitlines()
    lines = [line.strip() for line in said if not line.strip().startswith("Is the server running")]
    why = (lines or [type(problem).__name__])[-1].rstrip(".")
    for secret in secrets:
        why = why.replace(secret, "***")
    return why


def is_pooled(db: psycopg.Connection) -> bool:
    """Tell whether a pooler stands between: the process that it announces is not the one that answers.

    Each transaction may then be answered by another process, which may know other prepared statements by the same
    names.
    """
    return db.execute(PROCESS).fetchone() != (db.info.backend_pid,)


class Shard:
    """A connection to one shard, opened when it is first used; `place` is its address without user and password.

    A transaction begins with the first statement and ends with `rest`. A connection that has died meanwhile is replaced
    when the next one begins.
    """

    def __init__(self, address: str, schema: str = "") -> None:
        self.place, self._secrets, given = read_address(address)
        self._given = {"connect_timeout": CONNECT_SECONDS, **given, "client_encoding": "UTF8", "autocommit": True}
        self._schema = schema
        self._db: psycopg.Connection | None = None
        self._is_reading = False

    @property
    def is_broken(self) -> bool:
        """Tell whether the connection has died."""
        return self._db is not None and self._db.broken

    def run(self, statement: SQL, **values: object) -> list[Row]:
        """Return the rows of a statement of PostgreSQL, outside a transaction."""
        with self.told():
            return self._again(lambda db: db.execute(statement, values).fetchall())

    def execute(self, sql: str, parameters: Mapping[str, object]) -> psycopg.Cursor[Row]:
        """Return the rows of a statement that is written for SQLite.

        Raises:
            CatalogError: The server cannot be reached, or refuses the statement.
        """
        with self.told():
            return self._begun().execute(translate(sql, parameters).encode(), parameters)

    def ask(self, statement: str, seconds: float) -> psycopg.Cursor[Row]:
        """Return the rows of a user's statement.

        Raises:
            RequestError: It is wrong, does more than read, or takes longer than *seconds*.
        """
        with self.told():
            db = self._begun()
            db.execute(SQL("SET LOCAL statement_timeout TO {}").format(Literal(round(1000 * seconds))))
        try:
            with db.pipeline():  # which takes a single statement at a time
                return db.execute(statement.encode())
        except psycopg.errors.QueryCanceled:
            raise RequestError(out_of_time(seconds)) from None
        except psycopg.Error as problem:
            raise RequestError(f"PostgreSQL says: {reason(problem, self._secrets)}.") from None

    def rest(self) -> None:
        """End the transaction, if one has begun."""
        if self._db is not None and self._is_reading:
            self._is_reading = False
            with suppress(psycopg.Error):
                self._db.execute("COMMIT")  # after a ROLLBACK, psycopg prepares them all again

    def interrupt(self) -> None:
        """End the statement that is running."""
        if self._db is not None and self._is_reading:
            with suppress(psycopg.Error):
                self._db.cancel_safe(timeout=CANCEL_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()

    def _connected(self) -> psycopg.Connection:
        if self._db is None or self._db.closed:
            self._db = psycopg.connect(**self._given)
            self._db.adapters.register_loader("numeric", NumberLoader)
            if is_pooled(self._db):
                self._db.prepare_threshold = None
        return self._db

    def _begun(self) -> psycopg.Connection:
        """Return the connection, in a transaction."""
        if self._is_reading and self._db is not None:
            return self._db
        begin = BEGIN.format(Identifier(self._schema), Literal(round(1000 * STATEMENT_SECONDS)))
        self._again(lambda db: db.execute(begin))
        self._is_reading = True
        return self._connected()

    def _again(self, act: Callable[[psycopg.Connection], T]) -> T:
        """Return what *act* returns; once again over a new connection, if the one that was open turns out dead."""
        was_open = self._db is not None and not self._db.closed
        try:
            return act(self._connected())
        except psycopg.OperationalError:
            if not was_open:
                raise
            self.close()
            return act(self._connected())

    @contextmanager
    def told(self) -> Iterator[None]:
        """Make one sentence, without a password, of what goes wrong with the server meanwhile."""
        try:
            yield
        except psycopg.errors.QueryCanceled:
            raise Unreachable(
                f"The index at {self.place} did not answer a statement within {STATEMENT_SECONDS} s, or nobody waits "
                "for the answer."
            ) from None
        except psycopg.Error as problem:
            why = reason(problem, self._secrets)
            if isinstance(problem, psycopg.OperationalError):
                raise Unreachable(f"The index at {self.place} cannot be reached: {why}.") from None
            raise CatalogError(f"The index at {self.place} cannot be read: {why}.") from None


class Found:
    """The rows of a statement, and its columns, the name of each first."""

    def __init__(self, description: Sequence[Sequence[Any]], rows: list[Row]) -> None:
        self.description = description
        self._rows = rows

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return the columns with their types."""
        return [(name, psycopg.adapters.types[kind].regtype) for name, kind, *_ in self.description]

    def fetchall(self) -> list[Row]:
        """Return the rows."""
        return self._rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)


class Shards:
    """The connections of one caller to all shards of one generation."""

    def __init__(self, address: Address, schema: str) -> None:
        self.shards = [Shard(one, schema) for one in address.shards]
        self.missing: list[str] = []
        self._is_partial = address.partial
        self._is_abandoned: Callable[[], bool] | None = None

    @property
    def is_broken(self) -> bool:
        """Tell whether any connection has died."""
        return any(shard.is_broken for shard in self.shards)

    def execute(self, sql: str, parameters: Mapping[str, object] | None = None, /) -> "Found":
        """Return the rows of a statement that is written for SQLite.

        Raises:
            CatalogError: A server cannot be reached, or refuses the statement; or nobody waits for the answer.
        """
        if len(self.shards) == 1:
            return self._each(sql, parameters or {}, alone=True)[0]
        plan, given, tables = plan_of(sql), dict(parameters or {}), dict[str, list[tuple[str, str]]]()
        for step in plan.steps:
            parts = self._each(with_tables(step.sql, tables), given, alone=step.alone)
            given[parameter_of(step.name)] = json.dumps([row for part in parts for row in part])
            tables[step.name] = parts[0].columns
        limit = given.get("limit")
        if plan.added is not None and limit is not None:  # a sum needs all that is added
            given["limit"] = MOST_ROWS
        parts = self._each(with_tables(plan.last, tables), given, alone=plan.alone)
        rows = plan.put_together([part.fetchall() for part in parts], limit if isinstance(limit, int) else None)
        return Found(parts[0].description, rows)

    def _each(self, sql: str, parameters: Mapping[str, object], *, alone: bool) -> list["Found"]:
        """Return the rows of each shard; of the first one if *alone*."""
        if self._is_abandoned is not None and self._is_abandoned():
            raise CatalogError("Nobody waits for the answer any more.")

        def ask(shard: Shard) -> Found | None:
            try:
                cursor = shard.execute(sql, parameters)
            except Unreachable:
                if not self._is_partial:
                    raise
                self.missing.append(shard.place)
                return None
            return Found(cursor.description or (), cursor.fetchall())

        left = [shard for shard in self.shards if shard.place not in self.missing]
        answers = (answer for answer in (map(ask, left) if alone else ASKING.map(ask, left)) if answer is not None)
        found = [*islice(answers, 1)] if alone else [*answers]
        if not found:
            raise Unreachable("None of the databases of the library answers.")
        return found

    def heed(self, is_abandoned: Callable[[], bool] | None, /) -> None:
        """Begin no further statement once *is_abandoned* returns True."""
        self._is_abandoned = is_abandoned
        if is_abandoned is not None:  # a new request
            self.missing = []

    def interrupt(self) -> None:
        """End the statements that are running, soon."""
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        for shard in self.shards:
            shard.interrupt()

    def rest(self) -> None:
        """End the transactions of a request."""
        for shard in self.shards:
            shard.rest()

    def close(self) -> None:
        """Close the connections."""
        for shard in self.shards:
            shard.close()


class Follower:
    """Knows which generation a channel names; asks the first shard at most once in POLL_SECONDS."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._shards = [Shard(one) for one in address.shards]
        self._lock = threading.Lock()
        self._known: Release | None = None
        self._asked = float("-inf")

    @property
    def known(self) -> Release | None:
        """Return the newest generation, or None if it is too long since it was asked for."""
        return self._known if time.monotonic() < self._asked + POLL_SECONDS else None

    def latest(self) -> Release:
        """Return the newest generation that all shards hold: a replica may be behind.

        Raises:
            MissingIndex: Nothing was published.
            CatalogError: A server cannot be reached, or the addresses are not those of the publisher.
        """
        with self._lock:
            if self.known is None:
                try:
                    found = self._ask()
                    is_same = found == self._known
                    if self._known is None or (
                        not is_same and all(self._holds(shard, found) for shard in self._shards[1:])
                    ):
                        self._known = found
                except Unreachable:
                    if self._known is None or not self._address.partial:
                        raise
                self._asked = time.monotonic()
            assert self._known is not None
            return self._known

    def close(self) -> None:
        """Close the connections that it asks over."""
        for shard in self._shards:
            shard.close()

    def _holds(self, shard: Shard, release: Release) -> bool:
        try:
            return bool(shard.run(HAS_SCHEMA, name=release.schema)[0][0])
        except Unreachable:
            if self._address.partial:
                return True
            raise

    def _ask(self) -> Release:
        first = self._shards[0]
        rows = first.run(CURRENT, channel=self._address.channel) if first.run(HAS_RELEASES)[0][0] else []
        if not rows:
            raise MissingIndex(
                f"Nothing was published to the channel {self._address.channel} at {first.place}; publish an index: "
                "orchestr8-sqlite publish INDEX --to ADDRESS."
            )
        release = Release(*rows[0])
        if release.shards != len(self._shards):
            raise CatalogError(
                f"The index at {first.place} was published to another number of databases, {release.shards}; name the "
                "addresses of that time, in the same order."
            )
        return release


@cache
def follower_of(address: Address) -> Follower:
    """Return the one of this process that follows the index at *address*."""
    follower = Follower(address)
    atexit.register(follower.close)
    return follower


class PublishedCatalog(Catalog):
    """An index in PostgreSQL."""

    def __init__(self, address: Address, release: Release) -> None:
        self.shards = Shards(address, release.schema)
        self._follower = follower_of(address)
        self._release = release
        try:
            super().__init__(self.shards, address, release.identity)
        except CatalogError:
            self.shards.close()
            raise

    def is_current(self) -> bool:
        """Tell whether the channel still names this generation, as far as was known a second ago."""
        return self._follower.latest() == self._release

    def is_known_current(self) -> bool:
        """Tell the same without asking anybody; False if it is not known."""
        return self._follower.known == self._release

    @property
    def is_known_damaged(self) -> bool:
        """Tell whether a connection has died."""
        return self.shards.is_broken

    @property
    def missing(self) -> Sequence[str]:
        """Return the places of the shards that have not answered this request, and that it goes on without."""
        return self.shards.missing

    def rest(self) -> None:
        """Let go of the generation until the next request."""
        self.shards.rest()


def identity_at(address: Address) -> Identity:
    """Return what distinguishes the newest generation at *address* from others.

    Raises:
        CatalogError: A server cannot be reached, or nothing was published.
    """
    return follower_of(address).latest().identity


def ask(address: Address, statement: str, seconds: float) -> tuple[list[str], list[Sequence[object]]]:
    """Return the column names and the rows of a user's statement, which may run for some seconds.

    Raises:
        RequestError: It is wrong, does more than read, takes too long, or asks several shards.
        CatalogError: The server cannot be reached, or nothing was published.
    """
    if len(address.shards) > 1:
        raise RequestError("A statement cannot be asked of several databases at once; ask each with psql.")
    if not statement.strip():
        raise RequestError("The statement is empty; write a SELECT.")
    with closing(Shard(address.text, follower_of(address).latest().schema)) as shard:
        cursor = shard.ask(statement, seconds)
        rows: list[Sequence[object]] = [*cursor.fetchall()] if cursor.description else []
        return [column.name for column in cursor.description or ()], rows


def open_published(address: Address) -> PublishedCatalog:
    """Return the newest generation of the index at *address*.

    Raises:
        MissingIndex: Nothing was published there.
        CatalogError: A server cannot be reached, or the index has another major schema version.
    """
    catalog = PublishedCatalog(address, follower_of(address).latest())
    version = catalog.meta.get("schema_version", "")
    if version.partition(".")[0] != str(SCHEMA_MAJOR):
        catalog.close()
        raise CatalogError(
            f"The index at {address} has the schema version {version}, this program reads {SCHEMA_MAJOR}."
        )
    return catalog
