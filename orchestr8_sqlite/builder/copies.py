"""Finds fragments of an index that repeat another one: the same text or scenario, or nearly the same text."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from orchestr8_sqlite.library.near_copies import find_near_copies
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
Holder = tuple[str, str, str]
"""A fragment's id and its file's root and path."""

TextOf = tuple[str, str, str, str]
"""A text, then its holder: fragment id, root, path."""

MERGE = "merge them, or say in each what makes it differ"


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
