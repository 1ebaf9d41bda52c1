#!/usr/bin/env python3
"""Read JUnit XML reports of many runs and tell unstable tests from broken and slow ones.

Standard library only, Python 3.11+. Reports are streamed; .zip archives and folders are searched for *.xml.

    python3 find_flaky.py REPORTS... [--run-from auto|file|folder|top] [--commit-pattern REGEX | --one-commit] [--top N] [--json]

A run is a folder of reports, or a file where all reports lie in one folder, or with `top` all below one folder. Runs are ordered by their timestamps,
else by name. Exit codes: 0 nothing unstable, 1 unstable tests found, 2 no readable reports.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree as ET

NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+(?:[.:]\d+)*")
BAD = ("failure", "error")
AGAIN = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")  # Maven Surefire and Gradle, retried in the run


@dataclass
class Result:
    """The outcome of a test in one run: passed, failed, skipped, or flaky where a retry in the run passed."""

    outcome: str
    seconds: float
    message: str


@dataclass
class History:
    """Results of one test, by run."""

    results: dict[str, Result] = field(default_factory=dict)

    def add(self, run: str, result: Result) -> None:
        """Take a result; a second one of the same run, with another outcome, makes it flaky."""
        before = self.results.get(run)
        if before and before.outcome != result.outcome and "skipped" not in (before.outcome, result.outcome):
            result = Result("flaky", result.seconds, before.message or result.message)
        if not before or result.outcome != "skipped":
            self.results[run] = result


def sources(names: list[Path], broken: list[str]) -> Iterator[tuple[str, str, IO[bytes]]]:
    """Yield folder, path and content of each report; archives that cannot be read are added to *broken*."""
    for name in names:
        found = sorted(name.rglob("*")) if name.is_dir() else [name]
        pages = [path for path in found if path.suffix in (".html", ".htm")]
        if pages and not any(path.suffix in (".xml", ".zip") for path in found):
            broken.append(f"{pages[0]}: HTML, which is not read: let the runner write JUnit XML as well")
            continue
        for path in found:
            if path.suffix == ".zip":
                try:
                    with zipfile.ZipFile(path) as archive:
                        for member in archive.namelist():
                            if member.endswith(".xml"):
                                inside = f"{path}/{member}"
                                yield inside.rpartition("/")[0], inside, BytesIO(archive.read(member))
                except (zipfile.BadZipFile, RuntimeError) as error:  # damaged, or with a password
                    broken.append(f"{path}: {error}")
            elif path.suffix == ".xml" or path == name:
                with path.open("rb") as handle:
                    yield str(path.parent), str(path), handle


def read_report(handle: IO[bytes]) -> Iterator[tuple[str, int, str, Result]]:
    """Yield time and number of the suite, name and result of each test in a report."""
    stamp, number = "", 0
    suites: list[str] = []
    for event, node in ET.iterparse(handle, ("start", "end")):  # expat limits entity expansion
        if event == "start":
            if node.tag == "testsuite":
                stamp = node.get("timestamp") or stamp
                suites.append(node.get("name") or "")
                number += 1
        elif node.tag == "testsuite":
            suites.pop()
        elif node.tag == "testcase":
            owner = node.get("classname") or node.get("file") or ""
            if owner == "test":  # Node's runner calls each class so
                owner = " > ".join(filter(None, (node.get("file"), *suites)))
            yield stamp, number, f"{owner}::{node.get('name')}" if owner else str(node.get("name")), result_of(node)
            node.clear()


def result_of(node: ET.Element) -> Result:
    seconds = (node.get("time") or "0").replace(",", "")
    children = {child.tag: child for child in node}
    bad = next((children[tag] for tag in (*BAD, *AGAIN) if tag in children), None)
    if "skipped" in children and children["skipped"].get("type") == "todo":
        bad = None  # Node's runner lets such a test fail
    idle = "skipped" in children or node.get("status") in ("notrun", "disabled")  # GoogleTest and CTest
    outcome = "skipped" if idle else "passed"
    if bad is not None:
        outcome = "failed" if bad.tag in BAD else "flaky"
    message = " ".join(((bad.get("message") or bad.text or "") if bad is not None else "").split())
    return Result(outcome, float(seconds) if re.fullmatch(r"[\d.]+", seconds) else 0.0, message[:200])


class Reports:
    """All results, by test and run, with the order of the runs."""

    def __init__(self, run_from: str) -> None:
        self.run_from = run_from
        self.tests: dict[str, History] = defaultdict(History)
        self.stamps: dict[str, str] = {}
        self.broken: list[str] = []
        self.twins: set[str] = set()

    def read(self, names: list[Path]) -> None:
        rows: list[tuple[str, str, str, int, str, Result]] = []
        for folder, path, handle in sources(names, self.broken):
            try:
                rows += [(folder, path, *one) for one in read_report(handle)]
            except ET.ParseError as error:
                self.broken.append(f"{path}: {error}")
        by_folder = self.run_from == "folder" or (self.run_from == "auto" and len({row[0] for row in rows}) > 1)
        top = os.path.commonpath({row[0] for row in rows}) if rows and self.run_from == "top" else ""
        suite_of: dict[tuple[str, str], int] = {}
        seen_in: dict[tuple[str, str], tuple[str, str]] = {}
        for folder, path, stamp, suite, test, result in rows:
            run = below(top, path) if top else folder if by_folder else path
            if suite_of.setdefault((path, test), suite) != suite:
                self.twins.add(test)
            first, outcome = seen_in.setdefault((run, test), (path, result.outcome))
            if first != path and outcome != result.outcome and "skipped" not in (outcome, result.outcome):
                self.twins.add(test)  # of another module or job, or a second try
            self.stamps[run] = min(filter(None, (self.stamps.get(run), stamp)), default="")
            self.tests[test].add(run, result)

    @property
    def runs(self) -> list[str]:
        return sorted(self.stamps, key=lambda run: (self.stamps[run], natural(run)))


def below(top: str, path: str) -> str:
    """Return the first folder or file below *top* on the way to *path*."""
    return os.path.join(top, Path(path).relative_to(top).parts[0])


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which run10 comes after run9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def upper_bound(failures: int, runs: int) -> float:
    """Return the largest failure rate that these counts leave likely (Wilson, 95 %)."""
    rate, z = failures / runs, 1.96
    middle = rate + z * z / (2 * runs)
    return (middle + z * math.sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs))) / (1 + z * z / runs)


def verdict(outcomes: list[str], commits: list[str]) -> str:
    """Judge outcomes in the order of runs; skipped ones are left out."""
    if not outcomes:
        return "never ran"  # skipped in each run
    if "failed" not in outcomes and "flaky" not in outcomes:
        return "stable"
    by_commit: dict[str, set[str]] = defaultdict(set)
    for commit, outcome in zip(commits, outcomes, strict=True):
        by_commit[commit].add(outcome)
    if "flaky" in outcomes or any(len(found) > 1 for commit, found in by_commit.items() if commit):
        return "flaky"
    if "passed" not in outcomes:
        return "broken"
    turns = sum(before != after for before, after in pairwise(outcomes))
    if turns > 1:
        return "flaky" if not all(commits) else "changing"
    return "new failure" if outcomes[-1] == "failed" else "mended"


def describe(test: str, history: History, runs: list[str], pattern: re.Pattern[str] | None, one: bool) -> dict[str, Any]:
    present = [run for run in runs if run in history.results and history.results[run].outcome != "skipped"]
    outcomes = [history.results[run].outcome for run in present]
    above = len(os.path.commonpath(runs)) if len(runs) > 1 else 0  # the folder of all runs names no commit
    matches = [pattern.search(run, above) if pattern else None for run in present]
    commits = ["the only one" if one else match[0] if match else "" for match in matches]
    failures = sum(outcome != "passed" for outcome in outcomes)
    seconds = sorted(history.results[run].seconds for run in present) or [0.0]
    messages = Counter(NUMBERS.sub("N", one.message) for one in history.results.values() if one.message)
    rate = failures / len(outcomes) if outcomes else 0.0
    return {
        "test": test,
        "verdict": verdict(outcomes, commits),
        "runs": len(outcomes),
        "failures": failures,
        "rate": round(rate, 4),
        "upper": round(upper_bound(failures, len(outcomes)), 4) if outcomes else 1.0,
        "runs_to_trust_a_fix": math.ceil(math.log(0.05) / math.log(1 - rate)) if 0 < rate < 1 else 0,
        "pattern": "".join({"passed": ".", "failed": "F", "flaky": "R"}[outcome] for outcome in outcomes[-40:]),
        "median_s": seconds[len(seconds) // 2],
        "longest_s": seconds[-1],
        "failed_in": [run for run, outcome in zip(present, outcomes, strict=True) if outcome != "passed"],
        "messages": messages.most_common(3),
    }


def shared_causes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return unstable tests that fail in the same runs: one cause outside of them is likelier than several."""
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in rows:
        if row["verdict"] == "flaky":
            together[tuple(row["failed_in"])].append(row["test"])
    found = [{"runs": list(runs), "tests": tests} for runs, tests in together.items() if len(tests) > 2]
    return sorted(found, key=lambda one: -len(one["tests"]))


def show(report: dict[str, Any], top: int) -> None:
    counts = Counter(row["verdict"] for row in report["tests"])
    print(
        f"{report['runs']} runs, {len(report['tests'])} tests: "
        + ", ".join(f"{n} {v}" for v, n in counts.most_common())
    )
    print(f"red runs: {report['red_runs']}, of these {report['red_by_flaky_only']} only by unstable tests")
    if twins := report["same_name"]:
        print(
            f"caution: {len(twins)} names stand for tests of several suites or files of one run, e.g. {twins[0]}: their verdicts are mixed"
            " (modules and jobs: one call for each; jest-junit: JEST_JUNIT_CLASSNAME='{filepath}')"
        )
    for problem in report["unreadable"][:3]:
        print(f"unreadable {problem}")
    rows = [row for row in report["tests"] if row["verdict"] not in ("stable", "never ran")]
    for row in rows[:top]:
        print(f"\n{row['verdict']:<11} {row['test']}")
        print(
            f"    {row['failures']}/{row['runs']} failed, {row['pattern']}  median {row['median_s']:.2f} s, "
            f"longest {row['longest_s']:.2f} s"
        )
        for message, count in row["messages"][:2]:
            print(f"    {count} x {message[:120]}")
        if row["verdict"] == "flaky" and row["runs_to_trust_a_fix"]:
            print(f"    a fix is proven by {row['runs_to_trust_a_fix']} passes in a row")
    if len(rows) > top:
        print(f"... {len(rows) - top} more: --top {len(rows)} or --json")
    for one in report["shared"][:5]:
        print(
            f"\nfail together in {len(one['runs'])} runs: {len(one['tests'])} tests, e.g. {', '.join(one['tests'][:3])}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Tell unstable tests from broken ones in JUnit XML of many runs.")
    parser.add_argument("reports", nargs="+", type=Path, help="files, folders, .zip archives of reports")
    parser.add_argument("--run-from", choices=("auto", "file", "folder", "top"), default="auto", help="what one run is")
    parser.add_argument("--commit-pattern", help="regular expression that finds the commit in a run's path")
    parser.add_argument("--one-commit", action="store_true", help="all runs are of the same code")
    parser.add_argument("--top", type=int, default=12, help="tests shown (default 12)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    reports = Reports(args.run_from)
    try:
        pattern = re.compile(args.commit_pattern) if args.commit_pattern else None
        mixed = len({path.is_absolute() for path in args.reports}) > 1  # these have no folder in common
        reports.read([path.absolute() for path in args.reports] if mixed else args.reports)
    except (OSError, ValueError, re.error) as error:
        print(f"cannot read reports: {error}", file=sys.stderr)
        return 2
    if not reports.tests:
        why = reports.broken[0] if reports.broken else "no <testcase> in these files"
        print(f"cannot read reports: {why}", file=sys.stderr)
        return 2
    runs = reports.runs
    rows = [describe(test, history, runs, pattern, args.one_commit) for test, history in reports.tests.items()]
    order = ("flaky", "new failure", "broken", "changing", "mended", "stable", "never ran")
    rows.sort(key=lambda row: (order.index(row["verdict"]), -row["rate"], row["test"]))
    red = {run: [row for row in rows if run in row["failed_in"]] for run in runs}
    report = {
        "runs": len(runs),
        "red_runs": sum(bool(found) for found in red.values()),
        "red_by_flaky_only": sum(
            bool(found) and {row["verdict"] for row in found} == {"flaky"} for found in red.values()
        ),
        "unreadable": reports.broken,
        "same_name": sorted(reports.twins),
        "shared": shared_causes(rows),
        "tests": rows,
    }
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return int(any(row["verdict"] == "flaky" for row in rows))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
