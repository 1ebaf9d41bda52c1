"""A file that was read → the rows that belong to it alone: all but keywords, evidence, references and quick lookups."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from orchestr8_sqlite.bulk import insert_rows
from orchestr8_sqlite.content import Diagnostic, Fragment, LibraryQuery, Prompt, SourceFile
from orchestr8_sqlite.evidence import Held, HeldKeywords, fragment_texts, hold, hold_keywords
from orchestr8_sqlite.inversion import Keywords, Terms, invert_keywords, invert_terms
from orchestr8_sqlite.keywords import index_text
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.vocabulary import SCENARIO_DIGITS, scenario_ids

INSERT_SOURCE = """
INSERT INTO source (root, path, outcome, mtime_ns, size, sha256) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (root, path) DO UPDATE SET outcome = excluded.outcome, mtime_ns = excluded.mtime_ns,
                                           size = excluded.size, sha256 = excluded.sha256
"""
INSERT_UNREAD = """
INSERT INTO source (root, path, outcome, mtime_ns, size, sha256) VALUES (?, ?, 'skill_file', ?, ?, ?)
    ON CONFLICT (root, path) DO NOTHING
"""
"""For files of nested skills, whose own rows may come in a later batch."""

INSERT_FRAGMENT = """
INSERT INTO fragment (id, uri, category, name, path, title, description, version, size, token_estimate, author_tokens,
                      metadata, source_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM source WHERE root = ? AND path = ?))
"""
INSERT_BODY = "INSERT INTO fragment_body (fragment_id, body) VALUES (?, ?)"
INSERT_TAG = "INSERT OR FAIL INTO tag (fragment_id, tag, ordinal) VALUES (?, ?, ?)"
INSERT_CAPABILITY = "INSERT OR FAIL INTO capability (fragment_id, ordinal, text) VALUES (?, ?, ?)"
INSERT_SCENARIO = "INSERT OR FAIL INTO scenario (id, scenario_id, fragment_id, ordinal, text) VALUES (?, ?, ?, ?, ?)"
PLAIN_ID = len("scenario-") + SCENARIO_DIGITS
"""Characters of a scenario id that is not like any other."""

SAME_DIGITS = """
SELECT s.id, f.path, s.text
  FROM json_each(:heads) head
 CROSS JOIN scenario s ON s.scenario_id >= head.value AND s.scenario_id < head.value || 'g'
  JOIN fragment f ON f.id = s.fragment_id
"""
INSERT_SKILL_FILE = """
INSERT INTO skill_file (fragment_id, path, size, sha256, content, source_id)
VALUES (?, ?, ?, ?, ?, (SELECT id FROM source WHERE root = ? AND path = ?))
"""
INSERT_OFFERED = "INSERT INTO temp.offered VALUES (?, ?, ?)"
INSERT_POINTER = "INSERT OR FAIL INTO pointer (fragment_id, ordinal, target, kind, line) VALUES (?, ?, ?, ?, ?)"
INSERT_AUTHOR_ID = "INSERT INTO author_id VALUES (?, ?, ?)"
INSERT_QUERY = "INSERT INTO library_query (text, origin) VALUES (?, ?)"
INSERT_ANSWER = "INSERT OR FAIL INTO library_answer SELECT ?, id FROM fragment WHERE path = ?"
INSERT_DIAGNOSTIC = """
INSERT OR FAIL INTO diagnostic (severity, code, root, path, line, field, message, fix) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_PROMPT = """
INSERT INTO prompt (name, title, description, version, category, body, token_estimate, metadata, source_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM source WHERE root = ? AND path = ?))
"""
INSERT_ARGUMENT = "INSERT INTO prompt_argument VALUES (?, ?, ?, ?, ?)"
INSERT_TEXT = """
INSERT INTO fragment_text (rowid, name, title, tags, capabilities, scenarios, description, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

Numbered = Sequence[tuple[int, Fragment]]
"""(number, fragment); the number is the fragment's row."""


class Prepared(NamedTuple):
    """What of a fragment's rows takes long to make: its evidence, its keywords, and the columns of `fragment_text`."""

    held: Held
    keywords: HeldKeywords
    texts: tuple[str, ...]


def prepare(fragment: Fragment) -> Prepared:
    """Return what of the fragment's rows takes long to make and hangs on nothing else."""
    return Prepared(hold(fragment_texts(fragment)), hold_keywords(fragment), indexed_texts(fragment))


class PreparedBatch(NamedTuple):
    """The same of many fragments, by word."""

    terms: Terms
    keywords: Keywords
    texts: Sequence[tuple[str, ...]]


def prepare_batch(fragments: Iterable[Fragment]) -> PreparedBatch:
    """Return what `prepare` makes of *fragments*, by word."""
    prepared = list(map(prepare, fragments))
    terms = invert_terms([one.held for one in prepared])
    return PreparedBatch(terms, invert_keywords([one.keywords for one in prepared]), [one.texts for one in prepared])


def write_files(db: sqlite3.Connection, verdicts: Iterable[Verdict]) -> None:
    """Write what became of files, what is said of them, and the prompts among them."""
    verdicts = list(verdicts)
    write_sources(db, (one for verdict in verdicts for one in (*verdict.sources, (verdict.source, verdict.outcome))))
    write_diagnostics(db, (diagnostic for verdict in verdicts for diagnostic in verdict.diagnostics))
    for verdict in verdicts:
        if isinstance(verdict.record, Prompt):
            _write_prompt(db, verdict.record)


def write_sources(db: sqlite3.Connection, outcomes: Iterable[tuple[SourceFile, str]]) -> None:
    """Write files with what became of them; one that is there already keeps its number."""
    db.executemany(INSERT_SOURCE, ((s.root, s.path, what, s.mtime_ns, s.size, s.sha256) for s, what in outcomes))


def write_diagnostics(db: sqlite3.Connection, diagnostics: Iterable[Diagnostic]) -> None:
    """Write what is wrong with a library."""
    rows = ((d.severity.value, d.code, d.root, d.path, d.line, d.field, d.message, d.fix) for d in diagnostics)
    insert_rows(db, INSERT_DIAGNOSTIC, rows)


def _write_prompt(db: sqlite3.Connection, p: Prompt) -> None:
    texts = (p.name, p.title, p.description, p.version, p.category, p.body)
    row = (*texts, p.token_estimate, json_text(p.metadata), p.source.root, p.source.path)
    number = db.execute(INSERT_PROMPT, row).lastrowid
    db.executemany(
        INSERT_ARGUMENT, ((number, i, a.name, a.description, int(a.required)) for i, a in enumerate(p.arguments))
    )


def write_own_rows(db: sqlite3.Connection, fragments: Numbered) -> None:
    """Write the fragments with their texts, lists, pointers and bundled files; scenarios apart."""
    db.executemany(INSERT_FRAGMENT, (_fragment_row(n, f) for n, f in fragments))
    db.executemany(INSERT_BODY, ((n, f.body) for n, f in fragments))
    insert_rows(db, INSERT_TAG, ((n, tag, i) for n, f in fragments for i, tag in enumerate(f.tags)))
    insert_rows(db, INSERT_CAPABILITY, ((n, i, text) for n, f in fragments for i, text in enumerate(f.capabilities)))
    pointers = ((n, i, reference) for n, f in fragments for i, reference in enumerate(f.references))
    insert_rows(db, INSERT_POINTER, ((n, i, r.target, r.kind, r.line) for n, i, r in pointers))
    skills = ((n, f.skill) for n, f in fragments if f.skill is not None)
    db.executemany(INSERT_OFFERED, ((n, s.path, json.dumps(s.frontmatter, ensure_ascii=False)) for n, s in skills))
    files = [(n, file, file.source) for n, f in fragments for file in f.skill_files]
    db.executemany(INSERT_UNREAD, ((s.root, s.path, s.mtime_ns, s.size, s.sha256) for _, _, s in files))
    db.executemany(
        INSERT_SKILL_FILE,
        ((n, f.path, len(f.content), f.sha256, f.content, source.root, source.path) for n, f, source in files),
    )


def _fragment_row(number: int, f: Fragment) -> tuple[object, ...]:
    described = (f.category, f.name, f.id, f.title, f.description, f.version, len(f.body.encode()))
    estimates = (f.token_estimate, f.author_tokens, json_text(f.metadata))
    return (number, fragment_uri(f.id), *described, *estimates, f.source.root, f.source.path)


def write_said(db: sqlite3.Connection, verdicts: Iterable[tuple[int, Verdict]]) -> None:
    """Write what else the front matter of fragments says: ids of their authors' own, and requests."""
    for number, verdict in verdicts:
        if verdict.author_id is not None:
            db.execute(INSERT_AUTHOR_ID, (number, verdict.author_id, verdict.id_line))
        write_queries(db, verdict.queries)


def write_queries(db: sqlite3.Connection, queries: Iterable[LibraryQuery]) -> None:
    """Write requests with the fragments that answer them, which are written."""
    for query in queries:
        number = db.execute(INSERT_QUERY, (query.text, query.origin)).lastrowid
        db.executemany(INSERT_ANSWER, ((number, id_) for id_ in sorted(set(query.answers))))


def write_scenarios(db: sqlite3.Connection, fragments: Numbered, taken: int) -> list[tuple[int, int, str]]:
    """Write the scenarios behind row *taken* and return (scenario row, fragment number, text) of each.

    Raises:
        BuildError: Two scenarios could not be told apart by their hash.
    """
    owned = [(number, f.id, i, text) for number, f in fragments for i, text in enumerate(f.use_when)]
    ids = scenario_ids((id_, text) for _, id_, _, text in owned)
    if alike := _same_digits(db, ids):
        ids = scenario_ids([*((id_, text) for _, id_, _, text in owned), *((id_, text) for _, id_, text in alike)])
        longer = zip(ids[len(owned) :], alike, strict=True)
        db.executemany("UPDATE scenario SET scenario_id = ? WHERE id = ?", ((id_, row) for id_, (row, _, _) in longer))
    rows = list(enumerate(owned, start=taken + 1))
    insert_rows(
        db,
        INSERT_SCENARIO,
        ((row, id_, number, i, text) for (row, (number, _, i, text)), id_ in zip(rows, ids, strict=False)),
    )
    return [(row, number, text) for row, (number, _, _, text) in rows]


def shorten_ids(db: sqlite3.Connection, gone: Iterable[str]) -> None:
    """Let the scenarios that begin like those with the ids *gone* have ids as long as it takes to tell them apart."""
    alike = _same_digits(db, (id_ for id_ in gone if len(id_) > PLAIN_ID))
    ids = scenario_ids((id_, text) for _, id_, text in alike)
    db.executemany(
        "UPDATE scenario SET scenario_id = ? WHERE id = ?", zip(ids, (row for row, _, _ in alike), strict=True)
    )


def _same_digits(db: sqlite3.Connection, ids: Iterable[str]) -> list[tuple[int, str, str]]:
    """Return (row, fragment id, text) of the written scenarios whose ids begin like *ids*."""
    return db.execute(SAME_DIGITS, {"heads": json.dumps(sorted({id_[:PLAIN_ID] for id_ in ids}))}).fetchall()


def write_full_text(db: sqlite3.Connection, texts: Iterable[tuple[int, tuple[str, ...]]]) -> None:
    """Write the (number, columns of `fragment_text`) of fragments."""
    db.executemany(INSERT_TEXT, ((number, *columns) for number, columns in texts))


def indexed_texts(fragment: Fragment) -> tuple[str, ...]:
    """Return the columns of `fragment_text` for a fragment."""
    lists = ("\n".join(lines) for lines in (fragment.tags, fragment.capabilities, fragment.use_when))
    texts = (fragment.name, fragment.title, *lists, fragment.description, fragment.body)
    return tuple(index_text(text) for text in texts)


def json_text(value: object) -> str:
    """Return *value* as JSON with sorted names."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=dict)
