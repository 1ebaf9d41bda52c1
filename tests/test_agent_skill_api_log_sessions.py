"""The script of the skill api-log-sessions joins log lines into calls and sessions, and prints no one's data."""

import gzip
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_skills import SKILLS, assert_refused, run_json, run_script

SCRIPT = ("api-log-sessions", "join_sessions.py")
BEGIN = datetime(2026, 11, 25, 8, tzinfo=UTC)


def line(at: float, request: str, status: int, took: float = 0.1, addr: str = "10.0.0.1", agent: str = "app") -> str:
    """Return a line whose request ends *at* seconds after the beginning, with a time to the millisecond."""
    method, _, uri = request.partition(" ")
    record = {"ts": (BEGIN + timedelta(seconds=at)).isoformat(), "remote_addr": addr, "user_agent": agent}
    return json.dumps(record | {"method": method, "uri": uri, "status": status, "request_time": took})


def combined(at: int, request: str, status: int, rest: str = "", addr: str = "10.0.0.1") -> str:
    stamp = (BEGIN + timedelta(seconds=at)).strftime("%d/%b/%Y:%H:%M:%S %z")
    return f'{addr} - - [{stamp}] "{request} HTTP/1.1" {status} 12 "-" "app"{rest}'


def report(*lines: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    return run_json(*SCRIPT, "-", *options, stdin="\n".join(lines) + "\n")


def found(report: dict[str, Any], kind: str) -> list[str]:
    return [one for one in report["findings"] if one.startswith(kind)]


def test_a_retry_that_works_makes_one_call_of_two_requests() -> None:
    done = report(line(1, "GET /a", 502), line(2, "GET /a", 200), line(3, "GET /b", 503), line(4, "GET /c", 404))
    assert (done["requests"], done["failed"], done["logical"], done["failed_logical"]) == (4, 2, 3, 1)
    assert done["retries"] == [
        {"name": "GET /a", "chains": 1, "extra": 1, "longest": 2, "recovered": 1, "wait_s": 0.9,
         "first_failures": {"502": 1}}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "second",
    [
        line(2, "GET /a", 200, addr="10.0.0.2"),
        line(2, "GET /a", 200, agent="other"),
        line(2, "GET /a?x=1", 200),
        line(2, "POST /a", 200),
        line(2.1, "GET /a", 200, took=1.5),
        line(62.2, "GET /a", 200),
    ],
)
def test_another_client_address_method_or_time_is_no_retry(second: str) -> None:
    assert report(line(1, "GET /a", 502), second)["retries"] == []


@pytest.mark.parametrize("head", ["Nov  5 08:00:00 web1 nginx: ", "Nov 25 08:00:00 web1 nginx: ", "web-1  | "])
def test_a_head_that_a_collector_aligned_with_two_spaces_is_skipped(head: str) -> None:
    done = report(*[head + combined(n, "GET /a", 502, addr=f"10.0.0.{n}") for n in range(3)])
    assert (done["requests"], done["clients"], done["left_out"]["unread"]) == (3, 3, 0)


def test_writes_that_may_be_done_twice_are_named() -> None:
    again = report(
        line(10, "POST /pay", 499, 9), line(12, "POST /pay", 201), line(30, "POST /b", 503), line(31, "POST /b", 201)
    )
    assert found(again, "double") == [
        "double   POST /pay: 1 times succeeded after an attempt that may have done the work too (499, 502, 504)"
    ]
    click = report(line(1, "POST /pay", 201), line(2, "POST /pay", 201), line(9, "POST /pay", 201))
    assert [one.split(" (")[0] for one in found(click, "double")] == [
        "double   POST /pay: 1 times sent again within 2 s of a success"
    ]


def test_retries_without_waits_and_retries_that_cannot_help_are_named() -> None:
    storm = report(*[line(1 + n / 5, "GET /a", 503) for n in range(4)])
    assert found(storm, "storm") == ["storm    GET /a: up to 4 attempts, 0.1 s between them"]
    patient = report(*[line(2**n, "GET /a", 503) for n in range(4)])
    assert found(patient, "storm") == []
    hopeless = report(*[line(n, "GET /a", 401) for n in range(5)], line(9, "GET /b", 401), line(10, "GET /b", 401))
    assert [one.split(":")[0] for one in found(hopeless, "hopeless")] == ["hopeless GET /a (401)"]


def test_the_time_limit_of_callers_shows_in_the_durations() -> None:
    ends = [30.0, 30.1, 29.9, 30.0, 12.0]
    done = report(*[line(100 * n, f"GET /a/{n}", 504, took) for n, took in enumerate(ends, 1)])
    assert found(done, "limit") == ["limit    GET /a/{n} (504): 4 of 5 end at 30.0 s: the proxy gives up there"]
    spread = report(*[line(100 * n, "GET /a", 504, 5.0 * n) for n in range(1, 7)])
    assert found(spread, "limit") == []


def test_sessions_end_after_silence_counted_from_the_end_of_a_request() -> None:
    lines = [line(0, "GET /a", 200), line(1700, "GET /a", 200), line(4000, "GET /a", 200, 450)]
    assert report(*lines)["sessions"] == 2
    assert report(*[line(0, "GET /a", 200), line(2100, "GET /b", 200, took=500)])["sessions"] == 1
    assert report(*lines, options=("--gap", "60"))["sessions"] == 1


def test_steps_are_followed_in_their_order_and_only_when_they_succeed() -> None:
    lines = [
        line(1, "GET /items/7", 200), line(11, "POST /cart", 500), line(21.2, "POST /cart", 201, 0.2),
        line(0, "POST /cart", 201, addr="10.0.0.2"), line(5, "GET /items/8", 200, addr="10.0.0.2"),
    ]  # fmt: skip
    items, cart = report(*lines, options=("--steps", "GET /items/*,POST /cart"))["steps"]
    assert (items["sessions"], cart["sessions"], cart["failed"]) == (2, 1, 1)
    assert (cart["between_p50_s"], cart["took_p50_s"]) == (20.0, 0.2)


def test_a_burst_says_whether_one_client_or_load_is_behind_it() -> None:
    calm = [line(60 * n + 5, f"GET /a?{n}", 200) for n in range(10)]
    one = [line(300 + n, f"GET /b?{n}", 500) for n in range(20)]
    (burst,) = report(*calm, *one)["bursts"]
    assert (burst["from"], burst["failed"], burst["of"], burst["clients"]) == ("2026-11-25 08:05", 20, 21, 1)
    assert (burst["top_client_share"], burst["load"], burst["top"]) == (1.0, 21.0, "GET /b")
    assert report(*calm, *one[:9])["bursts"] == []
    everywhere = [line(60 * m + n, f"GET /b?{n}", 500) for m in range(10) for n in range(12)]
    assert report(*everywhere)["bursts"] == []


def test_slow_places_are_ranked_by_their_share_of_time_with_nearest_rank_percentiles() -> None:
    lines = [line(n, f"GET /often/{n}", 200, n / 100) for n in range(1, 21)] + [line(50, "GET /rare", 200, 1.0)]
    first, second = report(*lines)["slow"]
    assert first == {"name": "GET /often/{n}", "count": 20, "p50_s": 0.1, "p95_s": 0.19, "max_s": 0.2, "share": 0.677}
    assert second["name"] == "GET /rare"


def test_one_call_for_each_row_is_named() -> None:
    assert report(*[line(n / 4, f"GET /a/{n}", 200, 0.01) for n in range(25)])["chatter"] == [
        {"name": "GET /a/{n}", "within_10_s": 25}
    ]
    assert report(*[line(n, f"GET /a/{n}", 200) for n in range(25)])["chatter"] == []


def test_whole_seconds_do_not_hide_a_retry_whose_end_was_rounded_down() -> None:
    lines = combined(10, "GET /a", 502, " 0.010"), combined(10, "GET /a", 200, " 0.300")
    assert report(*lines)["retries"][0]["recovered"] == 1


@pytest.mark.parametrize(("rest", "seconds"), [(" 0.4", 0.4), (' "0.4" "-"', 0.4), (" 3.5 0.250", 0.25)])
def test_a_time_with_one_decimal_is_read_unless_another_has_more(rest: str, seconds: float) -> None:
    (row,) = report(combined(10, "GET /a", 200, rest))["slow"]
    assert row["max_s"] == seconds


def test_units_and_the_meaning_of_the_time_are_asked_for() -> None:
    apache = combined(10, "GET /a", 200, " 2000000")
    assert found(report(apache), "caution")[-1] == (
        "caution  1 lines end in a whole number: say with --unit what it is"
    )
    (row,) = report(apache, options=("--unit", "us"))["slow"]
    assert row["max_s"] == 2.0
    assert report(apache, options=("--unit", "us", "--until", "2026-11-25T08:00:09Z"))["requests"] == 1
    late = run_script(
        *SCRIPT, "-", "--unit", "us", "--logged", "start", "--until", "2026-11-25T08:00:09Z", stdin=apache
    )
    assert (late.returncode, late.stdout.split(":")[0]) == (1, "no request left")


def test_caddy_traefik_and_epoch_milliseconds_are_read() -> None:
    lines = [
        (
            '{"ts": 1764057600.5, "request": {"remote_ip": "10.1.1.1", "method": "GET", "uri": "/a"},'
            ' "duration": 0.5, "status": 200}'
        ),
        (
            '{"StartUTC": "2025-11-25T08:00:00.123456789Z", "RequestMethod": "GET", "RequestPath": "/b",'
            ' "DownstreamStatus": 502, "Duration": 1500000000}'
        ),
        '{"time": 1764057603000, "method": "GET", "url": "https://x.test/c?d", "statusCode": 200, "responseTime": 12}',
    ]
    done = report(*lines)
    assert {row["name"]: row["max_s"] for row in done["slow"]} == {"GET /a": 0.5, "GET /b": 1.5, "GET /c": 0.012}
    assert (done["from"], done["to"]) == ("2025-11-25 08:00", "2025-11-25 08:00")


def test_a_retry_after_a_time_limit_is_joined_in_the_default_json_of_traefik() -> None:
    def line(start: int, took: int, status: int) -> str:
        fields = {"ClientHost": "192.0.2.1", "RequestMethod": "POST", "RequestPath": "/pay", "DownstreamStatus": status}
        ends = f"2026-11-25T08:00:{start + took:02}Z"
        times = {"StartUTC": f"2026-11-25T08:00:{start:02}.123456789Z", "Duration": took * 1_000_000_000, "time": ends}
        return json.dumps(fields | times)

    done = report(line(0, 10, 499), line(11, 1, 201))
    assert len(found(done, "double")) == 1


def test_zones_are_counted_in() -> None:
    berlin = combined(10, "GET /a", 200).replace("08:00:10 +0000", "09:00:10 +0100")
    assert report(berlin)["from"] == "2026-11-25 08:00"


def test_nothing_of_a_person_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    uris = [
        "/u/ann@example.com",
        "/t/eyJhbGciOiJIUzI1NiJ9.e30",
        "/s/9f8e7d6c5b4a39281706",
        "/cus_8sk2Kd92",
        "/o/ORD-2026-00017",
        "/inv/INV-2026-17.pdf",
        "/p/%2B491701234567",
        "/track/1Z999AA10123456784",
        "/Orders(4711)",
        "/of/44,55",
        "/a?token=geheim",
    ]
    path.write_text("\n".join(line(n, f"GET {uri}", 500, addr="192.0.2.77", agent="Bob") for n, uri in enumerate(uris)))
    for output in (run_script(*SCRIPT, path).stdout, run_script(*SCRIPT, path, "--json").stdout):
        assert "GET /u/{id}" in output
        assert not [
            word
            for word in "ann eyJ 9f8e 8sk2 ORD INV 4917 1Z9 4711 44,55 geheim 192.0.2 Bob".split()
            if word in output
        ]


def test_what_is_left_out_is_counted() -> None:
    scan = combined(1, "x", 400).replace('"x HTTP/1.1"', r'"\x16\x03"')
    done = report(line(1, "GET /a", 200), line(2, "GET /a.css", 200), scan, "nonsense", '{"a": ', "x" * 70_000)
    assert done["left_out"] == {"static": 1, "filtered": 0, "no HTTP": 1, "unread": 3}
    assert found(done, "caution") == ["caution  3 lines are no access log, first -:4"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "abc"), ("status", 10**20), ("status", -1), ("request_time", 1e999), ("request_time", "NaN"),
        ("request_time", -5), ("ts", 1e400), ("ts", []), ("ts", "yesterday"), ("uri", None),
    ],
)  # fmt: skip
def test_a_line_with_an_impossible_value_is_left_out_and_counted(field: str, value: object) -> None:
    odd = json.dumps(json.loads(line(2, "GET /b", 200)) | {field: value})
    assert report(line(1, "GET /a", 200), odd)["left_out"]["unread"] == 1


def test_one_address_for_nearly_all_requests_is_taken_for_a_proxy() -> None:
    lines = [line(n, f"GET /{n}", 200, addr="10.0.0.1" if n else "10.0.0.2") for n in range(100)]
    assert found(report(*lines), "caution") == [
        "caution  one address has 99 % of the requests: a proxy? sessions are then mixed"
    ]


def test_packed_files_are_read_and_damaged_ones_refused(tmp_path: Path) -> None:
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress("\n".join(line(n, f"GET /{n}", 200) for n in range(99)).encode()))
    assert run_json(*SCRIPT, packed)["requests"] == 99
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-40])
    assert_refused(run_script(*SCRIPT, packed), "a.log.gz", "ended before")
    packed.write_bytes(b"no gzip")
    assert_refused(run_script(*SCRIPT, packed), "a.log.gz")
    packed.write_bytes(whole[:30] + b"\xff\xff\xff\xff" + whole[34:])
    assert_refused(run_script(*SCRIPT, packed), "a.log.gz")


@pytest.mark.parametrize("content", [b"", b"\n", b"hello\n", b'{"a": 1}\n', b"\x00\x01", "é\n".encode("utf-16")])
def test_what_is_no_access_log_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.log").write_bytes(content)
    assert_refused(run_script(*SCRIPT, tmp_path / "a.log"), "cannot read")
    assert_refused(run_script(*SCRIPT, tmp_path / "none"), "none")


@pytest.mark.parametrize("address", ["10.0.0.1:{}", "[2001:db8::1]:{}", "10.0.0.1, 10.9.9.9:{}"])
def test_the_port_of_a_connection_does_not_make_a_client(address: str) -> None:
    lines = (line(n, "GET /a", 200 if n == 2 else 502, addr=address.format(5000 + n)) for n in (1, 2))
    assert report(*lines)["clients"] == 1


@pytest.mark.parametrize(
    "before", ["x.test:443 ", "2026-11-25T08:00:0{}Z ", "Nov 25 08:00:0{} host nginx: ", "stdout {} "]
)
def test_what_a_server_or_collector_puts_before_the_address_is_not_the_client(before: str) -> None:
    done = report(
        before.format(1) + combined(1, "GET /a", 502),
        before.format(2) + combined(2, "GET /a", 200),
        before.format(3) + combined(3, "GET /a", 200, addr="2001:db8::7"),
    )
    assert (done["clients"], done["retries"][0]["recovered"]) == (2, 1)


def test_requests_without_the_field_that_tells_clients_apart_are_counted() -> None:
    done = report(line(1, "GET /a", 200), combined(2, "GET /b", 200), options=("--client", "user_id"))
    assert found(done, "caution")[0] == "caution  2 requests have no user_id: all of them count as one client"
    assert "no user:" in found(report(combined(2, "GET /b", 200), options=("--client", "user")), "caution")[0]
    assert run_script(*SCRIPT, "-", "--client", ",", stdin=combined(2, "GET /b", 200)).returncode == 2


def test_the_same_requests_in_two_files_are_noticed(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("\n".join(line(n, f"POST /{n}", 201) for n in range(10)))
    done = run_json(*SCRIPT, tmp_path / "a.log", tmp_path / "b.log")
    assert "10 requests are logged twice" in found(done, "caution")[0]
    assert found(run_json(*SCRIPT, tmp_path / "a.log"), "caution") == []


def test_a_write_counts_as_doubled_if_any_attempt_before_may_have_done_it() -> None:
    done = report(line(1, "POST /a", 499), line(2, "POST /a", 503), line(3, "POST /a", 201))
    assert len(found(done, "double")) == 1
    unfinished = report(line(1, "POST /a", 408), line(2, "POST /a", 201))
    assert found(unfinished, "double") == []


def test_limits_hold_to_the_millisecond() -> None:
    assert report(line(1.3, "GET /a", 502), line(61.4, "GET /a", 200))["retries"][0]["recovered"] == 1
    assert report(line(1.3, "GET /a", 502), line(61.402, "GET /a", 200))["retries"] == []
    assert report(line(0, "GET /a", 200), line(1800.1, "GET /b", 200))["sessions"] == 2
    assert report(line(0, "GET /a", 200), line(1800, "GET /b", 200))["sessions"] == 1


def test_the_logged_milliseconds_are_used() -> None:
    text = json.dumps(json.loads(line(1, "GET /a", 502)) | {"time_iso8601": "2026-11-25T08:00:01+00:00"})
    first, second = (json.dumps(json.loads(text) | {"msec": f"{BEGIN.timestamp() + at:.3f}"}) for at in (1.25, 1.75))
    assert report(first, second)["retries"][0]["wait_s"] == 0.4


def test_pino_and_the_request_line_in_one_field_are_read() -> None:
    pino = {"time": 1764057600000, "req": {"method": "get", "url": "/a", "remoteAddress": "::1"}, "responseTime": 3}
    nginx = {"time_iso8601": "2026-11-25T08:00:01Z", "remote_addr": "::1", "request": "POST /b?t=1 HTTP/2.0"}
    done = report(
        json.dumps(pino | {"res": {"statusCode": 200}}), json.dumps(nginx | {"status": 200, "request_time": 0.5})
    )
    assert {row["name"]: row["max_s"] for row in done["slow"]} == {"GET /a": 0.003, "POST /b": 0.5}


@pytest.mark.parametrize("stamp", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:00:00Z"])
def test_a_time_that_no_request_has_leaves_the_line_out(stamp: str) -> None:
    odd = json.dumps(json.loads(line(2, "GET /b", 200)) | {"ts": stamp, "request_time": 9.5})
    assert report(line(1, "GET /a", 200), odd)["left_out"]["unread"] == 1


def test_whole_numbers_taken_for_seconds_are_named() -> None:
    assert found(report(line(100, "GET /a", 200, 35)), "caution") == [
        "caution  1 times taken are whole numbers, taken for seconds: say with --unit what they are"
    ]
    done = report(line(100, "GET /a", 200, 35), options=("--unit", "ms"))
    assert (found(done, "caution"), done["slow"][0]["max_s"]) == ([], 0.035)


def test_steps_with_numbers_are_found_and_steps_that_no_request_has_are_named() -> None:
    done = report(line(1, "GET /items/7", 200), options=("--steps", "GET /items/7,GET /itmes"))
    assert [row["sessions"] for row in done["steps"]] == [1, 0]
    assert found(done, "caution") == ["caution  no request looks like the step GET /itmes"]


def test_uploads_are_not_left_out_as_static_files() -> None:
    done = report(line(1, "POST /files/a.png", 500), line(2, "GET /a.png", 200))
    assert (done["requests"], done["failed"]) == (1, 1)


@pytest.mark.parametrize(
    "uri",
    [
        "/cart;jsessionid=geheim", "/a%3Ftoken=geheim", "/a%3bs=geheim", "/u/geheim%2540example.com",
        "/ip/192.0.2.77", "/tel/+4930901820", "https://geheim:pw@x.test/a", "/a#geheim",
    ],
)  # fmt: skip
def test_ids_in_odd_places_are_not_printed(uri: str) -> None:
    done = run_script(*SCRIPT, "-", stdin=line(1, f"GET {uri}", 500))
    assert not [word for word in ("geheim", "192.0.2", "901820") if word in done.stdout]


@pytest.mark.parametrize(("mark", "limits"), [("", 0), ("@", 1)])
def test_ids_in_mixed_case_make_one_path_only_when_they_are_marked(mark: str, limits: int) -> None:
    lines = [line(60 * n + 10, f"POST /orders/pLIix6MEO{n}{mark}/pay", 499, 10.0) for n in range(6)]
    assert len(found(report(*lines), "limit")) == limits


@pytest.mark.parametrize("method", ["GET\x1b[31m", "\ud800", "G\nET"])
def test_what_is_no_method_is_not_printed(method: str) -> None:
    odd = json.dumps(json.loads(line(1, "GET /a", 500)) | {"method": method})
    done = run_script(*SCRIPT, "-", stdin=odd)
    assert (done.returncode, done.stdout.splitlines()[-1].split("  ")[-1]) == (0, "? /a")


def test_a_hostile_file_name_is_printed_without_its_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb.log"
    assert_refused(run_script(*SCRIPT, path), "a?[31m?b.log")
    path.write_text(line(1, "GET /a", 200) + "\njunk\n")
    assert "a?[31m?b.log:2" in run_script(*SCRIPT, path).stdout


def test_help_names_the_formats() -> None:
    assert "Caddy" in run_script(*SCRIPT, "--help").stdout


def test_requests_alike_only_in_whole_seconds_are_not_taken_for_one() -> None:
    done = report(*[combined(1, "GET /a", 503)] * 20)
    assert not [one for one in found(done, "caution") if "twice" in one]


@pytest.mark.parametrize(
    "around",
    ["web-1  | {}", "[pod/api-7/app] {}", "2026-11-25T08:00:01.1Z stdout F {}", "Nov 25 08:00:01 host api[7]: {}"],
)
def test_json_lines_behind_what_a_collector_puts_before_them_are_read(around: str) -> None:
    done = report(around.replace("{}", line(1, "GET /a", 502)), around.replace("{}", line(2, "GET /a", 200)))
    assert (done["requests"], done["retries"][0]["recovered"]) == (2, 1)


def test_lines_inside_the_json_of_docker_are_read() -> None:
    inside = combined(1, "GET /a", 502), line(2, "GET /b", 200)
    done = report(
        *[json.dumps({"log": one + "\n", "stream": "stdout", "time": "2026-11-25T08:00:09Z"}) for one in inside]
    )
    assert (done["requests"], done["failed"], done["to"]) == (2, 1, "2026-11-25 08:00")
    assert report(json.dumps({"log": "started\n"}), combined(1, "GET /a", 200))["left_out"]["unread"] == 1


def test_the_milliseconds_of_traefik_are_read() -> None:
    done = report(combined(9, "GET /a", 200, ' 7 "app@docker" "http://10.0.0.5:80" 1500ms'))
    assert (done["slow"][0]["max_s"], found(done, "caution")) == (1.5, [])
    again = combined(9, "GET /a", 504, ' 7 "-" "-" 5000ms'), combined(12, "GET /a", 200, ' 8 "-" "-" 10ms')
    assert report(*again)["retries"] == []


def test_the_script_without_its_folder_says_what_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "join_sessions.py"
    script.write_bytes((SKILLS.joinpath(*SCRIPT[:1], "scripts", SCRIPT[1])).read_bytes())
    done = subprocess.run([sys.executable, script, "a.log"], capture_output=True, encoding="utf-8", check=False)
    assert_refused(done, "access_sessions", "copy it")


def test_nanoseconds_need_their_unit_and_are_no_reason_to_refuse_the_line() -> None:
    echo = [
        json.dumps({"time": f"2026-11-25T08:00:0{n}.5Z", "remote_ip": "10.0.0.1", "method": "POST", "uri": "/pay"})[:-1]
        + ', "status": 504, "latency": 10000000000}'
        for n in range(6)
    ]
    assert [one.split(": ")[0] for one in found(report(*echo, options=("--unit", "ns")), "limit")] == [
        "limit    POST /pay (504)"
    ]
    told = found(report(*echo), "caution")
    assert any("say with --unit what they are" in one for one in told)
