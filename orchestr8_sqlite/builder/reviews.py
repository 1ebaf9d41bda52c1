"""Reviews of diagnostics → rows of the index that say which of them count, and why the others do not."""

import sqlite3
from collections.abc import Collection, Iterable
from typing import NamedTuple

from orchestr8_sqlite.model.records import Review

INSERT = """
INSERT INTO review (root, path, rule, sha256, reason, reviewer, until, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
JUDGED = """
SELECT (SELECT sha256 FROM source WHERE root = :root AND path = :path),
       EXISTS (SELECT 1 FROM diagnostic WHERE root = :root AND path = :path AND code = :rule)
"""
KEPT = """
SELECT root, path FROM diagnostic WHERE code = 'kept'
 UNION
SELECT o.root, o.path
  FROM diagnostic k
  JOIN source h ON h.root = k.root AND h.path = k.path
  JOIN fragment f ON f.source_id = h.id
  JOIN skill_file b ON b.fragment_id = f.id
  JOIN source o ON o.id = b.source_id
 WHERE k.code = 'kept'
"""
"""Files whose row in `source` is that of an earlier version, while the diagnostics are those of the refused one."""

REVIEWS = "SELECT root, path, rule, sha256, reason, reviewer, until, state FROM review ORDER BY root, path, rule"
ACCEPTED = "SELECT (SELECT count(*) FROM diagnostic) - (SELECT count(*) FROM unreviewed)"


class Reviewed(NamedTuple):
    """How many diagnostics are accepted, and the entries that accept nothing, each with its state."""

    accepted: int
    void: tuple[tuple[Review, str], ...]


def write_reviews(db: sqlite3.Connection, reviews: Iterable[Review], day: str, unlooked: Collection[str] = ()) -> None:
    """Replace the reviews in the index, whose diagnostics must all be written, and say of each whether it counts.

    Args:
        day: The day on which they are judged, as YYYY-MM-DD.
        unlooked: Rules that this build does not apply.
    """
    db.execute("DELETE FROM review")
    kept = {*db.execute(KEPT)}
    for review in reviews:
        sha256, is_found = db.execute(JUDGED, review._asdict()).fetchone()
        if sha256 is None or not (is_found or review.rule in unlooked):
            state = "unused"
        elif sha256 != review.sha256 or (review.root, review.path) in kept:
            state = "changed"
        else:
            state = "accepted" if day <= review.until else "expired"
        db.execute(INSERT, (*review, state))


def reviewed(db: sqlite3.Connection) -> Reviewed:
    """Return what the reviews in the index accept, and which of them are void."""
    rows = [(Review(*row), state) for *row, state in db.execute(REVIEWS)]
    void = tuple((review, state) for review, state in rows if state != "accepted")
    return Reviewed(db.execute(ACCEPTED).fetchone()[0], void)
