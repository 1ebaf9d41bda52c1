"""What a finished index is checked for before it is put in place."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest
from strategies import open_in_memory
from support import make_fragment

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.integrity import check_links

LIBRARY = (
    make_fragment("retry", "Retrying calls", "Retrying uploads", tags=("http",)),
    make_fragment("cache", "Caching uploads", tags=("http",), capabilities=("Expiry",)),
)


def check_after(*statements: str) -> None:
    with closing(open_in_memory(LIBRARY)) as catalog:
        for statement in statements:
            catalog.db.execute(statement)
        check_links(catalog.db)


def test_index_as_it_was_written_passes() -> None:
    check_after()


def test_numbers_of_keywords_may_have_gaps() -> None:
    check_after(
        "INSERT INTO keyword VALUES (4000, 'x', 'x', 0, 0, NULL)", "INSERT INTO keyword_suffix VALUES ('x', 4000)"
    )


def test_index_of_nothing_passes() -> None:
    with closing(open_in_memory(())) as catalog:
        check_links(catalog.db)


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["DELETE FROM posting WHERE scenario_id = 2"], "1 scenarios cannot be reached by any keyword"),
        (["DELETE FROM posting"], "3 scenarios cannot be reached by any keyword"),
        (["INSERT INTO posting VALUES (1, 4)"], "a posting leads to no scenario"),
        (["INSERT INTO posting VALUES (1, 4000)"], "a posting leads to no scenario"),
        (["INSERT INTO posting VALUES (400, 1)"], "a posting belongs to no keyword"),
        (
            ["INSERT INTO posting SELECT id, 3 FROM keyword WHERE text = 'retrying'"],
            "1 keywords have another number of postings than they say",
        ),
        (["DELETE FROM keyword WHERE text = 'http'"], "a foreign key points nowhere"),
        (["UPDATE tag SET fragment_id = 9 WHERE fragment_id = 2"], "a foreign key points nowhere"),
        (["UPDATE capability SET fragment_id = 9"], "a foreign key points nowhere"),
        (["DELETE FROM term WHERE stem = 'expiri'"], "a foreign key points nowhere"),
        (["INSERT INTO keyword_suffix VALUES ('x', 4000)"], "an ending belongs to no keyword"),
        (["INSERT INTO keyword_suffix VALUES ('x', 0)"], "an ending belongs to no keyword"),
        (
            [
                "INSERT INTO keyword VALUES (4000, 'x', 'x', 0, 0, NULL)",
                "INSERT INTO keyword_suffix VALUES ('x', 4000)",
                "INSERT INTO keyword_suffix VALUES ('y', 3999)",
            ],
            "an ending belongs to no keyword",
        ),
    ],
)
def test_rows_that_do_not_belong_together_are_found(statements: Sequence[str], problem: str) -> None:
    with pytest.raises(BuildError, match=problem):
        check_after(*statements)


def test_every_table_with_foreign_keys_that_has_no_check_of_its_own_is_asked_for_them() -> None:
    """A row of any table that points to a fragment, keyword or term is found when all of these are gone."""
    with closing(open_in_memory(LIBRARY)) as catalog:
        for table in ("fragment_body", "tag", "capability", "topic", "field_block", "evidence"):
            db = sqlite3.connect(":memory:", isolation_level=None)
            with closing(db):
                catalog.db.backup(db)
                db.execute("PRAGMA foreign_keys = OFF")
                for parent in ("fragment", "keyword", "term", "scenario", "posting"):
                    db.execute(f"DELETE FROM {parent}")
                for other in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                    if other[0] != table and not other[0].startswith(("fragment_text", "sqlite")):
                        db.execute(f"DELETE FROM {other[0]}")
                with pytest.raises(BuildError, match="a foreign key points nowhere"):
                    check_links(db)
