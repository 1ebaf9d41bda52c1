r"""Reads the arguments of a prompt, and rewrites its placeholders to one form.

A library declares `arguments`, and its text has `${name}`, `{{name}}` or `$ARGUMENTS`. Commands written for a client
use other placeholders, which become `${name}` here:

    $1 … $9                  the first to the ninth argument, named after `argument-hint`: [table] [change]
    $0 … $9, $ARGUMENTS[0]   the first to the tenth argument, if the text has $0 or $ARGUMENTS[…]
    $name                    one of `arguments: table change`
    ${input:name:hint}       VS Code
    $ARGUMENTS               all of them

Text that is not an argument stays: `\\$1`, `$1,000`, and all numbered placeholders if `$0` … `$9` stand only in code
blocks and there is no hint.

Source: the documentation of Claude Code (skills, string substitutions), OpenCode (commands) and VS Code (prompt files).
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.library.document import ParsedDocument
from orchestr8_sqlite.library.fields import read_maps, read_plain
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.model.requests import PromptArgument
from orchestr8_sqlite.text.markdown import Body

ALL = re.compile(r"\$ARGUMENTS\b(?!\[\d\])")
POSITION = re.compile(r"(?<![\\$\w])\$(?:ARGUMENTS\[(?P<index>\d)\]|(?P<at>\d)(?!\w|[.,]\d))")
ESCAPED = re.compile(r"\\(?=\$\d)")
INPUT = re.compile(r"\$\{input:(?P<name>[\w-]+)(?::(?P<hint>[^}]*))?\}")
HINTED = re.compile(r"\[(?P<optional>[^\[\]]+)\]|<(?P<required>[^<>]+)>")
NO_NAME = re.compile(r"[^\w.-]+")
LONGEST_NAME = 40
ANYTHING = "What the command should work on"


class Template(NamedTuple):
    """The arguments of a prompt, and its text with `${name}` or `$ARGUMENTS` in place of each."""

    arguments: Sequence[PromptArgument]
    text: str


def read_template(document: ParsedDocument, notes: Notes) -> Template:
    """Return the arguments of a prompt, from its front matter or else its text, and the rewritten text."""
    declared = _declared(document, notes)
    body, hint = document.body, read_plain(document, "argument-hint") or ""
    if declared:
        return Template(list(declared.values()), _with_names(body.text, declared))
    if INPUT.search(body.text):
        return _with_inputs(body.text)
    if found := _positions(body, hint):
        return _with_positions(body.text, found, _hinted(hint, words=found.number))
    if not hint and not ALL.search(body.text):
        return Template([], body.text)
    text = body.text if ALL.search(body.text) else f"{body.text}\n\n$ARGUMENTS"
    named = _hinted(hint)
    if len(named) == 1:
        return Template(named, text)
    return Template([PromptArgument("arguments", hint or ANYTHING, required=False)], text)


def _declared(document: ParsedDocument, notes: Notes) -> Mapping[str, PromptArgument]:
    arguments: dict[str, PromptArgument] = {}
    for line, fields in read_maps(document, "arguments", notes):
        name = " ".join(fields.get("name", "").split())
        if not name or name in arguments:
            what = f"argument {name!r} is given twice" if name else "an argument has no name"
            notes.warn("argument", f"{what}; left out", "give each a name of its own", line=line, field="arguments")
            continue
        required = fields.get("required", "false").strip().casefold() in ("true", "yes", "on")
        arguments[name] = PromptArgument(name, " ".join(fields.get("description", "").split()), required)
    return arguments


def _with_names(text: str, declared: Mapping[str, PromptArgument]) -> str:
    names = "|".join(re.escape(name) for name in declared if name.isidentifier())
    return re.sub(rf"(?<![\\$\w])\$({names})(?![\w-])", r"${\1}", text) if names else text


def _with_inputs(text: str) -> Template:
    found: dict[str, str] = {}
    for match in INPUT.finditer(text):
        found[match["name"]] = found.get(match["name"]) or " ".join((match["hint"] or "").split())
    arguments = [PromptArgument(name, hint, required=False) for name, hint in found.items()]
    return Template(arguments, INPUT.sub(r"${\g<name>}", text))


class _Positions(NamedTuple):
    """The number of the first argument, 0 or 1, and the count of arguments."""

    first: int
    number: int


def _positions(body: Body, hint: str) -> _Positions | None:
    """Return how a text numbers its arguments, or None if it has no numbered ones."""
    found = list(POSITION.finditer(body.text))
    places = {int(match["index"] or match["at"]) for match in found}
    first = 0 if 0 in places or any(match["index"] for match in found) else 1
    in_prose = any(match["index"] or not body.is_code(match.start()) for match in found)
    if not found or (first == 1 and 1 not in places) or not (in_prose or hint):
        return None
    return _Positions(first, max(places) - first + 1)


def _with_positions(text: str, found: _Positions, hinted: Sequence[PromptArgument]) -> Template:
    arguments = [*hinted[: found.number]]
    unnamed = range(len(arguments) + 1, found.number + 1)
    arguments += [PromptArgument(f"argument{number}", "", required=False) for number in unnamed]
    names = [argument.name for argument in arguments]

    def named(match: re.Match[str]) -> str:
        return f"${{{names[int(match['index'] or match['at']) - found.first]}}}"

    def joined(match: re.Match[str]) -> str:
        word = text[: match.start()].split()[-1:]
        between = "+" if not text[match.start() - 1 : match.start()].isspace() and "://" in "".join(word) else " "
        return between.join(f"${{{name}}}" for name in names)

    return Template(arguments, ESCAPED.sub("", POSITION.sub(named, ALL.sub(joined, text))))


def _hinted(hint: str, words: int = 1) -> list[PromptArgument]:
    """Return the arguments in a hint: [optional] and <required> ones, or else its words if there are *words*."""
    groups = [(one["required"] or one["optional"], one["required"] is not None) for one in HINTED.finditer(hint)]
    if not groups and len(hint.split()) == words:
        groups = [(word, False) for word in hint.split()]
    named: dict[str, PromptArgument] = {}
    for text, required in groups:
        name = NO_NAME.sub("-", text.strip()).strip("-.")[:LONGEST_NAME]
        if name and name not in named:
            named[name] = PromptArgument(name, "" if name == text.strip() else text.strip(), required)
    return list(named.values())
