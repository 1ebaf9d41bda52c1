"""SQL and code for PostgreSQL in the shipped library does what its text says, for the second caller too."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from content.blocks import Block, read_blocks
from postgresql_server import Server, postgresql_server, program
from psycopg.rows import dict_row
from support import brought

pytestmark = pytest.mark.slow

RESOURCES = Path(__file__).parents[1] / "resources"
NUMBERS = count(1)

Connection = psycopg.Connection[Any]
Connect = Callable[[], Connection]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    brought(lambda: program("initdb"))
    with postgresql_server() as running:
        yield running


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Return what opens a connection to a database of the test's own; each statement of it is committed."""
    name = f"test{next(NUMBERS)}"
    server.ask("postgres", f"CREATE DATABASE {name}")
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(psycopg.connect(server.address(name), autocommit=True))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


def blocks(document: str, language: str = "sql") -> list[Block]:
    return [block for block in read_blocks(RESOURCES / document) if block.language == language]


def run_sql(db: Connection, document: str, *numbers: int) -> None:
    """Run the SQL blocks of a document with these numbers, or all."""
    for number, block in enumerate(blocks(document)):
        if not numbers or number in numbers:
            db.execute(block.text.encode())


def run_python(document: str) -> dict[str, Any]:
    (block,) = blocks(document, "python")
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.text, block.place, "exec", dont_inherit=True), names)
    return names


def ask(db: Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a statement with parameters `$1`, as the documents write them."""
    return psycopg.RawCursor(db).execute(sql.encode(), values or None).fetchall()


def at_once(calls: Sequence[Callable[[], object]]) -> list[object]:
    """Start all calls together; return what they returned or raised."""
    meet = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        meet.wait()
        try:
            return call()
        except psycopg.Error as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.parametrize(
    "document",
    [
        "agents/privacy-engineer.md",
        "examples/postgres-full-text-search.md",
        "examples/postgres-job-queue.md",
        "examples/sql-recursive-hierarchy.md",
        "patterns/architecture-modular-monolith.md",
        "patterns/event-driven-saga.md",
        "skills/api-webhooks.md",
    ],
)
def test_the_sql_of_a_document_runs_from_top_to_bottom(document: str, connect: Connect) -> None:
    run_sql(connect(), document)


def test_row_level_security_passes_its_own_test_and_shows_a_session_without_tenant_nothing(connect: Connect) -> None:
    db = connect()
    run_sql(db, "examples/postgres-row-level-security.md", 0, 1)
    db.execute("SET ROLE app_user")
    assert db.execute("SELECT count(*) FROM app.open_task").fetchone() == (0,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("INSERT INTO app.project (name) VALUES ('nobody''s')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("TRUNCATE app.task")


JOBS = "examples/postgres-job-queue.md"


@pytest.fixture
def queue(connect: Connect) -> Connection:
    db = connect()
    run_sql(db, JOBS, 0)
    db.execute("CREATE TABLE effect (job int)")
    return db


def test_workers_at_once_do_each_job_once(queue: Connection, connect: Connect) -> None:
    block, done = run_python(JOBS), list[int]()
    for number in range(40):
        block["enqueue"](queue, {"n": number})

    def work(db: Connection) -> None:
        db.autocommit = False
        while block["run_once"](db, lambda payload: done.append(payload["n"])):
            pass

    at_once([partial(work, connect()) for _ in range(4)])
    assert sorted(done) == list(range(40))
    assert queue.execute("SELECT count(*) FROM job").fetchone() == (0,)


def test_a_worker_that_outlived_its_lease_leaves_no_effect(queue: Connection, connect: Connect) -> None:
    block, slow = run_python(JOBS), connect()
    slow.autocommit = False
    block["enqueue"](queue, {"n": 1})

    def handle(_: object) -> None:
        slow.execute("INSERT INTO effect VALUES (1)")
        queue.execute("UPDATE job SET locked_until = now() - interval '1 s'")
        other = connect()
        other.autocommit = False
        block["run_once"](other, lambda _: other.execute("INSERT INTO effect VALUES (2)"))

    block["run_once"](slow, handle)
    assert queue.execute("SELECT job FROM effect").fetchall() == [(2,)]


def test_a_transaction_of_the_handler_is_not_undone_with_the_job(queue: Connection, connect: Connect) -> None:
    block, worker = run_python(JOBS), connect()
    worker.autocommit = False
    block["enqueue"](queue, {"n": 1})

    def handle(_: object) -> None:
        with worker.transaction():
            worker.execute("INSERT INTO effect VALUES (1)")
        raise OSError

    assert block["run_once"](worker, handle)
    assert queue.execute("SELECT job FROM effect").fetchall() == [(1,)]


def test_a_job_that_fails_is_undone_tried_again_and_given_up(queue: Connection, connect: Connect) -> None:
    block, worker = run_python(JOBS), connect()
    worker.autocommit = False
    block["enqueue"](queue, {"n": 1})

    def handle(_: object) -> None:
        worker.execute("INSERT INTO effect VALUES (1)")
        raise OSError("no\0 \ud800")

    for _ in range(5):
        assert block["run_once"](worker, handle)
        assert not block["run_once"](worker, handle)  # it waits
        queue.execute("UPDATE job SET run_at = now()")
    assert not block["run_once"](worker, handle)
    assert queue.execute("SELECT attempts, failed_at IS NULL, last_error ~ 'OSError' FROM job").fetchall() == [
        (5, False, True)
    ]
    assert queue.execute("SELECT count(*) FROM effect").fetchone() == (0,)


def test_jobs_of_one_key_are_merged_until_the_first_has_begun(queue: Connection, connect: Connect) -> None:
    block, worker = run_python(JOBS), connect()
    worker.autocommit = False
    for _ in range(3):
        block["enqueue"](queue, {"n": 1}, dedupe="k")
    assert queue.execute("SELECT count(*) FROM job").fetchone() == (1,)
    block["run_once"](worker, lambda _: block["enqueue"](queue, {"n": 1}, dedupe="k"))
    assert queue.execute("SELECT attempts FROM job").fetchall() == [(0,)]


def test_a_worker_that_is_told_to_stop_finishes_its_job_and_begins_no_other(queue: Connection) -> None:
    block, done, stop = run_python(JOBS), list[int](), threading.Event()
    for number in range(3):
        block["enqueue"](queue, {"n": number})

    def handle(payload: dict[str, int]) -> None:
        stop.set()
        done.append(payload["n"])

    info = queue.info
    address = psycopg.conninfo.make_conninfo(info.dsn, password=info.password)
    worker = threading.Thread(target=block["worker"], args=(address, handle, stop), daemon=True)
    worker.start()
    worker.join(30)
    assert (done, worker.is_alive()) == ([0], False)
    assert queue.execute("SELECT attempts FROM job ORDER BY id").fetchall() == [(0,), (0,)]


@pytest.fixture
def once(connect: Connect) -> Callable[..., tuple[int, dict[str, Any], bool]]:
    run_sql(connect(), "patterns/idempotency.md", 0)
    found: Callable[..., tuple[int, dict[str, Any], bool]] = run_python("patterns/idempotency.md")["once"]
    return found


KEY = (1, "/payments", "k" * 16)


def test_requests_with_one_key_have_one_effect_and_one_answer(
    once: Callable[..., tuple[int, dict[str, Any], bool]], connect: Connect
) -> None:
    effects = list[int]()

    def pay(db: Connection, _: object) -> tuple[int, dict[str, int]]:
        db.execute("SELECT pg_sleep(0.1)")
        effects.append(1)
        return 201, {"id": len(effects)}

    answers = at_once([partial(once, connect(), *KEY, {"a": 1}, pay) for _ in range(8)])
    assert sorted(answers, key=str) == [(201, {"id": 1}, False), *[(201, {"id": 1}, True)] * 7]


def test_a_key_is_free_again_after_a_failed_effect_and_refused_for_another_body(
    once: Callable[..., tuple[int, dict[str, Any], bool]], connect: Connect
) -> None:
    db = connect()

    def fail(*_: object) -> tuple[int, dict[str, int]]:
        raise OSError("down")

    with pytest.raises(OSError, match="down"):
        once(db, *KEY, {"a": 1}, fail)
    assert once(db, *KEY, {"a": 1}, lambda *_: (201, {})) == (201, {}, False)
    with pytest.raises(Exception, match="k" * 16) as refused:
        once(db, *KEY, {"a": 2}, fail)
    assert type(refused.value).__name__ == "KeyReused"


def test_a_repeat_gets_the_fields_of_the_reply_in_their_order_whatever_rows_the_connection_makes(
    once: Callable[..., tuple[int, dict[str, Any], bool]], connect: Connect
) -> None:
    db = connect()
    db.row_factory = dict_row
    for repeated in (False, True):
        answer = once(db, *KEY, {"a": 1}, lambda *_: (201, {"zebra": 1, "a": 2}))
        assert (list(answer[1]), answer[2]) == (["zebra", "a"], repeated)


def test_an_effect_may_answer_to_an_error_of_the_database_that_it_met_in_a_transaction_of_its_own(
    once: Callable[..., tuple[int, dict[str, Any], bool]], connect: Connect
) -> None:
    db = connect()
    db.execute("CREATE TABLE taken (id int PRIMARY KEY); INSERT INTO taken VALUES (1)")

    def bare(db: Connection, _: object) -> tuple[int, dict[str, str]]:
        try:
            db.execute("INSERT INTO taken VALUES (1)")
        except psycopg.errors.UniqueViolation:
            return 409, {"error": "taken"}
        return 201, {}

    def nested(db: Connection, body: object) -> tuple[int, dict[str, str]]:
        try:
            with db.transaction():
                db.execute("INSERT INTO taken VALUES (1)")
        except psycopg.errors.UniqueViolation:
            return 409, {"error": "taken"}
        return 201, {}

    with pytest.raises(psycopg.errors.InFailedSqlTransaction) as failed:
        once(db, *KEY, {"a": 1}, bare)
    assert failed.value.sqlstate == "25P02"
    assert once(db, *KEY, {"a": 1}, nested) == (409, {"error": "taken"}, False)
    assert once(db, *KEY, {"a": 1}, nested) == (409, {"error": "taken"}, True)


@pytest.mark.parametrize("seen", [0, None])
def test_writers_at_once_decide_each_on_all_events(seen: int | None, connect: Connect) -> None:
    run_sql(connect(), "patterns/event-driven-eventsourcing.md", 0)
    append = "SELECT append_if('joined', '{course:1}', '{}', '{course:1}', $1)"
    answers = at_once([partial(ask, connect(), append, seen) for _ in range(8)])
    assert sum(isinstance(one, list) for one in answers) == 1
    assert {one.sqlstate for one in answers if isinstance(one, psycopg.Error)} == {"40001"}


def test_an_event_that_becomes_visible_after_the_decision_is_noticed(connect: Connect) -> None:
    late, db = connect(), connect()
    run_sql(db, "patterns/event-driven-eventsourcing.md", 0)
    append = "SELECT append_if('joined', $1, '{}', $1, $2)"
    with late.transaction():
        ask(late, append, "{course:1,student:9}", 0)
        ask(db, append, "{course:2,student:7}", 0)
        seen = ask(db, "SELECT count(*) FROM event WHERE tags && $1", "{course:1,student:7}")[0][0]
    assert seen == 1
    with pytest.raises(psycopg.errors.SerializationFailure):
        ask(db, append, "{course:1,student:7}", seen)


def test_the_trail_has_what_changed_and_nothing_else(connect: Connect) -> None:
    db = connect()
    run_sql(db, "patterns/database-audit-history.md", 0)
    db.execute("INSERT INTO customer (name, credit_limit, password_hash) VALUES ('Ann', 1, 'secret')")
    for change in ("credit_limit = 2", "password_hash = 'other'", "name = name"):
        db.execute(f"UPDATE customer SET {change}".encode())
    db.execute("DELETE FROM customer")
    trail = db.execute("SELECT op::text, actor, old_values, new_values FROM audit.change ORDER BY id").fetchall()
    ann = {"id": 1, "name": "Ann", "credit_limit": 1}
    assert trail == [
        ("I", "owner", None, ann),
        ("U", "owner", {"credit_limit": 1}, {"credit_limit": 2}),
        ("D", "owner", ann | {"credit_limit": 2}, None),
    ]


def test_a_table_that_leaves_nothing_out_of_the_trail_can_be_written(connect: Connect) -> None:
    db = connect()
    run_sql(db, "patterns/database-audit-history.md", 0)
    db.execute("CREATE TABLE note (id int, text text)")
    db.execute("CREATE TRIGGER audit AFTER INSERT ON note FOR EACH ROW EXECUTE FUNCTION audit.log()")
    db.execute("INSERT INTO note VALUES (1, 'a')")
    assert db.execute("SELECT table_name, row_id, new_values FROM audit.change").fetchall() == [
        ("public.note", "1", {"id": 1, "text": "a"})
    ]


def test_a_row_is_found_in_the_trail_by_its_key_whatever_its_columns_are_called(connect: Connect) -> None:
    db = connect()
    run_sql(db, "patterns/database-audit-history.md", 0)
    db.execute("CREATE TABLE line (order_id int, pos int, cents int, PRIMARY KEY (order_id, pos))")
    db.execute(
        "CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON line "
        "FOR EACH ROW EXECUTE FUNCTION audit.log('{pos}', '{order_id,pos}')"
    )
    for change in ("INSERT INTO line VALUES (7, 1, 5)", "UPDATE line SET order_id = 8", "DELETE FROM line"):
        db.execute(change.encode())
    trail = db.execute("SELECT op::text, row_id, old_values FROM audit.change ORDER BY id").fetchall()
    assert trail == [
        ("I", "7,1", None),
        ("U", "7,1", {"order_id": 7}),
        ("D", "8,1", {"order_id": 8, "cents": 5}),
    ]


TREE = "examples/sql-recursive-hierarchy.md"


@pytest.mark.parametrize(
    "ring",
    [
        "UPDATE category SET parent_id = 5 WHERE id = 2",
        "INSERT INTO category VALUES (10, 11, 'x'), (11, 10, 'y')",
        "UPDATE category SET parent_id = CASE id WHEN 2 THEN 3 WHEN 3 THEN 2 END WHERE id IN (2, 3)",
    ],
)
def test_a_ring_of_categories_is_refused(ring: str, connect: Connect) -> None:
    db = connect()
    run_sql(db, TREE, 0, 3)
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute(ring.encode())


def test_two_moves_at_once_close_no_ring(connect: Connect) -> None:
    db = connect()
    run_sql(db, TREE, 0, 3)
    moves = ["UPDATE category SET parent_id = 3 WHERE id = 2", "UPDATE category SET parent_id = 2 WHERE id = 3"]
    answers = at_once([partial(connect().execute, move.encode()) for move in moves])
    assert sum(isinstance(one, psycopg.errors.CheckViolation) for one in answers) == 1


CLOSURE = """
WITH RECURSIVE p AS (
  SELECT id AS ancestor, id AS descendant, 0 AS depth FROM category
  UNION ALL SELECT p.ancestor, c.id, p.depth + 1 FROM p JOIN category c ON c.parent_id = p.descendant
)
SELECT count(*) FROM ((TABLE p EXCEPT TABLE category_path) UNION ALL (TABLE category_path EXCEPT TABLE p)) d
"""


@pytest.mark.parametrize("target", ["3", "5"])
def test_a_subtree_is_moved_as_a_whole_or_not_at_all(target: str, connect: Connect) -> None:
    db = connect()
    run_sql(db, TREE, 0, 3)
    table, _, move = blocks(TREE)[4].text.partition("-- move subtree 4 below 3\n")
    db.execute(table.encode())
    move = move.replace("parent_id = 3", f"parent_id = {target}").replace("descendant = 3", f"descendant = {target}")
    for statement in filter(str.strip, move.split(";\n")):
        try:
            db.execute(statement.encode())
        except psycopg.Error:
            continue
    db.close()
    assert connect().execute(CLOSURE).fetchone() == (0,)


CONTACTS = "examples/sql-upsert-deduplicate.md"


def test_the_newest_message_of_a_batch_wins_and_a_late_one_changes_nothing(connect: Connect) -> None:
    db = connect()
    run_sql(db, CONTACTS, 0)
    _, one, batch, *_ = (block.text for block in blocks(CONTACTS))
    send = psycopg.RawCursor(db)
    addresses, names = ["ann@example.com", "ANN@example.com", "bob@example.com"], ["Old", "New", "Bob"]
    send.execute(batch.encode(), (addresses, names, ["2026-12-01", "2026-12-02", "2026-12-01"]))
    send.execute(batch.encode(), ([], [], []))
    assert send.execute(one.encode()).fetchall() == []
    assert db.execute("SELECT name FROM contact ORDER BY name").fetchall() == [("Bob",), ("New",)]


def test_batches_in_opposite_order_do_not_deadlock(connect: Connect) -> None:
    db = connect()
    run_sql(db, CONTACTS, 0)
    batch, addresses = blocks(CONTACTS)[2].text.encode(), [f"a{number}@example.com" for number in range(500)]

    def send(to: Connection, keys: Sequence[str], day: int) -> None:
        for second in range(5):
            stamps = [f"2026-12-{day:02} 00:00:0{second}"] * len(keys)
            psycopg.RawCursor(to).execute(batch, (keys, keys, stamps))

    answers = at_once([partial(send, connect(), addresses[:: 1 if day % 2 else -1], day) for day in range(1, 5)])
    assert answers == [None] * 4


def test_get_or_create_gives_one_id(connect: Connect) -> None:
    run_sql(connect(), CONTACTS, 0)
    statement = blocks(CONTACTS)[3].text
    answers = at_once([partial(ask, connect(), statement, "Ann@example.com", "Ann") for _ in range(8)])
    again = ask(connect(), statement, "ann@example.com", "Ann")
    assert len(again) == 1
    assert all(one in ([], again) for one in answers)


def test_merged_duplicates_keep_all_that_pointed_at_them(connect: Connect) -> None:
    db = connect()
    run_sql(db, CONTACTS, 0)
    tables, _, merge = blocks(CONTACTS)[4].text.partition("BEGIN;\n")
    db.execute(tables.encode())
    db.execute(
        """INSERT INTO contact (email, name, source_ts) VALUES
             ('ann@example.com', 'Old', '2026-01-01'), (' Ann@example.com', 'New', '2026-02-01'),
             ('ann@example.com ', 'Older', '2025-01-01'), ('bob@example.com', 'Bob', '2026-01-01');
           INSERT INTO invoice VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, NULL);
           INSERT INTO contact_tag VALUES (1, 'vip'), (2, 'vip'), (3, 'mail'), (4, 'mail')"""
    )
    db.execute(f"BEGIN;{merge}".encode())
    assert db.execute("SELECT id, name FROM contact ORDER BY id").fetchall() == [(2, "New"), (4, "Bob")]
    assert db.execute("SELECT contact_id FROM invoice ORDER BY id").fetchall() == [(2,), (2,), (2,), (4,), (None,)]
    assert db.execute("SELECT * FROM contact_tag ORDER BY 1, 2").fetchall() == [(2, "mail"), (2, "vip"), (4, "mail")]
    assert db.execute("SELECT * FROM contact_alias ORDER BY 1").fetchall() == [(1, 2), (3, 2)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("INSERT INTO contact (email, name, source_ts) VALUES ('ANN@example.com ', 'Ann', now())")


def test_an_endpoint_that_hangs_holds_five_deliveries_and_the_others_go_out(connect: Connect) -> None:
    db = connect()
    schema, claim = (block.text for block in blocks("skills/api-webhooks.md"))
    db.execute(schema.encode())
    db.execute(
        """INSERT INTO endpoint (id, tenant_id, url, secret_enc, types, state)
           SELECT md5(n::text)::uuid, md5('t')::uuid, 'https://example.com', '', '{}',
                  CASE n WHEN 3 THEN 'disabled' ELSE 'active' END FROM generate_series(1, 3) n;
           INSERT INTO delivery (endpoint_id, event_id, payload)
           SELECT id, md5(id::text || n)::uuid, '{}' FROM endpoint, generate_series(1, 8) n"""
    )
    assert len(db.execute(claim.encode()).fetchall()) == 10
    assert db.execute(claim.encode()).fetchall() == []
    db.execute(
        """UPDATE delivery SET state = 'done' WHERE attempt = 1 AND endpoint_id = md5('1')::uuid;
           UPDATE endpoint SET busy_until = '-infinity' WHERE id = md5('1')::uuid"""
    )
    assert len(db.execute(claim.encode()).fetchall()) == 3


def test_workers_that_claim_at_once_take_five_deliveries_of_one_endpoint(connect: Connect) -> None:
    db = connect()
    schema, claim = (block.text for block in blocks("skills/api-webhooks.md"))
    db.execute(schema.encode())
    workers = [connect() for _ in range(4)]
    for _ in range(10):
        db.execute(
            """TRUNCATE endpoint CASCADE;
               INSERT INTO endpoint (id, tenant_id, url, secret_enc, types)
               VALUES (md5('1')::uuid, md5('t')::uuid, 'https://example.com', '', '{}');
               INSERT INTO delivery (endpoint_id, event_id, payload)
               SELECT md5('1')::uuid, md5(n::text)::uuid, '{}' FROM generate_series(1, 300) n"""
        )
        found = at_once([partial(ask, worker, claim) for worker in workers])
        assert sorted(map(len, found)) == [0, 0, 0, 5]  # type: ignore[arg-type]


def test_a_backfill_reaches_every_row_and_can_be_run_again(connect: Connect) -> None:
    db = connect()
    db.execute(
        """CREATE TABLE orders (id bigint PRIMARY KEY, total_cents int, total numeric);
           INSERT INTO orders SELECT n, n * 10 FROM generate_series(-7, 23) n;
           INSERT INTO orders VALUES (100, NULL)"""
    )
    procedure, _, _ = blocks("skills/database-migrations.md")[0].text.partition("CALL")
    db.execute(procedure.encode())
    for _ in range(2):
        db.execute("CALL backfill_total(10)")
        wrong = "SELECT count(*) FROM orders WHERE total IS DISTINCT FROM total_cents / 100.0"
        assert db.execute(wrong).fetchone() == (0,)
    db.execute("TRUNCATE orders")
    db.execute("CALL backfill_total()")


def test_both_users_of_a_rotation_may_use_tables_of_later_migrations(connect: Connect) -> None:
    db = connect()
    run_sql(db, "skills/security-secrets-management.md")
    db.execute("CREATE TABLE later (id bigint GENERATED ALWAYS AS IDENTITY, name text)")
    for user in ("app_a", "app_b"):
        db.execute(f"SET SESSION AUTHORIZATION {user}".encode())
        db.execute("INSERT INTO later (name) VALUES ('a')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("DROP TABLE later")
        db.execute("RESET SESSION AUTHORIZATION")
    assert db.execute("SELECT count(*) FROM later").fetchone() == (2,)


def test_a_foreign_key_counts_as_indexed_only_where_an_index_begins_with_it(connect: Connect) -> None:
    db = connect()
    db.execute(
        """CREATE TABLE a (id int PRIMARY KEY, other int, UNIQUE (id, other));
           CREATE TABLE plain (a int REFERENCES a, b int);
           CREATE TABLE second (a int REFERENCES a, b int);
           CREATE TABLE part (a int REFERENCES a, b int);
           CREATE TABLE pair (b int, a int, FOREIGN KEY (a, b) REFERENCES a (id, other));
           CREATE TABLE good (a int REFERENCES a, b int, FOREIGN KEY (a, b) REFERENCES a (id, other));
           CREATE INDEX ON second (b, a);
           CREATE INDEX ON part (a) WHERE b = 1;
           CREATE TABLE carried (a int, b int, FOREIGN KEY (a, b) REFERENCES a (id, other));
           CREATE INDEX ON carried (a) INCLUDE (b);
           CREATE INDEX ON pair (a);
           CREATE INDEX ON good (a, b);"""
    )
    query, *_ = blocks("patterns/database-indexing-strategies.md")[1].text.split(";\n", 1)
    assert sorted(row[0] for row in db.execute(query.encode())) == ["carried", "pair", "part", "plain", "second"]


def test_the_invalid_index_of_a_partitioned_table_is_listed(connect: Connect) -> None:
    db = connect()
    db.execute(
        """CREATE TABLE p (a int) PARTITION BY RANGE (a);
           CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
           CREATE INDEX p_half ON ONLY p (a)"""
    )
    _, query, *_ = blocks("patterns/database-indexing-strategies.md")[1].text.split(";\n")
    query = query.replace("s.last_idx_scan", "NULL::timestamptz")  # 16+
    assert ("p_half", None, None, False) in [row[:4] for row in db.execute(query.encode())]


def test_each_customer_has_its_newest_orders_or_none(connect: Connect) -> None:
    db = connect()
    db.execute(
        """CREATE TABLE customer (id int PRIMARY KEY, email text);
           CREATE TABLE orders (id int, customer_id int, total_cents int, created_at timestamptz);
           INSERT INTO customer SELECT n, 'a' || n FROM generate_series(1, 3) n;
           INSERT INTO orders SELECT n, 1, n, '2026-01-01' FROM generate_series(1, 5) n"""
    )
    rows = ask(db, blocks("patterns/database-query-optimization.md")[0].text, [1, 2, 9])
    found = {id_: [order["id"] for order in orders] for id_, _, orders in rows}
    assert found == {1: [5, 4, 3], 2: []}


def test_an_article_of_next_year_is_no_division_by_zero(connect: Connect) -> None:
    db = connect()
    setup, search, *_ = (block.text for block in blocks("examples/postgres-full-text-search.md"))
    db.execute(setup.encode())
    with db.transaction():
        db.execute("UPDATE article SET published_at = now() + interval '31536000 s'")
        found = db.execute(search.encode()).fetchall()
    assert [title for _, title, *_ in found] == ["Running PostgreSQL in production"]


def test_tables_whose_changes_cannot_be_replicated_are_named(connect: Connect) -> None:
    db = connect()
    db.execute(
        """CREATE TABLE keyed (id int PRIMARY KEY);
           CREATE TABLE bare (id int);
           CREATE TABLE whole (id int);
           CREATE TABLE nothing (id int PRIMARY KEY);
           ALTER TABLE whole REPLICA IDENTITY FULL;
           ALTER TABLE nothing REPLICA IDENTITY NOTHING"""
    )
    query, *_ = blocks("guides/postgres-major-upgrade.md")[0].text.split(";\n", 1)
    assert sorted(row[0] for row in db.execute(query.encode())) == ["bare", "nothing"]


@pytest.mark.parametrize(("newest", "code"), [("now()", 0), ("now() - interval '2 days'", 1), ("", 1)])
def test_the_drill_fails_on_an_old_or_empty_dump_and_leaves_no_database(
    newest: str, code: int, server: Server, connect: Connect, tmp_path: Path
) -> None:
    db = connect()
    db.execute("CREATE TABLE orders (created_at timestamptz)")
    if newest:
        db.execute(f"INSERT INTO orders VALUES ({newest})".encode())
    environment = os.environ | {"PATH": f"{program('initdb').parent}:{os.environ['PATH']}", **variables(server, db)}
    dump = ["pg_dump", "--format=directory", f"--file={tmp_path / 'dump'}"]
    subprocess.run(dump, env=environment | {"PGDATABASE": db.info.dbname}, check=True)
    (tmp_path / "drill").write_text(blocks("guides/postgres-backup-restore.md", "bash")[-1].text)
    command = ["bash", str(tmp_path / "drill"), str(tmp_path / "dump")]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert (done.returncode, "restored in" in done.stdout) == (code, True)
    assert server.ask("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^drill_'") == []


def test_one_table_is_restored_with_its_rows_and_no_others_rows(
    server: Server, connect: Connect, tmp_path: Path
) -> None:
    db = connect()
    db.execute(
        """CREATE TABLE orders (id serial PRIMARY KEY, day date);
           CREATE TABLE orders_archive (id int);
           INSERT INTO orders (day) SELECT '2026-01-01' FROM generate_series(1, 3);
           INSERT INTO orders_archive VALUES (1)"""
    )
    environment = os.environ | {"PATH": f"{program('initdb').parent}:{os.environ['PATH']}", **variables(server, db)}
    dump = ["pg_dump", "--format=directory", f"--file={tmp_path / 'backup/latest/app'}", db.info.dbname]
    (tmp_path / "backup" / "latest").mkdir(parents=True)
    subprocess.run(dump, env=environment, check=True)
    (restore,) = [one.text for one in blocks("guides/postgres-backup-restore.md", "bash") if "--data-only" in one.text]
    subprocess.run(["bash", "-euc", restore], env=environment, check=True, cwd=tmp_path)
    assert server.ask("scratch", "SELECT count(*) FROM orders") == [(3,)]
    assert server.ask("scratch", "SELECT count(*) FROM orders_archive") == [(0,)]


def variables(server: Server, db: Connection) -> dict[str, str]:
    """Return what programs of PostgreSQL read from the environment to reach a server."""
    return {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": db.info.user, "PGPASSWORD": db.info.password}
