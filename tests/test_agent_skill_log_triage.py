"""The script of the skill log-triage brings a long log down to its messages, and says which are new and when."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("log-triage", "group_log_lines.py")


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def groups(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    return {group["template"]: group for group in run_json(*SCRIPT, *arguments)["groups"]}


def test_lines_that_differ_in_numbers_and_addresses_are_one_message(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        "2026-11-21T10:00:01Z INFO sent 12 bytes to 10.0.0.1:80",
        "2026-11-21T10:00:03Z INFO sent 7 bytes to 10.0.0.2:81",
        "2026-11-21T10:00:02Z ERROR order 0fd1a2b3 lost",
    )
    found = groups(log)
    assert list(found) == ["ERROR order <hex> lost", "INFO sent <n> bytes to <ip>"]
    assert found["INFO sent <n> bytes to <ip>"]["count"] == 2
    assert found["ERROR order <hex> lost"]["first"] == "2026-11-21 10:00:02"


def test_a_stack_trace_belongs_to_the_entry_before_it(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        "2026-11-21 10:00:01 ERROR payment failed",
        "Traceback (most recent call last):",
        '  File "a.py", line 1',
        "  raise requests.ConnectTimeout(1)",
        "2026-11-21 10:00:02 INFO next",
    )
    report = run_json(*SCRIPT, log)
    assert (report["lines"], report["entries"]) == (5, 2)
    assert report["groups"][0]["exceptions"] == {"ConnectTimeout": 1}


def test_messages_that_a_good_day_lacks_are_new_and_come_first(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", "2026-11-20 10:00:00 ERROR retry 1 of 3")
    bad = write(
        tmp_path / "bad.log",
        *["2026-11-21 10:00:00 ERROR retry 2 of 3"] * 5,
        "2026-11-21 10:00:09 WARN certificate expires in 0 days",
    )
    found = groups(bad, "--baseline", good)
    assert [(group["new"], group["count"]) for group in found.values()] == [(True, 1), (False, 5)]
    shown = run_script(*SCRIPT, bad, "--baseline", good).stdout
    assert "NEW WARN certificate" in shown
    assert "bad.log:6" in shown


def test_a_minute_far_above_the_usual_is_a_burst(tmp_path: Path) -> None:
    lines = [f"2026-11-21 10:{minute:02d}:00 WARN slow" for minute in range(5)]
    lines += [f"2026-11-21 10:07:{second:02d} WARN slow" for second in range(12)]
    assert groups(write(tmp_path / "a.log", *lines))["WARN slow"]["burst"] == "12 in 10:07"


def test_times_without_a_year_have_their_bursts_by_minute(tmp_path: Path) -> None:
    lines = [f"Nov 21 13:{minute:02d}:00 host app[1]: WARN slow" for minute in range(5)]
    lines += [f"Nov 21 13:07:{second:02d} host app[1]: WARN slow" for second in range(60)]
    assert [one["burst"] for one in groups(write(tmp_path / "a.log", *lines)).values()] == ["60 in 13:07"]


def test_json_lines_and_access_logs_have_their_own_levels(tmp_path: Path) -> None:
    records = [{"level": 50, "time": 1763700000000, "msg": "boom 12"}, {"level": "info", "message": "fine"}]
    log = write(
        tmp_path / "a.log",
        *map(json.dumps, records),
        '10.0.0.1 - - [21/Nov/2026:10:00:00 +0000] "GET /items/7 HTTP/1.1" 503 12 "-" "curl/8"',
    )
    report = run_json(*SCRIPT, log)
    assert report["levels"] == {"error": 2, "info": 1}
    boom = next(group for group in report["groups"] if group["template"] == "boom <n>")
    assert boom["first"] == "2025-11-21 04:40:00"


def test_a_word_with_many_variants_is_masked_but_few_are_kept(tmp_path: Path) -> None:
    names = ["ann", "bob", "eve", "joe", "kim", "lee", "max", "ned"]
    log = write(tmp_path / "a.log", *[f"INFO login {name} ok" for name in names], "INFO start web", "INFO start job")
    assert sorted(groups(log)) == ["INFO login <*> ok", "INFO start job", "INFO start web"]


def test_time_and_level_filters_narrow_and_an_empty_rest_has_its_own_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(b"2026-11-21 10:00:00 INFO a\n2026-11-21 11:00:00 ERROR b\n"))
    assert list(groups(path, "--since", "2026-11-21 10:30")) == ["ERROR b"]
    assert list(groups(path, "--level", "warn")) == ["ERROR b"]
    assert run_script(*SCRIPT, path, "--level", "fatal").returncode == 1


def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, tmp_path / "none.log"), "No such file")
    (tmp_path / "a.gz").write_bytes(b"no gzip")
    assert_refused(run_script(*SCRIPT, tmp_path / "a.gz"), "a.gz")


def test_passwords_and_tokens_are_not_printed(tmp_path: Path) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNry"
    log = write(
        tmp_path / "a.log",
        f"2026-11-21 10:00:00 ERROR login password=hunter2 token: {token}",
        f"2026-11-21 10:00:01 ERROR got Authorization: Bearer {token} from x",
        f"2026-11-21 10:00:02 ERROR jwt {token} for postgres://app:pa55word@db/x",
        json.dumps({"level": "error", "msg": 'sent {"api_key": "abcdefgh"}'}),
    )
    done = run_script(*SCRIPT, log, "--json")
    assert not [secret for secret in ("hunter2", "eyJ", "pa55word", "abcdefgh") if secret in done.stdout]
    assert "ERROR login password=<secret> token: <secret>" in done.stdout


def test_times_of_options_are_read_as_those_of_entries_or_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", "2026-11-21T10:00:00Z INFO a", "2026-11-21T11:00:00Z INFO b")
    assert list(groups(log, "--since", "2026-11-21T10:30:00Z")) == ["INFO b"]
    done = run_script(*SCRIPT, log, "--since", "yesterday")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'yesterday' is not written" in done.stderr


def test_utf_16_is_read_and_binary_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes("2026-11-21 10:00:00 ERROR a\r\n".encode("utf-16"))
    assert list(groups(path)) == ["ERROR a"]
    path.write_bytes(bytes(range(256)) * 20)
    assert_refused(run_script(*SCRIPT, path), "binary")


def test_a_message_with_more_variants_than_on_the_good_day_is_not_new(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", "2026-11-20 10:00:00 INFO login ann ok")
    log = write(tmp_path / "a.log", *[f"2026-11-21 10:00:00 INFO login {name}x ok" for name in "abcdefghi"])
    assert [group["new"] for group in groups(log, "--baseline", good).values()] == [False]


def test_a_baseline_without_entries_is_refused_because_it_would_leave_nothing_new(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", "2026-11-21 10:00:00 ERROR disk full")
    assert_refused(run_script(*SCRIPT, log, "--baseline", write(tmp_path / "good.log")), "baseline", "no entries")


def test_a_message_that_is_an_object_keeps_its_words_but_not_its_secrets(tmp_path: Path) -> None:
    """As AWS Lambda writes an object that was logged."""
    said = [{"what": "card declined", "order": 1}, {"what": "pool exhausted", "order": 2, "password": "not for you"}]
    records = [{"timestamp": "2026-11-21T10:00:00Z", "level": "ERROR", "message": one} for one in said]
    log = write(tmp_path / "a.log", *map(json.dumps, records))
    assert set(groups(log)) == {
        "what=card declined order=<n>", 'what=pool exhausted order=<n> password="<secret>"',
    }  # fmt: skip


def test_a_coloured_level_in_json_is_a_level(tmp_path: Path) -> None:
    record = {"timestamp": "2026-11-21T10:00:00", "level": "\x1b[31merror\x1b[39m", "message": "\x1b[1mlost\x1b[0m 7"}
    found = groups(write(tmp_path / "a.log", json.dumps(record)), "--level", "warn")
    assert {name: group["level"] for name, group in found.items()} == {"lost <n>": "error"}


def test_docker_lines_and_nanoseconds_are_understood(tmp_path: Path) -> None:
    records = [
        {"log": "ERROR boom\n", "stream": "stderr", "time": "2026-11-21T10:00:00.1Z"},
        {"ts": 1763700000000000000, "level": "warn", "msg": "slow"},
    ]
    found = groups(write(tmp_path / "a.log", *map(json.dumps, records)))
    assert [(one["template"], one["level"], one["first"]) for one in found.values()] == [
        ("ERROR boom", "error", "2026-11-21 10:00:00"),
        ("slow", "warn", "2025-11-21 04:40:00"),
    ]


def test_colours_hide_no_level_and_stay_in_no_message(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log", "\x1b[90m2026-11-21T10:00:01Z\x1b[0m \x1b[1;31mERROR\x1b[0m lost \x1b[36morder\x1b[0m"
    )
    (found,) = run_json(*SCRIPT, log)["groups"]
    assert (found["level"], found["template"]) == ("error", "ERROR lost order")
    assert found["first"] == "2026-11-21 10:00:01"


def test_a_traceback_before_the_format_is_known_belongs_to_its_entry(tmp_path: Path) -> None:
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: no"]
    chained = [*trace, "During handling of the above exception, another exception occurred:", *trace]
    log = write(tmp_path / "a.log", "2026-11-21 10:00:01 ERROR failed", *chained, "2026-11-21 10:00:02 INFO next")
    report = run_json(*SCRIPT, log)
    assert report["entries"] == 2
    assert report["groups"][0]["exceptions"] == {"ValueError": 2}


def test_objects_after_a_time_are_read_as_objects_and_those_in_a_text_as_text(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        '2026-11-21T10:00:01.5Z {"level":50,"time":1795255201500,"reqId":"a1","msg":"payment failed"}',
        '2026-11-21T10:00:02.5Z stderr F {"level":"error","reqId":"b2","msg":"payment failed"}',
        '2026-11-21T10:00:03+0000 host app[7]: {"level":"error","reqId":"c3","msg":"payment failed"}',
        '2026-11-21T10:00:04Z INFO got {"msg":"hello"}',
        '2026-11-21T10:00:05Z warn {"a":1}',
    )
    found = groups(log)
    assert found["payment failed"]["count"] == 3
    assert found["payment failed"]["level"] == "error"
    assert found["payment failed"]["first"] == "2026-11-21 10:00:01"
    assert {group["level"] for group in found.values()} == {"error", "info", "warn"}


def test_both_forms_of_serilog_are_read(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        '{"@t":"2026-11-21T10:00:01Z","@mt":"Started {Name}","Name":"x"}',
        '{"@t":"2026-11-21T10:00:02Z","@mt":"Lost {Name}","@l":"Warning","Name":"x"}',
        '{"Timestamp":"2026-11-21T10:00:03Z","Level":"Information","MessageTemplate":"Ready","Properties":{}}',
    )
    assert {template: (group["level"], group["first"][-8:]) for template, group in groups(log).items()} == {
        "Started {Name}": ("info", "10:00:01"),
        "Lost {Name}": ("warn", "10:00:02"),
        "Ready": ("info", "10:00:03"),
    }


def test_an_error_whose_time_has_another_form_is_not_lost_in_the_entry_before(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        *["2026-11-21 10:00:01 INFO fine"] * 8,
        "11/21/2026 10:00:09 ERROR disk full",
        "12 more lines of the trace",
    )
    report = run_json(*SCRIPT, log, "--level", "error")
    assert [(group["count"], group["first"]) for group in report["groups"]] == [(1, "")]


def test_levels_and_times_are_read_as_other_programs_write_them(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        "E1121 13:20:19.123456       1 reflector.go:1] klog",
        "21-Nov-2026 10:00:00.123 SEVERE [main] tomcat",
        "[Sat Nov 21 10:00:00.123456 2026] [core:error] [pid 1] apache",
        "2026-11-21T10:00:00.1Z stderr F E1121 13:20:19.123456       1 reflector.go:1] klog behind a time",
        "11-21 13:20:19.123  123  456 E Tag: android",
        "<11>Nov 21 10:00:00 host app: priority",
        "1:M 21 Nov 2026 10:00:00.123 # WARNING redis",
        "2026-11-21 10:00:00 kernel: Out of memory: Killed process 1",
        '1.1.1.1 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 502',
    )
    report = run_json(*SCRIPT, log)
    assert (report["levels"], report["without_time"]) == ({"error": 8, "warn": 1}, 0)
    assert {group["first"] for group in report["groups"]} == {
        "2026-11-21 10:00:00",
        "11-21 13:20:19",
        "11-21 10:00:00",
    }


def test_json_of_other_loggers_has_their_levels(tmp_path: Path) -> None:
    records = [
        {"message": "monolog", "level": 400, "level_name": "ERROR", "datetime": "2026-11-21T10:00:00.1+00:00"},
        {"short_message": "gelf", "level": 3, "timestamp": 1763700000.1},
        {"MESSAGE": "journal", "PRIORITY": "3", "__REALTIME_TIMESTAMP": "1763700000123456"},
        {"@timestamp": "2026-11-21T10:00:00Z", "log": {"level": "error"}, "message": "ecs"},
        {"time": "2026-11-21T10:00:00Z", "status": 502, "msg": "access"},
    ]
    found = groups(write(tmp_path / "a.log", *map(json.dumps, records)))
    assert {group["level"] for group in found.values()} == {"error"}
    assert [found[name]["first"] for name in ("monolog", "journal")] == ["2026-11-21 10:00:00", "2025-11-21 04:40:00"]


def test_a_stack_trace_belongs_to_its_entry_where_each_line_has_a_time_of_kubectl(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    lines = [f"13:0{n}:00,100 INFO ok" for n in range(5)]
    lines += ["13:15:01,100 ERROR order failed", "", "java.lang.IllegalStateException: x", "\tat com.x.Foo(Foo.java:1)"]
    lines += ["Caused by: java.net.ConnectException: refused", "13:16:00,100 INFO ok"]
    inner = [f"2026-11-21 {line}" if line[:2] == "13" else line for line in lines]
    log.write_text("".join(f"2026-11-21T12:15:0{n % 10}.{n:09}Z {line}\n" for n, line in enumerate(inner)))
    report = run_json(*SCRIPT, log, "--level", "warn")
    (group,) = report["groups"]
    assert (group["template"], group["first"]) == ("ERROR order failed", "2026-11-21 12:15:05")
    assert group["exceptions"] == {"IllegalStateException": 1, "ConnectException": 1}
    assert (report["entries"], report["without_time"], report["left_out"]) == (7, 0, [])
    lines = [f"2026-11-21 13:00:0{n} INFO ok" for n in range(6)]
    lines += ["panic: boom", "\tmain.go:1", "Error: refused", "2026-11-21 13:01:00 INFO ok"]
    log.write_text("".join(f"2026-11-21T12:15:0{n}.{n:09}Z stderr F {line}\n" for n, line in enumerate(lines)))
    assert [one["template"] for one in run_json(*SCRIPT, log)["groups"]] == ["panic: boom", "Error: refused", "INFO ok"]


def test_the_prefix_of_compose_and_kubectl_is_kept_before_what_it_stands_for(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log",
        'web-1  | {"level":50,"time":1763700000000,"msg":"boom"}',
        "web-1  | 2026-11-21T10:00:00Z ERROR lost",
        "web-1  |     at foo (x.js:1) TypeError",
        '[pod/api-x/app] {"level":"error","msg":"full"}',
    )
    found = groups(log, "--level", "error")
    assert list(found) == ["web-<n> | boom", "web-<n> | ERROR lost", "[pod/api-x/app] full"]
    assert found["web-<n> | ERROR lost"]["exceptions"] == {"TypeError": 1}


def test_the_level_on_the_line_after_the_time_makes_an_entry_of_its_own(tmp_path: Path) -> None:
    lines = [line for _ in range(9) for line in ("Nov 21, 2026 1:20:19 PM org.x.Foo bar", "SEVERE: boom")]
    boom = groups(write(tmp_path / "a.log", *lines), "--level", "error")["SEVERE: boom"]
    assert (boom["count"], boom["first"]) == (9, "2026-11-21 13:20:19")


def test_what_a_filter_drops_for_want_of_a_level_or_time_is_told(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.log", "11/21/2026 10:00:00 ERROR a", "2026-11-21 10:00:00 slow", "2026-11-21 10:00:00 WARN b"
    )
    report = run_json(*SCRIPT, log, "--level", "warn", "--since", "2026-11-21 09:00")
    assert report["left_out"] == [
        "1 entries without a level, by --level",
        "1 entries without a time, by --since or --until",
    ]
    assert "left out  1 entries without a level, by --level" in run_script(*SCRIPT, log, "--level", "warn").stdout


def test_a_limit_with_a_year_is_not_compared_with_times_that_have_none(tmp_path: Path) -> None:
    syslog = write(tmp_path / "a.log", "Nov 21 10:00:00 host app: error: a")
    dated = write(tmp_path / "b.log", "2026-11-21 10:00:00 ERROR a")
    for log, since in ((syslog, "2026-11-21 09:00"), (dated, "11-21 11:00"), (dated, "11-21 09:00")):
        done = run_script(*SCRIPT, log, "--since", since)
        assert done.returncode == 1
        assert "left out  1 entries: --since or --until has a year and their time none, or vice versa" in done.stdout
    assert run_script(*SCRIPT, syslog, "--since", "11-21 09:00").returncode == 0


def test_the_level_field_goes_before_words_that_look_like_levels(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", "2026-11-21 10:00:00 err=none level=info msg=x")
    assert run_json(*SCRIPT, log)["levels"] == {"info": 1}


def test_a_compressed_file_without_its_suffix_is_refused_however_small(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(gzip.compress(b"ERROR boom\n"))
    assert_refused(run_script(*SCRIPT, path), "other compression")


def test_a_level_before_a_bar_is_a_level_and_no_container(tmp_path: Path) -> None:
    assert list(groups(write(tmp_path / "a.log", "ERROR | lost", "api | fine"), "--level", "error")) == ["ERROR | lost"]


def test_the_crash_after_harmless_entries_is_an_error_of_its_own(tmp_path: Path) -> None:
    calm = [f"2026-11-21 10:00:0{n} INFO served" for n in range(8)]
    for crash, level in (
        (["panic: runtime error: index out of range", "", "goroutine 1 [running]:", "main.main()"], "fatal"),
        (["thread 'main' panicked at src/main.rs:2:5:", "boom"], "fatal"),
        (['Exception in thread "main" java.lang.IllegalStateException: x', "\tat a.B.c(B.java:1)"], "error"),
        (["Traceback (most recent call last):", '  File "a.py", line 1', "ValueError: x"], "error"),
    ):
        (group,) = groups(write(tmp_path / "a.log", *calm, *crash), "--level", "error").values()
        assert (group["level"], group["count"], group["last"]) == (level, 1, "2026-11-21 10:00:07")
    assert group["exceptions"] == {"ValueError": 1}


def test_secrets_in_quotes_escaped_json_and_long_names_are_hidden_whole(tmp_path: Path) -> None:
    forms = ('password="correct horse battery"', r"{\"token\":\"horse77\"}", "aws_secret_access_key = horse77")
    log = write(tmp_path / "a.log", *(f"2026-11-21 13:20:19 ERROR {form}" for form in forms))
    done = run_script(*SCRIPT, log)
    assert "horse" not in done.stdout
    assert done.stdout.count("<secret>") == len(forms)


def test_a_number_behind_a_letter_is_masked_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"2026-11-21 13:20:19 ERROR user=u{n} at T{n}:20:19Z in s3\n" for n in (10, 21, 32)))
    (group,) = run_json(*SCRIPT, path)["groups"]
    assert group["template"] == "ERROR user=u<n> at T<n>Z in s3"


@pytest.mark.parametrize(
    ("line", "level", "template"),
    [
        ('Nov 21 13:20:19 lb haproxy[1]: fe be/s1 0/0/1/-1/+3 503 100 - - "GET /a HTTP/1.1"', "error", None),
        ("2026-11-21 13:20:19.123 UTC [42] STATEMENT:  SELECT * FROM log WHERE level = 'error'", "?", None),
        ("2026-11-21 13:20:19.123 UTC [42] LOG:  could not send data: error", "info", None),
        ("2026-11-21 13:20:19.123 UTC [42] ERROR:  relation is missing. HINT:  none", "error", None),
        ('{"timestamp": "2026-11-21T13:20:19Z", "severity_text": "ERROR", "body": "down"}', "error", "down"),
        (
            '{"timestamp": "2026-11-21T13:20:19Z", "level": "WARN", "fields": {"message": "slow 12"}}',
            "warn",
            "slow <n>",
        ),
        (
            '{"timestamp": "2026-11-21T13:20:19Z", "severity": "ERROR", "jsonPayload": {"message": "bad"}}',
            "error",
            "bad",
        ),
    ],
)
def test_levels_and_messages_of_more_writers(tmp_path: Path, line: str, level: str, template: str | None) -> None:
    path = tmp_path / "a.log"
    path.write_text(line + "\n")
    (group,) = run_json(*SCRIPT, path)["groups"]
    assert group["level"] == level
    assert template in (None, group["template"])


def test_seconds_since_a_start_are_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('2026-11-21T13:20:19Z {"level": "warn", "msg": "slow", "ts": 12.5}\n')
    assert run_json(*SCRIPT, path)["first"] == "2026-11-21 13:20:19"
