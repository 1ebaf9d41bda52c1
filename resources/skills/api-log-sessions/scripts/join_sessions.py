#!/usr/bin/env python3
"""Join the lines of access logs into sessions and attempts: retries, doubled writes, slow steps, bursts of errors.

Standard library only, Python 3.11+. Common and combined format (nginx, Apache), JSON lines (nginx, Caddy, Traefik
and others), .gz and standard input (-). Query values, addresses and ids are not printed.

    python3 join_sessions.py FILE... [--client addr,agent] [--gap MIN] [--unit s|ms|us] [--logged end|start]
                             [--steps 'POST /cart,POST /pay'] [--since T] [--until T] [--top N] [--json]

Exit codes: 0 analysed, 1 no request left after the filters, 2 unreadable or no access log.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import signal
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil
from statistics import median
from typing import IO, Any, NamedTuple, cast
from urllib.parse import urlsplit

Json = dict[str, Any]
LINE = re.compile(
    r'(?P<head>\S+ \S+ .+?) \[(?P<time>[^\]]{20,30})\] "(?P<method>[A-Z]+) (?P<path>(?:[^"\\]|\\.)*?)(?: HTTP/[\d.]+)?" '
    r'(?P<status>\d{3}) (?:\d+|-)(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?(?P<rest>.*)'
)
NO_REQUEST = re.compile(r'\S+ \S+ .+? \[[^\]]{20,30}\] "(?:-?|\\x[^"]*)" \d{3} ')  # scanners, TLS sent to a plain port
SECONDS = re.compile(r"(?:^|[\s\"=,])(\d+\.\d{2,6})(?=[\s\",]|s?$)")
NAMED = re.compile(r" (\d{1,9})ms$")
WHOLE = re.compile(r"(?:^|[\s\"=])(\d{1,10})\"?$")
FIELDS = {  # of JSON lines; a full stop leads into an object
    "addr": "http_x_forwarded_for x_forwarded_for remote_addr client_ip clientip ClientHost request.client_ip request.remote_ip remote_ip req.remoteAddress ip",
    "time": "msec time_iso8601 @timestamp timestamp ts time StartUTC time_local datetime date",
    "method": "method request_method RequestMethod request.method req.method http_method verb",
    "path": "uri request_uri path url RequestPath request.uri req.url http_path target",
    "status": "status DownstreamStatus status_code statusCode response.status res.statusCode code",
    "agent": "http_user_agent user_agent userAgent agent request.headers.User-Agent request_User-Agent req.headers.user-agent",
}
TIMES = {  # of JSON lines: field, seconds in one
    "request_time": 1, "duration": 1, "latency": 1, "elapsed": 1, "duration_s": 1, "Duration": 1e-9, "duration_ms": 1e-3,
    "latency_ms": 1e-3, "elapsed_ms": 1e-3, "responseTime": 1e-3, "response_time_ms": 1e-3, "duration_us": 1e-6,
}  # fmt: skip
STATIC = re.compile(r"\.(?:css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|avif|woff2?|ttf|mp4|txt)$", re.IGNORECASE)
ID = re.compile(r"(?=.*\d)(?:[0-9a-f-]{12,}|[\w.~%:=+-]{20,})|.*(?:@|%(?:25)*40).*|eyJ.*|\d+(?:\.\d+){3}|\+?\d[\d()-]{6,}|[A-Za-z]{1,6}[_-](?=\w*\d)\w{6,}", re.IGNORECASE)
ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?|\[([0-9a-f:.]+)\](?::\d+)?|((?!\d\d:\d\d:\d\d$)(?:[0-9a-f]*:){2,7}[0-9a-f.]*)", re.IGNORECASE)
ASKED = re.compile(r"([A-Z]+) (\S+)(?: HTTP/[\d.]+)?")
UNSAFE = {"POST", "PATCH"}
MAYBE_DONE = {499, 502, 504}  # the caller got no answer, the work may be done
HOPELESS = {400, 401, 403, 404, 405, 409, 410, 413, 422}
WITHIN = 60.0  # seconds between two attempts of one request
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
        whole, part = WHOLE.search(rest), SECONDS.search(rest)
        if named := NAMED.search(rest):  # Traefik, which writes the start
            took = int(named[1]) / 1000
        elif part and self.args.unit in (None, "s"):
            took = float(part[1])
        elif whole and self.args.unit:
            took = int(whole[1]) * {"s": 1, "ms": 1e-3, "us": 1e-6}[self.args.unit]
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
                took = float(value) * (unit if unit != 1 else {"ms": 1e-3, "us": 1e-6}.get(self.args.unit or "s", 1))
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
    parts = ["{n}" if part.isdigit() else "{id}" if ID.fullmatch(part) else part for part in path.split("/")]
    return shown("/".join(parts))[:100] or "/"


def urlsplit_safe(address: str) -> str:
    try:
        path = urlsplit(address).path if "://" in address[:10] else address
    except ValueError:
        return "/?"
    return re.split(r"[?#;]|%3[fb]", path, maxsplit=1, flags=re.IGNORECASE)[0]


def shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


# --- attempts


def attempts(requests: Iterable[Request], slack: float) -> list[list[Request]]:
    """Return chains: one request and its repetitions after failures, all by one client to one address.

    *requests* are in the order of their ends: who repeats knows how the attempt before ended.
    """
    chains: list[list[Request]] = []
    last: dict[tuple[int, int], list[Request]] = {}
    for one in requests:
        chain = last.get((one.client, one.key))
        if chain and chain[-1].failed and -slack <= round(one.start - chain[-1].end, 3) <= WITHIN:
            chain.append(one)
        else:
            last[one.client, one.key] = chain = [one]
            chains.append(chain)
    return chains


def waits(chain: list[Request]) -> list[float]:
    return [max(b.start - a.end, 0) for a, b in zip(chain, chain[1:], strict=False)]


def retry_rows(chains: list[list[Request]]) -> list[Json]:
    by_name: dict[str, list[list[Request]]] = defaultdict(list)
    for chain in chains:
        if len(chain) > 1:
            by_name[chain[0].name].append(chain)
    rows = []
    for name, some in by_name.items():
        gaps = [gap for chain in some for gap in waits(chain)]
        rows.append({
            "name": name,
            "chains": len(some),
            "extra": sum(len(chain) - 1 for chain in some),
            "longest": max(map(len, some)),
            "recovered": sum(not chain[-1].failed for chain in some),
            "wait_s": round(median(gaps), 2),
            "first_failures": dict(Counter(str(chain[0].status) for chain in some).most_common(3)),
        })  # fmt: skip
    return sorted(rows, key=lambda row: (-cast("int", row["extra"]), str(row["name"])))


def findings(log: Log, chains: list[list[Request]], rows: list[Json]) -> Iterator[str]:
    twice: Counter[str] = Counter()
    for chain in chains:
        if chain[0].method in UNSAFE and 200 <= chain[-1].status < 300 and any(one.status in MAYBE_DONE for one in chain[:-1]):
            twice[chain[0].name] += 1
    for name, count in twice.most_common(5):
        yield f"double   {name}: {count:,} times succeeded after an attempt that may have done the work too (499, 502, 504)"
    clicks: Counter[str] = Counter()
    hopeless: Counter[str] = Counter()
    before: dict[tuple[int, int], tuple[Request, int]] = {}
    for one in log.requests:
        old, times = before.get((one.client, one.key), (None, 0))
        near = old is not None and one.start - old.start <= 2
        if near and one.method in UNSAFE and old and 200 <= old.status < 300 and 200 <= one.status < 300:
            clicks[one.name] += 1
        same = old is not None and one.status in HOPELESS and old.status == one.status and one.start - old.end <= WITHIN
        times = times + 1 if same else 1
        if times == 3:
            hopeless[f"{one.name} ({one.status})"] += 1
        before[one.client, one.key] = one, times
    for name, count in clicks.most_common(5):
        yield f"double   {name}: {count:,} times sent again within 2 s of a success (start to start): double click, or no idempotency key"
    for name, count in hopeless.most_common(5):
        yield f"hopeless {name}: {count:,} clients or calls repeated it three times and more; repeating cannot help"
    for row in rows:
        if row["longest"] >= 3 and row["wait_s"] < 0.5:
            yield f"storm    {row['name']}: up to {row['longest']} attempts, {row['wait_s']} s between them: no growing wait"
    given_up: dict[str, list[float]] = defaultdict(list)
    for one in log.requests:
        if one.status in (499, 504) and one.took > 0:
            given_up[f"{one.name} ({one.status})"].append(one.took)
    for name, taken in sorted(given_up.items(), key=lambda item: -len(item[1])):
        middle = median(taken)
        near_middle = sum(abs(t - middle) <= max(0.05 * middle, 0.05) for t in taken)
        if len(taken) >= 5 and near_middle >= 0.6 * len(taken):
            who = "the caller" if "(499)" in name else "the proxy"
            yield f"limit    {name}: {near_middle} of {len(taken)} end at {middle:.1f} s: {who} gives up there"
    address, most = log.addresses.most_common(1)[0]
    if len(log.requests) >= 100 and most > 0.9 * len(log.requests) and address != "?":
        yield f"caution  one address has {most * 100 // len(log.requests)} % of the requests: a proxy? sessions are then mixed"
    if address == "?" and "addr" in log.args.client:
        yield f"caution  {most:,} requests have no address: all of them count as one client"
    elif without := log.counts["without client"]:
        yield f"caution  {without:,} requests have no {shown(','.join(log.args.client))}: all of them count as one client"
    exact = [one for one in log.requests if one.took >= 0 or one.start % 1]  # whole seconds alone are often alike
    same = len(exact) - len(set(exact))
    if same >= 10 and same > 0.1 * len(log.requests):
        yield f"caution  {same:,} requests are logged twice, alike in each field: is one log in two files, or one line written twice?"
    for step in log.args.steps:
        if not any(step_pattern(step).match(name) for name in {one.name for one in log.requests}):
            yield f"caution  no request looks like the step {shown(step)}"
    for text, count in (("lines are no access log, first " + log.unread, log.counts["unread"]),
                        ("requests say no time taken: waits and slow steps lack them", log.counts["without time taken"]),
                        ("times taken are whole numbers, taken for seconds: say with --unit what they are", log.counts["whole seconds"]),
                        ("lines end in a whole number: say with --unit what it is", log.counts["whole numbers"]),
                        ("times have no zone and were taken for UTC", log.counts["times without zone"])):  # fmt: skip
        if count:
            yield f"caution  {count:,} {text}"


# --- sessions, steps, bursts


def sessions(requests: list[Request], gap: float) -> list[list[Request]]:
    found: list[list[Request]] = []
    open_: dict[int, list[Request]] = {}
    for one in requests:
        current = open_.get(one.client)
        if current and round(one.start - current[-1].end, 3) < gap:
            current.append(one)
        else:
            open_[one.client] = current = [one]
            found.append(current)
    return found


def percentile(values: list[float], share: float) -> float:
    """Return the nearest-rank percentile of sorted *values*."""
    return values[ceil(round(share * len(values), 6)) - 1]


def slow_rows(requests: list[Request]) -> list[Json]:
    by_name: dict[str, list[float]] = defaultdict(list)
    for one in requests:
        if one.took >= 0:
            by_name[one.name].append(one.took)
    total = sum(map(sum, by_name.values())) or 1
    rows = []
    for name, times in by_name.items():
        times.sort()
        row = {"name": name, "count": len(times), "p50_s": percentile(times, 0.5), "p95_s": percentile(times, 0.95)}
        rows.append(row | {"max_s": times[-1], "share": round(sum(times) / total, 3)})
    return sorted(rows, key=lambda row: (-cast("float", row["share"]), str(row["name"])))


def chatter(found: list[list[Request]]) -> list[Json]:
    """Return places that a client asks 20 times and more within 10 s of one session."""
    worst: dict[str, int] = {}
    for session in found:
        times: dict[str, list[float]] = defaultdict(list)
        for one in session:
            seen = times[one.name]
            seen.append(one.start)
            while seen[0] < one.start - 10:
                seen.pop(0)
            if len(seen) >= 20:
                worst[one.name] = max(worst.get(one.name, 0), len(seen))
    return [{"name": name, "within_10_s": most} for name, most in sorted(worst.items(), key=lambda x: -x[1])]


def step_pattern(step: str) -> re.Pattern[str]:
    return re.compile(re.escape(template(step)).replace(r"\*", "[^/ ]*") + r"\Z")


def funnel(found: list[list[Request]], steps: list[str]) -> list[Json]:
    """Return for each step how many sessions reach it after those before, and what it took."""
    patterns = [step_pattern(step) for step in steps]
    rows: list[Json] = [{"step": step, "sessions": 0, "failed": 0, "between": [], "took": []} for step in steps]
    for session in found:
        place, previous = 0, None
        for one in session:
            if place == len(steps):
                break
            if not patterns[place].match(one.name):
                continue
            row = rows[place]
            if one.failed or one.status >= 400:
                row["failed"] += 1
                continue
            row["sessions"] += 1
            if one.took >= 0:
                row["took"].append(one.took)
            if previous is not None:
                row["between"].append(max(one.start - previous, 0))
            place, previous = place + 1, one.end
    for row in rows:
        for name in ("between", "took"):
            values = sorted(row.pop(name))
            row[f"{name}_p50_s"] = round(percentile(values, 0.5), 2) if values else None
            row[f"{name}_p95_s"] = round(percentile(values, 0.95), 2) if values else None
    return rows


def bursts(requests: list[Request], chains: list[list[Request]]) -> list[Json]:
    """Return runs of minutes with 10 failures and more, and five times as many as in the usual minute."""
    minutes: dict[int, list[Request]] = defaultdict(list)
    for one in requests:
        minutes[int(one.end // 60)].append(one)
    repeated = Counter(int(one.end // 60) for chain in chains for one in chain[1:])
    span = range(min(minutes), max(minutes) + 1)
    counts = {minute: sum(one.failed for one in some) for minute, some in minutes.items()}
    lone = len(minutes) == 1 or len(span) > 1_000_000
    usual = 0.0 if lone else median([counts.get(minute, 0) for minute in span])
    load = median([len(some) for some in minutes.values()])
    bad = sorted(minute for minute, count in counts.items() if count >= 10 and count >= 5 * usual)
    groups: list[list[int]] = []
    for minute in bad:
        if groups and minute - groups[-1][-1] <= 2:
            groups[-1].append(minute)
        else:
            groups.append([minute])
    rows = []
    for group in groups:
        everything = [one for minute in group for one in minutes[minute]]
        failed = [one for one in everything if one.failed]
        names, who = Counter(one.name for one in failed), Counter(one.client for one in failed)
        rows.append({
            "from": utc(group[0] * 60), "minutes": group[-1] - group[0] + 1, "failed": len(failed),
            "of": len(everything), "clients": len(who), "top_client_share": round(who.most_common(1)[0][1] / len(failed), 2),
            "load": round(len(everything) / len(group) / load, 1), "repeated": sum(repeated[minute] for minute in group),
            "top": names.most_common(1)[0][0], "top_count": names.most_common(1)[0][1],
            "status": dict(Counter(str(one.status) for one in failed).most_common(3)),
        })  # fmt: skip
    return rows


def utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def analyse(log: Log) -> Json:
    args = log.args
    chains = attempts(sorted(log.requests, key=lambda one: one.end), 0 if log.counts["fractions"] else 1)
    log.requests.sort(key=lambda one: one.start)
    found = sessions(log.requests, args.gap * 60)
    rows = retry_rows(chains)
    failed = sum(one.failed for one in log.requests)
    return {
        "requests": len(log.requests),
        "from": utc(log.requests[0].start),
        "to": utc(max(one.end for one in log.requests)),
        "left_out": {"static": log.counts["static"], "filtered": log.counts["filtered"], "no HTTP": log.counts["no HTTP"], "unread": log.counts["unread"]},
        "clients": len(log.clients),
        "sessions": len(found),
        "requests_per_session": median(map(len, found)),
        "session_minutes": round(median((s[-1].end - s[0].start) / 60 for s in found), 1),
        "failed": failed,
        "logical": len(chains),
        "failed_logical": sum(chain[-1].failed for chain in chains),
        "findings": list(findings(log, chains, rows)),
        "retries": rows,
        "bursts": bursts(log.requests, chains),
        "slow": slow_rows(log.requests),
        "chatter": chatter(found),
        "steps": funnel(found, args.steps),
    }


def show(report: Json, top: int) -> None:
    def head(rows: list[Json]) -> list[Json]:
        return rows[:top]

    left = ", ".join(f"{count:,} {name}" for name, count in report["left_out"].items() if count)
    print(f"requests {report['requests']:,} from {report['from']} to {report['to']} UTC" + (f" (left out: {left})" if left else ""))
    print(
        f"sessions {report['sessions']:,} of {report['clients']:,} clients, in the middle "
        f"{report['requests_per_session']:g} requests and {report['session_minutes']:g} min"
    )
    more = report["requests"] / report["logical"]
    print(
        f"failed   {report['failed']:,} requests = {report['failed'] / report['requests']:.2%}; "
        f"{report['failed_logical']:,} of {report['logical']:,} calls failed for good = "
        f"{report['failed_logical'] / report['logical']:.2%}; {more:.2f} requests per call"
    )
    for text in report["findings"]:
        print(text)
    for row in head(report["bursts"]):
        status = ", ".join(f"{name} x{count}" for name, count in row["status"].items())
        print(
            f"burst    {row['from']} {row['minutes']} min: {row['failed']} of {row['of']} failed ({status}), {row['clients']} clients "
            f"(one has {row['top_client_share']:.0%}), load x{row['load']}, {row['repeated']} repeated; most: {row['top']} {row['top_count']}"
        )
    for row in head(report["retries"]):
        status = ", ".join(f"{name} x{count}" for name, count in row["first_failures"].items())
        print(
            f"retry    {row['name']}: {row['chains']} calls, {row['extra']} more attempts (up to {row['longest']}), "
            f"{row['recovered']} recovered, wait {row['wait_s']} s, first {status}"
        )
    for row in head(report["slow"]):
        print(
            f"slow     {row['share']:>6.1%} of time, {row['count']:>7,} x, p50 {row['p50_s']:.3f} p95 {row['p95_s']:.3f} "
            f"max {row['max_s']:.3f} s  {row['name']}"
        )
    for row in head(report["chatter"]):
        print(f"chatter  {row['name']}: {row['within_10_s']} times within 10 s by one client: one call for many")
    for row in report["steps"]:
        between = "" if row["between_p50_s"] is None else f", {row['between_p50_s']} s after the step before (p95 {row['between_p95_s']})"
        took = "" if row["took_p50_s"] is None else f", took {row['took_p50_s']} s (p95 {row['took_p95_s']})"
        print(f"step     {row['sessions']:,} sessions{between}{took}, {row['failed']} failed tries  {shown(row['step'])}")


def moment(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 2026-11-25T13:15Z") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n    ")[0])
    parser.add_argument("files", nargs="+", help="access logs, .gz too, or - for standard input")
    parser.add_argument("--client", default="addr,agent", help="what tells clients apart: addr, agent, fields of JSON lines")
    parser.add_argument("--gap", type=float, default=30, help="minutes of silence that end a session (default 30)")
    parser.add_argument("--unit", choices=("s", "ms", "us"), help="unit of the time taken, where it is not in the name")
    parser.add_argument("--logged", choices=("end", "start"), default="end", help="what the time of a line is (Apache: start)")
    parser.add_argument("--steps", default="", help="comma-separated steps, each METHOD and path; * stands for one part")
    parser.add_argument("--since", type=moment, default=float("-inf"))
    parser.add_argument("--until", type=moment, default=float("inf"))
    parser.add_argument("--static", action="store_true", help="count style sheets, scripts and pictures too")
    parser.add_argument("--top", type=int, default=8, help="rows of each kind (default 8)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    args.client = [part.strip() for part in args.client.split(",") if part.strip()]
    args.steps = [step.strip() for step in args.steps.split(",") if step.strip()]
    if not args.client:
        parser.error("--client names nothing")
    log = Log(args)
    for name in args.files:
        try:
            log.read(name)
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or str(error)
            print(f"cannot read {shown(name)}: {shown(why)}", file=sys.stderr)
            return 2
        except ValueError as error:
            print(f"cannot read {shown(str(error))}", file=sys.stderr)
            return 2
    if log.counts["unread"] == log.counts["lines"]:
        first_ = f"first {log.unread}" if log.unread else "the input is empty"
        print(f"cannot read: no line is one of an access log ({first_}): --help names the formats that are read", file=sys.stderr)
        return 2
    if not log.requests:
        print(f"no request left: {log.counts['filtered']} outside --since and --until, {log.counts['static']} static files")
        return 1
    report = analyse(log)
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
