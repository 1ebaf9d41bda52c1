"""Work shared out among processes."""

import gc
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from orchestr8_sqlite import processes
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.processes import AHEAD, NEW_OBJECTS, Companion, map_in_processes, nothing

TASKS = 40


class Lines:
    """Gathers lines, and writes them to a file, its process in front, when it knows all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = [str(os.getpid())]

    def tell(self, message: str) -> None:
        """Keep a line; some words are orders."""
        if message == "full":
            raise sqlite3.OperationalError("database or disk is full")
        if message == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        self._lines.append(message)

    def finish(self, meanwhile: Callable[[], None] = nothing) -> None:
        """Write the lines."""
        meanwhile()
        self._path.write_text("\n".join(self._lines), encoding="utf-8")

    def stop(self) -> None:
        """Keep nothing open."""


def tell_and_finish(companion: Companion[str], lines: int) -> None:
    for _ in range(lines):
        companion.tell("x" * 1000)
    companion.finish()


def square(number: int) -> int:
    return number * number


def process_of(_: int) -> int:
    return os.getpid()


def collection_of(_: int) -> tuple[bool, int]:
    return gc.get_freeze_count() > 0, gc.get_threshold()[0]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def end_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def end_itself_amid_its_answer(number: int) -> bytes:
    """Send half of the result and be killed: whoever reads on the other end waits for the rest."""

    def send_half(connection: Connection, content: bytes) -> None:
        os.write(connection.fileno(), content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    if number == 3:
        setattr(Connection, "_send", send_half)  # noqa: B010 - in this process alone
    return b"x" * 100_000


def wait_for_ever(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} ")
    time.sleep(600)


def interrupt_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_results_come_in_the_order_of_the_tasks() -> None:
    assert list(map_in_processes(square, range(TASKS))) == [number * number for number in range(TASKS)]


def test_other_processes_do_not_search_what_they_inherited_for_garbage() -> None:
    assert set(map_in_processes(collection_of, range(TASKS))) == {(True, NEW_OBJECTS)}
    assert gc.get_threshold()[0] < NEW_OBJECTS


def test_other_processes_do_not_heed_an_interrupt_that_this_one_hears_too() -> None:
    assert set(map_in_processes(interrupt_itself, range(TASKS))) == set(range(TASKS))


def test_other_processes_do_the_work() -> None:
    assert os.getpid() not in set(map_in_processes(process_of, range(TASKS)))


def test_one_processor_does_the_work_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    done: list[int] = []
    assert set(map_in_processes(process_of, range(TASKS), lambda: done.append(os.getpid()))) == {os.getpid()}
    assert done == [os.getpid()]


def test_this_process_does_something_else_while_the_others_work(tmp_path: Path) -> None:
    """The first task waits for a file that this process makes meanwhile."""
    awaited = tmp_path / "made"
    os.mkfifo(awaited)

    def make() -> None:
        awaited.write_text("made here", encoding="utf-8")

    assert list(map_in_processes(read, [awaited], make)) == ["made here"]


def test_what_goes_wrong_meanwhile_is_raised() -> None:
    def fail() -> None:
        raise BuildError("a check failed")

    with pytest.raises(BuildError, match="a check failed"):
        list(map_in_processes(square, range(TASKS), fail))


def test_tasks_are_asked_for_no_sooner_than_there_is_room_for_their_results() -> None:
    asked: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(TASKS):
            asked.append(number)
            yield number

    results = map_in_processes(square, tasks())
    next(results)
    assert len(asked) <= 2 * AHEAD
    assert sum(1 for _ in results) == TASKS - 1


def test_ended_process_is_said_in_one_sentence() -> None:
    with pytest.raises(BuildError, match="ended from outside"):
        list(map_in_processes(end_itself, range(TASKS)))


def test_process_that_was_ended_amid_its_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOOK_SECONDS", 0.1)
    with pytest.raises(BuildError, match="ended from outside"):
        list(map_in_processes(end_itself_amid_its_answer, range(TASKS)))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_other_processes_end_when_this_one_is_killed(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    starter = os.fork()
    if starter == 0:
        companion: Companion[str] = Companion(partial(Lines, tmp_path / "lines"))
        begun.write_text(f"{companion._process.pid} ", encoding="utf-8")
        list(map_in_processes(wait_for_ever, [begun] * 2))
    numbers: list[str] = []
    deadline = time.monotonic() + 20
    while len(numbers) < 3 and time.monotonic() < deadline:
        numbers = begun.read_text(encoding="utf-8").split() if begun.exists() else []
        time.sleep(0.01)
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    assert len(numbers) == 3
    while any(_is_running(number) for number in numbers) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = [number for number in numbers if _is_running(number)]
    for number in left:
        os.kill(int(number), signal.SIGKILL)
    assert left == []


def _is_running(number: str) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_processes_start_anew_where_a_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes._context().get_start_method() in ("fork", "spawn")
    monkeypatch.setattr("threading.active_count", lambda: 2)
    assert processes._context().get_start_method() == "spawn"


def test_companion_does_what_it_is_told_in_a_process_of_its_own(tmp_path: Path) -> None:
    done: list[int] = []
    companion: Companion[str] = Companion(partial(Lines, tmp_path / "lines"))
    companion.tell("first")
    companion.tell("second")
    companion.finish(lambda: done.append(os.getpid()))
    companion.stop()
    process, *lines = (tmp_path / "lines").read_text(encoding="utf-8").splitlines()
    assert lines == ["first", "second"]
    assert done == [os.getpid()]
    assert int(process) != os.getpid()


@pytest.mark.parametrize("more", [0, 2000])
def test_what_goes_wrong_in_a_companion_is_raised_here(tmp_path: Path, more: int) -> None:
    """The companion keeps reading, so whoever tells it more than fits on the way does not wait for ever."""
    companion: Companion[str] = Companion(partial(Lines, tmp_path / "lines"))
    companion.tell("full")
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        tell_and_finish(companion, more)
    companion.stop()


@pytest.mark.parametrize("more", [0, 2000])
def test_companion_that_was_ended_is_said_in_one_sentence(tmp_path: Path, more: int) -> None:
    companion: Companion[str] = Companion(partial(Lines, tmp_path / "lines"))
    companion.tell("die")
    with pytest.raises(BuildError, match="ended from outside"):
        tell_and_finish(companion, more)
    companion.stop()


def test_stopped_companion_is_gone_and_has_written_nothing(tmp_path: Path) -> None:
    companion: Companion[str] = Companion(partial(Lines, tmp_path / "lines"))
    companion.tell("first")
    companion.stop()
    assert not companion._process.is_alive()
    assert not (tmp_path / "lines").exists()


def test_companion_does_not_heed_an_interrupt_that_its_starter_hears_too(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    companion: Companion[str] = Companion(partial(_begin_heard, begun, tmp_path / "lines"))
    process = int(begun.read_text(encoding="utf-8"))
    os.kill(process, signal.SIGINT)
    companion.tell("after the interrupt")
    companion.finish()
    companion.stop()
    assert (tmp_path / "lines").read_text(encoding="utf-8").endswith("after the interrupt")


def _begin_heard(begun: Path, path: Path) -> Lines:
    begun.write_text(str(os.getpid()), encoding="utf-8")
    return Lines(path)
