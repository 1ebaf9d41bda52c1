"""Publishing to PostgreSQL: the same rows, announced at once or not at all, whatever dies meanwhile."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from postgresql_server import PASSWORD, Server, postgresql_server, program
from psycopg.sql import SQL, Composed
from releases import index_of
from support import Invoke, brought, build, markdown, rows, write_files

from orchestr8_sqlite.errors import RefusedRelease, RequestError, ShippingError, SourceError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.shipping import postgresql
from orchestr8_sqlite.shipping.postgresql import Announced, publish_to_postgresql
from orchestr8_sqlite.shipping.publish import Order

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BUNDLED = ROOT / "orchestr8_sqlite" / "bundled.db"
DOCUMENT = (ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
SQL_BLOCK = re.compile(r"```sql\n(.*?)```", re.DOTALL)

OF_A_FRAGMENT = {
    "fragment", "fragment_body", "tag", "capability", "scenario", "posting", "field_posting", "near_copy", "reference",
    "skill", "skill_file", "library_answer", "quick_lookup", "rank_topic", "rank_length",
}  # fmt: skip
OF_ALL_FRAGMENTS = {
    "meta", "root", "source", "keyword", "prompt", "prompt_argument", "diagnostic", "review", "library_query",
    "rank_stem", "rank_synonym_word", "rank_synonym_form", "fragment_vocabulary",
}  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with postgresql_server() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def _needs_the_programs() -> None:
    brought(lambda: program("initdb"))


@pytest.fixture
def server(running: Server) -> Server:
    """A running server with two empty databases, one and two."""
    for database in ("one", "two"):
        running.ask("postgres", f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        running.ask("postgres", f"CREATE DATABASE {database}")
    return running


def ship(index: int | Path, server: Server, *databases: str, channel: str = "stable") -> Announced:
    """Publish a generation without a gate."""
    order = Order(index_of(index) if isinstance(index, int) else index, channel)
    return publish_to_postgresql(order, ",".join(map(server.address, databases)))


def current(server: Server) -> str | None:
    """Return the schema that the channel stable names; None if it names none."""
    if server.ask("one", "SELECT to_regclass('orchestr8.current') IS NULL")[0][0]:
        return None
    found = server.ask("one", "SELECT schema_name FROM orchestr8.current WHERE channel = 'stable'")
    return str(found[0][0]) if found else None


def schemas(server: Server, database: str) -> list[str]:
    sql = r"SELECT nspname::text FROM pg_namespace WHERE nspname ~ '^orchestr8_\d' ORDER BY 1"
    return [name for (name,) in server.ask(database, sql)]


def columns_of(index: Path, table: str) -> list[str]:
    return [str(row[1]) for row in rows(index, f"PRAGMA table_info({table})")]


def arrived(server: Server, schema: str, table: str, *databases: str) -> list[str]:
    """Return all rows of a table, over all shards, in an order that does not depend on it."""
    listed = ", ".join(f'"{name}"' for name in columns_of(BUNDLED, table))
    return sorted(repr(row) for one in databases for row in server.ask(one, f"SELECT {listed} FROM {schema}.{table}"))


@pytest.mark.parametrize("databases", [("one",), ("one", "two")], ids=["one shard", "two shards"])
def test_every_row_of_the_index_is_there_once_or_on_every_shard(server: Server, databases: tuple[str, ...]) -> None:
    schema = ship(BUNDLED, server, *databases).fields["schema"]
    plain = "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name <> 'sqlite_schema'"
    assert {name for (name,) in rows(BUNDLED, plain)} == OF_A_FRAGMENT | OF_ALL_FRAGMENTS - {"fragment_vocabulary"}
    for table in OF_A_FRAGMENT | OF_ALL_FRAGMENTS:
        listed = ", ".join(f'"{name}"' for name in columns_of(BUNDLED, table))
        sent = sorted(map(repr, rows(BUNDLED, f"SELECT {listed} FROM {table}")))
        if table in OF_A_FRAGMENT:
            assert arrived(server, schema, table, *databases) == sent, table
        else:
            assert all(arrived(server, schema, table, one) == sent for one in databases), table
    for one in databases:
        assert server.ask(one, f"SELECT count(*) FROM {schema}.fragment")[0][0] > 80


def test_a_fragment_is_where_the_hash_of_its_uri_says(server: Server) -> None:
    schema = ship(1, server, "one", "two").fields["schema"]
    for number, database in enumerate(("one", "two")):
        # of two shards, the last bit of the eighth byte decides
        ask = f"SELECT get_byte(sha256(uri::bytea), 7) % 2 FROM {schema}.fragment"
        assert {place for (place,) in server.ask(database, ask)} == {number}


def test_keys_types_indexes_checks_and_comments_are_those_of_the_schema(server: Server) -> None:
    schema = ship(1, server, "one").fields["schema"]
    types = """
        SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, coalesce(c.collname::text, '')
          FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
         WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 ORDER BY a.attnum"""
    assert server.ask("one", types, table=f"{schema}.quick_lookup") == [
        ("ranker", "text", True, "C"),
        ("query", "text", True, "C"),
        ("rank", "bigint", True, ""),
        ("fragment_id", "bigint", True, ""),
        ("score", "double precision", True, ""),
        ("scenario", "text", False, "C"),
        ("total", "bigint", True, ""),
        ("coverage", "double precision", True, ""),
    ]
    assert ("content", "bytea", True, "") in server.ask("one", types, table=f"{schema}.skill_file")
    said = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %(table)s::regclass"
    assert {text for (text,) in server.ask("one", said, table=f"{schema}.posting")} == {
        f"FOREIGN KEY (keyword_id) REFERENCES {schema}.keyword(id)",
        f"FOREIGN KEY (fragment_id, ordinal) REFERENCES {schema}.scenario(fragment_id, ordinal)",
        "PRIMARY KEY (keyword_id, fragment_id, ordinal)",
    }
    indexes = {sql.partition(" USING ")[2] for (sql,) in server.ask("one", "SELECT indexdef FROM pg_indexes")}
    assert {"btree (author_id) WHERE (author_id IS NOT NULL)", "btree (tag)", "gin (words)"} <= indexes
    for broken in ("category = 'other'", "metadata = '{'", "source_id = 0", "path = 'same'"):
        with pytest.raises((psycopg.IntegrityError, psycopg.DataError)):
            server.ask("one", f"UPDATE {schema}.fragment SET {broken}")
    silent = """
        SELECT c.relname::text, a.attname::text
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind = 'r' AND c.relname <> 'fragment_vocabulary'
           AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid) IS NULL)"""
    assert server.ask("one", silent, schema=schema) == []


def test_the_stems_of_the_full_text_find_what_they_find_in_the_index(server: Server) -> None:
    schema = ship(BUNDLED, server, "one").fields["schema"]
    ask = f"SELECT fragment_id FROM {schema}.fragment_text WHERE words @@ quote_literal(%(word)s)::tsquery ORDER BY 1"
    with closing(sqlite3.connect(BUNDLED)) as db:
        db.execute("CREATE VIRTUAL TABLE temp.word USING fts5vocab (main, fragment_text, instance)")
        for word in ("retri", "c++", "#", "backoff", "node", "postgr", "zzz", "don"):
            found = db.execute("SELECT DISTINCT doc FROM temp.word WHERE term = ? ORDER BY doc", (word,)).fetchall()
            assert server.ask("one", ask, word=word) == found, word
            assert bool(found) == (word != "zzz"), word


def test_phrases_and_weights_of_the_full_text_follow_the_fields(server: Server) -> None:
    schema = ship(1, server, "one").fields["schema"]  # five fragments: Retrying call N, # Title, Text; # Version 1
    counts = {"titl:A": 5, "retri:C": 5, "retri:D": 0, "text:D": 6, "text:A": 0, "version:A": 1}
    phrases = {"retri <-> call": 5, "call <-> retri": 0, "version <-> 1": 1, "titl <-> text": 5, "titl <-> titl": 0}
    for query, count in {**counts, **phrases}.items():
        ask = f"SELECT count(*) FROM {schema}.fragment_text WHERE words @@ %(query)s::tsquery"
        assert server.ask("one", ask, query=query) == [(count,)], query


def test_words_that_a_tsvector_cannot_hold_keep_no_index_from_being_published(server: Server, tmp_path: Path) -> None:
    many = "often " * 300 + "filler " * 17_000 + "late it's back\\slash"
    files = {"skills/long.md": f"# Long\n\n{'x' * 3000} {many}\n", "skills/other.md": "# Other\n\nText.\n"}
    schema = ship(build(write_files(tmp_path / "library", files), tmp_path / "index.db"), server, "one").fields[
        "schema"
    ]
    found = server.ask(
        "one", f"SELECT lexeme, cardinality(positions), positions[1] FROM {schema}.fragment_text, unnest(words)"
    )
    assert {("often", 255), ("late", 1), ("slash", 1)} <= {(word, count) for word, count, _ in found}
    assert max(place for _, _, place in found) == 16_383
    assert max(len(word) for word, _, _ in found) < 3000


def test_the_same_index_again_changes_nothing(server: Server) -> None:
    assert ship(1, server, "one").is_new
    before = server.ask("one", "TABLE orchestr8.current")
    assert not ship(1, server, "one").is_new
    assert server.ask("one", "TABLE orchestr8.current") == before


def test_schemas_of_the_last_three_releases_stay(server: Server) -> None:
    for index in (1, 2, 1, 2, 3):
        ship(index, server, "one", "two")
    ship(1, server, "one", "two", channel="beta")
    for database in ("one", "two"):
        assert schemas(server, database) == ["orchestr8_3", "orchestr8_4", "orchestr8_5", "orchestr8_6"]
    assert current(server) == "orchestr8_5"


def test_a_schema_that_is_being_read_stays_until_the_next_release(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "PATIENCE", SQL("SET LOCAL lock_timeout = '100ms'"))
    for index in (1, 2, 3):
        ship(index, server, "one")
    with psycopg.connect(server.address("one")) as reader:
        reader.execute("SELECT count(*) FROM orchestr8_1.fragment")
        assert ship(1, server, "one").left == 1
        assert reader.execute("SELECT count(*) FROM orchestr8_1.fragment").fetchone() == (6,)
    assert ship(2, server, "one").left == 0
    assert schemas(server, "one") == ["orchestr8_3", "orchestr8_4", "orchestr8_5"]


# --- what travels


def holds(server: Server, schema: str, index: Path, *databases: str) -> bool:
    """Tell whether the tables of a schema, over all shards, have the rows of an index."""
    for table in OF_A_FRAGMENT | OF_ALL_FRAGMENTS:
        listed = ", ".join(f'"{name}"' for name in columns_of(BUNDLED, table))
        sent = sorted(map(repr, rows(index, f"SELECT {listed} FROM {table}")))
        for shards in [databases] if table in OF_A_FRAGMENT else [(database,) for database in databases]:
            if arrived(server, schema, table, *shards) != sent:
                return False
    return True


def words(server: Server, schema: str, database: str) -> list[tuple[Any, ...]]:
    return server.ask(database, f"SELECT fragment_id, words::text FROM {schema}.fragment_text ORDER BY 1")


def test_of_one_changed_fragment_only_its_rows_travel(server: Server) -> None:
    first = ship(1, server, "one")
    done = ship(2, server, "one")
    assert first.sent == first.rows > done.rows / 2
    expected = {"fragment_text": 1}
    for table in OF_A_FRAGMENT | OF_ALL_FRAGMENTS:
        owner = next((name for name in ("fragment_id", "id") if name in columns_of(BUNDLED, table)), None)
        place = columns_of(BUNDLED, table).index(owner) if owner and table in OF_A_FRAGMENT else None
        old, new = (
            {
                key: sorted(map(repr, one))
                for key, one in by_part(rows(index_of(version), f"SELECT * FROM {table}"), place).items()
            }
            for version in (1, 2)
        )
        expected[table] = sum(len(part) for key, part in new.items() if part != old.get(key))
    assert expected["tag"] == expected["rank_synonym_word"] == 0
    assert expected["fragment"] == expected["fragment_body"] == 1
    assert done.sent == sum(expected.values()) < done.rows / 10
    assert holds(server, "orchestr8_2", index_of(2), "one")


def by_part(found: Sequence[tuple[Any, ...]], place: int | None) -> dict[object, list[tuple[Any, ...]]]:
    """Return rows by the value at a place, all of them under None if there is no such place."""
    parts: dict[object, list[tuple[Any, ...]]] = {}
    for row in found:
        parts.setdefault(None if place is None else row[place], []).append(row)
    return parts


def test_index_that_was_built_again_with_other_numbers_arrives_whole(server: Server, tmp_path: Path) -> None:
    files = {
        f"skills/s{number}.md": f"---\nuseWhen: [Case {number}]\n---\n\n# S {number}\n\nSame.\n" for number in range(9)
    }
    before = build(write_files(tmp_path / "library", files), tmp_path / "before.db")
    added = {"agents/a.md": "# First\n\nSame.\n", "skills/s3.md": "# Another\n\nNew words.\n"}
    after = build(write_files(tmp_path / "library", added), tmp_path / "after.db")
    assert rows(before, "SELECT id FROM fragment WHERE name = 's8'") != rows(
        after, "SELECT id FROM fragment WHERE name = 's8'"
    )
    for index in (before, after, before):
        done = ship(index, server, "one", "two")
        assert holds(server, done.fields["schema"], index, "one", "two")
    assert ship(after, server, "one", "two", channel="new").sent > done.sent > 0
    for database in ("one", "two"):
        assert words(server, "orchestr8_1", database) == words(server, "orchestr8_3", database)
        assert words(server, "orchestr8_2", database) == words(server, "orchestr8_4", database)


@pytest.mark.parametrize(
    "change",
    ["UPDATE {0}.meta SET value = '5.1' WHERE key = 'schema_version'", "DROP SCHEMA {0} CASCADE"],
    ids=["another version", "gone"],
)
def test_release_before_that_cannot_be_copied_from_is_not_needed(server: Server, change: str) -> None:
    ship(1, server, "one", "two")
    server.ask("two", change.format("orchestr8_1"))
    done = ship(2, server, "one", "two")
    assert done.sent == done.rows
    assert holds(server, "orchestr8_2", index_of(2), "one", "two")


def test_row_that_somebody_changed_in_the_release_before_is_sent_again(server: Server) -> None:
    ship(1, server, "one")
    for change in ("scenario SET text = 'other'", "keyword SET stem = 'other'", "fragment_text SET words = 'other'"):
        server.ask("one", f"UPDATE orchestr8_1.{change}")
    server.ask("one", "DELETE FROM orchestr8_1.fragment_body")
    ship(2, server, "one")
    assert holds(server, "orchestr8_2", index_of(2), "one")
    assert {text for _, text in words(server, "orchestr8_2", "one")} & {"'other'"} == set()


# --- operating


def test_a_generation_that_was_backed_up_is_restored_and_published_on(
    server: Server, invoke: Invoke, tmp_path: Path
) -> None:
    blocks = {name: text for text, name in re.findall(r"```sh\n(# ([^:]+):\n.*?)```", DOCUMENT, re.DOTALL)}
    for index, channel in ((1, "beta"), (2, "stable")):
        ship(index, server, "one", "two", channel=channel)
    before = ",".join(map(server.address, ("one", "two")))
    wanted = invoke("search", "retrying call", "--json", "--db", before)
    programs = os.pathsep.join([str(program("pg_dump").parent), os.environ["PATH"]])
    for database in ("one", "two"):
        server.ask("postgres", f"DROP DATABASE IF EXISTS new_{database} WITH (FORCE)")
        server.ask("postgres", f"CREATE DATABASE new_{database}")
        given = {"FROM": server.address(database), "INTO": server.address(f"new_{database}"), "SCHEMA": "orchestr8_2"}
        environment = {**os.environ, "PATH": programs, "FILE": str(tmp_path / database), **given}
        for name in ["back up", "restore", *(["remove what was not saved"] if database == "one" else [])]:
            subprocess.run(["sh", "-euc", blocks[name]], check=True, env=environment)
    assert server.ask("new_one", "SELECT channel FROM orchestr8.current") == [("stable",)]
    for database in ("one", "two"):
        server.ask("postgres", f"DROP DATABASE {database} WITH (FORCE)")
    assert schemas(server, "new_two") == ["orchestr8_2"]
    after = ",".join(map(server.address, ("new_one", "new_two")))
    assert invoke("search", "retrying call", "--json", "--db", after) == wanted
    done = ship(3, server, "new_one", "new_two")
    assert done.fields["schema"] == "orchestr8_3"
    assert done.sent < done.rows


def test_commands_of_the_example_in_containers_have_the_options_of_the_program(invoke: Invoke) -> None:
    example = yaml.safe_load((ROOT / "docs" / "examples" / "postgresql" / "compose.yaml").read_text(encoding="utf-8"))
    services = example["services"]
    assert services["one"]["image"] == services["two"]["image"] == "postgres:17"
    seen = []
    for service in services.values():
        for line in "".join(service.get("command", [])[-1:]).splitlines():
            _, found, rest = line.partition("orchestr8-sqlite ")
            if found:
                command, *arguments = shlex.split(rest)
                seen.append(command)
                described = invoke(command, "--help")[1]
                options = [argument for argument in arguments if argument.startswith("--")]
                assert options
                assert all(re.search(rf"{option}\b", described) for option in options)
    assert seen == ["publish", "serve"]


# --- faults


def on_steps(monkeypatch: pytest.MonkeyPatch, act: Callable[[int, postgresql.Shard], None]) -> list[int]:
    """Call *act* with the number of each step of a publisher, before the step; return a list with their count."""
    steps, run, commit = [0], postgresql.Shard.run, postgresql.Shard.commit

    def next_step(shard: postgresql.Shard) -> None:
        steps[0] += 1
        act(steps[0], shard)

    def run_later(shard: postgresql.Shard, *statements: SQL | Composed, **values: object) -> list[postgresql.Row]:
        next_step(shard)
        return run(shard, *statements, **values)

    def commit_later(shard: postgresql.Shard) -> None:
        next_step(shard)
        commit(shard)

    monkeypatch.setattr(postgresql.Shard, "run", run_later)
    monkeypatch.setattr(postgresql.Shard, "commit", commit_later)
    return steps


def kill_at(server: Server, number: int, step: int, shard: object) -> None:
    if step == number:
        server.kill()


def test_connection_that_breaks_at_any_twentieth_step_leaves_the_release_before_and_the_next_publisher_cleans_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, server, "one", "two")
    number, version, outcomes = 0, 2, set()
    while True:
        number += 20

        def cut(step: int, shard: postgresql.Shard, number: int = number) -> None:
            if step == number:
                pid = shard.db.info.backend_pid
                server.ask("postgres", "SELECT pg_terminate_backend(%(pid)s, 5000)", pid=pid)

        before = current(server)
        with monkeypatch.context() as patched:
            steps = on_steps(patched, cut)
            try:
                ship(version, server, "one", "two")
            except SourceError:
                outcomes.add("failed")
                assert current(server) == before
            else:
                outcomes.add("announced")  # only the removal of old schemas was cut
                version = 5 - version
                assert current(server) != before
        for database in ("one", "two"):
            ask = f"SELECT count(*) FROM {current(server)}.fragment_text"
            assert server.ask(database, ask)[0][0] > 0
        if steps[0] < number:
            break
    assert outcomes == {"failed", "announced"}
    ship(1, server, "one", "two")
    ship(2, server, "one", "two")
    ship(3, server, "one", "two")
    assert schemas(server, "one") == schemas(server, "two")
    assert len(schemas(server, "two")) == 3


@pytest.mark.parametrize("shard", [0, 1])
def test_connection_that_breaks_as_a_transaction_ends_announces_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch, shard: int
) -> None:
    ship(1, server, "one", "two")
    announced: list[object] = []
    commit, run = postgresql.Shard.commit, postgresql.Shard.run

    def note(one: postgresql.Shard, *statements: SQL | Composed, **values: object) -> list[postgresql.Row]:
        announced.extend(statement for statement in statements if statement is postgresql.ANNOUNCE)
        return run(one, *statements, **values)

    def cut(one: postgresql.Shard) -> None:
        if announced and one.place.endswith(("one", "two")[shard]):
            server.ask("postgres", "SELECT pg_terminate_backend(%(pid)s, 5000)", pid=one.db.info.backend_pid)
        commit(one)

    with monkeypatch.context() as patched:
        patched.setattr(postgresql.Shard, "run", note)
        patched.setattr(postgresql.Shard, "commit", cut)
        with pytest.raises(SourceError):
            ship(2, server, "one", "two")
    assert current(server) == "orchestr8_1"
    assert schemas(server, "one") == ["orchestr8_1"]
    assert len(schemas(server, "two")) == 2 - shard  # what is left there is named nowhere
    for index in (3, 2, 1):
        ship(index, server, "one", "two")
    assert schemas(server, "one") == schemas(server, "two") == ["orchestr8_2", "orchestr8_3", "orchestr8_4"]


def test_server_that_dies_leaves_the_release_before_once_it_is_up_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, server, "one")
    with monkeypatch.context() as patched:
        total = on_steps(patched, lambda *_: None)
        ship(2, server, "one")
    for number in (10, total[0] // 2, total[0] - 10):
        before = current(server)
        with monkeypatch.context() as patched:
            on_steps(patched, partial(kill_at, server, number))
            with pytest.raises(
                SourceError, match=r"^postgresql://127\.0\.0\.1:\d+/one cannot be reached or broke off: "
            ):
                ship(3, server, "one")
        server.start()
        assert current(server) == before == "orchestr8_2"
        assert server.ask("one", f"SELECT count(*) FROM {before}.fragment") == [(6,)]
    assert ship(3, server, "one").is_new


def test_connection_that_breaks_while_rows_are_copied_announces_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(1, server, "one")
    plain = psycopg.Copy.write
    left = iter(range(100))

    def cut(copy: psycopg.Copy, text: str) -> None:
        if next(left) == 5:
            server.ask("postgres", "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query ~ '^COPY'")
        plain(copy, text)

    monkeypatch.setattr(psycopg.Copy, "write", cut)
    with pytest.raises(SourceError, match="broke off"):
        ship(2, server, "one")
    assert current(server) == "orchestr8_1"


def test_disk_that_is_full_announces_nothing(server: Server) -> None:
    ship(1, server, "one")
    server.limit_files("1200000")
    try:
        with pytest.raises(
            ShippingError, match=r"^postgresql://\S+/one (refused|cannot be reached or broke off): could not"
        ):
            ship(BUNDLED, server, "one")
    finally:
        server.limit_files("unlimited")
    assert current(server) == "orchestr8_1"
    assert schemas(server, "one") == ["orchestr8_1"]
    assert ship(BUNDLED, server, "one").is_new


def test_of_two_publishers_at_once_one_wins_whole(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ship(1, server, "one", "two")
    monkeypatch.setattr(postgresql, "LOCK_SECONDS", 0.2)
    fill, refused = postgresql._fill, threading.Event()

    def wait(catalog: Catalog, shards: Sequence[postgresql.Shard], schema: str, before: str | None) -> int:
        assert refused.wait(30)
        return fill(catalog, shards, schema, before)

    monkeypatch.setattr(postgresql, "_fill", wait)
    outcomes: dict[int, str] = {}

    def run(version: int) -> None:
        try:
            outcomes[version] = ship(version, server, "one", "two").fields["schema"]
        except RefusedRelease as problem:
            outcomes[version] = str(problem)
            refused.set()

    threads = [threading.Thread(target=run, args=(version,)) for version in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [version for version, outcome in outcomes.items() if outcome == "orchestr8_2"]
    assert re.fullmatch(
        r"Another publisher is at work on postgresql://127\.0\.0\.1:\d+/one; publish again when it is done\.",
        outcomes[5 - winner],
    )
    assert server.ask("one", f"SELECT title FROM {current(server)}.fragment WHERE name = 'version'") + server.ask(
        "two", f"SELECT title FROM {current(server)}.fragment WHERE name = 'version'"
    ) == [(f"Version {winner}",)]


MEDDLING = (
    """CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN NEW.text = NEW.text || ' '; RETURN NEW; END $$""",
    """CREATE FUNCTION attach() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
         IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity LIKE '%.scenario') THEN
           CREATE TRIGGER change BEFORE INSERT ON scenario FOR EACH ROW EXECUTE FUNCTION public.change();
         END IF; END $$""",
    "CREATE EVENT TRIGGER attach ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION attach()",
)
"""Makes a server change the scenarios that it is given."""


def test_server_that_changes_a_value_is_noticed(server: Server) -> None:
    ship(1, server, "one")
    for statement in MEDDLING:
        server.ask("one", statement)
    with pytest.raises(ShippingError, match=r"/one holds other rows than the index in scenario; nothing was announced"):
        ship(2, server, "one")
    assert current(server) == "orchestr8_1"


# --- roles and addresses


def test_readers_may_read_every_release_and_change_nothing(server: Server) -> None:
    (roles,) = [block for block in SQL_BLOCK.findall(DOCUMENT) if "CREATE ROLE" in block]
    roles = roles.replace("DATABASE library", "DATABASE one")
    assert len(roles.split(";")) == 6
    for statement in roles.split(";")[:-1]:
        server.ask("one", statement)
    server.ask("one", "ALTER ROLE publisher PASSWORD 'secret one'")
    server.ask("one", "ALTER ROLE reader PASSWORD 'secret two'")
    try:
        for index in (1, 2):
            publish_to_postgresql(Order(index_of(index), "stable"), server.address("one", "publisher", "secret one"))
        with psycopg.connect(server.address("one", "reader", "secret two"), autocommit=True) as reader:
            found = reader.execute("SELECT schema_name FROM orchestr8.current").fetchone()
            assert found == ("orchestr8_2",)
            assert reader.execute("SELECT count(*) FROM orchestr8_2.fragment_text").fetchone() == (6,)
            for change in ("DELETE FROM orchestr8.current", "DELETE FROM orchestr8_2.tag", "DROP SCHEMA orchestr8_2"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute(change)
        with pytest.raises(ShippingError, match=r"^postgresql://\S+/one refused: permission denied for \S+ one\.$"):
            publish_to_postgresql(Order(index_of(3), "stable"), server.address("one", "reader", "secret two"))
        assert current(server) == "orchestr8_2"
    finally:
        server.ask("postgres", "DROP DATABASE one WITH (FORCE)")
        server.ask("postgres", "DROP ROLE publisher, reader")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://owner:{wrong}@127.0.0.1:{port}/one", "password authentication failed for user"),
        ("postgresql://owner:{right}@127.0.0.1:{port}/none", 'database "none" does not exist'),
        ("postgresql://owner:{right}@127.0.0.1:1/one", "cannot be reached or broke off"),
        ("postgresql://owner:pass@word:1/2@127.0.0.1/one", "An address of PostgreSQL cannot be read"),
        ("postgresql://owner:word%zz@127.0.0.1/one", "An address of PostgreSQL cannot be read"),
    ],
)
def test_a_server_that_cannot_be_used_is_one_sentence_without_the_password(
    server: Server, invoke: Invoke, address: str, said: str
) -> None:
    given = address.format(right="pass%40word%3A1%2F2", wrong="pass%40word%3A1%2F3", port=server.port)
    code, out, err = invoke("publish", index_of(1), "--to", given, "--no-gate")
    assert (code, out, err.count("\n")) == (2 if "cannot be read" in said else 1, "", 1)
    assert said in err
    assert "word" not in err.replace("password", "")


def test_the_same_database_twice_and_shards_in_another_order_are_refused(server: Server) -> None:
    with pytest.raises(RequestError, match="Two of the addresses lead to the same database"):
        ship(1, server, "one", "one")
    ship(1, server, "one", "two")
    with pytest.raises(
        RequestError, match=r"/two is shard 2 of other addresses; name the shards in the order of before"
    ):
        ship(2, server, "two", "one")
    assert ship(1, server, "one").is_new


def test_a_database_of_another_encoding_is_refused(server: Server) -> None:
    server.ask("postgres", "DROP DATABASE two WITH (FORCE)")
    server.ask("postgres", "CREATE DATABASE two ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(RequestError, match=r"/two has the encoding SQL_ASCII; create the database with UTF8\."):
        ship(1, server, "two")


# --- the command and its document


def test_the_command_publishes_and_says_where_without_the_password(server: Server, invoke: Invoke) -> None:
    to = f"{server.address('one')},{server.address('two')}"
    code, out, _ = invoke("publish", index_of(1), "--to", to, "--no-gate")
    places = [f"postgresql://127.0.0.1:{server.port}/{database}" for database in ("one", "two")]
    assert (code, out.splitlines()[1:-1]) == (0, places)
    assert re.match(r"published to stable: schema orchestr8_1, generation \w{16}, 6 fragments\n", out)
    assert re.search(r"\nsent ([\d,]+) of \1 rows\n$", out)
    code, out, _ = invoke("publish", index_of(1), "--to", to, "--no-gate", "--json")
    assert code == 0
    assert json.loads(out).items() >= {"published": False, "sent": 0, "rows": 0}.items()
    assert PASSWORD not in out


def test_without_the_driver_the_command_names_what_to_install(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orchestr8_sqlite.shipping.postgresql", None)
    code, _, err = invoke("publish", index_of(1), "--to", "postgresql://127.0.0.1/one", "--no-gate")
    assert (code, err) == (
        2,
        "Publishing to PostgreSQL needs the package psycopg: install orchestr8-sqlite[postgresql].\n",
    )


def test_an_index_below_its_bounds_is_not_published(server: Server, invoke: Invoke, tmp_path: Path) -> None:
    pages = {
        f"skills/{name}.md": markdown(f"useWhen: [Doing {name[::-1]}]") for name in ("ants", "bees", "cats", "dogs")
    }
    index = build(write_files(tmp_path / "library", pages), tmp_path / "index.db")
    code, _, err = invoke("publish", index, "--to", server.address("one"), "--fail-under", "success@1=1.0")
    assert code == 1
    assert err.startswith("Not published: ")
    assert server.ask("one", "SELECT to_regnamespace('orchestr8') IS NULL") == [(True,)]


def test_ten_questions_of_the_document_have_the_answers_of_the_index(server: Server) -> None:
    ship(BUNDLED, server, "one")
    questions = dict(re.findall(r"^### ([^\n]*)\n\n```sql\n(.*?)```", DOCUMENT, re.DOTALL | re.MULTILINE))
    assert len(questions) == 10
    (choose,) = [block for block in SQL_BLOCK.findall(DOCUMENT) if "set_config" in block]
    with psycopg.connect(server.address("one")) as db, closing(sqlite3.connect(BUNDLED)) as index:
        db.execute(choose)
        for question, sql in questions.items():
            found = db.execute(sql).fetchall()
            assert found, question
            same = sql.replace("::bigint", "").replace("octet_length(", "length(")
            if "tsquery" in sql:
                words = '"retry"' if "quote_literal" in sql else '"retry" AND "backoff"'
                same = (
                    "SELECT f.uri FROM fragment_text t JOIN fragment f ON f.id = t.rowid "
                    f"WHERE fragment_text MATCH '{words}' ORDER BY f.uri"
                )
            assert found == index.execute(same).fetchall(), question
