"""What only a library as a whole tells, from the rows of its index: references, skill paths, shared ids, requests."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from orchestr8_sqlite.builder.writer import write_diagnostics, write_queries
from orchestr8_sqlite.library.agent_skills import Offered, settle_skill_paths
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.queries import FILE_NAME as QUERIES
from orchestr8_sqlite.library.queries import listed_queries
from orchestr8_sqlite.library.references import DANGLING, Aim, keep_references
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.verdicts import SHARED_ID, Author, note_shared_id
from orchestr8_sqlite.model.records import Diagnostic, Reference

NUMBER = "SELECT id FROM fragment WHERE path = ?"
ID_OF_FILE = """
SELECT f.path FROM source s JOIN fragment f ON f.source_id = s.id WHERE s.root = ? AND s.path = ?
"""
OFFERED_SKILLS = """
SELECT k.path, s.root, s.path, k.fragment_id
  FROM (SELECT fragment_id, path FROM skill UNION ALL SELECT fragment_id, path FROM temp.offered) k
  JOIN fragment f ON f.id = k.fragment_id JOIN source s ON s.id = f.source_id
"""
ALL_POINTERS = """
SELECT p.fragment_id, f.path, s.root, s.path, p.target, p.kind, p.line,
       coalesce(linked.id, meant.id, named.id), coalesce(linked.path, meant.path, named.path),
       p.kind = 'code' OR file.id IS NOT NULL
  FROM pointer p
 CROSS JOIN fragment f ON f.id = p.fragment_id
 CROSS JOIN source s ON s.id = f.source_id
  LEFT JOIN source file ON p.kind = 'link' AND file.root = s.root AND file.path = p.target
  LEFT JOIN fragment linked ON linked.source_id = file.id
  LEFT JOIN fragment meant ON p.kind <> 'link' AND meant.path = p.target
  LEFT JOIN fragment named ON named.id = CASE WHEN p.kind <> 'link' AND meant.id IS NULL THEN (
       SELECT iif(count(*) = 1, max(id), NULL) FROM (SELECT id FROM fragment WHERE name = p.target LIMIT 2)) END
 ORDER BY p.fragment_id, p.ordinal
"""
"""What a fragment points to, with the number and the id of what that means in the library and whether it may mean
nothing: a link the file of that path, others the fragment of that id, else the only one of that name."""

INSERT_SKILLS = """
INSERT INTO skill (fragment_id, path, frontmatter) SELECT fragment_id, path, frontmatter FROM temp.offered
"""
INSERT_REFERENCE = """
INSERT INTO reference (fragment_id, ordinal, target, target_id, kind, line) VALUES (?, ?, ?, ?, ?, ?)
"""
SHARED = "SELECT author_id FROM fragment WHERE author_id IS NOT NULL GROUP BY author_id HAVING count(*) > 1 ORDER BY 1"
AUTHORS = """
SELECT f.path, s.root, s.path, f.author_id_line
  FROM fragment f JOIN source s ON s.id = f.source_id WHERE f.author_id = ?
"""
FORGET = (
    "DELETE FROM diagnostic WHERE path IN ('', :queries) OR code IN (:dangling, :shared)",
    "DELETE FROM reference",
    "DELETE FROM library_answer WHERE query_id IN (SELECT id FROM library_query WHERE origin = :queries)",
    "DELETE FROM library_query WHERE origin = :queries",
)
"""What an earlier version of the library said as a whole."""


class RowDocuments:
    """The fragments and files of an index, for whoever looks for something by a name."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def has_id(self, fragment_id: str) -> bool:
        """Tell whether there is a fragment of that id."""
        return self.number(fragment_id) is not None

    def number(self, fragment_id: str) -> int | None:
        """Return the number of the fragment of that id."""
        row = self._db.execute(NUMBER, (fragment_id,)).fetchone()
        return None if row is None else row[0]

    def id_of_file(self, root: str, path: str) -> str | None:
        """Return the id of the fragment in that file."""
        return self._first(ID_OF_FILE, root, path)

    def _first(self, sql: str, *values: str) -> str | None:
        row = self._db.execute(sql, values).fetchone()
        return None if row is None else row[0]


def settle_library(db: sqlite3.Connection, roots: Sequence[Root]) -> None:
    """Write what the library in *roots* tells as a whole, in place of what an earlier version of it told.

    The rows of all files are written.
    """
    for statement in FORGET:
        db.execute(statement, {"queries": QUERIES, "dangling": DANGLING, "shared": SHARED_ID})
    for root in roots:
        write_diagnostics(db, root.diagnostics)
    order = {root.label: number for number, root in enumerate(roots)}
    _settle_skills(db, order)
    _write_references(db)
    _note_shared_ids(db, order)
    _write_listed_queries(db, roots)


def _settle_skills(db: sqlite3.Connection, order: dict[str, int]) -> None:
    """Write the skills that are offered, but for those whose path is that of another one."""
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
    db.execute(
        "INSERT INTO skill (fragment_id, path, frontmatter) SELECT fragment_id, path, frontmatter FROM temp.offered"
    )
    db.execute("DELETE FROM temp.offered")


def _write_references(db: sqlite3.Connection) -> None:
    """Write what the fragments point to, with a diagnostic for each pointer that dangles."""
    dangling: list[Diagnostic] = []
    db.executemany(INSERT_REFERENCE, _reference_rows(db.execute(ALL_POINTERS), RowDocuments(db), dangling))
    write_diagnostics(db, dangling)


def _reference_rows(
    pointers: Iterable[Sequence[Any]], documents: RowDocuments, dangling: list[Diagnostic]
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of `reference` that *pointers*, in order, give; what dangles is added to *dangling*."""
    for (number, id_, root, path), rows in groupby(pointers, itemgetter(0, 1, 2, 3)):
        meant: dict[str, int] = {}
        aims = []
        for *_, target, kind, line, target_number, target_id, may_dangle in rows:
            aims.append(Aim(Reference(target, kind, line), target_id, may_dangle))
            meant[target_id] = target_number
        notes = Notes(root, path)
        for at, kept in enumerate(keep_references(id_, aims, notes)):
            target_number = meant[kept.target] if kept.target in meant else documents.number(kept.target)
            yield number, at, kept.target, target_number, kept.kind, kept.line
        dangling += notes.diagnostics


def _note_shared_ids(db: sqlite3.Connection, order: dict[str, int]) -> None:
    """Write the warnings about ids that the front matter of several fragments gives."""
    for (text,) in db.execute(SHARED).fetchall():
        authors = [Author(*row) for row in db.execute(AUTHORS, (text,))]
        authors.sort(key=lambda author: (order[author.root], author.path.split("/")))
        write_diagnostics(db, note_shared_id(text, authors))


def _write_listed_queries(db: sqlite3.Connection, roots: Iterable[Root]) -> None:
    """Write the requests that the roots list."""
    documents = RowDocuments(db)
    for root in roots:
        notes = Notes(root.label, QUERIES)
        write_queries(db, listed_queries(root.folder, documents, notes))
        write_diagnostics(db, notes.diagnostics)
