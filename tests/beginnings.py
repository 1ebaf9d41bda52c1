"""The beginning of every index: its schema and the shipped synonyms, written once a test run and copied from then on.

To write them takes most of the time that the index of a small library takes.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from orchestr8_sqlite.builder import build
from orchestr8_sqlite.builder.writer import create_schema, write_synonyms
from orchestr8_sqlite.text.wordlists import Synonym, read_synonyms

_kept: dict[bool, sqlite3.Connection] = {}


def begin_empty(db: sqlite3.Connection) -> None:
    """Do what `create_schema` does."""
    _written(synonyms=False).backup(db)


@contextmanager
def copied_beginnings() -> Iterator[None]:
    """Let whoever builds an index in this process copy its beginning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "create_schema", _begin)
        patch.setattr(build, "write_synonyms", _write_others)
        yield
    while _kept:
        _kept.popitem()[1].close()


def _begin(db: sqlite3.Connection) -> None:
    _written(synonyms=True).backup(db)


def _write_others(db: sqlite3.Connection, synonyms: Sequence[Synonym]) -> None:
    """Write the synonyms of a library that has its own."""
    if synonyms != read_synonyms([]):
        write_synonyms(db, synonyms)


def _written(*, synonyms: bool) -> sqlite3.Connection:
    """Return the database that others begin as copies of."""
    if synonyms not in _kept:
        db = _kept[synonyms] = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_schema(db)
        if synonyms:
            db.execute("BEGIN")
            write_synonyms(db, read_synonyms([]))
            db.execute("COMMIT")
    return _kept[synonyms]
