"""No statement of the serving path reads a table that grows with the library, but for those named here."""

import importlib
import pkgutil
import re
import sqlite3
from collections.abc import Iterator

import pytest
from strategies import open_in_memory
from support import make_fragment

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.index.catalog import TAGS_BY_USE, Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Ranker
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.wordlists import Synonym

ROOMS = ("answers", "ranking", "service")
"""Rooms that serve, all of whose modules are looked at."""

MODULES = ("index.catalog", "server.changes", "server.paging", "server.resources")
BUILDING = ("ranking.evidence", "ranking.holdout")
"""Modules there that write rows, for a build or `eval`."""

BEGINNINGS = {
    "index.catalog.FRAGMENT_COLUMNS",
    "answers.prompts.PROMPT_COLUMNS",
    "ranking.default.SHOWN",
    "ranking.default.TOGETHER",
    "ranking.default.TOPICS",
    "ranking.default.OTHERS",
    "ranking.classic.CONTAINING",
}
"""What others begin with or hold, no statements by themselves."""

WHOLE_READS = {
    "index.catalog.PATHS_LIKE": ("fragment", "suggestions for an id that is not known: part of a name in the path"),
    "index.catalog.CATEGORY_COUNTS": ("fragment", "counted along the index of categories"),
    "index.catalog.TAGS_BY_USE": ("tag", "counted along the index of tags, for suggestions only, once a connection"),
    "answers.completion.TAGS_MATCHING": ("tag", "part of a tag anywhere in it"),
    "answers.completion.SCENARIOS_MATCHING": ("scenario", "part of a scenario anywhere in it"),
    "answers.completion.URIS_MATCHING": ("fragment", "part of a URI anywhere in it"),
    "answers.skill_files.PATHS_NAMED": ("skill", "suggestions for a skill that is not known"),
    "answers.skill_files.SKILLS_AFTER": ("skill", "orders all skills for a page of a listing, which is kept in memory"),
    "server.changes.LISTED_RESOURCES": ("fragment", "what has changed between two indexes, once when one is replaced"),
    "server.changes.LISTED_PROMPTS": ("prompt", "the same"),
    "ranking.classic.SCENARIO_MATCHES": ("keyword", "words of two letters are looked for inside all others"),
    "ranking.classic.FIELD_MATCHES": ("keyword", "the same"),
    "ranking.classic.COUNTED": ("keyword", "the same"),
}
"""Statements that may, the table that they read, and why."""


def modules() -> Iterator[str]:
    for room in ROOMS:
        path = importlib.import_module(f"orchestr8_sqlite.{room}").__path__
        yield from (f"{room}.{one.name}" for one in pkgutil.iter_modules(path))
    yield from MODULES


def statements() -> Iterator[tuple[str, str]]:
    """Yield (name, SQL) of every statement that is a constant of a module that serves."""
    for module in modules():
        for name, value in vars(importlib.import_module(f"orchestr8_sqlite.{module}")).items():
            full = f"{module}.{name}"
            is_statement = name.isupper() and isinstance(value, str) and re.match(r"\s*(SELECT|WITH)\b", value)
            if is_statement and full not in BEGINNINGS and module not in BUILDING:
                yield full, value


def whole_reads(db: sqlite3.Connection, sql: str) -> set[str]:
    """Return the stored tables that a statement reads from their beginning, by themselves or by one of their indexes.

    SQLite's machine says so: it rewinds a cursor that was opened on their first page. A virtual table is read whole
    where the plan has no condition for it.
    """
    parameters = dict.fromkeys(re.findall(r"(?<!:):(\w+)", sql))
    steps = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    if re.search(r"LIMIT (:limit|1)\s*$", sql) and "WHERE" not in sql and len(steps) == 1:
        return set()  # nothing is left out and nothing sorted: it ends with as many rows as are asked for
    pages = dict(db.execute("SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0"))
    opened: dict[int, str] = {}
    read = {step.split()[1] for step in steps if re.search(r"VIRTUAL TABLE INDEX 0:(L.*)?$", step)}
    for _, operation, cursor, page, *_ in db.execute(f"EXPLAIN {sql}", parameters):
        if operation == "OpenRead":
            opened[cursor] = pages[page]
        elif operation in ("Rewind", "Last") and cursor in opened:
            read.add(opened[cursor])
    return read


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    """Return the index of some fragments, with a synonym."""
    fragments = [
        make_fragment("a", "Adding retry", tags=("api",)),
        make_fragment("b", "Adding retry", tags=("api",), body="Jitter"),
        make_fragment("c", "PostgreSQL", tags=("api",)),
        *(make_fragment(f"other{number}", "Something else entirely", title="Unlike") for number in range(6)),
    ]
    with open_in_memory(fragments) as opened:
        write_synonyms(opened.db, [Synonym((frozenset({"slow"}),), ("retri",), "related")])
        yield opened


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT * FROM keyword WHERE text = 'a'", set()),
        ("SELECT * FROM keyword WHERE instr(text, 'a')", {"keyword"}),
        ("SELECT k.text FROM keyword k ORDER BY text DESC", {"keyword"}),
        ("SELECT count(*) FROM tag f WHERE tag = 'api'", set()),
        ("SELECT f.uri FROM json_each('[1]') CROSS JOIN fragment f ON f.id = value", set()),
        (
            "WITH f (id) AS (SELECT id FROM fragment) SELECT * FROM f CROSS JOIN tag t ON t.fragment_id = f.id",
            {"fragment"},
        ),
        ("SELECT rowid FROM fragment_text t WHERE fragment_text MATCH 'a'", set()),
        ("SELECT rowid FROM fragment_text WHERE rowid IN (SELECT value FROM json_each('[1]'))", set()),
        ("SELECT rowid FROM fragment_text t", {"t"}),
        ("SELECT doc FROM fragment_vocabulary v WHERE v.term = 'a'", set()),
        ("SELECT doc FROM fragment_vocabulary v WHERE v.doc = 1", {"v"}),
    ],
)
def test_whole_reads_are_noticed(catalog: Catalog, sql: str, read: set[str]) -> None:
    assert whole_reads(catalog.db, sql) == read


def test_there_are_statements_to_look_at() -> None:
    names = dict(statements())
    assert len(names) > 40
    tiers = {"default.MATCHES", "default.PARTS", "default.HELD", "precomputed.QUICK_MATCHES", "reading.STEMS"}
    assert {f"ranking.{name}" for name in tiers} | WHOLE_READS.keys() <= names.keys()


@pytest.mark.parametrize(("name", "sql"), list(statements()))
def test_statement_reads_no_whole_table(catalog: Catalog, name: str, sql: str) -> None:
    allowed = {WHOLE_READS[name][0]} if name in WHOLE_READS else set()
    assert whole_reads(catalog.db, sql) == allowed


@pytest.mark.parametrize("ranker", list(Ranker))
@pytest.mark.parametrize(
    "query", ["retry", "jitter adding", "postgres", "slow retrry", "post gresql", "zzyzx", "再試行"]
)
@pytest.mark.parametrize("options", [{}, {"categories": ("skill",)}, {"tags": ("api",), "agent_skills": True}])
def test_no_statement_that_a_search_runs_reads_a_whole_table(
    catalog: Catalog, query: str, options: dict[str, object], ranker: Ranker
) -> None:
    """The statements of FTS5 itself are among them."""
    ran: set[str] = set()
    catalog.db.set_trace_callback(ran.add)
    find(catalog, MatchRequest(query, ranker=ranker, explain=True, **options), quick=False)  # type: ignore[arg-type]
    catalog.db.set_trace_callback(None)
    listed = TAGS_BY_USE.replace(":limit", "2000")  # where nothing fits, the nearest tags are sought among all
    asked = [sql for sql in ran if re.match(r"\s*(SELECT|WITH)\b", sql) and sql != listed]
    allowed = {"keyword"} if ranker is Ranker.CLASSIC else set()
    assert any("posting p" in sql for sql in asked)
    assert {sql: read for sql in asked if (read := whole_reads(catalog.db, sql) - allowed)} == {}
