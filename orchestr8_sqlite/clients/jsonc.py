"""Edits JSON with comments: sets one member or item and keeps every other byte, except blanks before a brace.

A document has two forms here: its *text*, and its *plain* text, which is strict JSON of the same length, with blanks
in place of comments, trailing commas and a byte order mark. Positions are the same in both.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

JSON_SPACE = " \t\r\n"
STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
"""A string; an unclosed one extends to the end of the text, so that it is scanned only once."""

COMMENTS = re.compile(STRING + r"|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
COMMAS = re.compile(STRING + r"|[{\[:,][ \t\r\n]*,|,(?=[ \t\r\n]*[}\]])", re.DOTALL)
"""Strings, commas with no value before them, and trailing commas; only trailing commas are blanked."""

GAP = re.compile(r"[ \t\r\n]*")
INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Member:
    """One `key: value` of an object and the positions of both."""

    key: str
    start: int
    value_start: int
    value_end: int


def parse(text: str) -> object:
    """Return the value of *text*; None if it contains only comments.

    Raises:
        ValueError: It is not JSON, even without comments and trailing commas.
    """
    plain = _plain(text)
    return json.loads(plain) if plain.strip(JSON_SPACE) else None


def is_strict(text: str) -> bool:
    """Tell whether *text* has neither comments nor trailing commas."""
    return _plain(text) == _without_mark(text)


def with_member(text: str, path: Sequence[str], value: object) -> str:
    """Return *text* with *value* at *path*, a list of keys, replacing any value there.

    *text* must parse, and every value that it already has on the way to the last key must be an object.
    """
    plain = _plain(text)
    if not plain.strip(JSON_SPACE):
        text += ("" if not text or text.endswith("\n") else "\n") + "{}\n"
        plain = _plain(text)
    start = end = _after_gap(plain, 0)
    for depth, key in enumerate(path):
        members, close = _members(plain, start)
        found = next((member for member in reversed(members) if member.key == key), None)
        if found is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return _with_new_member(text, start, members, close, key, value)
        start, end = found.value_start, found.value_end
    return text[:start] + _layout(value, _indent_of_line(text, start), text) + text[end:]


def with_item(text: str, path: Sequence[str], place: int, value: object) -> str:
    """Return *text* with *value* at *place* of the list at *path*: instead of the item there, or after the last one."""
    items, close = _items(_plain(text), path)
    written = json.dumps(value, ensure_ascii=False)
    if place < len(items):
        start, end = items[place]
        return text[:start] + written + text[end:]
    if not items:
        return text[:close] + written + text[close:]
    start, end = items[-1]
    before = text[_line_start(text, start) : start]
    gap = " " if before.strip(JSON_SPACE) else _newline(text) + before
    return f"{text[:end]},{gap}{written}{text[end:]}"


def without_item(text: str, path: Sequence[str], place: int) -> str:
    """Return *text* without the item at *place* of the list at *path*, and without its comma."""
    plain = _plain(text)
    items, _ = _items(plain, path)
    start, end = items[place]
    if place + 1 < len(items):
        comma = plain.index(",", end)
        return text[:start] + (text[end:comma] + text[comma + 1 :]).lstrip(JSON_SPACE)
    if place:
        comma = plain.index(",", items[place - 1][1])
        return text[:comma] + text[comma + 1 : start].rstrip(JSON_SPACE) + text[end:]
    return text[:start] + text[end:]


def _items(plain: str, path: Sequence[str]) -> tuple[list[tuple[int, int]], int]:
    """Return start and end of each item of the list at *path*, and the position of its closing bracket."""
    start = _after_gap(plain, 0)
    for key in path:
        start = next(member for member in reversed(_members(plain, start)[0]) if member.key == key).value_start
    items: list[tuple[int, int]] = []
    position = _after_gap(plain, start + 1)
    while plain[position] != "]":
        end = DECODER.raw_decode(plain, position)[1]
        items.append((position, end))
        position = _after_gap(plain, end)
        if plain[position] == ",":
            position = _after_gap(plain, position + 1)
    return items, position


def _plain(text: str) -> str:
    return COMMAS.sub(_blanked, COMMENTS.sub(_blanked, _without_mark(text)))


def _without_mark(text: str) -> str:
    """Return *text* with a space for a byte order mark."""
    return " " + text[1:] if text.startswith("\ufeff") else text


def _blanked(match: re.Match[str]) -> str:
    found = match[0]
    is_comment = found.startswith("//") or (found.startswith("/*") and found.endswith("*/") and found != "/*/")
    return " " * len(found) if found == "," or is_comment else found


def _members(plain: str, start: int) -> tuple[list[Member], int]:
    """Return the members of the object at *start* and the position of its closing brace."""
    members: list[Member] = []
    position = _after_gap(plain, start + 1)
    while plain[position] != "}":
        key, end = DECODER.raw_decode(plain, position)
        value_start = _after_gap(plain, _after_gap(plain, end) + 1)
        value_end = DECODER.raw_decode(plain, value_start)[1]
        members.append(Member(key, position, value_start, value_end))
        position = _after_gap(plain, value_end)
        if plain[position] == ",":
            position = _after_gap(plain, position + 1)
    return members, position


def _with_new_member(text: str, start: int, members: Sequence[Member], close: int, key: str, value: object) -> str:
    """Return *text* with a new last member in the object from *start* to *close*; comments stay on their lines."""
    newline = _newline(text)
    outer = _indent_of_line(text, start)
    inner = outer + _unit(text)
    end = start + 1 + len(text[start + 1 : close].rstrip(JSON_SPACE))
    head = text[:end]
    comma = ""
    if members:
        if _indent_of_line(text, members[-1].start) == text[_line_start(text, members[-1].start) : members[-1].start]:
            inner = _indent_of_line(text, members[-1].start)
        last = members[-1].value_end
        if _has_comma(text, last, close):
            comma = ","
        else:
            head = text[:last] + "," + text[last:end]
    gap = text[end:close]
    tail = gap if "\n" in gap else newline + outer
    return f"{head}{newline}{inner}{json.dumps(key)}: {_layout(value, inner, text)}{comma}{tail}{text[close:]}"


def _has_comma(text: str, position: int, close: int) -> bool:
    """Tell whether a trailing comma follows the last member, which ends at *position*."""
    return COMMENTS.sub(_blanked, text[position:close]).lstrip(JSON_SPACE).startswith(",")


def _layout(value: object, indent: str, text: str) -> str:
    """Return *value* as JSON: an object with one line per member, anything else on one line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    newline, inner = _newline(text), indent + _unit(text)
    lines = [f"{inner}{json.dumps(key)}: {_layout(each, inner, text)}" for key, each in value.items()]
    return "{" + newline + f",{newline}".join(lines) + newline + indent + "}"


def _after_gap(plain: str, position: int) -> int:
    gap = GAP.match(plain, position)
    assert gap is not None
    return gap.end()


def _line_start(text: str, position: int) -> int:
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def _indent_of_line(text: str, position: int) -> str:
    line = text[_line_start(text, position) : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return the indent of one level: that of the first indented line, else two spaces."""
    first = INDENT.search(text)
    return first[1] if first else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
