"""No statement of the serving path reads a table that grows with the library, but for those named here."""

import importlib
import re
import sqlite3
from collections.abc import Iterator

import pytest
from strategies import open_in_memory
from support import make_fragment

MODULES = """catalog listings completion bundles provenance skills service lookup prompts documents excerpts
    server.changes server.paging server.resources tiers.expansion tiers.explanation tiers.found tiers.fuzzy
    tiers.holders tiers.kept tiers.lists tiers.numbers tiers.order tiers.postings tiers.sets tiers.shortcut tiers.typos
    tiers.weighted""".split()

BEGINNINGS = {"catalog.FRAGMENT_COLUMNS", "prompts.PROMPT_COLUMNS"}
"""What others begin with, no statements by themselves."""

WHOLE_READS = {
    "catalog.PATHS_LIKE": "suggestions for an id that is not known: part of a name anywhere in the path",
    "catalog.CATEGORY_COUNTS": "counted along the index of categories",
    "catalog.TAGS_BY_USE": "counted along the index of tags, for suggestions only, once a connection",
    "completion.TAGS_MATCHING": "part of a tag anywhere in it",
    "completion.SCENARIOS_MATCHING": "part of a scenario anywhere in it",
    "completion.URIS_MATCHING": "part of a URI anywhere in it",
    "skills.PATHS_NAMED": "suggestions for a skill that is not known",
    "server.changes.LISTED_RESOURCES": "what has changed between two indexes, once when one takes the other's place",
    "server.changes.LISTED_PROMPTS": "the same",
    "tiers.order.ORDER": "a row for 2,048 scenarios of the library, once a connection",
}
"""Statements that may, and why."""


def statements() -> Iterator[tuple[str, str]]:
    """Yield (name, SQL) of every statement that is a constant of a module that serves."""
    for module in MODULES:
        for name, value in vars(importlib.import_module(f"orchestr8_sqlite.{module}")).items():
            full = f"{module}.{name}"
            is_statement = name.isupper() and isinstance(value, str) and re.match(r"\s*(SELECT|WITH)\b", value)
            if is_statement and full not in BEGINNINGS:
                yield full, value


def whole_reads(db: sqlite3.Connection, sql: str) -> list[str]:
    """Return the steps of the plan that read all of a stored table or of one of its indexes."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    names = dict.fromkeys(tables) | {
        alias: None for table, alias in re.findall(r"(?:FROM|JOIN|,)\s+(\w+)\s+(?:AS\s+)?(\w+)", sql) if table in tables
    }
    # a name that the statement gives to a set of its own is no table
    own = set(re.findall(r"(\w+)\s*(?:\([\w, ]*\))?\s+AS\s+(?:MATERIALIZED\s+)?\(", sql))
    parameters = dict.fromkeys(re.findall(r"(?<!:):(\w+)", sql))
    steps = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    if re.search(r"LIMIT (:limit|1)\s*$", sql) and "WHERE" not in sql and len(steps) == 1:
        return []  # nothing is left out and nothing sorted: it ends with as many rows as are asked for
    return [step for step in steps if step.startswith("SCAN ") and step.split()[1] in names.keys() - own]


@pytest.fixture(scope="module")
def db() -> Iterator[sqlite3.Connection]:
    with open_in_memory([make_fragment("a", "Adding retry", tags=("api",))]) as catalog:
        yield catalog.db


def test_there_are_statements_to_look_at() -> None:
    assert len(dict(statements())) > 40


@pytest.mark.parametrize(("name", "sql"), list(statements()))
def test_statement_reads_no_whole_table(db: sqlite3.Connection, name: str, sql: str) -> None:
    if name not in WHOLE_READS:
        assert whole_reads(db, sql) == []
    else:
        assert whole_reads(db, sql) != []
