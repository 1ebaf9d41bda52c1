"""An index in memory that follows its library: only the rows of what has changed are written anew.

It holds the rows that a build of the same library from scratch would hold, but for their numbers: fragments are
numbered in the order of their URIs as ever, with gaps; scenarios, keywords, terms and files that are met later are
numbered behind the others. Until it is settled there are no quick lookups, and `least_coverage` is carried over.
"""

import itertools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import sqlite_utils

from orchestr8_sqlite.builder import FAST_WRITES, FEWEST_MEASURED, fill_index, least_coverage, write_answers
from orchestr8_sqlite.content import Fragment, Library
from orchestr8_sqlite.evidence import Numbered, write_average_lengths, write_synonyms
from orchestr8_sqlite.fragment_rows import ScenarioIds, fragment_scenarios, indexed_texts, write_fragments
from orchestr8_sqlite.integrity import check_counts, check_links
from orchestr8_sqlite.keyword_changes import Touched, add_keywords, remove_keywords, settle_keywords
from orchestr8_sqlite.reweighing import Reweighing
from orchestr8_sqlite.vocabulary import SCENARIO_DIGITS, scenario_ids
from orchestr8_sqlite.wordlists import Synonym
from orchestr8_sqlite.writer import (
    source_outcomes,
    write_diagnostics,
    write_meta,
    write_prompts,
    write_queries,
)

SPACING = 64
"""Between the numbers of neighbouring fragments: so many more find room between two before all are numbered anew."""

MOST_CHANGED = 0.25
"""Share of the fragments above which writing everything anew is no slower."""

MOST_DRIFT = 0.1
"""Share of the fragments that may change before `least_coverage` is measured anew."""

PLAIN = len("scenario-") + SCENARIO_DIGITS
"""Characters of a scenario id; where some are longer, others may have to become so."""

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
SYNONYM_ROWS = ("DELETE FROM synonym_word", "DELETE FROM synonym_form", "DELETE FROM synonym")
META_ROWS = ("DELETE FROM quick_lookup", "DELETE FROM meta")
AIM_REFERENCES = """
UPDATE reference SET target_id = (SELECT id FROM fragment WHERE path = target)
 WHERE target_id IS NOT (SELECT id FROM fragment WHERE path = target)
"""
KNOWN_FORMS = """
SELECT t.stem, t.id FROM json_each(:forms) f CROSS JOIN term t ON t.stem = f.value
 WHERE EXISTS (SELECT 1 FROM evidence WHERE term_id = t.id)
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
        self._reweighing = Reweighing(self.db, fill_index(self.db, library, synonyms, settings, spacing=SPACING))
        self._library = library
        self._synonyms = synonyms
        self._numbers = {f.id: number * SPACING for number, f in enumerate(library.fragments, start=1)}
        self._scenarios = fragment_scenarios(library.fragments)
        self._forms = self._known_forms(synonyms)
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
        least = known or least_coverage(self.db, self._library)
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
        numbers = assign_numbers(self._numbers, list(new))
        if numbers is None or len(gone | come) > max(MOST_CHANGED * len(old), 1):
            return False
        if (len(old) >= FEWEST_MEASURED) != (len(new) >= FEWEST_MEASURED):
            return False
        scenarios = _scenario_ids(self._scenarios, library.fragments)
        if scenarios is None:
            return False
        leaving = [(self._numbers[id_], fragment) for id_, fragment in old.items() if id_ in gone]
        coming = [(numbers[id_], fragment) for id_, fragment in new.items() if id_ in come]
        self._numbers, self._scenarios = numbers, scenarios
        self.db.execute("BEGIN")
        sources = self._write_sources(library)
        if leaving or coming:
            self._replace(leaving, coming, sources)
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
        written = write_fragments(self._utils, come, self._numbers, sources, self._scenarios)
        for number, fragment in come:
            own = [(row, text) for row, owner, text in written if owner == number]
            touched |= add_keywords(self.db, number, fragment, own)
        settle_keywords(self.db, touched)
        self._reweighing.replace(gone, come)
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
        forms = self._known_forms(synonyms)
        if forms != self._forms or synonyms != self._synonyms:
            self._clear(SYNONYM_ROWS)
            write_synonyms(self.db, synonyms)
            self._synonyms, self._forms = synonyms, forms
        self._clear(META_ROWS)
        write_average_lengths(self.db, self._reweighing.averages)
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

    def _known_forms(self, synonyms: Sequence[Synonym]) -> dict[str, int]:
        """Return the terms of the index outside the bodies that may stand in for others."""
        forms = sorted({form for synonym in synonyms for form in synonym.forms})
        return dict(self.db.execute(KNOWN_FORMS, {"forms": json.dumps(forms, ensure_ascii=False)}))

    def _clear(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.db.execute(statement)


def assign_numbers(numbers: Mapping[str, int], ids: Sequence[str]) -> dict[str, int] | None:
    """Return a number for each of *ids*, rising in their order: the one in *numbers*, else one from a gap.

    None where the new ones do not fit into a gap.
    """
    assigned: dict[str, int] = {}
    last = 0
    for is_known, group in itertools.groupby(ids, key=numbers.__contains__):
        if is_known:
            assigned |= {id_: numbers[id_] for id_ in group}
        else:
            new = list(group)
            following = next((numbers[id_] for id_ in ids[len(assigned) + len(new) :] if id_ in numbers), None)
            end = last + SPACING * (len(new) + 1) if following is None else following
            assigned |= {id_: last + (end - last) * place // (len(new) + 1) for place, id_ in enumerate(new, start=1)}
        last = max(assigned.values())
    values = list(assigned.values())
    return assigned if all(one < other for one, other in itertools.pairwise([0, *values])) else None


def _scenario_ids(known: ScenarioIds, fragments: Sequence[Fragment]) -> ScenarioIds | None:
    """Return the ids of all scenarios, of those in *known* from there; None where one needs more digits than others."""
    owned = [(fragment.id, text) for fragment in fragments for text in fragment.use_when]
    ids = {one: known.get(one) or scenario_ids([one])[0] for one in owned}
    distinct = set(ids.values())
    return ids if len(distinct) == len(owned) and max(map(len, distinct), default=0) <= PLAIN else None


def _differ(old: Fragment, new: Fragment) -> bool:
    """Tell whether two versions of a fragment differ in more than when their files were written."""
    return _files(old) != _files(new) or replace(old, source=new.source, skill_files=new.skill_files) != new


def _files(fragment: Fragment) -> list[tuple[str, ...]]:
    """Return which files a fragment was read from, and the content of those that it hands out."""
    source = fragment.source
    bundled = [(file.path, file.sha256, file.source.root, file.source.path) for file in fragment.skill_files]
    return [(source.root, source.path), *bundled]
