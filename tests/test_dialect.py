"""What PostgreSQL reads instead of SQLite's statements, and how several shards are asked, without a server."""

import re
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest
from test_query_plans import statements

from orchestr8_sqlite.index.dialect import DIFFERENCES, FUNCTIONS, translate
from orchestr8_sqlite.index.gathering import OWNED, Step, gathered, plan_of, with_tables
from orchestr8_sqlite.index.matching import TOKENIZER, TOKENS, match_of, tsquery

DOCUMENT = (Path(__file__).parents[1] / "docs" / "postgresql.md").read_text(encoding="utf-8")
SCHEMA = files("orchestr8_sqlite.index").joinpath("schema.sql").read_text(encoding="utf-8")


def test_the_document_lists_all_differences_and_there_are_ten_at_most() -> None:
    table = re.search(r"\| SQLite \| PostgreSQL \|\n\|---\|---\|\n((?:\|.*\n)*)", DOCUMENT)
    assert table is not None
    listed = [row.split("|")[1].strip().strip("`") for row in table[1].splitlines()]
    assert listed == [*DIFFERENCES, ":name"]
    assert len(listed) <= 10
    for function in FUNCTIONS:
        assert f"`{function}" in DOCUMENT


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("SELECT 1 WHERE a = :a AND b > :b", "SELECT 1 WHERE a = %(a)s::text AND b > %(b)s::bigint"),
        ("a LIKE '%' || :a", "a ILIKE '%%' || %(a)s::text"),
        (
            "t.fragment_text MATCH f.body AND t.rowid = 1",
            "ts_filter(t.words, '{d}') @@ (f.body)::tsquery AND t.fragment_id = 1",
        ),
        ("t.fragment_text MATCH f.match", "t.words @@ (f.match)::tsquery"),
        (
            "WHERE fragment_text MATCH :a AND rowid IN (1)",
            "WHERE words @@ (%(a)s::text)::tsquery AND fragment_id IN (1)",
        ),
        (
            "json_each(:a) w CROSS JOIN tag t ON t.tag = w.value",
            "json_each(%(a)s::text) w JOIN tag t ON t.tag = w.value",
        ),
        ("seed CROSS JOIN rank_topic t WHERE true", "seed CROSS JOIN rank_topic t WHERE true"),
        pytest.param(
            "FROM keyword_text t WHERE t.rowid = 1 AND t.keyword_text MATCH :a",
            "FROM (SELECT id AS fragment_id, text FROM keyword) AS t "
            "WHERE t.fragment_id = 1 AND trigrams(t.text) @@ trigram_query(%(a)s::text)",
            id="keyword_text",
        ),
    ],
)
def test_a_statement_is_changed_only_where_the_two_differ(sql: str, instead: str) -> None:
    assert translate(sql, {"a": "x", "b": 1, "ids": "[]"}) == instead


def test_words_of_a_request_are_cut_as_the_full_text_cuts_them() -> None:
    assert f'tokenize = "{TOKENIZER}"' in SCHEMA
    assert TOKENS.of(["Retrying node.js", "c++ café", "", "retry"]) == [
        ("retri", "node", "js"),
        ("c++", "cafe"),
        (),
        ("retri",),
    ]
    assert tsquery(["node.js", "it's", ""], ("scenarios",)) == "('node':C <-> 'js':C) | ('it':C <-> 's':C)"
    assert tsquery(["retries"]) == "('retri')"


def test_a_file_gets_an_expression_of_fts5() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        assert match_of(db, ['a "b"', "c"], ("scenarios",)) == '{scenarios} : ("a ""b""" OR "c")'
        assert match_of(db, ["a"]) == '"a"'


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in statements() if not name.endswith("KEPT")])
def test_every_statement_that_serves_can_be_asked_of_several_shards(sql: str) -> None:
    plan_of(sql)


def test_a_statement_of_which_no_answer_of_several_shards_is_known_is_not_asked() -> None:
    with pytest.raises(ValueError, match="no answer of several shards"):
        plan_of("SELECT uri FROM fragment ORDER BY title")
    with pytest.raises(ValueError, match="no answer of several shards"):
        plan_of("SELECT DISTINCT category FROM fragment")
    assert plan_of("SELECT name FROM prompt ORDER BY name").alone
    assert not plan_of("SELECT uri FROM fragment").alone


def test_tables_of_fragments_are_those_that_name_one() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        tables = {name for _, name, kind, *_ in db.execute("PRAGMA table_list") if kind in ("table", "virtual")}
        owned = {
            name for name in tables if any(row[1] == "fragment_id" for row in db.execute(f"PRAGMA table_info({name})"))
        }
    assert owned | {"fragment", "fragment_text"} == OWNED


@pytest.mark.parametrize(
    ("statement", "parts", "limit", "rows"),
    [
        (gathered("", order=[2]), [[("a", 1), ("b", 4)], [("c", 2)]], 2, [("a", 1), ("c", 2)]),
        (gathered("", order=[-2, 1]), [[("b", 4), ("a", 1)], [("c", 4)]], None, [("b", 4), ("c", 4), ("a", 1)]),
        (gathered("", order=[1], total=2), [[("a", 3)], [], [("b", 2)]], None, [("a", 5), ("b", 5)]),
        (gathered("", added=1, order=[-2, 1]), [[("a", 3), ("b", 1)], [("b", 4)]], 1, [("b", 5)]),
        (gathered("", added=0), [[(3,)], [(4,)]], None, [(7,)]),
    ],
)
def test_rows_of_shards_are_put_together_as_the_statement_says(
    statement: str, parts: list[list[tuple[object, ...]]], limit: int | None, rows: list[tuple[object, ...]]
) -> None:
    assert plan_of(statement).put_together(parts, limit) == rows


def test_a_step_is_found_as_a_table() -> None:
    found = with_tables("\nWITH a AS (SELECT 1) SELECT x FROM kept", {"kept": [("x", "bigint")], "other": []})
    rows = "SELECT (row ->> 0)::bigint FROM json_array_elements(:rows_of_kept::json) AS row"
    assert found == f"WITH kept (x) AS MATERIALIZED ({rows}), a AS (SELECT 1) SELECT x FROM kept"
    assert gathered("SELECT 1", Step("kept", "SELECT 2")).alone
