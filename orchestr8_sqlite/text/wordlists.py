"""Word lists, shipped with the package or added by a library → synonyms and single words.

names.txt, needs.txt   other names, and things that may meet a need; a library's own synonyms.txt has the same form
everyday.txt           words of requests that carry no topic
foreign.txt            requests from many fields, to calibrate what counts as an answer
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.text.keywords import MAX_KEYWORD_LENGTH, STOP_WORDS, extract_keywords, stem

WORDS = Path(__file__).with_name("words")
SHIPPED = ("names.txt", "needs.txt")
OWN = "synonyms.txt"
MAX_SLOTS = 4
MOST_UNFOLDED = 1 << 20
"""Most characters that the classes of a library's own list may expand to, over all lines."""

SHOWN = 80
"""Most characters of a wrong line to show."""

CLASS = re.compile(r"\$(\w+)")
CLASS_LINE = re.compile(r"\$(\w+) = (\S+)")


class Synonym(NamedTuple):
    """Terms that can stand in for some words of a request.

    It applies if the request has a word for each of `slots`, which are the stems of alternatives. `forms` are stems
    too, the most certain first. `how` is `synonym` for another name, `related` for something that may meet the need.
    """

    slots: tuple[frozenset[str], ...]
    forms: tuple[str, ...]
    how: str


def read_synonyms(own: Iterable[tuple[str, str]] = ()) -> list[Synonym]:
    """Return the synonyms of the shipped files and of a library's own lists, given as (name, text), in that order.

    Raises:
        LibraryError: A line is not in the form that names.txt describes, or the classes of a list expand to too much.
    """
    found = (synonym for name, text in own for synonym in _parse(name, text, MOST_UNFOLDED))
    return list(dict.fromkeys([*_shipped_synonyms(), *found]))


@cache
def _shipped_synonyms() -> tuple[Synonym, ...]:
    return tuple(synonym for name in SHIPPED for synonym in _parse(name, _shipped(name)))


@cache
def everyday_words() -> frozenset[str]:
    """Return the words of requests that carry no topic."""
    return frozenset(word for line in _lines(_shipped("everyday.txt")) for word in line[1].split())


def foreign_requests() -> list[str]:
    """Return requests from many fields; a library can answer only a few of them."""
    return [line for _, line in _lines(_shipped("foreign.txt"))]


def _shipped(name: str) -> str:
    return (WORDS / name).read_text(encoding="utf-8")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of every line that is not empty or a comment."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def _parse(name: str, text: str, most: float = math.inf) -> Iterator[Synonym]:
    """Yield the synonyms of a text, whose classes may expand to at most *most* characters."""
    classes: dict[str, str] = {}
    for number, line in _lines(text):
        most -= sum(len(classes.get(used, "")) for used in CLASS.findall(line))
        if most < 0:
            raise LibraryError(f"{name}:{number}: the classes unfold to too many words; shorten them.")
        if line.startswith("$") and (defined := CLASS_LINE.fullmatch(line)):
            classes[defined[1]] = defined[2]
            continue
        found = list(_needs(line, classes) if "~" in line else _other_names(line))
        if not found:
            raise LibraryError(f"{name}:{number}: expected 'a = b' or 'a ~ b, c', found {line[:SHOWN]!r}.")
        yield from found


def _needs(line: str, classes: Mapping[str, str]) -> Iterator[Synonym]:
    left, _, right = line.partition("~")
    if "$" in left:
        if any(used not in classes for used in CLASS.findall(left)):
            return
        left = CLASS.sub(lambda used: classes[used[1]], left)
    slots = _slots(left.split())
    forms = tuple(_form(part.strip()) for part in right.split(","))
    if 1 <= len(slots) <= MAX_SLOTS and all(forms):
        yield Synonym(slots, forms, "related")


def _other_names(line: str) -> Iterator[Synonym]:
    """Yield one synonym for all names of a single word, and one for each name of several words."""
    names = [part.split() for part in line.split("=")]
    forms = tuple(dict.fromkeys(_form(words[0]) for words in names if len(words) == 1))
    if not all(names) or not all(forms) or line.startswith("$"):
        return
    if len(forms) > 1:
        yield Synonym((frozenset(forms),), forms, "synonym")
    for words in names:
        slots = _slots(words)
        if forms and 1 < len(slots) <= MAX_SLOTS:
            yield Synonym(slots, forms, "synonym")


def _slots(words: Iterable[str]) -> tuple[frozenset[str], ...]:
    """Return the stems of each word's alternatives, without words that no request can contain."""
    return tuple(slot for slot in map(_slot, words) if slot)


@cache
def _slot(word: str) -> frozenset[str]:
    """Return the stems of the alternatives of *word*, separated by slashes; cached, since classes recur."""
    return frozenset(_form(part) for part in word.split("/") if part.casefold() not in STOP_WORDS) - {""}


@cache
def _form(word: str) -> str:
    """Return the stem of the first keyword of *word*, which is the whole word; empty if it has none."""
    if word.isascii() and word.isalpha() and word.islower() and 2 <= len(word) <= MAX_KEYWORD_LENGTH:
        return "" if word in STOP_WORDS else stem(word)  # a shortcut with the result of the code below
    keywords = extract_keywords(word)
    return stem(keywords[0]) if keywords else ""
