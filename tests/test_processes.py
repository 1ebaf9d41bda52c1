"""Work shared out among processes."""

import gc
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from orchestr8_sqlite import processes
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.processes import AHEAD, NEW_OBJECTS, Restarts, map_in_processes

TASKS = 40


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
    with pytest.raises(BuildError, match="was killed"):
        list(map_in_processes(end_itself, range(TASKS)))


def test_process_that_was_ended_amid_its_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOOK_SECONDS", 0.1)
    with pytest.raises(BuildError, match="was killed"):
        list(map_in_processes(end_itself_amid_its_answer, range(TASKS)))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_other_processes_end_when_this_one_is_killed(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    starter = os.fork()
    if starter == 0:
        list(map_in_processes(wait_for_ever, [begun] * 2))
    numbers: list[str] = []
    deadline = time.monotonic() + 20
    while len(numbers) < 2 and time.monotonic() < deadline:
        numbers = begun.read_text(encoding="utf-8").split() if begun.exists() else []
        time.sleep(0.01)
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    assert len(numbers) == 2
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


def test_process_that_ends_at_once_each_time_is_started_again_in_growing_pauses() -> None:
    now = [0.0]
    restarts, begun = Restarts(lambda: now[0]), list[float]()
    while now[0] < 200:
        now[0] += restarts.pause()
        begun.append(now[0])
        now[0] += 0.5
    assert begun == [1, 3.5, 8, 16.5, 33, 65.5, 126, 186.5, 247]  # pauses of 1, 2, 4 … 32, then a minute each


@pytest.mark.parametrize(("seconds", "pause"), [(59, 4), (61, 1)])
def test_process_that_ran_for_a_minute_has_not_failed_in_a_row(seconds: float, pause: float) -> None:
    now = [0.0]
    restarts = Restarts(lambda: now[0])
    for _ in range(2):
        now[0] += restarts.pause()
    now[0] += seconds
    assert restarts.pause() == pause
