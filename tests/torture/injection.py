"""Nasty libraries and nasty queries: an answer is given, in bounded time, and holds what was found and nothing else."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from answers import CATALOG_LINE, DOCUMENT_HEAD, HEAD, INDEX_LINE, read_list, read_texts
from beginnings import begin_empty
from nasty import nasty_fragments, nasty_query
from support import write_fragments

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import LookupResult, Mode, Ranker
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.tokens import estimate_tokens
from torture import Case, Wrong

LIBRARIES, BOUNDED_LIBRARIES = 300, 15
FRAGMENTS, QUERIES = 8, 40
BEGINNINGS = ("#", "1.", "[left out: ")
"""Of answers that list anything; others are a few lines that say why not."""

SLOWEST = 5.0
"""Seconds that one answer may take."""


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield libraries that are asked many things each."""
    for number in range(BOUNDED_LIBRARIES if bounded else LIBRARIES):
        choice = random.Random(f"{seed}/{number}")
        yield Case("nasty queries of a nasty library", f"library {number}", _over_library(choice, ask_anything))
        yield Case("nasty texts loaded together", f"library {number}", _over_library(choice, load_anything))


def _over_library(choice: random.Random, check: Callable[[Service, random.Random], None]) -> Callable[[Path], None]:
    """Return what runs *check* on a service over a nasty library."""
    seed = choice.random()

    def run(folder: Path) -> None:
        drawn = random.Random(seed)
        path = folder / "index.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
            begin_empty(db)
            write_fragments(db, nasty_fragments(drawn, FRAGMENTS), {})
        add_checksum(path)
        with closing(Service(Settings(path, "info", 10))) as service:
            check(service, drawn)

    return run


def ask_anything(service: Service, choice: random.Random) -> None:
    """Ask nasty queries with any parameters; each is answered with what was found, or refused in a sentence."""
    for _ in range(QUERIES):
        raw: dict[str, object] = {
            "query": f"{choice.choice(['', 'retry '])}{nasty_query(choice)}",
            "mode": choice.choice([mode.value for mode in Mode]),
            "ranker": choice.choice([ranker.value for ranker in Ranker]),
            "maxTokens": choice.choice([1, 50, 300, 3000, 200_000]),
            "minScore": choice.choice([0, 10]),
            "explain": choice.random() < 0.3,
        }
        if choice.random() < 0.2:
            raw["tags"] = [nasty_query(choice)]
        began = time.monotonic()
        try:
            answer = service.search(make_request(raw))
        except RequestError:
            continue
        if time.monotonic() - began > SLOWEST:
            raise Wrong(f"{raw} took {time.monotonic() - began:.1f} s")
        check_answer(answer, raw)


def check_answer(answer: Answer, raw: dict[str, object]) -> None:
    """Raise Wrong where *answer* does not read back as what was found."""
    result = answer.result
    assert result is not None
    if estimate_tokens(answer.text) > result.request.max_tokens:
        raise Wrong(f"{raw} costs more than its budget")
    if not result.confident or not result.candidates or not answer.text.startswith(BEGINNINGS):
        if len(answer.text.splitlines()) > 1 + 20:
            raise Wrong(f"{raw}: {answer.text!r}")
        return
    try:
        read = read_back(answer.text, result)
    except (AssertionError, StopIteration) as problem:
        raise Wrong(f"{raw}: {problem}") from None
    found = [candidate.uri for candidate in result.candidates]
    if result.request.mode is Mode.FULL:
        listed = set(read) <= set(found) and len(set(read)) == len(read)
    else:
        listed = read == found[: len(read)]
    if not listed:
        raise Wrong(f"{raw} lists {read} instead of {found}")


def read_back(text: str, result: LookupResult) -> list[str]:
    """Return the URIs that an answer lists, by its text alone."""
    if result.request.mode is Mode.FULL:
        return [one.uri for one in read_texts(text, HEAD)]
    return read_list(text, INDEX_LINE if result.request.mode is Mode.INDEX else CATALOG_LINE)


def load_anything(service: Service, choice: random.Random) -> None:
    """Load several fragments at once, with any budget; read back they are those that were asked for."""
    with service.snapshots.snapshot():
        uris = [fragment.uri for fragment in service.catalog.fragments()]
    for _ in range(QUERIES // 4):
        wanted = choice.sample(uris, choice.randint(2, len(uris)))
        budget = choice.choice([None, 1000, 20_000])
        answer = service.load(wanted, max_tokens=budget, related=choice.random() < 0.5)
        if budget is not None and estimate_tokens(answer.text) > budget:
            raise Wrong(f"{wanted} cost more than {budget}")
        read = [one.uri for one in read_texts(answer.text, DOCUMENT_HEAD)]
        if read != wanted[: len(read)] or (budget is None and len(read) < len(wanted)):
            raise Wrong(f"{wanted} with {budget} gave {read}")
