"""Draws words with the frequencies of real text: the words of a library as often as it uses them, and new ones."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from orchestr8_sqlite.text.keywords import STOP_WORDS

HEAPS = 0.6
"""Exponent of vocabulary growth: n words of text contain about n ** HEAPS different ones. Source: Heaps' law, measured
between 0.4 and 0.7 on English text; technical text, with its identifiers, is at the upper end."""

WORD = re.compile(r"\w+://\S+|[A-Za-z][A-Za-z0-9]+(?:[-_./][A-Za-z0-9]+)*[A-Za-z0-9]")
"""A word with all its parts (`max_retries`), or a URL, which is never replaced."""

YAML_WORDS = frozenset("true false null yes off".split())
"""Words that YAML would not read as text."""

ONSETS = "b br d dr f g gr k kl l m n p r s st t v".split()
VOWELS = "a e i o u".split()
CODAS = ("", "l", "n", "r")
SYLLABLES = ["".join(parts) for parts in itertools.product(ONSETS, VOWELS, CODAS)]
SCATTER = 7_919_917
"""Coprime to the number of three-syllable words, so ranks stay distinct and neighbours look different."""


class Vocabulary:
    """Words to draw from: known ones by their counts, and new ones at the rate that the counts predict."""

    def __init__(self, counts: Counter[str]) -> None:
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        once = sum(count == 1 for count in counts.values())
        self._words: list[str | None] = [*(word for word, _ in ranked), None]
        self._cumulated = list(itertools.accumulate([*(count for _, count in ranked), max(once, 1)]))

    def draw(self, source: random.Random, count: int) -> list[str]:
        """Return *count* words.

        New words are as frequent as in more text of this kind: their share is that of words that occur once. Source:
        Good (1953), "The population frequencies of species". They rank behind all known words.
        """
        drawn = source.choices(self._words, cum_weights=self._cumulated, k=count)
        return [invent_word(self._new_rank(source)) if word is None else word for word in drawn]

    def _new_rank(self, source: random.Random) -> int:
        """Return the rank of a new word, 0 for the most frequent, drawn so that the vocabulary grows as n ** HEAPS."""
        spread = float((1 - source.random()) ** (-HEAPS / (1 - HEAPS)))
        return int(len(self._words) * (spread - 1))


def invent_word(rank: int) -> str:
    """Return the new word of *rank*, three syllables long."""
    number = rank * SCATTER % len(SYLLABLES) ** 3
    first, rest = divmod(number, len(SYLLABLES) ** 2)
    return SYLLABLES[first] + SYLLABLES[rest // len(SYLLABLES)] + SYLLABLES[rest % len(SYLLABLES)]


def cut_text(text: str) -> list[str]:
    """Return *text* cut into pieces; those at odd places are its content words."""
    pieces, end = [], 0
    for match in WORD.finditer(text):
        word = match[0]
        if "://" not in word and word.casefold() not in STOP_WORDS:
            pieces += [text[end : match.start()], word]
            end = match.end()
    return [*pieces, text[end:]]


def count_words(layouts: Iterable[Sequence[str]]) -> Counter[str]:
    """Return the count of each content word in texts that `cut_text` has cut."""
    counts: Counter[str] = Counter()
    for pieces in layouts:
        counts.update(word for word in pieces[1::2] if word.casefold() not in YAML_WORDS)
    return counts
