#!/usr/bin/env python3
"""Profile a CSV file of any size in one pass: types, nulls, distinct values, ranges and what will break a load.

Standard library only, Python 3.11+. Memory does not grow with the number of rows, except with --key.

    python3 profile_csv.py FILE [--delimiter ';'] [--encoding cp1252] [--no-header] [--columns N] [--json]
    python3 profile_csv.py FILE --key id,day        prove that columns identify a row

Exit codes: 0 profiled (with --key: unique), 1 --key has duplicates, empty values or lost rows, 2 the file cannot be read.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

NULLS = frozenset(["", "na", "n/a", "#n/a", "null", "none", "nil", "nan", "-", "--", "?", "\\n", "(null)"])
KIND = re.compile(
    r"(?P<code>0\d+|\+\d{7,})|(?P<integer>[+-]?\d+)|(?P<decimal>[+-]?(?:\d*\.\d+|\d+\.))"
    r"|(?P<exponent>[+-]?\d+(?:[.,]\d+)?e[+-]?\d+)|(?P<thousands>[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?)"
    r"|(?P<comma>[+-]?\d+(?:\.\d{3})*,\d+)|(?P<date>\d{4}-\d\d-\d\d)"
    r"|(?P<datetime>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)"
    r"|(?P<daymonth>\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)(?: .*)?)|(?P<boolean>true|false|yes|no)",
    re.IGNORECASE | re.ASCII,
)
SPREADSHEET = re.compile(r"[+-]?\d(?:[.,]\d{1,5})?E\+(?:1[1-9]|2\d)")  # how Excel writes what has 12 digits or more
NUMBERS = ("integer", "decimal", "exponent", "thousands", "comma")
MOJIBAKE = re.compile("\u00c3[\u0080-\u00bf\u0192\u201a\u201e]|\u00e2\u20ac|\u00c2[\u00a0-\u00bf]")
RULED = re.compile("[ \t|+:\u2500-\u257f]*?(?:---|===|\u2500\u2500\u2500|\u2550\u2550\u2550)[ \t|+:=\u2500-\u257f-]*\\s*")
SECRET = re.compile(
    r"passw|secret|token|api[_ ]?key|authorization|cookie|private[_ ]?key|credential|iban", re.IGNORECASE
)
SENTINELS = frozenset(
    ["-1", "-9", "-99", "-999", "-9999", "999", "9999", "99999", "999999", "9999999", "99999999"]
    + ["0001-01-01", "1900-01-01", "1970-01-01", "9999-12-31"]
)
DRESSED = re.compile(
    "[(+-]?\\s?(?:[$\u20ac\u00a3\u00a5]|[A-Z]{3})?\\s?[+-]?(?:\\d{1,3}(?:[ '\u2019\u00a0\u202f.,]\\d{3})+|\\d+)(?:[.,]\\d+)?"
    "\\s?(?:[%$\u20ac\u00a3\u00a5]|[A-Z]{3})?\\)?-?"
)
OTHER_DATE = re.compile(
    r"\d{4}[/.]\d\d?[/.]\d\d?(?:[ T].*)?|\d{1,2}\.?[ -][a-z\u00e0-\u00ff]{3,9}\.?[ ,-]+(?:\d{4}|\d\d)(?: .*)?"
    r"|(?:[a-z]{3},? )?[a-z]{3,9}\.? \d{1,2},? (?:[\d:]+ (?:[a-z]+ )?)?\d{4}(?: .*)?",
    re.IGNORECASE,
)
HASHES, SAMPLE, TOP, CHUNK = 32768, 5000, 1000, 5000


@lru_cache(maxsize=1 << 16)
def kind_of(value: str) -> str:
    if value[0].isalpha() and value[0] not in "tfynTFYN":
        return "text"
    match = KIND.fullmatch(value)
    kind = (match.lastgroup if match else None) or "text"
    may_overflow = kind == "exponent" or (kind in NUMBERS and len(value) > 300)
    return "text" if may_overflow and abs(number(value, kind)) == float("inf") else kind  # 9e1234 is an id


def number(value: str, kind: str) -> float:
    if kind == "thousands":
        return float(value.replace(",", ""))
    if kind == "comma":
        value = value.replace(".", "")
    return float(value.replace(",", "."))


@lru_cache(maxsize=1 << 14)
def in_calendar(day: str) -> bool:
    try:
        return bool(date.fromisoformat(day))
    except ValueError:
        return False


def plain(value: str) -> str:
    """Return a number without zeros after its point, and the day of a time."""
    if value[4:5] == "-":
        return value[:10]
    return value.rstrip("0").rstrip(".") if "." in value else value


class Column:
    """What is known of a column so far; `add_all` gets every field once."""

    def __init__(self, name: str) -> None:
        self.name, self.count, self.spaced, self.longest, self.at_longest = name, 0, 0, 0, 0
        self.hidden = bool(SECRET.search(name))
        self.kinds: Counter[str] = Counter()
        self.nulls: Counter[str] = Counter()
        self.first: dict[str, tuple[int, str]] = {}
        self.top: Counter[str] = Counter()
        self.hashes: set[int] = set()
        self.mask, self.big, self.damaged, self.days, self.months, self.grouped = 0, 0, 0, 0, 0, 0
        self.dressed, self.dates, self.unreal, self.zoned = 0, 0, 0, 0
        self.dotted, self.pointed = 0, 0  # decimals that may be thousands, and those that cannot
        self.numbers, self.low, self.high = 0, float("inf"), float("-inf")
        self.sample: list[float] = []
        self.step = 1
        self.early, self.late = "~", ""

    def add_all(self, fields: Sequence[str], lines: Sequence[int]) -> None:
        """Take the fields of some thousand rows; equal ones are looked at once."""
        for field, times in Counter(fields).items():
            value = field.strip()
            if value.lower() in NULLS:
                self.nulls[value.lower()] += times
                continue
            self.count += times
            self.spaced += times * (value != field)
            kind = kind_of(value)
            self.kinds[kind] += times
            if kind not in self.first:
                self.first[kind] = (lines[fields.index(field)], "hidden" if self.hidden else value[:40])
            if value in self.top or len(self.top) < TOP or plain(value) in SENTINELS:
                self.top[value] += times
            self._remember(hash(value))
            self._measure(value, kind, times)

    def _remember(self, code: int) -> None:
        """Keep hashes whose last bits are zero, of one more bit whenever there are too many: distinct values +-1 %."""
        if code & self.mask:
            return
        self.hashes.add(code)
        if len(self.hashes) > HASHES:
            self.mask = self.mask * 2 + 1
            self.hashes = {one for one in self.hashes if not one & self.mask}

    def _measure(self, value: str, kind: str, times: int) -> None:
        if kind in NUMBERS:
            self.damaged += times * (kind == "exponent" and bool(SPREADSHEET.fullmatch(value)))
            self.grouped += kind == "thousands" and (value.count(",") > 1 or "." in value)
            if kind == "decimal":
                thousands = bool(re.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}", value))
                self.dotted, self.pointed = self.dotted + thousands, self.pointed + (not thousands)
            self._count_number(number(value, kind), kind, times)
        elif kind in ("date", "datetime"):
            self.early, self.late = min(self.early, value), max(self.late, value)
            self.unreal += times * (not in_calendar(value[:10]))
            self.zoned += times * (kind == "datetime" and bool(re.search(r"(Z|[+-]\d\d(?::?\d\d)?)$", value)))
        elif kind == "daymonth":
            first, second = re.split(r"[./-]", value)[:2]
            self.days, self.months = self.days + (int(first) > 12), self.months + (int(second) > 12)
        elif kind == "text":
            self.dressed += times * bool(DRESSED.fullmatch(value))
            self.dates += times * bool(OTHER_DATE.fullmatch(value))
        if len(value) > self.longest:
            self.longest, self.at_longest = len(value), 0
        self.at_longest += times * (len(value) == self.longest)

    def _count_number(self, amount: float, kind: str, times: int) -> None:
        """Keep range and a sample: every number, then every second one, every fourth, ..."""
        before, self.numbers = self.numbers, self.numbers + times
        self.big += times * (kind == "integer" and abs(amount) >= 2**53)  # as a float, 2**53 + 1 is 2**53
        self.low, self.high = min(self.low, amount), max(self.high, amount)
        self.sample += [amount] * (self.numbers // self.step - before // self.step)
        if len(self.sample) > 2 * SAMPLE:
            self.sample, self.step = self.sample[::2], self.step * 2

    @property
    def distinct(self) -> int:
        return len(self.hashes) * (self.mask + 1)

    @property
    def type(self) -> str:
        found = set(self.kinds)
        if not found:
            return "empty"
        if found <= {"integer", "decimal", "exponent"}:
            return "decimal" if found != {"integer"} else "integer"
        if found <= {"date", "datetime"}:
            return "datetime" if "datetime" in found else "date"
        if "code" in found and found <= {"code", "integer"}:
            return "code"
        if found <= {*NUMBERS} and "comma" in found:
            return "comma"
        return self.kinds.most_common(1)[0][0]

    def quantiles(self) -> dict[str, float]:
        ordered = sorted(self.sample)
        return {f"p{p}": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (1, 50, 99)}

    def notes(self, rows: int) -> Iterator[str]:
        """Yield what a person should know before loading this column."""
        for strange in self._strange():
            line, value = self.first[strange]
            yield f"mixed: {self.kinds[strange]} {strange}, first {value!r} line {line}"
        if self.dressed:
            yield f"{self.dressed} numbers with a sign, space or apostrophe: text to a loader"
        if self.unreal:
            yield f"{self.unreal} dates that no calendar has"
        if 0 < self.zoned < self.kinds["datetime"]:
            yield f"{self.zoned} of {self.kinds['datetime']} times with an offset"
        if self.dates:
            yield f"{self.dates} dates of another form: text to a loader"
        if self.type == "code":
            yield "leading zeros or plus: keep as text"
        if self.damaged or (self.kinds["exponent"] and self.kinds["integer"]):
            yield "some like 1E+11: digits lost in a spreadsheet"
        if self.big:
            yield f"{self.big} above 2^53: read as text or int64, never float"
        if self.kinds["thousands"] and (self.kinds["comma"] or not self.grouped):
            yield "1,234 may be 1.234 or 1234"
        if self.dotted and not self.pointed:
            yield "1.234 may be 1.234 or 1234"
        if self.kinds["daymonth"]:
            yield _order(self.days, self.months)
        if self.spaced:
            yield f"{self.spaced} with spaces around"
        if self.distinct == 1 and rows > 1:
            yield f"constant {'hidden' if self.hidden else next(iter(self.top))[:20]!r}"
        yield from self._rare_notes()

    def _strange(self) -> list[str]:
        """Return the kinds that do not go together with the type, the rarest first."""
        family = {
            "integer": ["integer"],
            "decimal": ["integer", "decimal", "exponent"],
            "datetime": ["date", "datetime"],
            "code": ["code", "integer"],
            "comma": [*NUMBERS],
            "thousands": ["thousands", "integer", "decimal"],
        }.get(self.type, [self.type])
        strange = {kind: n for kind, n in self.kinds.items() if kind not in family}
        return sorted(strange, key=lambda kind: strange[kind])[:3] if self.type != "text" else []

    def _rare_notes(self) -> Iterator[str]:
        if len(tokens := [token or "empty" for token in self.nulls]) > 1:
            yield "several nulls: " + ", ".join(tokens[:4])
        most = max(self.top.values(), default=0)
        for value, count in self.top.items():
            if count > 1 and self.distinct > 2 and plain(value) in SENTINELS and (count == most or self._extreme(value)):
                yield f"{count} x {value}: stands for missing?"
        if self.numbers > 20 and self.sample and not self.hidden:
            q = self.quantiles()
            spread = max(q["p99"] - q["p1"], 1e-9)
            if self.high > q["p99"] + 10 * spread or self.low < q["p1"] - 10 * spread:
                yield f"outlier: p1..p99 is {q['p1']:g}..{q['p99']:g}"
        if self.longest in (50, 64, 100, 128, 200, 250, 254, 255, 256, 500, 1000, 4000) and self.at_longest > 2:
            yield f"{self.at_longest} end at {self.longest} characters: cut off?"
        folded = {value.casefold() for value in self.top}
        if self.distinct < TOP and len(folded) < len(self.top):
            yield "values differ only in letter case"

    def _extreme(self, value: str) -> bool:
        kind = kind_of(value)
        return value in (self.early, self.late) or (kind in NUMBERS and number(value, kind) in (self.low, self.high))

    def summary(self, rows: int) -> dict[str, Any]:
        numeric = self.numbers > 0 and self.type in NUMBERS and not self.hidden
        share = self.distinct / rows if rows else 0
        unique = not self.nulls and (share == 1 if not self.mask else share > 0.95)
        low, high = (self.early, self.late) if self.type.startswith("date") and not self.hidden else ("", "")
        return {
            "name": self.name,
            "type": self.type,
            "nulls": self.nulls.total(),
            "distinct": self.distinct,
            "exact": not self.mask,
            "unique": unique and rows > 1,
            "min": self.low if numeric else low,
            "max": self.high if numeric else high,
            "quantiles": self.quantiles() if numeric else {},
            "longest": self.longest,
            "top": [] if self.hidden else self.top.most_common(5),
            "kinds": dict(self.kinds),
            "notes": list(self.notes(rows)),
        }


def _order(days: int, months: int) -> str:
    if days and months:
        return "day/month and month/day mixed"
    return "day first" if days else "month first" if months else "day or month first: cannot be told"


def sniff(path: Path, encoding: str | None, delimiter: str | None) -> tuple[str, str]:
    """Return encoding and delimiter; raise ValueError for what is no text file."""
    if path.exists() and not path.is_file():
        raise ValueError("not a file that can be read twice")
    with open_bytes(path) as handle:
        head = handle.read(1 << 20)
    for magic, what in (
        (b"PK\x03\x04", "a zip file (Excel workbook?)"),
        (b"PAR1", "Parquet"),
        (b"\xd0\xcf", "old Excel"),
        (b"\x1f\x8b", "gzip without the suffix .gz"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ):
        if head.startswith(magic):
            raise ValueError(f"this is {what}, not CSV")
    if not head.strip():
        raise ValueError("the file is empty")
    encoding = encoding or guess_encoding(head)
    text = head.decode(encoding, errors="replace")
    if not text.strip():
        raise ValueError("the file is empty")
    if text.count("\0") > 10:
        raise ValueError("this is a binary file, not CSV")
    lines = text.splitlines(keepends=True)
    lines = lines[:-1] if len(head) == 1 << 20 and len(lines) > 1 else lines
    return encoding, delimiter or guess_delimiter(lines[:500])


def guess_encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if head.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig"
    if head[:4000].count(0) > len(head[:4000]) // 4:
        return "utf-16-le" if head[1::2][:2000].count(0) > head[::2][:2000].count(0) else "utf-16-be"
    try:
        head.decode()
    except UnicodeDecodeError as error:
        foreign = [one for one in head.decode(errors="surrogateescape") if one > "\x7f"]
        strange = sum("\udc80" <= one <= "\udcff" for one in foreign)
        most_fit = len(foreign) > 3 * strange  # some bytes of another source in a file of UTF-8
        return "cp1252" if error.start < len(head) - 4 and not most_fit else "utf-8"
    return "utf-8"


def guess_delimiter(lines: list[str]) -> str:
    """Return the character that cuts most lines into the same number of fields, more than one."""
    best, found = 0.0, ","
    for mark in ",;\t|":
        sizes = Counter(len(row) for row in csv.reader(lines, delimiter=mark) if row)
        size, count = sizes.most_common(1)[0]
        score = count / sizes.total() + size / 1000
        if size > 1 and score > best:
            best, found = score, mark
    return found


def open_bytes(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


class Profile:
    """One pass over the rows of a file, counting what is odd about rows as a whole."""

    def __init__(self, path: Path, encoding: str, delimiter: str) -> None:
        self.path, self.encoding, self.delimiter = path, encoding, delimiter
        self.rows = self.blank = 0
        self.tail = ""
        self.raw: list[str] = []  # the lines of the record that is read
        self.widths: Counter[int] = Counter()
        self.odd: Counter[str] = Counter()
        self.where: dict[str, int] = {}
        self.columns: list[Column] = []

    def note(self, what: str, line: int) -> None:
        self.odd[what] += 1
        self.where.setdefault(what, line)

    def lines(self) -> Iterator[str]:
        errors = "replace" if self.encoding.startswith("utf-16") else "surrogateescape"
        with io.TextIOWrapper(open_bytes(self.path), self.encoding, errors, newline="") as handle:
            for number, line in enumerate(handle, 1):
                if number <= 4 and RULED.fullmatch(line):
                    self.note("ruled lines of a printed table: export it as CSV (psql --csv, sqlite3 -csv)", number)
                if not line.isascii():
                    if re.search("[\udc80-\udcff]", line):
                        self.note(f"lines that are not {self.encoding}", number)
                    if MOJIBAKE.search(line):
                        self.note("lines with text decoded twice (mojibake)", number)
                if "\0" in line:
                    self.note("lines with NUL bytes, left out here", number)
                self.tail = line
                self.raw.append(line)
                yield line.replace("\0", "")

    def _quoted_well(self) -> bool:
        try:
            return sum(1 for _ in csv.reader(self.raw, delimiter=self.delimiter, strict=True)) == 1
        except csv.Error:
            return False

    def records(self, header: bool) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and fields of each record; the first record names the columns."""
        reader, names, before = csv.reader(self.lines(), delimiter=self.delimiter), None, 0
        for row in reader:
            start, before = before + 1, reader.line_num
            if 1 < len(self.raw) <= 100 and not self._quoted_well():
                self.note("records over several lines with a stray quote: rows swallowed", start)
            elif len(self.raw) == 1 and '"' in self.raw[0] and not self._quoted_well():
                self.note('lines with a stray quote (\\" of MySQL, or not doubled): their fields are not as written', start)
            self.raw.clear()
            if not row:
                self.blank += 1
            elif names is None:
                if re.match("sep=.?$", ",".join(row)):
                    self.note("line sep=, that only Excel understands: cut it off", start)
                    continue
                names = row
                if header and (spaced := [name for name in row if name != name.strip()]):
                    self.note(f"header names with spaces around, such as {spaced[0][:40]!r}", start)
                self.columns = [Column(name.strip() or f"#{i}") for i, name in enumerate(row, 1)]
                if not header:
                    self.columns = [Column(f"#{i}") for i in range(1, len(row) + 1)]
                    yield start, row
            elif header and row == names:
                self.note("repeated header rows", start)
            else:
                if reader.line_num - start > 100:
                    self.note("records over 100 lines (quote not closed?)", start)
                yield start, row
        if names and row and "\n" in row[-1] and not self.tail.rstrip().endswith('"'):
            self.odd.subtract({what: 1 for what, line in self.where.items() if "stray" in what and line == start})
            self.odd = +self.odd
            self.note("quote that never closes: the rows from there on are lost", start)

    def run(self, header: bool) -> None:
        records = self.records(header)
        while chunk := list(islice(records, CHUNK)):
            self.rows += len(chunk)
            width = len(self.columns)
            for line, row in chunk:
                self.widths[len(row)] += 1
                if len(row) != width:
                    self.note("rows with too few fields" if len(row) < width else "rows with too many", line)
            for place, column in enumerate(self.columns):
                present = [(line, row[place]) for line, row in chunk if place < len(row)]
                column.add_all([field for _, field in present], [line for line, _ in present])

    def report(self, header: bool) -> dict[str, Any]:
        problems = [f"{count} {what}, first line {self.where[what]}" for what, count in self.odd.items()]
        names = Counter(column.name for column in self.columns)
        problems += [f"column name {name!r} {count} times" for name, count in names.items() if count > 1]
        if header and any(kind_of(c.name) not in ("text", "boolean") for c in self.columns):
            problems.append("the first row looks like data: try --no-header")
        usual = max(self.widths, key=lambda width: self.widths[width], default=len(self.columns))
        if usual != len(self.columns) and 2 * self.widths[usual] > self.rows:
            problems.append(
                f"most rows have {usual} fields, the first {len(self.columns)}: cut off lines above the header"
            )
        if len(self.columns) == 1:
            problems.append("only one column: wrong --delimiter?")
        return {
            "file": str(self.path),
            "bytes": self.path.stat().st_size,
            "encoding": self.encoding,
            "delimiter": self.delimiter,
            "rows": self.rows,
            "blank_lines": self.blank,
            "problems": problems,
            "columns": [column.summary(self.rows) for column in self.columns],
        }


def check_key(profile: Profile, names: list[str], header: bool) -> dict[str, Any]:
    """Read all rows and compare the hashes of the key columns; about 100 MB of memory a million rows."""
    seen: dict[int, int] = {}
    found: list[str] = []
    duplicates = empty = 0
    places: list[int] = []
    for line, row in profile.records(header):
        if not places:
            known = [column.name for column in profile.columns]
            if missing := [name for name in names if name not in known]:
                raise ValueError(f"no column {missing[0]!r}; there are {', '.join(known[:30])}")
            if twice := [name for name in names if known.count(name) > 1]:
                raise ValueError(f"column name {twice[0]!r} {known.count(twice[0])} times: use --no-header and #1, #2")
            places = [known.index(name) for name in names]
        if len(row) != len(profile.columns):
            profile.note("rows with too few fields or too many", line)
        key = tuple(row[i].strip() if i < len(row) else "" for i in places)
        empty += not all(key)
        for part in key:
            if part and part.lower() in NULLS:  # `NA` is Namibia too
                profile.note(f"key parts {part!r}: a value, or missing?", line)
        if (first := seen.setdefault(hash(key), line)) != line:
            duplicates += 1
            shown = ("hidden" if profile.columns[i].hidden else part for i, part in zip(places, key, strict=True))
            found += [f"{', '.join(shown)[:60]} (lines {first} and {line})"] if len(found) < 5 else []
    if not places:
        raise ValueError("no rows below the header")
    problems = [f"{count} {what}, first line {profile.where[what]}" for what, count in profile.odd.items()]
    return {
        "key": names, "problems": problems, "rows_with_duplicate": duplicates, "rows_with_empty": empty,
        "rows_lost": any(word in what for what in profile.odd for word in ("lost", "swallowed", "over 100 lines")),
        "examples": found,
    }  # fmt: skip


def show(report: dict[str, Any], most: int) -> None:
    mark = {"\t": "tab"}.get(report["delimiter"], repr(report["delimiter"]))
    guess = " (a guess: not UTF-8)" if report["guessed"] and report["encoding"] == "cp1252" else ""
    print(f"file      {report['file']}  {report['bytes']} bytes, {report['encoding']}{guess}, delimiter {mark}")
    print(f"size      {report['rows']} rows x {len(report['columns'])} columns, {report['blank_lines']} blank lines")
    for problem in report["problems"]:
        print(f"problem   {problem}")
    print(f"\n{'column':<24} {'type':<9} {'nulls':>8} {'distinct':>9}  values; notes")
    for c in report["columns"][:most]:
        distinct = ("" if c["exact"] else "~") + str(c["distinct"])
        values = ", ".join(f"{' '.join(value.split())[:18]} x{count}" for value, count in c["top"][:3])
        if c["unique"] and c["top"]:
            values = f"e.g. {' '.join(c['top'][0][0].split())[:24]}"
        if c["quantiles"]:
            values = f"{c['min']:.15g}..{c['max']:.15g} median {c['quantiles']['p50']:.15g}"
        elif c["min"]:
            values = f"{c['min']} .. {c['max']}"
        values = values or "hidden" * bool(c["distinct"])
        values += (" UNIQUE" if c["exact"] else " probably unique") * c["unique"]
        print(f"{c['name'][:24]:<24} {c['type']:<9} {c['nulls']:>8} {distinct:>9}  " + "; ".join([values, *c["notes"]]))
    if len(report["columns"]) > most:
        print(f"... {len(report['columns']) - most} more columns: --columns {len(report['columns'])} or --json")


def show_key(report: dict[str, Any]) -> None:
    for problem in report["problems"]:
        print(f"problem   {problem}")
    print(
        f"key {'+'.join(report['key'])}: {report['rows_with_duplicate']} rows repeat an earlier key, "
        f"{report['rows_with_empty']} have an empty part"
    )
    for example in report["examples"]:
        print(f"  {example}")
    if report["rows_lost"]:
        print("not proven: rows are missing, see the problem above")


def main() -> int:
    parser = argparse.ArgumentParser(description="Profile a CSV file of any size in one pass.")
    parser.add_argument("file", type=Path, help="CSV file, also .gz")
    parser.add_argument(
        "--delimiter",
        type=lambda text: {"tab": "\t", "\\t": "\t"}.get(text, text),
        help="default: guessed from , ; tab |",
    )
    parser.add_argument("--encoding", help="default: guessed; cp1252 where it is not UTF-8")
    parser.add_argument("--no-header", action="store_true", help="the first row is data; columns are #1, #2, ...")
    parser.add_argument("--key", help="comma-separated columns that should identify a row: count duplicates")
    parser.add_argument("--columns", type=int, default=45, help="columns shown (default 45)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    csv.field_size_limit(1 << 24)
    try:
        profile = Profile(args.file, *sniff(args.file, args.encoding, args.delimiter))
        if args.key is not None:  # an empty one must not pass
            report = check_key(profile, [name.strip() for name in args.key.split(",")], not args.no_header)
        else:
            profile.run(not args.no_header)
            report = {**profile.report(not args.no_header), "guessed": not args.encoding}
    except csv.Error as error:
        print(f"cannot read {args.file}: {error} (quote not closed, or wrong --delimiter?)", file=sys.stderr)
        return 2
    except (OSError, EOFError, ValueError, LookupError, TypeError, zlib.error) as error:
        print(f"cannot read {args.file}: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=1, ensure_ascii=False).encode(errors="replace").decode())
    elif args.key is not None:
        show_key(report)
    else:
        show(report, max(args.columns, 0))
    return int(bool(args.key and (report["rows_with_duplicate"] or report["rows_with_empty"] or report["rows_lost"])))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
