"""The statement of a person only reads, and ends within its bounds of time and memory."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import Invoke, MakeCatalog, build, make_fragment, markdown, write_files

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index import statements

COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
Run = Callable[..., list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("statements")
    files = {"skills/retry.md": markdown("useWhen:\n  - Retrying a flaky call")}
    return build(write_files(folder / "library", files), folder / "index.db")


@pytest.fixture
def run(make_catalog: MakeCatalog) -> Run:
    """Return a function that runs a statement on an index and returns its rows."""
    path = make_catalog(make_fragment("retry", "Retrying a call", body="# Retry")).path

    def run_on_index(statement: str, seconds: float = 20) -> list[tuple[object, ...]]:
        uri = f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
            return [tuple(row) for row in statements.run_statement(db, statement, seconds)[1]]

    return run_on_index


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Return a confined connection to a file that could be written: what is refused, is refused by the confinement."""
    path = tmp_path / "open.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE VIRTUAL TABLE fragment_text USING fts5(a)")
        db.execute("CREATE TABLE t (x)")
        statements.confine(db)
        yield db


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET x = 1",
        "DELETE FROM t",
        "REPLACE INTO t VALUES (1)",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "CREATE TABLE u (x)",
        "CREATE TEMP TABLE u (x)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, fragment_text, row)",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN y",
        "REINDEX",
        "ANALYZE",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "ATTACH 'other.db' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "INSERT INTO fragment_text(fragment_text) VALUES ('optimize')",
        "INSERT INTO fragment_text(fragment_text, rank) VALUES ('pgsz', 64)",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = WAL",
        "PRAGMA user_version = 7",
        "PRAGMA application_id = 7",
        "PRAGMA writable_schema = ON",
        "PRAGMA temp_store_directory = '.'",
        "PRAGMA wal_checkpoint",
        "PRAGMA optimize",
        "PRAGMA incremental_vacuum",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA trusted_schema = ON",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
    ],
)
def test_nothing_but_reading_is_allowed_even_where_the_file_could_be_written(
    writable: sqlite3.Connection, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(sqlite3.Error):
        writable.execute(statement).fetchall()
    assert sorted(tmp_path.iterdir()) == before
    with closing(sqlite3.connect(tmp_path / "open.db")) as other:
        assert other.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'fragment_text%'").fetchall() == [
            ("t",)
        ]
        assert other.execute("SELECT * FROM t").fetchall() == []


def test_writing_is_off_even_without_the_authorizer(writable: sqlite3.Connection) -> None:
    writable.set_authorizer(None)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        writable.execute("INSERT INTO t VALUES (1)")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT uri FROM fragment_detail",
        "SELECT count(*) FROM fragment_text WHERE fragment_text MATCH '\"retry\"'",
        "SELECT name FROM pragma_table_info('fragment')",
        "PRAGMA table_info(fragment)",
        "PRAGMA user_version",
        f"{COUNTING} SELECT i FROM n LIMIT 3",
        "SELECT DISTINCT length(body) FROM fragment_body ORDER BY 1",
        "SELECT value FROM json_each('[1]')",
    ],
)
def test_reading_and_describing_is_allowed(run: Run, statement: str) -> None:
    assert run(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT randomblob(1000000000)",
        "SELECT zeroblob(1000000000)",
        "SELECT hex(zeroblob(60000000))",
        f"SELECT x || x || x FROM (SELECT hex(zeroblob({statements.LARGEST_VALUE // 4})) AS x)",
        pytest.param(
            f"{COUNTING} SELECT group_concat(hex(zeroblob(1000000))) FROM (SELECT i FROM n LIMIT 10000)",
            marks=pytest.mark.slow,
        ),
        f"{COUNTING} SELECT zeroblob(60000000) FROM n LIMIT 1000",
        pytest.param("SELECT " + ", ".join(["randomblob(60000000)"] * 100), marks=pytest.mark.slow),
    ],
)
def test_statement_that_wants_too_much_memory_ends_with_one_sentence(run: Run, statement: str) -> None:
    with pytest.raises(RequestError) as refused:
        run(statement)
    assert str(refused.value) == (
        "The statement needs more memory than it may have (64 MiB a value, 256 MiB of rows); "
        "narrow it down with WHERE or LIMIT."
    )


def test_memory_of_rows_is_counted_in_bytes_as_python_stores_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "LARGEST_RESULT", 1 << 20)
    narrow = "SELECT printf('%.*c', 200000, 'x')"
    assert run(f"{narrow} UNION ALL {narrow}")
    wide = f"SELECT char(128512) || ({narrow})"  # one character of four bytes makes all of them as wide
    with pytest.raises(RequestError, match="needs more memory"):
        run(f"{wide} UNION ALL {wide}")


def test_rows_may_take_as_many_bytes_as_they_are_allowed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, "a"), (2, "b")]
    size = sum(sys.getsizeof(row) + sum(map(sys.getsizeof, row)) for row in rows)
    statement = "SELECT 1, 'a' UNION ALL SELECT 2, 'b'"
    monkeypatch.setattr(statements, "LARGEST_RESULT", size)
    assert run(statement) == rows
    monkeypatch.setattr(statements, "LARGEST_RESULT", size - 1)
    with pytest.raises(RequestError, match="needs more memory"):
        run(statement)


@pytest.mark.parametrize("statement", ["", " \n", ";"])
def test_statement_that_is_empty_is_refused_in_one_sentence(run: Run, statement: str) -> None:
    with pytest.raises(RequestError, match=r"^The statement is empty; write a SELECT\.$"):
        run(statement)


def test_columns_are_named_where_there_are_no_rows_too() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        assert statements.run_statement(db, "SELECT 1 AS one, 2 AS two", 1) == (["one", "two"], [(1, 2)])
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        assert statements.run_statement(db, "SELECT 1 AS one WHERE 0", 1) == (["one"], [])


@pytest.mark.parametrize(
    "statement",
    [
        f"{COUNTING} SELECT count(*) FROM n",
        f"{COUNTING} SELECT max(i) FROM n",
        f"{COUNTING} SELECT a.i FROM n a JOIN n b ON a.i = -b.i LIMIT 1",
    ],
)
def test_statement_without_an_end_is_ended(run: Run, statement: str) -> None:
    started = time.monotonic()
    with pytest.raises(RequestError, match=r"^The statement was ended after 0\.3 s; .*--timeout\.$"):
        run(statement, 0.3)
    assert time.monotonic() - started < 10


def test_function_that_does_not_end_is_ended_with_the_process(index: Path) -> None:
    """Within one function no clock is looked at."""
    slow = "SELECT instr(zeroblob(40000000), zeroblob(20000000) || x'01')"
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "orchestr8_sqlite", "sql", slow, "--timeout", "0.2", "--db", str(index)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert time.monotonic() - started < 30
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("The statement was ended after 0.2 s; narrow it down, or allow it more with --timeout.\n")


def test_sorting_writes_no_file(index: Path) -> None:
    """More than SQLite keeps in memory of its own accord; a byte written to a file would be an error."""
    resource = pytest.importorskip("resource")
    numbers = f"{COUNTING} SELECT count(*) FROM (SELECT hex(randomblob(50)) AS x FROM n LIMIT 300000)"
    done = subprocess.run(
        [sys.executable, "-B", "-m", "orchestr8_sqlite", "sql", f"{numbers} GROUP BY x LIMIT 1", "--db", str(index)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert (done.returncode, done.stdout) == (0, "count(*)\n1\n")


def test_refusal_says_what_is_allowed(invoke: Invoke, index: Path) -> None:
    code, _, err = invoke("sql", "DELETE FROM fragment", "--db", index)
    assert code == 2
    assert err.startswith("SQLite says: not authorized. Only reading is allowed here.")


def test_damage_is_not_told_as_a_mistake_in_the_statement(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "plain.db")) as db, db:
        db.execute("CREATE TABLE word (text)")
        db.executemany("INSERT INTO word VALUES (?)", [(f"word {number}",) for number in range(5000)])
    content = bytearray((tmp_path / "plain.db").read_bytes())
    content[8192:8208] = b"x" * 16  # the header of a page
    (tmp_path / "plain.db").write_bytes(content)
    with (
        closing(sqlite3.connect(tmp_path / "plain.db")) as db,
        pytest.raises(sqlite3.DatabaseError, match="malformed"),
    ):
        statements.run_statement(db, "SELECT count(text) FROM word", 5)
