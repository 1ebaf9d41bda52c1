"""Repairs typos: a word that the index does not know → the most used keyword one edit away."""

import json
import string
from collections.abc import Iterable, Iterator
from typing import Any

from orchestr8_sqlite.index.connections import Reader

MIN_TYPO_LENGTH = 4
MIN_SUBSTITUTION_LENGTH = 6
"""In letters. In a shorter word, replacing a letter often makes another word (bread, break), so that is not a typo."""

ALPHABET = string.ascii_lowercase + string.digits

WITH_A_HALF = """
SELECT k.text, k.fragment_count, k.stem, s.fragment_count
  FROM keyword_text t CROSS JOIN keyword k ON k.id = t.rowid CROSS JOIN rank_stem s ON s.stem = k.stem
 WHERE t.keyword_text MATCH :halves AND length(k.text) BETWEEN :length - 1 AND :length + 1
"""
KNOWN = """
SELECT k.text, k.fragment_count, k.stem, s.fragment_count
  FROM json_each(:words) CROSS JOIN keyword k ON k.text = value CROSS JOIN rank_stem s ON s.stem = k.stem
"""


def repair_typos(db: Reader, words: Iterable[str]) -> Iterator[tuple[str, str, str, int]]:
    """Yield, for each of *words*, the most used keyword of the index that is one edit away, if there is one.

    An edit adds, removes or replaces a letter, or swaps two neighbours; keywords with the same first letter come first.
    Words of fewer than four letters are not repaired. In words of fewer than six, no letter is replaced, and the first
    one changes only by a swap.

    Yields:
        (word, keyword, its stem, number of fragments that hold the stem).
    """
    for word in words:
        if len(word) >= MIN_TYPO_LENGTH and (known := _neighbours(db, word)):
            text, _, one, count = min(known, key=lambda row: (row[0][0] != word[0], -row[1], row[0]))
            yield word, text, one, count


def _neighbours(db: Reader, word: str) -> list[Any]:
    """Return the rows of the keywords one edit away from *word*.

    An edit leaves one half of a word unchanged, except for a swap in the middle. So FTS5 finds the keywords that hold
    either half (at least three letters), and only these few are compared. For a shorter word, all edits are looked up.
    """
    if len(word) < MIN_SUBSTITUTION_LENGTH:
        return db.execute(KNOWN, {"words": json.dumps(list(_short_edits(word)))}).fetchall()
    middle = len(word) // 2
    halves = " OR ".join('"' + half.replace('"', '""') + '"' for half in (word[:middle], word[middle:]))
    rows = db.execute(WITH_A_HALF, {"halves": halves, "length": len(word)}).fetchall()
    swapped = word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]
    rows += db.execute(KNOWN, {"words": json.dumps([swapped])}).fetchall()
    return [row for row in rows if is_one_edit(word, row[0])]


def is_one_edit(word: str, other: str) -> bool:
    """Tell whether adding, removing or replacing a letter, or swapping two neighbours, turns *word* into *other*."""
    shorter = min(len(word), len(other))
    at = next((at for at in range(shorter) if word[at] != other[at]), shorter)
    if len(word) == len(other):
        is_swapped = word[at : at + 2] == other[at : at + 2][::-1] and word[at + 2 :] == other[at + 2 :]
        return word != other and (word[at + 1 :] == other[at + 1 :] or is_swapped)
    longer, short = (word, other) if len(word) > len(other) else (other, word)
    return longer[at + 1 :] == short[at:]


def _short_edits(word: str) -> Iterator[str]:
    """Yield the likelier edits of a short word: no letter is replaced, and the first one changes only by a swap."""
    for at in range(len(word)):
        before, after = word[:at], word[at:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        if before:
            yield before + after[1:]
            yield from [before + letter + after for letter in ALPHABET]
    yield from [word + letter for letter in ALPHABET]
