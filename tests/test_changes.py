"""What clients are told when the index is replaced, in the form of their revision, and that nothing else is told."""

import shutil
import sqlite3
from pathlib import Path

import anyio
import pytest
from replacing import PROMPTS, RESOURCES, UPDATED, Index, every_revision, name_of, told, waiting
from serving import HANDSHAKES

from orchestr8_sqlite.server.app import LibraryServer

pytestmark = pytest.mark.anyio


@every_revision
@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("same", []),
        ("text", [RESOURCES]),
        ("new fragment", [RESOURCES]),
        ("no roses", [RESOURCES]),
        ("prompt title", [PROMPTS]),
        ("prompt argument", [PROMPTS]),
        ("prompt text", []),
        ("no prompt", [PROMPTS]),
        ("no skill", [RESOURCES]),
    ],
)
async def test_the_lists_that_have_changed_are_announced_at_once_and_no_other(
    server: LibraryServer, index: Index, revision: str, variant: str, expected: list[str]
) -> None:
    async with waiting(server, revision) as wire:
        index.become(variant)
        await server.changes.check()
        assert await told(server, wire) == expected


SUBSCRIBED = (
    "orchestr8://skills/retry",
    "orchestr8://guides/roses",
    "orchestr8://skills",
    "orchestr8://match?query=retrying&mode=index",
    "orchestr8://skills/backoff",
    "@orchestr8://skill/retry",
)
RETRIES = ("orchestr8://skills/retry", "@orchestr8://skill/retry")


@every_revision
@pytest.mark.parametrize(
    ("variant", "updated"),
    [
        ("text", [*RETRIES]),
        ("new fragment", ["orchestr8://skills", SUBSCRIBED[3], "orchestr8://skills/backoff"]),
        ("no roses", ["orchestr8://guides/roses"]),
        ("no skill", ["orchestr8://skills"]),
        ("prompt title", []),
        ("same", []),
    ],
)
async def test_subscribed_resources_whose_text_has_changed_are_announced(
    server: LibraryServer, index: Index, revision: str, variant: str, updated: list[str]
) -> None:
    async with waiting(server, revision, *SUBSCRIBED) as wire:
        index.become(variant)
        await server.changes.check()
        heard = [name.partition(" ")[2] for name in await told(server, wire) if name.startswith(UPDATED)]
        assert set(updated) <= set(heard)
        assert set(heard) <= {*updated, "orchestr8://skills", SUBSCRIBED[3]}
        if variant in ("same", "prompt title"):
            assert heard == []


@every_revision
async def test_subscribed_binary_file_that_has_changed_is_announced(
    server: LibraryServer, index: Index, revision: str
) -> None:
    async with waiting(server, revision, "orchestr8://skills/pdf/logo.png") as wire:
        index.become("other image")
        await server.changes.check()
        assert f"{UPDATED} orchestr8://skills/pdf/logo.png" in await told(server, wire)


@every_revision
async def test_a_change_is_noticed_at_the_next_request(server: LibraryServer, index: Index, revision: str) -> None:
    async with waiting(server, revision, "orchestr8://skills/retry") as wire:
        index.become("text")
        await wire.result("resources/list")
        heard = await wire.hear(2)
        assert sorted(map(name_of, heard)) == [RESOURCES, f"{UPDATED} orchestr8://skills/retry"]
        await wire.result("resources/list")
        assert len(wire.heard) == 2


@every_revision
async def test_each_change_is_announced_once_however_often_it_is_looked_for(
    server: LibraryServer, index: Index, revision: str
) -> None:
    async with waiting(server, revision) as wire:
        for variant in ("text", "prompt title", "base"):
            index.become(variant)
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(server.changes.check)
        assert sorted(await told(server, wire)) in (
            [PROMPTS] * 2 + [RESOURCES] * 2,
            [PROMPTS, RESOURCES],  # events of a kind that follow each other closely may be one
        )


@every_revision
async def test_unusable_index_is_no_change_and_the_next_good_one_is_compared_with_the_last(
    server: LibraryServer, index: Index, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with waiting(server, revision, "orchestr8://guides/roses") as wire:
        index.path.write_bytes(b"no database at all")
        await server.changes.check()
        assert "is not a usable index" in caplog.text
        index.become("base")
        await server.changes.check()
        index.become("prompt title")
        await server.changes.check()
        assert await told(server, wire) == [PROMPTS]


@every_revision
async def test_first_index_that_comes_after_the_client_is_announced(
    server: LibraryServer, index: Index, revision: str
) -> None:
    index.path.unlink()
    async with waiting(server, revision) as wire:
        index.become("base")
        await server.changes.check()
        assert await told(server, wire) == [PROMPTS, RESOURCES]


async def test_index_without_a_table_is_no_change(server: LibraryServer, index: Index, tmp_path: Path) -> None:
    damaged = Path(shutil.copy(index.path, tmp_path / "damaged.db"))
    connection = sqlite3.connect(damaged, isolation_level=None)
    connection.execute("DROP TABLE prompt_argument")
    connection.close()
    async with waiting(server, HANDSHAKES[3]) as wire:
        damaged.replace(index.path)
        await server.changes.check()
        assert await told(server, wire) == []
