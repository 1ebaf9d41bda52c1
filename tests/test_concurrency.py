"""Many readers of one index file while it is replaced: no error, no answer of two versions, nothing left open."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import colours
import pytest
from colours import AMBER, COBALT, URIS, ask_everything, colours_in, library_of, open_service, put
from support import build, write_files

from orchestr8_sqlite.builder import target as target_module
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Mode
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.service import service as service_module
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.service.snapshots import MOST_IDLE, MOST_PAGES, MOST_SHARED_PAGES

PATIENCE = 60
RETRY = MatchRequest("retrying a call", min_score=0)


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the index of each colour."""
    folder = tmp_path_factory.mktemp("colours")
    return {
        colour: build(write_files(folder / "library" / colour, library_of(colour)), folder / f"{colour}.db")
        for colour in (AMBER, COBALT)
    }


@pytest.fixture
def index_path(variants: dict[str, Path], tmp_path: Path) -> Path:
    """Return an index, amber at first, that the test may replace."""
    path = tmp_path / "index.db"
    put(variants[AMBER], path)
    return path


@pytest.fixture
def service(index_path: Path) -> Iterator[Service]:
    opened = open_service(index_path)
    yield opened
    opened.close()


class Readers:
    """Threads that ask one service again and again; use as a context, within which they do.

    `seen` holds the colours of each answer, `problems` what went wrong.
    """

    def __init__(self, service: Service, count: int) -> None:
        self.seen: list[frozenset[str]] = []
        self.problems: list[Exception] = []
        self._service = service
        self._answered = threading.Semaphore(0)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(count)]

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                for text in ask_everything(self._service):
                    self.seen.append(frozenset(colours_in(text)))
                    self._answered.release()
            except Exception as problem:  # noqa: BLE001 - whatever it is, there must be none
                self.problems.append(problem)
                self._answered.release()

    def wait_for_an_answer(self) -> None:
        assert self._answered.acquire(timeout=PATIENCE)

    def __enter__(self) -> "Readers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def replace_often(variants: dict[str, Path], index: Path, times: int, wait: Callable[[], None]) -> None:
    """Replace *index* by one of the other colour, *times* times; *wait* before each."""
    for number in range(times):
        wait()
        put(variants[(COBALT, AMBER)[number % 2]], index)


def test_threads_that_read_while_the_index_is_replaced_get_whole_answers_of_one_version(
    variants: dict[str, Path], index_path: Path
) -> None:
    service = open_service(index_path, kept=3)
    with Readers(service, 4) as readers:
        replace_often(variants, index_path, 100, readers.wait_for_an_answer)
    service.close()
    assert readers.problems == []
    assert set(readers.seen) == {frozenset({AMBER}), frozenset({COBALT})}


@pytest.mark.slow
def test_threads_and_processes_that_read_during_1000_replacements_get_whole_answers_of_one_version(
    variants: dict[str, Path], index_path: Path
) -> None:
    command = [sys.executable, colours.__file__, str(index_path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asking\n"
    service = open_service(index_path, kept=3)
    with Readers(service, 4) as readers:
        replace_often(variants, index_path, 1000, readers.wait_for_an_answer)
    service.close()
    for process in processes:
        seen = json.loads(process.communicate(timeout=PATIENCE)[0])
        assert process.returncode == 0
        assert set(seen) == {AMBER, COBALT}
    assert readers.problems == []
    assert set(readers.seen) == {frozenset({AMBER}), frozenset({COBALT})}


Request = Callable[[Service], str]
REQUESTS: dict[str, Request] = {
    "load": lambda service: service.load(URIS).text,
    "load with neighbours": lambda service: str(service.load(URIS, related=True)),
    "load of a text and a search": lambda service: service.load([URIS[0], "orchestr8://match?query=retrying"]).text,
    "search": lambda service: str(service.search(RETRY)),
    "search for texts": lambda service: service.search(MatchRequest("retrying", Mode.FULL, min_score=0)).text,
    "list": lambda service: service.read("orchestr8://skills").text,
    "search of skills": lambda service: service.search_skills(MatchRequest("retrying", agent_skills=True)).text,
    "skill": lambda service: service.load_skill("pdf").text,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request_in_whose_midst_the_index_is_replaced_is_answered_wholly_from_the_version_it_began_with(
    variants: dict[str, Path], index_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows = Catalog.rows

    def replace_behind(catalog: Catalog, sql: str, parameters: Mapping[str, object] | None = None) -> list[object]:
        found = rows(catalog, sql, parameters)
        put(variants[COBALT], index_path)
        return found

    monkeypatch.setattr(Catalog, "rows", replace_behind)
    assert colours_in(REQUESTS[name](service)) == {AMBER}
    monkeypatch.setattr(Catalog, "rows", rows)
    assert colours_in(REQUESTS[name](service)) == {COBALT}


def test_answer_that_was_under_way_when_the_index_was_replaced_is_not_given_again(
    variants: dict[str, Path], index_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, replaced = threading.Event(), threading.Event()
    slowly: list[str] = []

    def find_slowly(
        catalog: Catalog, request: MatchRequest, *, lists: bool = True, scenarios: bool = True
    ) -> LookupResult:
        began.set()
        assert replaced.wait(PATIENCE)
        return find(catalog, request, lists=lists, scenarios=scenarios)

    monkeypatch.setattr(service_module, "find", find_slowly)
    slow = threading.Thread(target=lambda: slowly.append(service.search(RETRY).text))
    slow.start()
    assert began.wait(PATIENCE)
    monkeypatch.setattr(service_module, "find", find)
    put(variants[COBALT], index_path)
    assert colours_in(service.search(RETRY).text) == {COBALT}
    replaced.set()
    slow.join()
    assert colours_in(slowly[0]) == {AMBER}
    assert colours_in(service.search(RETRY).text) == {COBALT}


def test_index_that_is_put_back_is_noticed_too(variants: dict[str, Path], index_path: Path, service: Service) -> None:
    kept = index_path.with_suffix(".kept")
    kept.hardlink_to(index_path)
    for _ in range(3):
        assert colours_in(service.search(RETRY).text) == {AMBER}
        put(variants[COBALT], index_path)
        assert colours_in(service.search(RETRY).text) == {COBALT}
        index_path.unlink()
        index_path.hardlink_to(kept)


def test_index_replaced_while_it_is_opened_is_known_as_the_file_that_was_opened(
    variants: dict[str, Path], index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacements = [variants[COBALT]]
    really = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        status = really(path, **options)
        if path == index_path and replacements:
            put(replacements.pop(), index_path)
        return status

    monkeypatch.setattr(Path, "stat", stat)
    with Catalog.open(index_path) as catalog:
        assert catalog.is_current()
        assert colours_in(str(catalog.frequent_tags)) == {COBALT}


def open_files(folder: Path) -> list[int]:
    """Return the inodes of the files on the device of *folder* that this process has open."""
    inodes = []
    for descriptor in os.listdir("/dev/fd"):  # noqa: PTH208 - the one that lists them is among them, and gone by then
        try:
            status = os.fstat(int(descriptor))
        except OSError:
            continue
        if status.st_dev == folder.stat().st_dev:
            inodes.append(status.st_ino)
    return sorted(inodes)


needs_dev_fd = pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="open files cannot be listed here")


@needs_dev_fd
def test_nothing_of_replaced_indexes_stays_open(variants: dict[str, Path], index_path: Path) -> None:
    before = open_files(index_path.parent)
    service = open_service(index_path)
    with Readers(service, 4) as readers:
        replace_often(variants, index_path, 100, readers.wait_for_an_answer)
    service.read("orchestr8://registry")
    ours = open_files(index_path.parent)
    for inode in before:
        ours.remove(inode)
    assert readers.problems == []
    assert set(ours) == {index_path.stat().st_ino}
    assert len(ours) <= MOST_IDLE
    service.close()
    assert open_files(index_path.parent) == before


@needs_dev_fd
def test_first_request_behind_a_replacement_closes_what_idle_threads_had_open(
    variants: dict[str, Path], index_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files(index_path.parent)
    at_once = threading.Barrier(8)

    def find_at_once(
        catalog: Catalog, request: MatchRequest, *, lists: bool = True, scenarios: bool = True
    ) -> LookupResult:
        at_once.wait(PATIENCE)
        return find(catalog, request, lists=lists, scenarios=scenarios)

    monkeypatch.setattr(service_module, "find", find_at_once)
    requests = [MatchRequest(f"retrying a call {number}") for number in range(8)]
    threads = [threading.Thread(target=service.search, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(open_files(index_path.parent)) == len(before) + MOST_IDLE
    put(variants[COBALT], index_path)
    service.read("orchestr8://registry")
    assert sorted([*before, index_path.stat().st_ino]) == open_files(index_path.parent)


@pytest.fixture
def taken(service: Service) -> Iterator[list[Catalog]]:
    """Return as many connections as are kept for later requests, in use at the same time."""
    catalogs = [service.snapshots.take() for _ in range(MOST_IDLE)]
    yield catalogs
    for catalog in catalogs:
        service.snapshots.give_back(catalog)


def test_connections_to_one_version_keep_in_one_place_what_they_read_of_it(
    variants: dict[str, Path], index_path: Path, service: Service, taken: list[Catalog]
) -> None:
    expected = find(taken[0], RETRY, quick=False)
    for catalog in taken[1:]:
        read: list[str] = []
        catalog.db.set_trace_callback(read.append)
        assert find(catalog, RETRY, quick=False) == expected
        assert [sql for sql in read if "evidence" in sql] == []
    put(variants[COBALT], index_path)
    replaced = service.snapshots.take()
    assert find(replaced, RETRY, quick=False) != expected
    service.snapshots.give_back(replaced)


def pages_of(catalog: Catalog) -> int:
    return -int(catalog.db.execute("PRAGMA cache_size").fetchone()[0])


def test_connections_keep_together_no_more_pages_than_one_alone(service: Service) -> None:
    alone = service.snapshots.take()
    assert pages_of(alone) == MOST_PAGES
    others = [service.snapshots.take() for _ in range(MOST_IDLE)]
    for catalog in (alone, *others):
        service.snapshots.give_back(catalog)
    again = [service.snapshots.take() for _ in range(MOST_IDLE)]
    assert sum(map(pages_of, again)) <= MOST_SHARED_PAGES < MOST_PAGES
    assert min(map(pages_of, again)) == MOST_SHARED_PAGES // MOST_IDLE
    for catalog in again:
        service.snapshots.give_back(catalog)


HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(sys.argv[2])
print(db.execute("SELECT count(*) FROM fragment").fetchone()[0], flush=True)
sys.stdin.read()
print(db.execute("SELECT count(*) FROM fragment").fetchone()[0], flush=True)
"""


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN EXCLUSIVE"])
def test_process_in_a_transaction_hinders_neither_readers_nor_a_build(
    index_path: Path, service: Service, tmp_path: Path, begin: str
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(index_path), begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"5\n"
    assert colours_in(service.read("orchestr8://skills").text) == {AMBER}
    build(write_files(tmp_path / "library", {**library_of(COBALT), "guides/more.md": "# More\n"}), index_path)
    assert colours_in(service.read("orchestr8://skills").text) == {COBALT}
    assert holder.communicate(timeout=PATIENCE)[0] == b"5\n"


def test_readers_are_answered_while_a_build_is_under_way(
    index_path: Path, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, allowed = threading.Event(), threading.Event()
    put_in_place = target_module.put_in_place

    def put_in_place_later(temporary: Path, target: Path) -> None:
        finished.set()
        assert allowed.wait(PATIENCE)
        put_in_place(temporary, target)

    monkeypatch.setattr(target_module, "put_in_place", put_in_place_later)
    root = write_files(tmp_path / "library", library_of(COBALT))
    building = threading.Thread(target=build, args=(root, index_path))
    building.start()
    assert finished.wait(PATIENCE)
    assert {colour for text in ask_everything(service) for colour in colours_in(text)} == {AMBER}
    allowed.set()
    building.join(PATIENCE)
    assert {colour for text in ask_everything(service) for colour in colours_in(text)} == {COBALT}
