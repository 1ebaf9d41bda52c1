"""The script of the skill coverage-gap-review names the changed lines that no test executed."""

import json
import subprocess
from pathlib import Path
from typing import Any

from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("coverage-gap-review", "find_gaps.py")
DIFF = """--- a/src/pay.py
+++ b/src/pay.py
@@ -9,2 +10,7 @@ def pay():
 old = 1
+try:
+    send()
+except OSError:
+
+    undo()
+done = 1
 old = 2
"""


def lcov(path: Path, source: str, hits: dict[int, int], *more: str) -> Path:
    lines = [f"SF:{source}", *(f"DA:{line},{times}" for line, times in hits.items()), *more, "end_of_record"]
    path.write_text("\n".join(lines) + "\n")
    return path


def compared(folder: Path, report: Path, *arguments: str, diff: str = DIFF) -> dict[str, Any]:
    (folder / "change.patch").write_text(diff)
    return run_json(*SCRIPT, report, "--diff", folder / "change.patch", *arguments)


def test_changed_lines_that_never_ran_are_one_gap_across_a_blank_line(tmp_path: Path) -> None:
    report = lcov(tmp_path / "lcov.info", "src/pay.py", {1: 0, 10: 0, 11: 1, 12: 3, 13: 0, 15: 0, 16: 1})
    found = compared(tmp_path, report)
    assert (found["code"], found["ran"], found["percent"]) == (5, 3, 60.0)
    assert found["files"][0]["gaps"] == [
        {"first": 13, "last": 15, "lines": 2, "error": True, "text": "except OSError:"}
    ]
    assert run_script(*SCRIPT, report, "--diff", tmp_path / "change.patch").returncode == 1
    assert run_script(*SCRIPT, report, "--diff", tmp_path / "change.patch", "--min", "60").returncode == 0


def test_one_line_of_thousands_that_never_ran_is_less_than_100_percent(tmp_path: Path) -> None:
    diff = "--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,3000 @@\n" + "+x = 1\n" * 3000
    report = lcov(tmp_path / "lcov.info", "a.py", {line: int(line != 7) for line in range(1, 3001)})
    assert compared(tmp_path, report, diff=diff)["percent"] == 99.9
    assert run_script(*SCRIPT, report, "--diff", tmp_path / "change.patch").returncode == 1


def test_error_paths_of_all_files_come_before_other_gaps(tmp_path: Path) -> None:
    report = tmp_path / "lcov.info"
    report.write_text("SF:src/a.py\nDA:1,0\nDA:2,1\nend_of_record\nSF:src/b.py\nDA:1,1\nDA:2,0\nend_of_record\n")
    diff = "--- a/src/a.py\n+++ b/src/a.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 1\n"
    diff += "--- a/src/b.py\n+++ b/src/b.py\n@@ -0,0 +1,2 @@\n+z = 1\n+raise ValueError\n"
    (tmp_path / "change.patch").write_text(diff)
    shown = run_script(*SCRIPT, report, "--diff", tmp_path / "change.patch").stdout
    assert 0 < shown.index("src/b.py:2") < shown.index("src/a.py:1")


def test_all_formats_say_the_same(tmp_path: Path) -> None:
    xml, python, istanbul = tmp_path / "coverage.xml", tmp_path / "coverage.json", tmp_path / "coverage-final.json"
    xml.write_text(
        "<coverage><sources><source>/ci/repo/src</source></sources><packages><package><classes>"
        '<class filename="pay.py"><lines><line number="11" hits="1" branch="true" condition-coverage="50% (1/2)"/>'
        '<line number="13" hits="0"/></lines></class></classes></package></packages></coverage>'
    )
    python.write_text(
        json.dumps(
            {
                "files": {
                    "src/pay.py": {
                        "executed_lines": [11],
                        "missing_lines": [13],
                        "executed_branches": [[11, 12]],
                        "missing_branches": [[11, -1]],
                    }
                }
            }
        )
    )
    spots = {str(line): {"start": {"line": line}} for line in (11, 13)}
    one = {"statementMap": spots, "s": {"11": 4, "13": 0}, "branchMap": {"0": {"loc": spots["11"]}}, "b": {"0": [4, 0]}}
    istanbul.write_text(json.dumps({"/ci/repo/src/pay.py": one}))
    text = lcov(tmp_path / "l.info", "/ci/src/pay.py", {11: 2, 13: 0}, "BRDA:11,0,0,2", "BRDA:11,0,1,-")
    for report in (xml, python, istanbul, text):
        found = compared(tmp_path, report)
        assert (found["code"], found["ran"], found["problems"]) == (2, 1, []), report
        assert [(gap["first"], gap["last"]) for gap in found["files"][0]["gaps"]] == [(13, 13)], report
        assert [(way["line"], way["taken"], way["of"]) for way in found["files"][0]["partial"]] == [(11, 1, 2)], report


def test_a_line_counts_as_executed_if_one_of_two_reports_ran_it(tmp_path: Path) -> None:
    unit = lcov(tmp_path / "unit.info", "src/pay.py", {11: 1, 13: 0})
    other = lcov(tmp_path / "other.info", "src/pay.py", {11: 0, 13: 1})
    (tmp_path / "change.patch").write_text(DIFF)
    assert run_json(*SCRIPT, unit, other, "--diff", tmp_path / "change.patch")["percent"] == 100.0


def test_changed_code_that_no_report_knows_fails_the_review(tmp_path: Path) -> None:
    report = lcov(tmp_path / "lcov.info", "src/pay.py", {11: 1})
    more = "".join(
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n" for name in ("new.py", "a.md", "tests/test_a.py")
    )
    found = compared(tmp_path, report, diff=DIFF + more)
    assert (found["percent"], found["unmeasured"], found["other"]) == (100.0, ["new.py"], ["a.md"])
    assert found["tests"] == ["tests/test_a.py"]
    done = run_script(*SCRIPT, report, "--diff", "-", stdin=DIFF + more)
    assert done.returncode == 1
    assert "no data  new.py" in done.stdout


def test_equal_names_in_several_folders_are_not_mixed_up(tmp_path: Path) -> None:
    report = tmp_path / "lcov.info"
    parts = [("a/main.js", 0), ("main.js", 1), ("b/main.js", 5)]
    report.write_text("".join(f"SF:{name}\nDA:1,{times}\nend_of_record\n" for name, times in parts))
    diff = "".join(f"+++ b/{name}/main.js\n@@ -1 +1 @@\n-x\n+y\n" for name in ("web/a", "web/b"))
    found = compared(tmp_path, report, "--prefix", "web", diff=diff)
    assert {one["path"]: one["ran"] for one in found["files"]} == {"web/a/main.js": 0, "web/b/main.js": 1}


def test_a_report_of_another_version_is_noticed(tmp_path: Path) -> None:
    report = lcov(tmp_path / "lcov.info", "src/pay.py", {14: 1})
    assert compared(tmp_path, report)["problems"] == [
        "src/pay.py:14 is blank but counted as code: report of another version, run it again"
    ]


def test_blank_and_comment_lines_that_v8_counts_are_no_code_and_no_problem(tmp_path: Path) -> None:
    text = ["// why", "", "/** a", " * b", " */", "const f = a => {", " if (!a) {", "", "    /* c */ g()", "  }", "}"]
    diff = f"--- /dev/null\n+++ b/src/a.mjs\n@@ -0,0 +1,{len(text)} @@\n" + "".join(f"+{line}\n" for line in text)
    hits = {line: int(line not in (8, 9)) for line in range(1, len(text) + 2) if line != 4}
    found = compared(tmp_path, lcov(tmp_path / "lcov.info", "src/a.mjs", hits), diff=diff)
    assert (found["problems"], found["code"], found["ran"]) == ([], 5, 4)
    assert [gap["text"].strip() for gap in found["files"][0]["gaps"]] == ["/* c */ g()"]
    assert compared(tmp_path, lcov(tmp_path / "lcov.info", "src/a.mjs", {2: 1, 6: 1}), diff=diff)["problems"]


def test_a_git_range_is_compared_and_a_wrong_one_refused(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True)

    source = tmp_path / "pay.py"
    source.write_text("a = 1\n")
    git("init", "-q")
    git("add", "pay.py")
    git("commit", "-qm", "one")
    source.write_text("a = 1\nb = 2\n")
    report = lcov(tmp_path / "lcov.info", str(source), {1: 0, 2: 0})
    found = run_json(*SCRIPT, report, "--git", "HEAD", "--repo", tmp_path)
    assert [gap["first"] for gap in found["files"][0]["gaps"]] == [2]
    assert_refused(run_script(*SCRIPT, report, "--git", "nowhere", "--repo", tmp_path), "git diff nowhere")
    git("config", "diff.relative", "true")
    (tmp_path / "docs").mkdir()
    found = run_json(*SCRIPT, report, "--git", "HEAD", "--repo", tmp_path / "docs")
    assert [gap["first"] for gap in found["files"][0]["gaps"]] == [2]


def test_what_is_no_report_or_no_diff_is_refused_in_one_line(tmp_path: Path) -> None:
    report = tmp_path / "report"
    cases = (
        ("", "is empty"),
        ("mode: set\n", "know no line"),
        ("<report name='x'/>", "know no line"),
        ("<CoverageSession/>", "another tool"),
        ("<coverage>", "no element found"),
        ('{"a": 1}', "know no line"),
        ("{", "Expecting"),
    )
    for content, words in cases:
        report.write_text(content)
        assert_refused(run_script(*SCRIPT, report, "--diff", "-", stdin=DIFF), words)
    lcov(report, "src/pay.py", {11: 1})
    assert_refused(run_script(*SCRIPT, report, "--diff", "-", stdin="@@@ -1 -1 +1 @@@\n"), "combined diff")
    assert_refused(run_script(*SCRIPT, report, "--diff", tmp_path / "none"), "No such file")


def test_no_diff_at_all_passes_no_gate(tmp_path: Path) -> None:
    report = lcov(tmp_path / "lcov.info", "src/pay.py", {11: 1})
    for diff in ("", "fatal: bad revision\n"):
        assert_refused(run_script(*SCRIPT, report, "--diff", "-", stdin=diff), "there is no diff in it")
    moved = "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
    assert run_script(*SCRIPT, report, "--diff", "-", stdin=moved).returncode == 0


def test_profiles_of_go_and_xml_of_jacoco_and_clover_are_read(tmp_path: Path) -> None:
    reports = {
        "c.out": "mode: set\nexample.com/m/src/pay.go:10.1,12.2 2 1\nexample.com/m/src/pay.go:13.2,15.9 1 0\n",
        "jacoco.xml": '<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd"><report name="m">'
        '<package name="src"><class name="src/P" sourcefilename="pay.py"><method name="a" line="10"/></class>'
        '<sourcefile name="pay.py"><line nr="11" mi="0" ci="3" mb="1" cb="1"/>'
        '<line nr="13" mi="2" ci="0" mb="0" cb="0"/>'
        "</sourcefile></package></report>",
        "clover.xml": '<coverage><project><file name="pay.py" path="/ci/x/src/pay.py"><class name="P"/>'
        '<line num="11" count="2" type="stmt"/><line num="13" count="0" type="stmt"/></file></project></coverage>',
    }
    counts = {}
    for name, text in reports.items():
        (tmp_path / name).write_text(text)
        diff = DIFF.replace("pay.py", "pay.go") if name == "c.out" else DIFF
        found = compared(tmp_path, tmp_path / name, diff=diff)
        assert found["problems"] == []
        gap = found["files"][0]["gaps"][0]
        counts[name] = (found["code"], found["ran"], gap["first"], len(found["files"][0]["partial"]))
    assert counts == {"c.out": (4, 2, 13, 0), "jacoco.xml": (2, 1, 13, 1), "clover.xml": (2, 1, 13, 0)}


def test_coloured_and_utf_16_diffs_are_read_and_cut_ones_refused(tmp_path: Path) -> None:
    report, patch = lcov(tmp_path / "lcov.info", "src/pay.py", {11: 1, 13: 0}), tmp_path / "change.patch"
    coloured = "".join(f"\x1b[32m{line}\x1b[m\n" for line in DIFF.splitlines())
    for data in (coloured.encode(), DIFF.encode("utf-16")):
        patch.write_bytes(data)
        assert run_json(*SCRIPT, report, "--diff", patch)["percent"] == 50.0
    for text, words in ((DIFF.rpartition("+done")[0], "cut off"), (DIFF.replace("+try:", "{+try:+}"), "--word-diff")):
        patch.write_text(text)
        assert_refused(run_script(*SCRIPT, report, "--diff", patch), words)
