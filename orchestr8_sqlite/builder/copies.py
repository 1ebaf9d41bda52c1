"""Finds fragments of an index that repeat another one: the same text or scenario, or nearly the same text."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from orchestr8_sqlite.library.near_copies import (
    FEWEST_WORDS,
    LEAST_ALIKE,
    MERGE,
    Beginnings,
    Run,
    find_near_copies,
    likeness,
    sketch,
)
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.model.records import Diagnostic

SAME_TEXT, SAME_SCENARIO = "same-text", "same-scenario"
SIMILAR = "similar-text"

SLOW = frozenset({SIMILAR})
"""Rules that only `lint` applies."""

ALIKE = """
SELECT b.body, f.path, s.root, s.path
  FROM fragment f JOIN source s ON s.id = f.source_id JOIN fragment_body b ON b.fragment_id = f.id
 WHERE f.token_estimate >= :fewest AND (f.size, f.token_estimate) IN
       (SELECT size, token_estimate FROM fragment GROUP BY size, token_estimate HAVING count(*) > 1)
"""
"""Fragments that may have the same text as another one: the same size and token estimate."""

FEWEST_TOKENS = 20
"""Shorter texts may be equal by chance."""

SHARED_SCENARIOS = """
SELECT c.text, f.path, s.root, s.path
  FROM (SELECT text FROM scenario GROUP BY text HAVING count(DISTINCT fragment_id) > 1) t
  JOIN scenario c ON c.text = t.text JOIN fragment f ON f.id = c.fragment_id JOIN source s ON s.id = f.source_id
"""
TEXTS = """
SELECT f.path, s.root, s.path, b.body
  FROM fragment f JOIN source s ON s.id = f.source_id JOIN fragment_body b ON b.fragment_id = f.id ORDER BY f.id
"""
REPEATED = """
SELECT id, name, description, size FROM fragment
 WHERE name IN (SELECT name FROM fragment GROUP BY name HAVING count(*) > 1)
    OR description IN (
       SELECT description FROM fragment WHERE description <> '' GROUP BY description HAVING count(*) > 1)
 ORDER BY uri
"""
"""Fragments that have their name or description in common with others."""

BODY = "SELECT body FROM fragment_body WHERE fragment_id = ?"
WORD = re.compile(r"\w+")

FEWEST_BYTES = 80
"""Size of the shortest text to compare."""

MOST_SHARING = 20
"""Most fragments that share a name or a description of their own; more share boilerplate, such as `README`."""

Holder = tuple[str, str, str]
"""A fragment's id and its file's root and path."""

TextOf = tuple[str, str, str, str]
"""A text, then its holder: fragment id, root, path."""


def find_copies(db: sqlite3.Connection, order: Mapping[str, int]) -> Iterator[Diagnostic]:
    """Yield a warning for each fragment that repeats the text or a scenario of an earlier one.

    Args:
        order: The position of each root in reading order.
    """
    twins: set[tuple[str, str]] = set()
    for (_, *holder), (_, first, *_) in _pairs(db, ALIKE, order):
        twins.add((holder[0], first))
        yield _warning(holder, SAME_TEXT, f"has the text of {first}")
    shared: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for (text, *holder), (_, first, *_) in _pairs(db, SHARED_SCENARIOS, order):
        if (holder[0], first) not in twins:
            shared[tuple(holder), first].append(text)
    for (fragment, other), texts in shared.items():
        more = f" and {len(texts) - 1:,} more" if len(texts) > 1 else ""
        said = "are scenarios" if more else "is a scenario"
        yield _warning(fragment, SAME_SCENARIO, f"{shown(texts[0])}{more} {said} of {other} too")


def find_similar(db: sqlite3.Connection) -> Iterator[Diagnostic]:
    """Yield a warning for each fragment whose text is nearly that of an earlier one; this reads all texts."""
    holders: list[Holder] = []
    bodies: list[int] = []

    def texts() -> Iterator[str]:
        for path, root, file, body in db.execute(TEXTS):
            holders.append((path, root, file))
            bodies.append(hash(body))
            yield body

    for place, other, alike in find_near_copies(texts()):
        if bodies[place] != bodies[other]:
            yield _warning(holders[place], SIMILAR, f"about {alike:.0%} of its text is in {holders[other][0]}")


def _pairs(db: sqlite3.Connection, sql: str, order: Mapping[str, int]) -> Iterator[tuple[TextOf, TextOf]]:
    """Yield each row that repeats an earlier text, in reading order, with the first row of that text."""
    found = db.execute(sql, {"fewest": FEWEST_TOKENS})
    rows = sorted(found, key=lambda row: (order.get(row[2], 0), row[3].split("/")))
    first: dict[str, TextOf] = {}
    for row in rows:
        earlier = first.setdefault(row[0], row)
        if earlier[1] != row[1]:
            yield row, earlier


def _warning(holder: Sequence[str], code: str, what: str) -> Diagnostic:
    notes = Notes(holder[1], holder[2])
    notes.warn(code, what, MERGE)
    return notes.diagnostics[0]


class _Repeated(NamedTuple):
    """A fragment that has its name or its description in common with others."""

    id: int
    name: str
    words: frozenset[str]
    size: int


class _Bodies(dict[int, tuple[str, frozenset[Run]]]):
    """Fragment → its body and a sketch of it, read when asked for."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__()
        self._db = db
        self._begins = Beginnings()

    def __missing__(self, fragment: int) -> tuple[str, frozenset[Run]]:
        (body,) = self._db.execute(BODY, (fragment,)).fetchone()
        self[fragment] = read = (body, sketch(body, self._begins))
        return read


def write_near_copies(db: sqlite3.Connection) -> None:
    """Write the groups of fragments that agree in two of three: name, description, text.

    Names agree if they are equal, descriptions and texts if LEAST_ALIKE of them is the same. The groups depend only on
    the texts: neither on the order in which files were read nor on earlier groups.
    """
    ordered: dict[int, int] = {}
    sharing: dict[tuple[str, str], list[_Repeated]] = defaultdict(list)
    for number, (id_, name, description, size) in enumerate(db.execute(REPEATED)):
        ordered[id_] = number
        one = _Repeated(id_, name, frozenset(WORD.findall(description.casefold())), size)
        sharing["name", name].append(one)
        sharing["description", description].append(one)
    bodies, groups = _Bodies(db), dict[int, frozenset[int]]()
    for ones in sharing.values():
        for one, other in combinations(ones if len(ones) <= MOST_SHARING else (), 2):
            if other.id not in groups.get(one.id, ()) and _are_near_copies(one, other, bodies):
                united = frozenset((one.id, other.id)).union(groups.get(one.id, ()), groups.get(other.id, ()))
                groups |= dict.fromkeys(united, united)
    db.execute("DELETE FROM near_copy")
    rows = ((id_, min(united, key=ordered.__getitem__)) for id_, united in groups.items())
    db.executemany("INSERT INTO near_copy (fragment_id, first_id) VALUES (?, ?)", rows)


def _are_near_copies(one: _Repeated, other: _Repeated, bodies: _Bodies) -> bool:
    have_words = min(len(one.words), len(other.words)) >= FEWEST_WORDS
    agreeing = (one.name == other.name) + (have_words and likeness(one.words, other.words) >= LEAST_ALIKE)
    if agreeing != 1:
        return agreeing == 2
    if min(one.size, other.size) < max(FEWEST_BYTES, LEAST_ALIKE * max(one.size, other.size)):
        return False
    (body, own), (another, others) = bodies[one.id], bodies[other.id]
    return body == another or likeness(own, others) >= LEAST_ALIKE
