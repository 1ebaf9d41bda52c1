"""Compares two indexes: fragments, prompts and diagnostics, read side by side in name order."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orchestr8_sqlite.index.catalog import Catalog

FRAGMENTS = """
SELECT f.uri, f.token_estimate, f.title, f.description, f.version, f.metadata,
       (SELECT json_group_array(tag) FROM (SELECT tag FROM tag WHERE fragment_id = f.id ORDER BY ordinal)),
       (SELECT json_group_array(text) FROM (SELECT text FROM capability WHERE fragment_id = f.id ORDER BY ordinal)),
       (SELECT json_group_array(text) FROM (SELECT text FROM scenario WHERE fragment_id = f.id ORDER BY ordinal)),
       b.body,
       (SELECT json_group_array(path || ' ' || sha256)
          FROM (SELECT path, sha256 FROM skill_file WHERE fragment_id = f.id ORDER BY path))
  FROM fragment f JOIN fragment_body b ON b.fragment_id = f.id ORDER BY f.uri
"""
PROMPTS = """
SELECT p.name, p.token_estimate, p.title, p.description, p.version, p.metadata,
       (SELECT json_group_array(name || ' ' || required || ' ' || description)
          FROM (SELECT * FROM prompt_argument WHERE prompt_id = p.id ORDER BY ordinal)),
       p.body
  FROM prompt p ORDER BY p.name
"""
DIAGNOSTICS = """
SELECT severity || ' ' || code || ' ' || root || '/' || path || ': ' || message AS said, NULL, count(*)
  FROM diagnostic GROUP BY said ORDER BY said
"""
REVIEWS = """
SELECT rule || ' ' || root || '/' || path AS said, NULL, state, sha256, reason, reviewer, until
  FROM review ORDER BY said
"""
KINDS = {
    "fragment": (
        FRAGMENTS,
        *("title", "description", "version", "front matter", "tags", "capabilities", "scenarios", "text", "files"),
    ),
    "prompt": (PROMPTS, "title", "description", "version", "front matter", "arguments", "text"),
    "diagnostic": (DIAGNOSTICS, "times"),
    "review": (REVIEWS, "state", "file", "reason", "reviewer", "until"),
}
"""By kind, the statement and the names of its parts; its rows are name, tokens and the parts, in name order."""

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
Row = Sequence[object]


class Difference(NamedTuple):
    """An item that only one of two indexes has, or that differs between them.

    `name` is a fragment's URI, a prompt's name or a diagnostic's text. `parts` names the parts that differ. `tokens`
    are the estimates before and after, None if there is none.
    """

    change: str
    kind: str
    name: str
    parts: tuple[str, ...]
    tokens: tuple[int | None, int | None]


def differences(old: Catalog, new: Catalog) -> Iterator[Difference]:
    """Yield the differences between two indexes, by kind and name; line numbers are ignored.

    Raises:
        CatalogError: One of the indexes is damaged.
    """
    with old.reading(), new.reading():
        for kind, (sql, *parts) in KINDS.items():
            for before, after in _side_by_side(old.db.execute(sql), new.db.execute(sql)):
                if before is None or after is None:
                    change, differing = (ADDED if before is None else REMOVED), []
                else:
                    pairs = zip(parts, before[2:], after[2:], strict=True)
                    change, differing = CHANGED, [part for part, one, other in pairs if one != other]
                if change != CHANGED or differing:
                    name = str((before or after or ("",))[0])
                    yield Difference(change, kind, name, tuple(differing), (_tokens(before), _tokens(after)))


def _side_by_side(old: sqlite3.Cursor, new: sqlite3.Cursor) -> Iterator[tuple[Row | None, Row | None]]:
    """Yield pairs of rows with the same name, None for a missing one; both cursors must be in name order."""
    before, after = next(old, None), next(new, None)
    while before is not None or after is not None:
        if after is None or (before is not None and before[0] < after[0]):
            yield before, None
            before = next(old, None)
        elif before is None or after[0] < before[0]:
            yield None, after
            after = next(new, None)
        else:
            yield before, after
            before, after = next(old, None), next(new, None)


def _tokens(row: Row | None) -> int | None:
    return None if row is None or row[1] is None else int(str(row[1]))
