"""A client's listing of skills: what it shows of each, what it leaves out, and which skills then look the same."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import comb
from typing import NamedTuple

from orchestr8_sqlite.budget.rules import Overflow, Rule
from orchestr8_sqlite.text.tokens import estimate_tokens

ELLIPSIS = "…"


class Skill(NamedTuple):
    """What a client reads of a skill; a `manual` one is only for people to call. `uri` is that of its fragment."""

    name: str
    description: str
    manual: bool = False
    uri: str = ""


class Fate(StrEnum):
    """What becomes of a skill in a listing."""

    WHOLE = "whole"
    CUT = "cut"
    NAME = "name only"
    DROPPED = "dropped"


class Entry(NamedTuple):
    """A skill and what is left of its description; None if the skill is not listed at all."""

    skill: Skill
    left: str | None

    @property
    def fate(self) -> Fate:
        """Return what becomes of the skill."""
        if self.left is None:
            return Fate.DROPPED
        if not self.left:
            return Fate.NAME
        return Fate.WHOLE if self.left == self.skill.description else Fate.CUT


class Listing(NamedTuple):
    """What a client lists of a library; `room` is None if there is no limit or none is known."""

    rule: Rule
    room: int | None
    entries: tuple[Entry, ...]

    @property
    def is_known(self) -> bool:
        """Tell whether the client's rule is known; if not, every skill counts as listed."""
        return self.rule.overflow is not Overflow.UNKNOWN

    @property
    def fates(self) -> Mapping[Fate, int]:
        """Return how many skills have each fate."""
        counts = Counter(entry.fate for entry in self.entries)
        return {fate: counts[fate] for fate in Fate}

    @property
    def lost(self) -> int:
        """Return the number of skills without a description, listed or not: no request can be matched to them."""
        return self.fates[Fate.NAME] + self.fates[Fate.DROPPED]

    @property
    def tokens(self) -> int:
        """Return the estimated tokens of the library's part of the listing, which every message carries."""
        return estimate_tokens("\n".join(_shown(self.rule, entry) for entry in self.entries if entry.left is not None))

    def alike(self) -> list[list[str]]:
        """Return the names of skills that look the same once they are cut, though they differ; largest group first.

        They have the same rest of a description, or the same bare name.
        """
        return [[entry.skill.name for entry in group] for group, _ in _alike(self.entries)]

    @property
    def pairs(self) -> int:
        """Return the number of pairs in these groups whose descriptions differ."""
        return sum(pairs for _, pairs in _alike(self.entries))


def list_skills(rule: Rule, skills: Sequence[Skill], context: int | None = None) -> Listing:
    """Return what a client lists of *skills*, which come in the order of their names.

    Args:
        context: Tokens of the model's context; by default the client's usual one.
    """
    offered = [skill for skill in skills if not (skill.manual and rule.manual)]
    room = rule.capacity(context)
    own = [Skill(name, "x" * length) for name, length in rule.own.items()]
    if room is None:
        left: list[str | None] = [_at_most(rule.longest, skill.description) for skill in offered]
    else:
        left = LEFT[rule.overflow](rule, room, own, offered)
    entries = (Entry(skill, one) for skill, one in zip(offered, left, strict=True))
    return Listing(rule, room, tuple(entries))


def _name(rule: Rule, room: int, own: Sequence[Skill], skills: Sequence[Skill]) -> list[str | None]:
    """Return what is left if all names stay and descriptions stay whole as long as they fit."""
    room += 1  # no line feed follows the last line
    room -= sum(_cost(rule, skill.name, skill.description) for skill in own)
    room -= sum(_cost(rule, skill.name, "") for skill in skills)
    left: list[str | None] = []
    for skill in skills:
        described = _at_most(rule.longest, skill.description)
        more = _cost(rule, skill.name, described) - _cost(rule, skill.name, "")
        fits = more <= room
        room -= more if fits else 0
        left.append(described if fits else "")
    return left


def _shorten(rule: Rule, room: int, own: Sequence[Skill], skills: Sequence[Skill]) -> list[str | None]:
    """Return what is left if all descriptions grow letter by letter until the room is full.

    If not even the bare names fit, those stay that do, in order.
    """
    listed = [*own, *skills]
    texts = [_at_most(rule.longest, skill.description) for skill in listed]
    spent = [_cost(rule, skill.name, "") for skill in listed]
    room -= sum(spent)
    if room < 0:
        return _bare(rule, room + sum(spent), listed)[len(own) :]
    lengths = [0] * len(listed)
    growing = [number for number, text in enumerate(texts) if text]
    while growing:
        still = []
        for number in growing:
            longer = texts[number][: lengths[number] + 1]
            more = _cost(rule, listed[number].name, longer) - spent[number]
            if more <= room:
                room, spent[number], lengths[number] = room - more, spent[number] + more, len(longer)
                if lengths[number] < len(texts[number]):
                    still.append(number)
        growing = still
    left: list[str | None] = [text[:length] for text, length in zip(texts, lengths, strict=True)]
    return left[len(own) :]


def _bare(rule: Rule, room: int, skills: Sequence[Skill]) -> list[str | None]:
    left: list[str | None] = []
    for skill in skills:
        cost = _cost(rule, skill.name, "")
        fits = cost <= room
        room -= cost if fits else 0
        left.append("" if fits else None)
    return left


def _stop(rule: Rule, room: int, own: Sequence[Skill], skills: Sequence[Skill]) -> list[str | None]:
    """Return what is left if whole entries stay up to the first that does not fit, and some names after it."""
    room -= sum(_cost(rule, skill.name, skill.description) for skill in own)
    left: list[str | None] = []
    for skill in skills:
        described = _at_most(rule.longest, skill.description)
        room -= _cost(rule, skill.name, described)
        if room < 0:
            break
        left.append(described)
    named, separator = rule.names, 0
    for skill in skills[len(left) :]:
        named -= separator + len(skill.name)
        separator = len(", ")
        if named < 0:
            break
        left.append("")
    return left + [None] * (len(skills) - len(left))


LEFT: Mapping[Overflow, Callable[[Rule, int, Sequence[Skill], Sequence[Skill]], list[str | None]]] = {
    Overflow.NAME: _name,
    Overflow.SHORTEN: _shorten,
    Overflow.STOP: _stop,
}


def _at_most(longest: int | None, description: str) -> str:
    if longest is None or len(description) <= longest:
        return description
    return description[: longest - 1] + ELLIPSIS


def _cost(rule: Rule, name: str, description: str) -> int:
    return rule.cost(_line(rule, name, description))


def _shown(rule: Rule, entry: Entry) -> str:
    return _line(rule, entry.skill.name, entry.left or "")


def _line(rule: Rule, name: str, description: str) -> str:
    return (rule.entry if description else rule.bare).format(name=name, description=description)


def _alike(entries: Sequence[Entry]) -> list[tuple[list[Entry], int]]:
    """Return (entries that look the same, pairs of them that were different), most pairs first."""
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.fate is Fate.NAME:
            groups["name", entry.skill.name].append(entry)
        elif entry.left:
            groups["text", _folded(entry.left)].append(entry)
    counted = [(group, _different_pairs(group)) for group in groups.values()]
    return sorted((one for one in counted if one[1]), key=lambda one: -one[1])


def _different_pairs(group: Sequence[Entry]) -> int:
    same = Counter(_folded(entry.skill.description) for entry in group)
    return comb(len(group), 2) - sum(comb(count, 2) for count in same.values())


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
