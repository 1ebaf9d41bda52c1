#!/usr/bin/env python3
"""Say from a browser's network recording (HAR) why a page is slow.

Standard library only, Python 3.11+. Entries are parsed one by one: memory stays at about twice the file's size.
Query values, cookies and headers with secrets are never printed.

    python3 analyze_har.py FILE.har [--page N] [--until MS] [--top N] [--json]

Exit codes: 0 analysed, 1 no requests in it (or on that page), 2 the file is no HAR.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PHASES = ("blocked", "dns", "connect", "ssl", "send", "wait", "receive")
TEXT = re.compile(r"javascript|json|html|css|xml|text/|svg|wasm", re.IGNORECASE)
TOKEN = re.compile(  # no part of a path is so long; ";jsessionid=" hides in one
    r"(?<=/)(?:eyJ[\w-]*\.[\w.-]*|(?=[^/]*\d)(?:[\w~+=-]|%2[BF]|%3D){24,}"
    r"|(?=[^/]*\d)(?:[\w~+=@-]+[.:])+[\w-]{20,})(?=[;/]|$)|(?<=;)[^/;]+",  # signed: "text.time.signature"
    re.IGNORECASE,
)
STATIC = re.compile(r"javascript|css|font|image|woff", re.IGNORECASE)
Json = dict[str, Any]


@dataclass
class Request:
    """One request: times in milliseconds, sizes in bytes."""

    start: float
    total: float
    phases: dict[str, float]
    method: str
    url: str
    host: str
    status: int
    kind: str
    sent: int
    size: int
    protocol: str
    encoding: str
    cache: str
    page: str
    initiator: str
    secrets: bool
    cached: bool

    @property
    def lasting(self) -> bool:
        """Whether it is a connection that stays open, such as a web socket, and no download."""
        return self.status == 101 or self.kind == "text/event-stream"

    @property
    def end(self) -> float:
        return self.start + self.total

    @property
    def name(self) -> str:
        """The address without query values, passwords and tokens."""
        parts = urlsplit(self.url)
        path = TOKEN.sub("<id>", parts.path)
        path = path if len(path) <= 60 else f"{path[:25]}...{path[-30:]}"
        return f"{self.host}{path}" + ("?..." if parts.query else "")


def read_har(path: Path) -> tuple[Json, Iterator[Json]]:
    """Return the recording without its entries, and its entries one by one."""
    text = path.read_text("utf-8-sig", errors="replace")
    match = re.search(r'"entries"\s*:\s*\[', text)
    if not text.lstrip().startswith("{") or not match:
        raise ValueError("no HAR: there is no list of entries")
    ends = [match.end()]
    entries = list(_entries(text, ends))
    rest = json.loads(text[: match.end()] + text[ends[0] :])
    if not isinstance(rest.get("log"), dict):
        raise ValueError("no HAR: there is no log")
    return rest["log"], iter(entries)


def _entries(text: str, ends: list[int]) -> Iterator[Json]:
    decoder, gap = json.JSONDecoder(parse_constant=lambda _: None), re.compile(r"[\s,]*")
    while True:
        place = gap.match(text, ends[0]).end()  # type: ignore[union-attr]
        if text[place : place + 1] in ("]", ""):
            ends[0] = place
            return
        entry, ends[0] = decoder.raw_decode(text, place)
        if isinstance(entry, dict):
            response = entry.get("response")
            if isinstance(response, dict) and isinstance(content := response.get("content"), dict):
                content.pop("text", None)  # the body itself is not needed
            yield entry


def headers_of(part: Json) -> dict[str, str]:
    return {str(h.get("name", "")).lower(): str(h.get("value", "")) for h in part.get("headers") or []}


def lifetime(got: dict[str, str], asked: str) -> str:
    """Return what Cache-Control says to a browser, or of an Expires to come, in lower case; else nothing."""
    said = got.get("cache-control", "").lower()
    if "max-age=" in said or "no-cache" in said or "no-store" in said:
        return said
    try:
        until = parsedate_to_datetime(got.get("expires", ""))
        return "expires" if until.timestamp() > datetime.fromisoformat(asked).timestamp() else ""
    except (ValueError, TypeError):  # "0", "-1"
        return ""


def read_request(entry: Json) -> Request:
    request, response, timings = entry["request"], entry["response"], entry.get("timings") or {}
    sent, got = headers_of(request), headers_of(response)
    content = response.get("content") or {}
    began_by = entry.get("_initiator") or {}
    frames = (began_by.get("stack") or {}).get("callFrames") or [{}]
    transferred = response.get("_transferSize", -1)
    if transferred is None or transferred < 0:
        transferred = max(response.get("bodySize", 0), 0) + max(response.get("headersSize", 0), 0)
    cached = bool(entry.get("_fromCache")) or response.get("status") == 304
    cached = cached or entry.get("_fetchType") in ("Memory Cache", "Disk Cache")  # Safari
    return Request(
        start=datetime.fromisoformat(entry["startedDateTime"]).timestamp() * 1000,
        total=max(entry.get("time") or 0, 0),
        phases={phase: max(timings.get(phase) or 0, 0) for phase in PHASES},
        method=request.get("method", "?"),
        url=request.get("url", ""),
        host=urlsplit(request.get("url", "")).netloc.rpartition("@")[2],
        status=max(response.get("status", 0), 0),  # Playwright: -1
        kind=str(content.get("mimeType", "")).split(";")[0] or "?",
        sent=transferred,
        size=max(content.get("size", 0) or 0, 0),
        protocol=str(response.get("httpVersion", "")).lower(),
        encoding=got.get("content-encoding", "").lower().replace("identity", ""),
        cache=lifetime(got, entry["startedDateTime"]),
        page=str(entry.get("pageref", "")),
        initiator=str(began_by.get("url") or frames[0].get("url") or ""),
        secrets=bool({"cookie", "authorization"} & sent.keys() or "set-cookie" in got),
        cached=cached,
    )


def read_requests(entries: Iterator[Json]) -> tuple[list[Request], list[str]]:
    """Return the requests over the network, and why other entries could not be read."""
    requests, broken = [], []
    for number, entry in enumerate(entries, 1):
        try:
            if not str(entry["request"].get("url")).startswith(("data:", "blob:", "chrome-extension:")):
                requests.append(read_request(entry))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"lacks {error}" if isinstance(error, KeyError) else re.sub(r"'[^']*@", "'", str(error))
            broken.append(f"entry {number}: {why}")
    if broken and not requests:
        raise ValueError(broken[0])
    return requests, broken


def critical_chain(requests: list[Request], until: float) -> list[Request]:
    """Go back from the last request that ended by *until* to the one that asked for it, else ended last before."""
    done = [one for one in requests if one.end <= until + 1]
    chain = [max(done, key=lambda one: one.end)] if done else []
    while chain:
        earlier = [one for one in requests if one.start < chain[-1].start]
        before = [one for one in earlier if one.url == chain[-1].initiator]
        if any("javascript" in one.kind for one in before):  # the script may have waited for another of its calls
            ends = (max(one.end for one in before), chain[-1].start - 100, chain[-1].start + 5)
            same = [one for one in earlier if one.initiator == chain[-1].initiator and max(ends[:2]) < one.end <= ends[2]]
            before = same or before
        before = before or [one for one in earlier if one.end <= chain[-1].start + 5]
        if not before:
            break
        chain.append(max(before, key=lambda one: one.end))
    return chain[::-1]


def findings(requests: list[Request], until: float, begin: float) -> Iterator[str]:
    """Yield what costs time, the dearest first within its kind."""
    network = [one for one in requests if not one.cached]
    document = next(
        (one for one in requests if "html" in one.kind and (one.status == 304 or not 300 <= one.status < 400)), requests[0]
    )
    before = [one for one in requests if one.start <= document.start]
    redirects = [one for one in before if 300 <= one.status < 400 and one.status != 304]
    if document.phases["wait"] > 600:
        yield f"server: first byte of the document after {document.phases['wait']:.0f} ms of waiting (good: below 600)"
    if cost := sum(one.total for one in redirects):
        yield f"redirects: {cost:.0f} ms before the document, {len(redirects)} hops"
    for status, what in (
        (range(400, 500), "client errors"),
        (range(500, 600), "server errors"),
        (range(1), "failed or blocked"),
    ):
        if bad := [one for one in requests if one.status in status]:
            yield f"{what}: {len(bad)}, e.g. {bad[0].status} {bad[0].name}"
    plain = [one for one in network if one.size > 2000 and TEXT.search(one.kind) and not one.encoding]
    if (waste := sum(one.size for one in plain) * 0.7) > 20_000:
        yield (
            f"compression: {len(plain)} text responses uncompressed, about {waste / 1000:.0f} kB too much, "
            f"e.g. {plain[0].name}"
        )
    fresh = [
        one for one in network if STATIC.search(one.kind) and re.search(r"^$|no-cache|no-store|max-age=0", one.cache)
    ]
    if len(fresh) > 2:
        yield f"caching: {len(fresh)} static files without lifetime, e.g. {fresh[0].name}"
    if big := [one for one in network if "image" in one.kind and one.sent > 300_000]:
        yield f"images: {len(big)} above 300 kB, {sum(one.sent for one in big) / 1000:.0f} kB, e.g. {big[0].name}"
    if (scripts := sum(one.size for one in network if "javascript" in one.kind)) > 1_500_000:
        yield f"javascript: {scripts / 1000:.0f} kB unpacked to parse and run"
    yield from _connections(network)
    again = Counter((one.method, one.url) for one in network if one.method == "GET" and one.status == 200)
    if twice := [one for one in network if again[one.method, one.url] > 1]:
        addresses = len({one.url for one in twice})
        yield f"duplicates: {addresses} addresses fetched more than once, e.g. {twice[0].name} x{again['GET', twice[0].url]}"
    gap = idle_gap(requests, begin, begin + until)
    if gap[1] > 500:
        yield f"idle: nothing on the network for {gap[1]:.0f} ms at {gap[0]:.0f} ms: scripts or rendering, use a profile"


def _connections(network: list[Request]) -> Iterator[str]:
    old = Counter(one.host for one in network if "1.1" in one.protocol or "1.0" in one.protocol)
    for host, count in old.most_common(1):
        if count > 6:
            yield f"http/1.1: {count} requests to {host} share six connections"
    queued = [one for one in network if one.status and one.phases["blocked"] > 100]  # no answer: Chrome says blocked
    if len(queued) > 3:
        yield f"queueing: {len(queued)} requests waited over 100 ms in the browser before being sent"
    hosts = {one.host for one in network if one.phases["connect"] > 0}
    if len(hosts) > 6:
        yield f"hosts: connections to {len(hosts)} hosts"


def idle_gap(requests: list[Request], begin: float, end: float) -> tuple[float, float]:
    """Return when the longest time without any request began, and how long it was."""
    place, best = begin, (0.0, 0.0)
    for one in sorted(requests, key=lambda request: request.start):
        if one.start > end:
            break
        if one.start - place > best[1]:
            best = (place - begin, one.start - place)
        place = max(place, one.start if one.lasting else one.end)
    return (place - begin, end - place) if end - place > best[1] else best


def groups(requests: list[Request], key: str) -> list[Json]:
    found: dict[str, list[Request]] = defaultdict(list)
    for one in requests:
        found[str(getattr(one, key))].append(one)
    rows = [
        {"name": name, "requests": len(each), "kB": round(sum(one.sent for one in each) / 1000)}
        | {"ms": round(sum(one.total for one in each)), "wait_ms": round(sum(one.phases["wait"] for one in each))}
        for name, each in found.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])


def start_of(page: Json, begin: float) -> float:
    try:
        return datetime.fromisoformat(str(page.get("startedDateTime"))).timestamp() * 1000
    except ValueError:
        return begin


def title_of(page: Json) -> str:
    title = str(page.get("title") or "")
    try:
        parts = urlsplit(title)
        return TOKEN.sub("<id>", parts.path or parts.netloc.rpartition("@")[2] or title)
    except ValueError:  # a title such as "//[draft] invoice" is no address
        return title


def analyse(log: Json, requests: list[Request], page: Json, until: float | None = None) -> Json:
    requests.sort(key=lambda one: one.start)
    begin = requests[0].start
    marks = page.get("pageTimings") or {}
    finish = max(one.start if one.lasting else one.end for one in requests) - begin
    ahead = start_of(page, begin) - begin  # marks count from the page, which Playwright begins before its first request
    onload = float(marks.get("onLoad") or -1)
    onload = onload + ahead if onload > 0 and onload + ahead > 0 else finish
    content = float(marks.get("onContentLoad") or -1)
    until = onload if until is None else until
    chain = critical_chain(requests, begin + until)
    return {
        "browser": " ".join(
            str((log.get("browser") or log.get("creator") or {}).get(k, "")) for k in ("name", "version")
        ),
        "page": title_of(page),
        "requests": len(requests),
        "from_cache": sum(one.cached for one in requests),
        "kB": round(sum(one.sent for one in requests) / 1000),
        "content_loaded_ms": round(content + ahead if content > 0 else -1),
        "load_ms": round(onload),
        "last_request_ms": round(finish),
        "secrets": any(one.secrets for one in requests),
        "findings": list(findings(requests, until, begin)),
        "phases": {phase: round(sum(one.phases[phase] for one in requests)) for phase in PHASES},
        "hosts": groups(requests, "host"),
        "kinds": groups(requests, "kind"),
        "chain": [row(one, begin) for one in chain],
        "slowest": [row(one, begin) for one in sorted(requests, key=lambda one: -one.total)],
    }


def row(one: Request, begin: float) -> Json:
    facts = asdict(one)
    main = max(PHASES, key=lambda phase: one.phases[phase])
    return {key: facts[key] for key in ("method", "status", "kind")} | {
        "at": round(one.start - begin), "ms": round(one.total), "kB": round(one.sent / 1000),
        "main_phase": f"{main} {one.phases[main]:.0f}", "name": one.name,
    }  # fmt: skip


def printable(found: Any) -> Any:  # noqa: ANN401
    """Return what was found with `?` for each character that would act on a terminal."""
    if isinstance(found, str):
        return "".join(one if one.isprintable() else "?" for one in found)
    if isinstance(found, list):
        return [printable(one) for one in found]
    return {key: printable(one) for key, one in found.items()} if isinstance(found, dict) else found


def show(report: Json, top: int) -> None:
    print(f"page    {report['page']}  ({report['browser'].strip() or 'unknown browser'})")
    print(
        f"load    {report['load_ms']} ms (content {report['content_loaded_ms']}, last request {report['last_request_ms']})"
    )
    print(f"total   {report['requests']} requests, {report['from_cache']} from cache, {report['kB']} kB")
    print("sums    " + ", ".join(f"{phase} {ms}" for phase, ms in report["phases"].items()) + " ms (requests overlap)")
    for finding in report["findings"] or ["nothing above the thresholds: look at the chain"]:
        print(f"finding {finding}")
    for title, rows in (
        ("chain, each waited for the one before", report["chain"]),
        ("slowest", report["slowest"]),
    ):
        print(f"\n{title}\n{'at ms':>7} {'ms':>6} {'kB':>6}  {'status':<7} {'mostly':<14} address")
        for one in rows[:top]:
            print(
                f"{one['at']:>7} {one['ms']:>6} {one['kB']:>6}  {one['status']:<7} {one['main_phase']:<14} {one['name']}"
            )
        if len(rows) > top:
            print(f"... {len(rows) - top} more: --top {len(rows)} or --json")
    print(f"\n{'host':<40} requests     kB      ms")
    for one in report["hosts"][:8]:
        print(f"{one['name'][:40]:<40} {one['requests']:>8} {one['kB']:>6} {one['ms']:>7}")
    if report["secrets"]:
        print("\nwarning: the file holds cookies or authorization headers: do not pass it on")


def main() -> int:
    parser = argparse.ArgumentParser(description="Say from a HAR file why a page is slow.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--page", type=int, help="number of the page in the recording, from 1 (default: all requests)")
    parser.add_argument("--until", type=float, metavar="MS", help="where the chain ends (default: the load event)")
    parser.add_argument("--top", type=int, default=10, help="rows in each table (default 10)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        log, entries = read_har(args.file)
        requests, broken = read_requests(entries)
    except (OSError, ValueError, RecursionError) as error:
        print(f"cannot read {args.file}: {error}", file=sys.stderr)
        return 2
    pages = [one for one in log.get("pages") or [] if isinstance(one, dict)]
    if args.page and not 0 < args.page <= len(pages):
        print(f"cannot read page {args.page}: the recording has {len(pages)}", file=sys.stderr)
        return 2
    page = pages[args.page - 1] if args.page else (pages[0] if len(pages) == 1 else {})
    if args.page:
        requests = [one for one in requests if one.page == page.get("id")]
    if not requests:
        print("no requests recorded", file=sys.stderr)
        return 1
    report = analyse(log, requests, page, args.until) | {"unreadable": broken}
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        report = printable(report)
        if broken:
            print(f"note    {len(broken)} entries left out, {report['unreadable'][0]}")
        if len(pages) > 1 and not args.page:
            print(f"note    {len(pages)} pages in one recording: choose one with --page")
        show(report, args.top)
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
