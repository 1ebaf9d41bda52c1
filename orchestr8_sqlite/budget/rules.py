"""The rules in clients.toml as records."""

import tomllib
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite.clients.known import find_named

RULES = Path(__file__).with_name("clients.toml")
CHARACTERS_PER_TOKEN = 4


class Overflow(StrEnum):
    """What a client does with skills beyond the room of its listing; clients.toml explains each."""

    NAME = "name"
    SHORTEN = "shorten"
    STOP = "stop"
    NONE = "none"
    UNKNOWN = "unknown"


class Rule(NamedTuple):
    """How one client lists skills; clients.toml explains the fields."""

    id: str
    title: str
    version: str
    checked: date
    sources: tuple[str, ...]
    overflow: Overflow
    counts: str
    entry: str
    bare: str
    share: float | None = None
    room: int | None = None
    context: int | None = None
    longest: int | None = None
    names: int = 0
    manual: bool = False
    own: Mapping[str, int] = {}

    def capacity(self, context: int | None = None) -> int | None:
        """Return the room of the listing, in what the client counts; None if there is no limit or none is known.

        Args:
            context: Tokens of the model's context; by default the usual one.
        """
        if self.share is None:
            return self.room
        tokens = (context or self.context or 0) * self.share
        return int(tokens if self.counts == "tokens" else tokens * CHARACTERS_PER_TOKEN)

    def cost(self, text: str) -> int:
        """Return what a listed line and its line feed take of the room."""
        if self.counts == "tokens":
            return -(-(len(text.encode()) + 1) // CHARACTERS_PER_TOKEN)
        return len(text) + 1


def read_rules() -> dict[str, Rule]:
    """Return the rule of each client by its id, in the order of clients.toml."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(RULES.read_text(encoding="utf-8"))
    return {id_: _read_rule(id_, table) for id_, table in tables.items()}


def _read_rule(id_: str, table: Mapping[str, Any]) -> Rule:
    typed = {"sources": tuple(table["sources"]), "overflow": Overflow(table["overflow"])}
    return Rule(**{"id": id_, **table, **typed})


def find_rule(name: str) -> Rule:
    """Return the rule of the client *name*, in upper or lower case.

    Raises:
        RequestError: No rule of such a client is recorded; the message names the nearest or all.
    """
    return find_named(name, read_rules(), f"No rule of a client {name!r} is known.")
