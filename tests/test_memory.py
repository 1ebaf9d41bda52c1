"""What is kept in memory, for how long and how much of it."""

import pytest
from cachetools import TTLCache
from hypothesis import given
from hypothesis import strategies as st

from orchestr8_sqlite.service import memory as memory_module
from orchestr8_sqlite.service.memory import Memory


class Clock:
    def __init__(self) -> None:
        self.now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that stands still until a test sets it."""
    clock = Clock()

    def cache(entries: int, seconds: float) -> TTLCache[object, object]:
        return TTLCache(entries, seconds, timer=lambda: clock.now)

    monkeypatch.setattr(memory_module, "TTLCache", cache)
    return clock


def test_a_value_is_kept_for_its_time_however_often_it_is_used(clock: Clock) -> None:
    memory: Memory[str] = Memory(10, 60)
    memory.remember("key", "value")
    for clock.now, kept in ((30, "value"), (59, "value"), (61, None)):
        assert memory.recall("key") == kept


def test_a_renewed_value_is_kept_on_while_it_is_used(clock: Clock) -> None:
    memory: Memory[str] = Memory(10, 60, renew=True)
    memory.remember("key", "value")
    for clock.now, kept in ((59, "value"), (118, "value"), (177, "value"), (238, None)):
        assert memory.recall("key") == kept


def test_nothing_is_known_of_a_key_that_was_never_kept_or_was_forgotten() -> None:
    memory: Memory[str] = Memory(10, 60)
    assert memory.recall("key") is None
    memory.remember("key", "value")
    memory.forget()
    assert memory.recall("key") is None


def test_a_memory_without_entries_keeps_nothing() -> None:
    memory: Memory[str] = Memory(0, 60, renew=True)
    assert memory.remember("key", "value") == "value"
    assert memory.recall("key") is None


@given(keys=st.lists(st.integers(0, 9), max_size=40), entries=st.integers(1, 5))
def test_the_least_recently_used_are_dropped_first(keys: list[int], entries: int) -> None:
    memory: Memory[int] = Memory(entries, 60)
    recent: list[int] = []
    for key in keys:
        assert memory.recall(key) == (key if key in recent else None)
        memory.remember(key, key)
        recent = [*(known for known in recent if known != key), key][-entries:]
