"""The server's log: what each line names, what it shows of the texts of requests, and the file that it is kept in."""

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from listening import Listener
from servers import INITIALIZE, INITIALIZED, command, lines, request, search
from serving import MODERN
from support import GARDENING, build, markdown, write_files
from web_servers import OURS, web_server

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.server.log import JsonFormatter
from orchestr8_sqlite.server.log_file import SharedFileHandler, open_log_file
from orchestr8_sqlite.settings import LogFile
from orchestr8_sqlite.system import is_posix

FILES = {
    "skills/retry.md": markdown("title: Retry\nuseWhen: [Retrying a flaky call]"),
    "skills/pdf/SKILL.md": markdown("name: pdf\ndescription: Fill forms"),
    "skills/pdf/scripts/fill.py": "print('filled')\n",
    **GARDENING,
}
QUERY, VAIN = "Retrying a flaky call", "Zanzibar ferry timetable"
TRACE = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
ASKED: Sequence[Mapping[str, Any]] = [
    search(1, QUERY),
    request(2, "tools/call", name="search", arguments={"query": VAIN, "terms": ["dhow"]}),
    request(3, "resources/read", uri="orchestr8://match?query=Zanzibar+ferry&mode=full"),
    request(4, "tools/call", name="load", arguments={"uris": ["ferry to Zanzibar"]}),
]
"""Requests whose texts have no word in common with the library, but for the first."""

Line = Mapping[str, Any]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    return build(write_files(folder / "library", FILES), folder / "index.db")


def converse(index: Path, *said: object, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Return the end of a server over stdio to which all of *said* was sent; it logs JSON."""
    kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
    asked = lines(INITIALIZE, INITIALIZED, *said)
    environment = {**kept, "LOG_FORMAT": "json", **variables}
    return subprocess.run(command(index), input=asked, capture_output=True, env=environment, check=False)


def read_lines(text: bytes) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def of_requests(text: bytes) -> dict[int, Line]:
    """Return the lines that requests left, by the ids that the client gave them."""
    return {line["id"]: line for line in read_lines(text) if line["message"] == "request"}


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.lower().encode()).hexdigest()[:16]


# What each line names


def test_lines_of_a_request_share_a_name_and_those_of_a_connection_a_session(index: Path) -> None:
    first, second = (of_requests(converse(index, *ASKED).stderr) for _ in range(2))
    for found in (first, second):
        assert len({line["request_id"] for line in found.values()}) == len(found) == 1 + len(ASKED)
        assert len({line["session"] for line in found.values()}) == 1
    assert first[1]["session"] != second[1]["session"]
    assert not {line["request_id"] for line in first.values()} & {line["request_id"] for line in second.values()}


def test_what_goes_wrong_during_a_request_carries_its_name_too(tmp_path: Path) -> None:
    logged = read_lines(converse(tmp_path / "none.db", ASKED[0]).stderr)
    (line,) = (line for line in logged if line["message"] == "request" and line["id"] == 1)
    (problem,) = (line for line in logged if line["level"] == "error" and "request_id" in line)
    assert "There is no index" in problem["message"]
    assert [problem[name] for name in ("request_id", "session")] == [line[name] for name in ("request_id", "session")]


def test_every_line_of_a_request_names_the_trace_that_the_client_sent(tmp_path: Path) -> None:
    sent = [f"00-{TRACE}-01", f"00-{TRACE}-00", f"cc-{TRACE}-01-what-the-future-may-be-like"]
    asked = [
        request(number, "tools/call", name="search", arguments={"query": QUERY}, _meta={"traceparent": trace})
        for number, trace in enumerate(sent, start=1)
    ]
    done = converse(tmp_path / "none.db", *asked)
    named = {number: line.get("traceparent") for number, line in of_requests(done.stderr).items()}
    assert named == {0: None, 1: f"00-{TRACE}-01", 2: f"00-{TRACE}-00", 3: f"cc-{TRACE}-01"}
    problems = [line for line in read_lines(done.stderr) if line["level"] == "error" and "request_id" in line]
    assert sorted(line["traceparent"] for line in problems) == sorted(filter(None, named.values()))


def test_what_is_no_traceparent_is_ignored(index: Path) -> None:
    malformed = [
        f"00-{TRACE}-01-more",
        f"00-{TRACE}-01 ",
        f"00-{TRACE}",
        f"00-{TRACE}-1",
        f"ff-{TRACE}-01",
        f"cc-{TRACE}-01.more",
        f"00-{TRACE.upper()}-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "",
        7,
        None,
        {"trace": TRACE},
    ]
    asked = [
        request(number, "tools/call", name="search", arguments={"query": QUERY}, _meta={"traceparent": sent})
        for number, sent in enumerate(malformed, start=1)
    ]
    done = converse(index, *asked)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(one["id"] for one in answers if "result" in one) == [*range(len(malformed) + 1)]
    assert [line for line in of_requests(done.stderr).values() if "traceparent" in line] == []


def test_search_names_what_it_listed_and_what_it_did_not_cover(index: Path) -> None:
    found = of_requests(converse(index, *ASKED).stderr)
    assert (found[1]["uris"], found[1]["confident"], found[1]["mode"]) == (["orchestr8://skills/retry"], True, "index")
    assert (found[2]["confident"], found[2]["coverage"], found[2]["terms"]) == (False, 0.0, ["dhow"])
    assert {*found[2]["uncovered"]} >= {"zanzibar", "ferry"}
    assert found[3]["mode"] == "full"
    assert "uris" not in found[2]


def test_load_names_the_fragments_that_it_hands_out_as_the_index_has_them(index: Path) -> None:
    def load(number: int, *uris: str, **more: object) -> dict[str, object]:
        return request(number, "tools/call", name="load", arguments={"uris": uris, **more})

    retry, pdf = "orchestr8://skills/retry", "orchestr8://skills/pdf"
    asked = [
        load(1, "@orchestr8://Skill/retry", "pdf", "orchestr8://skills/none", retry),
        load(2, "orchestr8://match?query=retrying"),
        load(3, pdf, files=["scripts/fill.py"]),
        load(4, retry, pdf, maxTokens=4),
        request(5, "resources/read", uri="orchestr8://skill/retry"),
        request(6, "resources/read", uri="skill://pdf/SKILL.md"),
        request(7, "resources/read", uri="skill://pdf/scripts/fill.py"),
        request(8, "resources/read", uri="orchestr8://skills"),
        request(9, "tools/call", name="load_skill", arguments={"name": "pdf"}),
    ]
    found = of_requests(converse(index, *asked).stderr)
    loaded = {number: line["loaded"] for number, line in found.items() if "loaded" in line}
    assert loaded == {1: [retry, pdf], 3: [pdf], 5: [retry], 6: [pdf], 9: [pdf]}


# Texts of requests


def test_texts_go_only_to_standard_error_of_a_server_over_stdio(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    done = converse(index, *ASKED, ORCHESTR8_LOG_FILE=str(file), LOG_LEVEL="debug")
    shown, kept = of_requests(done.stderr), of_requests(file.read_bytes())
    assert (shown[1]["query"], shown[2]["query"], shown[2]["terms"]) == (QUERY, VAIN, ["dhow"])
    assert "ferry to Zanzibar" in shown[4]["mistake"]
    assert (kept[1]["query"], kept[2]["query"], kept[2]["terms"]) == (digest(QUERY), digest(VAIN), [digest("dhow")])
    assert {*kept[2]["uncovered"]} >= {digest("zanzibar"), digest("ferry")}
    assert b"zanzibar" not in file.read_bytes().lower()
    assert b"dhow" not in file.read_bytes().lower()
    same = {"request_id", "session", "latency_ms", "confident", "id"}
    assert [{name: line[name] for name in same if name in line} for line in kept.values()] == [
        {name: line[name] for name in same if name in line} for line in shown.values()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "expected"), [(None, digest(VAIN)), ("hash", digest(VAIN)), ("off", None), ("on", VAIN)]
)
def test_over_http_texts_are_logged_only_if_that_is_chosen(
    index: Path, tmp_path: Path, chosen: str | None, expected: str | None
) -> None:
    file = tmp_path / "server.log"
    variables = {"ORCHESTR8_LOG_FILE": str(file), "LOG_LEVEL": "debug"}
    if chosen is not None:
        variables["ORCHESTR8_LOG_QUERIES"] = chosen
    with web_server("--db", index, variables=variables) as server:
        for asked in ASKED:
            server.ask(asked["method"], **asked["params"])
    logged = [line for line in server.lines if line["message"] == "request"]
    kept = [line for line in read_lines(file.read_bytes()) if line["message"] == "request"]
    assert [line.get("query") for line in logged] == [line.get("query") for line in kept]
    assert kept[1].get("query") == expected
    assert ("zanzibar" in file.read_text().lower()) is (chosen == "on")
    assert ("zanzibar" in str(server.lines).lower()) is (chosen == "on")


@pytest.mark.parametrize("chosen", ["off", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hash", "on"))])
def test_choice_holds_for_standard_error_of_stdio_too(index: Path, chosen: str) -> None:
    shown = of_requests(converse(index, *ASKED, ORCHESTR8_LOG_QUERIES=chosen).stderr)
    assert shown[2].get("query") == {"off": None, "hash": digest(VAIN), "on": VAIN}[chosen]
    assert ("uncovered" in shown[2]) is (chosen != "off")


def test_digest_is_the_same_however_a_text_is_capitalised() -> None:
    formatter = JsonFormatter("hash")
    logged = [
        json.loads(formatter.format(logging.makeLogRecord({"msg": "request", "query": query})))["query"]
        for query in ("Fix CI", "fix ci", "fix cd")
    ]
    assert logged[0] == logged[1] != logged[2]


# The file


def test_nothing_of_the_log_is_written_to_standard_output(index: Path, tmp_path: Path) -> None:
    done = converse(index, *ASKED, ORCHESTR8_LOG_FILE=str(tmp_path / "server.log"), LOG_LEVEL="debug")
    assert {json.loads(line)["jsonrpc"] for line in done.stdout.splitlines()} == {"2.0"}
    assert len(done.stdout.splitlines()) == 1 + len(ASKED)
    assert len(of_requests((tmp_path / "server.log").read_bytes())) == 1 + len(ASKED)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no such device")
def test_standard_output_cannot_be_the_log_file(index: Path) -> None:
    done = converse(index, ORCHESTR8_LOG_FILE="/dev/stdout")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"ORCHESTR8_LOG_FILE /dev/stdout is no regular file; name one that can be rotated.\n"


def test_server_does_not_start_if_the_log_file_cannot_be_written(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "none" / "server.log"
    done = converse(index, ORCHESTR8_LOG_FILE=str(file))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"ORCHESTR8_LOG_FILE {file} cannot be written: No such file or directory.\n"


@pytest.mark.skipif(not is_posix(), reason="an open file cannot be removed")
def test_server_goes_on_and_says_once_that_its_log_file_is_gone(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    server = Listener(tmp_path, "--db", str(index), revision=MODERN, ORCHESTR8_LOG_FILE=str(folder / "server.log"))
    try:
        server.search(QUERY)
        shutil.rmtree(folder)
        for _ in range(3):
            assert "orchestr8://skills/retry" in server.search(QUERY)
        folder.mkdir()
        server.search(QUERY)
        server.end()
    finally:
        server.close()
    assert [line["reason"] for line in server.log if line["level"] == "error"] == ["No such file or directory"]
    assert len(of_requests((folder / "server.log").read_bytes())) == 1


WRITER = """
import logging, sys
from pathlib import Path
from orchestr8_sqlite.server.log_file import open_log_file
from orchestr8_sqlite.settings import LogFile
number, path, size, kept, count = int(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
handler = open_log_file(LogFile(path, size, kept))
print("ready", flush=True)
sys.stdin.read()
for line in range(count):
    handler.handle(logging.makeLogRecord({"msg": f"{number} {line} " + str(number) * (line * 37 % 9000)}))
"""


def write_together(file: Path, *, size: int, kept: int, writers: int = 4, count: int = 400) -> list[str]:
    """Let several processes log to *file* at once; return the lines that each of them wrote."""
    arguments = [str(file), str(size), str(kept), str(count)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(writers)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    for process in running:
        assert process.communicate(timeout=60) == (b"", b"")
    return [
        f"{number} {line} " + str(number) * (line * 37 % 9000) for number in range(writers) for line in range(count)
    ]


def logs_of(file: Path) -> list[Path]:
    return sorted(path for path in file.parent.iterdir() if path.name.startswith(file.name))


@pytest.mark.skipif(not is_posix(), reason="a file that two processes have open cannot be rotated there")
def test_processes_that_share_a_file_lose_and_tear_no_line_when_it_is_rotated(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    written = write_together(file, size=100_000, kept=90)
    found = logs_of(file)
    assert len(found) > 10
    assert sorted(line for log in found for line in log.read_text().splitlines()) == sorted(written)
    assert min(log.stat().st_size for log in found if log != file) >= 100_000  # none was rotated twice


@pytest.mark.skipif(not is_posix(), reason="a file that two processes have open cannot be rotated there")
def test_no_more_rotated_files_are_kept_than_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    written = write_together(file, size=50_000, kept=2)
    assert [log.name for log in logs_of(file)] == ["server.log", "server.log.1", "server.log.2"]
    kept = [line for log in logs_of(file) for line in log.read_text().splitlines()]
    assert len({*kept}) == len(kept)
    assert {*kept} < {*written}


@pytest.mark.skipif(not is_posix(), reason="a file that two processes have open cannot be rotated there")
def test_line_goes_to_the_new_file_if_another_process_has_rotated_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    one, other = (open_log_file(LogFile(file, 20, 5)) for _ in range(2))
    write_lines(other, ["before"])
    write_lines(one, ["a" * 20, "b"])
    other.doRollover()  # as if it had found the file full before
    write_lines(other, ["after"])
    assert [log.read_text().splitlines() for log in logs_of(file)] == [["b", "after"], ["before", "a" * 20]]
    for handler in (one, other):
        handler.close()


def test_file_that_another_program_has_open_grows_where_it_cannot_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, older = tmp_path / "server.log", tmp_path / "server.log.1"
    older.write_text("older\n")
    handler = open_log_file(LogFile(file, 10, 2))

    def held(self: Path, _: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", held)
    written = write_lines(handler, ["a" * 20, "b" * 20, "c" * 20])
    assert (file.read_text().splitlines(), older.read_text()) == (written, "older\n")
    assert caplog.messages == ["The log file cannot be rotated"]
    monkeypatch.undo()
    write_lines(handler, ["d" * 20])
    assert (file.read_text(), older.read_text().splitlines()) == ("d" * 20 + "\n", written)
    assert tmp_path.joinpath("server.log.2").read_text() == "older\n"
    handler.close()


def write_lines(handler: SharedFileHandler, texts: Sequence[str]) -> list[str]:
    for text in texts:
        handler.handle(logging.makeLogRecord({"msg": text}))
    return [*texts]


@pytest.mark.slow
@pytest.mark.skipif(not is_posix(), reason="several workers need a POSIX system")
def test_workers_share_a_rotated_file_and_name_sessions_alike(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    variables = {"ORCHESTR8_LOG_FILE": str(file), "ORCHESTR8_LOG_FILE_BYTES": "4000", "ORCHESTR8_LOG_FILE_COUNT": "99"}
    with web_server("--db", index, "--workers", "2", variables=variables) as server:
        asked = 0
        while len(server.workers()) < 2 or asked < 60:
            server.ask("tools/call", name="search", arguments={"query": f"retrying {asked}"}, headers=["User-Agent: a"])
            asked += 1
        server.ask("tools/call", name="search", arguments={"query": "retrying"}, headers=["User-Agent: b"])
    logged = [line for log in logs_of(file) for line in read_lines(log.read_bytes())]
    found = [line for line in logged if line["message"] == "request"]
    assert len(logs_of(file)) > 3
    assert len({line["request_id"] for line in found}) == len(found) == asked + 1
    assert len({line["worker"] for line in found}) == 2
    sessions = [line["session"] for line in sorted(found, key=lambda line: line["time"])]
    assert sorted(sessions.count(name) for name in {*sessions}) == [1, asked]
    assert {"serving", "stopped"} <= {line["message"] for line in logged}


def test_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is no regular file"):
        open_log_file(LogFile(tmp_path))
