"""Words as real text spreads them: those of a library by how often it uses them, and ever new ones behind them."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from orchestr8_sqlite.text.keywords import STOP_WORDS

HEAPS = 0.6
"""Exponent of vocabulary growth: n words of text hold about n ** HEAPS different ones. Source: Heaps' law, measured
between 0.4 and 0.7 on English text; technical text, with its identifiers, lies high."""

WORD = re.compile(r"\w+://\S+|[A-Za-z][A-Za-z0-9]+(?:[-_./][A-Za-z0-9]+)*[A-Za-z0-9]")
"""A word of a text with all of its parts (`max_retries`), or an address, which stays as it is."""

YAML_WORDS = frozenset("true false null yes off".split())
"""Words that front matter would not read as text."""

ONSETS = "b br d dr f g gr k kl l m n p r s st t v".split()
VOWELS = "a e i o u".split()
CODAS = ("", "l", "n", "r")
SYLLABLES = ["".join(parts) for parts in itertools.product(ONSETS, VOWELS, CODAS)]
SCATTER = 7_919_917
"""Coprime to the number of words of three syllables: neighbouring ranks are spelled differently."""


class Vocabulary:
    """Words to draw from: known ones by their counts, new ones as often as the counts promise."""

    def __init__(self, counts: Counter[str]) -> None:
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        once = sum(count == 1 for count in counts.values())
        self._words: list[str | None] = [*(word for word, _ in ranked), None]
        self._cumulated = list(itertools.accumulate([*(count for _, count in ranked), max(once, 1)]))

    def draw(self, source: random.Random, count: int) -> list[str]:
        """Return *count* words.

        As many are new as would be in more text of the kind: the share of words that the library holds once. Source:
        Good (1953), "The population frequencies of species". Their ranks go on behind those of the known words.
        """
        drawn = source.choices(self._words, cum_weights=self._cumulated, k=count)
        return [invent_word(self._new_rank(source)) if word is None else word for word in drawn]

    def _new_rank(self, source: random.Random) -> int:
        """Return the rank of a new word, 0 for the most frequent: they fall so that the vocabulary grows by HEAPS."""
        spread = float((1 - source.random()) ** (-HEAPS / (1 - HEAPS)))
        return int(len(self._words) * (spread - 1))


def invent_word(rank: int) -> str:
    """Return the new word of a *rank*, three syllables long."""
    number = rank * SCATTER % len(SYLLABLES) ** 3
    first, rest = divmod(number, len(SYLLABLES) ** 2)
    return SYLLABLES[first] + SYLLABLES[rest // len(SYLLABLES)] + SYLLABLES[rest % len(SYLLABLES)]


def cut_text(text: str) -> list[str]:
    """Return *text* in pieces of which those at odd places are its content words."""
    pieces, end = [], 0
    for match in WORD.finditer(text):
        word = match[0]
        if "://" not in word and word.casefold() not in STOP_WORDS:
            pieces += [text[end : match.start()], word]
            end = match.end()
    return [*pieces, text[end:]]


def count_words(layouts: Iterable[Sequence[str]]) -> Counter[str]:
    """Return how often each content word stands in texts that `cut_text` has cut."""
    counts: Counter[str] = Counter()
    for pieces in layouts:
        counts.update(word for word in pieces[1::2] if word.casefold() not in YAML_WORDS)
    return counts
