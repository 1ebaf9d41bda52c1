#!/usr/bin/env python3
"""List the changed lines that no test executed: a diff held against coverage reports.

Standard library only, Python 3.11+. Reads Cobertura, JaCoCo and Clover XML, lcov, Go profiles, coverage.py JSON and
Istanbul JSON; more than one report is merged. The report must come from the code after the change.

    python3 find_gaps.py coverage.xml --git origin/main...HEAD [--repo DIR]
    python3 find_gaps.py lcov.info other.xml --diff change.patch [--prefix src/] [--min 80] [--max 20] [--json]

Exit codes: 0 enough is executed, 1 gaps (below --min percent, or code that no report knows), 2 cannot read the input.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
TEST = re.compile(r"(^|/)(tests?|__tests__|specs?)/|(^|/)test_[^/]*$|[._](test|spec)\.\w+$|[a-z]Tests?\.\w+$")
JS = re.compile(r"\.[cm]?[jt]sx?$")
NO_CODE = re.compile(r"\s*(//.*|/\*((?!\*/).)*(\*/)?|\*( .*)?|\*+/)?\s*")  # blank, or a comment alone
ERROR = re.compile(r"\b(except|catch|raise|throw|panic|rescue|reject|abort)\b|if err != nil|\bErr\(")


@dataclass
class Lines:
    """What the reports say of one file: how often lines ran, and (taken, all) branches that begin on a line."""

    hits: dict[int, int] = field(default_factory=dict)
    branches: dict[int, tuple[int, int]] = field(default_factory=dict)

    def hit(self, line: int, times: int) -> None:
        self.hits[line] = max(self.hits.get(line, 0), times)

    def branch(self, line: int, taken: int, total: int) -> None:
        self.branches[line] = max(self.branches.get(line, (0, total)), (taken, total))


Report = defaultdict[str, Lines]


def read_report(path: Path, repo: Path, into: Report) -> None:
    """Add a coverage report of whatever format to *into*."""
    with path.open(encoding="utf-8-sig", errors="replace") as handle:
        head = handle.read(4096).lstrip()
    if head.startswith("<"):
        read_xml(path, repo, into)
    elif head.startswith("{"):
        read_json(path, into)
    elif re.search(r"^(TN:|SF:)", head, re.MULTILINE):
        with path.open(encoding="utf-8-sig", errors="replace") as handle:
            read_lcov(handle, into)
    elif head.startswith("mode:"):
        with path.open(encoding="utf-8-sig", errors="replace") as handle:
            read_go(handle, into)
    else:
        what = "empty" if not head else "neither XML, JSON nor lcov"
        raise ValueError(f"{path} is {what}: convert it to Cobertura or lcov")


def read_xml(path: Path, repo: Path, into: Report) -> None:
    sources: list[str] = []
    lines, package = Lines(), ""
    for event, tag in ElementTree.iterparse(path, ("start", "end")):
        if event == "start" and tag.tag in ("CoverageSession", "results"):
            raise ValueError(f"{path} is XML of another tool (<{tag.tag}>): convert it to Cobertura")
        if event == "start" and tag.tag == "package":
            package = tag.get("name", "")
        elif event == "start" and tag.tag == "sourcefile":  # JaCoCo
            lines = into[f"/{package}/{tag.get('name', '')}".replace("//", "/")]
        elif event == "start" and tag.tag == "file":  # Clover
            lines = into[clean(tag.get("path") or tag.get("name", ""))]
        elif event == "start" and tag.tag == "class" and "filename" in tag.attrib:
            lines = into[place(tag.get("filename", ""), sources, repo)]
        elif event == "end" and tag.tag == "source" and tag.text:
            sources.append(tag.text.strip())
        elif event == "end" and tag.tag == "line":
            number = int(tag.get("number") or tag.get("nr") or tag.get("num") or "0")
            lines.hit(number, int(tag.get("hits") or tag.get("ci") or tag.get("count") or "0"))
            if ways := int(tag.get("mb", "0")) + int(tag.get("cb", "0")):
                lines.branch(number, int(tag.get("cb", "0")), ways)
            if found := re.search(r"\((\d+)/(\d+)\)", tag.get("condition-coverage", "")):
                lines.branch(number, int(found[1]), int(found[2]))
        elif event == "end" and tag.tag in ("class", "sourcefile", "file"):
            tag.clear()


def place(name: str, sources: list[str], repo: Path) -> str:
    """Join a Cobertura file name to the source folder it lies in: the only one, or the one where it exists."""
    fitting = sources if len(sources) == 1 else [one for one in sources if (repo / one / name).is_file()]
    return clean(f"{fitting[0]}/{name}" if len(fitting) == 1 and fitting[0] != "." else name)


def clean(path: str) -> str:
    return str(PurePosixPath(path.replace("\\", "/")))


def read_lcov(handle: Iterable[str], into: Report) -> None:
    lines, branches = Lines(), defaultdict[int, list[bool]](list)
    for text in handle:
        key, _, rest = text.strip().partition(":")
        if key == "SF":
            lines, branches = into[clean(rest)], defaultdict(list)
        elif key == "DA":
            number, times = rest.split(",")[:2]
            lines.hit(int(number), int(float(times)))
        elif key == "BRDA":
            number, *_, taken = rest.split(",")
            branches[int(number)].append(taken not in ("-", "0"))
        elif key == "end_of_record":
            for line, found in branches.items():
                lines.branch(line, sum(found), len(found))


def read_go(handle: Iterable[str], into: Report) -> None:
    """Read a profile of Go, whose names begin with the module: they are matched from the right."""
    for text in handle:
        if found := re.fullmatch(r"(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)", text.strip()):
            for line in range(int(found[2]), int(found[3]) + 1):
                into["/" + clean(found[1]).lstrip("/")].hit(line, int(found[4]))


def read_json(path: Path, into: Report) -> None:
    """Read JSON of coverage.py (`files`) or of Istanbul (a `statementMap` for each file)."""
    data = json.loads(path.read_text(encoding="utf-8-sig"))
    files = data.get("files", data)
    for name, one in files.items() if isinstance(files, dict) else ():
        if not isinstance(one, dict) or not {"executed_lines", "statementMap"} & set(one):
            continue
        lines = into[clean(name)]
        for number in one.get("missing_lines", ()):
            lines.hit(number, 0)
        for number in one.get("executed_lines", ()):
            lines.hit(number, 1)
        for key, span in one.get("statementMap", {}).items():
            lines.hit(span["start"]["line"], one["s"].get(key, 0))
        ways = [(start, True) for start, _ in one.get("executed_branches", ())]
        ways += [(start, False) for start, _ in one.get("missing_branches", ())]
        for key, counts in one.get("b", {}).items():
            ways += [(one["branchMap"][key]["loc"]["start"]["line"], count > 0) for count in counts]
        all_ways, taken = Counter(start for start, _ in ways), Counter(start for start, went in ways if went)
        for start, total in all_ways.items():
            lines.branch(start, taken[start], total)


def read_diff(handle: Iterable[str], *, given: bool) -> dict[str, dict[int, str]]:
    """Return the added lines of each file of a unified diff: number in the new file, and text."""
    changed: dict[str, dict[int, str]] = {}
    added: dict[int, str] = {}
    old = new = number = hunks = heads = 0
    for text in map(COLOUR.sub, repeat(""), handle):
        heads += text.startswith(("diff ", "--- ", "Index: "))
        mark = text[:1] or "\n"
        if old > 0 or new > 0:
            if mark == "+":
                added[number] = text[1:].rstrip("\r\n")
            if mark not in "+- \\\n\r":
                raise ValueError("a hunk is cut off, or the diff was made with --word-diff")
            old, new, number = old - (mark in "- \n"), new - (mark in "+ \n"), number + (mark in "+ \n")
        elif text.startswith("+++ "):
            name = unquote(text[4:].rstrip("\r\n").split("\t")[0])
            added = changed.setdefault(name.removeprefix("b/"), {}) if name != "/dev/null" else {}
        elif found := HUNK.match(text):
            old, number, new = int(found[1] or 1), int(found[2]), int(found[3] or 1)
            hunks += 1
        elif text.startswith("@@@ "):
            raise ValueError("this is the combined diff of a merge: compare with one parent (main...HEAD)")
    if old > 0 or new > 0:
        raise ValueError("the last hunk is cut off: make the diff again")
    if not heads and not hunks and given:
        raise ValueError("there is no diff in it: did git diff fail?")
    if not hunks and changed:
        raise ValueError("the diff has no hunks: make it with git diff, not --stat")
    return changed


def decode(data: bytes) -> list[str]:
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace").removesuffix("\n").split("\n")


def unquote(name: str) -> str:
    """Undo how git writes names with bytes above 127."""
    if not name.startswith('"'):
        return name
    return name.strip('"').encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def git_diff(repo: Path, revisions: str) -> list[str]:
    command = ["git", "-C", str(repo), "-c", "diff.noprefix=false", "diff", "-U0", "--no-color", "--no-ext-diff"]
    command += ["--no-textconv", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--end-of-options", revisions, "--"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or "no reason given"
        raise ValueError(f"git diff {revisions}: {reason.splitlines()[0]}")
    return done.stdout.decode("utf-8", "replace").split("\n")


def pair(changed: Iterable[str], report: Report, prefix: str) -> dict[str, str]:
    """Find the file of the report for each changed one: equal from the right, by the difference most pairs share."""
    found: list[tuple[int, str, str, tuple[Any, Any]]] = []
    known = {name: PurePosixPath(name if name[:1] == "/" else prefix + name).parts for name in report}
    for path in changed:
        parts = PurePosixPath(path).parts
        for name, other in known.items():
            shared = min(len(parts), len(other) - (name[:1] == "/"))
            if shared > 0 and parts[-shared:] == other[-shared:] and (name[:1] == "/" or shared == len(other)):
                found.append((shared, path, name, (parts[:-shared], other[:-shared])))
    votes = Counter(lead for *_, lead in found)
    pairs: dict[str, str] = {}
    for _, path, name, _ in sorted(found, key=lambda one: (-votes[one[3]], -one[0], one[2])):
        if path not in pairs and name not in pairs.values():
            pairs[path] = name
    return pairs


def gaps_of(added: dict[int, str], lines: Lines) -> Iterator[dict[str, Any]]:
    """Yield runs of changed lines that never ran; lines without code between them do not part a run."""
    run: list[int] = []
    last = -1
    for number in [*sorted(added), -1]:
        if run and (number != last + 1 or lines.hits.get(number, 0) > 0):
            error = any(ERROR.search(added[one]) for one in run)
            yield {"first": run[0], "last": run[-1], "lines": len(run), "error": error, "text": added[run[0]]}
            run = []
        if lines.hits.get(number) == 0:
            run.append(number)
        last = number


def compare(changed: dict[str, dict[int, str]], report: Report, prefix: str) -> dict[str, Any]:
    pairs = pair(changed, report, prefix)
    kinds = {PurePosixPath(name).suffix for name in report}
    files: list[dict[str, Any]] = []
    problems: list[str] = []
    for path in sorted(pairs):
        added, lines = changed[path], report[pairs[path]]
        if path.endswith(".go"):  # its blocks span blank lines and comments too
            for number, text in added.items():
                if not text.strip() or text.lstrip().startswith("//"):
                    lines.hits.pop(number, None)
        elif JS.search(path) and len(lines.hits) > 0.8 * max(lines.hits, default=0):  # V8 counts every line
            for number in [number for number, text in added.items() if NO_CODE.fullmatch(text)]:
                lines.hits.pop(number, None)
        known = [number for number in added if number in lines.hits]
        if blank := [number for number in known if not added[number].strip()]:
            problems.append(f"{path}:{blank[0]} is blank but counted as code: report of another version, run it again")
        if len(PurePosixPath(pairs[path]).parts) < len(PurePosixPath(path).parts) and not prefix:
            problems.append(f"{path} was matched with {pairs[path]} of the report: if wrong, use --prefix")
        ways = {n: lines.branches[n] for n in known if lines.hits[n] and n in lines.branches}
        partial = [{"line": n, "taken": t, "of": of, "text": added[n]} for n, (t, of) in ways.items() if t < of]
        gaps = sorted(gaps_of(added, lines), key=lambda gap: (not gap["error"], -gap["lines"]))
        ran = len([number for number in known if lines.hits[number]])
        files.append({"path": path, "code": len(known), "ran": ran, "gaps": gaps, "partial": partial})
    code, ran = sum(one["code"] for one in files), sum(one["ran"] for one in files)
    rest = [path for path in changed if path not in pairs and changed[path]]
    tests = [path for path in changed if TEST.search(path)]
    return {
        "code": code,
        "ran": ran,
        "percent": 1000 * ran // code / 10 if code else None,  # rounded down: 100.0 is all of them
        "problems": problems,
        "files": sorted(files, key=lambda one: one["ran"] - one["code"]),
        "unmeasured": [p for p in rest if p not in tests and PurePosixPath(p).suffix in kinds],
        "tests": tests,
        "other": [p for p in rest if p not in tests and PurePosixPath(p).suffix not in kinds],
    }


def show(result: dict[str, Any], most: int) -> None:
    share = "nothing measurable changed" if result["percent"] is None else f"{result['percent']} % executed"
    print(f"changed code lines {result['code']}, executed {result['ran']}: {share}; test files {len(result['tests'])}")
    for line in result["problems"][:10]:
        print(f"problem  {line}")
    for path in result["unmeasured"][:10]:
        print(f"no data  {path}: never loaded by a test, or left out of the measurement")
    if result["other"]:
        print(f"skipped  {len(result['other'])} files of other kinds: {', '.join(result['other'][:5])}")
    for one in (files := [one for one in result["files"] if one["code"] > 1 and not one["ran"]])[:10]:
        print(f"unrun    {one['path']}  none of {one['code']} changed lines; {len(one['gaps'])} gaps")
    rows = [(one, gap) for one in result["files"] if one not in files for gap in one["gaps"]]
    rows.sort(key=lambda row: not row[1]["error"])
    for one, gap in rows[:most]:
        where = f"{one['path']}:{gap['first']}" + (f"-{gap['last']}" if gap["last"] > gap["first"] else "")
        print(f"gap      {where}  {gap['lines']} lines{', error path' * gap['error']}: {gap['text'].strip()[:60]}")
    parts = [(one, way) for one in result["files"] for way in one["partial"]]
    for one, way in parts[:most]:
        print(f"branch   {one['path']}:{way['line']}  {way['taken']} of {way['of']} ways: {way['text'].strip()[:60]}")
    hidden = [len(files) - 10, len(result["unmeasured"]) - 10, len(rows) - most, len(parts) - most]
    if more := sum(max(0, one) for one in hidden):
        print(f"... {more} more files, gaps or branches: --max {max(len(rows), len(parts))} or --json")


def main() -> int:
    parser = argparse.ArgumentParser(description="List changed lines that no test executed.")
    parser.add_argument("report", type=Path, nargs="+", help="Cobertura, JaCoCo or Clover XML, lcov, Go profile, coverage.py or Istanbul JSON")
    change = parser.add_mutually_exclusive_group(required=True)
    change.add_argument("--diff", help="unified diff, - for standard input")
    change.add_argument("--git", metavar="RANGE", help="what git diff takes: origin/main...HEAD, or HEAD (work tree)")
    parser.add_argument("--repo", type=Path, default=Path(), help="root of the work tree (default: here)")
    parser.add_argument("--prefix", default="", help="folder that relative paths of the report lie in, such as web/")
    parser.add_argument("--min", type=float, default=100.0, help="percent of changed lines to execute (default 100)")
    parser.add_argument("--max", type=int, default=25, help="gaps and branches shown (default 25 each)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    report: Report = defaultdict(Lines)
    try:
        for path in args.report:
            read_report(path, args.repo, report)
        if not any(lines.hits for lines in report.values()):
            raise ValueError("the reports know no line of code")
        if args.git:
            changed = read_diff(git_diff(args.repo, args.git), given=False)
        elif args.diff == "-":
            changed = read_diff(decode(sys.stdin.buffer.read()), given=True)
        else:
            changed = read_diff(decode(Path(args.diff).read_bytes()), given=True)
        result = compare(changed, report, args.prefix and args.prefix.rstrip("/") + "/")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ElementTree.ParseError) as error:
        print(f"cannot compare: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(result, indent=1, ensure_ascii=False).encode(errors="replace").decode())
    else:
        show(result, args.max)
    low = 100 * result["ran"] < args.min * result["code"]
    return int(low or bool(result["unmeasured"]))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
