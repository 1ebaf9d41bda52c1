#!/usr/bin/env python3
"""Group the lines of huge logs into message templates: count, level, first and last time, bursts, what is new.

Standard library only, Python 3.11+. Plain text, JSON lines, .gz, .bz2, .xz and standard input (-), streamed.

    python3 group_log_lines.py FILE... [--level error] [--since T] [--until T] [--baseline FILE] [--top N] [--json]

Exit codes: 0 grouped, 1 nothing left after the filters, 2 a file cannot be read.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import re
import signal
import sys
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

LEVELS = ("fatal", "error", "warn", "info", "debug", "?")
LEVEL = re.compile(
    r"(?<![\w-])(?:(fatal|panic(?:ked)?|emerg|crit(?:ical)?|alert)|(err(?:or)?|severe|exception in thread|traceback|uncaught|"
    r"unhandled|segmentation fault|out of memory)|(warn(?:ing)?|wrn)|(info(?:rmation)?|notice)|(debug|trace))(?![\w-])",
    re.IGNORECASE,
)
LEVEL_FIELD = re.compile(r"\b(?:level|lvl|severity)=[\"']?(\w+)")  # of logfmt
START = re.compile(  # syslog, Android, .NET; klog also behind what a collector puts before it
    r"^<(\d{1,3})>|^\d\d-\d\d [\d:.]+ +\d+ +\d+ ([VDIWEF]) |(?:^|[ ])([EWFI])(?=\d{4} \d\d:\d\d:\d\d\.\d)|^(fail): "
)
PREFIX = re.compile(r"[\w.-]+ +\| |\[pod/[^\s\]]+\] ")  # docker compose logs, kubectl logs --prefix
MESSAGE_KEYS = ("message", "msg", "event", "log", "error", "body", "@m", "@mt", "MessageTemplate", "short_message")
MESSAGE_KEYS += ("MESSAGE", "textPayload")
LEVEL_KEYS = ("level_name", "level", "severity", "levelname", "lvl", "log.level", "Level", "@l", "PRIORITY")
LEVEL_KEYS += ("severity_text", "severityText", "SeverityText")
INSIDE = ("fields", "jsonPayload")  # where Rust's tracing and Google Cloud put what was said
TIME_KEYS = ("timestamp", "time", "ts", "@timestamp", "date", "Timestamp", "@t", "datetime", "__REALTIME_TIMESTAMP")
STATUS_KEYS = ("status", "status_code", "statusCode", "response_code")
PINO = {60: "fatal", 50: "error", 40: "warn", 30: "info", 20: "debug", 10: "debug"}
SYSLOG = ("fatal", "fatal", "fatal", "error", "warn", "info", "info", "debug")
PINO |= dict(enumerate(SYSLOG))
OWN = re.compile(  # java.util.logging, whose time stands on the line before, and the last words of a program
    r"(?:SEVERE|FATAL|CRITICAL|ERROR|WARNING|WARN|INFO): ?|panic: |fatal error: |thread '[^']*' panicked|Exception in thread |"
    r"Segmentation fault|[Uu]nhandled |[Uu]ncaught "
)
KLOG = {"F": "fatal", "E": "error", "W": "warn", "I": "info", "D": "debug", "V": "debug"}
OUTER = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d))(?: std(?:out|err) [FP])?(?: |$)")  # kubectl, docker, CRI
TIME = re.compile(
    r"(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"
    r"|^(?P<android>\d\d-\d\d \d\d:\d\d:\d\d)\.\d{3}|(?P<clf>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d)(?: [+-]\d{4})?"
    r"|(?P<ctime>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? 20\d\d)\b"
    r"|(?P<tomcat>\d\d[- ][A-Z][a-z]{2}[- ]\d{4} \d\d:\d\d:\d\d)(?:[.,]\d+)?"
    r"|(?P<jul>[A-Z][a-z]{2} \d\d?, \d{4} \d\d?:\d\d:\d\d [AP]M)|^[EWFID](?P<klog>\d{4} \d\d:\d\d:\d\d)(?:\.\d+)?"
    r"|(?P<sys>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)|(?P<slash>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.\d+)?"
)
FORMATS = {"clf": "%d/%b/%Y:%H:%M:%S", "slash": "%Y/%m/%d %H:%M:%S", "tomcat": "%d %b %Y %H:%M:%S"}
FORMATS |= {"ctime": "%b %d %H:%M:%S %Y", "jul": "%b %d, %Y %I:%M:%S %p"}
NO_YEAR = {"android": "%m-%d %H:%M:%S", "sys": "%b %d %H:%M:%S", "klog": "%m%d %H:%M:%S"}
MASKS = (  # the character without which a pattern cannot match, the pattern, what stands for it
    ("-", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    ("@", re.compile(r"[\w.+-]{1,64}@[\w-]+\.[\w.]+"), "<mail>"),
    ("?", re.compile(r"\?[^\s\"']*=[^\s\"']*"), "?<query>"),
    (".", re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    ("", re.compile(r"\b(?:0x[0-9a-f]+|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,})\b", re.IGNORECASE), "<hex>"),
    ("'", re.compile(r"'[^']{0,200}'"), "'<text>'"),
    ("", re.compile(r"(?:(?<![A-Za-z\d])-?\d|(?<=[A-Za-z])\d\d)\d*(?:[.,:]\d+)*"), "<n>"),  # not the digit of s3 or utf8
)
MASKED = re.compile(r"[\d'@?]|0x")
SECRET = re.compile(
    r"((?:pass(?:word|wd)?|pwd|secret(?:_access)?(?:_key)?|token|api[_-]?key|authorization|cookie|session_?id)"
    r"(?:\\?[\"'])?\s*[=:]\s*(?:\\?[\"'])?(?:bearer |basic )?|bearer |basic (?=\S{12}))"
    r"(?:(?<=\")[^\"]{4,200}?(?=\\?\")|[^\s\"',;&<]{4,})|\beyJ[\w-]{8,}\.[\w.-]+|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    re.IGNORECASE,
)
SECRET_HINT = re.compile(r"pass|pwd|secret|token|key|authorization|cookie|session|bearer|basic|eyJ|://", re.IGNORECASE)
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ACCESS = re.compile(r'(" | (?:-?\d+/){4}\+?\d+ )([1-5])\d\d(?= |$)')  # status in the access log of a web server or HAProxy
POSTGRESQL = re.compile(r"\b(?:(LOG)|DETAIL|HINT|STATEMENT|CONTEXT|QUERY|LOCATION):  ")
EXCEPTION = re.compile(r"\b([A-Z][\w$]*(?:Error|Exception|Timeout|Refused))\b")
MOST_TEMPLATES, VARIANTS = 20_000, 8


@dataclass
class Group:
    """Entries with the same template."""

    template: str
    level: str
    example: str
    place: str
    count: int = 0
    first: str = ""
    last: str = ""
    minutes: Counter[str] = field(default_factory=Counter)
    exceptions: Counter[str] = field(default_factory=Counter)

    def add(self, stamp: str) -> None:
        self.count += 1
        if stamp:
            self.first = min(self.first or stamp, stamp)
            self.last = max(self.last, stamp)
            self.minutes[stamp[: stamp.find(":") + 3]] += 1

    def absorb(self, other: Group) -> None:
        self.count += other.count
        self.first = min(filter(None, (self.first, other.first)), default="")
        self.last = max(self.last, other.last)
        self.minutes += other.minutes
        self.exceptions += other.exceptions


def open_log(name: str) -> AbstractContextManager[IO[bytes]]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast("IO[bytes]", openers.get(Path(name).suffix, open)(name, "rb"))


@lru_cache(maxsize=4096)
def normal_time(kind: str, stamp: str) -> str:
    try:
        if kind in NO_YEAR:  # a leap year lets 29 February pass, and is dropped again
            return datetime.strptime(f"2024 {stamp}", f"%Y {NO_YEAR[kind]}").strftime("%m-%d %H:%M:%S")
        stamp = re.sub(r"\.\d+", "", stamp) if kind == "ctime" else stamp.replace("-", " ") if kind == "tomcat" else stamp
        return datetime.strptime(stamp, FORMATS[kind]).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""


def parse_time(text: str) -> tuple[str, str]:
    """Return the time in *text* as sortable text (no zone arithmetic) and the text without it."""
    match = TIME.search(text, 0, 120)
    if not match:
        return "", text
    kind = cast("str", match.lastgroup)
    stamp = match[kind].replace("T", " ")
    if kind != "iso" and not (stamp := normal_time(kind, stamp)):
        return "", text
    return stamp, text[: match.start()] + text[match.end() :]


def parse_json(line: str) -> tuple[str, str, str] | None:
    """Return time, level and message of a line that is a JSON object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    inner = [record, *(record[key] for key in INSIDE if isinstance(record.get(key), dict))]
    message = said(next((one[key] for one in inner for key in MESSAGE_KEYS if one.get(key)), line))
    unsaid = "info" if "@mt" in record else ""  # by Serilog
    raw = next((record[key] for key in LEVEL_KEYS if key in record), unsaid)
    if not raw and isinstance(record.get("log"), dict):  # Elastic Common Schema
        raw = record["log"].get("level", "")
    if isinstance(raw, str) and raw.isdigit():
        raw = int(raw)
    level = PINO.get(raw, "?") if isinstance(raw, int) else find_level(said(raw or message))
    status = str(next((record[key] for key in STATUS_KEYS if key in record), ""))
    if level == "?" and re.fullmatch(r"[1-5]\d\d", status):  # an access log
        level = {"4": "warn", "5": "error"}.get(status[0], "info")
    when = next((record[key] for key in TIME_KEYS if key in record), "")
    if isinstance(when, str) and re.fullmatch(r"\d{9,19}(\.\d+)?", when):
        when = float(when)
    if isinstance(when, int | float):
        while when > 1e11 and when != float("inf"):  # milli-, micro- or nanoseconds
            when /= 1000
        when = datetime.fromtimestamp(when, UTC).isoformat() if 1e8 < when < 1e11 else ""
    error = record.get("err") or record.get("exc_info") or record.get("stack") or ""
    return parse_time(str(when))[0], level, f"{message} {str(error)[:300]}".strip()


def said(value: object) -> str:
    """Return what a value says in one line; of an object each field, quoted only what looks secret."""
    if isinstance(value, dict):
        return " ".join(
            f'{key}="{said(one)}"' if SECRET_HINT.search(str(key)) else f"{key}={said(one)}" for key, one in value.items()
        )
    text = str(value)
    return COLOUR.sub("", text) if "\x1b" in text else text


def parse_json_after_time(line: str) -> tuple[str, str, str] | None:
    """Return the same of an object after a time, as `kubectl logs --timestamps` and journald print it.

    An object that names no message is part of a text, and so is one after a level.
    """
    start = line.find("{", 0, 120) if line[-1] == "}" else -1
    stamp, rest = parse_time(line[:start]) if start > 0 else ("", "")
    parsed = parse_json(line[start:]) if stamp and find_level(rest) == "?" else None
    return (parsed[0] or stamp, *parsed[1:]) if parsed and parsed[2] != line[start:] else None


def find_level(text: str) -> str:
    if "=" in text and (named := LEVEL_FIELD.search(text, 0, 400)):
        text = named[1]
    match = LEVEL.search(text, 0, 200)
    return LEVELS[cast("int", match.lastindex) - 1] if match else "?"


def hide(message: str) -> str:
    """Put a mask where a password, token or key stands."""
    return SECRET.sub(lambda found: f"{found[1] or ''}<secret>", message) if SECRET_HINT.search(message) else message


def mask(message: str) -> str:
    text = " ".join(message[:600].split())
    if MASKED.search(text):
        for needed, pattern, name in MASKS:
            if needed in text:
                text = pattern.sub(name, text)
    return text[:240]


class Grouping:
    """Groups of the entries read so far, of the levels and the time wanted."""

    def __init__(self, levels: tuple[str, ...], since: str, until: str) -> None:
        self.levels, self.since, self.until = levels, since, until
        self.groups: dict[tuple[str, str], Group] = {}
        self.with_year = {limit[4:5] == "-" for limit in (since, until) if limit}
        self.unlevelled, self.unlike, self.stamp, self.level = 0, 0, "", "?"
        self.lines = self.entries = self.timed = self.dated = self.kept = 0
        self.current: Group | None = None
        self.raised = False
        self.by_level: Counter[str] = Counter()

    def read(self, name: str) -> None:
        with open_log(name) as raw:
            head = raw.peek(4096)[:4096]  # type: ignore[attr-defined]
            wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))  # PowerShell writes UTF-16
            if not wide and (head.count(0) > 10 or head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03"))):
                raise OSError("binary, not a log; other compression?")
            encoding = "utf-16" if wide else "utf-8-sig"
            for number, line in enumerate(io.TextIOWrapper(raw, encoding, errors="replace"), 1):
                self.lines += 1
                if text := (COLOUR.sub("", line) if "\x1b" in line else line).rstrip():
                    self.take(text, f"{name}:{number}")
        self.current = None

    def take(self, line: str, place: str) -> None:
        head = match[0] if (match := PREFIX.match(line)) and find_level(match[0]) == "?" else ""
        line = line[len(head) :] or "-"
        parsed = parse_json(line) if line[0] == "{" else parse_json_after_time(line)
        outer = None if parsed else OUTER.match(line)
        line = line[outer.end() :] if outer else line
        if not line:
            return
        stamp, level, message = parsed or self._plain(line)
        if not parsed and not stamp and self._continues(line, own=bool(outer) and level != "?"):
            if self.current and (match := EXCEPTION.search(line)):
                self.current.exceptions[match[1]] += 1
            return
        self.dated += bool(stamp)
        if outer:
            stamp = parse_time(outer[1])[0]
        if stamp:
            self.stamp = stamp
        elif not parsed and (OWN.match(line) or line.startswith("Traceback")):
            stamp = self.stamp
        self.level = level
        self.entries += 1
        self.timed += bool(stamp)
        self.by_level[level] += 1
        self.current = None
        self.unlevelled += level == "?"
        unlike = stamp and bool(self.with_year - {stamp[4:5] == "-"})  # one has a year and the other has not
        self.unlike += bool(unlike)
        outside = unlike or (stamp and ((self.since and stamp < self.since) or (self.until and stamp >= self.until)))
        if level not in self.levels or outside or (not stamp and (self.since or self.until)):
            return
        self.kept += 1
        message = head + hide(message[:1000])
        self.current = self._group(mask(message), level, message, place)
        self.current.add(stamp)
        if match := EXCEPTION.search(message):
            self.current.exceptions[match[1]] += 1

    def _plain(self, line: str) -> tuple[str, str, str]:
        stamp, message = parse_time(line)
        if match := ACCESS.search(message):
            return stamp, {"4": "warn", "5": "error"}.get(match[2], "info"), ACCESS.sub(r"\1status\2xx", message)
        if match := START.search(line, 0, 160):
            number, android, klog, _ = match.groups()
            letter = android or klog
            level = SYSLOG[int(number) & 7] if number else KLOG[letter] if letter else "error"
            return stamp, level, message
        if ":  " in message and (match := POSTGRESQL.search(message, 0, 160)) and find_level(message[: match.start()]) == "?":
            return stamp, "info" if match[1] else "?", message  # a statement may hold any word
        return stamp, find_level(message), message

    def _continues(self, line: str, *, own: bool) -> bool:
        """A line without time belongs to the entry before where most entries have one, or where it is indented.

        So does the first line after a Python traceback that is not indented: it names the exception.
        A digit and a level word begin an entry of their own, whose time has another form; so do `SEVERE: `, `panic: ` and a
        traceback after an entry that is no error. With *own*, a time of the collector and a level word, it is an entry as well.
        """
        if line[0] in " \t":
            return True
        if (line[0].isdigit() and find_level(line) != "?") or OWN.match(line):
            return False
        ended, self.raised = self.raised, line.startswith("Traceback")
        if self.raised and self.level in ("info", "debug"):
            return False
        known = line.startswith(("Caused by", "Traceback", "During handling of", "The above exception"))
        return known or (ended and self.entries > 0) or (not own and self.dated * 2 > self.entries > 4)

    def _group(self, template: str, level: str, message: str, place: str) -> Group:
        key = (level, template)
        if key not in self.groups and len(self.groups) >= MOST_TEMPLATES:
            self.merge()
            if len(self.groups) >= MOST_TEMPLATES:
                key = (level, "(templates beyond the limit)")
        if key not in self.groups:
            self.groups[key] = Group(key[1], level, " ".join(message.split())[:300], place)
        return self.groups[key]

    def merge(self) -> None:
        """Join templates that differ in one word only, where that word has many values."""
        for position in range(1, 12):
            alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
            for level, template in self.groups:
                words = template.split(" ")
                if position < len(words):
                    words[position] = "<*>"
                    alike.setdefault((level, *words), []).append((level, template))
            for (level, *words), keys in alike.items():
                if len(keys) >= VARIANTS:
                    joined = self.groups.pop(keys[0])
                    joined.template = " ".join(words)
                    for key in keys[1:]:
                        joined.absorb(self.groups.pop(key))
                    self.groups[level, joined.template] = joined


def burst(group: Group) -> str:
    """Return the worst minute, where it has at least 10 entries and 5 times the usual minute of this message."""
    if not group.minutes:
        return ""
    minute, most = group.minutes.most_common(1)[0]
    usual = sorted(group.minutes.values())[len(group.minutes) // 2]
    return f"{most} in {minute[-5:]}" if most >= 10 and (most >= 5 * usual or len(group.minutes) == 1) else ""


def moment(text: str) -> str:
    """Return a time given as an option as entries have it."""
    if text and not re.fullmatch(r"(\d{4}-)?\d\d-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?", text.removesuffix("Z")):
        raise argparse.ArgumentTypeError(f"{text!r} is not written '2026-01-31 14:05' (syslog: '01-31 14:05')")
    return text.removesuffix("Z").replace("T", " ")


def occurs(template: str, known: dict[int, list[list[str]]]) -> bool:
    """Say whether a known template is the same, where either may have a word left out."""
    words = template.split(" ")
    return any(all(a == b or "<*>" in (a, b) for a, b in zip(words, one, strict=True)) for one in known[len(words)])


def describe(group: Group, known: set[str], by_length: dict[int, list[list[str]]]) -> dict[str, Any]:
    return {
        "count": group.count,
        "level": group.level,
        "template": group.template,
        "first": group.first,
        "last": group.last,
        "minutes": len(group.minutes),
        "burst": burst(group),
        "exceptions": dict(group.exceptions.most_common(3)),
        "new": bool(known) and group.template not in known and not occurs(group.template, by_length),
        "place": group.place,
        "example": group.example,
    }


def show(report: dict[str, Any], top: int) -> None:
    groups = report["groups"]
    print(
        f"{report['lines']} lines, {report['entries']} entries, {report['kept']} after filters, {len(groups)} templates"
    )
    print(f"levels  {', '.join(f'{level} {count}' for level, count in report['levels'].items())}")
    without = f"; {report['without_time']} entries without a time" if report["without_time"] else ""
    print(f"time    {report['first'] or 'none found'} .. {report['last']}{without}")
    for what in report["left_out"]:
        print(f"left out  {what}")
    print("\n  count level first seen     last seen      burst          template")
    for one in groups[:top]:
        mark = "NEW " if one["new"] else ""
        raised = f" [{', '.join(one['exceptions'])}]" if one["exceptions"] else ""
        print(
            f"{one['count']:>7} {one['level']:<5} {one['first'][-14:]:<14} {one['last'][-14:]:<14} {one['burst']:<14} "
            f"{mark}{one['template'][:150]}{raised}"
        )
        print(f"{'':>53}{one['place']}") if one["count"] < 5 or one["new"] else None
    if len(groups) > top:
        rest = sum(one["count"] for one in groups[top:])
        print(f"... {len(groups) - top} more templates, {rest} entries: --top {len(groups)} or --level error")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Group the lines of huge logs into message templates.")
    parser.add_argument("files", nargs="+", help="logs in order of time, also .gz .bz2 .xz; - is standard input")
    parser.add_argument("--level", choices=LEVELS[:5], help="this level and worse only")
    parser.add_argument(
        "--since", type=moment, default="", help="from this time, written '2026-01-31 14:05' (syslog: '01-31 14:05')"
    )
    parser.add_argument("--until", type=moment, default="", help="before this time")
    parser.add_argument(
        "--baseline", action="append", default=[], help="a log of good times: mark what it lacks as NEW"
    )
    parser.add_argument("--by", choices=("severity", "count", "first"), default="severity", help="order of the groups")
    parser.add_argument("--top", type=int, default=25, help="templates shown (default 25)")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    levels = LEVELS[: LEVELS.index(args.level) + 1] if args.level else LEVELS
    grouping, known = Grouping(levels, args.since, args.until), Grouping(LEVELS, "", "")
    try:
        for name in args.files:
            grouping.read(name)
        for name in args.baseline:
            known.read(name)
    except (OSError, EOFError, lzma.LZMAError) as error:
        print(f"cannot read {name}: {error}", file=sys.stderr)
        return 2
    if args.baseline and not known.entries:
        print("the baseline holds no entries: nothing could be NEW", file=sys.stderr)
        return 2
    grouping.merge()
    known.merge()
    templates, by_length = {template for _, template in known.groups}, defaultdict[int, list[list[str]]](list)
    for template in templates:
        by_length[template.count(" ") + 1].append(template.split(" "))
    order = {
        "severity": lambda g: (not g["new"], LEVELS.index(g["level"]), -g["count"]),
        "count": lambda g: -g["count"],
        "first": lambda g: (g["first"] == "", g["first"]),
    }[args.by]
    groups = sorted((describe(group, templates, by_length) for group in grouping.groups.values()), key=order)
    report = {
        "lines": grouping.lines,
        "entries": grouping.entries,
        "kept": grouping.kept,
        "levels": dict(sorted(grouping.by_level.items(), key=lambda pair: LEVELS.index(pair[0]))),
        "without_time": grouping.entries - grouping.timed,
        "left_out": [
            f"{count} entries without a {what}, by {option}"
            for count, what, option, given in (
                (grouping.unlevelled, "level", "--level", args.level),
                (grouping.entries - grouping.timed, "time", "--since or --until", args.since or args.until),
            )
            if given and count
        ]
        + (
            [f"{grouping.unlike} entries: --since or --until has a year and their time none, or vice versa"]
            if grouping.unlike
            else []
        ),
        "first": min((g["first"] for g in groups if g["first"]), default=""),
        "last": max((g["last"] for g in groups), default=""),
        "groups": groups,
    }
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return 0 if grouping.kept else 1


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
