"""Failures of disks are said in one sentence: what, where, what to do."""

import errno
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from support import MakeLibrary, build

from orchestr8_sqlite.builder.target import explain, is_of_the_disk

TARGET = Path("/srv/index.db")


def of_sqlite(code: int, text: str) -> sqlite3.OperationalError:
    problem = sqlite3.OperationalError(text)
    problem.sqlite_errorcode = code
    return problem


def of_system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (of_system(errno.ENOSPC), "no space is left in /srv"),
        (of_system(errno.EDQUOT), "no space is left in /srv"),
        (of_sqlite(sqlite3.SQLITE_FULL, "database or disk is full"), "no space is left in /srv"),
        (of_system(errno.EROFS), "/srv may not be written to"),
        (of_system(errno.EACCES), "/srv may not be written to"),
        (of_sqlite(sqlite3.SQLITE_CANTOPEN, "unable to open database file"), "/srv may not be written to"),
        (of_system(errno.EIO), "the disk of /srv failed"),
        (of_sqlite(sqlite3.SQLITE_IOERR_WRITE, "disk I/O error"), "the disk of /srv failed"),
        (of_sqlite(sqlite3.SQLITE_CORRUPT, "malformed"), "malformed; build again with --full"),
        (sqlite3.ProgrammingError("closed"), "closed; build again with --full"),
    ],
)
def test_failure_says_where_and_what_to_do(problem: OSError | sqlite3.Error, words: str) -> None:
    text = explain(problem, TARGET)
    assert text.startswith("The index /srv/index.db could not be written: ")
    assert words in text
    assert text.endswith(".")
    assert "Errno" not in text


def test_file_that_is_not_beside_the_index_is_named() -> None:
    problem = PermissionError(errno.EACCES, "Permission denied", "/library/synonyms.txt")
    assert "/library/synonyms.txt cannot be used (Permission denied)" in explain(problem, TARGET)


@pytest.mark.skipif(os.name != "posix", reason="a file that is open is replaced on POSIX only")
def test_disk_that_fails_once_the_index_before_is_closed_is_no_matter(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback of the thread would be a warning, which fails this test."""
    root = make_library({"skills/a.md": "# A\n"})
    before = build(root, tmp_path / "index.db").stat().st_ino
    failed, close = threading.Event(), os.close

    def fail(number: int) -> None:
        is_before = os.fstat(number).st_ino == before
        close(number)
        if is_before and threading.current_thread() is not threading.main_thread():
            failed.set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "close", fail)
    build(root, tmp_path / "index.db")
    assert failed.wait(10)
    for thread in threading.enumerate():
        if thread.name == "free":
            thread.join()


def test_only_what_the_machine_refuses_is_of_the_disk() -> None:
    assert is_of_the_disk(of_sqlite(sqlite3.SQLITE_IOERR_READ, "disk I/O error"))
    assert not is_of_the_disk(of_sqlite(sqlite3.SQLITE_CORRUPT, "malformed"))
    assert not is_of_the_disk(sqlite3.ProgrammingError("closed"))
