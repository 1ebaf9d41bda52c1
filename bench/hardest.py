"""Measures the slowest requests: long, made of the words that cost an index most."""

import gc
import math
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from clock import Contender, InProcess, medians, runs_for
from figures import Figure
from floors import any_word

from orchestr8_sqlite.answers.render import render
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Ranker
from orchestr8_sqlite.ranking.lookup import find

MOST_USED = "SELECT text FROM keyword WHERE length(text) >= ? ORDER BY fragment_count DESC, text LIMIT 1000"
RAREST_TAG = "SELECT tag FROM tag GROUP BY tag ORDER BY count(*), tag LIMIT 1"

MOST_RESULTS, MOST_TOKENS = 100, 200_000
"""The most results and tokens that a request may ask for."""

LENGTH = 1000
"""Characters of each request; of a longer one no more words count."""

COMMON = "common words"
FTS = "FTS5 bm25"


def measure_hardest(size: int, index: Path) -> list[Figure]:
    """Return the milliseconds of the hardest requests to the *index*, and the maximum for each ranker.

    The request made of common words is also compared with FTS5.
    """
    with Catalog.open(index) as catalog:
        requests = hardest_requests(catalog.db)
        ours = InProcess(lambda name: render(find(catalog, requests[name], quick=False), catalog.body))
        times, runs = medians_of(ours, list(requests))
        (floor,), _ = medians_of(InProcess(any_word(catalog.db)), [requests[f"{COMMON}, default"].query])
    figures = [
        Figure(f"hardest: {name}", size, value, "ms", runs=runs) for name, value in zip(requests, times, strict=True)
    ]
    plain = {f"hardest: {COMMON}, {ranker.value}" for ranker in Ranker}
    beside = [Figure(one.name, size, one.value, "ms", FTS, floor, runs) for one in figures if one.name in plain]
    most = [
        Figure(f"hardest request, {ranker.value}", size, max(hard), "ms", runs=runs)
        for ranker in Ranker
        if (hard := [one.value for one in figures if one.name.endswith(f", {ranker.value}")])
    ]
    return [*beside, *figures, *most]


def medians_of(contender: Contender, queries: Sequence[str]) -> tuple[list[float], int]:
    """Return the median milliseconds of each query, and the number of runs: fewer if one run takes long.

    The first run warms up; it counts only if it is the only one.
    """
    gc.collect()
    gc.freeze()  # as a server does: a collection would walk what this benchmark holds
    first = contender.times(queries, math.inf)
    runs = runs_for(sum(first) / 1000)
    rounds = [contender.times(queries, math.inf) for _ in range(runs)] if runs > 1 else [first]
    gc.unfreeze()
    return medians(rounds), runs


def hardest_requests(db: sqlite3.Connection) -> dict[str, MatchRequest]:
    """Return requests by name: what is hard about them, and the ranker."""
    words = [text for (text,) in db.execute(MOST_USED, (2,))]
    (rarest,) = db.execute(RAREST_TAG).fetchone() or ("none",)
    plain = MatchRequest("", mode=Mode.INDEX, max_results=MOST_RESULTS, max_tokens=MOST_TOKENS)
    hard = {
        COMMON: plain._replace(query=_fill(words)),
        "common words, a rare tag": plain._replace(query=_fill(words), tags=(rarest,)),
        "common words, whole texts": plain._replace(query=_fill(words), mode=Mode.FULL),
        "misspelt words": plain._replace(query=_fill(_misspelt(text for (text,) in db.execute(MOST_USED, (6,))))),
        "pairs of letters": plain._replace(
            query=_fill("".join(pair) for pair in product(ascii_lowercase, "aeiourstnl"))
        ),
    }
    return {
        f"{name}, {ranker.value}": request._replace(ranker=ranker)
        for name, request in hard.items()
        for ranker in Ranker
    }


def _fill(words: Iterable[str]) -> str:
    """Return a query of the first *words*, as many as fit into LENGTH."""
    query = ""
    for word in words:
        if len(query) + 1 + len(word) > LENGTH:
            break
        query = f"{query} {word}".strip()
    return query


def _misspelt(words: Iterable[str]) -> Iterable[str]:
    """Yield each word with its second and third letters swapped."""
    for word in words:
        yield word[0] + word[2] + word[1] + word[3:]
