"""What the full text is asked for: an expression of FTS5 for a file, one of tsquery for PostgreSQL."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from orchestr8_sqlite.index.connections import Reader

BODY, SCENARIOS = ("body", "also"), ("scenarios",)
"""Columns of the full text that are searched alone."""

WEIGHTS = {
    "name": "A", "title": "A", "tags": "B", "capabilities": "B", "description": "B", "scenarios": "C", "body": "D",
    "also": "D",
}  # fmt: skip
"""Columns of the full text, and the weight of their words in a tsvector."""

TOKENIZER = "porter unicode61 remove_diacritics 2 tokenchars '+#'"
"""That of `fragment_text` in schema.sql."""

MOST_CACHED = 10_000


def quoted(text: str) -> str:
    """Return *text* as a phrase for MATCH."""
    return '"' + text.replace('"', '""') + '"'


def match_of(db: Reader, phrases: Sequence[str], columns: Sequence[str] = ()) -> str:
    """Return the expression that finds any of *phrases* in any of *columns*, all columns by default."""
    if not isinstance(db, sqlite3.Connection):
        return tsquery(phrases, () if columns == BODY else columns)  # ….body is filtered already: see dialect.py
    either = " OR ".join(map(quoted, phrases))
    return f"{{{' '.join(columns)}}} : ({either})" if columns else either


def tsquery(phrases: Iterable[str], columns: Sequence[str] = ()) -> str:
    """Return that expression as PostgreSQL reads a tsquery; a phrase without a word finds nothing."""
    marks = "".join(sorted({WEIGHTS[column] for column in columns}))
    suffix = f":{marks}" if marks else ""
    found = [" <-> ".join(f"{_lexeme(word)}{suffix}" for word in words) for words in TOKENS.of(phrases) if words]
    return " | ".join(f"({phrase})" for phrase in found)


def _lexeme(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


class Tokens:
    """Cuts texts into the stems of the full text, with FTS5 itself."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[str, tuple[str, ...]] = {}
        self._db: sqlite3.Connection | None = None

    def of(self, texts: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the stems of each text in their order."""
        wanted = list(texts)
        with self._lock:
            if len(self._known) > MOST_CACHED:
                self._known.clear()
            self._read([text for text in dict.fromkeys(wanted) if text not in self._known])
            return [self._known[text] for text in wanted]

    def _read(self, texts: Sequence[str]) -> None:
        if self._db is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.execute(f'CREATE VIRTUAL TABLE read USING fts5 (text, tokenize = "{TOKENIZER}")')
            self._db.execute("CREATE VIRTUAL TABLE word USING fts5vocab (read, instance)")
        found: Mapping[int, list[str]] = {number: [] for number in range(len(texts))}
        self._db.execute("DELETE FROM read")
        self._db.executemany("INSERT INTO read (rowid, text) VALUES (?, ?)", enumerate(texts))
        for number, word in self._db.execute('SELECT doc, term FROM word ORDER BY doc, "offset"'):
            found[number].append(word)
        self._known |= {text: tuple(found[number]) for number, text in enumerate(texts)}


TOKENS = Tokens()
