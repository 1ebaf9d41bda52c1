"""The report: all numbers of a log, and how they are printed."""

from __future__ import annotations

from statistics import median

from access_sessions.calls import attempts, findings, retry_rows
from access_sessions.journeys import bursts, chatter, funnel, sessions, slow_rows, utc
from access_sessions.lines import Json, Log, shown


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
