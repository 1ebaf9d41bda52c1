"""What a client sends, fuzzed: URIs, values of prompts, lines of JSON-RPC."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, quote_plus

from orchestr8_sqlite.answers.prompts import PromptRow, fill_prompt
from orchestr8_sqlite.answers.skill_files import parse_skill_uri, skill_uri
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, MatchRequest, PromptArgument
from orchestr8_sqlite.model.uris import Listing, Match, Read, fragment_uri, parse_uri
from orchestr8_sqlite.server.messages import NoMessage, read_message
from orchestr8_sqlite.server.stdio import lines
from torture import Lost
from torture.fuzz_inputs import (
    SEPARATOR,
    Judge,
    Target,
    check_sentence,
    check_text,
    nasty_pieces,
    pick,
    require,
    shipped_files,
    take,
    uri_of,
    with_options,
)

T = TypeVar("T")

LINE = 1000
"""Bytes of the longest line that is read here."""

MARKS = ("\ue000", "\ue001")
"""Stand where the values of the arguments were put in; no template holds them."""


def read_uris(_: Path) -> Judge:
    """Read a URI, and what was read of it again."""

    def judge(data: bytes) -> None:
        options, text = take(data, 1)
        text = uri_of(options[0], text)
        if (target := _answered(lambda: parse_uri(text))) is not None:
            again = printed(target)
            require(parse_uri(again) == target, "printed and read again it is another one:", again, target)
        if isinstance(target, Read):
            check_path(target.id, tuple(CATEGORY_FOLDERS.values()))
        if (path := _answered(lambda: parse_skill_uri(text))) is not None:
            check_path(path, ())
            require(parse_skill_uri(skill_uri(path)) == path, "the path of a skill changes:", path)

    return judge


def _answered(ask: Callable[[], T]) -> T | None:
    """Return what is asked for, None where it is refused."""
    try:
        return ask()
    except RequestError as refused:
        check_sentence(str(refused))
        return None


def printed(target: object) -> str:
    """Return the URI that asks for *target*, with every parameter."""
    if isinstance(target, Read):
        return fragment_uri(target.id)
    if isinstance(target, Listing):
        return "orchestr8://" if target.category is None else f"orchestr8://{CATEGORY_FOLDERS[target.category]}"
    assert isinstance(target, Match)
    return f"orchestr8://match?{'&'.join(f'{name}={quote(value)}' for name, value in parameters(target.request))}"


def parameters(asked: MatchRequest) -> Iterable[tuple[str, str]]:
    """Return the parameters of a search as a URI names them."""
    return [
        *(("query", asked.query), ("mode", asked.mode.value), ("ranker", asked.ranker.value)),
        *(("categories", ",".join(asked.categories)), ("tags", ",".join(asked.tags))),
        *(("maxResults", str(asked.max_results)), ("maxTokens", str(asked.max_tokens))),
        *(("minScore", repr(asked.min_score)), ("explain", str(asked.explain).lower())),
    ]


def check_path(path: str, folders: tuple[str, ...]) -> None:
    """Raise Wrong where a path leaves its folder, or names no row."""
    segments = path.split("/")
    require(not {"", ".", ".."} & set(segments), "a path that leads elsewhere:", path)
    require(not set("\\\0") & set(path), "a path that names a file:", path)
    require(not folders or segments[0] in folders, "a path of no category:", path)
    check_text(path)


def fill(_: Path) -> Judge:
    """Put values into a template."""

    def judge(data: bytes) -> None:
        options, text = take(data, 1)
        body, *values = text.split(SEPARATOR)
        names = pick((("name",), ("name", "x.y"), ()), options[0])
        arguments = tuple(PromptArgument(name, "", required=False) for name in names)
        prompt = PromptRow(1, "p", "P", "", None, body, arguments)
        given = {name: value[:200] for name, value in zip(names, values, strict=False)}
        marks = {name: mark for name, mark in zip(names, MARKS, strict=False) if given.get(name)}
        if any(mark in body or quote(mark) in body for mark in MARKS):
            return
        try:
            filled, marked = fill_prompt(prompt, given), fill_prompt(prompt, marks)
        except RequestError as refused:
            check_sentence(str(refused))
            return
        check_filled(filled, marked, {mark: given[name] for name, mark in marks.items()})

    return judge


def check_filled(filled: str, marked: str, values: Mapping[str, str]) -> None:
    """Raise Wrong where a text is not the one with marks, but for the values in their places, escaped in URIs."""
    forms = {mark: {value} for mark, value in values.items()}
    for mark, value in values.items():
        forms[quote(mark)] = {quote(value, errors="replace"), quote_plus(value, errors="replace")}
    at = 0
    for piece in re.split(f"({'|'.join(forms)})", marked) if forms else [marked]:
        form = next((form for form in forms.get(piece, {piece}) if filled.startswith(form, at)), None)
        require(form is not None, "values stand elsewhere or are changed:", filled[at:], piece, values)
        at += len(form or "")
    require(at == len(filled), "more than the template and its values:", filled[at:])


def read_lines(_: Path) -> Judge:
    """Cut bytes into lines, and read each as a message."""
    lines.MAX_LINE = LINE

    def judge(data: bytes) -> None:
        step, content = 1 + (data[0] if data else 0), data[1:]
        expected = content.split(b"\n")
        expected = expected if expected[-1] else expected[:-1]
        reader = lines.LineReader()
        for start in range(0, len(content), step):
            reader.data_received(content[start : start + step])
        reader.eof_received()
        expected_or_none = [line if len(line) <= LINE else None for line in expected]
        found = list(_lines_of(reader))
        require(found == expected_or_none, "other lines:", found, expected)
        for line in expected:
            check_message(line)

    return judge


def _lines_of(reader: lines.LineReader) -> Iterator[bytes | None]:
    """Yield the lines of a reader that has all that it will get."""
    while True:
        try:
            reader.next().send(None)
        except StopIteration as ended:
            yield ended.value
        except EOFError:
            return
        else:
            raise Lost("the reader waits for a line that will not come")


def check_message(line: bytes) -> None:
    """Raise Wrong where a line is refused in no sentence."""
    try:
        read_message(line, "line")
    except NoMessage as refused:
        check_sentence(refused.error.error.message)
        refused.error.model_dump_json().encode()


def _uris() -> Iterable[str]:
    yield from ("a&maxTokens=2000&minScore=0&tags=a,b&categories=skills", "a/b.c", "match?query=a", "acme/a/SKILL.md")
    yield from nasty_pieces()


def _templates() -> Iterable[str]:
    body = (
        "Do ${name} and {{ name }}, $ARGUMENTS; orchestr8://match?query=${name}&mode=index or skills/${x.y}/{{name}}."
    )
    yield from (SEPARATOR.join((body, piece, "b")) for piece in nasty_pieces())
    yield from (SEPARATOR.join((content.decode(), "a b", "c")) for content in shipped_files() if b"${" in content)


def _lines() -> Iterable[bytes]:
    from servers import INITIALIZE, META, request

    calls = [request(2, "tools/call", name="search", arguments={"query": piece}) for piece in nasty_pieces()[::9]]
    messages = [
        INITIALIZE,
        request(1, "server/discover", _meta=META),
        *calls,
        [],
        {"jsonrpc": "2.0", "id": 1.5, "method": "x"},
    ]
    yield from (b"\xff" + json.dumps(message).encode() + b"\n" for message in messages)
    yield b"\x05" + b"".join(json.dumps(message).encode() + b"\n" for message in messages[:3])


URI_PARTS = (
    *("orchestr8://", "skill://", "@srv:", "match?query=", "&mode=full", "&tags=", "&categories=", "&minScore="),
    *("%2e%2e", "&maxTokens=", "&maxResults=", "&explain=true", "&ranker=classic", "_fragments/", "/SKILL.md", "%2F"),
    *("%00", "%ED%A0%80", "best-practices/", "agents/match?", "registry", "#", "%u", "+", "\u0345", "ẞ", "1e5", "nan"),
    *("inf", "_"),
)
JSON_RPC = (
    *('{"jsonrpc":"2.0",', '"id":1,', '"method":"initialize",', '"method":"server/discover",', '"params":{'),
    *('"_meta":{', '"protocolVersion":"2025-11-25"', '"capabilities":{}', '"clientInfo":{"name":"a","version":"1"}'),
    *("null", "\\u0041", '"progressToken":', "1e999", "NaN", "-0", "[[[[", "}}", '"id":null', "\xff", "\n", "9" * 50),
)

TARGETS = (
    Target("uris", read_uris, lambda: with_options(_uris(), 1), URI_PARTS, 256),
    Target(
        "prompts",
        fill,
        lambda: with_options(_templates(), 1),
        ("${name}", "{{x.y}}", "$ARGUMENTS", SEPARATOR, "orchestr8://a?"),
    ),
    Target("lines", read_lines, _lines, JSON_RPC, 2048),
)
