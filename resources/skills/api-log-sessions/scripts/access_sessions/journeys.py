"""Requests -> sessions of clients: steps, slow and chatty places, bursts of errors."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import UTC, datetime
from math import ceil
from statistics import median
from typing import cast

from access_sessions.lines import Json, Request, template


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
