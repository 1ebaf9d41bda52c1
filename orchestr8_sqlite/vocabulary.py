"""The keyword tables of an index: vocabulary, its suffixes, postings by scenario and by field, scenario ids."""

import hashlib
import itertools
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.tiers.weights import CAPABILITY, DESCRIPTION, NAME, SCENARIO, TAG, TITLE

CLASSIC_FIELDS = TAG | CAPABILITY | SCENARIO
SCENARIO_DIGITS = 12

DELETE_POSTINGS = """
DELETE FROM posting
 WHERE keyword_id IN (SELECT k.id FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value)
   AND scenario_id IN (SELECT id FROM scenario WHERE fragment_id = :number)
"""
DELETE_FIELD_POSTINGS = """
DELETE FROM field_posting
 WHERE keyword_id IN (SELECT k.id FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value)
   AND fragment_id = :number
"""
KNOWN = "SELECT k.text FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value"
COUNT = """
UPDATE keyword
   SET scenario_count = (SELECT count(*) FROM posting WHERE keyword_id = keyword.id),
       fragment_count = (SELECT count(*) FROM field_posting WHERE keyword_id = keyword.id AND fields & :fields)
 WHERE text IN (SELECT value FROM json_each(:keywords))
"""
UNUSED = """
SELECT k.id, k.text FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value
 WHERE NOT EXISTS (SELECT 1 FROM field_posting WHERE keyword_id = k.id)
"""


def scenario_ids(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return an id for each (fragment id, scenario text): `scenario-` and 12 hex digits of SHA-256.

    Where two texts share the first 12 digits, both get as many more as tell them apart.

    Source: shared/seeds/index-lookup.md, "Hash Generation".
    """
    digests = [hashlib.sha256(f"{fragment_id}:{text}".encode()).hexdigest() for fragment_id, text in texts]
    ordered = sorted(set(digests))
    if len(ordered) < len(digests):
        raise BuildError("Two scenarios of one fragment have the same text and could not be told apart.")
    digits = dict.fromkeys(ordered, SCENARIO_DIGITS)
    for first, second in itertools.pairwise(ordered):
        shared = next(i for i in range(64) if first[i] != second[i])
        for digest in (first, second):
            digits[digest] = max(digits[digest], shared + 1)
    return [f"scenario-{digest[: digits[digest]]}" for digest in digests]


def write_vocabulary(
    connection: sqlite3.Connection, numbered: Iterable[tuple[int, Fragment]], scenarios: Iterable[tuple[int, int, str]]
) -> None:
    """Write the keyword tables.

    Args:
        numbered: (fragment row, fragment) of each fragment.
        scenarios: (scenario row, fragment row, text) of each scenario.
    """
    postings: dict[str, list[int]] = defaultdict(list)
    fields: dict[str, dict[int, int]] = defaultdict(dict)
    for row, _, text in scenarios:
        for keyword in extract_keywords(text):
            postings[keyword].append(row)
    for fragment_row, fragment in numbered:
        for keyword, mask in _keywords(fragment).items():
            fields[keyword][fragment_row] = mask
    vocabulary = list(enumerate(sorted(fields), start=1))
    connection.executemany(
        "INSERT INTO keyword VALUES (?, ?, ?, ?, ?)",
        ((n, text, stem(text), len(postings.get(text, ())), _searchable(fields[text])) for n, text in vocabulary),
    )
    connection.executemany(
        "INSERT INTO keyword_suffix VALUES (?, ?)",
        sorted((suffix, n) for n, text in vocabulary for suffix in set(_suffixes(text))),
    )
    connection.executemany(
        "INSERT INTO posting VALUES (?, ?)", ((n, row) for n, text in vocabulary for row in postings.get(text, ()))
    )
    connection.executemany(
        "INSERT INTO field_posting VALUES (?, ?, ?)",
        ((n, row, mask) for n, text in vocabulary for row, mask in sorted(fields[text].items())),
    )


def remove_keywords(connection: sqlite3.Connection, number: int, fragment: Fragment) -> set[str]:
    """Remove the postings of a fragment whose scenarios are still written; return the keywords that it held."""
    keywords = _keywords(fragment).keys()
    values = {"keywords": _json(keywords), "number": number}
    connection.execute(DELETE_POSTINGS, values)
    connection.execute(DELETE_FIELD_POSTINGS, values)
    return set(keywords)


def add_keywords(
    connection: sqlite3.Connection, number: int, fragment: Fragment, scenarios: Iterable[tuple[int, str]]
) -> set[str]:
    """Write the postings of one fragment more and return the keywords that it holds; new ones are numbered last.

    Args:
        scenarios: (scenario row, text) of each of its scenarios.
    """
    fields = _keywords(fragment)
    known = {text for (text,) in connection.execute(KNOWN, {"keywords": _json(fields)})}
    for text in sorted(fields.keys() - known):
        row = connection.execute("INSERT INTO keyword VALUES (NULL, ?, ?, 0, 0)", (text, stem(text))).lastrowid
        connection.executemany("INSERT INTO keyword_suffix VALUES (?, ?)", ((end, row) for end in set(_suffixes(text))))
    connection.executemany(
        "INSERT INTO posting SELECT id, ? FROM keyword WHERE text = ?",
        ((row, keyword) for row, text in scenarios for keyword in extract_keywords(text)),
    )
    connection.executemany(
        "INSERT INTO field_posting SELECT id, ?, ? FROM keyword WHERE text = ?",
        ((number, mask, keyword) for keyword, mask in fields.items()),
    )
    return set(fields)


def settle_keywords(connection: sqlite3.Connection, touched: Iterable[str]) -> None:
    """Count anew who holds the keywords in *touched*, and drop those that nobody holds any more."""
    values = {"keywords": _json(touched), "fields": CLASSIC_FIELDS}
    connection.execute(COUNT, values)
    for row, text in connection.execute(UNUSED, values).fetchall():
        connection.executemany(
            "DELETE FROM keyword_suffix WHERE suffix = ? AND keyword_id = ?",
            ((end, row) for end in set(_suffixes(text))),
        )
        connection.execute("DELETE FROM keyword WHERE id = ?", (row,))


def _json(keywords: Iterable[str]) -> str:
    return json.dumps(sorted(keywords), ensure_ascii=False)


def _searchable(masks: Mapping[int, int]) -> int:
    """Return how many of the fragments hold a keyword where scenarios, tags and capabilities are searched."""
    return sum(mask & CLASSIC_FIELDS > 0 for mask in masks.values())


def _keywords(fragment: Fragment) -> dict[str, int]:
    """Return the keywords of all fields but the body, with the bits of the fields that hold them."""
    masks: dict[str, int] = defaultdict(int)
    for field, text in _fields(fragment):
        for keyword in extract_keywords(text):
            masks[keyword] |= field
    return masks


def _fields(fragment: Fragment) -> Iterator[tuple[int, str]]:
    """Yield (bit, text) of every field but the body."""
    for text in fragment.use_when:
        yield SCENARIO, text
    yield TAG, "\n".join(fragment.tags)
    yield CAPABILITY, "\n".join(fragment.capabilities)
    yield DESCRIPTION, fragment.description
    yield TITLE, fragment.title
    yield NAME, fragment.name


def _suffixes(keyword: str) -> Iterator[str]:
    """Yield the endings that a query keyword can be found by: two characters at least, one for CJK."""
    for start in range(len(keyword)):
        suffix = keyword[start:]
        if len(suffix) > 1 or not suffix.isascii():
            yield suffix
