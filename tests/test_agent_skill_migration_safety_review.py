"""The script of the skill migration-safety-review finds what blocks, breaks or loses, and only that."""

from pathlib import Path

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("migration-safety-review", "review_sql.py")
READY = "SET lock_timeout = '2s';\n"


def rules(sql: str, *arguments: str) -> list[tuple[int, str]]:
    """Return line and rule of what is found in *sql*."""
    report = run_json(*SCRIPT, "-", *arguments, stdin=READY + sql)
    return [(finding["line"], finding["rule"]) for finding in report["findings"]]


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("CREATE UNIQUE INDEX i ON t (a);", "index-blocks-writes"),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL;", "set-not-null-scans"),
        ("ALTER TABLE t ADD CONSTRAINT n NOT NULL a;", "set-not-null-scans"),
        ("ALTER TABLE t ADD NOT NULL a;", "set-not-null-scans"),
        ("REPACK t;", "table-rewrites"),
        ("ALTER TABLE s.t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id);", "foreign-key-scans"),
        ("ALTER TABLE t ALTER CONSTRAINT f ENFORCED;", "foreign-key-scans"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0);", "check-scans"),
        ("ALTER TABLE t ADD UNIQUE (a);", "unique-builds-index"),
        ("ALTER TABLE t ALTER a TYPE bigint;", "type-rewrites"),
        ("ALTER TABLE t ADD a uuid DEFAULT gen_random_uuid();", "column-rewrites"),
        ("ALTER TABLE t ADD COLUMN a int DEFAULT 1, ADD COLUMN b int NOT NULL;", "not-null-without-default"),
        ("ALTER TABLE t DROP IF EXISTS a;", "drops-column"),
        ("ALTER TYPE t DROP ATTRIBUTE a;", "drops-column"),
        ("TRUNCATE t;", "drops-data"),
        ("UPDATE t SET a = 'where';", "all-rows"),
        ("ALTER TABLE t RENAME COLUMN a TO b;", "rename-breaks-code"),
        ("DO $do$ BEGIN IF true THEN DROP TABLE t; END IF; END $do$;", "drops-data"),
    ],
)
def test_a_dangerous_statement_is_named(sql: str, rule: str) -> None:
    assert rules(sql) == [(2, rule)]


@pytest.mark.parametrize(
    "sql",
    [
        "SET lock_timeout = 0; CREATE INDEX CONCURRENTLY i ON t (a);",
        "CREATE TABLE t (id int PRIMARY KEY, a text); CREATE INDEX ON t (a); ALTER TABLE t ALTER a SET NOT NULL;",
        "ALTER TABLE t ADD CONSTRAINT n NOT NULL a NOT VALID;",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) NOT ENFORCED;",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id) NOT ENFORCED;",
        "CREATE TEMP TABLE t (a int) ON COMMIT DROP; CREATE INDEX ON t (a); DELETE FROM t; DROP TABLE t;",
        "CREATE LOCAL TEMPORARY TABLE t AS SELECT 1 AS a; CREATE INDEX ON t (a);",
        "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a; CREATE UNIQUE INDEX ON v (a);",
        "ALTER TABLE t ADD NOT NULL a NOT VALID;",
        "REPACK (CONCURRENTLY) t;",
        "ALTER TABLE t ALTER CONSTRAINT f NOT ENFORCED, ALTER CONSTRAINT g DEFERRABLE;",
        "ALTER TABLE t ADD COLUMN a int NOT NULL DEFAULT 0;",
        "ALTER TABLE t ADD COLUMN at timestamptz DEFAULT now();",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u NOT VALID;",
        "ALTER TABLE t ALTER a DROP NOT NULL, ALTER b DROP DEFAULT, DROP CONSTRAINT c;",
        (
            "ALTER TABLE t ADD CHECK (a IS NOT NULL) NOT VALID; ALTER TABLE t VALIDATE CONSTRAINT t_a_check;"
            "ALTER TABLE t ALTER a SET NOT NULL;"
        ),
        "-- DROP TABLE t;\n/* a /* b */ DROP TABLE t; */ SELECT 'DROP TABLE t;', \"drop\", $x$ DROP TABLE t; $x$;",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ DELETE FROM t; $$;",
        "COPY t FROM stdin;\n1\tDROP TABLE t;\n\\.\nSELECT 1;",
        "DELETE FROM t WHERE a = 1;",
    ],
)
def test_a_harmless_statement_is_let_pass(sql: str) -> None:
    assert rules(sql) == []


def test_a_transaction_makes_statements_worse() -> None:
    sql = "ALTER TABLE t ADD a int; SET lock_timeout TO DEFAULT;\n"
    sql += "CREATE INDEX CONCURRENTLY i ON t (a);\nUPDATE t SET a = 1 WHERE id < 9;\n"
    assert rules(sql) == []
    assert rules(sql, "--wrapped") == [(3, "not-in-transaction"), (4, "backfill-under-lock")]
    assert rules(f"BEGIN;\n{sql}COMMIT;\n") == [(4, "not-in-transaction"), (5, "backfill-under-lock")]


@pytest.mark.parametrize(
    "change",
    [
        "WITH n AS (SELECT 1) UPDATE t SET a = 1 WHERE a IS NULL;",
        "MERGE INTO t USING o ON t.id = o.id WHEN MATCHED THEN UPDATE SET a = o.a;",
        "WITH n AS (SELECT id FROM o) DELETE FROM ONLY t WHERE id IN (SELECT id FROM n);",
    ],
)
def test_a_backfill_by_merge_or_with_is_seen_under_the_lock(change: str) -> None:
    assert rules(f"ALTER TABLE t ADD a int;\n{change}", "--wrapped") == [(3, "backfill-under-lock")]
    assert rules(f"CREATE TABLE t (a int);\n{change}", "--wrapped") == []


def test_a_missing_lock_timeout_is_mentioned_once_and_is_no_danger(tmp_path: Path) -> None:
    path = tmp_path / "1.sql"
    path.write_text("ALTER TABLE t ADD a int;\nALTER TABLE t ADD b int;\n")
    done = run_script(*SCRIPT, tmp_path)
    assert done.returncode == 0
    assert f"{path}:1: caution no-lock-timeout t" in done.stdout
    assert "1 files, 2 statements: 0 danger, 1 caution, 0 note" in done.stdout


def test_a_comment_with_the_rule_or_a_small_table_silences_it() -> None:
    sql = "-- reviewed: drops-data nobody reads it\nDROP TABLE a;\nDROP TABLE b;\n"
    assert rules(sql) == [(4, "drops-data")]
    assert rules("ALTER TABLE countries ALTER a TYPE text;", "--small", "countries") == []


def test_danger_ends_with_exit_code_one(tmp_path: Path) -> None:
    path = tmp_path / "1.sql"
    path.write_text("DROP TABLE t CASCADE;\n")
    done = run_script(*SCRIPT, path)
    assert done.returncode == 1
    assert "danger cascade t" in done.stdout


def test_sql_that_does_not_end_is_refused_with_its_line(tmp_path: Path) -> None:
    for sql, words in (("SELECT 1;\nSELECT 'x;", "line 2: '"), ("\n/* x", "line 2: comment"), ("DO $a$ x", "$a$")):
        assert_refused(run_script(*SCRIPT, "-", stdin=sql), words, "not closed")
    assert_refused(run_script(*SCRIPT, tmp_path), "no *.sql files")
    assert_refused(run_script(*SCRIPT, tmp_path / "none.sql"), "No such file")


def rules_of(sql: str) -> list[str]:
    """Return the rules that speak of *sql*, without the one about timeouts."""
    report = run_json("migration-safety-review", "review_sql.py", "-", stdin=f"SET lock_timeout = '2s'; {sql}")
    return [one["rule"] for one in report["findings"]]


@pytest.mark.parametrize("name", ["", "i ", 'IF NOT EXISTS "a b" '])
def test_an_index_on_only_the_parent_of_partitions_is_no_danger(name: str) -> None:
    assert rules_of(f"CREATE INDEX {name}ON ONLY parent (a);") == ["index-on-only"]
    assert rules_of(f"CREATE UNIQUE INDEX {name}ON parent (a);") == ["index-blocks-writes"]


def test_commas_inside_parentheses_part_nothing() -> None:
    assert rules_of("ALTER TABLE t ADD COLUMN p numeric(10,2) NOT NULL;") == ["not-null-without-default"]
    assert rules_of("ALTER TABLE t ADD COLUMN p numeric(10,2) NOT NULL DEFAULT 0;") == []
    assert rules_of("ALTER TABLE t ADD a int, ALTER b SET DEFAULT nextval('s');") == []
    sql = "ALTER TABLE t ADD CONSTRAINT a CHECK (x > 0) NOT VALID, ADD CONSTRAINT b CHECK (f(x, y) > 0);"
    assert rules_of(sql) == ["check-scans"]


def test_a_condition_of_a_subquery_limits_no_update() -> None:
    assert rules_of("UPDATE t SET a = (SELECT 1 FROM u WHERE u.id = 1);") == ["all-rows"]
    assert rules_of("UPDATE t SET a = (SELECT 1) WHERE id < 9;") == []


def test_what_was_read_is_counted_and_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_bytes(b"-- nothing\n")
    done = run_script("migration-safety-review", "review_sql.py", path)
    assert "1 files, 0 statements: 0 danger" in done.stdout
    path.write_bytes("SELECT 1;".encode("utf-16"))
    assert_refused(run_script("migration-safety-review", "review_sql.py", path), "not UTF-8", "iconv")


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("ALTER TABLE t ADD COLUMN a int CHECK (a > 0);", "check-scans"),
        ("ALTER TABLE t ADD a int CONSTRAINT c CHECK (a > 0);", "check-scans"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int UNIQUE;", "unique-builds-index"),
        ("ALTER TABLE t ADD COLUMN a int DEFAULT 1 REFERENCES r;", "foreign-key-scans"),
        ("ALTER DOMAIN d ADD CHECK (VALUE > 0);", "check-scans"),
        ("ALTER DOMAIN d SET NOT NULL;", "set-not-null-scans"),
        ('ALTER TABLE "a ""b"", c" ALTER "my, col" SET NOT NULL;', "set-not-null-scans"),
        ('ALTER TABLE t ADD "a, b" int CHECK (x > 0);', "check-scans"),
    ],
)
def test_a_constraint_of_a_new_column_or_a_domain_is_checked_against_all_rows(sql: str, rule: str) -> None:
    assert rules_of(sql) == [rule]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD COLUMN a int REFERENCES t;",  # every row is null: nothing to check
        "ALTER TABLE t ADD COLUMN a int REFERENCES t ON DELETE SET DEFAULT;",
        "ALTER TABLE t ADD COLUMN checked int, ADD COLUMN unique_id int;",
        "ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE > 0) NOT VALID;",
        "CREATE DOMAIN d AS int CHECK (VALUE > 0);",
    ],
)
def test_a_column_or_domain_that_no_row_must_be_read_for_passes(sql: str) -> None:
    assert rules_of(sql) == []


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SET lock_timeout = '2s'; CREATE INDEX CONCURRENTLY i ON t (a);", "lock_timeout"),
        ("set session statement_timeout to 9000; DROP INDEX CONCURRENTLY i;", "statement_timeout"),
        ("SET lock_timeout=0; SET statement_timeout = '15min'; REINDEX (CONCURRENTLY) TABLE t;", "statement_timeout"),
        ("SELECT pg_catalog.set_config('lock_timeout', '2s', false); REINDEX INDEX CONCURRENTLY i;", "lock_timeout"),
    ],
)
def test_a_timeout_in_force_at_a_concurrent_index_is_told(sql: str, names: str) -> None:
    report = run_json(*SCRIPT, "-", stdin=sql)
    assert [one["rule"] for one in report["findings"]] == ["timeout-at-concurrent-index"]
    assert report["findings"][0]["effect"].startswith(f"{names} cuts its waits")


@pytest.mark.parametrize(
    "end", ["SET lock_timeout = '0ms';", "SET lock_timeout TO DEFAULT;", "RESET lock_timeout;", "RESET ALL;"]
)
def test_a_timeout_that_was_taken_back_is_not_in_force(end: str) -> None:
    assert rules(f"{end} CREATE INDEX CONCURRENTLY i ON t (a);") == []
    assert rules(f"{end} ALTER TABLE t ADD a int;") == [(2, "no-lock-timeout")]
    local = "RESET ALL; BEGIN; SET LOCAL lock_timeout = '2s'; COMMIT; CREATE INDEX CONCURRENTLY i ON t (a);"
    assert rules(local) == []


@pytest.mark.parametrize("command", ["  \\set x 1", "SELECT 1; \\echo now", "\t\\i other.sql"])
def test_a_command_of_psql_ends_with_its_line(command: str) -> None:
    assert (3, "drops-object") in rules(f"{command}\nDROP VIEW v;")


def test_set_local_counts_only_inside_a_transaction() -> None:
    sql = "RESET ALL;\nSET LOCAL lock_timeout = '2s';\nALTER TABLE t ADD a int;\n"
    assert rules(sql) == [(4, "no-lock-timeout")]
    assert rules(sql, "--wrapped") == []
    assert rules("RESET ALL; BEGIN; SET LOCAL lock_timeout = '2s'; ALTER TABLE t ADD a int; COMMIT;") == []


def test_the_settings_of_a_dump_are_no_lock_timeout() -> None:
    sql = "SET lock_timeout = 0;\nSELECT pg_catalog.set_config('search_path', '', false);\nALTER TABLE t ADD a int;\n"
    found = run_json(*SCRIPT, "-", stdin=sql)["findings"]
    assert [(one["line"], one["rule"]) for one in found] == [(3, "no-lock-timeout")]


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("WITH x AS (SELECT 1 WHERE true) DELETE FROM t;", "all-rows"),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x;", "all-rows"),
        ("UPDATE t SET a = 1 WHERE true;", "all-rows"),
        ("DELETE FROM t WHERE 1=1;", "all-rows"),
        ("VACUUM (VERBOSE, FULL) t;", "table-rewrites"),
        ("ALTER TABLE t SET ACCESS METHOD other;", "table-rewrites"),
        ("ALTER TABLE t ALTER a SET EXPRESSION AS (b + 1);", "column-rewrites"),
        ("ALTER TABLE t ADD COLUMN a text DEFAULT public.short_id();", "column-may-rewrite"),
        ("ALTER TABLE t SET SCHEMA archive;", "rename-breaks-code"),
        ("ALTER SCHEMA a RENAME TO b;", "rename-breaks-code"),
        ("ALTER TYPE mood RENAME VALUE 'a' TO 'b';", "rename-breaks-code"),
        ("ALTER TABLE t DETACH PARTITION p;", "detach-blocks"),
        ("DROP VIEW v;", "drops-object"),
        ("DROP OWNED BY app;", "drops-data"),
        ("\\i other.sql\nSELECT 1;", "not-read"),
        ("UPDATE t SET a = s.a FROM s WHERE s.id = t.s_id;", "backfill-in-one"),
        ("UPDATE t SET a = 1 FROM (SELECT 1 AS id WHERE x = 1) s WHERE s.id = t.s AND t.a IS NULL;", "backfill-in-one"),
        ("DELETE FROM t USING s WHERE t.id = s.id;", "backfill-in-one"),
        ("SELECT 'DROP TABLE ' || x FROM y \\gexec\n", "not-read"),
        ("DO $$ BEGIN EXECUTE 'DROP TABLE x'; END $$;", "not-read"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE; VACUUM t;", "not-in-transaction"),
    ],
)
def test_other_forms_of_the_same_danger_are_named(sql: str, rule: str) -> None:
    assert rules(sql) == [(2, rule)]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (SELECT 1) UPDATE t SET a = 1 WHERE id IN (SELECT * FROM x);",
        "UPDATE t SET a = b.a FROM (SELECT id, a FROM s ORDER BY id LIMIT 1000) b WHERE b.id = t.id;",
        "UPDATE t SET a = b.a FROM (VALUES (1, 2)) b (id, a) WHERE b.id = t.id;",
        "UPDATE t SET a = 1 WHERE id = 5;",
        "DELETE FROM t USING s WHERE t.id = s.id AND s.batch = 7;",
        "WITH x AS (DELETE FROM t WHERE a RETURNING *) SELECT * FROM x;",
        "ALTER TABLE t ADD a timestamptz DEFAULT date_trunc('day', now());",
        "ALTER INDEX i RENAME TO j;",
        "CREATE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f();",
    ],
)
def test_forms_that_only_look_dangerous_pass(sql: str) -> None:
    assert rules(sql) == []


def test_triggers_and_dropped_indexes_want_a_lock_timeout_too() -> None:
    for sql in ("CREATE OR REPLACE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f();", "DROP TRIGGER g ON t;"):
        assert [one["rule"] for one in run_json(*SCRIPT, "-", stdin=sql)["findings"]] == ["no-lock-timeout"]


def test_sql_of_mysql_is_refused_and_files_are_found_whatever_the_case_of_their_name(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, "-", stdin="\nDROP TABLE `t`;"), "line 2", "backtick")
    (tmp_path / "V1.SQL").write_text("DROP TABLE t;\n")
    assert run_json(*SCRIPT, tmp_path)["files"] == 1


def test_a_default_that_a_new_column_loses_at_once_breaks_inserts_of_the_old_release() -> None:
    added = 'ALTER TABLE "t" ADD COLUMN "a" integer DEFAULT 0 NOT NULL, ADD COLUMN "b" int DEFAULT 1;\n'
    assert rules(added + 'ALTER TABLE "t" ALTER COLUMN "a" DROP DEFAULT;') == [(3, "default-dropped-too-early")]
    assert rules(added + 'ALTER TABLE "t" ALTER COLUMN "b" DROP DEFAULT;') == []
    assert rules("ALTER TABLE t ALTER COLUMN a DROP DEFAULT;") == []
    assert (
        rules("CREATE TABLE t (id int);\n" + added.replace('"t"', "t") + "ALTER TABLE t ALTER COLUMN a DROP DEFAULT;")
        == []
    )


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("ALTER TABLE t ADD COLUMN a int REFERENCES t (id) ON DELETE CASCADE;", []),
        ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id) ON UPDATE CASCADE;", ["foreign-key-scans"]),
        ("ALTER TABLE t DROP COLUMN a CASCADE, ADD COLUMN b int;", ["drops-column", "cascade"]),
        ("ALTER TABLE t ALTER COLUMN a ADD GENERATED BY DEFAULT AS IDENTITY;", []),
        ("UPDATE t SET a = 1 WHERE t.a IS NULL;", ["backfill-in-one"]),
        ("UPDATE t SET a = 1 WHERE a IS NULL AND id < 1000;", []),
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY;", ["row-security-hides"]),
    ],
)
def test_cascades_of_keys_identities_and_backfills_are_told_apart(sql: str, found: list[str]) -> None:
    assert [rule for _, rule in rules(sql)] == found


@pytest.mark.parametrize(
    "before",
    [
        "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT a + 1; END;",
        "CREATE OR REPLACE FUNCTION f(a int) RETURNS int BEGIN ATOMIC SELECT CASE WHEN a > 0 THEN 1 END AS end; END;",
        "CREATE PROCEDURE p() BEGIN ATOMIC DELETE FROM u WHERE a; INSERT INTO u SELECT 1 AS case; END;",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS atomic ON n (a);",
        "COPY u FROM stdin WITH (FORMAT csv);\n1,a\n\\.\n",
    ],
)
def test_the_next_statement_is_not_taken_for_a_part_of_this_one(before: str) -> None:
    sql = f"SET lock_timeout = 0; {before}\nSET lock_timeout = '2s'; "
    assert rules(sql) == []
    assert [rule for _, rule in rules(f"{sql}TRUNCATE t;")] == ["drops-data"]


@pytest.mark.parametrize(
    "sql",
    [
        "DO 'BEGIN DROP TABLE t; END';",
        "DO LANGUAGE 'plpgsql' 'BEGIN DROP TABLE t; END';",
        "DO 'BEGIN DROP ' -- goes on\n'TABLE t; END' LANGUAGE 'plpgsql';",
        "DO E'BEGIN\\tDELETE FROM t WHERE a = \\'x\\'; DROP TABLE t; END';",
        "DO $$ BEGIN UPDATE t SET a = 1 WHERE b = 2; DROP TABLE t; END $$ LANGUAGE 'plpgsql';",
    ],
)
def test_a_block_is_read_however_it_is_quoted(sql: str) -> None:
    assert rules(sql) == [(2, "drops-data")]


def test_a_block_ends_no_transaction_and_keeps_none_open() -> None:
    sql = "ALTER TABLE t ADD a int;\nDO $$ BEGIN PERFORM 1; END $$;\nUPDATE t SET a = 1 WHERE id < 9;\n"
    assert rules(sql) == []
    assert rules(sql, "--wrapped") == [(4, "backfill-under-lock")]
    block = "DO $$ BEGIN IF true THEN ALTER TABLE t ADD a int; UPDATE t SET a = 1 WHERE id < 9; END IF; END $$;\n"
    assert rules(block) == [(2, "backfill-under-lock")]
    assert rules(block.replace("UPDATE", "COMMIT; UPDATE")) == []
    assert rules(f"{block}BEGIN; UPDATE t SET a = 1 WHERE id = 3; COMMIT;") == [(2, "backfill-under-lock")]


def test_a_commit_ends_the_transaction_of_the_migration_tool() -> None:
    index = "SET lock_timeout = 0;\nCREATE INDEX CONCURRENTLY i ON t (a);"
    assert rules(index, "--wrapped") == [(3, "not-in-transaction")]
    assert rules(f"COMMIT; {index}", "--wrapped") == []
    assert rules(f"COMMIT AND CHAIN; {index}", "--wrapped") == [(3, "not-in-transaction")]
    assert rules(f"COMMIT; {index} BEGIN; VACUUM t;", "--wrapped") == [(3, "not-in-transaction")]
    assert rules(f"BEGIN; ABORT; {index}") == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE TABLE archive.n (a int); DROP TABLE public.n;", ["drops-data"]),
        ("CREATE TABLE archive.n (a int); CREATE INDEX ON n (a);", ["index-blocks-writes"]),
        ("CREATE TABLE n (a int); ALTER TABLE archive.n ALTER a TYPE bigint;", ["type-rewrites"]),
        ('CREATE TABLE "N" (a int); DROP TABLE n;', ["drops-data"]),
        ("CREATE TABLE n (a int); DROP SCHEMA n;", ["drops-data"]),
        ('CREATE TABLE archive.n (a int); DROP TABLE "archive".N;', []),
        ("CREATE TABLE n (a int); DROP TABLE public.n;", []),
        ('CREATE TABLE public.n (a int); ALTER TABLE "n" ALTER a TYPE bigint;', []),
        ("CREATE TABLE n (a int); DROP TABLE n, old;", ["drops-data"]),
        ("CREATE TABLE n (a int); DROP TABLE IF EXISTS public.n, archive.n;", ["drops-data"]),
        ("CREATE TABLE n (a int); TRUNCATE ONLY n, ONLY old;", ["drops-data"]),
        ("CREATE TABLE n (a int); LOCK TABLE n, old;", ["lock-table"]),
        ("CREATE TABLE n (a int); CREATE TABLE m (a int); DROP TABLE n, m; TRUNCATE n, m RESTART IDENTITY;", []),
        (
            "CREATE TABLE n (a int); WITH d AS (DELETE FROM old RETURNING a) INSERT INTO n SELECT a FROM d;",
            ["all-rows"],
        ),
    ],
)
def test_a_table_is_new_only_with_its_schema_and_together_with_all_others(sql: str, found: list[str]) -> None:
    assert [rule for _, rule in rules(sql)] == found


def test_a_small_table_is_named_with_its_schema() -> None:
    assert rules("ALTER TABLE app.t ALTER a TYPE text;", "--small", "t") == [(2, "type-rewrites")]
    assert rules("ALTER TABLE App.T ALTER a TYPE text;", "--small", "u, app.t") == []


def test_each_table_of_a_list_stays_locked() -> None:
    sql = "TRUNCATE a, b; -- reviewed: drops-data\nUPDATE b SET c = 1 WHERE d = 2;"
    assert rules(sql, "--wrapped")[-1] == (3, "backfill-under-lock")


CHECKED = "ALTER TABLE t ADD CONSTRAINT c CHECK ({}) NOT VALID; ALTER TABLE t VALIDATE CONSTRAINT c;\n"


@pytest.mark.parametrize(
    "sql",
    [
        CHECKED.format("a IS NOT NULL") + "ALTER TABLE t ALTER b SET NOT NULL;",
        CHECKED.format("a IS NOT NULL") + "ALTER TABLE t ALTER a SET NOT NULL, ALTER b SET NOT NULL;",
        CHECKED.format("a IS NOT NULL") + "ALTER TABLE t ALTER a SET NOT NULL, ADD NOT NULL b;",
        CHECKED.format("a IS NOT NULL") + "ALTER TABLE s.t ALTER a SET NOT NULL;",
        CHECKED.format("a IS NOT NULL").replace("VALIDATE CONSTRAINT c", "VALIDATE CONSTRAINT d")
        + "ALTER TABLE t ALTER a SET NOT NULL;",
        CHECKED.format("a IS NOT NULL") + "ALTER TABLE t DROP CONSTRAINT c, ALTER a SET NOT NULL;",
        CHECKED.format("a IS NOT NULL").replace("\n", "ALTER TABLE t DROP CONSTRAINT c;\n")
        + "ALTER TABLE t ADD CONSTRAINT c CHECK (b IS NOT NULL) NOT VALID; ALTER TABLE t ALTER b SET NOT NULL;",
        CHECKED.format("b IS NULL OR a IS NOT NULL") + "ALTER TABLE t ALTER a SET NOT NULL;",
        CHECKED.format("(b AND a IS NOT NULL) OR d") + "ALTER TABLE t ALTER a SET NOT NULL;",
    ],
)
def test_a_check_of_something_else_proves_no_column(sql: str) -> None:
    assert rules(sql) == [(3, "set-not-null-scans")]


@pytest.mark.parametrize(
    "sql",
    [
        CHECKED.format("(a IS NOT NULL) AND (b IS NOT NULL)")
        + "ALTER TABLE t ALTER a SET NOT NULL, ALTER B SET NOT NULL;",
        CHECKED.format('"a" IS NOT NULL')
        + "ALTER TABLE public.t ALTER COLUMN a SET NOT NULL, DROP COLUMN IF EXISTS d;",
        (
            "ALTER TABLE t ADD CHECK (a IS NOT NULL AND b IS NOT NULL) NOT VALID, ADD CHECK (d IS NOT NULL) NOT VALID;"
            "ALTER TABLE t VALIDATE CONSTRAINT t_check, VALIDATE CONSTRAINT t_d_check;\n"
            "ALTER TABLE t ALTER a SET NOT NULL, ALTER d SET NOT NULL;"
        ),
    ],
)
def test_a_validated_check_of_every_column_spares_the_scan(sql: str) -> None:
    assert "set-not-null-scans" not in [rule for _, rule in rules(sql)]


def test_a_new_column_with_a_foreign_key_locks_the_other_table() -> None:
    added = "ALTER TABLE t ADD COLUMN a int REFERENCES u ON DELETE SET DEFAULT, ADD b int REFERENCES s.v (id);\n"
    report = run_json(*SCRIPT, "-", stdin=READY + added)
    assert [(one["level"], one["rule"]) for one in report["findings"]] == [("caution", "locks-referenced-table")]
    assert report["findings"][0]["effect"].startswith("writes on public.u and s.v wait")
    assert rules(f"CREATE TABLE u (a int); CREATE TABLE s.v (id int); {added}") == []
    assert rules("ALTER TABLE t ADD COLUMN a int DEFAULT 1 REFERENCES u;") == [(2, "foreign-key-scans")]


@pytest.mark.parametrize(
    "key",
    [
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u NOT VALID;\n",
        "CREATE TABLE n (a int REFERENCES public.u (id));\n",
    ],
)
def test_a_referenced_table_stays_locked_until_the_transaction_ends(key: str) -> None:
    sql = f"{key}UPDATE u SET a = 1 WHERE id < 9;"
    assert rules(sql) == []
    assert rules(sql, "--wrapped") == [(3, "backfill-under-lock")]
    assert rules(f"RESET lock_timeout; {key}") == [(2, "no-lock-timeout")]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE v SET a = 1 WHERE id < 9;",
        "DELETE FROM v WHERE a IN (1, 2);",
        "WITH x AS (SELECT 1) UPDATE v SET a = 1 WHERE b > 2;",
    ],
)
def test_rows_that_are_changed_elsewhere_hold_the_locks_of_the_transaction(change: str) -> None:
    report = run_json(*SCRIPT, "-", "--wrapped", stdin=f"{READY}ALTER TABLE u ADD a int;\n{change}")
    assert [(one["level"], one["rule"]) for one in report["findings"]] == [("caution", "backfill-under-lock")]
    assert report["findings"][0]["effect"].startswith("public.u stays locked")
    assert rules(f"ALTER TABLE u ADD a int;\n{change}") == []
    assert rules("ALTER TABLE u ADD a int;\nUPDATE v SET a = 1 WHERE id = 3;", "--wrapped") == []


@pytest.mark.parametrize("copy", ["INSERT INTO n SELECT id FROM u;", "CREATE MATERIALIZED VIEW m AS SELECT id FROM v;"])
def test_rows_that_are_copied_elsewhere_hold_the_locks_of_the_transaction(copy: str) -> None:
    sql = f"CREATE TABLE n (a int REFERENCES u (id));\n{copy}"
    report = run_json(*SCRIPT, "-", "--wrapped", stdin=READY + sql)
    assert [(one["level"], one["rule"]) for one in report["findings"]] == [("caution", "backfill-under-lock")]
    assert report["findings"][0]["effect"].startswith("public.u stays locked")
    assert rules(sql) == rules(f"CREATE TABLE n (a int);\n{copy}", "--wrapped") == []
    assert rules("CREATE TABLE n (a int REFERENCES u);\nINSERT INTO n VALUES ((SELECT 1 FROM u));", "--wrapped") == []


@pytest.mark.parametrize(
    "column",
    [
        "d int GENERATED ALWAYS AS (a * 2) NOT NULL",
        "d int GENERATED ALWAYS AS (a) VIRTUAL NOT NULL",
        "d int NOT NULL GENERATED ALWAYS AS (a) VIRTUAL",
    ],
)
def test_a_virtual_column_that_is_not_null_is_computed_for_all_rows(column: str) -> None:
    assert rules(f"ALTER TABLE t ADD COLUMN {column};") == [(2, "set-not-null-scans")]
    assert rules(f"CREATE TABLE t (a int); ALTER TABLE t ADD COLUMN {column};") == []


@pytest.mark.parametrize(
    "column", ["d bool GENERATED ALWAYS AS (a IS NOT NULL)", "d int GENERATED ALWAYS AS (a) VIRTUAL"]
)
def test_a_virtual_column_that_may_be_null_is_catalog_only(column: str) -> None:
    assert rules(f"ALTER TABLE t ADD COLUMN {column};") == []


@pytest.mark.parametrize(
    "column", ["d int GENERATED ALWAYS AS (a) STORED NOT NULL", "d int NOT NULL GENERATED ALWAYS AS (a) STORED"]
)
def test_a_stored_column_that_is_not_null_is_one_rewrite_and_no_scan_besides(column: str) -> None:
    assert rules(f"ALTER TABLE t ADD COLUMN {column};") == [(2, "column-rewrites")]


def test_a_constraint_of_another_table_is_checked_while_the_locks_are_held() -> None:
    sql = "ALTER TABLE t ADD a int;\nALTER TABLE u VALIDATE CONSTRAINT c;"
    report = run_json(*SCRIPT, "-", "--wrapped", stdin=READY + sql)
    assert [(one["level"], one["rule"]) for one in report["findings"]] == [("caution", "validates-under-lock")]
    assert rules(sql) == rules(sql, "--wrapped", "--small", "u") == []
    assert rules(sql.replace("ADD a int", "VALIDATE CONSTRAINT b"), "--wrapped") == []


def test_the_table_that_was_there_before_is_shown() -> None:
    found = run_json(*SCRIPT, "-", stdin=f"{READY}CREATE TABLE n (a int); DROP TABLE n, archive.old;")["findings"]
    assert [one["table"] for one in found] == ["archive.old"]


def test_dropping_a_table_tells_of_the_lock_on_the_referenced_one() -> None:
    found = run_json(*SCRIPT, "-", stdin=f"{READY}DROP TABLE t;")["findings"]
    assert "a foreign key locks the referenced one too" in found[0]["effect"]


def test_a_new_partition_locks_its_parent() -> None:
    sql = "CREATE TABLE p2 PARTITION OF s.p FOR VALUES FROM (1) TO (2);"
    report = run_json(*SCRIPT, "-", stdin=sql)
    assert [finding["rule"] for finding in report["findings"]] == ["no-lock-timeout"]
    assert rules(sql) == []
    assert rules("CREATE TABLE s.p (a int) PARTITION BY RANGE (a); RESET lock_timeout;" + sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE POLICY p ON s.t USING (a > 0);",
        "DROP POLICY IF EXISTS p ON s.t;",
        "CREATE RULE r AS ON INSERT TO s.t DO ALSO NOTIFY n;",
        "DROP RULE r ON s.t;",
    ],
)
def test_policies_and_rules_wait_for_the_table_too(sql: str) -> None:
    [finding] = run_json(*SCRIPT, "-", stdin=sql)["findings"]
    assert (finding["rule"], finding["table"]) == ("no-lock-timeout", "s.t")
    assert rules(sql) == rules("CREATE TABLE s.t (a int); RESET lock_timeout;" + sql) == []
