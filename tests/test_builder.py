"""Builds: same input, same bytes; the old index survives whatever goes wrong; nothing foreign is overwritten."""

import errno
import gc
import os
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from dumps import assert_same_rows
from support import GARDENING, MakeLibrary, build, markdown, rows, write_files

from orchestr8_sqlite.builder import build as building
from orchestr8_sqlite.builder import checks, precomputed, writer
from orchestr8_sqlite.builder import target as targets
from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.builder.precomputed import write_quick_lookups
from orchestr8_sqlite.errors import BuildError, CatalogError, LibraryError
from orchestr8_sqlite.index.catalog import APPLICATION_ID, Catalog
from orchestr8_sqlite.library.roots import Root, open_roots
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import LookupResult, Ranker
from orchestr8_sqlite.ranking.holdout import HeldOut, measure_least_coverage
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.system import is_posix

ONE = {"skills/retry.md": markdown("useWhen:\n  - Retrying a flaky call")}
TWO = {**ONE, "agents/api.md": markdown("useWhen:\n  - Designing a REST API")}


def test_build_looks_for_garbage_rarely_and_restores_how_often(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({f"skills/topic-{n}.md": markdown(f"title: Topic {n}") for n in range(50)})
    build_index([root], tmp_path / "before.db")  # imports what a build needs
    usual, phases = gc.get_threshold(), list[str]()
    gc.collect()
    gc.callbacks.append(lambda phase, _: phases.append(phase))
    try:
        build_index([root], tmp_path / "index.db")
    finally:
        gc.callbacks.pop()
    assert phases.count("start") <= 1
    assert gc.get_threshold() == usual


def test_two_builds_of_one_library_are_the_same_bytes(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library(TWO)
    first = build(root, tmp_path / "first.db")
    (tmp_path / "elsewhere").mkdir()
    second = build(root, tmp_path / "elsewhere" / "second.db")
    assert first.read_bytes() == second.read_bytes()


def test_source_date_epoch_makes_checkouts_with_other_file_times_equal(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    root = make_library(ONE)
    first = build(root, tmp_path / "first.db").read_bytes()
    os.utime(root / "skills/retry.md", (1_800_000_000, 1_800_000_000))
    assert build(root, tmp_path / "second.db").read_bytes() == first


def test_report_counts_what_the_database_holds(make_library: MakeLibrary, tmp_path: Path) -> None:
    target = tmp_path / "index.db"
    report = build_index([make_library({**TWO, "skills/bad.md": b"\xff\xfe\xff"})], target)
    assert (report.files, report.fragments, report.rejected, report.scenarios) == (3, 2, 1, 2)
    assert rows(target, "SELECT outcome, count(*) FROM source GROUP BY 1") == [("fragment", 2), ("rejected", 1)]
    assert report.size == target.stat().st_size


def test_failed_check_leaves_the_old_index_and_no_leftovers(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = build(make_library(ONE), tmp_path / "index.db")
    before = target.read_bytes()

    def find_a_fault(*_: object) -> None:
        raise BuildError("a check failed")

    monkeypatch.setattr(building, "check_index", find_a_fault)
    with pytest.raises(BuildError, match="a check failed"):
        build(make_library(TWO), target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["index.db"]


def test_failed_write_leaves_the_old_index(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = build(make_library(ONE), tmp_path / "index.db")
    before = target.read_bytes()

    def run_out_of_space(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(building, "settle_rows", run_out_of_space)
    with pytest.raises(BuildError, match="disk is full"):
        build(make_library(TWO), target)
    assert target.read_bytes() == before


def test_open_reader_keeps_its_index_while_a_new_one_takes_the_place(make_library: MakeLibrary, tmp_path: Path) -> None:
    target = build(make_library(ONE), tmp_path / "index.db")
    with Catalog.open(target) as reader:
        build(make_library(TWO), target)
        assert len(reader.fragments()) == 1
        assert not reader.is_current()
    with Catalog.open(target) as fresh:
        assert len(fresh.fragments()) == 2


@pytest.mark.parametrize("content", [b"my notes", b"SQLite format 3\0" + bytes(200)])
def test_file_that_is_no_index_is_never_overwritten(make_library: MakeLibrary, tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "notes.md"
    target.write_bytes(content)
    with pytest.raises(BuildError, match=r"is not an orchestr8-sqlite index; name another file"):
        build(make_library(ONE), target)
    assert target.read_bytes() == content


def test_write_ahead_log_beside_the_target_is_refused(make_library: MakeLibrary, tmp_path: Path) -> None:
    target = build(make_library(ONE), tmp_path / "index.db")
    (tmp_path / "index.db-wal").write_bytes(b"old pages")
    with pytest.raises(BuildError, match="-wal exists"):
        build(make_library(TWO), target)


def test_finished_index_is_in_no_write_ahead_mode(make_library: MakeLibrary, tmp_path: Path) -> None:
    header = build(make_library(ONE), tmp_path / "index.db").read_bytes()[:100]
    assert header[18:20] == b"\x01\x01"
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID


def test_strict_build_lists_the_problems_and_writes_nothing(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"skills/retry.md": markdown("useWhen:\n  - Retrying\ntags:")})
    with pytest.raises(BuildError, match=r"skills/retry\.md:4: warning: tags is empty \[null-list\]"):
        build(root, tmp_path / "index.db", strict=True)
    assert not (tmp_path / "index.db").exists()


def test_missing_output_folder_is_said(make_library: MakeLibrary, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="create it first"):
        build(make_library(ONE), tmp_path / "nowhere" / "index.db")


def test_root_without_markdown_is_said(make_library: MakeLibrary, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="holds no Markdown files"):
        build(make_library({"notes.txt": "x"}), tmp_path / "index.db")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM posting", "posting has 0 rows, and the keywords count 3"),
        ("DELETE FROM posting; UPDATE keyword SET scenario_count = 0", "1 scenarios cannot be reached"),
        ("DELETE FROM fragment_body", "fragment_body has 0 rows instead of 1"),
    ],
)
def test_index_whose_rows_contradict_each_other_fails_the_check(
    make_library: MakeLibrary, tmp_path: Path, damage: str, message: str
) -> None:
    target = build(make_library(ONE), tmp_path / "index.db")
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.executescript(damage)
        with pytest.raises(BuildError, match=message):
            checks.check_index(connection, target)


def test_damaged_page_fails_the_check(make_library: MakeLibrary, tmp_path: Path) -> None:
    target = build(make_library({"skills/retry.md": markdown("tags: [http]")}), tmp_path / "index.db")
    connection = sqlite3.connect(target, isolation_level=None)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'tag_by_tag'").fetchone()
    content = target.read_bytes()
    start, end = 4096 * (page - 1), 4096 * page
    damaged = content[start:end].replace(b"http", b"smtp")
    target.write_bytes(content[:start] + damaged + content[end:])
    with pytest.raises(BuildError, match="integrity_check says: row 1 missing from index tag_by_tag"):
        checks.check_index(connection, target)
    connection.close()


@pytest.mark.parametrize("statement", ["UPDATE quick_lookup SET score = score + 1", "DELETE FROM quick_lookup"])
def test_precomputed_answer_that_differs_from_the_live_one_fails_the_build(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    def write_others(db: sqlite3.Connection, ranker: Ranker, answers: Mapping[str, LookupResult]) -> None:
        write_quick_lookups(db, ranker, answers)
        db.execute(statement)

    monkeypatch.setattr(precomputed, "write_quick_lookups", write_others)
    with pytest.raises(BuildError, match="differs from the live one"):
        build(make_library(ONE), tmp_path / "index.db")


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("PRAGMA application_id = 7", "not an orchestr8-sqlite index"),
        ("PRAGMA user_version = 70000", "newer schema version 7, this program reads 6; upgrade"),
        ("PRAGMA user_version = 40100", "older schema version 4, this program reads 6; build it again"),
    ],
)
def test_index_of_another_kind_or_major_version_is_refused_in_one_sentence(
    make_library: MakeLibrary, tmp_path: Path, pragma: str, message: str
) -> None:
    target = build(make_library(ONE), tmp_path / "index.db")
    connection = sqlite3.connect(target)
    connection.execute(pragma)
    connection.commit()
    connection.close()
    with pytest.raises(CatalogError, match=message):
        Catalog.open(target)


def test_build_measures_what_an_answer_must_cover_where_there_is_enough_to_measure(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    small = build(make_library(dict(list(GARDENING.items())[1:])), tmp_path / "small.db")
    enough = build(make_library(GARDENING), tmp_path / "enough.db")
    with Catalog.open(small) as few, Catalog.open(enough) as many:
        assert few.least_coverage == 0.0
        assert 0.1 <= many.least_coverage <= 0.6
        with HeldOut.copy(many) as held_out:
            assert many.least_coverage == measure_least_coverage(held_out.catalog)


@pytest.mark.parametrize(
    ("fewest_shared", "way"),
    [(0, "whole"), (1000, "whole"), (1000, "updated"), (0, "settled")],
    ids=["several processes", "one process", "updated", "settled"],
)
def test_nothing_of_what_is_hidden_while_it_is_measured_stays_in_the_index(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest_shared: int, way: str
) -> None:
    """Pages that SQLite has no memory for are written before the transaction ends."""
    monkeypatch.setattr(precomputed, "FEWEST_SHARED", fewest_shared)
    monkeypatch.setattr(writer, "PAGE_CACHE", "PRAGMA cache_size = 10")
    root, target = make_library(GARDENING), tmp_path / "index.db"
    build(root, target)
    if way != "whole":
        write_files(root, {f"guides/g{number}.md": GARDENING["guides/g9.md"] for number in range(5)})
        assert build_index([root], target, settle=way == "updated").how is How.UPDATED
    if way == "settled":
        assert build_index([root], target).how is How.UNCHANGED
    with Catalog.open(target) as catalog:
        assert catalog.meta["least_coverage_of"] == catalog.generation  # it was measured
    monkeypatch.setattr(precomputed, "measure_least_coverage", lambda *_: 0.3)
    assert_same_rows(target, build(root, tmp_path / "unmeasured.db"))


@pytest.mark.parametrize(
    "query",
    [
        "adding retry",
        "retry with exponential backoff and jitter",
        "how do I add retry with exponential backoff to a flaky http call in python",
        "designing a rest api for my web shop",
        "pytest fixtures",
    ],
)
@pytest.mark.parametrize("count", [3, 10])
def test_small_library_answers_whoever_names_its_words(
    make_library: MakeLibrary, tmp_path: Path, query: str, count: int
) -> None:
    files = {
        **TWO,
        "guides/tests.md": "# Testing with pytest\n\nHow to test.\n",
        **dict(list(GARDENING.items())[: count - 3]),
    }
    with Catalog.open(build(make_library(files), tmp_path / "index.db")) as catalog:
        answer = find(catalog, make_request({"query": query}))
    assert answer.confident
    assert answer.candidates[0].name in {"retry", "api", "tests"}


@pytest.mark.parametrize("name", ["a b?c#d%20.db", "büro.db"])
def test_index_with_a_difficult_file_name_opens(make_library: MakeLibrary, tmp_path: Path, name: str) -> None:
    target = build(make_library(ONE), tmp_path / name)
    with Catalog.open(target) as catalog:
        assert catalog.meta["fragments"] == "1"


def test_file_that_is_no_database_is_answered_with_how_to_build_an_index(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 100, encoding="utf-8")
    with pytest.raises(
        CatalogError, match=r"text\.db is not a usable index .* build it again with: orchestr8-sqlite build"
    ):
        Catalog.open(tmp_path / "text.db")


def test_missing_and_empty_files_are_no_index(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="There is no index at"):
        Catalog.open(tmp_path / "none.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(CatalogError, match="not an orchestr8-sqlite index"):
        Catalog.open(tmp_path / "empty.db")


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX only")
def test_folder_that_cannot_be_synced_is_said_although_the_index_is_in_place(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse_to_sync_folders(monkeypatch, errno.EIO)
    with pytest.raises(BuildError, match=r"is in place, but its folder could not be synced .*--full\.$"):
        build_index([make_library({"guides/a.md": "# A\n"})], tmp_path / "index.db")
    assert rows(tmp_path / "index.db", "SELECT path FROM fragment") == [("guides/a",)]


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX only")
def test_file_system_that_knows_no_sync_of_folders_is_no_fault(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse_to_sync_folders(monkeypatch, errno.EINVAL)
    build_index([make_library({"guides/a.md": "# A\n"})], tmp_path / "index.db")


def _refuse_to_sync_folders(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    fsync = os.fsync

    def refuse(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(file)

    monkeypatch.setattr(os, "fsync", refuse)


def test_index_whose_file_is_not_synced_gets_no_name(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(BuildError, match=r"the disk of .* failed"):
        build_index([make_library({"guides/a.md": "# A\n"})], folder / "index.db")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_file_that_becomes_a_pipe_after_the_listing_is_not_waited_for(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_library({"guides/a.md": "# A\n", "guides/b.md": "# B\n"})

    def open_and_change(folders: Sequence[Path], *rest: object) -> list[Root]:
        found = open_roots(folders, *rest)  # type: ignore[arg-type]
        (root / "guides/b.md").unlink()
        os.mkfifo(root / "guides/b.md")
        return found

    monkeypatch.setattr("orchestr8_sqlite.builder.build.open_roots", open_and_change)
    report = build_index([root], tmp_path / "index.db")
    assert (report.fragments, report.rejected) == (1, 1)
    assert [one.message for one in report.diagnostics] == ["cannot be read: it is not a regular file"]


@pytest.mark.parametrize("seconds", [253_402_300_800, 9_300_000_000, -9_300_000_000])
def test_file_of_any_time_is_built_and_its_changes_are_seen(
    make_library: MakeLibrary, tmp_path: Path, seconds: int
) -> None:
    """The years 10000, 2264 and 1675, as far as the file system has them."""
    root = make_library({"skills/retry.md": "# Retry\n\nOne.\n"})
    for text in ("One.", "Two."):
        write_files(root, {"skills/retry.md": f"# Retry\n\n{text}\n"})
        os.utime(root / "skills/retry.md", ns=(0, seconds * 1_000_000_000))
        index = build_index([root], tmp_path / "index.db").target
        assert rows(index, "SELECT body FROM fragment_body") == [(f"# Retry\n\n{text}",)]


@pytest.mark.skipif(not is_posix(), reason="other systems keep rights elsewhere")
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_replaced_index_keeps_its_mode_and_owner_and_nobody_else_reads_it_meanwhile(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, full: bool
) -> None:
    root, target = make_library(ONE), tmp_path / "index.db"
    build(root, target)
    target.chmod(mode)
    if os.geteuid() == 0:
        os.chown(target, 1234, 5678)
    before, while_written = target.stat(), set[int]()

    copy_rights = targets._copy_rights

    def copy_and_look(replaced: Path, temporary: Path) -> None:
        while_written.add(stat.S_IMODE(temporary.stat().st_mode))
        copy_rights(replaced, temporary)

    monkeypatch.setattr(targets, "_copy_rights", copy_and_look)
    write_files(root, TWO)
    build_index([root], target, full=full)
    after = target.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert while_written == {0o600}


@pytest.mark.skipif(not is_posix(), reason="other systems need rights for links")
def test_index_behind_a_symbolic_link_is_replaced_there(make_library: MakeLibrary, tmp_path: Path) -> None:
    root, target = make_library(ONE), tmp_path / "kept" / "index.db"
    target.parent.mkdir()
    build(root, target)
    link = tmp_path / "index.db"
    link.symlink_to(target)
    for files in (TWO, ONE):
        write_files(root, {**TWO, **files})
        build_index([root], link, full=files is ONE)
        assert link.is_symlink()
        assert rows(target, "SELECT count(*) FROM fragment") == [(2,)]
    assert [path.name for path in target.parent.iterdir()] == ["index.db"]
