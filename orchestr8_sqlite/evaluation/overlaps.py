"""Finds fragments that compete for the same requests: described nearly alike, or answering each other's scenarios."""

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.library.near_copies import FEWEST_WORDS, MERGE
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.model.records import Diagnostic
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking.holdout import HeldOut
from orchestr8_sqlite.ranking.lookup import JUDGED, find
from orchestr8_sqlite.ranking.weights import rarity_of
from orchestr8_sqlite.text.keywords import iterate_keywords, stem

LEAST_COSINE = 0.9
"""Least similarity of two names with descriptions, 0 to 1, to call them nearly the same."""

FRAGMENTS = """
SELECT f.path, f.name, f.description, s.root, s.path
  FROM fragment f JOIN source s ON s.id = f.source_id ORDER BY f.uri
"""
PATHS = "SELECT id, path FROM fragment"

Pair = tuple[str, str]
"""The ids of two fragments."""

Lost = Mapping[Pair, Sequence[str]]
"""A fragment and another one → the scenarios of the former that the latter answers first."""


class Overlap(NamedTuple):
    """Two fragments, the first by URI before the `later`; `cosine` is 0 unless they say nearly the same."""

    cosine: float
    first: str
    later: str

    def scenarios(self, lost: Lost) -> int:
        """Return how many scenarios either loses to the other."""
        return len(lost.get((self.first, self.later), ())) + len(lost.get((self.later, self.first), ()))


def find_overlaps(db: sqlite3.Connection, lost: Lost) -> Iterator[Diagnostic]:
    """Yield a warning for each two fragments that overlap.

    First come those whose names and descriptions are nearly the same, the most similar first, then those that answer
    scenarios of each other, the most scenarios first.
    """
    rows = db.execute(FRAGMENTS).fetchall()
    overlaps = {(one.first, one.later): one for one in find_alike(rows)}
    place = {path: number for number, (path, *_) in enumerate(rows)}
    for pair in lost:
        if pair[::-1] in lost and place[pair[0]] < place[pair[1]]:
            overlaps.setdefault(pair, Overlap(0.0, *pair))
    files = {path: file for path, _, _, *file in rows}
    ranked = sorted(overlaps.values(), key=lambda one: (-one.cosine, -one.scenarios(lost), one.first, one.later))
    for one in ranked:
        notes = Notes(*files[one.later])
        notes.warn("overlap", _message(one, lost), MERGE)
        yield notes.diagnostics[0]


def find_lost_scenarios(catalog: Catalog) -> Lost:
    """Return the scenarios that another fragment answers first while their own line is hidden, without refused ones."""
    paths = dict(catalog.db.execute(PATHS))
    lost: dict[Pair, list[str]] = defaultdict(list)
    with HeldOut.copy(catalog) as held_out:
        for scenario in held_out.scenarios():
            request = MatchRequest(" ".join(scenario.text.split()), max_results=JUDGED)
            with held_out.without(scenario, whole=True):
                answer = find(held_out.catalog, request, quick=False, lists=False, scenarios=False)
            first = answer.candidates[0].fragment_id if answer.confident and answer.candidates else scenario.fragment_id
            if first != scenario.fragment_id:
                lost[paths[scenario.fragment_id], paths[first]].append(scenario.text)
    return lost


def _message(one: Overlap, lost: Lost) -> str:
    said = [f"name and description are nearly those of {one.first} ({one.cosine:.0%})"] if one.cosine else []
    for here, there, what in ((one.later, one.first, "its"), (one.first, one.later, "the other's")):
        if texts := lost.get((here, there)):
            more = f" and {len(texts) - 1:,} more" if len(texts) > 1 else ""
            said.append(f"{what} {shown(texts[0])}{more} {'find' if more else 'finds'} {there}")
    return "; ".join(said)


def find_alike(fragments: Iterable[Sequence[str]]) -> Iterator[Overlap]:
    """Yield each two fragments whose names and descriptions are nearly the same.

    Args:
        fragments: For each its id, name and description (and more, which is not read), in the order of the URIs.
    """
    return _find_alike(
        [(path, f"{name.replace('-', ' ').replace('_', ' ')}\n{said}") for path, name, said, *_ in fragments]
    )


def _find_alike(texts: Sequence[tuple[str, str]]) -> Iterator[Overlap]:
    """Yield each two of the (id, text) whose words have at least LEAST_COSINE, weighed by rarity, each word once.

    Texts are compared only if they share one of the words without which the later could not reach that. A text with
    the words of an earlier one is paired with the first of these alone, one of fewer than FEWEST_WORDS with none.

    Source: R. Bayardo, Y. Ma, R. Srikant, "Scaling up all pairs similarity search" (2007).
    """
    stems = [frozenset(stem(word) for word in iterate_keywords(text)) for _, text in texts]
    counts = Counter(word for words in stems for word in words)
    holders: dict[str, list[int]] = defaultdict(list)
    first: dict[frozenset[str], int] = {}
    vectors: dict[int, dict[str, float]] = {}
    for place, words in enumerate(stems):
        if len(words) < FEWEST_WORDS:
            continue
        if first.setdefault(words, place) != place:
            yield Overlap(1.0, texts[first[words]][0], texts[place][0])
            continue
        weights = {word: rarity_of(len(texts), counts[word]) for word in sorted(words)}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
        vectors[place] = vector = {word: weight / length for word, weight in weights.items()}
        candidates, rest = set[int](), 1.0
        for word in sorted(vector, key=vector.__getitem__, reverse=True):
            if rest < LEAST_COSINE**2:  # the words from here on cannot make up for the others
                break
            candidates.update(holders[word])
            rest -= vector[word] ** 2
        for word in vector:
            holders[word].append(place)
        for other in sorted(candidates):
            cosine = math.fsum(weight * vectors[other].get(word, 0.0) for word, weight in vector.items())
            if cosine >= LEAST_COSINE:
                yield Overlap(min(cosine, 1.0), texts[other][0], texts[place][0])
