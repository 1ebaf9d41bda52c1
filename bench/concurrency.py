"""Measures many readers of one index: searches per second of processes and threads, and pings during searches.

    N processes    each with its own Service, different searches, none from memory; as a ratio to one process in the
                   same round; 8 processes must reach 1.7 on two cores
    N threads      of one process, sharing one Service
    ping           to a server process that is working on 0, 1 or 4 searches, in ms

Each round measures everything in turn; the medians of the rounds are printed. CPU ms per search show what waiting
hides: if they stay the same, the readers share nothing but the machine.

Usage: python bench/concurrency.py [INDEX]   (without INDEX: the bundled one)
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from startup import INITIALIZE, INITIALIZED

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Mode
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings, bundled_index

ROUNDS = 5
SECONDS = 2.0
PROCESSES = (1, 2, 4, 8)
THREADS = (2, 4)
BOUND = 1.7
"""8 processes on two cores must reach this multiple of the searches of one process."""

QUERIES = 400
WORDS = 4
IN_FLIGHT = (0, 1, 4)
PINGS = 100
SCENARIOS = "SELECT text FROM scenario ORDER BY fragment_id, ordinal LIMIT 3000"


class Run(NamedTuple):
    """The result of one run: searches per second, and ms of CPU time per search."""

    rate: float
    cpu_ms: float


def make_queries(index: Path) -> list[str]:
    """Return different queries made of the index's own words."""
    with Catalog.open(index) as catalog:
        texts = [text for (text,) in catalog.rows(SCENARIOS)]
    words = sorted({word for text in texts for word in text.casefold().split() if word.isalpha()})
    chance = random.Random(8)  # noqa: S311 - the same queries each time
    return [" ".join(chance.sample(words, min(WORDS, len(words)))) for _ in range(QUERIES)]


def work(index: Path, number: int) -> None:
    """Search as each input line `threads seconds` says; print the number of searches and the CPU seconds they took."""
    queries = make_queries(index)
    service = Service(Settings(index, "error", 1))
    places = itertools.count(number * len(queries) // max(PROCESSES))

    def search_until(end: float, done: list[int]) -> None:
        count = 0
        while time.perf_counter() < end:
            service.search(MatchRequest(queries[next(places) % len(queries)], Mode.INDEX))
            count += 1
        done.append(count)

    search_until(time.perf_counter() + 0.5, [])
    for line in sys.stdin:
        count, seconds = line.split()
        done: list[int] = []
        before, end = time.process_time(), time.perf_counter() + float(seconds)
        threads = [threading.Thread(target=search_until, args=(end, done)) for _ in range(int(count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.stdout.write(f"{sum(done)} {time.process_time() - before}\n")
        sys.stdout.flush()
    service.close()


class Workers:
    """The processes that search; they are idle between runs."""

    def __init__(self, index: Path) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, "work", str(index), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for number in range(max(PROCESSES))
        ]
        for process in self._processes:
            self._result(process, 1, 0.1)

    def run(self, processes: int, threads: int = 1) -> Run:
        """Return what *processes* with *threads* threads each do in SECONDS."""
        chosen = self._processes[:processes]
        for process in chosen:
            self._ask(process, threads, SECONDS)
        results = [self._answer(process) for process in chosen]
        searches = sum(count for count, _ in results)
        return Run(searches / SECONDS, sum(cpu for _, cpu in results) / searches * 1000)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.communicate()

    def _result(self, process: "subprocess.Popen[str]", threads: int, seconds: float) -> tuple[int, float]:
        self._ask(process, threads, seconds)
        return self._answer(process)

    def _ask(self, process: "subprocess.Popen[str]", threads: int, seconds: float) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{threads} {seconds}\n")

    def _answer(self, process: "subprocess.Popen[str]") -> tuple[int, float]:
        assert process.stdout is not None
        count, cpu = process.stdout.readline().split()
        return int(count), float(cpu)


class Client:
    """A client that keeps searches in flight at a server while it pings it."""

    def __init__(self, index: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "orchestr8_sqlite", "serve", "--db", str(index)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._queries = itertools.cycle(make_queries(index))
        self._numbers = itertools.count(1)
        self._searching = 0
        self._send(INITIALIZE)
        self._send(INITIALIZED)
        self.ping(0)

    def ping(self, searching: int) -> float:
        """Return the milliseconds until a ping is answered while *searching* searches are in flight."""
        while self._searching < searching:
            self._search()
        number = next(self._numbers)
        started = time.perf_counter()
        self._send({"jsonrpc": "2.0", "id": number, "method": "ping"})
        for message in self._messages():
            if message["id"] == number:
                break
            self._searching -= message["id"] != 0
            if self._searching < searching:
                self._search()
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        """End the server."""
        self._process.communicate()

    def _search(self) -> None:
        arguments = {"query": next(self._queries), "mode": "index", "minScore": 0.1 * (next(self._numbers) % 90)}
        params = {"name": "search", "arguments": arguments}
        self._send({"jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call", "params": params})
        self._searching += 1

    def _messages(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def compare_readers(index: Path) -> None:
    """Print one line for each number of processes and threads, and whether the bound holds."""
    workers = Workers(index)
    plan = {f"{n} process{'es' if n > 1 else ''}": (n, 1) for n in PROCESSES} | {
        f"{n} threads": (1, n) for n in THREADS
    }
    runs: dict[str, list[Run]] = {name: [] for name in plan}
    for _ in range(ROUNDS):
        for name, (processes, threads) in plan.items():
            runs[name].append(workers.run(processes, threads))
    workers.close()
    ratios: dict[str, float] = {}
    for name, column in runs.items():
        pairs = zip(column, runs["1 process"], strict=True)
        ratios[name] = statistics.median(run.rate / alone.rate for run, alone in pairs)
        rate, cpu = (statistics.median(part) for part in zip(*column, strict=True))
        sys.stdout.write(f"{name:<14}{rate:8.0f} searches/s  ratio {ratios[name]:5.2f}  CPU {cpu:7.2f} ms a search\n")
    verdict = "held" if ratios["8 processes"] >= BOUND else "missed"
    sys.stdout.write(f"8 processes / 1 process     ratio {ratios['8 processes']:5.2f}  bound {BOUND}  {verdict}\n")


def ping_beside_searches(index: Path) -> None:
    """Print how long pings take during searches."""
    client = Client(index)
    times: dict[int, list[float]] = {count: [] for count in IN_FLIGHT}
    for _ in range(ROUNDS):
        for count, column in times.items():
            column += [client.ping(count) for _ in range(PINGS)]
    client.close()
    for count, column in times.items():
        percentiles = statistics.quantiles(column, n=100)
        sys.stdout.write(
            f"ping beside {count} searches  p50 {percentiles[49]:6.2f} ms  p99 {percentiles[98]:6.2f} ms\n"
        )


def main() -> None:
    """Print both tables."""
    index = Path(sys.argv[1]) if len(sys.argv) > 1 else bundled_index()
    sys.stdout.write(f"{os.cpu_count()} cores\n")
    compare_readers(index)
    ping_beside_searches(index)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
