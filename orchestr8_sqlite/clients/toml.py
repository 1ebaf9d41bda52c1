"""Edits TOML: adds a table at the end or replaces one in its place, and keeps comments."""

from collections.abc import Mapping, Sequence
from typing import Any


def parse(text: str) -> dict[str, object]:
    """Return the tables of *text*.

    Raises:
        ValueError: It is not TOML.
    """
    import tomllib

    return tomllib.loads(text)


def with_table(text: str, path: Sequence[str], values: Mapping[str, object]) -> str:
    """Return *text* with the table *path* at its end.

    Raises:
        ValueError: A table above it is inline, so it cannot be extended.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = newline if text.endswith("\n") or not text else newline * 2
    head = text + (gap if text else "")
    result = head + render_table(path, values).replace("\n", newline)
    parse(result)
    return result


def render_table(path: Sequence[str], values: Mapping[str, object]) -> str:
    """Return the table *path* with one line per value."""
    import tomlkit

    lines = "".join(f"{key} = {tomlkit.item(value).as_string()}\n" for key, value in values.items())
    return f"[{'.'.join(path)}]\n{lines}"


def with_replaced_table(text: str, path: Sequence[str], values: Mapping[str, object]) -> str:
    """Return *text* with *values* as the values of the existing table *path*."""
    import tomlkit

    document = tomlkit.parse(text)
    table: Any = document
    for key in path:
        table = table[key]
    for key in [key for key in table if key not in values]:
        table.remove(key)
    for key, value in values.items():
        table[key] = value
    return tomlkit.dumps(document)
