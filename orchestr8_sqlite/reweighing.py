"""Keeps the evidence of an index in step while single fragments come and go.

A fragment that changes moves the mean length of fields, and with it a little of the weight of every fragment; one
that comes or goes moves the rarity of every term. What is written anew is only what rounding does not swallow.
Terms that are met for the first time are numbered behind all others.
"""

import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import (
    Evidence,
    Numbered,
    average_lengths,
    fragment_texts,
    hold,
    topic_rarity_of,
    weigh_fields,
    weigh_held,
)
from orchestr8_sqlite.keywords import count_stems
from orchestr8_sqlite.tiers.weights import BODY_SPREAD, NAME, TOPIC, rarity_of

COMMON = """
CREATE TEMP TABLE common (
    term_id INTEGER, fragment_id INTEGER, weight INTEGER, PRIMARY KEY (term_id, fragment_id)) WITHOUT ROWID
"""
"""The rows that body_evidence would hold of terms that too many fragments hold."""

SET_ASIDE = """
INSERT INTO temp.common
SELECT term_id, fragment_id, weight FROM temp.held
 WHERE NOT fields AND term_id IN (SELECT value FROM json_each(:terms)) ORDER BY 1, 2
"""
BECOME_COMMON = (
    "INSERT INTO temp.common SELECT * FROM body_evidence WHERE term_id = ?",
    "DELETE FROM body_evidence WHERE term_id = ?",
)
BECOME_RARER = (
    "INSERT INTO body_evidence SELECT * FROM temp.common WHERE term_id = ?",
    "DELETE FROM temp.common WHERE term_id = ?",
)
DELETE_HELD = (
    "DELETE FROM evidence WHERE term_id = ? AND fragment_id = ?",
    "DELETE FROM body_evidence WHERE term_id = ? AND fragment_id = ?",
    "DELETE FROM temp.common WHERE term_id = ? AND fragment_id = ?",
)
COUNTS = "UPDATE term SET fragment_count = ?, rarity = ?, topic_rarity = ? WHERE id = ?"


@dataclass(slots=True)
class _Change:
    """What one step touches: terms by number, and which fragments held the topical ones before."""

    stems: dict[int, str] = field(default_factory=dict)
    topics: dict[int, frozenset[int]] = field(default_factory=dict)


class Reweighing:
    """The evidence tables of one open index."""

    def __init__(self, connection: sqlite3.Connection, evidence: Evidence) -> None:
        self._db = connection
        self._held = evidence.held
        self._terms = evidence.terms
        self._counts = evidence.counts
        self._topics = evidence.topics
        self.averages = average_lengths(self._held.values())
        self._last = len(self._terms)
        self._common = self._spread()
        connection.execute(COMMON)
        connection.execute(SET_ASIDE, {"terms": str(sorted(self._common))})
        connection.execute("DROP TABLE temp.held")

    def replace(self, gone: Numbered, come: Numbered) -> None:
        """Take the fragments in *gone* out of the evidence and those in *come* into it."""
        size = len(self._held)
        change = _Change()
        for number, fragment in gone:
            self._remove(number, fragment, change)
        for number, fragment in come:
            self._held[number] = hold(fragment_texts(fragment))
        averages = average_lengths(self._held.values())
        if averages != self.averages:
            self.averages = averages
            self._reweigh({number for number, _ in come})
        bodies = [row for number, fragment in come for row in self._add(number, fragment, change)]
        self._write_terms(change, everything=len(self._held) != size)
        self._move_common()
        self._write_bodies(bodies)
        self._write_topics(change)
        self._write_names(change, everything=len(self._held) != size)

    def _remove(self, number: int, fragment: Fragment, change: _Change) -> None:
        held = self._held.pop(number)
        stems = held.fields.keys() | count_stems(fragment.body).keys()
        for one in stems:
            id_ = self._terms[one]
            change.stems[id_] = one
            self._counts[id_] -= 1
            if held.fields.get(one, 0) & TOPIC:
                change.topics.setdefault(id_, frozenset(self._topics[id_]))
                self._topics[id_].discard(number)
        pairs = sorted((self._terms[one], number) for one in stems)
        for statement in DELETE_HELD:
            self._db.executemany(statement, pairs)

    def _add(self, number: int, fragment: Fragment, change: _Change) -> list[tuple[int, int, int]]:
        """Write the evidence of the short texts, without the shares of names, and return the rows of the body."""
        short, body = [], []
        for one, fields, weight in weigh_held(self._held[number], count_stems(fragment.body), self.averages):
            if one not in self._terms:
                self._last += 1
                self._terms[one] = self._last
            id_ = self._terms[one]
            change.stems[id_] = one
            self._counts[id_] += 1
            if fields & TOPIC:
                change.topics.setdefault(id_, frozenset(self._topics.get(id_, ())))
                self._topics.setdefault(id_, set()).add(number)
            if fields:
                short.append((id_, number, fields, weight))
            else:
                body.append((id_, number, weight))
        self._db.executemany("INSERT INTO evidence VALUES (?, ?, ?, ?, 0)", short)
        return body

    def _reweigh(self, new: set[int]) -> None:
        """Write the weights that the mean lengths have moved, but those of the fragments in *new*."""
        moved = []
        for number, held in self._held.items():
            if number not in new:
                before = held.weights.copy()
                for one, _, weight in weigh_fields(held, self.averages):
                    if weight != before[one]:
                        moved.append((weight, self._terms[one], number))
        self._db.executemany("UPDATE evidence SET weight = ? WHERE term_id = ? AND fragment_id = ?", moved)

    def _write_terms(self, change: _Change, *, everything: bool) -> None:
        dead = [id_ for id_ in change.stems if not self._counts[id_]]
        self._db.executemany("DELETE FROM term WHERE id = ?", ((id_,) for id_ in dead))
        for id_ in dead:
            del self._counts[id_], self._terms[change.stems[id_]]
            self._topics.pop(id_, None)
        self._db.executemany(
            "INSERT OR IGNORE INTO term VALUES (?, ?, 0, 0, 0)",
            ((id_, one) for id_, one in change.stems.items() if id_ in self._counts),
        )
        size = len(self._held)
        touched: Iterable[int] = self._counts if everything else (self._counts.keys() & change.stems.keys())
        self._db.executemany(
            COUNTS,
            (
                (count, rarity_of(size, count), topic_rarity_of(size, len(self._topics.get(id_, ()))), id_)
                for id_ in touched
                for count in (self._counts[id_],)
            ),
        )

    def _spread(self) -> set[int]:
        """Return the terms that too many fragments hold to be looked for in bodies."""
        bound = BODY_SPREAD * len(self._held)
        return {id_ for id_, count in self._counts.items() if count > bound}

    def _move_common(self) -> None:
        before, self._common = self._common, self._spread()
        for moved, statements in (
            (self._common - before, BECOME_COMMON),
            (before - self._common, BECOME_RARER),
        ):
            for id_ in sorted(moved):
                for statement in statements:
                    self._db.execute(statement, (id_,))

    def _write_bodies(self, rows: Sequence[tuple[int, int, int]]) -> None:
        common = [row for row in rows if row[0] in self._common]
        self._db.executemany("INSERT INTO temp.common VALUES (?, ?, ?)", common)
        rarer = [row for row in rows if row[0] not in self._common]
        self._db.executemany("INSERT INTO body_evidence VALUES (?, ?, ?)", rarer)

    def _write_topics(self, change: _Change) -> None:
        """Write who holds the topical terms that were touched; one that a single fragment holds teaches nothing."""
        for id_, before in change.topics.items():
            old = before if len(before) > 1 else frozenset()
            now = self._topics.get(id_, set())
            new = now if len(now) > 1 else set[int]()
            self._db.executemany(
                "DELETE FROM topic WHERE fragment_id = ? AND term_id = ?", ((number, id_) for number in old - new)
            )
            self._db.executemany("INSERT INTO topic VALUES (?, ?)", ((number, id_) for number in new - old))

    def _write_names(self, change: _Change, *, everything: bool) -> None:
        """Write what share of its name each of its terms is, for the names with a term whose rarity has moved."""
        size = len(self._held)
        rows = []
        for number, held in self._held.items():
            name = [self._terms[one] for one, _ in takewhile(lambda item: item[1] & NAME, held.fields.items())]
            if everything or not change.stems.keys().isdisjoint(name):
                rarities = [rarity_of(size, self._counts[id_]) for id_ in name]
                total = 0.0
                for rarity in rarities:
                    total += rarity
                shares = (math.floor(1000 * rarity / total + 0.5) for rarity in rarities)
                rows += [(share, id_, number) for share, id_ in zip(shares, name, strict=True)]
        self._db.executemany("UPDATE evidence SET name_share = ? WHERE term_id = ? AND fragment_id = ?", rows)
