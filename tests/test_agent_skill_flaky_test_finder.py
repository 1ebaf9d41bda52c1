"""The script of the skill flaky-test-finder tells unstable tests from broken, new and mended ones."""

import zipfile
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("flaky-test-finder", "find_flaky.py")
OUTCOMES = {".": "", "F": '<failure message="after 12 ms"/>', "S": "<skipped/>", "R": "<flakyFailure message='x'/>"}


def report(outcomes: dict[str, str], stamp: str = "") -> str:
    cases = "".join(
        f'<testcase classname="pkg" name="{name}" time="0.5">{OUTCOMES[outcome]}</testcase>'
        for name, outcome in outcomes.items()
    )
    return f'<testsuites><testsuite timestamp="{stamp}">{cases}</testsuite></testsuites>'


def write_runs(root: Path, tests: dict[str, str], commits: str = "") -> Path:
    """Write a report for each letter of the outcomes, in a folder named by number and commit."""
    for number in range(len(next(iter(tests.values())))):
        folder = root / f"run{number + 1}-{commits[number] * 7 if commits else ''}"
        folder.mkdir()
        found = {name: outcomes[number] for name, outcomes in tests.items()}
        (folder / "junit.xml").write_text(report(found))
    return root


def by_name(root: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    return {row["test"].removeprefix("pkg::"): row for row in run_json(*SCRIPT, root, *arguments)["tests"]}


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ("..F..F..", "flaky"),
        (".....FFF", "new failure"),
        ("FFF.....", "mended"),
        ("FFFFFFFF", "broken"),
        ("........", "stable"),
        ("..SS..SS", "stable"),
        ("SSSSSSSS", "never ran"),
        ("...R....", "flaky"),
    ],
)
def test_a_test_is_judged_by_its_outcomes_in_the_order_of_runs(tmp_path: Path, outcomes: str, verdict: str) -> None:
    assert by_name(write_runs(tmp_path, {"a": outcomes}))["a"]["verdict"] == verdict


def test_commits_tell_instability_from_honest_changes(tmp_path: Path) -> None:
    root = write_runs(tmp_path, {"same": "F.....", "other": "..FF.."}, commits="aabbcc")
    found = by_name(root, "--commit-pattern", "[abc]{7}")
    assert (found["same"]["verdict"], found["other"]["verdict"]) == ("flaky", "changing")


def test_rate_and_passes_that_prove_a_fix_are_computed(tmp_path: Path) -> None:
    row = by_name(write_runs(tmp_path, {"a": "F.F......."}))["a"]
    assert (row["failures"], row["runs"], row["rate"], row["pattern"]) == (2, 10, 0.2, "F.F.......")
    assert row["runs_to_trust_a_fix"] == 14  # 0.8 ** 13 = 0.055, 0.8 ** 14 = 0.044
    assert row["messages"] == [["after N ms", 2]]


def test_tests_that_fail_in_the_same_runs_have_a_shared_cause(tmp_path: Path) -> None:
    failing = "..F..F.."
    root = write_runs(tmp_path, {"a": failing, "b": failing, "c": failing, "d": ".F.F...."})
    (shared,) = run_json(*SCRIPT, root)["shared"]
    assert shared["tests"] == ["pkg::a", "pkg::b", "pkg::c"]
    assert [Path(run).name for run in shared["runs"]] == ["run3-", "run6-"]


def test_files_of_one_folder_are_runs_in_the_order_of_their_time(tmp_path: Path) -> None:
    (tmp_path / "z.xml").write_text(report({"a": "."}, "2026-01-01T00:00:00"))
    (tmp_path / "a.xml").write_text(report({"a": "F"}, "2026-01-02T00:00:00"))
    assert by_name(tmp_path)["a"]["verdict"] == "new failure"


def test_attempts_within_a_run_and_archives_are_read(tmp_path: Path) -> None:
    twice = report({"a": "F"}).replace("</testsuite>", '<testcase classname="pkg" name="a"/></testsuite>', 1)
    with zipfile.ZipFile(tmp_path / "reports.zip", "w") as archive:
        archive.writestr("1/junit.xml", twice)
    done = run_script(*SCRIPT, tmp_path / "reports.zip")
    assert done.returncode == 1
    assert "1 runs, 1 tests: 1 flaky" in done.stdout
    assert "of these 1 only by unstable tests" in done.stdout


def test_broken_reports_are_named_and_none_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text("<testsuite><testcase")
    assert_refused(run_script(*SCRIPT, tmp_path), "bad.xml")
    (tmp_path / "good.xml").write_text(report({"a": "."}))
    done = run_script(*SCRIPT, tmp_path)
    assert done.returncode == 0
    assert "unreadable" in done.stdout
    assert_refused(run_script(*SCRIPT, tmp_path / "none"), "No such file")


def test_a_damaged_archive_does_not_hide_the_other_reports(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<testsuite><testcase name="x"/></testsuite>')
    (tmp_path / "b.zip").write_text("no archive")
    report = run_json(*SCRIPT, tmp_path)
    assert len(report["tests"]) == 1
    assert report["unreadable"] == [f"{tmp_path / 'b.zip'}: File is not a zip file"]
    assert_refused(run_script(*SCRIPT, tmp_path / "b.zip"), "b.zip: File is not a zip file")


def test_the_folder_of_all_runs_names_no_commit(tmp_path: Path) -> None:
    for number, commit in enumerate(("aaaaaaa", "bbbbbbb", "ccccccc")):
        run = tmp_path / "deadbeef" / f"{number}-{commit}"
        run.mkdir(parents=True)
        failure = "<failure/>" * (number == 1)
        (run / "a.xml").write_text(f'<testsuite><testcase name="x">{failure}</testcase></testsuite>')
    report = run_json(*SCRIPT, tmp_path, "--commit-pattern", "[0-9a-f]{7,40}")
    assert report["tests"][0]["verdict"] == "changing"


def test_html_reports_are_not_dropped_in_silence(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<html>")
    assert_refused(run_script(*SCRIPT, tmp_path), "report.html: HTML, which is not read")


def test_tests_of_nodes_runner_that_share_a_name_are_two(tmp_path: Path) -> None:
    case = '<testcase name="works" classname="test">'
    for name in ("1.xml", "2.xml"):
        (tmp_path / name).write_text(
            f'<testsuites><testsuite name="A">{case}</testcase></testsuite><testsuite name="B">{case}<failure/>'
            '</testcase></testsuite><testcase name="later" classname="test"><skipped type="todo"/><failure/></testcase>'
            "</testsuites>"
        )
    found = {row["test"]: (row["verdict"], row["runs"]) for row in run_json(*SCRIPT, tmp_path)["tests"]}
    assert found == {"A::works": ("stable", 2), "B::works": ("broken", 2), "later": ("never ran", 0)}


@pytest.mark.parametrize("status", ["notrun", "disabled"])
def test_a_test_that_did_not_run_has_not_passed(tmp_path: Path, status: str) -> None:
    (tmp_path / "a.xml").write_text(f'<testsuite><testcase classname="a" name="b" status="{status}"/></testsuite>')
    assert run_json(*SCRIPT, tmp_path)["tests"][0]["runs"] == 0


def test_one_failure_at_an_end_is_instability_where_all_runs_are_of_one_commit(tmp_path: Path) -> None:
    root = write_runs(tmp_path, {"last": ".....F", "first": "F.....", "all": "FFFFFF"})
    found = by_name(root, "--one-commit")
    assert [found[name]["verdict"] for name in ("last", "first", "all")] == ["flaky", "flaky", "broken"]


def test_a_name_of_several_suites_in_one_report_is_told(tmp_path: Path) -> None:
    suite = '<testsuite><testcase classname="renders" name="renders">{}</testcase></testsuite>'
    (tmp_path / "a.xml").write_text(f"<testsuites>{suite.format('<failure/>')}{suite.format('')}</testsuites>")
    (tmp_path / "b.xml").write_text(f"<testsuites>{suite.format('')}</testsuites>")
    assert run_json(*SCRIPT, tmp_path)["same_name"] == ["renders::renders"]
    assert "caution: 1 names stand for tests of several suites" in run_script(*SCRIPT, tmp_path).stdout
    (tmp_path / "a.xml").write_text(f"<testsuites>{suite.format('<failure/>')}</testsuites>")
    assert run_json(*SCRIPT, tmp_path)["same_name"] == []


def test_a_name_of_two_modules_with_different_outcomes_is_told(tmp_path: Path) -> None:
    for run in ("1-aaaaaaa", "2-bbbbbbb"):
        for module, outcome in (("one", "F"), ("two", ".")):
            (tmp_path / run / module).mkdir(parents=True)
            (tmp_path / run / module / "TEST.xml").write_text(report({"same": outcome, f"only_{module}": outcome}))
    assert run_json(*SCRIPT, tmp_path, "--run-from", "top")["same_name"] == ["pkg::same"]
    assert run_json(*SCRIPT, tmp_path / "1-aaaaaaa" / "one", "--run-from", "top")["same_name"] == []


def test_reports_of_modules_below_one_folder_are_one_run(tmp_path: Path) -> None:
    for run, outcome in (("1-aaaaaaa", "F"), ("2-aaaaaaa", "."), ("3-bbbbbbb", ".")):
        for module in ("one", "two/target"):
            folder = tmp_path / run / module
            folder.mkdir(parents=True)
            (folder / "a.xml").write_text(report({module[:3]: outcome}))
    each = run_json(*SCRIPT, tmp_path)
    whole = run_json(*SCRIPT, tmp_path, "--run-from", "top", "--commit-pattern", "[ab]{7}")
    assert (each["runs"], whole["runs"], whole["red_runs"]) == (6, 3, 1)
    assert [(row["verdict"], row["runs"]) for row in whole["tests"]] == [("flaky", 3)] * 2


def test_paths_from_here_and_from_the_root_may_be_mixed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.xml").write_text(report({"a": "."}))
    done = run_script(*SCRIPT, "one", tmp_path / "two", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "2 runs, 1 tests: 1 stable")
