"""Other words of the index that a query word may stand for; each counts less than the word itself.

typo     a word that the index does not know → the most used keyword one edit away
joined   two neighbours → the keyword that they are together: type script → typescript
part     a word → the keywords that contain it: postgres → postgresql
"""

import itertools
import json
import sqlite3
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FACTORS = {"joined": 0.9, "synonym": 0.8, "typo": 0.8, "part": 0.5, "related": 0.4}
MIN_TYPO_LENGTH = 4
MIN_PART_LENGTH = 3
MAX_PARTS = 20
ALPHABET = string.ascii_lowercase + string.digits

KNOWN_WORDS = "SELECT text, fragment_count FROM keyword WHERE text IN (SELECT value FROM json_each(:words))"
SYNONYMS = "SELECT word, form, how FROM synonym WHERE word IN (SELECT value FROM json_each(:words)) ORDER BY word, form"
MAX_WORDS = 3
"""Words in a row that may have a synonym together."""

CONTAINING_WORDS = """
SELECT k.text
  FROM keyword_suffix x JOIN keyword k ON k.id = x.keyword_id
 WHERE x.suffix >= :word AND x.suffix < :word || char(1114111) AND k.text <> :word
 GROUP BY k.id ORDER BY k.fragment_count DESC, k.text LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Expansion:
    """A keyword *form* of the index that stands in for the query's *word*; *how* is a key of FACTORS."""

    word: str
    form: str
    how: str

    @property
    def factor(self) -> float:
        """Return how much the form counts, the word itself counting 1."""
        return FACTORS[self.how]


def expand(db: sqlite3.Connection, keywords: Sequence[str], counts: Mapping[str, int]) -> list[Expansion]:
    """Return the expansions of a query whose words are *keywords*, in its order.

    Typos are repaired only where at least half of the words are then understood, a repaired one counting
    half: a lucky neighbour must not make sense of a nonsense request. A word with a synonym is no typo.

    Args:
        counts: In how many fragments each keyword stands.
    """
    synonyms = list(_synonyms(db, keywords))
    named = {expansion.word for expansion in synonyms}
    unknown = [word for word in keywords if not counts[word] and word not in named]
    repairs = repair_typos(db, unknown)
    if len(keywords) - len(unknown) + len(repairs) / 2 < len(keywords) / 2:
        repairs = {}
    typos = [Expansion(word, form, "typo") for word, form in repairs.items()]
    return [*_joined(db, keywords), *typos, *synonyms]


def expand_parts(db: sqlite3.Connection, keywords: Sequence[str]) -> list[Expansion]:
    """Return the keywords that contain a word of the query, the most used ones of each."""
    return [
        Expansion(word, form, "part")
        for word in keywords
        if len(word) >= MIN_PART_LENGTH
        for (form,) in db.execute(CONTAINING_WORDS, {"word": word, "limit": MAX_PARTS})
    ]


def repair_typos(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, str]:
    """Return for each of *words* the most used keyword of the index that is one edit away, where there is one.

    An edit is a letter more, less, other, or two neighbours swapped. Words below four letters are left alone.
    """
    repairs = {}
    for word in words:
        if len(word) < MIN_TYPO_LENGTH:
            continue
        known = _known(db, sorted(set(_edits(word))))
        nearest = min(known, key=lambda form: (-known[form], form), default=None)
        if nearest is not None:
            repairs[word] = nearest
    return repairs


def _joined(db: sqlite3.Connection, keywords: Sequence[str]) -> Iterator[Expansion]:
    pairs = [(first, second) for first, second in itertools.pairwise(keywords) if first.isalpha() and second.isalpha()]
    known = _known(db, [first + second for first, second in pairs]) if pairs else {}
    for first, second in pairs:
        if first + second in known and first + second not in keywords:
            yield Expansion(first, first + second, "joined")
            yield Expansion(second, first + second, "joined")


def _synonyms(db: sqlite3.Connection, keywords: Sequence[str]) -> Iterator[Expansion]:
    """Yield other names of the words, and of up to MAX_WORDS in a row; the first word of a row stands for all."""
    rows: dict[str, str] = {}
    for length in range(MAX_WORDS, 0, -1):
        for at in range(len(keywords) - length + 1):
            rows[" ".join(keywords[at : at + length])] = keywords[at]
    for words, form, how in db.execute(SYNONYMS, {"words": json.dumps(list(rows), ensure_ascii=False)}):
        if form not in keywords:
            yield Expansion(rows[words], form, how)


def _known(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
    return dict(db.execute(KNOWN_WORDS, {"words": json.dumps(words, ensure_ascii=False)}))


def _edits(word: str) -> Iterator[str]:
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        for letter in ALPHABET:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]
        if after:
            yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
