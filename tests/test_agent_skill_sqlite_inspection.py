"""The script of the skill sqlite-inspection says what a file holds and changes nothing in it."""

import sqlite3
from pathlib import Path

from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("sqlite-inspection", "inspect_db.py")


def make_database(path: Path, sql: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()
    return path


def test_tables_rows_and_indexes_are_listed(tmp_path: Path) -> None:
    path = make_database(
        tmp_path / "a.db",
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL) STRICT; CREATE UNIQUE INDEX i ON t(b) WHERE a > 1;"
        "INSERT INTO t(b) VALUES ('x'), ('y'), ('z'); PRAGMA user_version = 7;",
    )
    report = run_json(*SCRIPT, path)
    assert [(t["name"], t["rows"], t["columns"], t["strict"]) for t in report["tables"]] == [("t", 3, 2, True)]
    assert [(i["name"], i["columns"], i["unique"], i["partial"]) for i in report["indexes"]] == [
        ("i", ["b"], True, True)
    ]
    assert report["header"]["user_version"] == 7


def test_what_is_still_in_the_wal_is_newer_than_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA journal_mode = WAL; CREATE TABLE t(a); PRAGMA user_version = 7; PRAGMA application_id = -1"
    )
    header = run_json(*SCRIPT, path)["header"]
    connection.close()
    assert (header["user_version"], header["application_id"], header["encoding"]) == (7, 0xFFFFFFFF, "utf-8")


def test_a_name_that_is_not_utf_8_does_not_stop_the_report(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "CREATE TABLE t(cafe); INSERT INTO t VALUES (1)")
    path.write_bytes(path.read_bytes().replace(b"cafe", b"caf\xe9"))
    assert [(table["name"], table["rows"]) for table in run_json(*SCRIPT, path)["tables"]] == [("t", 1)]


def test_shadow_tables_of_full_text_search_are_told_from_content(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "CREATE VIRTUAL TABLE d USING fts5(body); INSERT INTO d VALUES ('x');")
    tables = {table["name"]: table for table in run_json(*SCRIPT, path)["tables"]}
    assert tables["d"]["using"] == "fts5"
    assert tables["d"]["rows"] == 1
    assert tables["d_data"]["type"] == "shadow"
    assert "rows" not in tables["d_data"]


def test_the_module_of_a_virtual_table_is_named_whatever_the_table_is_called(tmp_path: Path) -> None:
    names = ('"v(1"', "[a using b]", "`q`` x`", "plain")
    sql = "".join(f"CREATE VIRTUAL TABLE {name} USING fts5(a);" for name in names)
    sql += "CREATE VIRTUAL TABLE IF NOT EXISTS main.r USING rtree(id, a, b); CREATE VIRTUAL TABLE u USING 'fts5' (a);"
    sql += "CREATE VIRTUAL TABLE c/* (old) */USING -- a remark\n fts5(a);"
    tables = run_json(*SCRIPT, make_database(tmp_path / "a.db", sql))["tables"]
    assert {table["name"]: table["using"] for table in tables if table["type"] == "virtual"} == {
        "v(1": "fts5",
        "a using b": "fts5",
        "q` x": "fts5",
        "plain": "fts5",
        "r": "rtree",
        "u": "fts5",
        "c": "fts5",
    }


def test_the_file_keeps_its_bytes(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "CREATE TABLE t(a);")
    before = path.read_bytes()
    assert run_script(*SCRIPT, path, "--check", "full").returncode == 0
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["a.db"]


def test_a_row_that_breaks_a_reference_is_counted(tmp_path: Path) -> None:
    path = make_database(
        tmp_path / "a.db",
        "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p); INSERT INTO c VALUES (1);",
    )
    report = run_json(*SCRIPT, path, "--check", "quick")
    assert report["check"] == ["ok"]
    assert report["foreign_key_violations"] == 1


def test_damage_is_found_by_the_check(tmp_path: Path) -> None:
    path = make_database(
        tmp_path / "a.db", "CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(100)), (zeroblob(100)); ANALYZE;"
    )
    content = bytearray(path.read_bytes())
    content[4096 + 5 : 4096 + 7] = b"\x00\x10"  # where the cells of the table's page begin
    path.write_bytes(content)
    done = run_script(*SCRIPT, path, "--check", "full", "--no-counts")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_file_without_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.db"
    path.write_bytes(b"\x93" * 4096)
    assert_refused(run_script(*SCRIPT, path), "no SQLite header")


def test_a_file_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, tmp_path / "a.db"), "No such file")
    assert not list(tmp_path.iterdir())


def test_an_empty_file_is_a_database_without_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    assert run_json(*SCRIPT, path)["tables"] == []


def test_damage_is_told_without_a_check_and_missing_bytes_are_counted(tmp_path: Path) -> None:
    rows = "CREATE TABLE t(a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 900)"
    path = make_database(tmp_path / "a.db", f"{rows} INSERT INTO t SELECT hex(zeroblob(30)) FROM n;")
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    assert run_script(*SCRIPT, path).returncode == 1
    path.write_bytes(content[:8192])
    assert_refused(run_script(*SCRIPT, path, "--immutable"), "malformed", f"{len(content) - 8192} bytes missing")


def test_of_many_tables_the_largest_are_shown_and_names_stay_on_their_line(tmp_path: Path) -> None:
    tables = "".join(f'CREATE TABLE "t\n{number}"(a);' for number in range(70))
    path = make_database(tmp_path / "a.db", f"{tables} CREATE TABLE z(a); INSERT INTO z VALUES (zeroblob(9000));")
    lines = run_script(*SCRIPT, path).stdout.splitlines()
    assert lines[5].startswith("z ")
    assert lines[6].startswith("t\\n")
    assert "... the 11 smallest tables and indexes are left out: --max 71 or --json" in lines


def test_a_view_over_a_missing_table_is_marked(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t; DROP TABLE t;")
    (view,) = run_json(*SCRIPT, path)["tables"]
    assert view["broken"] == "no such table: main.t"
    assert "no such table: main.t" in run_script(*SCRIPT, path).stdout


def test_a_report_without_a_check_says_so(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "CREATE TABLE t(a);")
    assert "check       not made" in run_script(*SCRIPT, path).stdout
    assert "not made" not in run_script(*SCRIPT, path, "--check", "quick").stdout


def test_control_characters_in_names_of_columns_are_escaped(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", 'CREATE TABLE t("a\x1b[31m"); CREATE INDEX i ON t("a\x1b[31m");')
    assert "t(a\\x1b[31m)" in run_script(*SCRIPT, path).stdout


def test_a_collation_of_the_application_is_no_damage_and_what_it_hides_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.create_collation("LOCALIZED", lambda a, b: (a > b) - (a < b))
    connection.executescript(
        "CREATE TABLE t(a TEXT COLLATE LOCALIZED); CREATE INDEX i ON t(a); CREATE TABLE u(b); CREATE INDEX j ON u(b);"
        "PRAGMA writable_schema = ON;"
        "CREATE VIRTUAL TABLE v USING fts5(a);"
        "UPDATE sqlite_schema SET sql = replace(sql, 'fts5', 'absent') WHERE name = 'v'"
    )
    (page,) = connection.execute("SELECT max(rootpage) FROM sqlite_schema WHERE name = 'j'").fetchone()
    connection.close()
    for check in ("quick", "full"):
        done = run_script(*SCRIPT, path, "--check", check)
        assert done.returncode == 2
        assert "check       ok\n" in done.stdout
        left = "free pages, t (no such collation sequence: LOCALIZED), v (no such module: absent)"
        assert f"not checked {left}\n" in done.stdout
    # the index of u
    with path.open("r+b") as handle:
        handle.seek(4096 * (page - 1))
        handle.write(b"\xff" * 100)
    done = run_script(*SCRIPT, path, "--check", "full", "--no-counts")
    assert done.returncode == 1
    assert "check       u (database disk image is malformed)" in done.stdout
