#!/usr/bin/env python3
"""Join the lines of access logs into sessions and attempts: retries, doubled writes, slow steps, bursts of errors.

Standard library only, Python 3.11+. Common and combined format (nginx, Apache), JSON lines (nginx, Caddy, Traefik
and others), .gz and standard input (-). Query values and addresses are not printed, nor numbers and most ids in paths.

    python3 join_sessions.py FILE... [--client addr,agent] [--gap MIN] [--unit s|ms|us|ns] [--logged end|start]
                             [--steps 'POST /cart,POST /pay'] [--since T] [--until T] [--top N] [--json]

Exit codes: 0 analysed, 1 no request left after the filters, 2 unreadable or no access log.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

sys.dont_write_bytecode = True  # the folder of the skill stays as it is
if (FOLDER := str(Path(__file__).resolve().parent)) not in sys.path:
    sys.path.insert(0, FOLDER)

try:
    from access_sessions.lines import Log, shown
    from access_sessions.report import analyse, show
except ModuleNotFoundError:
    print(f"cannot start: the folder access_sessions is not in {FOLDER}: copy it beside join_sessions.py", file=sys.stderr)
    sys.exit(2)


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
    parser.add_argument("--unit", choices=("s", "ms", "us", "ns"), help="unit of the time taken, where it is not in the name")
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
