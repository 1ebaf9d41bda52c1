"""Lists of postings that are gathered in bounded memory."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestr8_sqlite import runs
from orchestr8_sqlite.runs import Runs

WORDS = ["", "0", "10", "9", "a", "Z", "é", "試行", "\U0001f600"]
"""Keys that a database could take for numbers, or sort in another way than Python."""

Posting = tuple[str, int, int]
"""Key, number of its list, posting."""


def postings() -> st.SearchStrategy[list[list[Posting]]]:
    """Return what is appended, in parts after each of which memory is looked at."""
    one = st.tuples(st.sampled_from(WORDS), st.integers(0, 2), st.integers(0, 2**32 - 1))
    return st.lists(st.lists(one, max_size=6), max_size=12)


@pytest.fixture
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_KEYS", 3)
    monkeypatch.setattr(runs, "MOST_POSTINGS", 9)


def gather(parts: Sequence[Sequence[Posting]], gathered: "Runs[str]") -> None:
    for part in parts:
        for key, number, posting in part:
            gathered.lists[number][key].append(posting)
        gathered.count(len(part))


def drained(gathered: "Runs[str]") -> list[tuple[str, list[int], list[int], list[int]]]:
    return [(key, list(first), list(second), list(third)) for key, first, second, third in gathered.drain()]


def expected(parts: Sequence[Sequence[Posting]]) -> list[tuple[str, list[int], list[int], list[int]]]:
    lists: defaultdict[str, tuple[list[int], list[int], list[int]]] = defaultdict(lambda: ([], [], []))
    for part in parts:
        for key, number, posting in part:
            lists[key][number].append(posting)
    return [(key, *lists[key]) for key in sorted(lists)]


@given(parts=postings())
def test_lists_come_back_by_key_as_they_were_filled(parts: list[list[Posting]]) -> None:
    gathered: Runs[str] = Runs()
    gather(parts, gathered)
    assert drained(gathered) == expected(parts)


@pytest.mark.usefixtures("_little_memory")
@given(first=postings(), second=postings())
def test_lists_that_were_put_aside_come_back_as_they_were_filled_once(
    first: list[list[Posting]], second: list[list[Posting]]
) -> None:
    gathered: Runs[str] = Runs()
    for parts in (first, second):
        gather(parts, gathered)
        assert drained(gathered) == expected(parts)
    assert drained(gathered) == []


@pytest.mark.usefixtures("_little_memory")
def test_no_more_is_in_memory_than_the_bounds_allow() -> None:
    gathered: Runs[int] = Runs()

    def held() -> Iterator[tuple[int, int]]:
        for number in range(60):
            gathered.lists[number % 3][number // 2].append(number)
            gathered.count(1)
            yield max(map(len, gathered.lists)), sum(sum(map(len, lists.values())) for lists in gathered.lists)

    keys, in_memory = zip(*held(), strict=True)
    assert max(keys) == 3
    assert max(in_memory) == 9
    assert [key for key, *_ in gathered.drain()] == list(range(30))
