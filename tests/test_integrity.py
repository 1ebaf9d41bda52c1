"""What a finished index is checked for before it is put in place."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest
from beginnings import begin_empty
from strategies import open_in_memory
from support import make_fragment

from orchestr8_sqlite.builder.checks import check_counts, check_links
from orchestr8_sqlite.errors import BuildError

LIBRARY = (
    make_fragment("retry", "Retrying calls", "Retrying uploads", tags=("http",)),
    make_fragment("cache", "Caching uploads", tags=("http",), capabilities=("Expiry",)),
)


UNCOUNTED = "UPDATE keyword SET scenario_count = (SELECT count(*) FROM posting WHERE keyword_id = id)"


def check_after(*statements: str) -> None:
    with closing(open_in_memory(LIBRARY)) as catalog:
        for statement in statements:
            catalog.db.execute(statement)
        check_counts(catalog.db)
        check_links(catalog.db)


def test_index_as_it_was_written_passes() -> None:
    check_after()


def test_numbers_of_keywords_may_have_gaps() -> None:
    check_after("INSERT INTO keyword (id, text, stem) VALUES (4000, 'x', 'retri')")


def test_index_of_nothing_passes() -> None:
    with closing(open_in_memory(())) as catalog:
        check_links(catalog.db)


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["DELETE FROM posting WHERE fragment_id = 1", UNCOUNTED], "2 scenarios cannot be reached by any keyword"),
        (["DELETE FROM posting", UNCOUNTED], "3 scenarios cannot be reached by any keyword"),
        (["INSERT INTO posting VALUES (1, 1, 9)", UNCOUNTED], "a posting leads to no scenario"),
        (["INSERT INTO posting VALUES (1, 9, 0)", UNCOUNTED], "a posting leads to no scenario"),
        (["DELETE FROM posting WHERE fragment_id = 1"], "posting has 2 rows, and the keywords count 6"),
        (["INSERT INTO posting SELECT id, 2, 0 FROM keyword WHERE text = 'retrying'"], "posting has 7 rows"),
        (["UPDATE keyword SET fragment_count = fragment_count + 1 WHERE text = 'http'"], "the keywords count 11"),
        (["DELETE FROM keyword WHERE text = 'http'"], "field_posting has 10 rows, and the keywords count 8"),
        (["DELETE FROM rank_stem WHERE stem = 'expiri'"], "a keyword has a stem that is not counted"),
        (["UPDATE tag SET fragment_id = 9 WHERE fragment_id = 2"], "a foreign key points nowhere"),
        (["UPDATE capability SET fragment_id = 9"], "a foreign key points nowhere"),
        (["DELETE FROM fragment WHERE id = 2"], "fragment has 1 rows instead of 2"),
        (["DELETE FROM rank_length WHERE fragment_id = 2"], "rank_length has 1 rows instead of 2"),
    ],
)
def test_rows_that_do_not_belong_together_are_found(statements: Sequence[str], problem: str) -> None:
    with pytest.raises(BuildError, match=problem):
        check_after(*statements)


VALUES = {"INTEGER": 7, "REAL": 7.0, "TEXT": "7", "BLOB": b"7"}


def tables_that_point() -> list[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        begin_empty(db)
        pointing = "SELECT DISTINCT t.name FROM pragma_table_list t JOIN pragma_foreign_key_list(t.name) ORDER BY 1"
        return [name for (name,) in db.execute(pointing)]


def test_there_are_tables_that_point_to_others() -> None:
    assert {"tag", "posting", "field_posting", "reference", "skill_file", "quick_lookup"} <= {*tables_that_point()}


@pytest.mark.parametrize("table", tables_that_point())
def test_row_of_any_table_that_points_nowhere_is_found(table: str) -> None:
    with closing(open_in_memory(())) as catalog:
        catalog.db.execute("PRAGMA ignore_check_constraints = ON")
        columns = catalog.db.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
        names, values = ", ".join(name for name, _ in columns), [VALUES[kind] for _, kind in columns]
        catalog.db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", values)
        with pytest.raises(BuildError, match=r"a foreign key points nowhere|a posting leads to no scenario"):
            check_links(catalog.db)
