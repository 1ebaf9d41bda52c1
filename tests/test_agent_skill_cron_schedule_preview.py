"""The script of the skill cron-schedule-preview says when lines run, and what clock changes do to them."""

from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("cron-schedule-preview", "preview_cron.py")
BERLIN = ("--zone", "Europe/Berlin")  # the clock jumps from 02 to 03 on 28 March 2027, back from 03 to 02 on 31 October


def runs(expression: str, start: str, *options: str, count: int = 3) -> list[str]:
    """Return the next runs without seconds."""
    report = run_json(*SCRIPT, "--expression", expression, "--from", start, "--count", str(count), *options)
    return [run[:16] + run[19:] for run in report["schedules"][0]["next"]]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 9 * * *", ["2026-11-26T09:00", "2026-11-26T09:20"]),
        ("5-10/5 0 * * mon", ["2026-11-30T00:05", "2026-11-30T00:10"]),
        ("0 0 1 jan,jul *", ["2027-01-01T00:00", "2027-07-01T00:00"]),
        ("0 12 * * 7", ["2026-11-29T12:00", "2026-12-06T12:00"]),
        ("@weekly", ["2026-11-29T00:00", "2026-12-06T00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ],
)
def test_the_next_runs_are_named(expression: str, expected: list[str]) -> None:
    assert runs(expression, "2026-11-25T10:00", count=2) == [f"{run}+00:00" for run in expected]


def test_both_day_fields_mean_either_and_a_leading_star_means_both() -> None:
    assert runs("0 0 13 * 5", "2026-11-10T00:00")[:2] == ["2026-11-13T00:00+00:00", "2026-11-20T00:00+00:00"]
    report = run_json(*SCRIPT, "--expression", "0 0 14 * 5", "--from", "2026-11-10T00:00")
    assert "OR" in report["schedules"][0]["notes"][0]
    # Mondays with an odd number; Kubernetes takes */2 for a restriction, so either is enough
    assert runs("0 0 */2 * 1", "2026-11-10T00:00")[0] == "2026-11-23T00:00+00:00"
    assert runs("0 0 */2 * 1", "2026-11-10T00:00", "--dialect", "kubernetes")[0] == "2026-11-11T00:00+00:00"


@pytest.mark.parametrize(
    ("dialect", "spring", "autumn"),
    [
        ("cronie", "2027-03-28T03:00+02:00", ["2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"]),
        ("kubernetes", "2027-03-29T02:30+02:00", ["2027-10-31T02:30+02:00", "2027-10-31T02:30+01:00"]),
        ("github", "2027-03-28T03:00+02:00", ["2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"]),
    ],
)
def test_a_time_in_the_changed_hour_is_run_as_the_dialect_does(dialect: str, spring: str, autumn: list[str]) -> None:
    options = (*BERLIN, "--dialect", dialect)
    assert runs("30 2 * * *", "2027-03-27T12:00", *options)[0] == spring
    assert runs("30 2 * * *", "2027-10-30T12:00", *options, count=2) == autumn


def test_cronie_runs_each_skipped_time_of_a_line() -> None:
    expected = ["2027-03-28T03:00+02:00", "2027-03-28T03:00+02:00", "2027-03-28T04:00+02:00"]
    assert runs("0 2-4 * * *", "2027-03-27T12:00", *BERLIN, count=3) == expected


def test_a_line_with_a_star_follows_the_wall_clock() -> None:
    report = run_json(*SCRIPT, "--expression", "*/30 * * * *", "--from", "2027-01-01T00:00", *BERLIN)
    assert report["schedules"][0]["clock_changes"] == [
        "2027-03-28: 46 runs instead of 48", "2027-10-31: 50 runs instead of 48"
    ]  # fmt: skip


def test_lines_that_start_in_the_same_minute_are_counted_for_a_week() -> None:
    report = run_json(
        *SCRIPT, "-", "--from", "2026-11-25T10:00", stdin="0 2 * * * a\n*/30 2 * * * b\n# c\n1 2 * * * d\n"
    )
    assert report["collisions"] == [{"lines": [1, 2], "times": 7, "first": "2026-11-26T02:00:00+00:00"}]


def test_lines_that_only_collide_are_something_to_look_at() -> None:
    begin = ("--from", "2026-11-25T10:00")
    assert run_script(*SCRIPT, "-", *begin, stdin="0 2 * * * a\n0 2 * * * b\n").returncode == 1
    assert run_script(*SCRIPT, "-", *begin, stdin="0 2 * * * a\n9 2 * * * b\n").returncode == 0


def test_a_step_that_does_not_divide_is_named() -> None:
    report = run_json(*SCRIPT, "--expression", "*/7 * * * *", "--from", "2026-11-25T10:00")
    assert report["schedules"][0]["notes"] == ["*/7 is not every 7 minutes: after 56 it starts again at 0"]
    assert report["schedules"][0]["runs_on_a_day"] == 9 * 24


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 0 L * *", "Quartz"), ("0 0 * * 5#3", "Quartz"), ("0 0 ? * *", "write *"), ("0 0 12 * * ?", "6 fields"),
        ("0 0 12 1 1 ? 2027", "7 fields"), ("60 * * * *", "minute '60'"), ("* * *", "3 fields"),
        ("0 22-6 * * *", "22-23,0-6"), ("*/0 * * * *", "step of 0"), ("5/15 * * * *", "5-59/15"),
        ("0 0 * * 5-1", "backwards"), ("@reboot", "no times"), ("", "no schedule"),
        ("0~59 3 * * *", "not previewed"), ("0 9 * * mon-sun", "write mon-7"),
    ],
)  # fmt: skip
def test_what_is_no_cron_here_is_refused_with_a_sentence(expression: str, words: str) -> None:
    assert_refused(run_script(*SCRIPT, "--expression", expression), words)


def test_one_bad_line_does_not_hide_the_others_nor_pass_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "tab"
    file.write_bytes("\ufeffMAILTO=a@example.com\r\n0 2 * * * good\r\nx y z\r\n".encode())
    report: dict[str, Any] = run_json(*SCRIPT, file, "--from", "2026-11-25T10:00")
    assert report["problems"][2:] == ["line 3: 3 fields, five are wanted: minute hour day-of-month month day-of-week"]
    assert [one["line"] for one in report["schedules"]] == [2]
    assert run_script(*SCRIPT, file).returncode == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_that_cron_cannot_read_is_a_problem(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "tab"
    file.write_bytes("0 1 * * * job\n".encode(encoding))
    report = run_json(*SCRIPT, file)
    assert report["problems"] == [
        "begins with a byte order mark, which spoils the first line for cron: save it as UTF-8 without one"
    ]
    assert run_json(*SCRIPT, file, "--dialect", "kubernetes")["problems"] == []


def test_a_zone_that_does_not_exist_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, "--expression", "0 0 * * *", "--zone", "Mars/Base"), "Mars/Base")
    assert_refused(run_script(*SCRIPT, tmp_path / "none"), "none")
    report = run_json(*SCRIPT, "--expression", "0 0 30 2 *", "--from", "2026-11-25T10:00")
    assert report["schedules"][0]["notes"] == ["never runs in 8 years: no such date"]


def test_ranges_of_names_may_hold_the_letters_of_quartz() -> None:
    assert runs("0 8 * * MON-WED", "2026-11-29T00:00") == [
        f"2026-{day}T08:00+00:00" for day in ("11-30", "12-01", "12-02")
    ]
    assert runs("0 0 1 APR-JUL *", "2026-06-02T00:00")[:2] == ["2026-07-01T00:00+00:00", "2027-04-01T00:00+00:00"]


@pytest.mark.parametrize("dialect", ["kubernetes", "github"])
def test_a_step_without_an_end_stops_at_saturday_and_seven_is_no_day(dialect: str) -> None:
    days = [run[:10] for run in runs("0 9 * * 1/2", "2026-11-29T00:00", "--dialect", dialect, count=4)]
    assert days == ["2026-11-30", "2026-12-02", "2026-12-04", "2026-12-07"]
    refused = run_script(*SCRIPT, "--expression", "0 9 * * 7", "--dialect", dialect)
    assert_refused(refused, "day of week '7' is not in 0 to 6")


def test_a_star_in_a_list_frees_the_day_of_month_in_kubernetes() -> None:
    assert runs("0 5 *,5 * 1", "2026-11-24T12:00", "--dialect", "kubernetes")[0] == "2026-11-30T05:00+00:00"


def test_secrets_of_a_command_are_masked(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text(
        "0 5 * * * curl -u admin:hunter2 https://joe:s3cret@host/x?token=abcdef\n0 6 * * * PGPASSWORD=tiger dump\n"
    )
    texts = [row["text"] for row in run_json(*SCRIPT, str(file))["schedules"]]
    assert texts == ["0 5 * * * curl -u *** https://***@host/x?token=***", "0 6 * * * PGPASSWORD=*** dump"]


def test_only_a_line_feed_ends_a_line_of_a_crontab(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_bytes("# note\u2028* * * * * hidden\nMAILTO=a'b\n0 5 * * * job\r\n".encode())
    report = run_json(*SCRIPT, str(file))
    assert [row["line"] for row in report["schedules"]] == [3]
    assert report["problems"] == ["lines end with CR LF: cron hands the CR to the command, convert them"]


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        (b"0 5 * * \xc2\xb2 a", (), "day of week '²' is not in 0 to 7"),
        ("٥ 5 * * * a".encode(), (), "minute '٥' is not in 0 to 59"),
        (b"\x7fELF\xd0", (), "neither UTF-8 nor UTF-16 (byte 4)"),
        (b"CRON_TZ=\n0 5 * * * a", (), "line 1: '' is no time zone"),
        (b"0 5 * * * a", ("--from", "9999-12-31"), "take a year from 1970 to 9000"),
        (b"0 5 * * * a", ("--from", "0001-01-01", "--zone", "Asia/Tokyo"), "take a year from 1970 to 9000"),
    ],
)
def test_odd_inputs_are_refused_in_one_sentence(
    tmp_path: Path, content: bytes, options: tuple[str, ...], reason: str
) -> None:
    file = tmp_path / "crontab"
    file.write_bytes(content)
    result = run_script(*SCRIPT, str(file), *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_password_of_mysql_is_masked_and_many_lines_that_collide_are_cut() -> None:
    lines = "0 5 * * * mysqldump -u me -phunter2 db\n" * 15
    done = run_script(*SCRIPT, "-", "--from", "2026-11-25T10:00", stdin=lines)
    assert "mysqldump -u me -p*** db" in done.stdout
    assert "collide lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 3 more: 7 times in 7 days" in done.stdout


def test_the_yaml_of_github_and_kubernetes_is_read_with_its_zones(tmp_path: Path) -> None:
    workflow = tmp_path / "ci.yml"
    workflow.write_text(
        "on:\n  schedule:\n    - cron: '30 5 * * 1-5'\n    - cron: \"7 3 * * *\"  # nightly\n"
        "      timezone: Europe/Berlin\n    - cron: H 3 * * *\n"
    )
    report = run_json(*SCRIPT, workflow, "--dialect", "github", "--from", "2026-11-28T00:00", "--count", "1")
    assert [(row["line"], row["zone"], row["next"]) for row in report["schedules"]] == [
        (3, "UTC", ["2026-11-30T05:30:00+00:00"]),
        (4, "Europe/Berlin", ["2026-11-28T03:07:00+01:00"]),
    ]
    assert report["problems"] == ["line 6: minute 'H' is not in 0 to 59"]
    jobs = tmp_path / "jobs.yaml"
    job = "kind: CronJob\nspec:\n  timeZone: {}\n  schedule: {}\n---\n"
    jobs.write_text(job.format("Asia/Tokyo", "'0 1 * * *'") + job.format("Etc/UTC", "0 2 * * *"))
    report = run_json(*SCRIPT, jobs, "--dialect", "kubernetes")
    assert [(row["line"], row["zone"]) for row in report["schedules"]] == [(4, "Asia/Tokyo"), (9, "Etc/UTC")]
    assert run_json(*SCRIPT, jobs)["problems"] == ["it is YAML, read as a crontab's times: give --dialect kubernetes"]


def test_a_zone_in_yaml_holds_for_the_entry_that_it_stands_in_whatever_the_order_of_its_keys(tmp_path: Path) -> None:
    workflow = tmp_path / "ci.yml"
    workflow.write_text(
        "on:\n  schedule:\n    - timezone: America/New_York\n      # weekdays\n      cron: 30 5 * * *\n"
        "    - timezone: Asia/Tokyo\n      cron: '10 6 * * *'\n    - cron: 1 1 * * *\n"
        "jobs:\n  one:\n    steps:\n      - with:\n          timezone: Asia/Seoul\n"
    )
    report = run_json(*SCRIPT, workflow, "--dialect", "github")
    assert [row["zone"] for row in report["schedules"]] == ["America/New_York", "Asia/Tokyo", "UTC"]
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(
        "kind: List\nitems:\n- kind: CronJob\n  spec:\n    schedule: 0 1 * * *\n    jobTemplate:\n"
        "      spec: {}\n- kind: CronJob\n  spec:\n    schedule: 0 2 * * *\n    timeZone: Asia/Tokyo\n"
    )
    report = run_json(*SCRIPT, jobs, "--dialect", "kubernetes")
    assert [row["zone"] for row in report["schedules"]] == ["UTC", "Asia/Tokyo"]


def test_entries_in_braces_are_named_because_they_are_not_read(tmp_path: Path) -> None:
    workflow = tmp_path / "ci.yml"
    workflow.write_text("on:\n  schedule:\n    - cron: 1 1 * * *\n    - {cron: '30 5 * * *', timezone: Asia/Tokyo}\n")
    report = run_json(*SCRIPT, workflow, "--dialect", "github")
    assert [row["line"] for row in report["schedules"]] == [3]
    assert report["problems"] == ["line 4: an entry in braces is not read: write its keys on lines of their own"]
    workflow.write_text("on: {schedule: [{cron: '30 5 * * *'}]}\n")
    assert_refused(run_script(*SCRIPT, workflow, "--dialect", "github"), "in braces")
    crontab = tmp_path / "crontab"
    crontab.write_text("5 4 * * * curl -d '{schedule: nightly}' localhost\n")
    assert [row["line"] for row in run_json(*SCRIPT, crontab)["schedules"]] == [1]


def test_nicknames_are_previewed_but_for_github() -> None:
    assert_refused(run_script(*SCRIPT, "--expression", "@daily", "--dialect", "github"), "write 0 0 * * *")
    for dialect in ("cronie", "kubernetes"):
        assert run_script(*SCRIPT, "--expression", "@daily", "--dialect", dialect).returncode == 0


@pytest.mark.parametrize("text", ["CRON_TZ=Europe/Berlin 0 0 * * *", "TZ=UTC 0 0 * * *"])
def test_a_zone_inside_the_schedule_of_kubernetes_is_a_problem(text: str) -> None:
    assert_refused(run_script(*SCRIPT, "--expression", text, "--dialect", "kubernetes"), "use the field timeZone")


def test_quotes_around_an_expression_are_left_out() -> None:
    assert runs("'0 5 * * *'", "2026-11-25T10:00", count=1) == ["2026-11-26T05:00+00:00"]


def test_a_zone_of_a_line_that_is_not_the_servers_is_a_problem_where_cronie_reads_it() -> None:
    text = "CRON_TZ=Europe/Berlin\n30 2 * * * a\n"
    report = run_json(*SCRIPT, "-", "--zone", "America/New_York", stdin=text)
    assert report["problems"] == [
        "line 1: cronie may miss or double runs on the days when Europe/Berlin changes its clock"
    ]
    assert run_json(*SCRIPT, "-", "--zone", "Europe/Berlin", stdin=text)["problems"] == []


def test_an_unescaped_percent_sign_is_a_problem() -> None:
    report = run_json(*SCRIPT, "-", stdin="0 5 * * * a $(date +%F)\n0 6 * * * a $(date +\\%F)\n")
    assert report["problems"] == [
        "line 1: an unescaped % ends the command, the rest is its input: write \\%",
    ]


@pytest.mark.parametrize(
    ("expression", "notes"),
    [
        ("0 0 */2 * *", ["day of month */2: each month starts again at 1"]),
        ("0 0 31 * *", ["months without such a day are left out"]),
        ("0 0 28-31 * *", []),
        ("0 0 */1 * *", []),
    ],
)
def test_days_that_not_every_month_has_are_noted(expression: str, notes: list[str]) -> None:
    assert run_json(*SCRIPT, "--expression", expression)["schedules"][0]["notes"] == notes


@pytest.mark.parametrize(
    ("expression", "noted"), [("0-59/7 * * * *", True), ("0 0-23/5 * * *", True), ("0-59/15 * * * *", False)]
)
def test_an_uneven_step_over_a_full_range_is_noted_like_one_over_a_star(expression: str, noted: bool) -> None:
    report = run_json(*SCRIPT, "--expression", expression, "--from", "2027-03-20T12:00")
    assert any("is not every" in note for note in report["schedules"][0]["notes"]) is noted
