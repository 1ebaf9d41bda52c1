"""The keyword tables of an index: vocabulary, its suffixes, postings by scenario and by field, scenario ids."""

import hashlib
import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.keywords import extract_keywords, stem
from orchestr8_sqlite.model import Fragment
from orchestr8_sqlite.tiers.weights import CAPABILITY, DESCRIPTION, NAME, SCENARIO, TAG, TITLE

CLASSIC_FIELDS = TAG | CAPABILITY | SCENARIO
SCENARIO_DIGITS = 12


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
    connection: sqlite3.Connection, fragments: Sequence[Fragment], scenarios: Iterable[tuple[int, int, str]]
) -> None:
    """Write the keyword tables.

    Args:
        scenarios: (scenario row, fragment row, text) of each scenario.
    """
    postings: dict[str, list[int]] = defaultdict(list)
    fields: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row, fragment_row, text in scenarios:
        for keyword in extract_keywords(text):
            postings[keyword].append(row)
            fields[keyword][fragment_row] |= SCENARIO
    for fragment_row, fragment in enumerate(fragments, start=1):
        for field, text in _fields(fragment):
            for keyword in extract_keywords(text):
                fields[keyword][fragment_row] |= field
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


def _searchable(masks: Mapping[int, int]) -> int:
    """Return how many of the fragments hold a keyword where scenarios, tags and capabilities are searched."""
    return sum(mask & CLASSIC_FIELDS > 0 for mask in masks.values())


def _fields(fragment: Fragment) -> Iterator[tuple[int, str]]:
    """Yield (bit, text) of every field but scenarios and body."""
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
