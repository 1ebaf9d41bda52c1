"""An index in memory that follows its library: only the rows of what has changed are written anew.

It holds the rows that a build of the same library from scratch would hold, but for their numbers: fragments,
scenarios, keywords and files that are met later are numbered behind the others. Until it is settled there are no
quick lookups, and `least_coverage` is carried over.
"""

import itertools
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import sqlite_utils

from orchestr8_sqlite.builder import FAST_WRITES, FEWEST_MEASURED, fill_index, least_coverage, write_answers
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.content import Fragment, Library
from orchestr8_sqlite.evidence import LengthSums, fragment_texts, hold
from orchestr8_sqlite.evidence_rows import replace_evidence, write_synonyms
from orchestr8_sqlite.fragment_rows import (
    PLAIN_ID,
    Numbered,
    indexed_texts,
    write_full_text,
    write_own_rows,
    write_references,
    write_scenarios,
    write_skills,
)
from orchestr8_sqlite.integrity import check_counts, check_links
from orchestr8_sqlite.keyword_changes import Touched, add_keywords, remove_keywords, settle_keywords
from orchestr8_sqlite.wordlists import Synonym
from orchestr8_sqlite.writer import (
    source_outcomes,
    write_diagnostics,
    write_meta,
    write_prompts,
    write_queries,
)

MOST_CHANGED = 0.25
"""Share of the fragments above which writing everything anew is no slower."""

MOST_DRIFT = 0.1
"""Share of the fragments that may change before `least_coverage` is measured anew."""

LONG_IDS = "SELECT 1 FROM scenario WHERE length(scenario_id) > :plain LIMIT 1"
GENERATION = "SELECT value FROM meta WHERE key = 'generation'"
SOURCES = "SELECT id, root, path, outcome, mtime_ns, size, sha256 FROM source"
DELETE_TEXT = """
INSERT INTO fragment_text
       (fragment_text, rowid, name, title, tags, capabilities, scenarios, description, body)
VALUES ('delete', ?, ?, ?, ?, ?, ?, ?, ?)
"""
DELETE_ROWS = (
    "DELETE FROM scenario WHERE fragment_id = ?",
    "DELETE FROM tag WHERE fragment_id = ?",
    "DELETE FROM capability WHERE fragment_id = ?",
    "DELETE FROM reference WHERE fragment_id = ?",
    "DELETE FROM skill WHERE fragment_id = ?",
    "DELETE FROM skill_file WHERE fragment_id = ?",
    "DELETE FROM fragment_body WHERE fragment_id = ?",
    "DELETE FROM fragment WHERE id = ?",
)
"""All rows that belong to single fragments, but those of keywords and evidence."""

PROMPT_ROWS = ("DELETE FROM prompt_argument", "DELETE FROM prompt")
QUERY_ROWS = ("DELETE FROM library_answer", "DELETE FROM library_query")
DIAGNOSTIC_ROWS = ("DELETE FROM diagnostic",)
SYNONYM_ROWS = ("DELETE FROM synonym_word", "DELETE FROM synonym_form")
META_ROWS = ("DELETE FROM quick_lookup", "DELETE FROM meta")
AIM_REFERENCES = """
UPDATE reference SET target_id = (SELECT id FROM fragment WHERE path = target)
 WHERE target_id IS NOT (SELECT id FROM fragment WHERE path = target)
"""


class LibraryIndex:
    """An index in memory and the library that it was made from. Close it when done.

    Args:
        least_coverage: What was measured before, by the generation that it was measured on.
    """

    def __init__(
        self,
        library: Library,
        synonyms: Sequence[Synonym],
        settings: Mapping[str, str],
        *,
        least_coverage: Mapping[str, str],
    ) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.executescript(FAST_WRITES)
        self._utils = sqlite_utils.Database(self.db, execute_plugins=False)
        fill_index(self.db, library, synonyms, settings)
        self._library = library
        self._synonyms = synonyms
        self._numbers = {f.id: number for number, f in enumerate(library.fragments, start=1)}
        self._lengths = LengthSums.read(self.db)
        self._drift: set[str] = set()
        self.is_settled = True
        self._set_least_coverage(least_coverage.get(self.generation))
        check_counts(self.db, library)
        check_links(self.db)

    def close(self) -> None:
        """Drop the index."""
        self.db.close()

    @property
    def generation(self) -> str:
        """Return the digest of what the index was made from."""
        return str(self.db.execute(GENERATION).fetchone()[0])

    def settle(self) -> None:
        """Write what changes leave for later: quick lookups, and `least_coverage` where too much has changed for it.

        Raises:
            BuildError: The index contradicts itself.
        """
        check_links(self.db)
        if len(self._drift) > MOST_DRIFT * len(self._library.fragments):
            self._set_least_coverage(None)
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM quick_lookup")
        write_answers(self.db)
        self.db.execute("COMMIT")
        self.is_settled = True

    def _set_least_coverage(self, known: str | None) -> None:
        least = known or least_coverage(Catalog(self.db, Path(), identity=(0, 0, 0)))
        self._least = {"least_coverage": least, "least_coverage_of": self.generation}
        self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", self._least.items())
        self._drift.clear()

    def save(self, path: Path) -> None:
        """Write the index to the new file *path*."""
        copy = sqlite3.connect(path, isolation_level=None)
        try:
            copy.executescript(FAST_WRITES)
            self.db.backup(copy)
        finally:
            copy.close()

    def follow(self, library: Library, synonyms: Sequence[Synonym], settings: Mapping[str, str]) -> bool:
        """Make this the index of *library*; False, and nothing done, where all of it must be written anew.

        An exception leaves the index unusable.
        """
        old = {fragment.id: fragment for fragment in self._library.fragments}
        new = {fragment.id: fragment for fragment in library.fragments}
        changed = {id_ for id_ in old.keys() & new.keys() if _differ(old[id_], new[id_])}
        gone, come = (old.keys() - new.keys()) | changed, (new.keys() - old.keys()) | changed
        if len(gone | come) > max(MOST_CHANGED * len(old), 1):
            return False
        numbers = assign_numbers(self._numbers, list(new))
        if (len(old) >= FEWEST_MEASURED) != (len(new) >= FEWEST_MEASURED):
            return False
        leaving = [(self._numbers[id_], fragment) for id_, fragment in old.items() if id_ in gone]
        coming = [(numbers[id_], fragment) for id_, fragment in new.items() if id_ in come]
        if self.db.execute(LONG_IDS, {"plain": PLAIN_ID}).fetchone():
            return False
        held, holding = ([(n, hold(fragment_texts(f))) for n, f in changed] for changed in (leaving, coming))
        typical = self._lengths.typical
        for change, fragments in ((-1, held), (1, holding)):
            for number, one in fragments:
                self._lengths.add(number, one, change)
        if self._lengths.typical != typical:
            return False
        self._numbers = numbers
        self.db.execute("BEGIN")
        sources = self._write_sources(library)
        if leaving or coming:
            self._replace(leaving, coming, sources)
            replace_evidence(self.db, held, holding, typical)
        self._write_rest(library, synonyms, settings, sources)
        self.db.execute("COMMIT")
        check_counts(self.db, library)
        self._library = library
        self._drift |= gone | come
        self.is_settled = False
        return True

    def _replace(self, gone: Numbered, come: Numbered, sources: Mapping[tuple[str, str], int]) -> None:
        """Take the fragments in *gone* out of all tables and write those in *come*."""
        touched: set[Touched] = set()
        for number, fragment in gone:
            touched |= remove_keywords(self.db, number, fragment)
        self.db.executemany(DELETE_TEXT, ((number, *indexed_texts(fragment)) for number, fragment in gone))
        for statement in DELETE_ROWS:
            self.db.executemany(statement, ((number,) for number, _ in gone))
        taken = self.db.execute("SELECT coalesce(max(id), 0) FROM scenario").fetchone()[0]
        write_own_rows(self.db, come, sources)
        written = write_scenarios(self.db, come, taken)
        write_skills(self.db, come, sources)
        write_references(self.db, come, self._numbers)
        write_full_text(self.db, ((number, indexed_texts(fragment)) for number, fragment in come))
        for number, fragment in come:
            own = [(row, text) for row, owner, text in written if owner == number]
            touched |= add_keywords(self.db, number, fragment, own)
        settle_keywords(self.db, touched)
        self.db.execute(AIM_REFERENCES)

    def _write_rest(
        self,
        library: Library,
        synonyms: Sequence[Synonym],
        settings: Mapping[str, str],
        sources: Mapping[tuple[str, str], int],
    ) -> None:
        """Write what belongs to the library as a whole."""
        if library.prompts != self._library.prompts:
            self._clear(PROMPT_ROWS)
            write_prompts(self._utils, library, sources)
        if library.diagnostics != self._library.diagnostics:
            self._clear(DIAGNOSTIC_ROWS)
            write_diagnostics(self._utils, library)
        self._clear(QUERY_ROWS)
        write_queries(self._utils, library, self._numbers)
        if synonyms != self._synonyms:
            self._clear(SYNONYM_ROWS)
            write_synonyms(self.db, synonyms)
            self._synonyms = synonyms
        self._clear(META_ROWS)
        self._lengths.write(self.db)
        write_meta(self._utils, library, settings)
        self.db.executemany("INSERT INTO meta VALUES (?, ?)", self._least.items())

    def _write_sources(self, library: Library) -> dict[tuple[str, str], int]:
        """Write the files of the library and return the row of each; a file keeps its row."""
        rows = {(root, path): (id_, tuple(rest)) for id_, root, path, *rest in self.db.execute(SOURCES)}
        now = {
            (file.root, file.path): (outcome, file.mtime_ns, file.size, file.sha256)
            for file, outcome in source_outcomes(library)
        }
        last = max((id_ for id_, _ in rows.values()), default=0)
        new = sorted(now.keys() - rows.keys())
        numbers = {key: id_ for key, (id_, _) in rows.items() if key in now}
        numbers |= {key: number for number, key in enumerate(new, start=last + 1)}
        self.db.executemany("DELETE FROM source WHERE root = ? AND path = ?", rows.keys() - now.keys())
        self.db.executemany(
            "INSERT OR REPLACE INTO source VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((numbers[key], *key, *values) for key, values in now.items() if rows.get(key, (0, None))[1] != values),
        )
        return numbers

    def _clear(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.db.execute(statement)


def assign_numbers(numbers: Mapping[str, int], ids: Sequence[str]) -> dict[str, int]:
    """Return a number for each of *ids*: the one in *numbers*, else the next."""
    following = itertools.count(max(numbers.values(), default=0) + 1)
    return {id_: numbers[id_] if id_ in numbers else next(following) for id_ in ids}


def _differ(old: Fragment, new: Fragment) -> bool:
    """Tell whether two versions of a fragment differ in more than when their files were written."""
    return _files(old) != _files(new) or replace(old, source=new.source, skill_files=new.skill_files) != new


def _files(fragment: Fragment) -> list[tuple[str, ...]]:
    """Return which files a fragment was read from, and the content of those that it hands out."""
    source = fragment.source
    bundled = [(file.path, file.sha256, file.source.root, file.source.path) for file in fragment.skill_files]
    return [(source.root, source.path), *bundled]
