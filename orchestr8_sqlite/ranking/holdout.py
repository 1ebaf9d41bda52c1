"""Asks an index its own scenarios, each while its line is hidden, and foreign requests that it cannot answer.

Hiding a line removes it from all texts of its fragment and rewrites the fragment's rows as a build would, in a
transaction that is rolled back. How many fragments hold a word is not counted again.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.processes import map_in_processes
from orchestr8_sqlite.ranking.evidence import (
    BODY,
    EvidenceWriter,
    Texts,
    erase_evidence,
    erase_full_text,
    hold,
    keyword_ids,
    read_texts,
    read_typical_lengths,
    write_full_text,
)
from orchestr8_sqlite.ranking.lookup import cover
from orchestr8_sqlite.ranking.weights import COVERS, FACTORS
from orchestr8_sqlite.text.wordlists import foreign_requests

SAMPLE = 200
"""Fewest scenarios that calibration asks, spread evenly. Of 100, the bound was .34 to .43, by which they were."""

ANSWERED = 0.02
"""Largest share of the foreign requests that may be answered. Scenarios share more words with their fragments than
users' requests do: a threshold that they help to choose is too strict (docs/ranking.md)."""

REFUSED = 0.05
"""Largest share of the held-out scenarios that may be refused, even if that lets more foreign requests pass: fragments
of one sentence cover so little of long requests that these look foreign, and a library may be of a listed field."""

STEP = 0.001
"""What coverages are rounded to."""

FEWEST, MOST = 0.1, round(FACTORS["typo"] * COVERS["typo"], 3)
"""Bounds of the threshold, whatever is measured: a single word that is misspelt, and repaired, is always answered."""

SCENARIOS = """
SELECT s.fragment_id, s.text FROM scenario s CROSS JOIN fragment f ON f.id = s.fragment_id ORDER BY f.uri, s.ordinal
"""
"""In URI order: the numbers of fragments depend on the order in which files were read."""

NO_SPILL = "PRAGMA cache_spill = FALSE"
PARTS = 3
"""Number of tasks that the foreign requests are divided into, for other processes."""

BODY_SEARCHED = "SELECT body, also FROM fragment_body WHERE fragment_id = ?"
"""The full-text columns in which words are searched; the others may keep the hidden line."""

SET_BODY = "UPDATE fragment_body SET body = ?, also = ? WHERE fragment_id = ?"
HIDE_SCENARIO = "UPDATE scenario SET text = '' WHERE fragment_id = ? AND text = ?"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of a library and the fragment that it belongs to."""

    fragment_id: int
    text: str


class HeldOut:
    """The scenarios of an index, and the index as it would be without one of them.

    Use::

        with HeldOut.copy(catalog) as held_out:
            for scenario in held_out.scenarios():
                with held_out.without(scenario):
                    find(held_out.catalog, MatchRequest(scenario.text))

    Args:
        catalog: An index that may be written to; all changes are rolled back.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._typical = read_typical_lengths(catalog.meta)
        self._ids = keyword_ids(catalog.db)

    @classmethod
    @contextmanager
    def copy(cls, catalog: Catalog) -> "Iterator[HeldOut]":
        """Yield the scenarios of an in-memory copy of *catalog*, which itself does not change."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            catalog.db.backup(db)
            yield cls(Catalog(db, Path(), identity=(0, 0, 0)))

    def scenarios(self) -> list[Scenario]:
        """Return all scenarios, in the order of the URIs."""
        return [Scenario(*row) for row in self.catalog.db.execute(SCENARIOS)]

    def sample(self) -> list[Scenario]:
        """Return SAMPLE to twice as many scenarios, spread evenly over the library; all if there are fewer."""
        scenarios = self.scenarios()
        return scenarios[:: max(1, len(scenarios) // SAMPLE)]

    @contextmanager
    def without(self, scenario: Scenario, *, whole: bool = False) -> Iterator[None]:
        """Make the index, within the context, what it would be if its author had not written *scenario*.

        Args:
            whole: Hide it from the full text of scenarios too, which `find` reads and `cover` does not.
        """
        db, number = self.catalog.db, scenario.fragment_id
        texts = _without(read_texts(db, number), scenario.text)
        held = hold(texts)
        db.execute("BEGIN")
        try:
            erase_evidence(db, [number])
            writer = EvidenceWriter(db, self._ids)
            writer.add([(number, held)])
            writer.close(self._typical)
            if whole or db.execute(BODY_SEARCHED, (number,)).fetchone() != (texts[BODY], held.also):
                erase_full_text(db, [number])
                db.execute(SET_BODY, (texts[BODY], held.also, number))
                db.execute(HIDE_SCENARIO, (number, scenario.text))
                write_full_text(db, [number])
            yield
        finally:
            db.execute("ROLLBACK")


def measure_least_coverage(catalog: Catalog, path: Path | None = None) -> float:
    """Return the share of a request that an answer must cover to stand, measured on the index itself.

    It is the least that answers no more than ANSWERED of the foreign requests, unless it refused more than REFUSED of
    the held-out scenarios. Where foreign requests reach next to nothing, it is half of what that bound allows.

    Args:
        catalog: An index that may be written to; all changes are rolled back.
        path: The file of a large index: other processes read it and ask the foreign requests.
    """
    foreign: list[float] = []
    own: list[float] = []
    held_out = HeldOut(catalog)

    def ask_own() -> None:
        for scenario in held_out.sample():
            with held_out.without(scenario):
                own.append(_coverage(catalog, scenario.text))

    if path is None:
        ask_own()
        foreign += _foreign_coverages(catalog, foreign_requests())
    else:
        catalog.db.execute(NO_SPILL)  # other processes read the file meanwhile
        parts = [(path, first) for first in range(PARTS)]
        for part in map_in_processes(_ask_foreign, parts, ask_own):
            foreign += part
    enough = sorted(foreign, reverse=True)[int(ANSWERED * len(foreign))] + STEP
    bearable = sorted(own)[int(REFUSED * len(own))] if own else MOST
    return round(min(max(min(max(enough, bearable / 2), bearable), FEWEST), MOST), 3)


def _ask_foreign(part: tuple[Path, int]) -> list[float]:
    """Return how much the index at a path covers of every PARTS-th foreign request, starting at a given one."""
    path, first = part
    with Catalog.open(path, is_finished=False) as catalog:
        return _foreign_coverages(catalog, foreign_requests()[first::PARTS])


def _foreign_coverages(catalog: Catalog, requests: Sequence[str]) -> list[float]:
    return [_coverage(catalog, text) for text in requests]


def _coverage(catalog: Catalog, text: str) -> float:
    return cover(catalog, MatchRequest(" ".join(text.split())))


def _without(texts: Mapping[int, str], line: str) -> Texts:
    """Return *texts* without *line*, in any letter case and line wrapping, but only between word boundaries."""
    words = r"\s+".join(re.escape(word) for word in line.split())
    pattern = re.compile(rf"(?<![A-Za-z0-9]){words}(?![A-Za-z0-9])", re.IGNORECASE)
    return {field: pattern.sub(" ", text) for field, text in texts.items()}
