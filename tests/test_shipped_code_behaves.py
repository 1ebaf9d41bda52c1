"""Code in the shipped library does the right thing off its happy path: a failing dependency, no input, a forger.

The blocks assert their own happy path; `test_shipped_code_runs.py` runs those assertions.
"""

import asyncio
import base64
import contextvars
import hashlib
import hmac
import json
import logging
import logging.handlers
import os
import queue
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from content.blocks import read_blocks
from environments import cached_environment, node_programs
from support import brought

RESOURCES = Path(__file__).parents[1] / "resources"
CONTENT = Path(__file__).parent / "content"


@dataclass
class Hidden:
    """A field that its repr leaves out."""

    shown: int
    hidden: int = field(repr=False)


def run_block(document: str, demonstration: str = "\0", holds: str = "") -> dict[str, Any]:
    """Run the Python block of a document that holds a text, up to where its demonstration begins; return its names."""
    blocks = read_blocks(RESOURCES / document)
    (block,) = [block for block in blocks if block.language == "python" and holds in block.text]
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.text.partition(demonstration)[0], block.place, "exec", dont_inherit=True), names)
    return names


@pytest.fixture(scope="module")
def loop() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "block", ModuleType("block"))  # where dataclasses look for types
        return run_block("patterns/llm-agent-loop.md")


def talk(loop: dict[str, Any], act: Callable[[], object], times: int, **kind: bool) -> tuple[str, Sequence[str]]:
    """Let a model ask for the same call *times* times and then be done; return the end and the tool's answers."""
    call = loop["Call"]("1", "act", {})
    replies: Iterator[Any] = iter([*(loop["Reply"]("", [call], 1) for _ in range(times)), loop["Reply"]("done", [], 1)])
    why, log = loop["run"](
        lambda _: next(replies), {"act": loop["Tool"](act, **kind)}, "task", lambda _: True, lambda: None
    )
    return why, [message["content"] for message in log if message["role"] == "tool"]


def test_a_job_may_be_asked_for_its_state_until_it_is_done(loop: dict[str, Any]) -> None:
    states = iter(["queued", *["running"] * 5, "finished"])
    why, answers = talk(loop, lambda: next(states), 7, polls=True)
    assert (why, answers[-1]) == ("done", "finished")


def test_a_call_that_failed_twice_may_be_tried_again(loop: dict[str, Any]) -> None:
    attempts: Iterator[Exception | str] = iter([OSError("503"), OSError("503"), "sent"])

    def act() -> str:
        if isinstance(one := next(attempts), Exception):
            raise one
        return one

    assert talk(loop, act, 3) == ("done", ["error: OSError: 503", "error: OSError: 503", "sent"])


def test_a_tool_that_returns_nothing_has_worked(loop: dict[str, Any]) -> None:
    assert talk(loop, lambda: None, 1, writes=True) == ("done", ["ok"])


def test_an_empty_reply_is_not_sent_back(loop: dict[str, Any]) -> None:
    replies: Iterator[Any] = iter([loop["Reply"]([], [], 1), loop["Reply"]("done", [], 1)])
    problems: Iterator[str | None] = iter(["nothing written", None])
    why, log = loop["run"](lambda _: next(replies), {}, "task", lambda _: True, lambda: next(problems))
    assert why == "done"
    assert all(message["content"] for message in log)


def test_a_model_that_repeats_itself_is_stopped(loop: dict[str, Any]) -> None:
    why, answers = talk(loop, lambda: "same", 20)
    assert why == "stuck"
    assert answers[:2] == ["same", "same"]
    assert all(answer.startswith("error: this call was made twice") for answer in answers[2:])


def test_a_tool_that_always_fails_ends_the_run(loop: dict[str, Any]) -> None:
    def act() -> None:
        raise OSError("503")

    why, answers = talk(loop, act, 20)
    assert (why, len(answers)) == ("stuck", 4)


SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.fixture(scope="module")
def verify() -> Callable[..., bool]:
    found: Callable[..., bool] = run_block("examples/webhook-signature-verification.md")["verify"]
    return found


def signature(key: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, b"m1.1800000000.{}", hashlib.sha256)).decode()


@pytest.mark.parametrize("secret", [SECRET, f"v1,{SECRET}"])
def test_what_is_signed_with_the_secret_is_let_in(verify: Callable[..., bool], secret: str) -> None:
    assert verify([secret], "m1", "1800000000", signature(b"k" * 32), b"{}", 1800000000)


@pytest.mark.parametrize("missing", range(3))
def test_a_missing_header_is_refused(verify: Callable[..., bool], missing: int) -> None:
    headers: list[str | None] = ["m1", "1800000000", signature(b"k" * 32)]
    headers[missing] = None
    assert not verify([SECRET], *headers, b"{}", 1800000000)


@pytest.mark.parametrize("strange", ["m\udce9", "mü"])
def test_a_header_that_is_not_ascii_is_refused(verify: Callable[..., bool], strange: str) -> None:
    assert not verify([SECRET], strange, "1800000000", signature(b"k" * 32), b"{}", 1800000000)


@pytest.mark.parametrize("unset", ["", "whsec_"])
def test_a_secret_that_is_not_set_lets_nobody_in(verify: Callable[..., bool], unset: str) -> None:
    assert not verify([unset], "m1", "1800000000", signature(b""), b"{}", 1800000000)


def test_recall_counts_each_passage_and_leaves_out_questions_without_one() -> None:
    recall_at = run_block("skills/rag-retrieval-quality.md")["recall_at"]
    gold = {"several": {"a", "c", "d", "e"}, "one": {"x"}, "none": set[str]()}
    assert recall_at(2, {"several": ["a", "b", "c"], "one": ["x"]}, gold) == (0.25 + 1) / 2


def test_a_golden_master_shows_hidden_fields_and_takes_a_dataclass_itself_as_a_value() -> None:
    plain = run_block("skills/legacy-code-characterization.md", "def shipping")["plain"]
    assert plain(Hidden(1, 2)) == ["Hidden", {'"shown"': 1, '"hidden"': 2}]
    assert plain({"type": Hidden}) == {'"type"': repr(Hidden)}


Pool = Callable[..., Awaitable[list[tuple[int, BaseException]]]]


@pytest.fixture(scope="module")
def run_pool() -> Pool:
    found: Pool = run_block("agents/python-async-concurrency.md", "async def main()")["run_pool"]
    return found


async def count_to(end: int) -> AsyncIterator[int]:
    for number in range(end):
        yield number


def test_a_worker_pool_goes_on_after_a_handler_whose_own_task_was_cancelled(run_pool: Pool) -> None:
    async def handle(_: int) -> None:
        raise asyncio.CancelledError

    failed = asyncio.run(asyncio.wait_for(run_pool(count_to(9), handle, workers=2), 5))
    assert [item for item, _ in failed] == list(range(9))


def test_a_worker_pool_that_is_cancelled_ends_its_workers(run_pool: Pool) -> None:
    ended = []

    async def handle(number: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(number)

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(run_pool(count_to(9), handle, workers=2), 0.05))
    assert ended == [0, 1]


def test_a_worker_pool_gives_the_signals_back(run_pool: Pool) -> None:
    async def main() -> bool:
        await run_pool(count_to(3), lambda _: asyncio.sleep(0))
        return asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    assert asyncio.run(main()) is False


def test_a_worker_pool_that_has_read_all_still_ends_in_time_after_a_signal(run_pool: Pool) -> None:
    async def handle(_: int) -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(run_pool(count_to(1), handle, grace=0.1), 5))


def test_a_full_disk_is_reported_as_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block = run_block("agents/sqlite-specialist.md", "db, gate =")
    db = block["connect"]("full.db")
    db.execute("CREATE TABLE item (data)")
    db.execute("PRAGMA max_page_count = 20")
    with pytest.raises(sqlite3.OperationalError, match="full"), block["write"](db, threading.Lock()) as writer:
        writer.executemany("INSERT INTO item VALUES (zeroblob(4000))", [()] * 100)
    assert db.execute("SELECT count(*) FROM item").fetchone() == (0,)
    db.close()


def test_a_script_ends_the_transaction_that_it_runs_in(tmp_path: Path) -> None:
    block = run_block("agents/sqlite-specialist.md", "db, gate =")
    db = block["connect"](str(tmp_path / "script.db"))
    with (
        pytest.raises(sqlite3.OperationalError, match="no transaction"),
        block["write"](db, threading.Lock()) as writer,
    ):
        writer.executescript("CREATE TABLE item (n)")
    assert db.execute("SELECT count(*) FROM item").fetchone() == (0,)
    db.close()


def test_rows_left_unread_forbid_the_commit(tmp_path: Path) -> None:
    block = run_block("agents/sqlite-specialist.md", "db, gate =")
    db = block["connect"](str(tmp_path / "unread.db"))
    unread: list[sqlite3.Cursor] = []
    db.execute("CREATE TABLE item (n)")
    with pytest.raises(sqlite3.OperationalError, match="in progress"), block["write"](db, threading.Lock()) as writer:
        unread.append(writer.execute("INSERT INTO item VALUES (2), (3) RETURNING n"))
    assert db.execute("SELECT count(*) FROM item").fetchone() == (0,)
    db.close()


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": -5}, {"limit": 101}, {"sort": "price"}, {"cursor": "AAAA"}])
def test_a_page_that_nobody_may_ask_for_is_refused(wrong: dict[str, Any]) -> None:
    block = run_block("skills/api-pagination-filtering.md", "seen, cursor =")
    with pytest.raises(ValueError, match="INVALID"):
        block["page"](block["db"], "t", **wrong)


def test_a_cursor_of_another_tenant_is_refused() -> None:
    block = run_block("skills/api-pagination-filtering.md", "seen, cursor =")
    cursor = block["page"](block["db"], "t")["next"]
    with pytest.raises(ValueError, match="CURSOR_DOES_NOT_MATCH_QUERY"):
        block["page"](block["db"], "other", cursor=cursor)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "members"},
        {"op": "add", "path": "members", "value": None},
        {"op": "remove", "path": "members", "value": {}},
        {"op": "remove", "path": "members", "value": None},
        {"op": "remove", "path": "members", "value": "a"},
        {"op": "remove", "value": {"members": None}},
        {"op": "replace", "value": {"members": None}},
        {"op": "remove", "path": 'members[value eq "a" or value eq "b"]'},
        {"op": "remove"},
        {"op": "add", "path": None, "value": [{"value": "c"}]},
        {"op": "move", "path": "members", "value": [{"value": "a"}]},
    ],
)
def test_a_change_of_members_that_says_not_whom_it_means_is_refused(operation: Mapping[str, object]) -> None:
    patch_members = run_block("skills/scim-provisioning.md")["patch_members"]
    with pytest.raises(ValueError, match=r"list|unsupported"):
        patch_members({"a", "b"}, operation)


@pytest.mark.parametrize(
    ("tool", "argument", "receiver", "decision"),
    [
        ("send_mail", "to", "ada@example.com", "ask"),
        ("send_mail", "to", "eve@attacker.test, ada@example.com", "deny"),
        ("send_mail", "to", "eve@attacker.test\nada@example.com", "deny"),
        ("send_mail", "To", "eve@attacker.test", "deny"),
        ("fetch", "url", "https://example.com/orders/7", "ask"),
        ("fetch", "url", "https://example.com", "allow"),
        ("fetch", "url", "https://example.co", "deny"),
        ("fetch", "url", "https://attacker.test\\@example.com", "deny"),
        ("fetch", "url", "https://example.com@attacker.test", "deny"),
        ("fetch", "url", "https:///attacker.test/@example.com", "deny"),
        ("fetch", "url", "attacker.test/?q=secret@example.com", "deny"),
        ("fetch", "url", "", "deny"),
        ("read_mail", "", "", "allow"),
    ],
)
def test_private_data_goes_only_to_receivers_that_are_allowed(
    tool: str, argument: str, receiver: str, decision: str
) -> None:
    block = run_block("skills/security-prompt-injection.md", "s = Session(")
    session = block["Session"]("look at https://example.com for me", frozenset({"example.com"}))
    session.ran("read_mail")
    assert session.decide(tool, {argument: receiver}) == decision


def test_an_address_that_begins_like_the_one_a_person_typed_is_asked_about() -> None:
    block = run_block("skills/security-prompt-injection.md", "s = Session(")
    session = block["Session"]("look at https://example.com.br for me", frozenset())
    session.ran("fetch")
    assert session.decide("fetch", {"url": "https://example.com"}) == "ask"


@pytest.mark.parametrize(
    ("fails", "found"),
    [
        (lambda _: True, set()),
        (lambda _: False, set()),
        (lambda tests: "b" in tests, {"b"}),
        (lambda tests: {"a", "d"} <= set(tests), {"a", "d"}),
    ],
    ids=["alone", "never", "after one", "after two"],
)
def test_only_tests_that_make_the_victim_fail_are_called_polluters(
    fails: Callable[[Sequence[str]], bool], found: Collection[str]
) -> None:
    polluters = run_block("skills/testing-flaky.md", "names = [")["polluters"]
    assert set(polluters(["a", "b", "c", "d", "e"], fails)) == found


def test_usage_without_numbers_for_the_cache_is_all_fresh() -> None:
    from_openai = run_block("skills/llm-cost-control.md")["from_openai"]
    usage = {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": None}}
    assert from_openai(usage) == {"fresh": 5, "read": 0, "write": 0, "out": 1}


def test_usage_of_chat_completions_is_read_too() -> None:
    from_openai = run_block("skills/llm-cost-control.md")["from_openai"]
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert from_openai(usage) == {"fresh": 5, "read": 4, "write": 0, "out": 2}


def test_members_in_other_letters_are_not_passed_over() -> None:
    patch_members = run_block("skills/scim-provisioning.md")["patch_members"]
    assert patch_members({"a", "b"}, {"op": "Replace", "value": {"Members": [{"value": "c"}]}}) == {"c"}


@pytest.mark.parametrize("quote", ["", " ", "Total due: 999.00 EUR"])
def test_an_extraction_that_quotes_nothing_of_the_document_goes_to_the_manual_queue(quote: str) -> None:
    block = run_block("patterns/llm-structured-output.md", "prompts: list")
    reply = {"result": block["good"]["result"] | {"quote": quote}}
    with pytest.raises(ValueError, match="no valid extraction"):
        block["extract"](lambda _: json.dumps(reply), block["text"])


def test_analyses_of_events_give_what_a_person_counts() -> None:
    (block,) = [one for one in read_blocks(RESOURCES / "skills/sql-analytics.md") if one.language == "sql"]
    db = sqlite3.connect(":memory:")
    answers = [db.execute(statement).fetchall() for statement in block.text.split(";\n")]
    db.close()
    _, _, cohorts, *_ = answers
    assert cohorts == [("2026-01", 0, 2, 2), ("2026-01", 1, 2, 0), ("2026-01", 2, 2, 1), ("2026-03", 0, 1, 1)]


@pytest.mark.parametrize(
    ("wall", "zone", "kind", "instant"),
    [
        ("2026-10-25T02:30", "Europe/Berlin", "twice", "2026-10-25T00:30"),
        ("2026-03-29T02:30", "Europe/Berlin", "gap", "2026-03-29T01:30"),
        ("2026-03-29T03:00", "Europe/Berlin", "ok", "2026-03-29T01:00"),
        ("2026-10-25T03:00", "Europe/Berlin", "ok", "2026-10-25T02:00"),
        ("2026-10-04T02:15", "Australia/Lord_Howe", "gap", "2026-10-03T15:45"),
        ("2011-12-30T12:00", "Pacific/Apia", "gap", "2011-12-30T22:00"),
        ("2026-10-25T02:30", "UTC", "ok", "2026-10-25T02:30"),
    ],
)
def test_a_wall_clock_time_is_resolved_where_clocks_change(wall: str, zone: str, kind: str, instant: str) -> None:
    resolve = run_block("skills/date-time-handling.md")["resolve"]
    assert resolve(datetime.fromisoformat(wall), ZoneInfo(zone)) == (kind, datetime.fromisoformat(f"{instant}+00:00"))


@pytest.mark.parametrize("limit", range(8))
def test_a_cut_text_is_a_beginning_that_fits(limit: int) -> None:
    cut = run_block("skills/unicode-and-encodings.md")["cut_utf8"]("aé€\U0001f600b", limit)
    assert "aé€\U0001f600b".startswith(cut)
    assert len(cut.encode()) <= limit < len(cut.encode()) + 4


@pytest.mark.parametrize(
    ("files", "problems"),
    [
        ({"0001-a.md": "- Status: accepted\n", "0002-b.md": "- Status: superseded by 0001\r\n"}, 0),
        ({"0001-a.md": "- Status: accepted\n", "0001-b.md": "- Status: accepted\n"}, 1),
        ({"0001-a.md": "- Status: superseded by 0002\n"}, 1),
        ({"0001-a.md": "- Status: superseded by 0001\n"}, 1),
        ({"0001-a.md": "- Status: accepted\n- Status: rejected\n"}, 1),
        ({"0001-a.md": "Status: accepted\n"}, 1),
        ({"1-a.md": "- Status: accepted\n"}, 1),
        ({"0001-a.md": ""}, 1),
        ({}, 0),
    ],
)
def test_records_are_numbered_once_and_have_a_state(
    files: Mapping[str, str], problems: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["check.py"])
    for name, text in files.items():
        (tmp_path / name).write_text(text, newline="")
    check = run_block("patterns/architecture-decision-records.md")["check"]
    assert len(check(tmp_path)) == problems
    monkeypatch.setattr(sys, "argv", ["check.py", str(tmp_path)])
    assert bool(check(tmp_path)) is bool(problems or not files)


@pytest.mark.parametrize("length", [1, 5, 64])
def test_an_input_is_reduced_to_what_makes_it_fail(length: int) -> None:
    reduce_input = run_block("agents/debugger.md")["reduce_input"]
    needed = set(range(0, length, 9))
    assert reduce_input(list(range(length)), lambda items: needed <= set(items)) == sorted(needed)
    with pytest.raises(AssertionError, match="does not fail"):
        reduce_input([1], lambda _: False)
    with pytest.raises(AssertionError, match="without any item"):
        reduce_input([1], lambda _: True)


def test_a_stale_secret_is_served_while_the_store_is_down() -> None:
    block = run_block("skills/security-secrets-management.md")
    now: list[float] = [0]
    answers: Iterator[str | Exception] = iter(["a", OSError("down"), "b", ValueError("bug")])

    def fetch() -> str:
        if isinstance(one := next(answers), Exception):
            raise one
        return one

    secret = block["RotatingSecret"](fetch, clock=lambda: now[0])
    for moment, wanted in ((299, "a"), (300, "a"), (301, "a"), (700, "b")):
        now[0] = moment
        assert secret.get() == wanted
    now[0] = 1100
    with pytest.raises(ValueError, match="bug"):
        secret.get()


@pytest.mark.parametrize("problem", [None, OSError("down")])
def test_who_waited_for_a_slow_secret_store_does_not_ask_it_again(problem: OSError | None) -> None:
    now: list[float] = [0]
    asked: list[float] = []

    def fetch() -> str:
        asked.append(now[0])
        if len(asked) > 1:
            now[0] += 60
            if problem:
                raise problem
        return f"v{len(asked)}"

    secret = run_block("skills/security-secrets-management.md")["RotatingSecret"](fetch, clock=lambda: now[0])
    now[0] = 10
    assert {secret.get(refresh=True) for _ in range(5)} == {"v1" if problem else "v2"}
    assert asked == [0, 10]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setitem(sys.modules, "block", ModuleType("block"))  # where dataclasses look for types
    found: Callable[..., Any] = run_block("patterns/caching-strategies.md")["Cache"]
    return found


def test_a_cache_loads_once_for_all_who_wait(cache: Callable[..., Any]) -> None:
    one, meet, loads = cache(), threading.Barrier(8), []

    def ask() -> None:
        meet.wait()
        one.get("key", lambda: loads.append(1))

    callers = [threading.Thread(target=ask) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(loads) == 1


def test_a_cache_serves_the_old_value_while_the_source_is_down_and_lets_the_next_one_try(
    cache: Callable[..., Any],
) -> None:
    one = cache(ttl=0, stale=60)

    def down() -> None:
        raise OSError("down")

    assert [one.get("key", load) for load in (lambda: "old", down, lambda: "new")] == ["old", "old", "new"]
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            one.get("other", down)


def test_a_cache_does_not_serve_a_stale_answer_that_a_row_is_missing(cache: Callable[..., Any]) -> None:
    one = cache(negative=0, stale=60)
    missing = cache.get.__globals__["MISSING"]  # type: ignore[attr-defined]

    def down() -> None:
        raise OSError("down")

    assert one.get("key", lambda: missing) is missing
    with pytest.raises(OSError, match="down"):
        one.get("key", down)


def test_a_caller_that_gives_up_takes_no_place_in_the_limiter() -> None:
    block = run_block("patterns/resilience-load-shedding.md", "async def demo()")

    async def main() -> tuple[str, int]:
        limiter = block["Limiter"](limit=1, queue=3, max_wait=5)
        first = asyncio.create_task(limiter.run(lambda: asyncio.sleep(60)))
        waiting = [asyncio.create_task(limiter.run(lambda: asyncio.sleep(60))) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(block["Shed"], match="queue full"):
            await limiter.run(lambda: asyncio.sleep(0, "late"))
        for task in (*waiting, first):
            task.cancel()
        await asyncio.gather(first, *waiting, return_exceptions=True)
        return await limiter.run(lambda: asyncio.sleep(0, "served")), limiter.waiting

    assert asyncio.run(main()) == ("served", 0)


def test_work_that_fails_gives_its_place_in_the_limiter_back() -> None:
    block = run_block("patterns/resilience-load-shedding.md", "async def demo()")

    async def fail() -> None:
        raise OSError("down")

    async def main() -> list[object]:
        limiter = block["Limiter"](limit=2, queue=9, max_wait=5)
        return list(await asyncio.gather(*(limiter.run(fail) for _ in range(8)), return_exceptions=True))

    assert [str(one) for one in asyncio.run(main())] == ["down"] * 8


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "/etc/passwd", "a/../../x", "../data-secret", ".", "", "link/x"])
def test_a_name_that_leaves_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    inside = run_block("skills/security-input-validation.md")["inside"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to("/etc")
    with pytest.raises(ValueError):  # noqa: PT011 - Python has its own words for bytes that no name may have
        inside(tmp_path / "data", name)


@pytest.mark.parametrize(
    "data",
    [
        {"user": {"Password": "hunter2"}},
        {"list": [("token=hunter2",)]},
        {"api_key": ["hunter2"]},
        {"o": OSError("token=hunter2")},
        {"quoted": 'login with password="my hunter2"'},
        {"escaped": r'{"password": "a \" hunter2"}'},
        {"cut": "password='hunter2"},
    ],
)
def test_a_secret_does_not_reach_the_log(data: Mapping[str, object]) -> None:
    formatter = run_block("skills/error-handling-logging.md", "handler = logging")["JsonErrors"]()
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "%s", ("password=hunter2",), None)
    record.data = data
    line = formatter.format(record)
    assert "hunter2" not in line
    assert json.loads(line)["level"] == "info"


def test_errors_wrapped_at_one_place_are_told_apart_by_their_cause() -> None:
    fingerprint = run_block("skills/error-handling-logging.md", "handler = logging")["fingerprint"]

    def wrapped(cause: BaseException) -> str:
        outer = RuntimeError("charge failed")
        outer.__cause__ = cause
        return str(fingerprint(outer))

    assert wrapped(KeyError("a")) == wrapped(KeyError("b")) != wrapped(ValueError("a"))
    own = ValueError("a")
    own.__cause__ = own
    assert len(fingerprint(own)) == 12


def test_the_context_of_a_request_ends_with_it() -> None:
    blocks = read_blocks(RESOURCES / "skills/error-handling-logging.md")
    (block,) = [block.text for block in blocks if block.language == "python"]
    done = subprocess.run(
        [sys.executable, "-c", f"{block}\nprint(ctx.get())"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{}\n"
    assert json.loads(done.stderr)["trace_id"] == "4bf92f"


def test_the_context_of_a_record_crosses_a_queue() -> None:
    block = run_block("skills/error-handling-logging.md", "handler = logging")
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()

    class Handler(logging.handlers.QueueHandler):
        def prepare(self, record: logging.LogRecord) -> logging.LogRecord:  # as the table of the page has it
            record.ctx = block["ctx"].get()
            return record

    def log_one() -> None:
        block["ctx"].set({"trace_id": "4bf92f"})
        Handler(records).emit(logging.LogRecord("a", logging.INFO, "a.py", 1, "paid", None, None))

    contextvars.copy_context().run(log_one)
    assert json.loads(block["JsonErrors"]().format(records.get()))["trace_id"] == "4bf92f"


@pytest.mark.parametrize("written", ["hunter2\n", "hunter2\r\n", "hunter2"])
def test_a_secret_is_read_without_the_end_of_its_line(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = run_block("best-practices/secrets-handling.md")
    (tmp_path / "secret").write_text(written, newline="")
    monkeypatch.setenv("DB_FILE", str(tmp_path / "secret"))
    secret = block["read_secret"]("DB")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {[secret]} %s" % secret
    monkeypatch.delenv("DB_FILE")
    with pytest.raises(RuntimeError, match="DB is not set"):
        block["read_secret"]("DB")


def test_parts_of_a_page_are_cancelled_with_the_caller_and_a_failed_one_is_missing() -> None:
    within = run_block("skills/performance-api-optimization.md", "async def main()")["within"]
    ended = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")

    async def fail() -> None:
        raise OSError("down")

    async def main() -> object:
        caller = asyncio.create_task(within(60, {"slow": slow()}))
        await asyncio.sleep(0.01)
        caller.cancel()
        await asyncio.sleep(0.01)
        assert ended == ["slow"]
        return await within(0.01, {"failed": fail(), "slow": slow(), "price": asyncio.sleep(0, 12)})

    assert asyncio.run(main()) == ({"price": 12}, ["failed", "slow"])


@pytest.mark.parametrize(
    ("played", "total", "heard"),
    [(0, 0, "..."), (0, 100, "..."), (50, 100, "one two ..."), (100, 100, "one two three four")],
)
def test_a_caller_has_heard_no_more_than_was_played(played: int, total: int, heard: str) -> None:
    names = run_block("patterns/voice-agents.md", holds="def heard")
    assert names["heard"]("one two three four", played, total) == heard


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        ("NOT_FOUND", 0),
        ("", 1),
        ("99 EUR [3].", 1),
        ("99 EUR.", 1),
        ("12.50 EUR [3].", 0),
        ("See below. The fee is 12.50 EUR [3].", 0),
        ("The fee is 2.50 EUR [3].", 1),
        ("The fee is due in May [3] [9].", 1),
    ],
)
def test_an_answer_is_checked_against_its_sources(answer: str, problems: int) -> None:
    check = run_block("patterns/rag-pipeline.md")["check"]
    assert len(check(answer, {3: "Members pay a fee of 12.50 EUR, due in May."})) == problems


def test_old_files_are_read_in_their_own_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["scan.py"])
    scan = run_block("guides/python-legacy-upgrade.md")["scan"]
    root = tmp_path / "venv" / "project"
    (root / ".tox").mkdir(parents=True)
    for name, content in {
        "latin.py": b"# -*- coding: latin-1 -*-\nimport imp  # \xe9\n",
        "bom.py": b"\xef\xbb\xbfimport cgi\n",
        "null.py": b"x = 1\0\n",
        "two.py": b"print 1\n",
        "relative.py": b"from . import imp\n",
        "kept.py": b"import xml.etree.cElementTree\n",
        "dotted.py": b"from tkinter import tix\n",
        ".tox/other.py": b"import imp\n",
    }.items():
        (root / name).write_bytes(content)
    found = [line.removeprefix(f"{root}/") for line in scan(root)]
    assert [line for line in found if "gone" in line] == [
        "bom.py:1: cgi is gone since 3.13",
        "dotted.py:1: tkinter.tix is gone since 3.13",
        "latin.py:2: imp is gone since 3.12",
    ]
    assert [line.partition(":")[0] for line in found if "parse" in line] == ["null.py", "two.py"]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({"a": True}, {"a": 1}, ["/a: True -> 1"]),
        ({"a": [0]}, {"a": [False]}, ["/a: [0] -> [False]"]),
        ({"a": None}, {}, []),
        ({"a": 1.0}, {"a": 1}, []),
        ({"total": "10.00"}, {"total": "10.0"}, []),
        ({"version": "1.10"}, {"version": "1.1"}, ["/version: '1.10' -> '1.1'"]),
        ([], {}, [": [] -> {}"]),
    ],
)
def test_two_systems_agree_only_on_the_same_values(old: object, new: object, lines: Sequence[str]) -> None:
    block = run_block("patterns/strangler-fig-migration.md")
    assert list(block["diff"](block["normal"](old), block["normal"](new))) == lines


def script(document: str, folder: Path, name: str, **programs: str) -> dict[str, str]:
    """Write the first script of a document and stand-ins for programs into a folder; return the environment for it."""
    text = next(one.text for one in read_blocks(RESOURCES / document) if one.language == "bash" and "#!" in one.text)
    for program, content in {name: text, **programs}.items():
        (folder / program).write_text(content)
        (folder / program).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def run_script(
    *command: str | Path, env: Mapping[str, str], cwd: Path | None = None, words: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, input=words, capture_output=True, check=False, text=True, timeout=30, env=env, cwd=cwd
    )


@pytest.mark.parametrize(
    ("document", "name"), [("agents/shell-scripting.md", "clean"), ("examples/bash-script-template.md", "backup-list")]
)
def test_a_folder_whose_name_is_an_option_of_find_is_only_a_folder(document: str, name: str, tmp_path: Path) -> None:
    environment = script(document, tmp_path, name)
    work = tmp_path / "work"
    (work / "-delete").mkdir(parents=True)
    (work / "kept").touch()
    (work / "-delete" / "a").touch()
    done = run_script(
        tmp_path / name, *(("--",) if name == "backup-list" else ()), "-delete", cwd=work, env=environment
    )
    assert (done.returncode, (work / "kept").exists(), (work / "-delete" / "a").exists()) == (0, True, True)


@pytest.mark.parametrize("root", ["/", "//", "/.", "/tmp/.."])
def test_every_spelling_of_the_root_is_refused(root: str, tmp_path: Path) -> None:
    environment = script("agents/shell-scripting.md", tmp_path, "clean", rm="#!/bin/sh\n", find="#!/bin/sh\n")
    assert run_script(tmp_path / "clean", root, env=environment).returncode == 2


def test_a_search_that_failed_halfway_stops_the_clean_up(tmp_path: Path) -> None:
    environment = script("agents/shell-scripting.md", tmp_path, "clean", find="#!/bin/sh\nprintf 'a\\0'\nexit 1\n")
    done = run_script(tmp_path / "clean", tmp_path, env=environment)
    assert (done.returncode, "1 old logs" in done.stdout) == (1, False)


FIND_FAILS_ONCE = """#!/bin/sh
[ "$1" != -H ] || shift
echo "$1/a"
[ -e "$1.tried" ] || { touch "$1.tried"; exit 1; }
echo "$1/b"
"""


@pytest.mark.parametrize("to_file", [False, True])
def test_a_list_made_in_two_attempts_has_each_file_once(to_file: bool, tmp_path: Path) -> None:
    programs = {"find": FIND_FAILS_ONCE, "sleep": "#!/bin/sh\n", "flock": "#!/bin/sh\n"}
    environment = script("examples/bash-script-template.md", tmp_path, "backup-list", **programs)
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    done = run_script(tmp_path / "backup-list", *(("-o", out) if to_file else ()), folder, env=environment)
    assert (out.read_text() if to_file else done.stdout).splitlines() == [f"{folder}/a", f"{folder}/b"]


@pytest.mark.parametrize("to", ["a folder", "a missing folder/list", "a list"])
def test_a_list_that_cannot_be_made_leaves_nothing_behind(to: str, tmp_path: Path) -> None:
    programs = {"find": "#!/bin/sh\nexit 1\n", "sleep": "#!/bin/sh\n", "flock": "#!/bin/sh\n"}
    environment = script("examples/bash-script-template.md", tmp_path, "backup-list", **programs)
    (tmp_path / "a folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = run_script(tmp_path / "backup-list", "--output", tmp_path / to, tmp_path, env=environment)
    assert (done.returncode, sorted(tmp_path.rglob("*"))) == (1, before)


def test_a_signal_ends_the_script_at_once_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    programs = {"find": "#!/bin/sh\necho started >&2\nread line\n", "flock": "#!/bin/sh\n"}
    environment = script("examples/bash-script-template.md", tmp_path, "backup-list", **programs)
    before = sorted(tmp_path.iterdir())
    start = [str(tmp_path / "backup-list"), "-o", str(tmp_path / "out"), str(tmp_path)]
    with subprocess.Popen(start, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == b"started\n"
        running.terminate()
        assert running.wait(timeout=10) == -signal.SIGTERM
        assert sorted(tmp_path.iterdir()) == before


def test_a_list_is_not_put_into_a_folder_of_its_name(tmp_path: Path) -> None:
    environment = script("examples/bash-script-template.md", tmp_path, "backup-list", flock="#!/bin/sh\n")
    (tmp_path / "out").mkdir()
    done = run_script(tmp_path / "backup-list", "-o", tmp_path / "out", tmp_path, env=environment)
    assert (done.returncode, list((tmp_path / "out").iterdir())) == (1, [])


def test_a_list_in_the_listed_folder_does_not_name_the_temporary_file(tmp_path: Path) -> None:
    environment = script("examples/bash-script-template.md", tmp_path, "backup-list", flock="#!/bin/sh\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").touch()
    done = run_script(tmp_path / "backup-list", "-o", folder / "list", folder, env=environment)
    assert (done.returncode, (folder / "list").read_text()) == (0, f"{folder}/a\n")


@pytest.mark.parametrize("empty", [["-o", ""], ["--output="]])
def test_an_empty_name_of_the_output_is_refused(empty: list[str], tmp_path: Path) -> None:
    environment = script("examples/bash-script-template.md", tmp_path, "backup-list", flock="#!/bin/sh\n")
    done = run_script(tmp_path / "backup-list", *empty, tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("git push", 2),
        ("cd x && git -C . -c a=b push", 2),
        ("bash -c 'git push'", 2),
        ("(git push)", 2),
        ("echo $(git push)", 2),
        ("/usr/bin/git push", 2),
        ("git status\ngit push --force", 2),
        ("git stash push", 0),
        ("git commit -m push", 0),
        ("widgit push", 0),
        ("", 0),
    ],
)
def test_the_guard_stops_a_push_and_nothing_else(command: str, code: int, tmp_path: Path) -> None:
    environment = script("skills/coding-agent-hooks.md", tmp_path, "guard")
    call = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}})
    assert run_script(tmp_path / "guard", words=call, env=environment).returncode == code


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('{"tool_input": {"command": "psql -c \'DROP   Table t\'"}}', 2),
        ('{"tool_input": {"command": "psql -c \'drop schema s cascade\'"}}', 2),
        ('{"tool_input": {"command": "psql -c \'TRUNCATE orders\'"}}', 2),
        ('{"tool_input": {"command": "truncate -s 0 app.log"}}', 0),
        ('{"tool_input": {"command": "ls drop tables"}}', 2),
        ('{"tool_input": {"command": "ls"}}', 0),
        ('{"tool_input": {}}', 2),
        ("{", 2),
        ("", 2),
    ],
)
def test_a_guard_that_cannot_read_the_call_refuses_it(call: str, code: int, tmp_path: Path) -> None:
    environment = script("agents/agent-workflow-designer.md", tmp_path, "guard")
    assert run_script(tmp_path / "guard", words=call, env=environment).returncode == code


def test_a_guard_without_its_programs_refuses(tmp_path: Path) -> None:
    script("agents/agent-workflow-designer.md", tmp_path, "guard")
    bash = shutil.which("bash")
    assert bash is not None
    assert run_script(bash, tmp_path / "guard", words="{}", env={"PATH": str(tmp_path)}).returncode == 2


def lines_with(document: str, text: str) -> str:
    """Return the Bash block of a document that has this text."""
    return next(one.text for one in read_blocks(RESOURCES / document) if one.language == "bash" and text in one.text)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")
@pytest.mark.parametrize(("key", "cert", "match"), [("a", "a", True), ("a", "b", False), ("", "", False)])
def test_a_key_matches_only_its_own_certificate(key: str, cert: str, match: bool, tmp_path: Path) -> None:
    make = "openssl req -x509 -newkey ed25519 -nodes -subj /CN=a -days 1".split()
    for name in ("a", "b"):
        subprocess.run([*make, "-keyout", f"{name}.key", "-out", f"{name}.pem"], cwd=tmp_path, check=True, stderr=-3)
    for wanted, name in (("key.pem", f"{key}.key"), ("cert.pem", f"{cert}.pem")):
        if (tmp_path / name).exists():
            shutil.copy(tmp_path / name, tmp_path / wanted)
    (compare,) = [
        one for one in lines_with("skills/tls-dns-troubleshooting.md", "key.pem").splitlines() if "match" in one
    ]
    done = run_script("bash", "-c", compare, env=dict(os.environ), cwd=tmp_path)
    assert ("match" in done.stdout.split()) is match


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_images_of_init_containers_cron_jobs_and_hooks_are_listed(tmp_path: Path) -> None:
    pod = {"initContainers": [{"image": "bitnami/os-shell:12"}], "containers": [{"image": "bitnami/redis:8"}]}
    volume = {"image": {"reference": "quay.io/example/model:1"}}
    job = {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "busybox:1"}]}}}}}
    found = json.dumps({"items": [{"spec": {**pod, "volumes": [volume]}}, {"spec": job}]})
    programs = {
        "kubectl": f"#!/bin/sh\necho '{found}'\n",
        "helm": """#!/bin/sh
case "$1 $2" in
  "list -A") echo '[{"name": "shop", "namespace": "a"}]' ;;
  "get manifest") echo '  - image: example/shop:1' ;;
  "get hooks") echo '    image: bitnami/kubectl:1' ;;
esac
""",
    }
    text = lines_with("guides/container-images-moved.md", "helm get hooks")
    for program, content in programs.items():
        (tmp_path / program).write_text(content)
        (tmp_path / program).chmod(0o755)
    done = run_script("bash", "-c", text, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout.splitlines() == [
        *("bitnami/os-shell:12", "bitnami/redis:8", "busybox:1"),
        *("shop bitnami/kubectl:1", "shop example/shop:1"),
    ]


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
@pytest.mark.parametrize(
    ("waited", "status", "stapled"), [(0, "Accepted", True), (0, "Invalid", False), (124, "In Progress", False)]
)
def test_a_disk_image_is_stapled_only_if_its_notarization_was_accepted(
    waited: int, status: str, stapled: bool, tmp_path: Path
) -> None:
    (tmp_path / "xcrun").write_text(
        f"""#!/bin/sh
echo "$1 $2" >> '{tmp_path}/calls'
case "$2" in
submit) echo '{{"id": "7", "message": "uploaded"}}' ;;
wait) exit {waited} ;;
info) echo '{{"id": "7", "status": "{status}"}}' ;;
esac
"""
    )
    (tmp_path / "xcrun").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KEY_FILE": "a", "KEY_ID": "b", "ISSUER_ID": "c"}
    block = lines_with("guides/desktop-code-signing.md", "notarytool")
    done = run_script("bash", "-c", block, "bash", "App.dmg", env=environment)
    assert (done.returncode == 0) is stapled
    assert "submission 7" in done.stdout
    assert ("stapler staple" in (tmp_path / "calls").read_text()) is stapled
    assert ("notarytool log" in (tmp_path / "calls").read_text()) is not stapled


@pytest.mark.skipif(shutil.which("osslsigncode") is None, reason="there is no osslsigncode here")
@pytest.mark.parametrize(("stamped", "life"), [(True, 3), (False, 3), (False, 1187)])
def test_a_signature_outlives_its_certificate_only_with_a_timestamp(stamped: bool, life: int, tmp_path: Path) -> None:
    (tmp_path / "a.ps1").write_text("Write-Output 1\r\n")
    (tmp_path / "usage").write_text(
        "[code]\nextendedKeyUsage=codeSigning\n[time]\nextendedKeyUsage=critical,timeStamping\n"
    )
    issue = "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -extfile usage"
    for command in (
        "req -x509 -newkey rsa:3072 -nodes -keyout ca.key -out ca.pem -days 4000 -subj /CN=ca",
        *(
            line
            for name, days in (("code", life), ("time", 3000))
            for line in (
                f"req -newkey rsa:3072 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}",
                f"{issue} -in {name}.csr -days {days} -extensions {name} -out {name}.pem",
            )
        ),
    ):
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    sign = "osslsigncode sign -certs code.pem -key code.key -h sha256".split()
    timestamp = "-TSA-certs time.pem -TSA-key time.key".split() if stamped else []
    made = subprocess.run(
        [*sign, *timestamp, "-in", "a.ps1", "-out", "b.ps1"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"this osslsigncode cannot sign the file: {made.stdout}{made.stderr}")
    block = lines_with("guides/desktop-code-signing.md", "osslsigncode")
    done = run_script("bash", "-c", block, "bash", "b.ps1", "ca.pem", "ca.pem", env=dict(os.environ), cwd=tmp_path)
    assert (done.returncode == 0) is stamped
    if not stamped:
        assert "Timestamp is not available" in done.stdout
        assert "certificate has expired" in done.stdout


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_pods_and_templates_that_reach_into_their_host_are_listed(tmp_path: Path) -> None:
    specs: Mapping[str, Mapping[str, object]] = {
        "plain": {"containers": [{}], "volumes": [{"emptyDir": {}}]},
        "network": {"hostNetwork": True, "containers": [{}]},
        "path": {"containers": [{}], "volumes": [{"hostPath": {"path": "/"}}]},
        "init": {"containers": [{}], "initContainers": [{"securityContext": {"privileged": True}}]},
        "unprivileged": {"containers": [{"securityContext": {"privileged": False}}]},
        "ipc": {"hostIPC": True, "containers": [{}]},
        "debug": {"containers": [{}], "ephemeralContainers": [{"securityContext": {"privileged": True}}]},
        "admin": {"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
        "port": {"containers": [{"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}]},
        "numeric": {"containers": [{}], "securityContext": {"runAsUser": 1000}},
    }
    templates = {
        "nightly": {"jobTemplate": {"spec": {"template": {"spec": specs["admin"]}}}},
        "scaled-down": {"replicas": 0, "template": {"spec": specs["path"]}},
        "good": {"template": {"spec": specs["numeric"]}},
    }
    for kind, described in {"pods": specs, "cronjobs,deploy,sts,ds": templates, "pv": {}}.items():
        items = [{"metadata": {"namespace": "a", "name": name}, "spec": spec} for name, spec in described.items()]
        (tmp_path / kind).write_text(json.dumps({"items": items}))
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat '{tmp_path}'/$2\n")
    (tmp_path / "kubectl").chmod(0o755)
    command = lines_with("best-practices/container-security.md", "hostNetwork")
    into_host, _, root = command.partition("# may be root")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    listed = run_script("bash", "-c", into_host, env=path).stdout.split()
    assert listed == [f"a/{name}" for name in "network path init ipc debug admin nightly scaled-down".split()]
    queries = command.partition("pods |")[0]
    may_be_root = run_script("bash", "-c", f"{queries}#{root}", env=path).stdout.split()
    assert may_be_root == [f"a/{name}" for name in (*specs, "nightly", "scaled-down") if name != "numeric"]


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_a_recording_that_is_passed_on_has_no_secret(tmp_path: Path) -> None:
    def headers(*names: str) -> list[dict[str, str]]:
        return [{"name": name, "value": "https://example.com/a?token=hunter2"} for name in names]

    cookies = [{"name": "a", "value": "hunter2"}]
    request = {
        "method": "POST", "url": "https://example.com/a?token=hunter2", "postData": {"text": "hunter2"},
        "queryString": [{"name": "token", "value": "hunter2"}], "cookies": cookies,
        "headers": [
            *headers(":path", "Referer", "Cookie", "Authorization", "X-CSRF-Token"),
            {"name": "Proxy-Authorization", "value": "hunter2"},
        ],
    }  # fmt: skip
    response = {
        "status": 302, "redirectURL": "https://example.com/b#access_token=hunter2", "content": {"text": "hunter2"},
        "cookies": cookies, "headers": headers("Location", "Set-Cookie"),
    }  # fmt: skip
    entry = {"time": 7, "request": request, "response": response, "_initiator": {"url": "/a?token=hunter2"}}
    page = {"title": "https://example.com/a?token=hunter2"}
    (tmp_path / "page.har").write_text(json.dumps({"log": {"pages": [page], "entries": [entry]}}))
    command = lines_with("skills/har-analysis/references/fields.md", "clean.har")
    run_script("bash", "-c", command, env=dict(os.environ), cwd=tmp_path)
    clean = (tmp_path / "clean.har").read_text()
    assert "hunter2" not in clean
    (left,) = json.loads(clean)["log"]["entries"]
    assert (left["time"], left["request"]["url"], left["response"]["status"]) == (7, "https://example.com/a", 302)


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_entries_of_a_journal_without_priority_or_as_bytes_are_read(tmp_path: Path) -> None:
    entries = [
        {"__REALTIME_TIMESTAMP": "1764072000000000", "PRIORITY": "3", "MESSAGE": "disk full"},
        {"__REALTIME_TIMESTAMP": "1764072001000000", "MESSAGE": "no priority"},
        {"__REALTIME_TIMESTAMP": "1764072002000000", "PRIORITY": "4", "MESSAGE": list(b"as bytes")},
    ]
    (tmp_path / "entries").write_text("\n".join(map(json.dumps, entries)))
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\ncat '{tmp_path}/entries'\n")
    (tmp_path / "journalctl").chmod(0o755)
    command, _, _ = lines_with("skills/log-triage/references/formats.md", "journalctl").rpartition("|")
    done = run_script("bash", "-c", command, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert [(one["level"], one["message"]) for one in map(json.loads, done.stdout.splitlines())] == [
        ("error", "disk full"),
        ("debug", "no priority"),
        ("warn", "as bytes"),
    ]


def repository(folder: Path, *commits: Mapping[str, str], message: str = "change") -> list[str]:
    """Make a repository with these files in its commits; return the command that works in it."""
    git = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    for files in commits:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", message], check=True)
    return git


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "Deno.test.ignore('a', run)"),
        ("", "test('a', { ignore: true }, run)"),
        ("", "  } catch (err) { /* not important */ }"),
        ("", "  } catch { // not important"),
        ("  t.is(total, 3)", ""),
        ("  t.deepEqual(rows, [])", ""),
        ("    refute user.valid?", ""),
        ("  CHECK(a == b);", ""),
    ],
)
def test_a_relaxed_check_is_seen_in_the_diff_of_an_agent(before: str, after: str, tmp_path: Path) -> None:
    git = repository(tmp_path, {"a": f"{before}\nsame\n"}, {"a": f"{after}\nsame\n"})
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD~1"], check=True)
    text = lines_with("best-practices/reviewing-agent-work.md", "merge-base")
    done = run_script("bash", "-c", text, env=os.environ, cwd=tmp_path)
    assert (f"+{after}" if after else f"-{before}") in done.stdout


def test_modules_that_change_together_are_counted(tmp_path: Path) -> None:
    always = ("src/orders/a.ts", "src/orders/b.ts", "src/users/a b.ts")
    names: list[tuple[str, ...]] = [always if number > 1 else (*always, "src/mail/a") for number in range(7)]
    names.append(("src/users/a b.ts",))
    repository(tmp_path, *({name: str(number) for name in some} for number, some in enumerate(names)))
    command = lines_with("patterns/architecture-microservices.md", "awk")
    done = run_script("bash", "-c", command, env=dict(os.environ), cwd=tmp_path)
    assert done.stdout.splitlines() == ["7 orders 100% users 87%"]


def test_repositories_are_paired_by_their_tickets(tmp_path: Path) -> None:
    for name, tickets in {"orders": "12345", "users": "123", "mail": "39"}.items():
        (tmp_path / name).mkdir()
        git = repository(tmp_path / name, {"a": "1"}, message="UTF-8")
        for ticket in tickets * 2:
            subprocess.run([*git, "commit", "-qm", f"SHOP-{ticket}: change", "--allow-empty"], check=True)
    command = lines_with("patterns/architecture-microservices.md", "SHOP")
    done = run_script("bash", "-c", command, env=dict(os.environ), cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["1 mail/ orders/", "1 mail/ users/", "3 orders/ users/"]


def test_lines_that_survive_are_counted_whatever_their_file_is_called(tmp_path: Path) -> None:
    repository(tmp_path, {"src/a b.py": "1\n2\n", "src/é\n.py": "3\nauthor Eve\n", "src/a.ts": "4\n"})
    command = lines_with("skills/git-forensics/references/recipes.md", "blame")
    done = run_script("bash", "-c", command, env=dict(os.environ), cwd=tmp_path)
    assert (done.stdout.split(), done.stderr) == (["4", "Ann"], "")


@pytest.mark.parametrize("place", ["nowhere", "a file that is gone", "a message", "a branch"])
def test_a_secret_in_the_history_is_found_wherever_it_is(place: str, tmp_path: Path) -> None:
    secret = "hunter2"
    message = f"use {secret}" if place == "a message" else "change"
    git = repository(tmp_path, {"a": secret if place == "a file that is gone" else "1"}, {"a": "2"}, message=message)
    if place == "a branch":
        subprocess.run([*git, "checkout", "-qb", "other"], check=True)
        (tmp_path / "b").write_text(secret)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", "change"], check=True)
        subprocess.run([*git, "checkout", "-q", "-"], check=True)
    block = lines_with("guides/git-history-cleanup.md", "must print nothing").replace("<start-of-secret>", secret)
    searches = "\n".join(line for line in block.splitlines() if "must print nothing" in line)
    done = run_script("bash", "-c", searches, env=dict(os.environ), cwd=tmp_path)
    assert bool(done.stdout) is (place != "nowhere")


@pytest.mark.parametrize(
    ("answers", "code", "attempts"),
    [
        (["0"], 0, 1),
        (["ERROR:  55P03: lock timeout", "0"], 0, 2),
        (["ERROR:  42601: syntax error"], 1, 1),
        (["ERROR:  55P03: lock timeout"] * 10, 1, 10),
    ],
)
def test_a_migration_is_tried_again_only_after_a_lock_timeout(
    answers: Sequence[str], code: int, attempts: int, tmp_path: Path
) -> None:
    psql = f"""#!/bin/sh
echo >> "{tmp_path}/attempts"
answer=$(sed -n "$(wc -l < '{tmp_path}/attempts')p" "{tmp_path}/answers")
[ "$answer" = 0 ] || {{ echo "psql:a.sql:1: $answer" >&2; exit 3; }}
"""
    environment = script("skills/database-migrations.md", tmp_path, "migrate", psql=psql, sleep="#!/bin/sh\n")
    (tmp_path / "answers").write_text("\n".join(answers))
    done = run_script(tmp_path / "migrate", "a.sql", env=environment)
    assert (done.returncode, len((tmp_path / "attempts").read_text())) == (code, attempts)


MAPPED = """
import { mapLimit } from "./block.js";
const wait = (ms) => new Promise((next) => setTimeout(next, ms));
let running = 0, most = 0;
const twice = async (n) => { most = Math.max(most, ++running); await wait(2); running--; return 2 * n; };
const found = { all: await mapLimit([1, 2, 3, 4, 5], 2, twice), none: await mapLimit([], 2, twice), most };
const refused = (limit) => mapLimit([1], limit, twice).then(() => "let in", (error) => error.name);
found.limits = await Promise.all([0, -1, NaN].map(refused));
const seen = [];
found.failed = await mapLimit([1, 2, 3, 4], 2, async (n, signal) => {
  if (n === 1) throw new Error("first");
  await wait(5);
  seen.push([n, signal.aborted]);
}).catch((error) => error.message);
found.seen = seen;
const parent = new AbortController();
parent.abort(new Error("gone"));
found.aborted = await mapLimit([1], 2, twice, parent.signal).catch((error) => error.message);
console.log(JSON.stringify(found));
"""


@pytest.mark.slow
def test_a_bounded_map_ends_when_its_siblings_have_and_refuses_a_limit_of_nothing(
    node_run: Callable[[str, str], Any],
) -> None:
    assert node_run("agents/typescript-async-patterns.md", MAPPED) == {
        "all": [2, 4, 6, 8, 10],
        "none": [],
        "most": 2,
        "limits": ["RangeError"] * 3,
        "failed": "first",
        "seen": [[2, True]],
        "aborted": "gone",
    }


SOCKET = """
const sockets = [];
globalThis.WebSocket = class {
  readyState = 0; sent = [];
  constructor(url) { this.url = String(url); sockets.push(this); }
  send(text) { this.sent.push(text); }
  close(code) { this.readyState = 2; this.closed = code ?? 1005; }
  open() { this.readyState = 1; this.onopen(); }
  get(data) { this.onmessage({ data: typeof data === "string" ? data : JSON.stringify(data) }); }
};
const { ResilientSocket } = await import("./block.js");
const tick = (ms = 5) => new Promise((next) => setTimeout(next, ms));
async function start() {
  const data = [], states = [], url = async () => new URL("wss://example.com");
  const onState = (state) => states.push(state), onReset = () => data.push("reset");
  const client = new ResilientSocket({ url, onData: (one) => data.push(one), onState, onReset, maxDelayMs: 1 });
  await tick();
  return { client, data, states, socket: sockets.at(-1) };
}
const found = {};
const a = await start();
a.client.send("early");
a.socket.open();
a.socket.get({ seq: 1, data: "one" });
a.socket.get({ seq: 1, data: "double" });
a.socket.bufferedAmount = 2e6;
found.stalled = [a.client.send("too much"), a.socket.sent.length];
a.socket.onclose({ code: 1006 });
a.socket.get({ seq: 2, data: "late" });
await tick(20);
found.resumed = [a.socket.sent, new URL(sockets.at(-1).url).searchParams.get("after"), [...a.data]];
const again = sockets.at(-1);
again.open();
again.get({ seq: 9, reset: true });
a.client.close();
again.get({ seq: 10, data: "after close" });
found.closed = [a.data, a.client.send("lost"), a.states.at(-1)];
found.broken = [];
for (const text of ["{", "null", "{}", '{"seq": "1"}', "[]"]) {
  const b = await start();
  b.socket.open();
  b.socket.get(text);
  found.broken.push([b.socket.closed !== undefined, b.data.length, b.states.at(-1)]);
}
const refused = await start(), before = sockets.length;
refused.socket.onclose({ code: 4401 });
await tick(20);
found.refused = [refused.states.at(-1), sockets.length - before];
Math.random = () => 0.99;
const waits = new ResilientSocket({ url: async () => new URL("wss://example.com"), onData: () => {} });
await tick();
sockets.at(-1).onclose({ code: 1006 });
const asleep = sockets.length;
waits.wake();
waits.wake();
await tick(20);
waits.wake();
await tick(20);
found.woken = [sockets.length - asleep];
sockets.at(-1).onclose({ code: 1006 });
waits.close();
waits.wake();
await tick(20);
found.woken.push(sockets.length - asleep);
const later = [], timeout = globalThis.setTimeout;
const b = await start();
b.socket.open();
globalThis.setTimeout = (run, ms) => ms === 5000 ? later.push(run) : timeout(run, ms);
b.client.wake();
b.socket.get("pong");
later.pop()();
found.alive = [[...b.socket.sent], b.states.at(-1)];
b.client.wake();
later.pop()();
found.dead = [b.socket.closed, b.states.at(-1)];
b.client.close();
console.log(JSON.stringify(found));
process.exit();
"""


@pytest.mark.slow
def test_a_socket_resumes_survives_broken_messages_and_is_silent_once_closed(
    node_run: Callable[[str, str], Any],
) -> None:
    assert node_run("examples/websocket-reconnect-client.md", SOCKET) == {
        "resumed": [['"early"'], "1", ["one"]],
        "closed": [["one", "reset"], False, "closed"],
        "broken": [[True, 0, "closed"]] * 5,
        "refused": ["closed", 0],
        "woken": [1, 1],
        "alive": [["ping"], "open"],
        "dead": [1005, "waiting"],
        "stalled": [False, 1],
    }


TRANSACTIONS = """
import pg from "pg";
const log = [];
let failed, broken;
pg.Pool.prototype.connect = async () => ({  // answers as a server does
  on() {}, off() {}, release(error) { log.push(error ? "discarded" : "released"); },
  async query(text) {
    log.push(text);
    if (broken) throw new Error("connection lost");
    if (text === "BEGIN") failed = false;
    if (text === "bad") { failed = true; throw new Error("bad"); }
    return { command: text === "COMMIT" && failed ? "ROLLBACK" : text };
  },
});
const { withTransaction } = await import("./block.js");
const run = async (work) => {
  log.length = 0;
  const end = await withTransaction(work).catch((error) => `error: ${error.message}`);
  return [end, log.join(" ")];
};
console.log(JSON.stringify([
  await run(async (c) => { await c.query("good"); return "done"; }),
  await run(async (c) => { await c.query("bad"); return "done"; }),
  await run(async (c) => { await c.query("bad").catch(() => {}); return "done"; }),
  await run(async (c) => { broken = true; await c.query("good"); return "done"; }),
]));
"""


@pytest.mark.slow
def test_a_transaction_that_was_rolled_back_is_not_reported_as_done(node_run: Callable[[str, str], Any]) -> None:
    done, failed, swallowed, cut = node_run("patterns/database-connection-pooling-scaling.md", TRANSACTIONS)
    assert done == ["done", "BEGIN good COMMIT released"]
    assert failed == ["error: bad", "BEGIN bad ROLLBACK released"]
    assert swallowed[0].startswith("error:")
    assert cut == ["error: connection lost", "BEGIN good ROLLBACK discarded"]


RETRIES = """
import { retry, RetryBudget } from "./block.js";
const budget = new RetryBudget(), slow = { attempts: 3, baseMs: 1, retryable: (error) => error.message === "again" };
let calls = 0;
const fail = (text, options = {}) => async () => { calls++; throw new Error(text); };
const outcome = async (fn, options = {}) => {
  calls = 0;
  const end = await retry(fn, options.budget ?? budget, { ...slow, ...options }).catch((error) => error.message);
  return [end, calls];
};
const found = {
  again: await outcome(fail("again")),
  final: await outcome(fail("final")),
  third: await outcome(async () => { if (++calls < 3) throw new Error("again"); return "served"; }),
  late: await outcome(fail("again"), { retryAfterMs: () => 60_000 }),
  strange: await outcome(fail("again"), { retryAfterMs: () => NaN }),
  aborted: await outcome((signal) => new Promise((_, no) => {
    calls++;
    signal.onabort = () => no(new Error("again"));
    setTimeout(() => {}, 100);
  }), { perTryMs: 5, attempts: 2 }),
};
const drained = new RetryBudget();
let total = 0;
for (let n = 0; n < 100; n++) total += (await outcome(fail("again"), { budget: drained }))[1];
console.log(JSON.stringify({ ...found, total: total <= 121 && total >= 110 }));
"""


@pytest.mark.slow
def test_a_retry_keeps_to_its_deadline_and_its_budget(node_run: Callable[[str, str], Any]) -> None:
    assert node_run("skills/error-handling-resilience.md", RETRIES) == {
        "again": ["again", 3],
        "final": ["final", 1],
        "third": ["served", 3],
        "late": ["again", 1],
        "strange": ["again", 1],
        "aborted": ["again", 2],
        "total": True,
    }


WEBHOOKS = """
import { createHmac } from "node:crypto";
import express from "express";
import { verify, webhookRoute } from "./block.js";
const key = Buffer.alloc(32, "k"), secret = "whsec_" + key.toString("base64"), now = 1_800_000_000;
const sign = (body, time = now, by = key) =>
  "v1," + createHmac("sha256", by).update(`m1.${time}.${body}`).digest("base64");
const good = { id: "m1", timestamp: String(now), signature: sign("{}") }, body = Buffer.from("{}");
const cases = {
  good: [[secret], good], second: [["whsec_" + Buffer.alloc(32).toString("base64"), secret], good],
  several: [[secret], { ...good, signature: "v1,AAAA v2,x " + good.signature }],
  unset: [["", "whsec_"], { ...good, signature: sign("{}", now, "") }],
  short: [[secret], { ...good, signature: "v1," }], none: [[secret], { ...good, signature: undefined }],
  time: [[secret], { ...good, timestamp: "1e9" }], late: [[secret], good, now + 301],
  sixth: [[secret], { ...good, signature: "v1,AAAA ".repeat(5) + good.signature }],
};
const found = {};
for (const [name, [secrets, headers, at = now]] of Object.entries(cases))
  found[name] = verify(secrets, headers, body, at);
const seen = new Set();
let down = false;
const insertOnce = async (id) => { if (down) throw new Error("down"); return seen.size < seen.add(id).size; };
const app = express();
app.use(webhookRoute(() => [secret], { insertOnce }));
app.use((_error, _req, res, _next) => res.sendStatus(500));
const server = app.listen(0, async () => {
  const post = async (body, signed = body) => {
    const time = String(Math.floor(Date.now() / 1000));
    const headers = { "webhook-id": "m1", "webhook-timestamp": time, "webhook-signature": sign(signed, time) };
    const at = `http://127.0.0.1:${server.address().port}/webhooks/shop`;
    return (await fetch(at, { method: "POST", headers, body })).status;
  };
  found.posts = [];
  for (const sent of [["{}"], ["{}"], ["null"], ["{"], [""], ["{}", "x"]]) found.posts.push(await post(...sent));
  down = true;
  found.posts.push(await post("{}"));
  console.log(JSON.stringify(found));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_a_webhook_is_let_in_by_its_signature_and_stored_before_the_answer(node_run: Callable[[str, str], Any]) -> None:
    found = node_run("examples/webhook-signature-verification.md", WEBHOOKS)
    assert found.pop("posts") == [204, 204, 204, 400, 400, 401, 500]
    assert [name for name, passed in found.items() if passed] == ["good", "second", "several"]


TOKEN_CHECKS = """
import { SignJWT, createLocalJWKSet, createRemoteJWKSet, exportJWK, generateKeyPair } from "jose";
import { verifyAccessToken } from "./block.js";
const { publicKey, privateKey } = await generateKeyPair("ES256");
const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), kid: "1", alg: "ES256" }] });
const iat = Math.floor(Date.now() / 1000);
const claims = { sub: "u", jti: "j", iat, iss: "https://id.example.com", aud: "https://api.example.com" };
const token = (change = {}, header = {}, life = "1m", key = privateKey) => {
  const made = new SignJWT({ ...claims, ...change });
  made.setProtectedHeader({ alg: "ES256", kid: "1", typ: "at+jwt", ...header });
  return (life ? made.setExpirationTime(life) : made).sign(key);
};
const other = (await generateKeyPair("ES256")).privateKey;
const text = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const forged = [
  "", "a", "a.b", "a.b.c", "..", "\\ud800",
  await token({}, {}, "1m", other), await token({}, {}, ""), await token({}, { typ: "JWT" }),
  await token({ aud: "https://other.example.com" }), await token({ sub: undefined }), await token({}, {}, "-1m"),
  await token({ iat: undefined }), await token({}, { kid: "2" }),
  `${text({ alg: "none", typ: "at+jwt" })}.${text(claims)}.`,
  `${text({ alg: "HS256", kid: "1", typ: "at+jwt" })}.${text(claims)}.AAAA`, `${text(null)}.${text(null)}.AAAA`,
  `${text({ alg: "ES256", kid: {}, typ: "at+jwt" })}.${text(claims)}.AAAA`,
  `${text({ alg: "ES256", kid: "1", typ: "at+jwt", crit: ["x"], x: 1 })}.${text(claims)}.AAAA`,
];
const status = async (one, from = keys) => (await verifyAccessToken(one, from)).status ?? 200;
const good = await token();
const dead = createRemoteJWKSet(new URL("http://127.0.0.1:9/"));
const found = { good: await status(good), dead: await status(good, dead) };
console.log(JSON.stringify({ ...found, forged: await Promise.all(forged.map((one) => status(one))) }));
"""


@pytest.mark.slow
def test_a_forged_token_is_401_and_only_missing_keys_are_503(node_run: Callable[[str, str], Any]) -> None:
    found = node_run("skills/security-authentication-jwt.md", TOKEN_CHECKS)
    assert found == {"good": 200, "dead": 503, "forged": [401] * 19}


JSON_OF_A_URL = """
import { nextTick, ref } from "vue";
globalThis.window = {};
const answers = [];
globalThis.fetch = (url, { signal }) => new Promise((yes, no) => {
  signal.onabort = () => no(signal.reason);
  answers.push((body, status = 200) => yes(new Response(JSON.stringify(body), { status })));
});
const { useJson } = await import("./block.js");
const url = ref("https://example.com/1"), one = useJson(url), states = [];
const note = async () => {
  await new Promise((next) => setTimeout(next, 1));
  states.push([one.data.value ?? null, one.error.value?.message ?? null, one.pending.value]);
};
await note();
url.value = "https://example.com/2";
await nextTick();
answers[1]("new");
answers[0]("old");
await note();
url.value = "https://example.com/3";
await nextTick();
answers[2]({}, 500);
await note();
url.value = "https://example.com/4";
await nextTick();
url.value = undefined;
await note();
console.log(JSON.stringify(states));
"""


@pytest.mark.slow
def test_a_composable_shows_the_newest_url_and_waits_for_nothing_without_one(
    node_run: Callable[[str, str], Any],
) -> None:
    assert node_run("agents/vue-developer.md", JSON_OF_A_URL) == [
        [None, None, True],
        ["new", None, False],
        [None, "HTTP 500", False],
        [None, None, False],
    ]


PROBLEMS = """
const write = console.log;
console.log = () => {};  // what the block shows when it is loaded
const { Stay, toProblems } = await import("./block.js");
const stay = { guests: 2, from: "2026-05-01", to: "2026-05-02", name: "Ann" };
const inputs = [stay, { ...stay, guests: undefined }, { ...stay, guests: "2" }, { ...stay, "a/b~c": 1, d: 2 }, null, [],
  { ...stay, to: "2026-05-01" }, { ...stay, to: "x" }, { ...stay, guests: 1e400 }];
const codes = inputs.map((input) => {
  const result = Stay.safeParse(input, { reportInput: true });
  return result.success ? "ok" : toProblems(result.error).map((one) => `${one.code} ${one.pointer}`).join(", ");
});
write(JSON.stringify(codes));
"""


@pytest.mark.slow
def test_problems_of_an_input_point_at_their_place(node_run: Callable[[str, str], Any]) -> None:
    assert node_run("skills/error-handling-validation.md", PROBLEMS) == [
        "ok",
        "REQUIRED /guests",
        "TYPE /guests",
        "UNKNOWN /a~1b~0c, UNKNOWN /d",
        "TYPE ",
        "TYPE ",
        "ORDER /to",
        "INVALID_FORMAT /to",
        "TYPE /guests",
    ]


GRAPH = """
import { createServer } from "./block.js";
let loads = 0, down = false;
const posts = ["ann", "ann", "gone"].map((authorId, n) => ({ id: n + 1, tenant: "t", authorId, title: "T" }));
const db = {
  authors: async () => {
    loads++;
    if (down) throw new Error("password hunter2");
    return [{ id: "ann", name: "Ann" }];
  },
  posts: async (_, after, limit) => posts.filter((one) => one.id > after).slice(0, limit),
  rename: async (_, id, title) => id > 3 ? "missing" : id === 2 ? "locked" : { ...posts[id - 1], title },
};
const server = createServer(db, (request) => request.headers.get("tenant"));
const ask = async (query, tenant = "t") => {
  const headers = { "content-type": "application/json", accept: "application/json", ...(tenant && { tenant }) };
  const body = JSON.stringify({ query });
  const reply = await server.fetch("http://localhost/graphql", { method: "POST", headers, body });
  const { data, errors } = await reply.json();
  return errors ? (errors[0].extensions?.code ?? errors[0].message) : data;
};
const found = { page: await ask("{ posts(first: 2) { items { id author { name } } next } }"), loads };
found.gone = (await ask('{ posts(after: "2") { items { author { name } } next } }')).posts;
found.refused = [];
const aliases = Array.from({ length: 11 }, (_, n) => `p${n}: posts { next }`).join(" ");
for (const query of [
  "{ posts(first: 0) { next } }", '{ posts(after: "x") { next } }',
  `{ ${aliases} }`, `fragment f on Query { ${aliases} } { ...f }`,
  `{ posts { items { ${"title ".repeat(250)} } } }`,
]) found.refused.push(await ask(query));
found.anonymous = await ask("{ posts { next } }", "");
const rename = (id, title) => ask(`mutation { renamePost(input: { id: "${id}", title: "${title}" }) { __typename } }`);
found.renamed = [];
for (const [id, title] of [["1", "x"], ["2", "x"], ["9", "x"], ["1e400", "x"], ["1", " "]])
  found.renamed.push((await rename(id, title)).renamePost?.__typename ?? await rename(id, title));
down = true;
console.error = () => {};
found.masked = JSON.stringify(await ask("{ posts { items { author { name } } } }")).includes("hunter2");
console.log(JSON.stringify(found));
process.exit();
"""


@pytest.mark.slow
def test_a_graph_is_loaded_in_one_batch_and_limited_whatever_hides_the_fields(
    node_run: Callable[[str, str], Any],
) -> None:
    assert node_run("examples/graphql-dataloader-server.md", GRAPH) == {
        "page": {
            "posts": {
                "items": [{"id": "1", "author": {"name": "Ann"}}, {"id": "2", "author": {"name": "Ann"}}],
                "next": "2",
            }
        },
        "loads": 1,
        "gone": {"items": [{"author": None}], "next": None},
        "refused": ["BAD_USER_INPUT"] * 5,
        "anonymous": "UNAUTHENTICATED",
        "renamed": ["RenamePostSuccess", "LockedError", "NotFoundError", "NotFoundError", "BAD_USER_INPUT"],
        "masked": False,
    }


@pytest.mark.slow
def test_tests_that_a_document_shows_pass(tmp_path: Path) -> None:
    programs = brought(lambda: node_programs(CONTENT))
    (tmp_path / "node_modules").symlink_to(programs.parent)
    for number, block in enumerate(read_blocks(RESOURCES / "agents/typescript-testing.md")):
        if block.language == "typescript" and (block.file or "expect(" in block.text or "fc." in block.text):
            path = tmp_path / (block.file or f"block{number}.test.ts")
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
    done = run_script(programs / "vitest", "run", env=dict(os.environ), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


SITES = """
import express from "express";
import http from "node:http";
import { sameOriginWrites } from "./block.js";
const app = express();
app.use(sameOriginWrites);
app.use((_req, res) => res.sendStatus(204));
const server = app.listen(0, async () => {
  const ask = (method, headers) => new Promise((next) => {
    const answer = (res) => { res.resume(); next(res.statusCode); };
    http.request({ port: server.address().port, method, headers }, answer).end();
  });
  const app = "https://app.example.com", evil = "https://app.example.com.evil.example";
  console.log(JSON.stringify([
    await ask("GET", { "sec-fetch-site": "cross-site" }), await ask("POST", { "sec-fetch-site": "same-origin" }),
    await ask("POST", { origin: app }), await ask("POST", {}),
    await ask("POST", { "sec-fetch-site": "cross-site" }), await ask("POST", { "sec-fetch-site": "same-site" }),
    await ask("POST", { origin: evil }), await ask("POST", { origin: "null" }), await ask("POST", { cookie: "a=b" }),
    await ask("DELETE", { "sec-fetch-site": "none" }),
  ]));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_a_write_from_another_site_is_refused(node_run: Callable[[str, str], Any]) -> None:
    assert node_run("skills/security-web-headers.md", SITES) == [204] * 4 + [403] * 6


@pytest.fixture
def python_run(tmp_path: Path) -> Callable[[str, str], Any]:
    """Return what runs a program beside the Python of a document, with the library's packages, and reads its JSON."""
    programs = brought(lambda: cached_environment(CONTENT / ".venv", CONTENT / "requirements.txt"))

    def run(document: str, main: str) -> object:
        for block in read_blocks(RESOURCES / document):
            if block.language == "python":
                (tmp_path / (block.file or "block.py")).write_text(block.text)
        (tmp_path / "program.py").write_text(main)
        command, environment = [str(programs / "python"), "program.py"], {"PATH": os.environ["PATH"]}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, check=False, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        found: object = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


JOBS = """
import json
from fastapi.testclient import TestClient
import app, jobs
opened, connect = [], jobs.connect
jobs.connect = lambda: opened.append(connect()) or opened[-1]
client = TestClient(app.app)
codes = [client.get("/jobs/1").status_code, client.post("/reports/2026", headers={"Idempotency-Key": "k"}).status_code]
codes.append(client.post("/reports/2025", headers={"Idempotency-Key": "k"}).status_code)
def is_open(db):
    try: return bool(db.execute("SELECT 1"))
    except jobs.sqlite3.ProgrammingError: return False
db = connect()
jobs.HANDLERS["report"] = lambda _: 1 / 0
tried = 0
while jobs.work_once(db):
    tried += 1
    assert not jobs.work_once(db)  # it waits
    db.execute("UPDATE job SET run_at = 0")
first = jobs.enqueue(db, "none", {}, "other") and jobs.claim(db)
db.execute("UPDATE job SET lease_until = 0 WHERE id = ?", (first["id"],))
second = jobs.claim(connect())
states = [state for (state,) in map(tuple, db.execute("SELECT state FROM job ORDER BY id"))]
last = jobs.enqueue(db, "none", {}, "last")
db.execute("DELETE FROM job WHERE id = ?", (last,))
is_new = jobs.enqueue(db, "none", {}, "next") > last
print(json.dumps([codes, list(map(is_open, opened)), tried, states, second["attempts"], is_new]))
"""


@pytest.mark.slow
def test_jobs_end_and_their_requests_leave_no_connection_open(python_run: Callable[[str, str], Any]) -> None:
    found = python_run("examples/fastapi-background-jobs.md", JOBS)
    assert found == [[404, 202, 422], [False] * 3, 4, ["dead", "running"], 2, True]


SIGN_INS = """
import asyncio, json, threading, time
import block
at_once, most, lock = 0, 0, threading.Lock()
class Slow:
    def check(self, *_):
        global at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.05)
        with lock:
            at_once -= 1
        return True, None
async def main():
    for _ in range(3):  # callers who give up
        tasks = [asyncio.create_task(block.sign_in(Slow(), None, "x")) for _ in range(20)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    assert await block.sign_in(Slow(), None, "x") == (True, None)
    return await block.sign_in(Slow(), None, "x" * 257)
print(json.dumps([asyncio.run(main()), most]))
"""


@pytest.mark.slow
def test_callers_who_give_up_do_not_let_more_hashes_into_memory(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("examples/password-storage-argon2.md", SIGN_INS) == [[False, None], 8]


OLD_FORMS = """
import hashlib, json
import block
def old(raw): return block.service.wrap_md5(hashlib.md5(raw).hexdigest())
typed = "10 \u20ac f\u00fcr \u65e5"  # a browser sends a Latin-1 form so
print(json.dumps([block.service.check(old(raw), typed)[0] for raw in
                  (typed.encode("cp1252", "xmlcharrefreplace"), typed.encode(), b"10 ? f\\xfcr ?")]))
"""


@pytest.mark.slow
def test_old_hashes_of_a_latin_1_form_match_as_browsers_sent_them(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("examples/password-storage-argon2.md", OLD_FORMS) == [True, True, False]


CLIENT = """
import json
import httpx2 as httpx
from client import Api, ApiError, retry_after
def calls(method, **options):
    seen = []
    transport = httpx.MockTransport(lambda request: seen.append(1) or httpx.Response(503))
    try: Api("https://example.com", "", transport=transport, sleep=lambda _: None).call(method, "/", **options)
    except ApiError: return len(seen)
strange = ["Mon, 01 Jan 0001 00:00:00 -0000", "-5", "1e5", "\u00b2", "12:30", "", "Mon, 31 Dec 2026 99:00:00 GMT"]
waits = [retry_after(httpx.Response(429, headers=[(b"Retry-After", one.encode("latin-1"))])) for one in strange]
keys = [None, {"idempotency-key": "k"}, [("Idempotency-Key", "k")]]
print(json.dumps([calls("get"), [calls("POST", headers=one) for one in keys], waits]))
"""


@pytest.mark.slow
def test_only_requests_that_may_be_repeated_are_sent_again(python_run: Callable[[str, str], Any]) -> None:
    found = python_run("examples/python-httpx-client.md", CLIENT)
    assert found == [4, [1, 4, 4], [0.0, None, None, None, None, None, None]]


FETCH = """
import json
import httpcore
from block import fetch_untrusted, is_public
hosts = ["127.0.0.1", "127.1", "0", "2130706433", "localhost", "[::1]", "user@localhost", "localhost:8443", "a" * 70,
         "\u00fc.test", "[::1", "localhost:99999", "localhost:x"]
refused = []
for url in [*(f"https://{host}/" for host in hosts), "http://example.com/", "ftp://example.com/", ""]:
    try: fetch_untrusted(url)
    except (httpcore.ConnectError, httpcore.UnsupportedProtocol): refused.append(url)
public = ["8.8.8.8", "100.64.0.1", "224.0.0.1", "fc00::1", "2002:7f00:1::", "64:ff9b::a00:1", "2606:4700::1111"]
print(json.dumps([len(refused), [address for address in public if is_public(address)]]))
"""


@pytest.mark.slow
def test_addresses_inside_are_refused_in_every_spelling(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("skills/security-api-security.md", FETCH) == [16, ["8.8.8.8", "2606:4700::1111"]]


LOCKS = """
import json, threading, time
import fakeredis
from block import Lock
server = fakeredis.FakeServer()
client = fakeredis.FakeRedis(server=server)
won, locks = [], [Lock(client, "one", 5000) for _ in range(12)]
threads = [threading.Thread(target=lambda lock=lock: won.append(lock.acquire())) for lock in locks]
for thread in threads: thread.start()
for thread in threads: thread.join()
long = Lock(client, "long", 300)
long.acquire()
time.sleep(0.8)  # longer than it lives without renewal
kept = not Lock(client, "long", 300).acquire() and not long.lost.is_set()
first = long.fence
long.release()
other = Lock(client, "long", 300)
print(json.dumps([sum(won), kept, other.acquire(), other.fence > first, Lock(client, "long").release()]))
"""


@pytest.mark.slow
def test_one_of_many_gets_the_lock_and_keeps_it_for_its_work(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("examples/redis-distributed-lock.md", LOCKS) == [1, True, True, True, False]


LIMITED = """
import json, threading
import fakeredis
from block import RateLimiter
server = fakeredis.FakeServer()
limiter = RateLimiter(fakeredis.FakeRedis(server=server), rate=0.01, capacity=20)
passed = []
threads = [threading.Thread(target=lambda: passed.append(limiter.check("a")[0])) for _ in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
refused = []
for cost in (0, -5, 21, float("nan")):
    try: limiter.check("b", cost)
    except ValueError: refused.append(cost)
headers = limiter.check("a")[1]
server.connected = False
print(json.dumps([sum(passed), len(refused), int(headers["Retry-After"]) > 90, limiter.check("a")]))
"""


@pytest.mark.slow
def test_many_at_once_take_no_more_tokens_than_there_are(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("examples/redis-rate-limiter.md", LIMITED) == [20, 4, True, [True, {}]]


FAULTS = """
import json
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy.exc import IntegrityError
from block import install
app = FastAPI()
install(app)
class Driver(Exception):
    def __init__(self, name): self.constraint_name = name
@app.get("/faults/{name}")
def fail(name: str):
    if name == "auth": raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
    raise IntegrityError("INSERT hunter2", {"p": "hunter2"}, Driver(name))
client = TestClient(app, raise_server_exceptions=False)
replies = [client.get(f"/faults/{name}") for name in ("account_email_key", "other_key", "auth")]
replies.append(client.post("/faults/a"))
assert "hunter2" not in "".join(reply.text for reply in replies)
headers = [reply.headers.get("allow") or reply.headers.get("www-authenticate") for reply in replies]
print(json.dumps([[one.status_code, one.json()["code"], header] for one, header in zip(replies, headers)]))
"""


@pytest.mark.slow
def test_only_known_constraints_become_conflicts(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("skills/error-handling-api-patterns.md", FAULTS) == [
        [409, "EMAIL_TAKEN", None],
        [500, "INTERNAL", None],
        [401, "HTTP_401", "Bearer"],
        [405, "HTTP_405", "GET"],
    ]


ITEMS = """
import json
from fastapi.testclient import TestClient
from main import app
with TestClient(app, raise_server_exceptions=False) as client:
    bodies = [{"sku": "a"}, {"sku": "a"}, {"sku": "\\0"}, {"sku": None}, {"sku": "b", "qty": 2**31}, {"x": 1}]
    posted = [client.post("/items", json=body).status_code for body in bodies]
    pages = [client.get(f"/items?after={after}").status_code for after in (0, -1, -10**30, 10**30)]
    ids = [client.get(f"/items/{id}").status_code for id in (1, 0, 10**30)]
    patched = [client.patch("/items/1", json=body).status_code for body in ({}, {"sku": None}, {"note": None})]
    deleted = [client.delete("/items/1").status_code for _ in range(2)]
print(json.dumps([posted, pages, ids, patched, deleted]))
"""


@pytest.mark.slow
def test_no_request_for_items_is_a_server_error(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("examples/fastapi-async-crud.md", ITEMS) == [
        [201, 409, 422, 422, 422, 422],
        [200, 422, 422, 422],
        [200, 422, 422],
        [200, 422, 200],
        [204, 404],
    ]


READS = """
import json, main
from fastapi import BackgroundTasks
from fastapi.testclient import TestClient
held = []
async def count():
    held.append(main.engine.pool.checkedout())
@main.app.get("/later/{item_id}")
async def later(item_id: int, session: main.Session, tasks: BackgroundTasks) -> None:
    await main.load(session, item_id)
    tasks.add_task(count)
with TestClient(main.app) as client:
    item = client.post("/items", json={"sku": "later"}).json()
    client.get(f"/later/{item['id']}")
print(json.dumps(held))
"""


@pytest.mark.slow
def test_a_read_keeps_no_connection_while_a_task_runs(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("examples/fastapi-async-crud.md", READS) == [0]


PATCHES = """
import json, threading
from block import client
tag = client.get("/docs/d1").headers["etag"]
codes = []
def patch(n): codes.append(client.patch("/docs/d1", json={"note": str(n)}, headers={"If-Match": tag}).status_code)
threads = [threading.Thread(target=patch, args=[n]) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
wrong = [({"title": None}, tag), ({"x": 1}, tag), ({"note": "a"}, "*"), ({"note": "a"}, "W/" + tag)]
others = [client.patch("/docs/d1", json=body, headers={"If-Match": match}).status_code for body, match in wrong]
missing = client.patch("/docs/none", json={"note": "a"}, headers={"If-Match": tag}).status_code
print(json.dumps([sorted(codes), others, missing]))
"""


@pytest.mark.slow
def test_one_of_many_edits_of_a_version_is_stored(python_run: Callable[[str, str], Any]) -> None:
    assert python_run("skills/api-design-rest.md", PATCHES) == [[200, *[412] * 7], [422, 422, 412, 412], 404]


EXPRESS = """
import express from "express";
import { AppError, errorHandler, notFound } from "./block.js";
const lines = [];
const app = express();
app.use(express.json());
app.post("/body", (req, res) => res.json(req.body));
app.get("/upstream", () => { throw Object.assign(new Error("bad key sk-1"), { status: 401, headers: "sk-1" }); });
app.get("/deadlock", () => { throw Object.assign(new Error("deadlock"), { code: "40P01" }); });
app.get("/item/:id", (req, res) => res.json(req.params.id));
const twice = Object.assign(new Error("duplicate key"), { code: "23505" });
app.get("/drizzle", () => { throw new Error("Failed query: x\\nparams: hunter2", { cause: twice }); });
app.get("/drizzle-down", () => { throw new Error("Failed query: x\\nparams: hunter2\\n    at hunter2"); });
app.get("/own", () => { throw new AppError(502, "partner", "partner down", { cause: new Error("reset") }); });
app.use(notFound);
app.use(errorHandler((level, fields) => lines.push({ level, ...fields })));
const server = app.listen(0, async () => {
  const at = `http://127.0.0.1:${server.address().port}`;
  const found = {};
  for (const path of ["/upstream", "/deadlock", "/own", "/none", "/item/%A", "/drizzle", "/drizzle-down"])
    found[path] = (await fetch(at + path)).status;
  const bad = { method: "POST", headers: { "content-type": "application/json" }, body: '{"password": "hunter2"' };
  found["/body"] = (await fetch(at + "/body", bad)).status;
  console.log(JSON.stringify({ found, lines }));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.fixture
def node_run(tmp_path: Path) -> Callable[[str, str], Any]:
    """Return what compiles the TypeScript of a document beside a main program, runs it and reads its JSON."""
    programs = brought(lambda: node_programs(CONTENT))
    options = "block.ts --target esnext --module nodenext --types node --skipLibCheck".split()

    def run(document: str, main: str) -> object:
        (tmp_path / "node_modules").symlink_to(programs.parent)
        (tmp_path / "package.json").write_text('{"type": "module"}')
        block = next(one for one in read_blocks(RESOURCES / document) if one.language == "typescript")
        (tmp_path / "block.ts").write_text(block.text)
        (tmp_path / "main.js").write_text(main)
        subprocess.run([str(programs / "tsc"), *options], cwd=tmp_path, check=True, timeout=60)
        node = shutil.which("node")
        assert node is not None
        done = subprocess.run([node, "main.js"], cwd=tmp_path, capture_output=True, check=True, text=True, timeout=60)
        found: object = json.loads(done.stdout)
        return found

    return run


LOCAL_NETWORK = """
import { callLocal } from "./block.js";
const found = {};
const call = async (name, states, answer) => {
  const asked = [];
  const query = async ({ name }) => {
    asked.push(name);
    if (states === null) throw new TypeError("not a valid enum value");
    return { state: states[Math.min(asked.length, states.length) - 1] };
  };
  Object.defineProperty(globalThis, "navigator", { value: { permissions: { query } }, configurable: true });
  let sent = null;
  globalThis.fetch = async (url, init) => {
    sent = init;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const said = await callLocal("http://127.0.0.1:9000/", "loopback", { method: "PUT" }).catch((error) => error.message);
  found[name] = { said, sent, asked: asked[0] };
};
const failed = new TypeError("Failed to fetch");
await call("granted", ["granted"], 200);
await call("refused", ["prompt", "denied"], failed);
await call("down", ["granted", "granted"], failed);
await call("denied", ["denied", "denied"], failed);
await call("ungated", ["denied"], 200);
await call("old", null, 200);
console.log(JSON.stringify(found));
"""


@pytest.mark.slow
def test_a_page_says_whether_the_person_or_the_helper_refused(node_run: Callable[[str, str], Any]) -> None:
    found = node_run("guides/local-network-access.md", LOCAL_NETWORK)
    tagged = {"method": "PUT", "targetAddressSpace": "loopback"}
    assert found["granted"] == {"said": 200, "sent": tagged, "asked": "loopback-network"}
    assert found["refused"]["said"] == "refused in the prompt"
    assert found["down"]["said"] == "helper down, CORS, or prompt closed"
    assert found["denied"]["said"].startswith("blocked:")
    assert found["denied"]["sent"] == tagged
    assert found["ungated"]["said"] == 200
    assert found["old"] == {"said": 200, "sent": {"method": "PUT"}, "asked": "loopback-network"}


@pytest.mark.slow
def test_express_maps_only_its_own_errors_to_4xx_and_logs_no_body(node_run: Callable[[str, str], Any]) -> None:
    report = node_run("examples/express-error-handling.md", EXPRESS)
    assert report["found"] == {
        "/upstream": 500,
        "/deadlock": 503,
        "/own": 502,
        "/none": 404,
        "/item/%A": 400,
        "/drizzle": 409,
        "/drizzle-down": 500,
        "/body": 400,
    }
    levels = ["error", "error", "error", "warn", "warn", "warn", "error", "warn"]
    assert [line["level"] for line in report["lines"]] == levels
    assert "reset" in report["lines"][2]["trace"]
    assert "hunter2" not in str(report)
    assert "headers" not in str(report)


LOGGED = """
import pino from "pino";
import { log } from "./block.js";
const down = Object.assign(new Error("down"), { code: "EDOWN", config: { headers: { authorization: "hunter2" } } });
const wrapped = Object.assign(new Error("wrapped", { cause: down }), { inner: down });
const errors = [wrapped, new AggregateError([down, null, "text"]), null, "text"];
console.log(JSON.stringify([down, ...errors].map(log[pino.symbols.serializersSym].err)));
"""


@pytest.mark.slow
def test_a_logged_error_keeps_its_causes_and_members_but_none_of_its_own_properties(
    node_run: Callable[[str, str], Any],
) -> None:
    down, wrapped, several, *others = node_run("skills/observability-structured-logging.md", LOGGED)
    assert "hunter2" not in str([down, wrapped, several])
    assert (down["code"], several["members"], others) == ("EDOWN", ["down", "null", "text"], [None, "text"])
    assert "caused by: Error: down" in wrapped["stack"]


STRUCTURED = """
import contextlib, io, json, logging
import structlog
from block import configure
written = io.StringIO()
with contextlib.redirect_stdout(written):
    configure()
    structlog.get_logger("a").info("login", password="hunter2", user=1)
    logging.getLogger("b").info("login", extra={"Authorization": "hunter2", "user": 2})
print(json.dumps([json.loads(line) for line in written.getvalue().splitlines()]))
"""


@pytest.mark.slow
def test_a_structured_line_hides_secrets_of_the_program_and_of_its_libraries(
    python_run: Callable[[str, str], Any],
) -> None:
    lines = python_run("skills/observability-structured-logging.md", STRUCTURED)
    assert [line["user"] for line in lines] == [1, 2]
    assert "hunter2" not in str(lines)


TOKENS = """
import express from "express";
import { createAuth } from "./block.js";
let time = 1.7e12, down = false, wait;
const rows = new Map(), families = new Set();
const store = {
  insert: async (row) => void (families.add(row.family), rows.set(row.hash, row)),
  find: async (hash) => rows.get(hash),
  rotate: async (hash, at, since, next) => {
    if (down) throw new Error("down");
    const row = rows.get(hash);
    await wait;
    if (!row || !families.has(row.family)) return undefined;
    const used = row.usedAt;
    row.usedAt ??= at;
    if (used === null || used >= since) rows.set(next.hash, next);
    return used;
  },
  deleteFamily: async (family) => {
    families.delete(family);
    for (const [hash, row] of rows) if (row.family === family) rows.delete(hash);
  },
};
const app = express();
app.use("/", createAuth(new Uint8Array(32).fill(1), store, async () => "u1", () => time).router);
app.use((_err, _req, res, _next) => res.sendStatus(500));
const server = app.listen(0, async () => {
  const post = async (path, cookie = "") => {
    const headers = { "content-type": "application/json", cookie };
    const at = `http://127.0.0.1:${server.address().port}${path}`;
    const reply = await fetch(at, { method: "POST", headers, body: '{"email": "a", "password": "b"}' });
    return [reply.status, reply.headers.getSetCookie()[0]?.split(";")[0]];
  };
  let [, cookie] = await post("/login");
  down = true;
  const found = { down: (await post("/refresh", cookie))[0] };
  down = false;
  time += 11_000;
  found.retried = (await post("/refresh", cookie))[0];
  time += 11_000;
  found.reused = (await post("/refresh", cookie))[0];
  [, cookie] = await post("/login");
  let go;
  wait = new Promise((resolve) => (go = resolve));
  const slow = post("/refresh", cookie);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await post("/logout", cookie);
  go();
  found.loggedOut = (await slow)[0];
  console.log(JSON.stringify(found));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_a_refresh_survives_a_database_error_and_not_a_log_out(node_run: Callable[[str, str], Any]) -> None:
    found = node_run("examples/express-jwt-auth.md", TOKENS)
    assert found == {"down": 500, "retried": 200, "reused": 401, "loggedOut": 401}


UPLOADS = """
import fs from "node:fs";
import http from "node:http";
import express from "express";
import sharp from "sharp";
process.env.UPLOAD_DIR = `${process.cwd()}/data`;
const { deliver, uploads } = await import("./block.js");
fs.writeFileSync("big.bin", Buffer.alloc(20_000_000));
const pixels = { create: { width: 9, height: 9, channels: 3, background: "red" } };
const image = await sharp(pixels).png().toBuffer();
console.error = () => {};
const app = express();
app.use(uploads(async () => "clean", async () => { throw new Error("database down"); }, () => "ann"));
app.get("/:file", (req, res) => deliver(res, { file: req.params.file, mime: "application/pdf", name: "a.pdf" }));
const server = app.listen(0, async () => {
  const at = `http://127.0.0.1:${server.address().port}`;
  const body = new FormData();
  body.append("file", new Blob([image]), "a.png");
  const found = { unsaved: (await fetch(`${at}/uploads`, { method: "POST", body })).status };
  found.left = fs.readdirSync("data/files", { recursive: true }).filter((name) => name.endsWith(".webp"));
  const two = new FormData();
  two.append("file", new Blob([Buffer.alloc(12_000_000)]), "a.bin");
  two.append("file", new Blob([Buffer.alloc(10_000_000)]), "b.bin");
  found.large = (await fetch(`${at}/uploads`, { method: "POST", body: two })).status;
  found.missing = (await fetch(`${at}/none.bin`)).status;
  for (let i = 0; i < 3; i++)
    await new Promise((next) => {
      http.get(`${at}/big.bin`, (res) => res.once("data", () => { res.destroy(); setTimeout(next, 200); }));
    });
  const target = (n) => { try { return fs.readlinkSync(`/proc/self/fd/${n}`); } catch { return ""; } };
  const files = fs.existsSync("/proc/self/fd") ? fs.readdirSync("/proc/self/fd").map(target) : [];
  found.open = files.filter((name) => name.endsWith("big.bin")).length;
  console.log(JSON.stringify(found));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_an_upload_that_was_not_saved_and_a_download_that_was_cut_leave_nothing(
    node_run: Callable[[str, str], Any],
) -> None:
    found = node_run("examples/file-upload-safe.md", UPLOADS)
    assert found == {"unsaved": 503, "left": [], "large": 413, "missing": 404, "open": 0}


STREAM = """
import fs from "node:fs";
import { gzipSync, gunzipSync } from "node:zlib";
import { convert } from "./block.js";
fs.writeFileSync("in.gz", gzipSync('{"a": 1}\\nnull\\nbroken\\n[]\\n{"a": 2}\\n{"a": 3}'));
fs.writeFileSync("bad.gz", gzipSync('{"a": 1}\\nnull\\nbroken'));
const stats = await convert("in.gz", "out.gz", async (record) => record);
const failed = await convert("in.gz", "none.gz", async () => { throw new Error("service down"); }).catch(String);
const bad = await convert("bad.gz", "none.gz", async (record) => record).catch(String);
const out = String(gunzipSync(fs.readFileSync("out.gz")));
const lines = Array.from({ length: 20 }, (_, n) => JSON.stringify({ n })).join("\\n");
fs.writeFileSync("many.gz", gzipSync(lines));
const wait = (ms, signal) => new Promise((next, stopped) => {
  const timer = setTimeout(next, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); stopped(signal.reason); });
});
const start = Date.now();
const early = await convert("many.gz", "none.gz", async (record, signal) => {
  if (record.n === 3) throw new Error("service down");
  await wait(4000, signal);
  return record;
}).catch(String);
const waited = Date.now() - start;
const slow = (record) => new Promise((next) => setTimeout(next, 5, record));
const both = await Promise.allSettled([1, 2].map(() => convert("in.gz", "both.gz", slow)));
const ends = both.map((one) => one.status), again = String(gunzipSync(fs.readFileSync("both.gz")));
console.log(JSON.stringify({ stats, failed, bad, early, waited, out, ends, again, files: fs.readdirSync(".") }));
"""


@pytest.mark.slow
def test_a_line_that_is_no_object_is_counted_and_a_failed_call_or_mostly_such_lines_leave_no_file(
    node_run: Callable[[str, str], Any],
) -> None:
    found = node_run("examples/node-stream-pipeline.md", STREAM)
    assert found["stats"] == {"read": 6, "written": 3, "rejected": 3}
    assert (found["ends"], found["again"]) == (["fulfilled"] * 2, found["out"])
    assert (found["out"], found["failed"]) == ('{"a":1}\n{"a":2}\n{"a":3}\n', "Error: service down")
    assert found["bad"] == "Error: most records unreadable"
    assert (found["early"], found["waited"] < 3000) == ("Error: service down", True)
    assert not [name for name in found["files"] if name.startswith("none.gz")]


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no flock here")
def test_a_script_started_by_cron_and_by_a_person_runs_once(tmp_path: Path) -> None:
    script, *_ = [one for one in read_blocks(RESOURCES / "examples/bash-script-template.md") if one.language == "bash"]
    (tmp_path / "backup-list").write_text(script.text)
    (tmp_path / "find").write_text("#!/bin/sh\necho started >&2\nread line\n")
    for program in ("backup-list", "find"):
        (tmp_path / program).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    start = [str(tmp_path / "backup-list"), str(tmp_path)]
    with subprocess.Popen(start, env={"PATH": path}, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stderr is not None
        assert first.stderr.readline() == b"started\n"
        session = {"PATH": path, "XDG_RUNTIME_DIR": str(tmp_path)}
        second = subprocess.run(start, env=session, stdin=subprocess.DEVNULL, check=False, timeout=30)
        first.communicate(b"\n", timeout=30)
    assert (first.returncode, second.returncode) == (0, 75)


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PORTAL = """
import http from "node:http";
import { chromium } from "@playwright/test";
import { guardWrites } from "./block.js";
const seen = [];
const page = `<form target=_blank method=post action=/transfer><button id=pay></button></form>
<form method=post action=/login><button id=login></button></form>`;
const serve = (name) => http.createServer((req, res) => {
  if (["POST", "PUT"].includes(req.method)) seen.push(`${name} ${req.url}`);
  if (req.url === "/put") return res.writeHead(302, { location: `${other}/stolen` }).end();
  if (req.url === "/moved") return res.writeHead(307, { location: `${other}/stolen` }).end();
  if (req.url === "/login") return res.writeHead(303, { location: "/home", "set-cookie": "s=1" }).end();
  res.setHeader("content-type", "text/html").end(page + (req.headers.cookie ?? ""));
});
const start = (server) => new Promise((done) => {
  server.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${server.address().port}`));
});
const servers = [serve("portal"), serve("other")];
const [portal, other] = await Promise.all(servers.map(start));
const args = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"];
const browser = await chromium.launch({ executablePath: process.env.BROWSER, args });
const context = await browser.newContext();
const posts = ["/search", "/moved", "/login"].map((path) => `POST ${portal}${path}`);
await guardWrites(context, new Set([...posts, `PUT ${portal}/put`]));
const tab = await context.newPage();
await tab.goto(portal);
const stopped = context.waitForEvent("requestfailed", (request) => request.url().endsWith("/transfer"));
await Promise.all([stopped, tab.click("#pay")]);
const post = (url) => tab.evaluate((to) => fetch(to, { method: "POST", body: "x" }).then(() => "", String), url);
for (const url of [`${other}/search`, "/moved", "/search"]) await post(url);
await tab.evaluate(() => fetch("/put", { method: "PUT", body: "x" }).catch(String));
await tab.click("#login");
await tab.waitForURL(`${portal}/home`);
console.log(JSON.stringify({ seen, home: await tab.textContent("body") }));
await browser.close();
for (const server of servers) server.close().closeAllConnections?.();
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
def test_a_browser_writes_only_where_it_may(
    node_run: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", str(BROWSER))
    found = node_run("patterns/browser-agents.md", PORTAL)
    assert found["seen"] == ["portal /moved", "portal /search", "portal /put", "portal /login"]
    assert found["home"].endswith("s=1")


VITEST = """#!/bin/sh
[ -f "$3" ] || exit 1
grep -q good src/price.ts
"""


@pytest.mark.parametrize("test_added", [1, 4, 5])
def test_bisect_names_the_commit_that_broke_it_however_young_the_test_is(test_added: int, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "src").mkdir(parents=True)
    programs = {"npm": "#!/bin/sh\n", "npx": VITEST}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(
            ["git", *who, *words], cwd=repository, check=True, capture_output=True, text=True, env=environment
        )
        return done.stdout

    git("init")
    for number in range(1, 7):
        (repository / "src/price.ts").write_text(f"{'good' if number < 4 else 'bad'} {number}\n")
        if number == test_added:
            (repository / "src/price.test.ts").touch()
        git("add", ".")
        git("commit", "-m", f"commit {number}")
        if number == 1:
            git("tag", "v2.3.0")
    lines = lines_with("agents/git-expert.md", "git bisect start").replace("/tmp/", f"{tmp_path}/")
    run_script("bash", "-e", "-c", lines, env=environment, cwd=repository)
    assert "first bad commit" in (tmp_path / "bisect.log").read_text()
    assert (tmp_path / "bisect.log").read_text().splitlines()[-1].endswith("commit 4")


TRACES = """
import json
import block
from opentelemetry import propagate
def send():
    with block.tracer.start_as_current_span("send"):
        headers = {}
        propagate.inject(headers)
    return [(name.title(), value.encode()) for name, value in headers.items()] + [("source", b"\\xff")]
block.consume(send())
block.consume_batch([send(), send()])
spans = block.exporter.get_finished_spans()
sends, (work,) = ([span for span in spans if span.name == name] for name in ("send", "store order"))
process, batch = (span for span in spans if span.name == "process orders")
print(json.dumps({
    "parents": [span.parent and span.parent.span_id for span in (process, work, batch)],
    "wanted": [sends[0].context.span_id, process.context.span_id, None],
    "links": [link.context.span_id for link in batch.links] == [span.context.span_id for span in sends[1:]],
}))
"""


@pytest.mark.slow
def test_a_trace_goes_on_behind_a_queue_and_in_a_thread(python_run: Callable[[str, str], Any]) -> None:
    found = python_run("skills/observability-distributed-tracing.md", TRACES)
    assert found["parents"] == found["wanted"]
    assert found["links"]


@pytest.mark.parametrize(
    ("document", "text"),
    [("best-practices/secrets-handling.md", "AKIA"), ("guides/git-history-cleanup.md", "<start-of-secret>")],
)
def test_a_secret_that_came_with_a_merge_is_found(document: str, text: str, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "--initial-branch=main")
    git("commit", "--allow-empty", "-m", "first")
    git("switch", "-c", "side")
    (tmp_path / "a").write_text("a\n")
    git("add", "a")
    git("commit", "-m", "side")
    git("switch", "main")
    git("commit", "--allow-empty", "-m", "second")
    git("merge", "--no-commit", "side")
    (tmp_path / "a").write_text(f"a\n{text}\n")
    git("commit", "-a", "-m", "joined")
    find = next(line for line in lines_with(document, "git log --all").splitlines() if line.startswith("git log --all"))
    found = run_script("bash", "-c", find, env=dict(os.environ), cwd=tmp_path)
    assert "joined" in found.stdout


def test_the_lines_of_a_memory_trace_are_those_that_held_most_at_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["peak.py"])
    names = run_block("skills/pytorch-cuda-memory.md", holds="def at_peak")

    def entry(action: str, address: int, size: int, *places: tuple[str, int]) -> dict[str, Any]:
        frames = [{"filename": file, "line": line, "name": "f"} for file, line in places]
        return {"action": action, "addr": address, "size": size, "frames": frames}

    library = ("/v/site-packages/torch/nn/functional.py", 9)
    trace = [
        entry("segment_alloc", 1, 4096),
        entry("alloc", 1, 100, library, ("model.py", 3), ("train.py", 8)),
        entry("alloc", 2, 30, library),
        entry("free_requested", 1, 100),
        entry("free_completed", 9, 7),  # allocated before the record began
        entry("alloc", 3, 20, ("model.py", 4)),  # the peak: the first is not yet free
        entry("free_completed", 1, 100),
        entry("alloc", 1, 40, ("model.py", 4)),
        {"action": "oom", "size": 500, "frames": [], "device_free": 0},
    ]
    assert names["at_peak"](trace) == (150, [("model.py:3", 100), ("backward or library", 30), ("model.py:4", 20)])
    assert names["at_peak"]([]) == (0, [])


def test_a_batch_delete_carries_the_md5_of_its_body_beside_the_other_headers() -> None:
    params = {"body": b"The quick brown fox jumps over the lazy dog", "headers": {"x-amz-checksum-crc32": "QU/aOQ=="}}
    run_block("guides/s3-compatible-checksums.md")["add_content_md5"](params, model=None)
    assert params["headers"] == {"x-amz-checksum-crc32": "QU/aOQ==", "Content-MD5": "nhB9nTcrtoJr2B01QqQZ1g=="}
