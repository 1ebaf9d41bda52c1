"""Checks of the rows that an update has touched."""

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from dumps import dump
from support import MakeLibrary, build, markdown, write_files

from orchestr8_sqlite import keyword_changes, update
from orchestr8_sqlite.builder import build_index
from orchestr8_sqlite.errors import BuildError, CheckError
from orchestr8_sqlite.jobs import How
from orchestr8_sqlite.rechecks import check_fragments, check_words

RETRY = markdown("title: Retrying\ntags: [calls]\nuseWhen:\n  - Retrying a flaky call")
OTHER = markdown("title: Other\nrelatedResources: [skills/retry]\ndescription: Another", "A call, a box.\n")


@pytest.fixture
def target(make_library: MakeLibrary, tmp_path: Path) -> Path:
    return build(make_library({"skills/retry.md": RETRY, "skills/other.md": OTHER}), tmp_path / "index.db")


def number_of(db: sqlite3.Connection, path: str) -> int:
    return int(db.execute("SELECT id FROM fragment WHERE path = ?", (path,)).fetchone()[0])


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (None, None),
        ("DELETE FROM posting WHERE keyword_id = (SELECT id FROM keyword WHERE text = 'flaky')", "1 keywords"),
        ("UPDATE keyword SET scenario_count = 7 WHERE text = 'retrying'", "1 keywords"),
        ("DELETE FROM field_block WHERE keyword_id = (SELECT id FROM keyword WHERE text = 'flaky')", "1 keywords"),
        ("DELETE FROM evidence WHERE stem = 'flaki'", "1 terms"),
        ("DELETE FROM body_evidence WHERE stem = 'box'", "1 terms"),
        ("DELETE FROM term WHERE stem = 'call'", "1 terms"),
        ("UPDATE term SET fragment_count = fragment_count + 1 WHERE stem = 'call'", "1 terms"),
    ],
)
def test_words_whose_postings_are_not_what_they_say_are_refused(
    target: Path, damage: str | None, problem: str | None
) -> None:
    with closing(sqlite3.connect(target)) as db:
        db.execute(damage or "SELECT 1")
        arguments = ["retrying", "flaky", "call", "calls"], ["retri", "flaki", "call", "box"]
        if problem is None:
            check_words(db, *arguments)
            return
        with pytest.raises(CheckError, match=f"failed a check and was not put in place: {problem}"):
            check_words(db, *arguments)


@pytest.mark.parametrize("table", ["fragment", "fragment_body", "topic"])
def test_fragment_that_is_not_there_whole_is_refused(target: Path, table: str) -> None:
    with closing(sqlite3.connect(target)) as db:
        number = number_of(db, "skills/retry")
        check_fragments(db, (), [number])
        db.execute(f"DELETE FROM {table} WHERE {'id' if table == 'fragment' else 'fragment_id'} = ?", (number,))
        with pytest.raises(BuildError, match="1 fragments that were written are not there whole"):
            check_fragments(db, (), [number])


@pytest.mark.parametrize("left", ["reference", "tag", "scenario", "fragment_text"])
def test_what_is_left_of_a_fragment_that_is_gone_is_refused(target: Path, left: str) -> None:
    with closing(sqlite3.connect(target)) as db:
        number = number_of(db, "skills/retry")
        for table in ("fragment", "fragment_body", "topic", "tag", "scenario", "pointer"):
            if table != left:
                db.execute(f"DELETE FROM {table} WHERE {'id' if table == 'fragment' else 'fragment_id'} = ?", (number,))
        if left != "reference":
            db.execute("DELETE FROM reference")
        if left != "fragment_text":
            db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('delete-all')")
        with pytest.raises(BuildError, match="something is left of a fragment that is gone"):
            check_fragments(db, [number], ())


@pytest.fixture
def root(make_library: MakeLibrary, tmp_path: Path) -> Path:
    """Return a library with a fragment more than its index beside it."""
    root = make_library({f"skills/s{number}.md": RETRY for number in range(20)})
    build(root, tmp_path / "index.db")
    return write_files(root, {"skills/new.md": markdown("useWhen: [Frobnicating a call]")})


def test_update_whose_rows_do_not_agree_is_built_anew_and_that_is_said_in_a_line(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        keyword_changes, "COUNT_SCENARIOS", "UPDATE keyword SET scenario_count = scenario_count + 2 * ? WHERE text = ?"
    )
    assert build_index([root], tmp_path / "index.db").how is How.WHOLE
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is built anew (The updated index failed a check" in caplog.text
    assert "keywords have another number of postings than they say" in caplog.text
    assert dump(tmp_path / "index.db") == dump(build(root, tmp_path / "fresh.db"))


def test_update_that_the_disk_refuses_is_not_tried_again_as_a_build(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target, before = tmp_path / "index.db", (tmp_path / "index.db").read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(update, "check_fragments", refuse)
    with pytest.raises(BuildError, match=r"the disk of .* failed"):
        build_index([root], target)
    assert (target.read_bytes(), caplog.records) == (before, [])
