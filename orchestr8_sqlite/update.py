"""An index that follows its library: only the rows of files that have changed are written anew.

Afterwards it holds what a build of the same library from scratch would hold, but for the numbers of rows: what is met
later is numbered behind what was there.
"""

import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.content import Fragment, SourceFile
from orchestr8_sqlite.evidence import LengthSums, fragment_texts, hold
from orchestr8_sqlite.evidence_rows import clear_evidence, replace_evidence
from orchestr8_sqlite.evidence_writer import EvidenceWriter
from orchestr8_sqlite.following import Following, files_of, json_keys, places_of
from orchestr8_sqlite.fragment_rows import (
    indexed_texts,
    shorten_ids,
    write_diagnostics,
    write_files,
    write_full_text,
    write_own_rows,
    write_said,
    write_scenarios,
)
from orchestr8_sqlite.inversion import invert_terms
from orchestr8_sqlite.keyword_changes import Touched as TouchedKeyword
from orchestr8_sqlite.keyword_changes import add_keywords, remove_keywords, settle_keywords
from orchestr8_sqlite.library.parsing import BATCH, Key
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.resolution import OFFERED, Touched, settle_library

COLUMNS = "SELECT f.id, f.path, f.category, f.name, f.title, f.description, b.body, s.root, s.path, a.text"
FRAGMENTS_OF = f"""
{COLUMNS}
  FROM json_each(:keys) key
 CROSS JOIN source s ON s.root = json_extract(key.value, '$[0]') AND s.path = json_extract(key.value, '$[1]')
  JOIN fragment f ON f.source_id = s.id
  JOIN fragment_body b ON b.fragment_id = f.id
  LEFT JOIN author_id a ON a.fragment_id = f.id
"""
ALL_FRAGMENTS = f"""
{COLUMNS}
  FROM fragment f
  JOIN source s ON s.id = f.source_id
  JOIN fragment_body b ON b.fragment_id = f.id
  LEFT JOIN author_id a ON a.fragment_id = f.id
 ORDER BY f.id
"""
TAGS = "SELECT tag FROM tag WHERE fragment_id = ? ORDER BY ordinal"
CAPABILITIES = "SELECT text FROM capability WHERE fragment_id = ? ORDER BY ordinal"
SCENARIOS = "SELECT text FROM scenario WHERE fragment_id = ? ORDER BY ordinal"
DELETE_TEXT = """
INSERT INTO fragment_text
       (fragment_text, rowid, name, title, tags, capabilities, scenarios, description, body)
VALUES ('delete', ?, ?, ?, ?, ?, ?, ?, ?)
"""
DELETE_ROWS = (
    """DELETE FROM library_query
        WHERE origin = 'queries' AND id IN (SELECT query_id FROM library_answer WHERE fragment_id = ?)""",
    "DELETE FROM library_answer WHERE fragment_id = ?",
    "DELETE FROM scenario WHERE fragment_id = ?",
    "DELETE FROM tag WHERE fragment_id = ?",
    "DELETE FROM capability WHERE fragment_id = ?",
    "DELETE FROM author_id WHERE fragment_id = ?",
    "DELETE FROM pointer WHERE fragment_id = ?",
    "DELETE FROM reference WHERE fragment_id = ?",
    "DELETE FROM skill WHERE fragment_id = ?",
    "DELETE FROM skill_file WHERE fragment_id = ?",
    "DELETE FROM fragment_body WHERE fragment_id = ?",
    "DELETE FROM fragment WHERE id = ?",
)
"""All rows that belong to single fragments, but those of keywords and evidence."""

DELETE_PROMPTS = (
    """DELETE FROM prompt_argument WHERE prompt_id IN (
        SELECT p.id FROM prompt p JOIN source s ON s.id = p.source_id WHERE s.root = ? AND s.path = ?)""",
    "DELETE FROM prompt WHERE source_id = (SELECT id FROM source WHERE root = ? AND path = ?)",
)
DELETE_DIAGNOSTICS = """
DELETE FROM diagnostic
 WHERE (root, path) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:keys))
"""
DELETE_SOURCE = "DELETE FROM source WHERE root = ? AND path = ?"
SET_TIME = "UPDATE source SET mtime_ns = ? WHERE root = ? AND path = ?"


class Stored(NamedTuple):
    """A fragment of an index with all of its texts, its number, and the id that its front matter gives."""

    number: int
    fragment: Fragment
    author_id: str | None


class Updater:
    """Makes an index that of its library as it is now, in a transaction that is open."""

    def __init__(self, db: sqlite3.Connection, roots: Sequence[Root]) -> None:
        db.execute(OFFERED)
        self._db = db
        self._roots = roots

    def write(self, following: Following, times: Mapping[Key, int]) -> int:
        """Write what has changed and return how many fragments that are.

        Raises:
            BuildError: Two scenarios could not be told apart by their hash.
        """
        leaving = self._stored(following.stale)
        numbers = self._number(leaving, following.verdicts)
        coming = [(numbers[v.record.id], v) for v in following.verdicts if isinstance(v.record, Fragment)]
        is_weighed = self._replace_evidence(leaving, coming)
        touched = self._touched(leaving, coming, following)
        keywords = self._delete(leaving, following)
        shorten_ids(self._db)
        keywords |= self._insert(coming, following)
        if not is_weighed:
            self._weigh_all()
        settle_keywords(self._db, keywords)
        self._db.executemany(SET_TIME, ((time, root, path) for (root, path), time in times.items()))
        settle_library(self._db, self._roots, touched)
        return len({one.number for one in leaving} | {number for number, _ in coming})

    def _stored(self, keys: Collection[Key]) -> list[Stored]:
        """Return the fragments that the index has of these files."""
        return [self._fragment(*row) for row in self._db.execute(FRAGMENTS_OF, {"keys": json_keys(keys)}).fetchall()]

    def _fragment(
        self, number: int, id_: str, category: str, name: str, title: str, description: str, body: str, root: str,
        path: str, author_id: str | None,
    ) -> Stored:  # fmt: skip
        tags, capabilities, scenarios = (
            tuple(text for (text,) in self._db.execute(lines, (number,))) for lines in (TAGS, CAPABILITIES, SCENARIOS)
        )
        fragment = Fragment(
            id=id_, category=category, name=name, title=title, description=description, version=None, tags=tags,
            capabilities=capabilities, use_when=scenarios, author_tokens=None, token_estimate=0, metadata={}, body=body,
            references=(), source=SourceFile(root, path, 0, 0, ""),
        )  # fmt: skip
        return Stored(number, fragment, author_id)

    def _number(self, leaving: Iterable[Stored], verdicts: Iterable[Verdict]) -> dict[str, int]:
        """Return the numbers of the fragments in *verdicts*: what they had, else the next."""
        last = self._db.execute("SELECT coalesce(max(id), 0) FROM fragment").fetchone()[0]
        known = {one.fragment.id: one.number for one in leaving}
        return assign_numbers(known, [v.record.id for v in verdicts if isinstance(v.record, Fragment)], last)

    def _replace_evidence(self, leaving: Sequence[Stored], coming: Sequence[tuple[int, Verdict]]) -> bool:
        """Write the evidence of what has changed; False, and nothing written, where that of all fragments changes."""
        lengths = LengthSums.read(self._db)
        typical = lengths.typical
        held = [(one.number, hold(fragment_texts(one.fragment))) for one in leaving]
        holding = [(number, verdict.prepared.held) for number, verdict in coming]
        for change, fragments in ((-1, held), (1, holding)):
            for number, one in fragments:
                lengths.add(number, one.lengths, change)
        if lengths.typical != typical:
            return False
        replace_evidence(self._db, held, holding, typical)
        lengths.write(self._db)
        return True

    def _weigh_all(self) -> None:
        """Write the evidence of all fragments anew."""
        clear_evidence(self._db)
        writer = EvidenceWriter(self._db)
        fragments = (self._fragment(*row) for row in self._db.execute(ALL_FRAGMENTS))
        while batch := list(itertools.islice(fragments, BATCH)):
            held = [hold(fragment_texts(one.fragment)) for one in batch]
            writer.add([one.number for one in batch], invert_terms(held))
        writer.close()

    def _touched(
        self, leaving: Iterable[Stored], coming: Iterable[tuple[int, Verdict]], following: Following
    ) -> Touched:
        """Return what of the rest of the library the change can concern."""
        before = {(one.fragment.id, one.fragment.source.root, one.fragment.source.path) for one in leaving}
        now = {(v.record.id, v.source.root, v.source.path) for _, v in coming if isinstance(v.record, Fragment)}
        targets = {name for id_, _, path in before ^ now for name in (id_, id_.rpartition("/")[2], path)}
        there = {key for key in following.stale if self._is_source(key)}
        targets |= {path for _, path in there ^ files_of(following.verdicts)}
        ids = {one.author_id for one in leaving} | {verdict.author_id for _, verdict in coming}
        return Touched({number for number, _ in coming}, targets, {id_ for id_ in ids if id_ is not None})

    def _is_source(self, key: Key) -> bool:
        return self._db.execute("SELECT 1 FROM source WHERE root = ? AND path = ?", key).fetchone() is not None

    def _delete(self, leaving: Sequence[Stored], following: Following) -> set[TouchedKeyword]:
        """Take what is no longer true out of all tables but those of the evidence."""
        touched: set[TouchedKeyword] = set()
        for number, fragment, _ in leaving:
            touched |= remove_keywords(self._db, number, fragment)
        self._db.executemany(DELETE_TEXT, ((number, *indexed_texts(fragment)) for number, fragment, _ in leaving))
        for statement in DELETE_ROWS:
            self._db.executemany(statement, ((one.number,) for one in leaving))
        for statement in DELETE_PROMPTS:
            self._db.executemany(statement, following.stale)
        self._db.execute(DELETE_DIAGNOSTICS, {"keys": json_keys(following.stale | places_of(following.kept))})
        self._db.executemany(DELETE_SOURCE, following.stale - files_of(following.verdicts))
        return touched

    def _insert(self, coming: Sequence[tuple[int, Verdict]], following: Following) -> set[TouchedKeyword]:
        """Write what is true now to all tables but those of the evidence."""
        write_files(self._db, following.verdicts)
        for verdict in following.kept:
            write_diagnostics(self._db, verdict.diagnostics)
        fragments = [(number, v.record) for number, v in coming if isinstance(v.record, Fragment)]
        taken = self._db.execute("SELECT coalesce(max(id), 0) FROM scenario").fetchone()[0]
        write_own_rows(self._db, fragments)
        scenarios: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for row, owner, text in write_scenarios(self._db, fragments, taken):
            scenarios[owner].append((row, text))
        write_said(self._db, coming)
        write_full_text(self._db, ((number, verdict.prepared.texts) for number, verdict in coming))
        touched: set[TouchedKeyword] = set()
        for number, fragment in fragments:
            touched |= add_keywords(self._db, number, fragment, scenarios[number])
        return touched


def assign_numbers(numbers: Mapping[str, int], ids: Sequence[str], last: int) -> dict[str, int]:
    """Return a number for each of *ids*: the one in *numbers*, else the next behind *last*."""
    following = itertools.count(last + 1)
    return {id_: numbers[id_] if id_ in numbers else next(following) for id_ in ids}
