"""Measures answering from an open index: each tier and mode, against FTS5 and other programs."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from clock import RUNS, Clock, Contender, InProcess, race
from contest import open_peers
from corpus import Corpus
from figures import Figure, compare
from floors import DEPTH, any_word
from footprint import MEGABYTE, family, resident
from warm import Server, search

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Ranker
from orchestr8_sqlite.ranking.classic import match_fields, match_scenarios
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.precomputed import match_quick
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.keywords import extract_keywords

LISTED = 5
"""Results that index mode lists by default."""

PRECOMPUTED = "SELECT DISTINCT query FROM quick_lookup WHERE ranker = 'default' ORDER BY query"
REPEATED = 100
"""Different requests that are repeated while their answers are still in memory."""

DEFAULT, STATEMENT, CLASSIC, WIDER = "default search", "ranking statement", "classic tier 2", "classic tier 3"
FTS = "FTS5 bm25"
PEERS = ("bm25s", "tantivy", "MiniSearch", "fuzzy scan")
ASKED = {
    DEFAULT: (FTS, *PEERS),
    STATEMENT: (FTS,),
    CLASSIC: (FTS, *PEERS),
    "catalog mode": (DEFAULT,),
    "full mode": (DEFAULT,),
    WIDER: ("fuzzy scan",),
}
"""Figure → what it is compared with."""


def measure_answering(
    corpus: Corpus, index: Path, queries: Sequence[str], *, with_peers: bool = True
) -> tuple[list[Figure], Mapping[str, str]]:
    """Return the figures of answering *queries*, and the reason for each missing peer."""
    with Catalog.open(index) as catalog, closing(forgetful(index)) as service:
        peers, missing = open_peers(corpus.documents) if with_peers else ({}, dict.fromkeys(PEERS, "it was left out"))
        columns = race({**own_contenders(catalog, service, queries), **peers}, queries)
        figures = [
            figure
            for name, others in ASKED.items()
            for figure in compare(name, corpus.size, columns, name, others, RUNS)
        ]
        for name, peer in peers.items():
            figures += compare(name, corpus.size, columns, name, (), RUNS)
            figures.append(Figure(f"{name}, indexing", corpus.size, peer.build_seconds, "s"))
            figures.append(Figure(f"{name}, memory", corpus.size, peer.memory, "MB"))
            peer.close()
    return figures, missing


def own_contenders(
    catalog: Catalog, service: Service, queries: Sequence[str], clock: Clock = time.perf_counter
) -> dict[str, Contender]:
    """Return the contenders in this process: ours, and FTS5 over the same connection as the tiers."""

    def by_mode(mode: Mode, depth: int) -> Callable[[str], Answer]:
        return lambda query: service.search(MatchRequest(query, mode=mode, max_results=depth))

    def by_tier(match: Callable[..., object]) -> Callable[[str], object]:
        return lambda query: match(catalog.db, classic_request(query), extract_keywords(query))

    answers: dict[str, Callable[[str], object]] = {
        DEFAULT: by_mode(Mode.INDEX, LISTED),
        STATEMENT: ranking_statement(catalog, queries),
        CLASSIC: by_tier(match_scenarios),
        FTS: any_word(catalog.db),
        "catalog mode": by_mode(Mode.CATALOG, DEPTH),
        "full mode": by_mode(Mode.FULL, DEPTH),
        WIDER: by_tier(match_fields),
    }
    return {name: InProcess(answer, clock) for name, answer in answers.items()}


def ranking_statement(catalog: Catalog, queries: Sequence[str]) -> Callable[[str], object]:
    """Return a function that answers each of *queries* with only the statement that the default ranker ran for it."""
    requests = {query: MatchRequest(query, mode=Mode.INDEX, max_results=LISTED) for query in queries}
    ran = {query: find(catalog, request, quick=False).statements[0] for query, request in requests.items()}
    return lambda query: catalog.db.execute(*ran[query]).fetchall()


def forgetful(index: Path) -> Service:
    """Return a service that remembers only one answer, so that every other request is computed."""
    return Service(Settings(index, "error", 1))


def classic_request(query: str) -> MatchRequest:
    """Return the request that the classic tiers are given; it asks for as many results as the peers return."""
    return MatchRequest(query, max_results=DEPTH, ranker=Ranker.CLASSIC)


def measure_tier_1(size: int, index: Path, queries: Sequence[str]) -> list[Figure]:
    """Return the milliseconds of precomputed answers and of answers from memory."""
    with Catalog.open(index) as catalog, closing(Service(Settings(index, "error", 2 * REPEATED))) as service:
        known = [str(query) for (query,) in catalog.db.execute(PRECOMPUTED)]

        def precomputed(query: str) -> object:
            return match_quick(catalog.db, MatchRequest(query, max_results=LISTED), query.split(" "))

        def remembered(query: str) -> object:
            return service.search(MatchRequest(query, mode=Mode.INDEX, max_results=LISTED))

        contenders: dict[str, tuple[Contender, Sequence[str]]] = {
            "tier 1, precomputed": (InProcess(precomputed), known * (REPEATED // max(1, len(known)))),
            "tier 1, remembered": (InProcess(remembered), queries[:REPEATED]),
        }
        figures = []
        for name, (contender, asked) in contenders.items():
            if asked:
                figures += compare(name, size, race({name: contender}, asked), name, (), RUNS)
    return figures


def measure_memory(size: int, index: Path, queries: Sequence[str]) -> list[Figure]:
    """Return the memory of the server after it has answered all *queries*, in MB; empty if the system does not tell."""
    server = Server([sys.executable, "-m", "orchestr8_sqlite", "serve", "--db", str(index)])
    server.times([search(query) for query in queries])
    held = sum(map(resident, family(server.pid))) / MEGABYTE
    server.close()
    return [Figure("server memory", size, held, "MB", queries=len(queries))] if held else []
