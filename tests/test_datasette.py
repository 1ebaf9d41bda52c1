"""The folder that Datasette starts from: what stands in it, and what its stored queries answer.

test_datasette_real.py starts Datasette itself.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from browsed import QUERIES, build_browsed
from support import CorpusIndex, Invoke, MakeCatalog, needs_shared

import orchestr8_sqlite
from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.comments import read_comments
from orchestr8_sqlite.index.datasette.folder import export_datasette
from orchestr8_sqlite.index.datasette.queries import find_examples, read_stored_queries

Shown = dict[str, Any]
BUNDLED = Path(orchestr8_sqlite.__file__).with_name("bundled.db")
STORED = {query.name: query for query in read_stored_queries()}
SLOWEST = 0.2
"""Seconds of processor time that a stored query may take."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_browsed(tmp_path_factory.mktemp("browsed"))


@pytest.fixture(scope="module")
def folder(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder exported from *index*."""
    target = tmp_path_factory.mktemp("datasette") / "new" / "browse"
    with Catalog.open(index) as catalog:
        export_datasette(catalog, target)
    return target


@pytest.fixture
def db(folder: Path) -> Iterator[sqlite3.Connection]:
    """Return the exported copy of the index."""
    with closing(sqlite3.connect(folder / "library.db")) as connection:
        yield connection


def read(folder: Path, name: str) -> Shown:
    document: Shown = json.loads((folder / name).read_text(encoding="utf-8"))
    return document


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


@pytest.mark.parametrize("name", STORED)
def test_stored_query_returns_what_the_library_says(db: sqlite3.Connection, name: str) -> None:
    asked = QUERIES[name]
    assert STORED[name].parameters.keys() == asked.parameters.keys()
    found = db.execute(STORED[name].sql, asked.parameters).fetchall()
    assert [row[: len(wanted)] for row, wanted in zip(found, asked.rows, strict=False)] == asked.rows


def test_search_quotes_the_passage_with_the_words_marked(db: sqlite3.Connection) -> None:
    [row] = db.execute(STORED["search"].sql, {"words": "paragraph calls"}).fetchall()
    assert row[1] == "Retry [calls]"
    assert "A [paragraph] that is long" in row[2]


@pytest.mark.parametrize("words", ["", "  ", '"', "c++ node.js", "a AND (b", "don't", "\\", '\\"', "*", "再試行"])
@pytest.mark.parametrize("name", ["search", "coverage", "compare"])
def test_words_may_hold_any_signs(db: sqlite3.Connection, name: str, words: str) -> None:
    db.execute(STORED[name].sql, {"words": words, "one": "", "other": ""}).fetchall()


@pytest.mark.parametrize("name", [name for name, query in STORED.items() if query.parameters])
def test_example_of_a_stored_query_has_rows(index: Path, name: str) -> None:
    with Catalog.open(index) as catalog:
        examples = find_examples(catalog, STORED[name])
        assert any(examples.values())
        assert catalog.rows(STORED[name].sql, examples)


def test_examples_of_an_empty_index_are_left_out(make_catalog: MakeCatalog, tmp_path: Path) -> None:
    catalog = make_catalog()
    catalog.meta = {**catalog.meta, "fragments": "0", "scenarios": "0", "prompts": "0"}
    export_datasette(catalog, tmp_path)
    queries = read(tmp_path, "datasette.json")["databases"]["library"]["queries"]
    assert "For example" not in queries["search"]["description_html"]
    assert 'href="?percent=50"' in queries["author-tokens"]["description_html"]


def test_every_statement_of_the_file_is_a_stored_query_with_an_expected_answer() -> None:
    text = files("orchestr8_sqlite.index.datasette").joinpath("queries.sql").read_text(encoding="utf-8")
    assert text.count(";\n\n") + 1 == len(STORED)
    assert STORED.keys() == QUERIES.keys()
    assert all(query.title and query.description.endswith(".") for query in STORED.values())


def slow_queries(index: Path) -> dict[str, float]:
    """Return the seconds of the stored queries that take longer than SLOWEST with their examples, at best of three."""
    slow = {}
    with Catalog.open(index) as catalog:
        for query in STORED.values():
            examples = find_examples(catalog, query)
            seconds = []
            for _ in range(3):
                started = time.process_time()
                catalog.rows(query.sql, examples)
                seconds.append(time.process_time() - started)
            if min(seconds) > SLOWEST:
                slow[query.name] = min(seconds)
    return slow


def test_stored_queries_answer_at_once() -> None:
    assert slow_queries(BUNDLED) == {}


@needs_shared
@pytest.mark.slow
def test_stored_queries_answer_at_once_on_thousands_of_skills(corpus_index: CorpusIndex) -> None:
    assert slow_queries(corpus_index("skills")) == {}


def test_export_writes_the_folder_and_leaves_the_index_alone(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    before = index.read_bytes(), index.stat().st_mtime_ns
    target = tmp_path / "my library"
    _, out, _ = invoke("export", "--format", "datasette", "--db", index, "-o", target)
    *written, start = out.splitlines()
    assert start == f"Browse it: datasette '{target}'"
    assert set(map(Path, written)) == {path for path in target.rglob("*") if path.is_file()}
    assert (target / "library.db").read_bytes() == before[0]
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_export_again_replaces_the_copy(index: Path, tmp_path: Path) -> None:
    for source in (BUNDLED, index):
        with Catalog.open(source) as catalog:
            export_datasette(catalog, tmp_path)
    assert (tmp_path / "library.db").read_bytes() == index.read_bytes()
    assert not [*tmp_path.glob(".*")]


def test_damaged_index_is_not_exported(index: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    content = bytearray(index.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(CatalogError, match="damaged"), Catalog.open(damaged) as catalog:
        export_datasette(catalog, tmp_path / "browse")
    assert not [*tmp_path.rglob("library.db")]


def test_tables_and_columns_are_described_by_the_comments_of_the_schema(folder: Path, db: sqlite3.Connection) -> None:
    said = read(folder, "metadata.json")["databases"]["library"]["tables"]
    assert said["tag"]["description"] == "The tags of each fragment."
    assert said["tag"]["columns"]["ordinal"] == "0 for the first"
    assert said["unreviewed"]["description"] == "The diagnostics that no review accepts."
    assert said["skill_file"]["columns"]["path"] == (
        "below the skill's folder; SKILL.md is one, and so are the files of skills nested in it if the skill has a row "
        "in table skill"
    )
    listed = "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow'"
    for name, is_strict in db.execute(listed).fetchall():
        if not name.startswith("sqlite_"):
            assert said[name]["description"].endswith(".")
            assert [*said[name]["columns"]] == (columns(db, name) if is_strict else [])


def test_comment_with_a_statement_keeps_it_apart() -> None:
    comment = read_comments()["field_detail"]
    assert comment.text.endswith("stored with its first keyword.")
    assert comment.example.startswith("SELECT uri, sum(weight) FROM field_detail WHERE")


def test_what_is_shown_of_a_table_is_in_it(folder: Path, db: sqlite3.Connection) -> None:
    for name, shown in read(folder, "datasette.json")["databases"]["library"]["tables"].items():
        has = columns(db, name)
        named = [shown.get(key) for key in ("label_column", "sort", "sort_desc", "fts_pk")]
        assert {column for column in (*named, *shown.get("facets", ())) if column} <= set(has), name


def test_tables_of_the_ranking_are_hidden(folder: Path, db: sqlite3.Connection) -> None:
    shown = read(folder, "datasette.json")["databases"]["library"]["tables"]
    hidden = {name for name, options in shown.items() if options.get("hidden")}
    ranking = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'rank_*'")}
    assert ranking
    assert hidden == {*ranking, "posting", "field_posting", "fragment_text", "fragment_vocabulary", "keyword_text"}
