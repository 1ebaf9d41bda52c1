"""Settles what depends on the library as a whole: references, skill paths, shared ids, copies, requests, pins."""

import sqlite3
from collections.abc import Iterable, Sequence

from orchestr8_sqlite.builder.copies import SAME_SCENARIO, SAME_TEXT, find_copies, write_near_copies
from orchestr8_sqlite.builder.writer import write_diagnostics, write_queries
from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.agent_skills import Offered, settle_skill_paths
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.queries import listed_queries
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.verdicts import SHARED_ID, Author, note_shared_id
from orchestr8_sqlite.text.wording import nearest

NUMBER = "SELECT id FROM fragment WHERE path = ?"
ID_OF_FILE = """
SELECT f.path FROM source s JOIN fragment f ON f.source_id = s.id WHERE s.root = ? AND s.path = ?
"""
OFFERED_SKILLS = """
SELECT k.path, s.root, s.path, k.fragment_id
  FROM (SELECT fragment_id, path FROM skill UNION ALL SELECT fragment_id, path FROM temp.offered) k
  JOIN fragment f ON f.id = k.fragment_id JOIN source s ON s.id = f.source_id
"""
DANGLING = "dangling-reference"
RESOLVE = (
    """
    UPDATE reference SET target_id = m.target_id, dangles = m.dangles
      FROM (SELECT r.fragment_id, r.ordinal, coalesce(linked.id, near.id, meant.id, named.id) AS target_id,
                   r.kind <> 'code' AND coalesce(file.id, near.id, meant.id, named.id) IS NULL AS dangles
              FROM reference r
             CROSS JOIN fragment f ON f.id = r.fragment_id
             CROSS JOIN source s ON s.id = f.source_id
              LEFT JOIN source file ON r.kind = 'link' AND file.root = s.root AND file.path = r.target || '.md'
              LEFT JOIN fragment linked ON linked.source_id = file.id
              LEFT JOIN root o ON o.name = s.root
              LEFT JOIN fragment near ON r.kind <> 'link' AND o.namespace <> '' AND near.path =
                   substr(r.target, 1, instr(r.target, '/')) || o.namespace || substr(r.target, instr(r.target, '/'))
              LEFT JOIN fragment meant ON r.kind <> 'link' AND meant.path = r.target
              LEFT JOIN fragment named ON named.id = CASE WHEN r.kind <> 'link' AND meant.id IS NULL THEN (
                   SELECT iif(count(*) = 1, max(id), NULL)
                     FROM (SELECT id FROM fragment WHERE name = r.target LIMIT 2)) END) m
     WHERE reference.fragment_id = m.fragment_id AND reference.ordinal = m.ordinal
       AND (reference.target_id IS NOT m.target_id OR reference.dangles <> m.dangles)
    """,
    """
    INSERT INTO diagnostic (severity, code, root, path, line, message, fix)
    SELECT 'warning', :dangling, s.root, s.path, min(r.line),
           'points to ' || r.target || ', which the library does not have', 'correct the reference or remove it'
      FROM reference r
      JOIN fragment f ON f.id = r.fragment_id
      JOIN source s ON s.id = f.source_id
     WHERE r.dangles
     GROUP BY r.fragment_id, r.target
     ORDER BY r.fragment_id, min(r.line)
    """,
)
"""Resolve all references: a link to the file at that path, any other to the fragment with that id, first in the
namespace of its source, else to the only one with that name. Then report each dangling target once per fragment."""

INSERT_SKILLS = """
INSERT INTO skill (fragment_id, path, frontmatter) SELECT fragment_id, path, frontmatter FROM temp.offered
"""
SHARED = "SELECT author_id FROM fragment WHERE author_id IS NOT NULL GROUP BY author_id HAVING count(*) > 1 ORDER BY 1"
AUTHORS = """
SELECT f.path, s.root, s.path, f.author_id_line
  FROM fragment f JOIN source s ON s.id = f.source_id WHERE f.author_id = ?
"""
NOT_OFFERED = "pinned"
"""Kind of diagnostic for a pinned skill that is not on offer."""

SKILL_PATHS = "SELECT path FROM skill ORDER BY path"
INSERT_ROOT = """
INSERT INTO root (name, ordinal, owner, namespace, location, version, content) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
FORGET = (
    "DELETE FROM root",
    "DELETE FROM diagnostic WHERE path IN ('', :queries) OR code IN (:dangling, :shared, :text, :scenario)",
    "DELETE FROM library_answer WHERE query_id IN (SELECT id FROM library_query WHERE origin = :queries)",
    "DELETE FROM library_query WHERE origin = :queries",
)
"""Delete what `settle_library` wrote for the previous version of the library."""

FORGOTTEN = {
    "queries": QUERIES,
    "dangling": DANGLING,
    "shared": SHARED_ID,
    "text": SAME_TEXT,
    "scenario": SAME_SCENARIO,
}


class RowDocuments:
    """Looks up the fragments of an index by id or by file; an id may lack the *namespace* of its source."""

    def __init__(self, db: sqlite3.Connection, namespace: str) -> None:
        self._db = db
        self._namespace = namespace

    def whole_id(self, written: str) -> str | None:
        """Return the id of the fragment that an id names, or None if there is none."""
        top, _, rest = written.partition("/")
        whole = f"{top}/{self._namespace}/{rest}"
        return next((id_ for id_ in (whole, written) if self._first(NUMBER, id_) is not None), None)

    def id_of_file(self, root: str, path: str) -> str | None:
        """Return the id of the fragment in that file."""
        return self._first(ID_OF_FILE, root, path)

    def _first(self, sql: str, *values: str) -> str | None:
        row = self._db.execute(sql, values).fetchone()
        return None if row is None else str(row[0])


def settle_library(db: sqlite3.Connection, roots: Sequence[Root], pinned: Sequence[str] = ()) -> None:
    """Write what depends on the library in *roots* as a whole, in place of what its previous version wrote.

    The rows of all files must be written before.

    Args:
        pinned: Paths of the skills that listings begin with.
    """
    for statement in FORGET:
        db.execute(statement, FORGOTTEN)
    db.executemany(INSERT_ROOT, map(_root_row, range(len(roots)), roots))
    for root in roots:
        write_diagnostics(db, root.diagnostics)
    order = {root.label: number for number, root in enumerate(roots)}
    _settle_skills(db, order)
    _note_pinned(db, roots, pinned)
    for statement in RESOLVE:
        db.execute(statement, {"dangling": DANGLING})
    _note_shared_ids(db, order)
    write_diagnostics(db, find_copies(db, order))
    write_near_copies(db)
    _write_listed_queries(db, roots)


def _root_row(ordinal: int, root: Root) -> tuple[object, ...]:
    of = root.origin
    said = (of.owner, of.namespace, of.location, of.version, of.content) if of else ("", "", "", "", "")
    return root.label, ordinal, *said


def _settle_skills(db: sqlite3.Connection, order: dict[str, int]) -> None:
    """Write the skills on offer, except those whose path another skill already has."""
    if not db.execute("SELECT 1 FROM temp.offered LIMIT 1").fetchone():
        return
    numbers: dict[tuple[str, str], int] = {}
    offered = []
    for path, root, file, number in db.execute(OFFERED_SKILLS):
        numbers[root, file] = number
        offered.append(Offered(path, order[root], root, file))
    for skill, notes in settle_skill_paths(offered):
        for table in ("skill", "temp.offered"):
            db.execute(f"DELETE FROM {table} WHERE fragment_id = ?", (numbers[skill.root, skill.file],))  # noqa: S608
        write_diagnostics(db, notes.diagnostics)
    db.execute(INSERT_SKILLS)
    db.execute("DELETE FROM temp.offered")


def _note_pinned(db: sqlite3.Connection, roots: Sequence[Root], pinned: Sequence[str]) -> None:
    """Write a warning about the library as a whole for each pinned skill that is not on offer."""
    if not pinned:
        return
    offered = [path for (path,) in db.execute(SKILL_PATHS)]
    notes = Notes(roots[0].label, "")
    for path in sorted({*pinned}.difference(offered)):
        alike = nearest(path, offered)
        fix = f"did you mean {alike[0]}?" if alike else "name its path in skill:// URIs, without SKILL.md"
        notes.warn(NOT_OFFERED, f"orchestr8.toml pins {path!r}, and no skill at that path is on offer", fix)
    write_diagnostics(db, notes.diagnostics)


def _note_shared_ids(db: sqlite3.Connection, order: dict[str, int]) -> None:
    """Write a warning for each id that several fragments give in their front matter."""
    for (text,) in db.execute(SHARED).fetchall():
        authors = [Author(*row) for row in db.execute(AUTHORS, (text,))]
        authors.sort(key=lambda author: (order[author.root], author.path.split("/")))
        write_diagnostics(db, note_shared_id(text, authors))


def _write_listed_queries(db: sqlite3.Connection, roots: Iterable[Root]) -> None:
    """Write the requests that the roots list."""
    for root in roots:
        notes, documents = Notes(root.label, QUERIES), RowDocuments(db, root.namespace)
        try:
            content = root.side_file(QUERIES)
        except LibraryError as problem:
            notes.warn("queries-form", str(problem).removeprefix(f"{root.label}/{QUERIES} "), "mend it, or remove it")
            content = None
        if content is not None:
            write_queries(db, listed_queries(content, documents, notes))
        write_diagnostics(db, notes.diagnostics)
