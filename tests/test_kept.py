"""What is kept of an index between requests: the same as reading it anew, and no more than so much of it."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import filters, libraries, open_in_memory, queries
from support import MakeLibrary, build, make_fragment

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.connections import Reader, heed, kept_of
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest, Ranker
from orchestr8_sqlite.tiers import kept as module
from orchestr8_sqlite.tiers import sets
from orchestr8_sqlite.tiers.fuzzy import match_fuzzy
from orchestr8_sqlite.tiers.kept import kept_by
from orchestr8_sqlite.tiers.recent import ENTRY, Recent

FRAGMENTS = [
    make_fragment(f"f{number}", f"{first} {second}", title=f"{second} {number % 3}", tags=(first,))
    for number, (first, second) in enumerate(
        random.Random(7).sample(["retry", "api", "cache", "login", "golang", "node.js", "timeout"], 2)
        for _ in range(12)
    )
]


MOST = [(module, name) for name in vars(module) if name.startswith("MOST_")]
MOST += [(sets, name) for name in ("MOST_HELD", "MOST_KIN", "MOST_UNIONS")]
"""The bounds, in bytes."""


@contextmanager
def keeping(catalog: Catalog, most: int) -> Iterator[Catalog]:
    """Yield *catalog* on a connection that keeps no more than *most* bytes of each kind."""
    with pytest.MonkeyPatch.context() as patch, closing(sqlite3.connect(":memory:", factory=Reader)) as db:
        for of, bound in MOST:
            patch.setattr(of, bound, most)
        catalog.db.backup(db)
        yield Catalog(db, catalog.path, catalog.identity)


def recent_of(catalog: Catalog) -> dict[str, Recent[Any, Any]]:
    """Return all that is kept within bounds."""
    sets_of = kept_of(catalog.db, "sets").values()
    places = [kept_by(catalog.db), *sets_of]
    return {name: one for place in places for name, one in vars(place).items() if isinstance(one, Recent)}


def held(recent: Recent[Any, Any]) -> list[Any]:
    return [*recent._newer.values(), *recent._older.values()]


@settings(deadline=None)
@given(
    library=libraries(most=12),
    asked=st.lists(st.tuples(queries(), filters()), min_size=2, max_size=6),
    most=st.sampled_from([0, 600, 2_000, 1 << 20]),
)
def test_later_requests_are_answered_as_if_each_were_the_first(
    library: list[Fragment], asked: list[tuple[str, dict[str, object]]], most: int
) -> None:
    with open_in_memory(library) as cold, keeping(cold, most) as warm:
        for ranker in Ranker:
            for query, options in (*asked, *asked):
                request = MatchRequest(query, ranker=ranker, **{"min_score": 0.0, **options})  # type: ignore[arg-type]
                for explained in (False, True):
                    given_ = request._replace(explain=explained)
                    assert find(warm, given_, quick=False) == find(cold, given_, quick=False)


def test_all_that_requests_keep_is_used_and_stays_within_its_bound(make_library: MakeLibrary, tmp_path: Path) -> None:
    most = 4_000
    words = ["retry", "golang", "cache", "login", "node.js", "postgres", "timeout"]
    files = {
        f"skills/{one}-{two}.md": f"---\nuseWhen: [Adding {one} to {two}]\n---\n# {one}\n\nThe {two}.\n"
        for one in words
        for two in words
    }
    files["skills/events.md"] = "# Events\n\nThose of kafka.\n"
    with Catalog.open(build(make_library(files), tmp_path / "index.db")) as cold, keeping(cold, most) as warm:
        for ranker in Ranker:
            for query in ("retries golang", "api cachee", "time out js go login", "kafka", "k8s postgres") * 2:
                find(warm, MatchRequest(query, ranker=ranker, min_score=0), quick=False)
        for name, one in recent_of(warm).items():
            assert held(one), name
            assert sum(ENTRY + one._measure(value) for value in held(one)) <= most, name


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True), max_size=30), st.integers(0, 12 * ENTRY)
)
def test_values_asked_for_lately_are_kept_within_a_bound(asked: list[list[int]], most: int) -> None:
    recent: Recent[int, str] = Recent(most, len)
    read: list[int] = []

    def texts(numbers: list[int]) -> dict[int, str]:
        read.extend(numbers)
        return {number: "x" * number for number in numbers}

    for numbers in asked:
        assert recent.of(numbers, texts) == {number: "x" * number for number in numbers}
        assert sum(ENTRY + len(text) for text in held(recent)) <= most
    again = asked[-1][-1:] if asked else []
    if most // 2 >= 2 * ENTRY:
        read.clear()
        recent.of(again, texts)
        assert not read  # the last one asked for is there


def test_what_is_too_large_is_read_each_time_and_drops_nothing_else() -> None:
    recent: Recent[str, str] = Recent(3 * ENTRY, len)
    recent.of(["small"], lambda _: {"small": "x"})
    for _ in range(2):
        assert recent.of(["large"], lambda _: {"large": "x" * ENTRY}) == {"large": "x" * ENTRY}
    assert held(recent) == ["x"]


def test_threads_that_ask_at_the_same_time_keep_no_more_than_one_does() -> None:
    most, numbers = 40 * ENTRY, range(30)
    recent: Recent[int, str] = Recent(most, len)
    begin = threading.Barrier(4)
    wrong: list[dict[int, str]] = []

    def read(missing: list[int]) -> dict[int, str]:
        time.sleep(0)  # lets the others read the same
        return {number: "x" * number for number in missing}

    def ask(seed: int) -> None:
        choice = random.Random(seed)
        begin.wait()
        for _ in range(2_000):
            asked = choice.sample(numbers, 3)
            found = recent.of(asked, read)
            if found != {number: "x" * number for number in asked}:
                wrong.append(found)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(ENTRY + len(text) for text in held(recent)) <= most


def test_what_two_threads_read_at_the_same_time_is_kept_once() -> None:
    recent: Recent[int, str] = Recent(40 * ENTRY, len)
    both = threading.Barrier(2)

    def read(missing: list[int]) -> dict[int, str]:
        both.wait()
        return dict.fromkeys(missing, "x")

    threads = [threading.Thread(target=recent.of, args=([1], read)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recent._half - recent._room == ENTRY + 1


def test_a_reading_that_is_interrupted_leaves_nothing_behind() -> None:
    queries_ = ["retry golang cache", "node.js timeout login api"]
    with open_in_memory(FRAGMENTS) as cold, keeping(cold, 1 << 20) as warm:
        for ranker in Ranker:
            for query in queries_:
                request = MatchRequest(query, ranker=ranker, min_score=0)
                for steps in range(1, 200, 7):
                    warm.db.set_progress_handler(_interrupting_after(steps), 5)
                    with suppress(CatalogError):
                        find(warm, request, quick=False)
                    warm.db.set_progress_handler(None, 0)
                assert find(warm, request, quick=False) == find(cold, request, quick=False)


@pytest.mark.parametrize("query", ["retry golang cache", "retrying api"])
@pytest.mark.parametrize("ranker", list(Ranker))
def test_work_that_nobody_waits_for_ends_between_statements_too(query: str, ranker: Ranker) -> None:
    request = MatchRequest(query, ranker=ranker, min_score=0)
    with open_in_memory(FRAGMENTS) as cold, keeping(cold, 1 << 20) as warm:
        heed(warm.db, lambda: True)
        with pytest.raises(CatalogError, match="interrupted"):
            find(warm, request, quick=False)
        for asked in range(20):
            heed(warm.db, _interrupting_after(asked))
            with suppress(CatalogError):
                find(warm, request, quick=False)
        heed(warm.db, None)
        assert find(warm, request, quick=False) == find(cold, request, quick=False)


@pytest.mark.parametrize("words", [0, 1])
def test_fuzzy_matching_that_nobody_waits_for_ends_behind_any_word(words: int) -> None:
    with open_in_memory(FRAGMENTS) as cold, keeping(cold, 1 << 20) as warm:
        heed(warm.db, _interrupting_after(words))
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            match_fuzzy(warm.db, MatchRequest("etr ach"), ["etr", "ach"])


def _interrupting_after(steps: int) -> Callable[[], bool]:
    left = iter(range(steps))
    return lambda: next(left, None) is None


def test_what_is_kept_is_kept_by_the_connection_to_a_file_and_not_where_rows_may_change(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    with Catalog.open(build(make_library({"agents/a.md": "# A"}), tmp_path / "index.db")) as opened:
        assert kept_by(opened.db) is kept_by(opened.db)
    with closing(sqlite3.connect(":memory:")) as changing:
        assert kept_by(changing) is not kept_by(changing)
