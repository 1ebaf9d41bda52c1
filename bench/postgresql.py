"""Publishes indexes of growing libraries to PostgreSQL on this machine, searches there, and says what that takes.

The libraries have short bodies; servers are started for each row of the table and write as carefully as PostgreSQL does
by default. The publisher's CPU time and its peak of memory are those of its process.

Usage: python bench/postgresql.py [--sizes N …] [--shards N …] [--write]   --write writes into docs/postgresql.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from corpus import make_corpus
from queries import make_queries
from report import table
from run import SEED, machine, now, say

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.settings import Address, Place

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from postgresql_server import Server, postgresql_server  # noqa: E402

DOCUMENT = ROOT / "docs" / "postgresql.md"
BEGIN, END = "<!-- written by bench/postgresql.py from here -->", "<!-- to here -->"
DATABASE = "postgres"
"""Of each server."""

WARMING = 50
"""Searches before those that are timed."""


class Publishing(NamedTuple):
    """What a publisher took: seconds, seconds of CPU, the peak of its memory in bytes; rows that it sent, of all."""

    seconds: float
    cpu: float
    memory: int
    sent: int
    rows: int


def main() -> None:
    """Print the table, and write it into the document if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="fragments of the libraries")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "orchestr8-bench")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows: list[Mapping[str, str]] = []
    for size in options.sizes:
        say(f"{size:,} fragments: building")
        with ProcessPoolExecutor(1) as builder:  # a process that starts others hands its peak of memory on to them
            index, changed, queries = builder.submit(build_indexes, size, options.workdir).result()
        for shards in options.shards:
            say(f"{size:,} fragments: {shards} shards")
            rows.append({"fragments": f"{size:,}", "shards": str(shards), **measure(index, changed, queries, shards)})
    text = f"{machine()} {now()}.\n\n{table(list(rows[0]), [list(row.values()) for row in rows], numbers=1)}"
    sys.stdout.write(text + "\n")
    if options.write:
        head, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def build_indexes(size: int, workdir: Path) -> tuple[Path, Path, Sequence[str]]:
    """Return the index of a library with short bodies, the one after a sentence was added, and requests."""
    corpus = make_corpus(ROOT / "resources", size, workdir, seed=SEED, short_from=1)
    grown = corpus.root.parent.name
    index, changed = (workdir / f"published-{grown}{name}.db" for name in ("", "-changed"))
    if not index.is_file():
        build_index([corpus.root], index)
    file = corpus.some_files(2)[1]
    before = file.read_bytes()
    try:
        file.write_bytes(before + b"\nRetrying a call is worth a sentence.\n")
        changed.write_bytes(index.read_bytes())
        build_index([corpus.root], changed)
    finally:
        file.write_bytes(before)
    return index, changed, make_queries(corpus.read_documents(), size, seed=SEED)


def measure(index: Path, changed: Path, queries: Sequence[str], shards: int) -> Mapping[str, str]:
    """Return the figures of publishing an index and then a changed one, by the heads of the table."""
    with ExitStack() as stack:
        servers = [stack.enter_context(postgresql_server(fsync=True)) for _ in range(shards)]
        whole = publish(index, servers)
        figures = {
            "index, MB": f"{index.stat().st_size / 1e6:,.0f}",
            "databases, MB": f"{sum(size_of(server) for server in servers) / 1e6:,.0f}",
            "publishing, s": f"{whole.seconds:,.0f}",
            "CPU of the publisher, s": f"{whole.cpu:,.0f}",
            "its memory, MB": f"{whole.memory / 1e6:,.0f}",
            "rows": f"{whole.rows:,}",
        }
        part = publish(changed, servers)
        figures |= {"after one change, s": f"{part.seconds:,.0f}", "rows sent then": f"{part.sent:,}"}
        return {**figures, **ask(changed, [server.address(DATABASE) for server in servers], queries)}


def publish(index: Path, servers: Sequence[Server]) -> Publishing:
    """Publish an index to servers in a process of its own."""
    to = ",".join(server.address(DATABASE) for server in servers)
    command = [sys.executable, "-m", "orchestr8_sqlite", "publish", str(index), "--to", to, "--no-gate", "--json"]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        told = json.load(process.stdout)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    cpu = used.ru_utime + used.ru_stime
    return Publishing(time.perf_counter() - started, cpu, used.ru_maxrss * 1024, told["sent"], told["rows"])


def size_of(server: Server) -> int:
    """Return the bytes of a database."""
    ((size,),) = server.ask(DATABASE, "SELECT pg_database_size(current_database())")
    return int(size)


def ask(index: Path, addresses: Sequence[str], queries: Sequence[str]) -> Mapping[str, str]:
    """Return how long a search takes there, and in the file, by the heads of the table; the two take turns.

    Also returns how many of the answers differ in anything.
    """
    spent: dict[Place, list[float]] = {Address(",".join(addresses)): [], index: []}
    differing = 0
    with ExitStack() as stack:
        catalogs = {place: stack.enter_context(Catalog.open(place)) for place in spent}
        for query in (*queries[:WARMING], *queries):
            answers = []
            for place, catalog in catalogs.items():
                started = time.perf_counter()
                answers.append(find(catalog, MatchRequest(query), quick=False))
                catalog.rest()
                spent[place].append(time.perf_counter() - started)
            differing += len({repr(answer._replace(statements=())) for answer in answers}) - 1
    there, here = ([1000 * one for one in times[WARMING:]] for times in spent.values())
    return {
        "search, p50, ms": f"{median(there):.1f}",
        "p99, ms": f"{quantiles(there, n=100)[-1]:.0f}",
        "in the file, p50, ms": f"{median(here):.1f}",
        "its p99, ms": f"{quantiles(here, n=100)[-1]:.0f}",
        "answers that differ": f"{differing} of {WARMING + len(queries)}",
    }


if __name__ == "__main__":
    main()
