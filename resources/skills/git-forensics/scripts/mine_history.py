#!/usr/bin/env python3
"""Mine the history of a git repository: hot spots, who knows what, files that change together.

Standard library only, Python 3.11+, needs git. Reads `git log` once, as a stream; changes nothing.

    python3 mine_history.py hotspots|owners|coupling|summary [--repo DIR] [--since 12.months] [--path DIR] [--json]

Exit codes: 0 ok, 1 no commits in that range, 2 no date, no repository, or git failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

FIX = re.compile(r"\b((bug-?|hot)?fix(es|ed|ing)?|bugs?|revert(s|ed)?|regressions?|crash(es|ed|ing)?|broken)\b", re.IGNORECASE)
ESCAPE, ESCAPED = re.compile(r"\\(.)"), {"t": "\t", "n": "\n"}
GENERATED = re.compile(
    r"(^|/)(package-lock\.json|npm-shrinkwrap\.json|packages\.lock\.json|pnpm-lock\.yaml|[\w.-]+\.lockb?|go\.sum|Package\.resolved|requirements[\w.-]*\.txt|"
    r"CHANGELOG[^/]*)$|\.(min\.js|snap|svg|png|jpe?g|pdf|map|csv)$|(^|/)(vendor|node_modules|dist)/",
    re.IGNORECASE,
)
SINCE = re.compile(r"\d+[. ](hour|day|week|month|year)s?([. ]ago)?|\d{4}-\d\d-\d\d([T ].*)?|@?\d{9,}|yesterday|", re.IGNORECASE)
RENAME = re.compile(r"\{(?P<old>[^{}]*) => (?P<new>[^{}]*)\}")


class GitError(Exception):
    """What git said when it failed."""


@dataclass
class Commit:
    """A commit without merges: who, when, whether it mends something, lines per file under its present name."""

    author: str
    time: int
    fix: bool
    files: dict[str, int] = field(default_factory=dict)


@dataclass
class FileHistory:
    """What happened to one file."""

    commits: int = 0
    fixes: int = 0
    churn: int = 0
    last: int = 0
    authors: Counter[str] = field(default_factory=Counter)


def git(repo: Path, *arguments: str) -> Iterator[str]:
    """Yield the lines that git prints; raise GitError with its first complaint."""
    command = ["git", "-C", str(repo), "-c", "core.quotePath=false", *arguments]
    # a hook of another repository sets these; they would win over -C
    environment = {key: value for key, value in os.environ.items() if key not in {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace") as run:
        assert run.stdout
        assert run.stderr
        yield from (line.rstrip("\n") for line in run.stdout)
        complaint = run.stderr.read().strip()
    if run.returncode:
        raise GitError(complaint.splitlines()[0] if complaint else f"git ended with {run.returncode}")


def renamed(path: str) -> tuple[str, str]:
    """Return old and new path of a file in --numstat, equal where it was not renamed."""
    if match := RENAME.search(path):
        old, new = (path[: match.start()] + match[part] + path[match.end() :] for part in ("old", "new"))
        return old.replace("//", "/"), new.replace("//", "/")
    old, arrow, new = path.partition(" => ")
    return (old, new) if arrow else (path, path)


def unquoted(path: str) -> str:
    """Return a path without the quotes and escapes that git gives it for a quote, a backslash, a tab."""
    if not path.startswith('"'):
        return path
    return ESCAPE.sub(lambda found: ESCAPED.get(found[1], found[1]), path[1:-1])


def read_commits(repo: Path, since: str, path: str) -> Iterator[Commit]:
    """Yield commits from the newest on; earlier names of a file count for its present name."""
    present: dict[str, str] = {}
    latest = int(datetime.now(UTC).timestamp())  # one clock ahead would make all the others look gone
    command = ["log", "--no-merges", "--numstat", "-M", "--use-mailmap", "--format=%x01%aN%x02%at%x02%ct%x02%s"]
    command += [f"--since={since}"] if since else []
    commit = None
    for line in git(repo, *command, "--", *([path] if path else [])):
        if line.startswith("\x01"):
            if commit:
                yield commit
            author, time, taken, subject = line[1:].split("\x02", 3)
            commit = Commit(author, min(int(time), int(taken), latest), bool(FIX.search(subject)))
        elif commit and line.count("\t") == 2:
            added, deleted, name = line.split("\t")
            old, new = map(unquoted, renamed(name))
            now = present.get(new, new)
            if old != new:
                present[old] = now
            commit.files[now] = sum(int(number) for number in (added, deleted) if number.isdigit())
    if commit:
        yield commit


def histories(commits: list[Commit], alive: set[str]) -> dict[str, FileHistory]:
    """Return what happened to each file that still exists and is not generated."""
    found: dict[str, FileHistory] = defaultdict(FileHistory)
    for commit in commits:
        for name, lines in commit.files.items():
            if name in alive:
                one = found[name]
                one.commits += 1
                one.fixes += commit.fix
                one.churn += lines
                one.last = max(one.last, commit.time)
                one.authors[commit.author] += lines or 1
    return found


def count_lines(repo: Path, name: str) -> int:
    try:
        with (repo / name).open("rb") as handle:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: handle.read(1 << 20), b""))
    except OSError:
        return 0  # deleted in the work tree, or a submodule


def day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def hotspots(repo: Path, commits: list[Commit], alive: set[str]) -> list[dict[str, Any]]:
    """Rank files by commits x lines: what changes often and is hard to hold in the head."""
    rows = []
    for name, one in histories(commits, alive).items():
        if one.commits == 1:
            continue  # said nothing about change yet
        lines = count_lines(repo, name)
        rows.append(
            {"score": one.commits * lines, "commits": one.commits, "lines": lines, "fixes": one.fixes}
            | {"churn": one.churn, "authors": len(one.authors), "last": day(one.last), "file": name}
        )
    return sorted(rows, key=lambda row: (-row["score"], row["file"]))


def last_seen(commits: Iterable[Commit]) -> dict[str, int]:
    """Return when each author made the newest commit."""
    active = Counter[str]()
    for commit in commits:
        active[commit.author] = max(active[commit.author], commit.time)
    return active


def owners(
    commits: list[Commit], alive: set[str], depth: int, idle_days: int, active: dict[str, int]
) -> list[dict[str, Any]]:
    """Say for each folder who wrote how much of its change, and whether the main author is still active anywhere."""
    now = max(active.values())
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for name, one in histories(commits, alive).items():
        folder = "/".join(name.split("/")[:-1][:depth]) or "."
        folders[folder].update(one.authors)
    rows = []
    for folder, authors in folders.items():
        main, lines = authors.most_common(1)[0]
        idle = (now - active[main]) // 86400
        rows.append(
            {"folder": folder, "main": main, "share": round(100 * lines / authors.total()), "authors": len(authors)}
            | {"main_last_commit": day(active[main]), "gone": idle > idle_days, "churn": authors.total()}
        )
    return sorted(rows, key=lambda row: (-row["churn"], row["folder"]))


def coupling(commits: list[Commit], alive: set[str], least: int, largest: int, path: str) -> list[dict[str, Any]]:
    """List pairs of files that change in the same commits; commits of more than *largest* files say nothing."""
    path = f"{path.removeprefix('./').rstrip('/')}/" if path else ""
    single, pairs = Counter[str](), Counter[tuple[str, str]]()
    for commit in commits:
        files = sorted(name for name in commit.files if name in alive)
        if len(files) <= largest:
            single.update(files)
            pairs.update(combinations(files, 2))
    rows = [
        {"together": count, "share": round(100 * count / min(single[a], single[b])), "a": a, "b": b}
        | {"same_folder": Path(a).parent == Path(b).parent}
        for (a, b), count in pairs.items()
        if any(f"{name}/".startswith(path) for name in (a, b))
        and count >= least
        and count * 2 >= min(single[a], single[b])
    ]
    return sorted(rows, key=lambda row: (row["same_folder"], -row["together"] * row["share"], row["a"]))


def summary(commits: list[Commit]) -> list[dict[str, Any]]:
    """Count commits, authors and repairs a quarter."""
    quarters: dict[str, list[Commit]] = defaultdict(list)
    for commit in commits:
        when = datetime.fromtimestamp(commit.time, UTC)
        quarters[f"{when.year}-Q{(when.month + 2) // 3}"].append(commit)
    return [
        {"quarter": name, "commits": len(found), "authors": len({commit.author for commit in found})}
        | {"fixes_percent": round(100 * sum(commit.fix for commit in found) / len(found))}
        | {"lines": sum(sum(commit.files.values()) for commit in found)}
        for name, found in sorted(quarters.items(), reverse=True)
    ]


def show(rows: list[dict[str, Any]], top: int) -> None:
    if not rows:
        print("nothing above the thresholds")
        return
    shown = rows[:top]
    width = {key: max(len(key), *(len(str(row[key])) for row in shown)) for key in rows[0]}
    for row in ({key: key for key in rows[0]}, *shown):
        print("  ".join(str(row[key]).ljust(width[key]) for key in row).rstrip())
    if len(rows) > top:
        print(f"... {len(rows) - top} more: --top {len(rows)} or --json")


def start(since: str) -> str:
    """What git is to be given: it reads a bare date at the present time of day, and 2026-13-01 as some other day."""
    if not SINCE.fullmatch(since):
        raise ValueError(since)
    if re.match(r"\d{4}-", since):
        datetime.fromisoformat(since[:10])
    return f"{since} 00:00:00" if re.fullmatch(r"\d{4}-\d\d-\d\d", since) else since


def one_or_more(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mine the history of a git repository; changes nothing.")
    parser.add_argument("view", choices=("hotspots", "owners", "coupling", "summary"))
    parser.add_argument("--repo", type=Path, default=Path(), help="a folder in the repository (default: here)")
    parser.add_argument("--since", default="12.months", help="12.months or 2026-01-31; '' is all history")
    parser.add_argument(
        "--path", default="", help="only what is below this path, seen from the top; coupling: one of the two files"
    )
    parser.add_argument("--depth", type=one_or_more, default=2, help="owners: folder levels (default 2)")
    parser.add_argument("--idle-days", type=int, default=180, help="owners: 'gone' after this long without a commit")
    parser.add_argument("--least", type=int, default=5, help="coupling: least commits together (default 5)")
    parser.add_argument("--largest", type=int, default=30, help="coupling: skip commits of more files (default 30)")
    parser.add_argument("--with-generated", action="store_true", help="also lock files, snapshots, images, vendor/")
    parser.add_argument("--top", type=one_or_more, default=30, help="rows shown (default 30)")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    try:
        since = start(args.since)
    except ValueError:
        print(f"--since {args.since} is no date: write 12.months or 2026-01-31", file=sys.stderr)
        return 2
    try:
        repo = Path(next(git(args.repo, "rev-parse", "--show-toplevel")))
        shallow = next(git(repo, "rev-parse", "--is-shallow-repository")) == "true"
        commits = list(read_commits(repo, since, "" if args.view == "coupling" else args.path))
        # whoever left this path may work in another one
        active = last_seen(read_commits(repo, since, "") if args.view == "owners" and args.path else commits)
        alive = {
            name for name in map(unquoted, git(repo, "ls-files")) if args.with_generated or not GENERATED.search(name)
        }
    except (GitError, OSError, StopIteration) as error:
        print(f"cannot read the history of {args.repo}: {error or 'no work tree'}", file=sys.stderr)
        return 2
    if shallow:
        print("warning: shallow clone, older history is missing: git fetch --unshallow", file=sys.stderr)
    if not commits:
        print(f"no commits since {args.since}{' below ' + args.path if args.path else ''}", file=sys.stderr)
        return 1
    rows = {
        "hotspots": lambda: hotspots(repo, commits, alive),
        "owners": lambda: owners(commits, alive, args.depth, args.idle_days, active),
        "coupling": lambda: coupling(commits, alive, args.least, args.largest, args.path),
        "summary": lambda: summary(commits),
    }[args.view]()
    if args.json:
        print(json.dumps({"view": args.view, "commits": len(commits), "rows": rows}, indent=1, ensure_ascii=False))
        return 0
    print(f"{len(commits)} commits without merges, {day(commits[-1].time)} .. {day(commits[0].time)}\n")
    show(rows, args.top)
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
