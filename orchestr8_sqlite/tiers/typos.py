"""Slips of the keyboard: a word that the index does not know → the most used keyword one edit away."""

import json
import sqlite3
import string
from collections.abc import Iterable, Iterator

MIN_TYPO_LENGTH = 4
MIN_SUBSTITUTION_LENGTH = 6
"""Letters; in a shorter word another letter makes another word (bread, break), so it is not taken for a slip."""

ALPHABET = string.ascii_lowercase + string.digits

KNOWN_WORDS = """
SELECT k.text, k.fragment_count, t.stem, t.fragment_count
  FROM json_each(:words) CROSS JOIN keyword k ON k.text = value CROSS JOIN term t ON t.stem = k.stem
"""
NEIGHBOURS = """
SELECT (SELECT max(text) FROM keyword WHERE text <= :word), (SELECT min(text) FROM keyword WHERE text >= :word),
       (SELECT key FROM json_each(:endings)
         WHERE EXISTS (SELECT 1 FROM keyword_suffix WHERE suffix = value) ORDER BY key LIMIT 1)
"""


def repair_typos(db: sqlite3.Connection, words: Iterable[str]) -> Iterator[tuple[str, str, str, int]]:
    """Yield for each of *words* the most used keyword of the index that is one edit away, where there is one.

    An edit is a letter more, less, other, or two neighbours swapped; one that keeps the first letter is likelier.
    Words below four letters are left alone; in words below six the first letter stays and none is taken for another.

    Yields:
        (word, keyword, its stem, how many fragments hold that).
    """
    for word in words:
        if len(word) < MIN_TYPO_LENGTH:
            continue
        edits = list(_edits(word, *_bounds(db, word)))
        if edits and (known := db.execute(KNOWN_WORDS, {"words": json.dumps(edits)}).fetchall()):
            text, _, one, count = min(known, key=lambda row: (row[0][0] != word[0], -row[1], row[0]))
            yield word, text, one, count


def _bounds(db: sqlite3.Connection, word: str) -> tuple[int, int]:
    """Return how many letters at most a keyword begins with as *word* does, and where what it ends with may start."""
    endings = [word[start:] for start in range(len(word) - 1)]
    before, behind, start = db.execute(NEIGHBOURS, {"word": word, "endings": json.dumps(endings)}).fetchone()
    begun = max(_shared(word, other or "") for other in (before, behind))
    return begun, len(endings) if start is None else start


def _shared(word: str, other: str) -> int:
    """Return how many letters both begin with."""
    pairs = enumerate(zip(word, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(word), len(other)))


def _edits(word: str, begun: int, ended: int) -> Iterator[str]:
    """Yield what is one edit away, for short words the likelier edits only.

    What comes before an edit begins a keyword, and what comes behind it ends one: the first *begun* letters at most,
    and from the letter *ended* on at most. That leaves a few places to look at.
    """
    short = len(word) < MIN_SUBSTITUTION_LENGTH
    for at in range(max(0, ended - 2), begun + 1):
        before, after = word[:at], word[at:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        if short and not before:
            continue
        if after and at + 1 >= ended:
            yield before + after[1:]
            if not short:
                yield from [before + letter + after[1:] for letter in ALPHABET]
        if at >= ended:
            yield from [before + letter + after for letter in ALPHABET]
