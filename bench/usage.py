"""Shows `usage` on logs of a server that judged queries were replayed to, and measures what logging costs.

A reader that knows the judgements asks queries at random, the frequent ones often (the r-th with weight 1/r), and loads
the first two documents of an answer that are judged useful. Each library gets its own log of at least 10,000 requests,
written by servers that take turns, one for each 500 requests. The queries are those of bench/judgements/ and, if they
lie beside the checkout, of the sets that the ranking was tuned on.

The second table has what lines for requests add to a search over stdio, from request to answer, on standard error and
in a file too. The servers take turns at every query; the table shows medians of the differences to a server without
such lines at the same query.

Usage: python bench/usage.py [--write]   --write writes the figures into docs/usage.md.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from judged import SHARED, JudgedSet, open_set, open_untuned
from startup import INITIALIZE, INITIALIZED

from orchestr8_sqlite.evaluation.judgements import JudgedQuery
from orchestr8_sqlite.settings import bundled_index

DOCUMENT = Path(__file__).parents[1] / "docs" / "usage.md"
BEGIN, END = "<!-- written by bench/usage.py from here -->", "<!-- to here -->"
REQUESTS = 10_000
OF_A_SERVER = 500
LOADED = 2
"""Most documents that the reader loads of an answer."""

ROUNDS = 3
LOGS: Mapping[str, Mapping[str, str]] = {
    "none": {"LOG_LEVEL": "error"},
    "standard error, as text": {},
    "standard error, as JSON": {"LOG_FORMAT": "json"},
    "… and a file": {"LOG_FORMAT": "json", "ORCHESTR8_LOG_FILE": "server.log"},
}


class Client:
    """Asks a server process over stdio, one request at a time; `requests` counts them."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self.requests = 0
        self._send(INITIALIZE)
        self._answer()
        self._send(INITIALIZED)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return the structured content of a tool's answer."""
        params = {"name": tool, "arguments": arguments}
        self._send({"jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call", "params": params})
        content: dict[str, Any] = self._answer()["result"]["structuredContent"]
        return content

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        self.requests += 1
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def serving(index: Path, **variables: str) -> Iterator[Client]:
    """Yield a client of a server over *index*, whose end is waited for."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestr8_sqlite", "serve", "--db", str(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    try:
        yield Client(process)
    finally:
        process.communicate()


def replay(sets: Sequence[JudgedSet], log: Path, chance: random.Random) -> None:
    """Ask the queries of *sets*, which share a library, until *log* has REQUESTS requests."""
    asked = [(one, query) for one in sets for query in one.queries]
    chance.shuffle(asked)
    weights = [1 / rank for rank in range(1, len(asked) + 1)]
    variables = {"ORCHESTR8_LOG_FILE": str(log), "ORCHESTR8_LOG_QUERIES": "on"}
    done = 0
    while done < REQUESTS:
        with serving(sets[0].catalog.path, **variables) as client:
            while client.requests < OF_A_SERVER:
                read_answer(client, *chance.choices(asked, weights)[0])
            done += client.requests


def read_answer(client: Client, judged: JudgedSet, query: JudgedQuery) -> None:
    """Search, and load what is judged useful of what the answer lists."""
    terms = {"terms": [*query.terms]} if query.terms else {}
    listed = [match["uri"] for match in client.call("search", query=query.text, **terms)["matches"]]
    grades = judged.qrels.get(query.id, {})
    useful = [uri for uri in listed if grades.get(judged.names[uri], 0) > 0]
    if useful:
        client.call("load", uris=useful[:LOADED], maxTokens=2000)


def figures_of(index: Path, log: Path) -> dict[str, Any]:
    """Return what `usage --json` says of a log and the files that it was rotated to."""
    logs = [str(path) for path in log.parent.glob(f"{log.name}*")]
    command = [sys.executable, "-m", "orchestr8_sqlite", "usage", *logs, "--json", "--db", str(index)]
    figures: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return figures


def use(libraries: Mapping[str, Sequence[JudgedSet]], folder: Path) -> str:
    """Return the table of figures of each library."""
    columns = {}
    for name, sets in libraries.items():
        log = folder / f"{name}.log"
        replay(sets, log, random.Random(7))  # noqa: S311 - the same queries each time
        figures = figures_of(sets[0].catalog.path, log)
        ranks = {int(rank): loads for rank, loads in figures["ranks"].items()}
        words = ", ".join(word["word"] for word in figures["uncovered"][:3])
        columns[f"{sets[0].catalog.size:,} fragments"] = {
            "different queries": f"{sum(len(one.queries) for one in sets):,}",
            "requests": f"{figures['requests']:,}",
            "searches": f"{figures['searches']:,}",
            "answered": f"{figures['answered']:,}",
            "nothing fitted: weak, without anything close": f"{figures['weak']:,}, {figures['nothing']:,}",
            "answers that led to a load": f"{figures['led']:,} ({figures['rate']:.1%})",
            "fragments loaded": f"{figures['loads']:,}",
            "… at rank 1, 2, 3, 4, 5": ", ".join(f"{ranks.get(rank, 0):,}" for rank in range(1, 6)),
            "never loaded": f"{len(figures['neverLoaded']):,}",
            "different requests that nothing fitted": f"{len(figures['gaps']):,}",
            "not covered most often": words,
        }
    return _table("", columns)


def cost(index: Path, queries: Sequence[str], folder: Path) -> str:
    """Return the table of the milliseconds that each kind of log adds to a search."""
    times: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        clients = {}
        for name, variables in LOGS.items():
            placed = {key: str(folder / value) if key.endswith("FILE") else value for key, value in variables.items()}
            clients[name] = stack.enter_context(serving(index, CACHE_SIZE="0", **placed))
        for client in clients.values():
            client.call("search", query=queries[0])
        for number, query in enumerate([*queries] * ROUNDS):
            turn = number % len(clients)
            for name in [*clients][turn:] + [*clients][:turn]:
                started = time.perf_counter()
                clients[name].call("search", query=query)
                times[name].append((time.perf_counter() - started) * 1000)
    without = times.pop("none")
    more = {
        name: statistics.median(a - b for a, b in zip(column, without, strict=True)) for name, column in times.items()
    }
    return _table("log", {"ms more": {name: f"{one:.2f}" for name, one in more.items()}})


def _table(head: str, columns: Mapping[str, Mapping[str, str]]) -> str:
    names = next(iter(columns.values()))
    lines = [f"| {' | '.join((head, *columns))} |", f"|---{'|--:' * len(columns)}|"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(one[name] for one in columns.values())} |" for name in names)])


def main() -> None:
    """Print the tables, and write them into the document if asked to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        untuned = open_untuned(folder)
        libraries = {"shipped": [one for one in untuned if one.name != "rules"]}
        if SHARED.is_dir():
            libraries |= {name: [open_set(name, folder)] for name in ("orchestr8", "skills")}
        queries = [query.text for query in libraries["shipped"][0].queries]
        text = "\n\n".join([use(libraries, folder), cost(bundled_index(), queries, folder)])
        for judged in itertools.chain(untuned, *libraries.values()):
            judged.catalog.close()
    sys.stdout.write(text + "\n")
    if "--write" in sys.argv:
        head, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
