"""A fragment → the rows that belong to it alone: all but keywords, evidence and quick lookups."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import Held, Listed, fragment_texts, hold
from orchestr8_sqlite.keywords import index_text
from orchestr8_sqlite.uris import fragment_uri
from orchestr8_sqlite.vocabulary import SCENARIO_DIGITS, HeldKeywords, hold_keywords, scenario_ids

INSERT_FRAGMENT = """
INSERT INTO fragment (id, uri, category, name, path, title, description, version, size, token_estimate, author_tokens,
                      metadata, source_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_BODY = "INSERT INTO fragment_body (fragment_id, body) VALUES (?, ?)"
INSERT_TAG = "INSERT INTO tag (fragment_id, tag, ordinal) VALUES (?, ?, ?)"
INSERT_CAPABILITY = "INSERT INTO capability (fragment_id, ordinal, text) VALUES (?, ?, ?)"
INSERT_SCENARIO = "INSERT INTO scenario (id, scenario_id, fragment_id, ordinal, text) VALUES (?, ?, ?, ?, ?)"
PLAIN_ID = len("scenario-") + SCENARIO_DIGITS
"""Characters of a scenario id that is not like any other."""

SAME_DIGITS = """
SELECT s.id, f.path, s.text
  FROM json_each(:heads) head
 CROSS JOIN scenario s ON s.scenario_id >= head.value AND s.scenario_id < head.value || 'g'
  JOIN fragment f ON f.id = s.fragment_id
"""
INSERT_SKILL = "INSERT INTO skill (fragment_id, path, frontmatter) VALUES (?, ?, ?)"
INSERT_SKILL_FILE = """
INSERT INTO skill_file (fragment_id, path, size, sha256, content, source_id) VALUES (?, ?, ?, ?, ?, ?)
"""
INSERT_REFERENCE = """
INSERT INTO reference (fragment_id, ordinal, target, target_id, kind, line) VALUES (?, ?, ?, ?, ?, ?)
"""
INSERT_TEXT = """
INSERT INTO fragment_text (rowid, name, title, tags, capabilities, scenarios, description, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

Sources = Mapping[tuple[str, str], int]
"""Root and path of a file → its row."""

Numbered = Sequence[tuple[int, Fragment]]
"""(number, fragment); the number is the fragment's row."""


class Prepared(NamedTuple):
    """What of a fragment's rows takes long to make: its evidence, its keywords, and the columns of `fragment_text`."""

    held: Held
    keywords: HeldKeywords
    texts: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle makes it of again: tuples of words, small numbers as bytes."""
        lengths, short, name, body = self.held
        bits, counts = map(bytes, zip(*short.values(), strict=True)) if short else (b"", b"")
        held = lengths, name, tuple(short), bits, counts, tuple(body), bytes([*body.values()])
        fields, scenarios = self.keywords
        return _prepared, (*held, tuple(fields), bytes([*fields.values()]), scenarios, self.texts)


def _prepared(
    lengths: Mapping[int, int],
    name: Mapping[str, int],
    short: Sequence[str],
    bits: bytes,
    counts: bytes,
    body: Sequence[str],
    body_counts: bytes,
    keywords: Sequence[str],
    fields: bytes,
    scenarios: Sequence[Sequence[str]],
    texts: tuple[str, ...],
) -> Prepared:
    held = Held(lengths, Listed(short, list(zip(bits, counts, strict=True))), name, Listed(body, body_counts))
    return Prepared(held, HeldKeywords(Listed(keywords, fields), scenarios), texts)


def prepare(fragment: Fragment) -> Prepared:
    """Return what of the fragment's rows takes long to make and hangs on nothing else."""
    return Prepared(hold(fragment_texts(fragment)), hold_keywords(fragment), indexed_texts(fragment))


def write_own_rows(db: sqlite3.Connection, fragments: Numbered, sources: Sources) -> None:
    """Write the fragments with their texts and lists; scenarios, skills and references apart."""
    db.executemany(INSERT_FRAGMENT, (_fragment_row(n, f, sources) for n, f in fragments))
    db.executemany(INSERT_BODY, ((n, f.body) for n, f in fragments))
    db.executemany(INSERT_TAG, ((n, tag, i) for n, f in fragments for i, tag in enumerate(f.tags)))
    db.executemany(INSERT_CAPABILITY, ((n, i, text) for n, f in fragments for i, text in enumerate(f.capabilities)))


def _fragment_row(number: int, f: Fragment, sources: Sources) -> tuple[object, ...]:
    described = (f.category, f.name, f.id, f.title, f.description, f.version, len(f.body.encode()))
    source = sources[f.source.root, f.source.path]
    return (number, fragment_uri(f.id), *described, f.token_estimate, f.author_tokens, json_text(f.metadata), source)


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
    db.executemany(
        INSERT_SCENARIO,
        ((row, id_, number, i, text) for (row, (number, _, i, text)), id_ in zip(rows, ids, strict=False)),
    )
    return [(row, number, text) for row, (number, _, _, text) in rows]


def _same_digits(db: sqlite3.Connection, ids: Iterable[str]) -> list[tuple[int, str, str]]:
    """Return (row, fragment id, text) of the written scenarios whose ids begin like *ids*."""
    return db.execute(SAME_DIGITS, {"heads": json.dumps([id_[:PLAIN_ID] for id_ in ids])}).fetchall()


def write_skills(db: sqlite3.Connection, fragments: Numbered, sources: Sources) -> None:
    """Write which fragments are Agent Skills, and the files bundled with them."""
    skills = ((number, fragment.skill) for number, fragment in fragments if fragment.skill is not None)
    db.executemany(
        INSERT_SKILL, ((n, skill.path, json.dumps(skill.frontmatter, ensure_ascii=False)) for n, skill in skills)
    )
    files = ((number, file) for number, fragment in fragments for file in fragment.skill_files)
    db.executemany(
        INSERT_SKILL_FILE,
        (
            (n, file.path, len(file.content), file.sha256, file.content, sources[file.source.root, file.source.path])
            for n, file in files
        ),
    )


def write_references(db: sqlite3.Connection, fragments: Numbered, numbers: Mapping[str, int]) -> None:
    """Write what the fragments point to; *numbers* has those of the whole library by their ids."""
    pointing = ((n, i, reference) for n, fragment in fragments for i, reference in enumerate(fragment.references))
    db.executemany(INSERT_REFERENCE, ((n, i, r.target, numbers.get(r.target), r.kind, r.line) for n, i, r in pointing))


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
