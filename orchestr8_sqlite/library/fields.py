"""Front-matter nodes → texts and lists; every repair is noted with its line."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

import yaml

from orchestr8_sqlite.library.document import ParsedDocument
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.library.yaml_text import TEXT_TAG, node_line
from orchestr8_sqlite.text.wording import counted

NULL_TAG = "tag:yaml.org,2002:null"
MAX_JSON_VALUES = 10_000
MAX_JSON_DEPTH = 20
MAX_JSON_BITS = 1024
"""Bounds of one front matter kept as JSON; aliases can make a small file unfold endlessly."""


def read_text(document: ParsedDocument, name: str, notes: Notes) -> str | None:
    """Return the text of the field *name* on one line, with numbers and dates as the author wrote them."""
    node = document.fields.get(name)
    if node is None or _is_null(node):
        return None
    if not isinstance(node, yaml.ScalarNode):
        text = " ".join(_source(node, document).split())
        notes.warn(
            "not-text", f"{name} holds a list or map: {shown(text)}", "write one text", line=node_line(node), field=name
        )
        return text or None
    text = " ".join(str(node.value).split())
    if node.tag != TEXT_TAG and name not in ("version", "estimatedTokens"):
        notes.warn(
            "not-text",
            f"YAML reads {name}: {shown(text)} as {_kind(node)}; kept as text",
            "put it in quotes",
            line=node_line(node),
            field=name,
        )
    return text or None


def read_plain(document: ParsedDocument, name: str) -> str | None:
    """Return the source of the field *name* on one line, whatever type YAML reads it as."""
    node = document.fields.get(name)
    return None if node is None or _is_null(node) else " ".join(_source(node, document).split()) or None


def read_number(document: ParsedDocument, name: str, notes: Notes) -> int | None:
    """Return the whole number in the field *name*, or None; note a warning if it holds something else."""
    text = read_text(document, name, notes)
    if text is None:
        return None
    digits = text.replace(",", "").replace("_", "").lstrip("~")
    if digits.isascii() and digits.isdigit() and len(digits) < 12:
        return int(digits)
    notes.warn(
        "not-a-number",
        f"{name} should be a whole number, found {shown(text)}",
        "write digits only",
        line=document.line_of(name),
        field=name,
    )
    return None


def read_list(document: ParsedDocument, name: str, notes: Notes) -> tuple[str, ...]:
    """Return the items of the list field *name*, repaired and without duplicates; empty if it is missing.

    Portable skill files keep the list as a string in their `metadata` map, which is the fallback.
    """
    node = document.fields.get(name)
    if node is None:
        return _metadata_list(document, name)
    if _is_null(node):
        notes.warn("null-list", f"{name} is empty", "give it items or remove it", line=node_line(node), field=name)
        return _metadata_list(document, name)
    if isinstance(node, yaml.ScalarNode):
        items = _split(str(node.value))
        notes.warn(
            "not-a-list",
            f"{name} is a text, read as {counted(len(items), 'item')}",
            "write one '- item' line for each",
            line=node_line(node),
            field=name,
        )
        return _distinct(items, name, node_line(node), notes)
    if isinstance(node, yaml.MappingNode):
        notes.warn("not-a-list", f"{name} is a map", "write '- item' lines", line=node_line(node), field=name)
        return tuple(" ".join(_source_of(key, value, document).split()) for key, value in node.value)
    return _distinct(_items(node, document, name, notes), name, node_line(node), notes)


def read_maps(document: ParsedDocument, name: str, notes: Notes) -> list[tuple[int, dict[str, str]]]:
    """Return (line, fields as text) for each map in the list field *name*; a bare text is its `name`.

    A text in place of the list holds names separated by spaces.
    """
    node = document.fields.get(name)
    if node is None or _is_null(node):
        return []
    if isinstance(node, yaml.ScalarNode) and node.tag == TEXT_TAG:
        return [(node_line(node), {"name": word}) for word in str(node.value).split()]
    if not isinstance(node, yaml.SequenceNode):
        notes.warn(
            "not-a-list", f"{name} must be a list of maps", "write '- name: …'", line=node_line(node), field=name
        )
        return []
    maps = []
    for item in node.value:
        if isinstance(item, yaml.MappingNode):
            maps.append((node_line(item), {str(key.value): _source(value, document) for key, value in item.value}))
        elif isinstance(item, yaml.ScalarNode) and item.value:
            maps.append((node_line(item), {"name": str(item.value)}))
    return maps


def json_values(document: ParsedDocument, skip: frozenset[str]) -> dict[str, object]:
    """Return the front matter, except the keys in *skip*, as JSON-compatible values."""
    budget = iter(range(MAX_JSON_VALUES))
    return {name: _json(value, budget) for name, value in document.values.items() if name not in skip}


def _json(value: object, budget: Iterator[int], depth: int = 0) -> object:
    if depth > MAX_JSON_DEPTH or next(budget, None) is None:
        return None
    if isinstance(value, dict):
        return {str(key): _json(item, budget, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json(item, budget, depth + 1) for item in value]
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_JSON_BITS else hex(value)
    if value is None or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def _distinct(items: Iterable[str], name: str, line: int, notes: Notes) -> tuple[str, ...]:
    found = list(items)
    distinct = tuple(dict.fromkeys(found))
    if len(distinct) == len(found):
        return distinct
    for text, count in Counter(found).items():
        if count > 1:
            what = f"{name} holds {shown(text)} {count} times; one is kept"
            notes.warn("duplicate-item", what, "remove the others", line=line, field=name)
    return distinct


def _metadata_list(document: ParsedDocument, name: str) -> tuple[str, ...]:
    metadata = document.fields.get("metadata")
    if not isinstance(metadata, yaml.MappingNode):
        return ()
    for key, value in metadata.value:
        if str(key.value) == name and isinstance(value, yaml.ScalarNode) and not _is_null(value):
            return tuple(dict.fromkeys(_split(str(value.value))))
        if str(key.value) == name and isinstance(value, yaml.SequenceNode):
            return tuple(dict.fromkeys(" ".join(_source(item, document).split()) for item in value.value))
    return ()


def _split(text: str) -> list[str]:
    """Return the items of *text*, split at line ends if it has any (scenarios may hold commas), else at commas."""
    text = text.strip().removeprefix("[").removesuffix("]")
    parts = text.split("\n") if "\n" in text.strip() else text.split(",")
    return [item for part in parts if (item := " ".join(part.strip().removeprefix("- ").split()))]


def _items(node: yaml.Node, document: ParsedDocument, name: str, notes: Notes) -> Iterator[str]:
    for item in node.value:
        if item.tag == TEXT_TAG and isinstance(item, yaml.ScalarNode) and (text := " ".join(item.value.split())):
            yield text
            continue
        text = " ".join(_source(item, document).split())
        if not text or _is_null(item):
            notes.warn("empty-item", f"{name} has an empty item", "remove it", line=node_line(item), field=name)
            continue
        if not isinstance(item, yaml.ScalarNode) or item.tag != TEXT_TAG:
            notes.warn(
                "item-no-text",
                f"YAML reads {shown(text)} as {_kind(item)}; kept as text",
                "put the item in quotes",
                line=node_line(item),
                field=name,
            )
        yield text


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and (node.tag == NULL_TAG or not str(node.value).strip())


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a map"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    names = {"int": "a number", "float": "a number", "bool": "true or false", "timestamp": "a date"}
    return names.get(node.tag.rpartition(":")[2], node.tag.rpartition(":")[2])


def _source(node: yaml.Node, document: ParsedDocument) -> str:
    """Return what the author wrote for *node*."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    return document.yaml_text[node.start_mark.index : node.end_mark.index].strip()


def _source_of(key: yaml.Node, value: yaml.Node, document: ParsedDocument) -> str:
    return f"{_source(key, document)}: {_source(value, document)}"
