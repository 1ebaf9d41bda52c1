"""An index that follows its library: only the rows of files that have changed are written anew.

Afterwards it holds what a build of the same library from scratch would hold, but for the numbers of rows: what is met
later is numbered behind what was there.
"""

import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import LengthSums, fragment_texts, hold
from orchestr8_sqlite.evidence_rows import EvidenceChange, clear_evidence, replace_evidence
from orchestr8_sqlite.evidence_writer import EvidenceWriter
from orchestr8_sqlite.finishing import Effect
from orchestr8_sqlite.following import Following, files_of, json_keys
from orchestr8_sqlite.fragment_rows import (
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
from orchestr8_sqlite.keyword_changes import (
    add_scenarios,
    remove_scenarios,
    replace_fields,
    settle_keywords,
)
from orchestr8_sqlite.library.parsing import BATCH, Key
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.rechecks import check_fragments, check_words
from orchestr8_sqlite.replacement import Replaced, read_fragments
from orchestr8_sqlite.resolution import OFFERED, Touched, settle_library
from orchestr8_sqlite.vocabulary import write_places
from orchestr8_sqlite.writer import CONTENTS, CONTENTS_BOUND, add_contents

CONTENTS_OF = """
SELECT s.root, s.path, s.sha256
  FROM json_each(:keys) key
 CROSS JOIN source s ON s.root = json_extract(key.value, '$[0]') AND s.path = json_extract(key.value, '$[1]')
"""
DELETE_TEXT = """
INSERT INTO fragment_text
       (fragment_text, rowid, name, title, tags, capabilities, scenarios, description, body)
VALUES ('delete', ?, ?, ?, ?, ?, ?, ?, ?)
"""
DELETE_ROWS = (
    """DELETE FROM library_query
        WHERE origin = 'queries' AND id IN (SELECT query_id FROM library_answer WHERE fragment_id = ?)""",
    "DELETE FROM library_answer WHERE fragment_id = ?",
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
"""All rows that belong to single fragments, but those of scenarios, keywords and evidence."""

DELETE_SCENARIOS = "DELETE FROM scenario WHERE fragment_id = ?"

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


class Updater:
    """Makes an index that of its library as it is now, in a transaction that is open."""

    def __init__(self, db: sqlite3.Connection, roots: Sequence[Root]) -> None:
        db.execute(OFFERED)
        self._db = db
        self._roots = roots

    def write(self, following: Following, times: Mapping[Key, int]) -> Effect:
        """Write what has changed and return what that does to the answers that are computed beforehand.

        Raises:
            BuildError: Two scenarios could not be told apart by their hash.
            CheckError: What is written does not agree.
        """
        files = following.stale | files_of(following.verdicts)
        before = self._contents(files)
        replaced = self._replaced(following)
        evidence = self._replace_evidence(replaced)
        touched = self._touched(replaced, following)
        keywords = self._delete(replaced, following)
        keywords |= self._insert(replaced, following)
        if evidence is None:
            self._weigh_all()
        settle_keywords(self._db, keywords)
        if any(one.before is None or one.after is None or not one.has_same_scenarios for one in replaced):
            write_places(self._db)
        self._db.executemany(SET_TIME, ((time, root, path) for (root, path), time in times.items()))
        settle_library(self._db, self._roots, touched)
        self._change_contents(self._contents(files) - before)
        there = {one.number for one in replaced if one.after}
        check_fragments(self._db, {one.number for one in replaced} - there, there)
        check_words(self._db, {keyword for keyword, _ in keywords}, evidence.stems if evidence else ())
        return _effect(replaced, evidence, keywords)

    def _contents(self, files: Collection[Key]) -> int:
        """Return what these files, as far as they are written, add to the contents of the index."""
        return add_contents(self._db.execute(CONTENTS_OF, {"keys": json_keys(files)}))

    def _change_contents(self, difference: int) -> None:
        known = self._db.execute("SELECT value FROM meta WHERE key = ?", (CONTENTS,)).fetchone()[0]
        contents = (int(known, 16) + difference) % CONTENTS_BOUND
        self._db.execute("UPDATE meta SET value = ? WHERE key = ?", (f"{contents:064x}", CONTENTS))

    def _replaced(self, following: Following) -> list[Replaced]:
        """Return the fragments that change; those of an id keep their number, others get the next."""
        before = {stored.number: stored for stored in read_fragments(self._db, following.stale)}
        last = self._db.execute("SELECT coalesce(max(id), 0) FROM fragment").fetchone()[0]
        coming = {v.record.id: v for v in following.verdicts if isinstance(v.record, Fragment)}
        numbers = assign_numbers({one.fragment.id: one.number for one in before.values()}, list(coming), last)
        after = {numbers[id_]: verdict for id_, verdict in coming.items()}
        return [Replaced.of(number, before.get(number), after.get(number)) for number in before | after]

    def _replace_evidence(self, replaced: Sequence[Replaced]) -> EvidenceChange | None:
        """Write the evidence of what has changed; None, and nothing written, where that of all fragments changes."""
        lengths = LengthSums.read(self._db)
        typical = lengths.typical
        for number, before, after in (one.held for one in replaced):
            for held, change in ((before, -1), (after, 1)):
                if held:
                    lengths.add(number, held.lengths, change)
        if lengths.typical != typical:
            return None
        lengths.write(self._db)
        return replace_evidence(self._db, [one.held for one in replaced], typical)

    def _weigh_all(self) -> None:
        """Write the evidence of all fragments anew."""
        clear_evidence(self._db)
        writer = EvidenceWriter(self._db)
        fragments = read_fragments(self._db)
        while batch := list(itertools.islice(fragments, BATCH)):
            held = [hold(fragment_texts(one.fragment)) for one in batch]
            writer.add([one.number for one in batch], invert_terms(held))
        writer.close()

    def _touched(self, replaced: Iterable[Replaced], following: Following) -> Touched:
        """Return what of the rest of the library the change can concern."""
        leaving = [one.before for one in replaced if one.before]
        coming = {one.number: one.after for one in replaced if one.after}
        before = {(one.fragment.id, one.fragment.source.root, one.fragment.source.path) for one in leaving}
        now = {(v.record.id, v.source.root, v.source.path) for v in coming.values() if isinstance(v.record, Fragment)}
        targets = {name for id_, _, path in before ^ now for name in (id_, id_.rpartition("/")[2], path)}
        there = {key for key in following.stale if self._is_source(key)}
        targets |= {path for _, path in there ^ files_of(following.verdicts)}
        ids = {one.author_id for one in leaving} | {verdict.author_id for verdict in coming.values()}
        return Touched(coming.keys(), targets, {id_ for id_ in ids if id_ is not None})

    def _is_source(self, key: Key) -> bool:
        return self._db.execute("SELECT 1 FROM source WHERE root = ? AND path = ?", key).fetchone() is not None

    def _delete(self, replaced: Sequence[Replaced], following: Following) -> set[TouchedKeyword]:
        """Take what is no longer true out of all tables but those of the evidence."""
        touched: set[TouchedKeyword] = set()
        gone: list[str] = []
        for number, before, _, was, _ in (one for one in replaced if not one.has_same_scenarios):
            if before and was:
                rows = (row for row, _ in before.scenarios)
                touched |= remove_scenarios(self._db, zip(rows, was.keywords.scenarios, strict=True))
                self._db.execute(DELETE_SCENARIOS, (number,))
                gone += (scenario_id for _, scenario_id in before.scenarios)
        shorten_ids(self._db, gone)
        texts = [(one.number, *one.was.texts) for one in replaced if one.was and not one.has_same_texts]
        self._db.executemany(DELETE_TEXT, texts)
        for statement in DELETE_ROWS:
            self._db.executemany(statement, ((one.number,) for one in replaced if one.before))
        for statement in DELETE_PROMPTS:
            self._db.executemany(statement, following.stale)
        judged = files_of((*following.verdicts, *following.kept))
        self._db.execute(DELETE_DIAGNOSTICS, {"keys": json_keys(following.stale | judged)})
        self._db.executemany(DELETE_SOURCE, following.stale - files_of(following.verdicts))
        return touched

    def _insert(self, replaced: Sequence[Replaced], following: Following) -> set[TouchedKeyword]:
        """Write what is true now to all tables but those of the evidence."""
        write_files(self._db, following.verdicts)
        for verdict in following.kept:
            write_diagnostics(self._db, verdict.diagnostics)
        fragments = [(one.number, one.record) for one in replaced if one.record]
        write_own_rows(self._db, fragments)
        write_said(self._db, ((one.number, one.after) for one in replaced if one.after))
        texts = [(one.number, one.now.texts) for one in replaced if one.now and not one.has_same_texts]
        write_full_text(self._db, texts)
        touched: set[TouchedKeyword] = set()
        for number, _, _, was, now in replaced:
            touched |= replace_fields(self._db, number, *(one.keywords.fields if one else {} for one in (was, now)))
        return touched | self._insert_scenarios([one for one in replaced if not one.has_same_scenarios])

    def _insert_scenarios(self, replaced: Sequence[Replaced]) -> set[TouchedKeyword]:
        """Write the scenarios of these fragments, with their postings."""
        taken = self._db.execute("SELECT coalesce(max(id), 0) FROM scenario").fetchone()[0]
        rows: dict[int, list[int]] = defaultdict(list)
        fragments = [(one.number, one.record) for one in replaced if one.record]
        for row, owner, _ in write_scenarios(self._db, fragments, taken):
            rows[owner].append(row)
        touched: set[TouchedKeyword] = set()
        for one in replaced:
            if one.now:
                keywords = one.now.keywords.scenarios
                touched |= add_scenarios(self._db, one.number, zip(rows[one.number], keywords, strict=True))
        return touched


def _effect(
    replaced: Sequence[Replaced], evidence: EvidenceChange | None, keywords: Collection[TouchedKeyword]
) -> Effect:
    """Return what a change does to the answers that are computed beforehand."""
    is_there = all(one.before and one.after for one in replaced)
    topics = {one.number: one.changed_topics for one in replaced}
    return Effect(
        fragments=len(replaced),
        altered=frozenset(one.number for one in replaced if topics[one.number] or not one.has_same_scenarios),
        stems=evidence.stems if is_there and evidence else None,
        topics=frozenset().union(*topics.values()),
        classic=frozenset().union(*(one.classic_keywords() for one in replaced)),
        keywords=frozenset(text for text, row in keywords if row < 0),
        is_wide=bool(keywords) or evidence is None or evidence.is_wide,
    )


def assign_numbers(numbers: Mapping[str, int], ids: Sequence[str], last: int) -> dict[str, int]:
    """Return a number for each of *ids*: the one in *numbers*, else the next behind *last*."""
    following = itertools.count(last + 1)
    return {id_: numbers[id_] if id_ in numbers else next(following) for id_ in ids}
