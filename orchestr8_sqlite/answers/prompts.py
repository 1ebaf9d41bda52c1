"""Finds the prompts of an index and fills their templates with the user's values.

    $ARGUMENTS          the first argument; if it was not given, all others joined by spaces
    ${name} · {{name}}  the argument *name*

All placeholders are replaced in one pass, so a value is never searched for placeholders itself. Inside an
`orchestr8://…` URI a value is percent-encoded and, in a query, cut to SEARCHED characters. An argument that was not
given becomes the empty text. A name that the prompt does not declare is not a placeholder and stays as it is (`${HOME}`
in a script).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import storable
from orchestr8_sqlite.model.requests import SCHEME, PromptArgument
from orchestr8_sqlite.text.wording import SUGGESTIONS, nearest, one_line

PROMPT_COLUMNS = "SELECT id, name, title, description, version, body FROM prompt"
PROMPTS = f"{PROMPT_COLUMNS} WHERE name > :after ORDER BY name LIMIT :limit"
PROMPT = f"{PROMPT_COLUMNS} WHERE name = :name"
PROMPT_ARGUMENTS = "SELECT name, description, required FROM prompt_argument WHERE prompt_id = :id ORDER BY ordinal"

MOST_COMPARED = 500
"""Most prompts to compare an unknown name with."""

PLACEHOLDER = re.compile(r"\$ARGUMENTS\b|\$\{(?P<dollar>[\w.-]+)\}|\{\{\s*(?P<braces>[\w.-]+)\s*\}\}")
URI = re.compile(rf"{SCHEME}://(?:\{{\{{[^}}]*\}}\}}|[^\s\"'`<>)\]])*")

SEARCHED = 300
"""Most characters of a value in a URI's query, cut at a word: a search only weighs its rarest words, and a longer value
costs tokens in each URI."""

LONGEST_VALUES = 1_000_000
"""Most characters of all values together: each is repeated as often as its prompt names it."""


class PromptRow(NamedTuple):
    """A prompt with its template text."""

    id: int
    name: str
    title: str
    description: str
    version: str | None
    body: str
    arguments: tuple[PromptArgument, ...]


def list_prompts(catalog: Catalog, *, after: str = "", limit: int = 100) -> list[PromptRow]:
    """Return up to *limit* prompts whose names sort after *after*, in name order."""
    return _read(catalog, PROMPTS, after=after, limit=limit)


def find_prompt(catalog: Catalog, name: str) -> PromptRow:
    """Return the prompt *name*.

    Raises:
        UnknownResource: There is no such prompt; the message names the nearest.
    """
    found = _read(catalog, PROMPT, name=storable(name))
    if not found:
        names = [known.name for known in list_prompts(catalog, limit=MOST_COMPARED)]
        alike = nearest(name, names) or names[:SUGGESTIONS]
        shown = ", ".join(map(one_line, alike)) or "none"
        raise UnknownResource(f"There is no prompt {one_line(name, 80)!r}. Nearest: {shown}.")
    return found[0]


def _read(catalog: Catalog, sql: str, **parameters: object) -> list[PromptRow]:
    return [PromptRow._make((*row, _arguments_of(catalog, row[0]))) for row in catalog.rows(sql, parameters)]


def _arguments_of(catalog: Catalog, prompt: int) -> tuple[PromptArgument, ...]:
    rows = catalog.rows(PROMPT_ARGUMENTS, {"id": prompt})
    return tuple(PromptArgument(name, description, bool(required)) for name, description, required in rows)


def fill_prompt(prompt: PromptRow, values: Mapping[str, str]) -> str:
    """Return the text of *prompt* with *values* put in.

    Raises:
        RequestError: A required argument is missing or empty, a value has no argument, or the values are too long.
    """
    known = {argument.name for argument in prompt.arguments}
    needed = [a for a in prompt.arguments if a.required and not values.get(a.name, "").strip()]
    if needed:
        names = ", ".join(f"{a.name!r} ({one_line(a.description)})" if a.description else repr(a.name) for a in needed)
        raise RequestError(f"The prompt {prompt.name!r} needs the argument{'s' if needed[1:] else ''} {names}.")
    for name in values:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise RequestError(
                f"The prompt {prompt.name!r} has no argument {one_line(name)!r}; its arguments: {listed}."
            )
    length = sum(map(len, values.values()))
    if length > LONGEST_VALUES:
        raise RequestError(
            f"The values have {length:,} characters, at most {LONGEST_VALUES:,} are put in; shorten them."
        )
    uris = [match.span() for match in URI.finditer(prompt.body)]
    given = [values[argument.name] for argument in prompt.arguments if values.get(argument.name)]
    first = values.get(prompt.arguments[0].name) or " ".join(given) if prompt.arguments else ""

    def value_of(match: re.Match[str]) -> str:
        name = match["dollar"] or match["braces"]
        if name is not None and name not in known:
            return match[0]
        value = first if name is None else values.get(name, "")
        for start, end in uris:
            if start <= match.start() < end:
                in_query = "?" in prompt.body[start : match.start()]
                return quote_plus(_searched(value), errors="replace") if in_query else quote(value, errors="replace")
        return value

    return PLACEHOLDER.sub(value_of, prompt.body)


def _searched(value: str) -> str:
    """Return *value*, cut to at most SEARCHED characters: at the end of a word if it has several."""
    if len(value) <= SEARCHED:
        return value
    words = " ".join(value.split())
    return words[: words.rfind(" ", 0, SEARCHED + 1)] if " " in words[: SEARCHED + 1] else words[:SEARCHED]
