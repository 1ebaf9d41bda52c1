"""What killed builds leave beside an index, and who removes it when."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import MakeLibrary

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.index.leftovers import remove_leftovers, temporary_beside

fcntl = pytest.importorskip("fcntl", reason="files are locked on POSIX only")

HALF_BUILT = """
import os, signal, sys
from pathlib import Path
from orchestr8_sqlite.index.leftovers import temporary_beside
with temporary_beside(Path(sys.argv[1])) as path:
    path.write_text("half")
    path.with_name(path.name + "-keywords").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
TWO_DAYS = 172_800


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return where an index would be, in a folder of its own."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "index.db"


def beside(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def leave(target: Path, name: str, *, days_old: float = 0) -> Path:
    path = target.with_name(name)
    path.write_bytes(b"half")
    then = time.time() - days_old * 86_400
    os.utime(path, (then, then))
    return path


def test_next_build_removes_the_files_of_a_killed_one(make_library: MakeLibrary, target: Path) -> None:
    subprocess.run([sys.executable, "-c", HALF_BUILT, str(target)], check=False)
    assert len(beside(target)) == 3
    build_index([make_library({"guides/a.md": "# A\n"})], target)
    assert beside(target) == ["index.db"]


def test_build_that_has_nothing_to_do_removes_them_too(make_library: MakeLibrary, target: Path) -> None:
    root = make_library({"guides/a.md": "# A\n"})
    build_index([root], target)
    subprocess.run([sys.executable, "-c", HALF_BUILT, str(target)], check=False)
    build_index([root], target)
    assert beside(target) == ["index.db"]


def test_files_of_a_build_that_runs_stay_however_old_they_are(target: Path) -> None:
    with temporary_beside(target) as path:
        path.write_bytes(b"half")
        for file in target.parent.iterdir():
            os.utime(file, (0, 0))
        there = beside(target)
        remove_leftovers(target)
        assert beside(target) == there
    assert beside(target) == []


def test_number_of_a_process_that_runs_protects_nothing(target: Path) -> None:
    """It is that of another process meanwhile, or of one in another container."""
    leave(target, f".index.db.{os.getpid()}.0123abcd.tmp")
    leave(target, f".index.db.{os.getpid()}.0123abcd.tmp-lock")
    remove_leftovers(target)
    assert beside(target) == []


def test_file_without_a_lock_goes_after_a_day(target: Path) -> None:
    leave(target, ".index.db.7.tmp", days_old=0.9)
    leave(target, ".index.db.8.tmp", days_old=1.1)
    leave(target, ".index.db.8.tmp-keywords", days_old=1.1)
    leave(target, ".index.db.9.tmp", days_old=-2)  # the clock was wrong
    remove_leftovers(target)
    assert beside(target) == [".index.db.7.tmp"]


def test_file_that_was_written_lately_keeps_the_others_of_its_build(target: Path) -> None:
    leave(target, ".index.db.7.tmp", days_old=2)
    leave(target, ".index.db.7.tmp-keywords")
    remove_leftovers(target)
    assert len(beside(target)) == 2


def test_files_of_other_names_stay(target: Path) -> None:
    names = [".index.db.7.tmp.bak", ".index.db.notes.tmp", ".other.db.7.tmp", ".xindex.db.7.tmp", "index.db.7.tmp"]
    for name in names:
        leave(target, name, days_old=9)
    remove_leftovers(target)
    assert beside(target) == sorted(names)


def test_age_decides_where_files_cannot_be_locked(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with temporary_beside(target) as path:
        path.write_bytes(b"half")
        remove_leftovers(target)
        assert path.exists()
        for file in target.parent.iterdir():
            os.utime(file, (time.time() - TWO_DAYS,) * 2)
        remove_leftovers(target)
        assert beside(target) == []


def test_no_two_builds_of_one_process_have_the_same_file(target: Path) -> None:
    with temporary_beside(target) as one, temporary_beside(target) as other:
        assert one != other


def test_lock_that_another_build_takes_for_one_of_the_dead_is_made_again(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of a lock and its taking, another build may find it free and remove it."""
    flock = fcntl.flock
    taken: list[Path] = []

    def steal_once(number: int, operation: int) -> None:
        if not taken:
            taken.extend(target.parent.iterdir())
            taken[0].unlink()
        flock(number, operation)

    monkeypatch.setattr(fcntl, "flock", steal_once)
    with temporary_beside(target) as path:
        assert beside(target) == [f"{path.name}-lock"]
        assert taken[0].name not in beside(target)
