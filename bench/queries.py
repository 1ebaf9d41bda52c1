"""Makes requests as people would type them: 2 to 6 words, some misspelt, some that nothing in the corpus answers."""

import random
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from orchestr8_sqlite.text.keywords import extract_keywords

COUNT = 500
FEWEST, MOST = 2, 6
"""Bounds of the words in a request."""

CHANGED = 0.3
"""Share of the requests in which one word comes from another document."""

MISSPELT = 0.15
"""Share of the requests with a typo in one of their words."""

OPENINGS = ("how to", "help with", "problem with", "best way", "my broken", "what about")
ELSEWHERE = """
banana bread dinner birthday wedding garden tulip kitten puppy violin sonata football holiday beach umbrella sofa
carpet bicycle tyre haircut dentist grandmother marathon sunscreen mortgage tax landlord passport choir pottery
knitting sourdough espresso camping tent waterfall parrot aquarium origami chess opening lullaby
""".split()
"""Words of requests that no library for programmers answers."""

Kind = Callable[[Mapping[str, object], random.Random], list[str]]


def make_queries(documents: Iterable[Mapping[str, object]], size: int, *, seed: int, count: int = COUNT) -> list[str]:
    """Return *count* different requests to *size* documents, or fewer if no more are found; a seed fixes them."""
    chance = random.Random(f"queries/{seed}")  # noqa: S311 - nothing secret
    chosen = choose(documents, size, 2 * count, chance)
    kinds: Sequence[Kind] = (_from_scenario, _from_title, _in_everyday_words, _from_elsewhere)
    found: dict[str, None] = {}
    for turn in range(20 * count):
        if len(found) == count:
            break
        document = chosen[turn % len(chosen)]
        words = chance.choices(kinds, (60, 20, 12, 8))[0](document, chance)
        other = chance.choice(chosen)
        if chance.random() < CHANGED and (foreign := extract_keywords(str(other["title"]))):
            words[chance.randrange(len(words))] = chance.choice(foreign)
        if chance.random() < MISSPELT:
            place = chance.randrange(len(words))
            words[place] = misspell(words[place], chance)
        query = " ".join(" ".join(words).split()[:MOST])
        if len(query.split()) >= FEWEST:
            found[query] = None
    return list(found)


def choose(
    documents: Iterable[Mapping[str, object]], size: int, count: int, chance: random.Random
) -> list[Mapping[str, object]]:
    """Return *count* of the documents, or all if there are fewer, in random order; only those are kept in memory."""
    numbers = set(chance.sample(range(size), min(count, size)))
    chosen = [document for number, document in enumerate(islice(documents, size)) if number in numbers]
    chance.shuffle(chosen)
    return chosen


def misspell(word: str, chance: random.Random) -> str:
    """Return *word* with two letters swapped, or one dropped, doubled or replaced; shorter than 4, unchanged."""
    if len(word) < 4:
        return word
    place = chance.randrange(1, len(word) - 1)
    head, one, two, tail = word[:place], word[place], word[place + 1], word[place + 2 :]
    return head + chance.choice((two + one, two, one + one + two, chance.choice(string.ascii_lowercase) + two)) + tail


def _from_scenario(document: Mapping[str, object], chance: random.Random) -> list[str]:
    """Return some words of a scenario, in its order."""
    scenarios = document["scenarios"]
    assert isinstance(scenarios, Sequence)
    words = extract_keywords(str(chance.choice(scenarios))) if scenarios else []
    if len(words) < FEWEST:
        return _from_title(document, chance)
    kept = sorted(chance.sample(range(len(words)), min(len(words), chance.randint(FEWEST, MOST))))
    return [words[place] for place in kept]


def _from_title(document: Mapping[str, object], chance: random.Random) -> list[str]:
    """Return words of the title and the first tag, in random order."""
    tags = document["tags"]
    assert isinstance(tags, Sequence)
    words = list(dict.fromkeys([*extract_keywords(str(document["title"])), *map(str, tags[:1])]))
    return chance.sample(words, min(len(words), chance.randint(FEWEST, 4))) or ["nothing"]


def _in_everyday_words(document: Mapping[str, object], chance: random.Random) -> list[str]:
    words = _from_scenario(document, chance)
    return [*chance.choice(OPENINGS).split(), *words[: MOST - 2]]


def _from_elsewhere(_: Mapping[str, object], chance: random.Random) -> list[str]:
    return chance.sample(ELSEWHERE, chance.randint(FEWEST, 4))
