"""Front matter as JSON: every field that the author wrote, in the author's order, with the values that YAML reads.

JSON has no dates, infinite numbers or bytes; these become the text that the author wrote.
"""

import math
from collections.abc import Iterator

import yaml

from orchestr8_sqlite.library.fields import MAX_JSON_BITS, MAX_JSON_DEPTH, MAX_JSON_VALUES
from orchestr8_sqlite.library.yaml_text import READERS, TEXT_TAG


class NotJson(ValueError):
    """The front matter cannot be written as a JSON object that every reader understands alike."""


def verbatim_fields(mapping: yaml.MappingNode) -> dict[str, object]:
    """Return the fields of a front matter as JSON values, in the author's order.

    Raises:
        NotJson: A key is not a text or is repeated, or there are too many values or levels.
    """
    return _fields(mapping, iter(range(MAX_JSON_VALUES)), 1)


def _fields(mapping: yaml.MappingNode, budget: Iterator[int], depth: int) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in mapping.value:
        name = _key(key)
        if name in values:
            raise NotJson(f"gives {name!r} twice")
        values[name] = _value(value, budget, depth)
    return values


def _value(node: yaml.Node, budget: Iterator[int], depth: int) -> object:
    if depth > MAX_JSON_DEPTH or next(budget, None) is None:
        raise NotJson(f"holds more than {MAX_JSON_VALUES:,} values or {MAX_JSON_DEPTH} levels")
    if isinstance(node, yaml.MappingNode):
        return _fields(node, budget, depth + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, budget, depth + 1) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node)


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag != TEXT_TAG:
        written = node.value if isinstance(node, yaml.ScalarNode) else "?"
        raise NotJson(f"has the key {written!r}, which YAML does not read as text")
    return str(node.value)


def _scalar(node: yaml.ScalarNode) -> object:
    reader = READERS.get(node.tag)
    if reader is None:
        return str(node.value)
    value: object = reader(node)
    unspeakable = isinstance(value, float) and not math.isfinite(value)
    if unspeakable or (isinstance(value, int) and value.bit_length() > MAX_JSON_BITS):
        return str(node.value)
    return value
