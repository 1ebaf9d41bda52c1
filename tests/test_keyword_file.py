"""The keyword tables of a new index: the same whoever writes them, and nothing is left of the file they come from."""

import os
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from support import MakeLibrary, make_fragment, markdown

from orchestr8_sqlite import builder, processes, vocabulary
from orchestr8_sqlite.builder import build_index
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.fragment_rows import prepare_batch
from orchestr8_sqlite.inversion import Keywords
from orchestr8_sqlite.keyword_file import COPY, TABLES
from orchestr8_sqlite.vocabulary import KeywordWriter
from orchestr8_sqlite.writer import create_schema

FILES = {
    f"skills/retry-{number}.md": markdown(f"tags: [retry, t{number}]\nuseWhen:\n  - Retrying upload-{number} in Go")
    for number in range(5)
}


@pytest.fixture(autouse=True)
def few_files_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process write the tables of small libraries too, where there are two processors."""
    monkeypatch.setattr(builder, "FEWEST", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def test_index_is_the_same_bytes_whoever_wrote_its_keywords(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = make_library(FILES)
    began: list[str] = []
    accompany = processes.Companion

    def noted(*arguments: object) -> object:
        began.append("companion")
        return accompany(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("orchestr8_sqlite.keyword_file.Companion", noted)
    build_index([library], tmp_path / "apart.db", full=True)
    assert began == ["companion"]
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    build_index([library], tmp_path / "alone.db", full=True)
    assert began == ["companion"]
    assert (tmp_path / "apart.db").read_bytes() == (tmp_path / "alone.db").read_bytes()


def test_every_table_that_keywords_are_written_to_is_copied() -> None:
    written: set[str] = set()

    def note(action: int, table: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_INSERT and table is not None and not table.startswith("sqlite_"):
            written.add(table)
        return sqlite3.SQLITE_OK

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        create_schema(db)
        db.set_authorizer(note)
        writer = KeywordWriter(db)
        writer.add([1], 1, prepare_batch([make_fragment("retry", "Retrying a call")]).keywords)
        writer.close()
        assert written == set(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_copied_by_whole_records(tmp_path: Path, table: str) -> None:
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as db:
        create_schema(db)
        db.execute("ATTACH ? AS aside", (str(tmp_path / "aside.db"),))
        for (sql,) in db.execute("SELECT sql FROM main.sqlite_schema WHERE tbl_name = ? AND sql <> ''", (table,)):
            db.execute(sql.replace("TABLE ", "TABLE aside.", 1).replace("INDEX ", "INDEX aside.", 1))
        steps = {step[1] for step in db.execute(f"EXPLAIN {COPY[table]}")}
        assert steps & {"RowData", "RowCell"}


@pytest.mark.parametrize("apart", [True, False])
def test_failure_to_write_keywords_is_said_and_leaves_no_file(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    def run_out_of_space(*_: object) -> None:
        problem = sqlite3.OperationalError("database or disk is full")
        problem.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise problem

    monkeypatch.setattr(vocabulary, "write_scenario_sets", run_out_of_space)
    if not apart:
        monkeypatch.setattr("os.cpu_count", lambda: 1)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(BuildError, match=r"could not be written: no space is left in .*; free some and build again\.$"):
        build_index([make_library(FILES)], folder / "index.db", full=True)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("apart", [True, False])
def test_interrupted_build_leaves_no_file(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    if not apart:
        monkeypatch.setattr("os.cpu_count", lambda: 1)
    folder = tmp_path / "out"
    folder.mkdir()
    seen: list[str] = []

    def interrupt(*_: object) -> None:
        seen.extend(path.name for path in folder.iterdir() if path.name.endswith("-keywords"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index([make_library(FILES)], folder / "index.db", full=True, progress=interrupt)
    assert seen or apart  # the other process may not have begun
    assert not list(folder.iterdir())


def test_process_that_was_ended_is_said_in_one_sentence(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_itself(_: KeywordWriter, numbers: Sequence[int | None], first: int, keywords: Keywords) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(KeywordWriter, "add", end_itself)
    with pytest.raises(BuildError, match="ended from outside"):
        build_index([make_library(FILES)], tmp_path / "index.db", full=True)
    assert not (tmp_path / "index.db").exists()
