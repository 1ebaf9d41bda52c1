"""The server's side of hot reload: the building process is started, heard, and gone when the server is."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

import pytest
from listening import needs_proc, processes
from support import MakeLibrary, markdown, rows, write_files

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.server.supply import build_process
from orchestr8_sqlite.server.supply.build_process import ENDED, FAILED, build_once, watch_library
from orchestr8_sqlite.server.supply.freshness import LIBRARY, Freshness

RETRY = {"skills/retry.md": markdown("title: Retrying"), "agents/api.md": markdown("tags:")}
PATIENCE = 60.0

Scene = Callable[["Followed"], Awaitable[None]]


class Followed:
    """A library that is followed, and what came of it."""

    def __init__(self, root: Path, index: Path) -> None:
        self.root, self.index = root, index
        self.stop, self.first_build = asyncio.Event(), asyncio.Event()
        self.freshness = Freshness()
        self.built: asyncio.Queue[str] = asyncio.Queue()
        self.task = asyncio.ensure_future(
            watch_library([root], index, self._take, self.stop, first_build=self.first_build, freshness=self.freshness)
        )

    async def _take(self) -> None:
        await self.built.put(str(rows(self.index, "SELECT group_concat(title) FROM fragment")[0][0]))

    async def next_titles(self) -> str:
        """Return the titles in the index after the next build."""
        return await asyncio.wait_for(self.built.get(), PATIENCE)


def follow(root: Path, index: Path, scene: Scene) -> None:
    """Play *scene* with the followed library, then stop it if the scene has not."""

    async def play() -> None:
        followed = Followed(root, index)
        try:
            await scene(followed)
        finally:
            followed.stop.set()
            await asyncio.wait_for(followed.task, PATIENCE)

    asyncio.run(play())


@pytest.mark.slow
def test_first_build_and_every_change_are_told_with_the_new_index_in_place(
    make_library: MakeLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestr8_sqlite")

    async def scene(followed: Followed) -> None:
        assert not followed.first_build.is_set()
        await asyncio.wait_for(followed.first_build.wait(), PATIENCE)
        assert await followed.next_titles() == "Title,Retrying"
        write_files(followed.root, {"skills/retry.md": markdown("title: Again\ntags:")})
        assert await followed.next_titles() == "Title,Again"

    follow(make_library(RETRY), tmp_path / "index.db", scene)
    told = [(record.levelname, record.getMessage(), vars(record)) for record in caplog.records]
    assert [(level, message) for level, message, _ in told] == [
        ("INFO", "built"), ("WARNING", "diagnostic"), ("INFO", "built"),
    ]  # fmt: skip
    assert told[0][2]["diagnostics"] == 1
    assert (told[1][2]["place"], told[1][2]["code"]) == ("library1/skills/retry.md:3", "null-list")
    assert told[2][2]["changed"] == ["library1/skills/retry.md"]


@needs_proc
@pytest.mark.slow
def test_building_process_is_gone_soon_after_stopping(make_library: MakeLibrary, tmp_path: Path) -> None:
    async def scene(followed: Followed) -> None:
        await followed.next_titles()
        assert len(processes(followed.index)) == 1
        started = time.monotonic()
        followed.stop.set()
        await followed.task
        assert time.monotonic() - started < 1.0
        assert processes(followed.index) == []

    follow(make_library(RETRY), tmp_path / "index.db", scene)


@needs_proc
@pytest.mark.slow
def test_stopping_in_the_middle_of_the_first_build_leaves_no_process_and_no_file(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    async def scene(followed: Followed) -> None:
        while not processes(followed.index):
            await asyncio.sleep(0.01)
        followed.stop.set()
        await asyncio.wait_for(followed.task, PATIENCE)
        assert followed.first_build.is_set()
        assert processes(followed.index) == []

    follow(make_library(RETRY), tmp_path / "index.db", scene)
    assert [path.name for path in tmp_path.iterdir() if path.name != "library1"] == []


@needs_proc
@pytest.mark.slow
def test_building_process_that_dies_is_one_error_and_another_follows_what_changes_meanwhile(
    make_library: MakeLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestr8_sqlite")

    async def scene(followed: Followed) -> None:
        await followed.next_titles()
        (number,) = processes(followed.index)
        os.kill(number, signal.SIGKILL)
        await asyncio.wait_for(followed.freshness.wait_for_change(), PATIENCE)
        stale = followed.freshness.of(LIBRARY)
        assert stale is not None
        assert stale.why == ENDED
        write_files(followed.root, {"skills/retry.md": markdown("title: Again\ntags:")})
        assert await followed.next_titles() == "Title,Again"
        assert followed.freshness.of(LIBRARY) is None

    follow(make_library(RETRY), tmp_path / "index.db", scene)
    (error,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert (error.getMessage(), vars(error)["exit_code"]) == ("changes are not followed", -signal.SIGKILL)
    since = datetime.fromisoformat(vars(error)["stale_since"])
    assert abs(since.timestamp() - error.created) < 2
    assert "changes are followed again" in [record.getMessage() for record in caplog.records]


@pytest.mark.slow
def test_report_of_a_build_that_is_too_long_ends_nothing(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_process, "MAX_LINE", 100)

    async def scene(followed: Followed) -> None:
        assert await followed.next_titles() == "Title,Retrying"
        while not followed.built.empty():
            followed.built.get_nowait()
        write_files(followed.root, {"skills/retry.md": markdown("title: Again\ntags:")})
        while await followed.next_titles() != "Title,Again":
            pass

    follow(make_library(RETRY), tmp_path / "index.db", scene)


@pytest.mark.slow
def test_refused_library_is_logged_and_followed_until_it_can_be_built(
    make_library: MakeLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = make_library({"notes.txt": "x"})

    async def scene(followed: Followed) -> None:
        await asyncio.wait_for(followed.first_build.wait(), PATIENCE)
        assert not followed.index.exists()
        stale = followed.freshness.of(LIBRARY)
        assert stale is not None
        assert stale.why == FAILED
        write_files(followed.root, {"skills/retry.md": "# Retrying\n"})
        assert await followed.next_titles() == "Retrying"
        assert followed.freshness.of(LIBRARY) is None

    follow(root, tmp_path / "index.db", scene)
    refused = [record for record in caplog.records if record.getMessage() == "not built"]
    assert "holds no Markdown files" in vars(refused[0])["reason"]


@pytest.mark.slow
def test_library_that_is_again_what_it_was_is_no_longer_stale_though_nothing_is_built(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    root = make_library(RETRY)

    async def scene(followed: Followed) -> None:
        await followed.next_titles()
        for source, target, why in ((root, tmp_path / "away", FAILED), (tmp_path / "away", root, None)):
            changed = asyncio.ensure_future(followed.freshness.wait_for_change())
            await asyncio.sleep(0)
            source.rename(target)
            await asyncio.wait_for(changed, PATIENCE)
            stale = followed.freshness.of(LIBRARY)
            assert (stale and stale.why) == why
        assert followed.built.empty()

    follow(root, tmp_path / "index.db", scene)


@pytest.mark.slow
def test_bug_of_whoever_is_told_of_builds_does_not_end_following(
    make_library: MakeLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Followed) -> None:
        raise KeyError

    monkeypatch.setattr(Followed, "_take", fail)

    async def scene(followed: Followed) -> None:
        async with asyncio.timeout(PATIENCE):
            while "changes are not followed" not in [record.getMessage() for record in caplog.records]:
                await asyncio.sleep(0.01)
        assert not followed.task.done()

    follow(make_library(RETRY), tmp_path / "index.db", scene)
    (error,) = [record for record in caplog.records if record.getMessage() == "changes are not followed"]
    assert vars(error)["reason"] == "KeyError"


def test_command_that_cannot_be_started_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))

    async def scene(followed: Followed) -> None:
        await asyncio.wait_for(followed.first_build.wait(), PATIENCE)
        await asyncio.sleep(0)

    follow(tmp_path, tmp_path / "index.db", scene)
    assert [record.getMessage() for record in caplog.records] == ["changes are not followed"]


@pytest.mark.slow
def test_building_once_leaves_the_index_in_place(make_library: MakeLibrary, tmp_path: Path) -> None:
    asyncio.run(build_once([make_library(RETRY)], tmp_path / "index.db"))
    assert rows(tmp_path / "index.db", "SELECT count(*) FROM fragment") == [(2,)]


@pytest.mark.slow
def test_building_once_says_why_it_could_not(make_library: MakeLibrary, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="holds no Markdown files"):
        asyncio.run(build_once([make_library({"notes.txt": "x"})], tmp_path / "index.db"))
