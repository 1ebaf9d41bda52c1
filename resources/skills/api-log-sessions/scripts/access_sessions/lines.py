"""Lines of access logs -> requests. Common and combined format, JSON lines, .gz and standard input."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any, NamedTuple, cast
from urllib.parse import urlsplit

Json = dict[str, Any]
LINE = re.compile(
    r'(?P<head>\S+ +\S+ .+?) \[(?P<time>[^\]]{20,30})\] "(?P<method>[A-Z]+) (?P<path>(?:[^"\\]|\\.)*?)(?: HTTP/[\d.]+)?" '
    r'(?P<status>\d{3}) (?:\d+|-)(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?(?P<rest>.*)'
)
NO_REQUEST = re.compile(r'\S+ +\S+ .+? \[[^\]]{20,30}\] "(?:-?|\\x[^"]*)" \d{3} ')  # scanners, TLS sent to a plain port
SECONDS = re.compile(r"(?:^|[\s\"=,])(\d+\.\d{2,6})(?=[\s\",]|s?$)")
TENTHS = re.compile(SECONDS.pattern.replace("{2,6}", ""))  # only where nothing has more digits
NAMED = re.compile(r" (\d{1,9})ms$")
WHOLE = re.compile(r"(?:^|[\s\"=])(\d{1,10})\"?$")
FIELDS = {  # of JSON lines; a full stop leads into an object
    "addr": "http_x_forwarded_for x_forwarded_for remote_addr client_ip clientip ClientHost request.client_ip request.remote_ip remote_ip req.remoteAddress ip",
    "time": "msec time_iso8601 @timestamp timestamp ts StartUTC time time_local datetime date",
    "method": "method request_method RequestMethod request.method req.method http_method verb",
    "path": "uri request_uri path url RequestPath request.uri req.url http_path target",
    "status": "status DownstreamStatus status_code statusCode response.status res.statusCode code",
    "agent": "http_user_agent user_agent userAgent agent request.headers.User-Agent request_User-Agent req.headers.user-agent",
}
TIMES = {  # of JSON lines: field, seconds in one
    "request_time": 1, "duration": 1, "latency": 1, "elapsed": 1, "duration_s": 1, "Duration": 1e-9, "duration_ms": 1e-3,
    "latency_ms": 1e-3, "elapsed_ms": 1e-3, "responseTime": 1e-3, "response_time_ms": 1e-3, "duration_us": 1e-6,
}  # fmt: skip
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
STATIC = re.compile(r"\.(?:css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|avif|woff2?|ttf|mp4|txt)$", re.IGNORECASE)
ID = re.compile(r"(?=.*\d)(?:[0-9a-f-]{12,}|[\w.~%:=+-]{20,})|.*(?:@|%(?:25)*40).*|eyJ.*|\d+(?:\.\d+){3}|(?:\+|%2B)?\d[\d()-]{6,}|[A-Za-z]{1,6}[_-](?=\w*\d)\w{6,}"
    r"|\d+(?:(?:,|%2C)\d+)+|(?-i:(?=.*\d)(?=.*[A-Z])[A-Z\d]+(?:[_-][A-Z\d]+)*(?<=.{5}))", re.IGNORECASE)
AROUND = re.compile(r"((?:\w+\('?)?)([^()']+)('?\)|\.[a-z][a-z\d]{1,4})", re.IGNORECASE)  # Orders(7), 7.json
ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?|\[([0-9a-f:.]+)\](?::\d+)?|((?!\d\d:\d\d:\d\d$)(?:[0-9a-f]*:){2,7}[0-9a-f.]*)", re.IGNORECASE)
ASKED = re.compile(r"([A-Z]+) (\S+)(?: HTTP/[\d.]+)?")
LONGEST = 65_536  # bytes of a line
LONGEST_WAIT = 1_000_000  # seconds
LATEST = 1e11  # seconds since 1970


class Request(NamedTuple):
    start: float
    took: float  # seconds, -1 if not logged
    client: int
    method: str
    place: str  # path with ids replaced
    key: int  # of the full address
    status: int

    @property
    def end(self) -> float:
        return self.start + max(self.took, 0)

    @property
    def name(self) -> str:
        return f"{self.method} {self.place}"

    @property
    def failed(self) -> bool:
        return self.status >= 500 or self.status in (0, 408, 425, 429, 499)


class Log:
    """What was read, and what could not be."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.requests: list[Request] = []
        self.clients: dict[tuple[str, ...], int] = {}
        self.addresses: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.unread = ""

    def read(self, name: str) -> None:
        with opened(name) as file:
            number = 0
            while line := file.readline(LONGEST):
                number += 1
                if len(line) == LONGEST and not line.endswith(b"\n"):
                    while (more := file.readline(LONGEST)) and not more.endswith(b"\n"):
                        pass
                    line = b"{"  # too long for an access log: not read
                if number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    raise ValueError(f"{name}: UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)")
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").strip()
                if text:
                    self.add(text, f"{shown(name)}:{number}")

    def add(self, text: str, place: str) -> None:
        self.counts["lines"] += 1
        found = None
        try:
            found = self.parse(text)
            if found and LONGEST_WAIT <= found[1] < 1e15 and not self.args.unit:  # of another unit
                found = (found[0], -1.0, *found[2:])
            if found and not (0 < found[0] < LATEST and (found[1] == -1 or 0 <= found[1] < LONGEST_WAIT) and 0 <= found[2] <= 999):
                found = None  # a time or status that cannot be
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            pass
        if found is None and NO_REQUEST.match(text):
            self.counts["no HTTP"] += 1
            return
        if found is None:
            self.counts["unread"] += 1
            self.unread = self.unread or place
            return
        when, took, status, facts = found
        path = urlsplit_safe(facts["path"])
        if facts["method"] in ("GET", "HEAD") and STATIC.search(path) and not self.args.static:
            self.counts["static"] += 1
            return
        self.counts["fractions"] += when % 1 != 0
        start = when if self.args.logged == "start" or facts.get("began") else when - max(took, 0)
        if not (self.args.since <= start < self.args.until):
            self.counts["filtered"] += 1
            return
        self.counts["without time taken"] += took < 0
        self.addresses[facts["addr"]] += 1
        who = tuple(str(facts.get(part) or "") for part in self.args.client)
        self.counts["without client"] += not any(who)
        client = self.clients.setdefault(who, len(self.clients) + 1)
        key = hash((facts["method"], facts["path"]))
        self.requests.append(Request(start, took, client, facts["method"], template(path), key, status))

    def parse(self, text: str) -> tuple[float, float, int, Json] | None:
        """Read a line of either kind, also inside the JSON of Docker or behind what a collector puts before it."""
        if not text.startswith("{") and (LINE.match(text) or "{" not in text):
            return self.parse_line(text)
        record = json.loads(text[text.index("{") :])
        return self.parse(inside.strip()) if isinstance(inside := record.get("log"), str) else self.parse_json(record)

    def parse_line(self, text: str) -> tuple[float, float, int, Json] | None:
        match = LINE.match(text)
        if not match:
            return None
        took, rest = -1.0, match["rest"]
        whole, part = WHOLE.search(rest), SECONDS.search(rest) or TENTHS.search(rest)
        if named := NAMED.search(rest):  # Traefik, which writes the start
            took = int(named[1]) / 1000
        elif part and self.args.unit in (None, "s"):
            took = float(part[1])
        elif whole and self.args.unit:
            took = int(whole[1]) * UNITS[self.args.unit]
        elif whole:
            self.counts["whole numbers"] += 1
        parts = match["head"].split(" ")
        place = next((n for n, one in enumerate(parts) if ADDRESS.fullmatch(one.rstrip(","))), 0)  # behind a host name or what a collector adds
        facts = match.groupdict() | {"addr": address(parts[place]), "user": " ".join(parts[place + 2 :]).removeprefix("-")}
        facts["began"] = bool(named)
        return clf_time(match["time"]), took, int(match["status"]), facts

    def parse_json(self, record: Json) -> tuple[float, float, int, Json] | None:
        facts: Json = {name: first(record, names) for name, names in FIELDS.items()}
        if facts["path"] is None and (asked := ASKED.fullmatch(str(record.get("request")))):
            facts |= {"method": asked[1], "path": asked[2]}
        if facts["status"] is None or facts["time"] is None or facts["path"] is None:
            return None
        took, addr = -1.0, str(facts["addr"] or "?")
        for name, unit in TIMES.items():
            if isinstance(value := record.get(name), str | int | float) and str(value) not in ("", "-"):
                self.counts["whole seconds"] += unit == 1 and not self.args.unit and isinstance(value, int) and value > 0
                took = float(value) * (unit if unit != 1 else UNITS[self.args.unit or "s"])
                break
        facts |= {part: first(record, part) for part in self.args.client if part not in ("addr", "agent")}
        facts |= {"addr": address(addr), "method": method(facts["method"]), "path": str(facts["path"])}
        facts["began"] = first(record, "StartUTC") is not None and first(record, "msec time_iso8601 @timestamp timestamp ts") is None
        when, zone = any_time(facts["time"])
        self.counts["times without zone"] += not zone
        return when, took, int(facts["status"]), facts


def opened(name: str) -> AbstractContextManager[IO[bytes]]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    return cast("IO[bytes]", gzip.open(name) if name.endswith(".gz") else open(name, "rb"))


def address(text: str) -> str:
    """Return the first address of a list, without the port that would make each connection a client."""
    one = text.split(",")[0].strip()
    return next(filter(None, match.groups())) if (match := ADDRESS.fullmatch(one)) else one


def method(value: Any) -> str:
    name = str(value).upper()
    return name if re.fullmatch(r"[A-Z-]{1,20}", name) else "?"


def first(record: Json, names: str) -> Any:
    """Return the value of the first of *names* that a record has, the first one of a list."""
    for name in names.split():
        value: Any = record.get(name)
        if value is None and "." in name:
            value = record
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, list):
            value = value[0] if value else None
        if value not in (None, "", "-") and not isinstance(value, dict):
            return value
    return None


@lru_cache(maxsize=4096)
def clf_time(text: str) -> float:
    return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").timestamp()


def any_time(value: Any) -> tuple[float, bool]:
    """Return seconds since 1970, and whether the zone was known."""
    try:
        number = float(value)
    except ValueError:
        text = str(value)
        if re.match(r"\d\d/[A-Z]", text):
            return clf_time(text), True
        when = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp(), when.tzinfo is not None
    while 1e11 < number < 1e20:  # milli-, micro- or nanoseconds
        number /= 1000
    if not 0 < number < LATEST:
        raise ValueError("no time")
    return number, True


@lru_cache(maxsize=65_536)
def template(path: str) -> str:
    """Return a path with numbers, ids and addresses replaced."""
    return shown("/".join(replaced(part) for part in path.split("/")))[:100] or "/"


def replaced(part: str) -> str:
    around = None if ID.fullmatch(part) else AROUND.fullmatch(part)
    before, inner, after = around.groups() if around else ("", part, "")
    return before + ("{n}" if inner.isdigit() else "{id}" if ID.fullmatch(inner) else inner) + after


def urlsplit_safe(address: str) -> str:
    try:
        path = urlsplit(address).path if "://" in address[:10] else address
    except ValueError:
        return "/?"
    return re.split(r"[?#;]|%3[fb]", path, maxsplit=1, flags=re.IGNORECASE)[0]


def shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
