#!/usr/bin/env python3
"""Say when cron lines run: next times in a zone, runs per day, the two days of clock change, and lines that collide.

Standard library only, Python 3.11+ (on Windows the package tzdata too).

    python3 preview_cron.py FILE|- [--expression "EXPR"] [--dialect D] [--zone Z] [--from T] [--count N] [--json]

Dialects: cronie (Debian's cron does the same on clock changes), kubernetes, github. Exit codes: 0 previewed, 1 something
to look at, 2 nothing could be read.
"""

from __future__ import annotations

import argparse
import codecs
import json
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
DAYS = {name: n for n, name in enumerate("sun mon tue wed thu fri sat".split())}
NICKNAMES = {"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
             "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}  # fmt: skip
DIALECTS = ("cronie", "kubernetes", "github")
ITEM = re.compile(r"^(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?$")
SECRET = re.compile(r"(?i)(?<=://)[^/\s@]+(?=@)|(?<=-u )\S+:\S+|(?<=bearer )\S+|(?<=basic )\S+"
                    r"|(\b[\w-]*(?:passw|pwd|token|secret|api_?key)\w*[=: ]+)\S+|(\bmysql\w* (?:.* )?-p)\S+")  # fmt: skip
YAML = re.compile(r"^\s*(?:- *)?(cron|schedule): *([\"']?)([^\s\"'#][^\"'#\n]*?)\2 *(?:#.*)?\r?$", re.MULTILINE)
ZONE = re.compile(r"time[zZ]one: *[\"']?([\w/+-]+)")
FLOW = re.compile(r"^ *(?:- *|\w+: *)?[\[{][^\n]*\b(?:cron|schedule): ", re.MULTILINE)
YEARS = 8
Json = dict[str, Any]


@dataclass
class Schedule:
    """One line: its sets of values, and whether day of month and day of week begin with a star."""

    line: int
    text: str
    expression: str
    sets: list[set[int]]
    stars: tuple[bool, bool, bool, bool]
    zone: str

    def runs_on(self, day: date) -> bool:
        """Return whether any run falls on *day*: with both day fields restricted, either is enough."""
        if day.month not in self.sets[3]:
            return False
        of_month, of_week = day.day in self.sets[2], day.isoweekday() % 7 in self.sets[4]
        return of_month and of_week if self.stars[2] or self.stars[3] else of_month or of_week

    @property
    def wildcard(self) -> bool:
        """Whether minute or hour begins with a star: cronie lets such a line follow the wall clock through a change."""
        return self.stars[0] or self.stars[1]


def parse_field(text: str, number: int, dialect: str) -> set[int]:
    name, least, most = FIELDS[number]
    names = MONTHS if number == 3 else DAYS if number == 4 else {}
    found: set[int] = set()
    top = 6 if number == 4 and dialect != "cronie" else most

    def value(word: str) -> int:
        read = names.get(word.lower(), int(word) if re.fullmatch(r"[0-9]{1,9}", word) else -1)
        if not least <= read <= top:
            raise ValueError(f"{name} {word!r} is not in {least} to {top}")
        return read

    for item in text.split(","):
        if re.search(r"[LW#]", re.sub(r"(?i)jul|wed", "", item)):
            raise ValueError(f"{name} {item!r}: L, W and # are of Quartz and AWS, no cron here knows them; test in the job")
        if item == "?" and dialect == "kubernetes" and number in (2, 4):
            item = "*"
        if item == "?":
            raise ValueError(f"{name} '?' is of Quartz, AWS and Kubernetes: write *")
        if "~" in item and dialect == "cronie":
            raise ValueError(f"{name} {item!r}: cronie draws it when it reads the file (1.6.0, 2022), so it is not previewed")
        if not (match := ITEM.match(item)):
            raise ValueError(f"{name} {item!r} cannot be read")
        star, first, last, step = match.groups()
        if step == "0":
            raise ValueError(f"{name} {item!r}: a step of 0")
        if star:
            low, high = least, 6 if number == 4 else most
        else:
            low = value(first)
            high = value(last) if last else top if step and dialect != "cronie" else low
            if step and not last and dialect == "cronie":
                raise ValueError(f"{name} {item!r}: a step needs a range or *, write {first}-{most}/{step}")
        if low > high == 0 and number == 4 and dialect == "cronie":
            raise ValueError(f"{name} {item!r}: only a cronie after 1.7.2 reads it, write {first}-7")
        if low > high:
            raise ValueError(f"{name} {item!r} runs backwards: write two ranges, {first}-{top},{least}-{last}")
        found |= {one % 7 if number == 4 else one for one in range(low, high + 1, int(step or 1))}
    return found


def parse(expression: str, line: int, text: str, dialect: str, zone: str) -> Schedule:
    parts = NICKNAMES.get(expression.lower(), expression).split()
    if expression.startswith("@") and len(parts) != 5:
        raise ValueError(f"{expression} has no times: it runs at start, at intervals, or is unknown")
    if expression.startswith("@") and dialect == "github":
        raise ValueError(f"GitHub takes no {expression}: write {' '.join(parts)}")
    if len(parts) in (6, 7):
        raise ValueError(f"{len(parts)} fields: Quartz and Spring begin with seconds, AWS ends with a year; cron has five")
    if len(parts) != 5:
        raise ValueError(f"{len(parts)} fields, five are wanted: minute hour day-of-month month day-of-week")
    sets = [parse_field(part, number, dialect) for number, part in enumerate(parts)]
    # cronie asks whether a field begins with *, the library of Kubernetes whether * stands in it alone
    stars = tuple(parts[n].startswith("*") if dialect == "cronie" else bool({"*", "?", "*/1"} & set(parts[n].split(",")))
                  for n in (0, 1, 2, 4))  # fmt: skip
    return Schedule(line, text, " ".join(parts), sets, (stars[0], stars[1], stars[2], stars[3]), zone)


def zone_named(name: str, place: str = "") -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{place}{name!r} is no time zone: write it like Europe/Berlin") from error


def decode(data: bytes) -> str:
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"neither UTF-8 nor UTF-16 (byte {error.start}): is it a crontab? convert it") from error


def masked(text: str) -> str:
    """Return a line without the passwords and tokens of its command, cut to 80 characters."""
    return SECRET.sub(lambda match: f"{match[1] or match[2] or ''}***", " ".join(text.split()))[:80]


def schedules_of_yaml(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, expression and zone of each `cron:` of GitHub, `schedule:` of a CronJob."""
    lines = text.split("\n")
    for match in YAML.finditer(text):
        number = text.count("\n", 0, match.start(1)) + 1
        zone = next((one[1] for line in siblings(lines, number - 1) if (one := ZONE.match(line))), "")
        yield number, match[3], zone


def siblings(lines: Sequence[str], at: int) -> Iterator[str]:
    """Yield the other lines of the YAML mapping that holds line *at*, from their keys on."""
    column, begins = _key(lines[at])
    above = [] if begins else range(at - 1, -1, -1)
    for numbers in (above, range(at + 1, len(lines))):
        for number in numbers:
            line = lines[number]
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            place, opens = _key(line)
            if place < column or line.startswith("---") or (opens and place == column and number > at):
                break
            if place == column:
                yield line[column:]
            if opens and place == column:
                break


def _key(line: str) -> tuple[int, bool]:
    """Return the column of a line's first key, and whether a list's entry begins with it."""
    return len(line) - len(line.lstrip(" -")), line.lstrip().startswith("- ")


def read_yaml(text: str, dialect: str, zone: str) -> tuple[list[Schedule], list[str]]:
    found, problems = [], []
    likely = "kubernetes" if re.search(r"^kind: *CronJob", text, re.MULTILINE) else "github"
    if dialect == "cronie":
        problems.append(f"it is YAML, read as a crontab's times: give --dialect {likely}")
    for braces in FLOW.finditer(text):
        number = text.count("\n", 0, braces.end()) + 1
        problems.append(f"line {number}: an entry in braces is not read: write its keys on lines of their own")
    for number, expression, own in schedules_of_yaml(text):
        try:
            if re.match(r"(CRON_)?TZ=", expression):
                raise ValueError("TZ= inside the schedule is refused by Kubernetes: use the field timeZone")
            zone_named(own or zone)
            found.append(parse(expression, number, expression, dialect, own or zone))
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    return found, problems


def read_lines(text: str, dialect: str, zone: str) -> tuple[list[Schedule], list[str]]:
    found, problems, server = [], [], zone
    if "\r\n" in text and dialect == "cronie":
        problems.append("lines end with CR LF: cron hands the CR to the command, convert them")
    for number, line in enumerate(text.split("\n"), 1):  # cron knows no other line end
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if dialect == "kubernetes" and re.match(r"(CRON_)?TZ=", line):
            problems.append(f"line {number}: TZ= inside the schedule is refused by Kubernetes: use the field timeZone")
            continue
        if match := re.match(r"^([A-Za-z_]\w*)\s*=\s*([\"']?)(.*)\2$", line):
            if match[1] == "CRON_TZ" and dialect == "cronie":
                zone = match[3].strip()
                zone_named(zone, f"line {number}: ")
                if zone != server:
                    problems.append(f"line {number}: cronie may miss or double runs on the days when {zone} changes its clock")
            continue
        words = line.split()
        expression = words[0] if words[0].startswith("@") else " ".join(words[:5])
        if len(words) > 5 and re.match(r"^[\d*?,/-]+$", words[5]) and re.match(r"^[\d*?,/LW#A-Za-z-]+$", words[4]):
            expression = " ".join(words[:7] if len(words) > 6 and re.match(r"^[\d*]", words[6]) else words[:6])
        try:
            found.append(parse(expression, number, masked(line), dialect, zone))
            if dialect == "cronie" and re.search(r"(?<!\\)%", line):
                problems.append(f"line {number}: an unescaped % ends the command, the rest is its input: write \\%")
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    return found, problems


def wall_runs(one: Schedule, day: date) -> Iterator[datetime]:
    if one.runs_on(day):
        for hour in sorted(one.sets[1]):
            for minute in sorted(one.sets[0]):
                yield datetime.combine(day, time(hour, minute))


def instants(one: Schedule, day: date, dialect: str) -> list[datetime]:
    """Return the runs of a day in UTC, with what the dialect does when the clock changes."""
    zone = ZoneInfo(one.zone)
    found: list[datetime] = []
    for wall in wall_runs(one, day):
        first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        skipped = first.astimezone(zone).replace(tzinfo=None) != wall
        if skipped:
            if dialect == "github" or (dialect == "cronie" and not one.wildcard):
                found.append(_end_of_gap(wall, zone))  # at the jump, cronie once for each
            continue
        found.append(first)
        if second != first and (one.wildcard if dialect == "cronie" else dialect == "kubernetes"):
            found.append(second)
    return sorted(found if dialect == "cronie" else set(found))


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment at which the clock jumps over *wall*: from before it, the offsets differ there."""
    low = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    target = high.astimezone(zone).utcoffset()
    while high - low > timedelta(minutes=1):
        middle = low + (high - low) / 2
        low, high = (low, middle) if middle.astimezone(zone).utcoffset() == target else (middle, high)
    return high.replace(second=0, microsecond=0)


def changes(zone: str, start: date) -> list[date]:
    """Return the days of the year from *start* on whose length is not 24 hours."""
    place, found = ZoneInfo(zone), []
    for n in range(366):
        day = start + timedelta(days=n)
        a, b = (datetime.combine(one, time(), place).utcoffset() for one in (day, day + timedelta(days=1)))
        if a != b:
            found.append(day)
    return found


def preview(one: Schedule, start: datetime, count: int, dialect: str) -> Json:
    day = start.astimezone(ZoneInfo(one.zone)).date()
    upcoming: list[datetime] = []
    for n in range(366 * YEARS):
        upcoming += [run for run in instants(one, day + timedelta(days=n), dialect) if run > start]
        if len(upcoming) >= count:
            break
    notes = []
    if not upcoming:
        notes.append(f"never runs in {YEARS} years: no such date")
    elif not (one.stars[2] or one.stars[3]):
        notes.append("day of month OR day of week: it runs on either; for both test one of them in the command")
    if (step := re.match(r"^(?:\*|1|1-31)/(\d+)$", one.expression.split()[2])) and int(step[1]) > 1:
        notes.append(f"day of month {step[0]}: each month starts again at 1")
    if upcoming and one.stars[3] and min(one.sets[2]) > 28:
        notes.append("months without such a day are left out")
    clock = []
    usual = len(one.sets[0]) * len(one.sets[1])
    for change in changes(one.zone, day):
        if one.runs_on(change):
            runs = instants(one, change, dialect)
            skipped = sum(
                wall.replace(tzinfo=ZoneInfo(one.zone)).astimezone(UTC).astimezone(ZoneInfo(one.zone)).replace(tzinfo=None)
                != wall
                for wall in wall_runs(one, change)
            )
            if len(runs) != usual or skipped:
                what = "its time does not exist, it runs when the clock jumps"
                if len(runs) != usual:
                    what = f"{len(runs)} runs instead of {usual}"
                clock.append(f"{change}: {what}")
    sizes = {number: sorted(one.sets[number]) for number in (0, 1)}
    for number, size, unit in ((0, 60, "minutes"), (1, 24, "hours")):
        step = re.match(rf"^(?:\*|0|0-{size - 1})/(\d+)$", one.expression.split()[number])
        if step and size % int(step[1]):
            notes.append(f"{step[0]} is not every {step[1]} {unit}: after {sizes[number][-1]} it starts again at 0")
    if dialect == "github":
        if usual > 24 and min((b - a for a, b in zip(sizes[0], sizes[0][1:], strict=False)), default=60) < 5:
            notes.append("GitHub runs nothing more often than every 5 minutes")
        if 0 in one.sets[0]:
            notes.append("minute 0: GitHub delays or drops runs at the start of an hour, take another minute")
    return {"line": one.line, "text": one.text, "zone": one.zone, "runs_on_a_day": usual,
            "next": [run.astimezone(ZoneInfo(one.zone)).isoformat() for run in upcoming[:count]],
            "clock_changes": clock, "notes": notes}  # fmt: skip


def collisions(schedules: list[Schedule], start: datetime, dialect: str) -> list[Json]:
    """Return sets of lines that start in the same minute, in a week from *start*, with how often."""
    at: defaultdict[datetime, set[int]] = defaultdict(set)
    for one in schedules:
        day = start.astimezone(ZoneInfo(one.zone)).date()
        for n in range(8):
            for run in instants(one, day + timedelta(days=n), dialect):
                if start < run <= start + timedelta(days=7):
                    at[run].add(one.line)
    found: defaultdict[tuple[int, ...], list[datetime]] = defaultdict(list)
    for run, lines in at.items():
        if len(lines) > 1:
            found[tuple(sorted(lines))].append(run)
    rows = [{"lines": list(lines), "times": len(runs), "first": min(runs).isoformat()} for lines, runs in found.items()]
    return sorted(rows, key=lambda row: (-row["times"], row["lines"]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Say when cron lines run.")
    parser.add_argument("file", nargs="?", help="a crontab, - for standard input")
    parser.add_argument("--expression", help="one expression instead of a file")
    parser.add_argument("--dialect", choices=DIALECTS, default="cronie")
    parser.add_argument("--zone", default="UTC", help="time zone of the scheduler (default UTC)")
    parser.add_argument("--from", dest="start", help="preview from here, ISO 8601 (default now)")
    parser.add_argument("--count", type=int, default=5, help="runs listed for each line (default 5)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    name = args.file or "--expression"
    try:
        zone_named(args.zone)
        start = datetime.fromisoformat(args.start) if args.start else datetime.now(UTC)
        if not 1970 <= start.year <= 9000:
            raise ValueError(f"--from {args.start}: take a year from 1970 to 9000")
        start = (start if start.tzinfo else start.replace(tzinfo=ZoneInfo(args.zone))).astimezone(UTC)
        data = b""
        if args.expression is not None:
            text = args.expression.strip().strip("'\"")
        elif args.file:
            data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
            text = decode(data)
        else:
            raise ValueError("name a file or an --expression")
        read = read_yaml if YAML.search(text) or FLOW.search(text) else read_lines
        schedules, problems = read(text, args.dialect, args.zone)
        if args.dialect == "cronie" and data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            problems.insert(0, "begins with a byte order mark, which spoils the first line for cron: save it as UTF-8 without one")
        if args.dialect == "github" and args.zone != "UTC":
            problems.append("note: --zone is taken as the schedule's own `timezone`")
    except (OSError, ValueError) as error:
        print(f"cannot read {name}: {error}", file=sys.stderr)
        return 2
    if not schedules:
        print(f"cannot read {name}: {problems[0] if problems else 'no schedule in it'}", file=sys.stderr)
        return 2
    rows = [preview(one, start, max(1, args.count), args.dialect) for one in schedules]
    report = {"from": start.isoformat(), "dialect": args.dialect, "problems": problems, "schedules": rows,
              "collisions": collisions(schedules, start, args.dialect)}  # fmt: skip
    print(json.dumps(report, indent=1)) if args.json else show(report)
    return int(bool(problems or report["collisions"] or any(row["clock_changes"] or row["notes"] for row in rows)))


def show(report: Json) -> None:
    print(f"from    {report['from']}, dialect {report['dialect']}")
    for problem in report["problems"]:
        print(f"problem {problem}")
    for row in report["schedules"]:
        print(f"\nline {row['line']}  {''.join(one if one.isprintable() else '?' for one in row['text'])}")
        print(f"  {row['runs_on_a_day']} runs on a day that matches, zone {row['zone']}")
        for run in row["next"]:
            print(f"  {run} {datetime.fromisoformat(run):%a}")
        for text in row["clock_changes"]:
            print(f"  clock   {text}")
        for text in row["notes"]:
            print(f"  note    {text}")
    for row in report["collisions"][:10]:
        more = f" and {len(row['lines']) - 12} more" if len(row["lines"]) > 12 else ""
        print(f"\ncollide lines {', '.join(map(str, row['lines'][:12]))}{more}: {row['times']} times in 7 days, first {row['first']}")


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
