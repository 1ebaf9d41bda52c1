"""What answering costs once an index is open: each tier and mode, beside the same SQL, FTS5 and other programs."""

import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from clock import RUNS, Clock, Contender, InProcess, race
from contest import open_peers
from corpus import Corpus
from figures import Figure, compare
from floors import DEPTH, any_word, open_bare, same_sql
from footprint import MEGABYTE, family, resident
from warm import Server, search

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest, Mode, Ranker, Statement
from orchestr8_sqlite.service import Answer, Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.tiers.fuzzy import match_fuzzy
from orchestr8_sqlite.tiers.postings import match_keywords
from orchestr8_sqlite.tiers.shortcut import match_quick

LISTED = 5
"""Results of the index mode by default."""

PRECOMPUTED = "SELECT DISTINCT query FROM quick_lookup WHERE ranker = 'default' ORDER BY query"
REPEATED = 100
"""Different requests that are asked again while their answers are remembered."""

FTS, CLASSIC_SQL, DEFAULT_SQL = "FTS5 bm25", "its SQL", "its ranking SQL"
PLAIN = "default search, without NumPy"
ASKED = {
    "tier 2": (CLASSIC_SQL, FTS, "bm25s", "tantivy", "MiniSearch", "fuzzy scan"),
    "default search": (DEFAULT_SQL, FTS, "bm25s", "tantivy", "MiniSearch", "fuzzy scan"),
    PLAIN: ("default search",),
    "catalog mode": ("default search",),
    "full mode": ("default search",),
    "tier 3, classic": ("fuzzy scan",),
}
"""Figure → what it stands beside."""


def measure_answering(corpus: Corpus, index: Path, queries: Sequence[str]) -> tuple[list[Figure], Mapping[str, str]]:
    """Return the figures of answering *queries*, and why some peers are missing."""
    with Catalog.open(index) as catalog, closing(open_bare(index)) as bare, closing(forgetful(index)) as service:
        contenders = own_contenders(catalog, bare, service, queries)
        peers, missing = open_peers(corpus.documents)
        columns = race({**contenders, **peers}, queries)
        figures = [
            figure
            for name, others in ASKED.items()
            if name in columns
            for figure in compare(name, corpus.size, columns, name, others, RUNS)
        ]
        for name, peer in peers.items():
            figures += compare(name, corpus.size, columns, name, (), RUNS)
            figures.append(Figure(f"{name}, indexing", corpus.size, peer.build_seconds, "s"))
            figures.append(Figure(f"{name}, memory", corpus.size, peer.memory, "MB"))
            peer.close()
    return figures, missing


def own_contenders(
    catalog: Catalog,
    bare: sqlite3.Connection,
    service: Service,
    queries: Sequence[str],
    clock: Clock = time.perf_counter,
) -> dict[str, Contender]:
    """Return what answers in this process: ours, and the floors of the tiers that are SQL."""

    def by_mode(mode: Mode, depth: int) -> Callable[[str], Answer]:
        return lambda query: service.search(MatchRequest(query, mode=mode, max_results=depth))

    def tier_2(query: str) -> object:
        return match_keywords(catalog.db, classic_request(query), extract_keywords(query))

    def tier_3(query: str) -> object:
        return match_fuzzy(catalog.db, classic_request(query), extract_keywords(query))

    default = by_mode(Mode.INDEX, LISTED)
    answers: dict[str, Callable[[str], object]] = {
        "tier 2": tier_2,
        CLASSIC_SQL: same_sql(bare, classic_statements(catalog, queries)),
        "default search": default,
        DEFAULT_SQL: same_sql(bare, default_statements(catalog, queries)),
        FTS: any_word(bare),
        "catalog mode": by_mode(Mode.CATALOG, DEPTH),
        "full mode": by_mode(Mode.FULL, DEPTH),
        "tier 3, classic": tier_3,
    }
    if "numpy" in sys.modules:
        answers[PLAIN] = without_numpy(default)
    return {name: InProcess(answer, clock) for name, answer in answers.items()}


def without_numpy(answer: Callable[[str], object]) -> Callable[[str], object]:
    """Return *answer* as it is where NumPy is not installed."""

    def answered(query: str) -> object:
        hidden = sys.modules.pop("numpy")
        try:
            return answer(query)
        finally:
            sys.modules["numpy"] = hidden

    return answered


def forgetful(index: Path) -> Service:
    """Return a service, warm as a server's, that remembers one answer alone: each other request is worked out."""
    service = Service(Settings(index, "error", 1))
    service.warm_up()
    return service


def classic_request(query: str) -> MatchRequest:
    """Return the request that the classic tiers and the peers are asked."""
    return MatchRequest(query, max_results=DEPTH, ranker=Ranker.CLASSIC)


def classic_statements(catalog: Catalog, queries: Sequence[str]) -> dict[str, Statement | None]:
    """Return the statement of tier 2 for each query."""
    return {
        query: match_keywords(catalog.db, classic_request(query), extract_keywords(query)).statement
        for query in queries
    }


def default_statements(catalog: Catalog, queries: Sequence[str]) -> dict[str, Statement | None]:
    """Return the statement that the default ranker comes to its answer by, for each query."""
    requests = {query: MatchRequest(query, mode=Mode.INDEX, max_results=LISTED) for query in queries}
    return {query: find(catalog, request).statement for query, request in requests.items()}


def measure_tier_1(size: int, index: Path, queries: Sequence[str]) -> list[Figure]:
    """Return the milliseconds of precomputed and of remembered answers."""
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
    """Return the memory of the server once it has answered all *queries*, in MB; nothing where it cannot be told."""
    server = Server([sys.executable, "-m", "orchestr8_sqlite", "serve", "--db", str(index)])
    server.times([search(query) for query in queries])
    held = sum(map(resident, family(server.pid))) / MEGABYTE
    server.close()
    return [Figure("server memory", size, held, "MB", queries=len(queries))] if held else []
