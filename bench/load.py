"""Measures search over HTTP under load: two workers behind nginx, one worker directly, and a server that does nothing.

Every request is a `tools/call search` of revision 2025-11-25, sent by wrk over 16 and over 64 open connections: once
with different words in each request, once with the same words. The servers take turns for several rounds; medians are
shown. wrk shares the machine with the servers, so two workers on two cores cannot reach twice the throughput. CPU is
the processor time of the server processes per request, without nginx.

The server that does nothing is the SDK's transport with the same settings; it returns a ready-made result.

Needs wrk, and nginx for the workers behind it (Debian: apt-get install wrk nginx-light).
Usage: python bench/load.py [--db INDEX] [--seconds 5] [--rounds 5] [--write]   (without INDEX: the bundled one)
--write writes the figures into docs/scaling.md.
"""

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

CONNECTIONS = (16, 64)
DOCS = Path(__file__).parents[1] / "docs"
FIGURES = re.compile(r"(<!-- written by bench/load.py -->\n```text\n).*?(```)", re.DOTALL)
START_SECONDS = 60

SCRIPT = Path(__file__).with_name("load.lua")

NOTHING = """
import json, socket, sys
import mcp_types as types, uvicorn
from mcp.server.lowlevel import Server

ANSWER = types.CallToolResult.model_validate_json(sys.stdin.readline(), by_name=False)

async def answer(context, params): return ANSWER

app = Server("nothing", version="1", on_call_tool=answer).streamable_http_app(json_response=True, stateless_http=True)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", int(sys.argv[1])))
config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", backlog=1024, timeout_keep_alive=75)
uvicorn.Server(config).run([listener])
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A server to load: its address, the Host header it accepts, its process id, and its log file."""

    address: str
    host: str
    process: int
    log: Path


@dataclass(frozen=True, slots=True)
class Measure:
    """The result of one run of wrk: requests per second, latencies and CPU per request in ms, failed requests."""

    rate: float
    p50: float
    p99: float
    failed: int
    cpu: float


def main() -> int:
    """Print the figures and their ratios; return 1 if wrk is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--db", help="the index to serve; by default the bundled one")
    parser.add_argument("--seconds", type=int, default=5, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/scaling.md")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.stderr.write("wrk, which makes the load, is missing: apt-get install wrk\n")
        return 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets = start(stack, folder, ["--db", options.db] if options.db else [])
        shown = [f"{options.rounds} rounds of {options.seconds} s, {os.cpu_count()} processors\n"]
        for kind in ("different", "same"):
            shown += table(kind, measure(targets, kind, options.seconds, options.rounds))
        text = "".join([*shown, shares(targets)])
    sys.stdout.write(text)
    if options.write:
        place = DOCS / "scaling.md"
        place.write_text(FIGURES.sub(lambda old: old[1] + text + old[2], place.read_text()))
    return 0


def start(stack: ExitStack, folder: Path, index: Sequence[str]) -> dict[str, Target]:
    """Return the running servers by name; the table relies on this order: nothing, one worker, two workers."""
    one = stack.enter_context(serving(folder / "one.log", 1, index))
    targets = {"nothing": stack.enter_context(nothing(folder / "nothing.log", answer_of(one))), "1 worker": one}
    two = stack.enter_context(serving(folder / "two.log", 2, index))
    if shutil.which("nginx"):
        return targets | {"nginx, 2 workers": stack.enter_context(behind_nginx(folder, two))}
    sys.stderr.write("nginx is missing, so wrk asks the two workers directly: apt-get install nginx-light\n")
    return targets | {"2 workers": two}


@contextmanager
def running(command: Sequence[str], url: str, log: Path, told: str = "") -> Iterator[int]:
    """Run *command* with *told* on its standard input and yield its process id as soon as *url* answers."""
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdin is not None
        with process.stdin as standard_input:
            standard_input.write(told)
        wait_for(url, process)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def serving(log: Path, workers: int, index: Sequence[str]) -> Iterator[Target]:
    """Yield our server with *workers* workers."""
    host = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "orchestr8_sqlite", "serve", "--http", host, "--workers", str(workers)]
    with running([*command, "--allow-host", "library.example.org", *index], f"http://{host}/healthz", log) as process:
        yield Target(host, host, process, log)


@contextmanager
def nothing(log: Path, answer: str) -> Iterator[Target]:
    """Yield the server that does nothing: it always returns *answer*."""
    host = f"127.0.0.1:{(port := free_port())}"
    with running([sys.executable, "-c", NOTHING, str(port)], f"http://{host}/mcp", log, answer) as process:
        yield Target(host, host, process, log)


@contextmanager
def behind_nginx(folder: Path, target: Target) -> Iterator[Target]:
    """Yield nginx as a proxy of *target*, with the configuration that the docs recommend."""
    host = f"127.0.0.1:{free_port()}"
    site = (DOCS / "nginx.conf").read_text().replace("127.0.0.1:8765", target.address)
    (folder / "site.conf").write_text(site.replace("listen 8080;", f"listen {host};"))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr; events {{ }}\n"
        f"http {{ access_log off; {places} include {folder}/site.conf; }}\n"
    )
    command = ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    with running(command, f"http://{host}/healthz", folder / "nginx.log"):
        yield Target(host, "library.example.org", target.process, target.log)


def free_port() -> int:
    """Return a port that is free right now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for(url: str, process: "subprocess.Popen[str]") -> None:
    """Return as soon as *url* answers, even with an HTTP error; end the program if it does not."""
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - http
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"{url} does not answer; its process ended with {process.poll()}.")


def answer_of(target: Target) -> str:
    """Return the result of one search by *target*, as JSON."""
    call = {"name": "search", "arguments": {"query": "retry a flaky call"}}
    request = urllib.request.Request(
        f"http://{target.address}/mcp",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode(),
        {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
    )
    with urllib.request.urlopen(request) as response:  # noqa: S310 - http
        return json.dumps(json.load(response)["result"])


Measured = Mapping[tuple[str, int], Sequence[Measure]]


def measure(targets: Mapping[str, Target], kind: str, seconds: int, rounds: int) -> Measured:
    """Return all runs by target and number of connections: one per round, after a warm-up round that is not counted."""
    measured = defaultdict(list)
    for round_ in range(rounds + 1):
        for connections in CONNECTIONS:
            for name, target in targets.items():
                found = run(target, kind, connections, seconds if round_ else 1, seed=round_)
                if round_:
                    measured[name, connections].append(found)
    return measured


def run(target: Target, kind: str, connections: int, seconds: int, *, seed: int) -> Measure:
    """Run wrk once and return what it measured."""
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(SCRIPT)]
    environment = {**os.environ, "LOAD_KIND": kind, "LOAD_HOST": target.host, "LOAD_SEED": str(seed)}
    before = cpu_seconds(target.process)
    done = subprocess.run(
        [shutil.which("wrk") or "wrk", *options, f"http://{target.address}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    cpu = cpu_seconds(target.process) - before
    shown = json.loads(done.stdout.splitlines()[-1])
    return Measure(shown["rate"], shown["p50"], shown["p99"], shown["failed"], cpu * 1000 / max(1, shown["requests"]))


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process and its direct children; 0 if the system does not tell."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if process in (int(place.parent.name), int(fields[1])):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def table(kind: str, measured: Measured) -> Iterator[str]:
    """Yield the lines with the medians, then those with the ratios."""
    medians = {
        key: Measure(*(statistics.median(getattr(one, name) for one in runs) for name in Measure.__slots__))
        for key, runs in measured.items()
    }
    yield f"\n{kind + ' searches':<24} connections  requests/s  p50 ms  p99 ms  CPU ms  failed\n"
    for (name, connections), one in medians.items():
        failed = sum(each.failed for each in measured[name, connections])
        yield f"{name:<24}{connections:>12}{one.rate:12.0f}{one.p50:8.1f}{one.p99:8.1f}{one.cpu:8.2f}{failed:8}\n"
    names = list(dict.fromkeys(name for name, _ in medians))
    for connections in CONNECTIONS:
        floor, one, two = (medians[name, connections] for name in names)
        throughput, p50, p99 = (ratio(getattr(two, name), getattr(one, name)) for name in ("rate", "p50", "p99"))
        yield (
            f"{connections} connections: {names[2]} / {names[1]}: throughput {throughput}, p50 {p50}, p99 {p99}; "
            f"{names[1]} / {names[0]}: CPU {ratio(one.cpu, floor.cpu)}\n"
        )


def ratio(value: float, base: float) -> str:
    """Return *value* / *base* as text; a dash if *base* is 0."""
    return f"{value / base:.2f}" if base else "–"


def shares(targets: Mapping[str, Target]) -> str:
    """Return a line that says how the requests were shared between the two workers."""
    *_, two = targets.values()
    counts = Counter(re.findall(r"worker=(\d+)", two.log.read_text())).values()
    parts = " and ".join(f"{count / sum(counts):.0%}" for count in sorted(counts))
    return f"\nOf all requests the two workers answered {parts}.\n"


if __name__ == "__main__":
    sys.exit(main())
