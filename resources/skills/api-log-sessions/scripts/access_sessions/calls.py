"""Requests -> calls: a request and its repetitions, and what they say of retries, doubled writes and time limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import cast

from access_sessions.journeys import step_pattern
from access_sessions.lines import Json, Log, Request, shown

UNSAFE = {"POST", "PATCH"}
MAYBE_DONE = {499, 502, 504}  # the caller got no answer, the work may be done
HOPELESS = {400, 401, 403, 404, 405, 409, 410, 413, 422}
WITHIN = 60.0  # seconds between two attempts of one request


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
            yield f"storm    {row['name']}: up to {row['longest']} attempts, {row['wait_s']} s between them"
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
