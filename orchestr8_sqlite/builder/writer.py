"""Writes and deletes the index rows of files.

A full build writes all files of a library. An update deletes the rows of changed files and writes them again. Both then
count what depends on the library as a whole.
"""

import hashlib
import itertools
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.resources import files

from sqlite_utils import Database

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.verdicts import Holding, Verdict, name_of
from orchestr8_sqlite.model.records import Diagnostic, Fragment, LibraryQuery, Prompt, SourceFile
from orchestr8_sqlite.model.uris import fragment_uri
from orchestr8_sqlite.ranking.evidence import (
    EvidenceWriter,
    Held,
    Lengths,
    count_words,
    erase_evidence,
    erase_full_text,
    fragment_texts,
    hold,
    touch_words,
    typical_lengths,
    write_full_text,
)
from orchestr8_sqlite.text.wordlists import Synonym

PAGE_CACHE = "PRAGMA cache_size = -16000"
"""16 MB, because rows arrive in another order than their index keys."""

FULL_TEXT_OPTION = "INSERT INTO fragment_text (fragment_text, rank) VALUES (?, ?)"
WHILE_WRITING = {"hashsize": 1 << 24, "automerge": 0}
"""Collect up to 16 MB of full text before writing (a savepoint makes FTS5 write earlier); merge only in `optimize`."""

AFTERWARDS = {"hashsize": 1 << 20, "automerge": 4}
"""FTS5's defaults."""

OFFERED = "CREATE TEMP TABLE IF NOT EXISTS offered (fragment_id INTEGER, path TEXT, frontmatter TEXT)"
"""Valid Agent Skills, kept here until path collisions are settled."""

MOST_RECOUNTED = 50
"""Up to this many changed fragments, only their words are recounted; above, counting all words is as fast."""

SOURCES = "SELECT root, path, id FROM source"
UPDATE_SOURCE = "UPDATE source SET outcome = ?, mtime_ns = ?, size = ?, sha256 = ? WHERE id = ?"
NAMES = """
SELECT 'fragment', f.path, s.root || '/' || s.path, s.sha256 FROM fragment f JOIN source s ON s.id = f.source_id
 UNION ALL
SELECT 'prompt', p.name, s.root || '/' || s.path, s.sha256 FROM prompt p JOIN source s ON s.id = p.source_id
"""
LAST = "SELECT (SELECT coalesce(max(id), 0) FROM fragment), (SELECT coalesce(max(id), 0) FROM prompt)"
SCENARIO_DIGITS = 12
WHOLE_DIGITS = 64
ALIKE = """
SELECT count(DISTINCT scenario_id) < count(*) OR coalesce(max(length(scenario_id)), 0) > :length FROM scenario
"""
SCENARIOS = """
SELECT f.path, s.text, s.fragment_id, s.ordinal FROM scenario s JOIN fragment f ON f.id = s.fragment_id
"""
SET_SCENARIO_ID = "UPDATE scenario SET scenario_id = ? WHERE fragment_id = ? AND ordinal = ?"
FRAGMENTS_OF = "SELECT f.id FROM json_each(:sources) CROSS JOIN fragment f ON f.source_id = value"
DELETE_OF_FRAGMENTS = (
    """
    DELETE FROM library_query WHERE origin = 'queries' AND id IN (
        SELECT query_id FROM library_answer WHERE fragment_id IN (SELECT value FROM json_each(:ids)))
    """,
    *(
        f"DELETE FROM {table} WHERE fragment_id IN (SELECT value FROM json_each(:ids))"
        for table in (
            *("library_answer", "tag", "capability", "scenario", "reference", "skill", "skill_file"),
            *("quick_lookup", "fragment_body"),
        )
    ),
    "DELETE FROM fragment WHERE id IN (SELECT value FROM json_each(:ids))",
)
DELETE_OF_SOURCES = (
    """
    DELETE FROM prompt_argument WHERE prompt_id IN (
        SELECT id FROM prompt WHERE source_id IN (SELECT value FROM json_each(:sources)))
    """,
    "DELETE FROM prompt WHERE source_id IN (SELECT value FROM json_each(:sources))",
)
DELETE_DIAGNOSTICS = """
DELETE FROM diagnostic
 WHERE (root, path) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:keys))
"""
INSERT_BODY = "INSERT INTO fragment_body (fragment_id, body, also) VALUES (?, ?, ?)"
LISTS: Sequence[tuple[str, Callable[[Fragment], Iterable[tuple[object, ...]]]]] = (
    ("INSERT INTO tag (fragment_id, ordinal, tag) VALUES (?, ?, ?)", lambda f: ((tag,) for tag in f.tags)),
    (
        "INSERT INTO capability (fragment_id, ordinal, text) VALUES (?, ?, ?)",
        lambda f: ((text,) for text in f.capabilities),
    ),
    (
        "INSERT INTO scenario (fragment_id, ordinal, scenario_id, text) VALUES (?, ?, ?, ?)",
        lambda f: ((scenario_id(f.id, text), text) for text in f.use_when),
    ),
    (
        "INSERT INTO reference (fragment_id, ordinal, target, kind, line) VALUES (?, ?, ?, ?, ?)",
        lambda f: ((one.target, one.kind, one.line) for one in f.references),
    ),
)
"""INSERT statements for a fragment's lists, each with its rows. There are about ten such rows per fragment, so they
bypass sqlite-utils, which inspects each value and opens a savepoint for every hundred rows."""

DELETE_SOURCES = "DELETE FROM source WHERE id IN (SELECT value FROM json_each(:sources))"
SET_TIME = "UPDATE source SET mtime_ns = ? WHERE root = ? AND path = ?"


def create_schema(db: sqlite3.Connection) -> None:
    """Create the empty tables and views in a new database."""
    schema = files("orchestr8_sqlite.index").joinpath("schema.sql").read_text(encoding="utf-8")
    _tables(db).executescript(schema)


def prepare(fragment: Fragment) -> Held:
    """Return the slow part of the fragment's rows, which depends on no other fragment."""
    return hold(fragment_texts(fragment))


class IndexWriter:
    """Writes and deletes the rows of files. Close it when done.

    Only a file's postings stay in memory for longer than its batch.

    Use::

        writer = IndexWriter(db)          # in a transaction
        writer.delete(stale, judged)      # only in an update
        writer.write(verdicts)            # once per batch
        writer.close()
    """

    def __init__(self, db: sqlite3.Connection, *, is_ranked: bool = True) -> None:
        """Write through *db*; skip the ranking rows unless *is_ranked*."""
        db.execute(OFFERED)
        db.execute(PAGE_CACHE)
        self._db = db
        self._tables = _tables(db)
        self._sources: dict[Key, int] = {(root, path): id_ for root, path, id_ in db.execute(SOURCES)}
        self._last_source = max(self._sources.values(), default=0)
        self._fragment, self._prompt = db.execute(LAST).fetchone()
        self._names: dict[tuple[str, str], Holding] | None = None
        self._first, self._deleted = self._fragment + 1, 0
        self._touched: set[str] = set()
        self._evidence = EvidenceWriter(db) if is_ranked else None
        db.executemany(FULL_TEXT_OPTION, WHILE_WRITING.items())

    def holder(self, record: Fragment | Prompt) -> Holding | None:
        """Return the file whose record already has the name of *record*, if any."""
        return self._known_names.get(name_of(record))

    def place_of(self, name: tuple[str, str]) -> str | None:
        """Return the place (root/path) of the file whose record has *name*, if any."""
        held = self._known_names.get(name)
        return held and held.place

    @property
    def _known_names(self) -> dict[tuple[str, str], Holding]:
        if self._names is None:
            self._names = {(kind, name): Holding(*held) for kind, name, *held in self._db.execute(NAMES)}
        return self._names

    def delete(self, stale: Collection[Key], judged: Collection[Key]) -> None:
        """Delete all rows of *stale* files, and the diagnostics of *judged* ones."""
        sources = json.dumps([self._sources[key] for key in stale if key in self._sources])
        ids = [id_ for (id_,) in self._db.execute(FRAGMENTS_OF, {"sources": sources})]
        if len(ids) <= MOST_RECOUNTED:
            self._touched |= touch_words(self._db, ids)
        self._deleted = len(ids)
        erase_full_text(self._db, ids)
        erase_evidence(self._db, ids)
        for statement in DELETE_OF_FRAGMENTS:
            self._db.execute(statement, {"ids": str(ids)})
        for statement in DELETE_OF_SOURCES:
            self._db.execute(statement, {"sources": sources})
        keys = json.dumps(sorted({*stale, *judged}), ensure_ascii=False)
        self._db.execute(DELETE_DIAGNOSTICS, {"keys": keys})
        self._db.execute(DELETE_SOURCES, {"sources": sources})
        for key in stale:
            self._sources.pop(key, None)

    def write(self, verdicts: Iterable[Verdict]) -> None:
        """Write files and their records, in reading order; *verdicts* may judge each one lazily, after the one before.

        The `prepared` field of a fragment's verdict is the result of `prepare`.
        """
        taken: list[Verdict] = []
        for verdict in verdicts:
            taken.append(verdict)
            if verdict.record is not None:
                place = f"{verdict.source.root}/{verdict.source.path}"
                self._known_names[name_of(verdict.record)] = Holding(place, verdict.source.sha256)
        self._write_sources(one for verdict in taken for one in (*verdict.sources, (verdict.source, verdict.outcome)))
        write_diagnostics(self._db, (diagnostic for verdict in taken for diagnostic in verdict.diagnostics))
        for verdict in taken:
            if isinstance(verdict.record, Prompt):
                self._write_prompt(verdict.record)
        fragments = [
            (number, verdict.record, verdict)
            for number, verdict in enumerate((v for v in taken if isinstance(v.record, Fragment)), self._fragment + 1)
            if isinstance(verdict.record, Fragment)
        ]
        self._fragment += len(fragments)
        self._write_fragments(fragments)
        if self._evidence is not None:
            write_full_text(self._db, [number for number, *_ in fragments])
            self._evidence.add((number, verdict.prepared) for number, _, verdict in fragments)
        write_queries(self._db, (query for _, _, verdict in fragments for query in verdict.queries))

    def _write_sources(self, outcomes: Iterable[tuple[SourceFile, str]]) -> None:
        """Write files with their outcomes; a file that already has a row keeps its id."""
        latest = {(source.root, source.path): (source, outcome) for source, outcome in outcomes}
        known = (
            (what, s.mtime_ns, s.size, s.sha256, self._sources[key])
            for key, (s, what) in latest.items()
            if key in self._sources
        )
        self._db.executemany(UPDATE_SOURCE, list(known))
        new = [(key, *one) for key, one in latest.items() if key not in self._sources]
        rows = [(self._new_source(key), s.root, s.path, what, s.mtime_ns, s.size, s.sha256) for key, s, what in new]
        self._insert("source", ("id", "root", "path", "outcome", "mtime_ns", "size", "sha256"), rows)

    def _new_source(self, key: Key) -> int:
        self._last_source += 1
        self._sources[key] = self._last_source
        return self._last_source

    def _write_prompt(self, p: Prompt) -> None:
        self._prompt += 1
        self._tables.table("prompt").insert(
            {
                "id": self._prompt,
                "name": p.name,
                "title": p.title,
                "description": p.description,
                "version": p.version,
                "category": p.category,
                "body": p.body,
                "token_estimate": p.token_estimate,
                "metadata": json_text(p.metadata),
                "source_id": self._source_of(p.source),
            }
        )
        arguments = ((self._prompt, i, a.name, a.description, int(a.required)) for i, a in enumerate(p.arguments))
        self._insert("prompt_argument", ("prompt_id", "ordinal", "name", "description", "required"), arguments)

    def _fragment_record(self, number: int, f: Fragment, verdict: Verdict) -> dict[str, object]:
        """Return a fragment's row, by column."""
        return {
            "id": number,
            "category": f.category,
            "uri": fragment_uri(f.id),
            "name": f.name,
            "path": f.id,
            "size": len(f.body.encode()),
            "token_estimate": f.token_estimate,
            "author_tokens": f.author_tokens,
            "author_id": verdict.author_id,
            "author_id_line": None if verdict.author_id is None else verdict.id_line,
            "source_id": self._source_of(f.source),
            "version": f.version,
            "title": f.title,
            "description": f.description,
            "metadata": json_text(f.metadata),
        }

    def _write_fragments(self, numbered: Sequence[tuple[int, Fragment, Verdict]]) -> None:
        """Write the fragments with their texts, lists, references and bundled files."""
        self._tables.table("fragment").insert_all(self._fragment_record(*one) for one in numbered)
        fragments = [(number, fragment) for number, fragment, _ in numbered]
        also = ((n, f.body, v.prepared.also if v.prepared else "") for n, f, v in numbered)
        self._db.executemany(INSERT_BODY, also)
        for statement, lines in LISTS:
            self._db.executemany(statement, ((n, i, *one) for n, f in fragments for i, one in enumerate(lines(f))))
        self._insert_skill_files(fragments)

    def _insert_skill_files(self, fragments: Sequence[tuple[int, Fragment]]) -> None:
        bundled = [(number, file) for number, fragment in fragments for file in fragment.skill_files]
        unread = {(f.source.root, f.source.path): f.source for _, f in bundled}
        self._write_sources((source, "skill_file") for key, source in unread.items() if key not in self._sources)
        self._insert(
            "skill_file",
            ("fragment_id", "path", "size", "sha256", "content", "source_id"),
            ((n, f.path, len(f.content), f.sha256, f.content, self._source_of(f.source)) for n, f in bundled),
        )
        skills = ((number, fragment.skill) for number, fragment in fragments)
        rows = [(n, s.path, json.dumps(s.frontmatter, ensure_ascii=False)) for n, s in skills if s is not None]
        self._db.executemany("INSERT INTO temp.offered (fragment_id, path, frontmatter) VALUES (?, ?, ?)", rows)

    def _source_of(self, source: SourceFile) -> int:
        return self._sources[source.root, source.path]

    def _insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        insert_rows(self._db, table, columns, rows)

    def close(self, typical: Lengths | None = None, *, must_stay: bool = False) -> Lengths:
        """Write the postings and count words; return the typical text lengths used to weigh the postings.

        Args:
            typical: The lengths used to weigh the existing postings.
            must_stay: Use *typical* even if the lengths of the texts have changed.

        Raises:
            OtherLengths: The typical lengths have changed, so all postings must be weighed again.
        """
        measured = typical_lengths(self._db)
        if typical is not None and typical != measured:
            if not must_stay:
                raise OtherLengths
            measured = typical
        assert self._evidence is not None
        if typical is None:  # first, so that the postings reuse the pages that this frees
            self._db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('optimize')")
        self._db.executemany(FULL_TEXT_OPTION, AFTERWARDS.items())
        self._evidence.close(measured)
        settle_scenario_ids(self._db)
        added = range(self._first, self._fragment + 1)
        are_few = typical is not None and max(self._deleted, len(added)) <= MOST_RECOUNTED
        count_words(self._db, self._evidence.last, self._touched | touch_words(self._db, added) if are_few else None)
        return measured


class OtherLengths(Exception):
    """The typical text lengths of the library have changed."""


def insert_rows(db: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Insert *rows*, whose values are in the order of *columns*."""
    _tables(db).table(table).insert_all(itertools.chain((columns,), rows))


def write_diagnostics(db: sqlite3.Connection, diagnostics: Iterable[Diagnostic]) -> None:
    """Write the diagnostics of a library."""
    columns = ("severity", "code", "root", "path", "line", "field", "message", "fix")
    rows = ((d.severity.value, d.code, d.root, d.path, d.line, d.field, d.message, d.fix) for d in diagnostics)
    insert_rows(db, "diagnostic", columns, rows)


def write_queries(db: sqlite3.Connection, queries: Iterable[LibraryQuery]) -> None:
    """Write listed requests and their answers; the fragments that answer them must be written before."""
    for query in queries:
        number = db.execute(
            "INSERT INTO library_query (text, origin, terms) VALUES (?, ?, ?)",
            (query.text, query.origin, json.dumps(query.terms, ensure_ascii=False)),
        ).lastrowid
        db.executemany(
            "INSERT INTO library_answer (query_id, fragment_id) SELECT ?, id FROM fragment WHERE path = ?",
            ((number, id_) for id_ in sorted(set(query.answers))),
        )


def scenario_id(fragment_id: str, text: str, digits: int = SCENARIO_DIGITS) -> str:
    """Return the id of a scenario: `scenario-` and hex digits of the SHA-256 of "<fragment id>:<scenario>"."""
    return f"scenario-{hashlib.sha256(f'{fragment_id}:{text}'.encode()).hexdigest()[:digits]}"


def settle_scenario_ids(db: sqlite3.Connection) -> None:
    """Lengthen the ids of scenarios that share their first digits, by just enough digits to tell them apart.

    Two texts share the first 12 digits with a chance of 1 in 2^48, so there is usually nothing to do.

    Raises:
        BuildError: A fragment has the same scenario twice.
    """
    if not db.execute(ALIKE, {"length": len("scenario-") + SCENARIO_DIGITS}).fetchone()[0]:
        return
    rows = db.execute(SCENARIOS).fetchall()
    whole = {(number, i): scenario_id(path, text, WHOLE_DIGITS) for path, text, number, i in rows}
    ordered = sorted(whole.values())
    digits = dict.fromkeys(ordered, SCENARIO_DIGITS)
    for first, second in itertools.pairwise(ordered):  # in sorted order, the longest shared prefix is a neighbour's
        shared = next((at for at, (one, other) in enumerate(zip(first, second, strict=True)) if one != other), None)
        if shared is None:
            raise BuildError("Two scenarios of one fragment have the same text and could not be told apart.")
        for one in (first, second):
            digits[one] = max(digits[one], shared + 1 - len("scenario-"))
    cut = ((id_[: len("scenario-") + digits[id_]], number, i) for (number, i), id_ in whole.items())
    db.executemany(SET_SCENARIO_ID, cut)


def write_synonyms(db: sqlite3.Connection, synonyms: Sequence[Synonym]) -> None:
    """Replace all synonyms in the index with *synonyms*, even those whose forms the library lacks."""
    numbered = list(enumerate(synonyms, start=1))
    words = sorted(
        (stem, number, slot, len(synonym.slots))
        for number, synonym in numbered
        for slot, stems in enumerate(synonym.slots)
        for stem in stems
    )
    forms = ((number, i, synonym.how, form) for number, synonym in numbered for i, form in enumerate(synonym.forms))
    db.execute("DELETE FROM rank_synonym_word")
    db.execute("DELETE FROM rank_synonym_form")
    db.executemany("INSERT INTO rank_synonym_word (stem, synonym_id, slot, slots) VALUES (?, ?, ?, ?)", words)
    db.executemany("INSERT INTO rank_synonym_form (synonym_id, ordinal, how, stem) VALUES (?, ?, ?, ?)", forms)


def json_text(value: object) -> str:
    """Return *value* as JSON with sorted keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=dict)


def _tables(db: sqlite3.Connection) -> Database:
    return Database(db, recursive_triggers=False, execute_plugins=False)
