"""What is stale, why, and since when, whatever clocks do."""

import asyncio
from datetime import UTC, datetime
from functools import partial

import pytest

from orchestr8_sqlite.server.supply import freshness as freshness_module
from orchestr8_sqlite.server.supply.freshness import INDEX, LIBRARY, Freshness, Stale

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def made(now: list[float]) -> Freshness:
    return Freshness(lambda: now[0])


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness_module, "wall_clock", lambda: NOON)


def test_what_is_stale_is_said_with_its_newest_reason_since_its_first() -> None:
    now = [100.0]
    freshness = made(now)
    assert freshness.said() == []
    freshness.lose(LIBRARY, "down")
    now[0] += 60
    freshness.lose(LIBRARY, "failed")
    assert freshness.said() == [
        {"what": "library", "why": "failed", "since": "2026-01-01T11:59:00+00:00", "seconds": 60}
    ]
    now[0] += 1
    assert freshness.restore(LIBRARY) == 61
    assert freshness.said() == []
    freshness.lose(LIBRARY, "down")
    assert freshness.said()[0]["seconds"] == 0


def test_wall_clock_that_jumps_changes_no_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    freshness = made(now)
    freshness.lose(INDEX, "gone")
    now[0] += 60
    for year in (1999, 2040):
        monkeypatch.setattr(freshness_module, "wall_clock", partial(NOON.replace, year=year))
        (said,) = freshness.said()
        assert (said["since"], said["seconds"]) == (f"{year}-01-01T11:59:00+00:00", 60)


def test_each_thing_is_stale_for_itself() -> None:
    now = [100.0]
    freshness = made(now)
    freshness.lose(LIBRARY, "down")
    freshness.lose(INDEX, "gone")
    assert [one["what"] for one in freshness.said()] == ["index", "library"]
    assert freshness.restore(INDEX) == 0
    assert [one["what"] for one in freshness.said()] == ["library"]
    assert freshness.restore(INDEX) is None


def test_who_waits_for_a_change_hears_of_it_and_of_nothing_else() -> None:
    async def play() -> None:
        freshness = made([100.0])
        freshness.put(LIBRARY, Stale("down", 90.0))
        waiting = asyncio.ensure_future(freshness.wait_for_change())
        await asyncio.sleep(0)
        freshness.lose(LIBRARY, "down")
        freshness.restore(INDEX)
        await asyncio.sleep(0)
        assert not waiting.done()
        freshness.restore(LIBRARY)
        await waiting

    asyncio.run(play())
