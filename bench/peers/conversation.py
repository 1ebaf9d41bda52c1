"""The conversation of a peer with the measurement: documents first, then lists of queries, times of each back."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DEPTH = 15
"""Results of a query."""

Document = dict[str, Any]
Answer = Callable[[str], Sequence[object]]


def serve(index: Callable[[list[Document]], Answer]) -> None:
    """Build what *index* builds of the documents in the file named by the first argument, and answer until the end."""
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    started = time.perf_counter()
    answer = index(documents)
    del documents
    _say({"seconds": time.perf_counter() - started})
    for line in sys.stdin:
        request = json.loads(line)
        _say(_answer_all(answer, request["queries"], request["seconds"]))


def text_of(document: Document) -> str:
    """Return all fields of a document as one text."""
    lists = (*document["tags"], *document["capabilities"], *document["scenarios"])
    return " ".join((document["name"].replace("-", " "), document["title"], *lists, document["description"]))


def _answer_all(answer: Answer, queries: Sequence[str], seconds: float) -> dict[str, object]:
    times: list[float] = []
    found = 0
    end = time.perf_counter() + seconds
    for query in queries:
        started = time.perf_counter()
        if started >= end and times:
            break
        found += bool(answer(query))
        times.append((time.perf_counter() - started) * 1000)
    return {"ms": times, "found": found}


def _say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
