"""Does the minimum that any solution must do: stat the same files, parse them, copy an index, ask FTS5.

Usage: python bench/floors.py ROOT   (reads and parses the files of ROOT, in one process)
"""

import hashlib
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import frontmatter

from orchestr8_sqlite.text.keywords import extract_keywords

DEPTH = 15
"""Results that every ranker is asked for."""

ANY_WORD = """
SELECT f.uri FROM fragment_text JOIN fragment f ON f.id = fragment_text.rowid
 WHERE fragment_text MATCH ? ORDER BY bm25(fragment_text) LIMIT 15
"""


def stat_files(root: Path) -> int:
    """Return the number of Markdown files below *root*; stat each one."""
    return sum(1 for entry in _files(os.fspath(root)) if entry.stat().st_mtime_ns and entry.stat().st_size)


def read_and_parse(root: Path) -> int:
    """Return the number of files below *root* with front matter; read, hash and parse each one."""
    found = 0
    for entry in _files(os.fspath(root)):
        content = Path(entry.path).read_bytes()
        hashlib.sha256(content).digest()
        found += bool(frontmatter.parse(content.decode("utf-8-sig"))[0])
    return found


def copy_synced(index: Path, copy: Path) -> None:
    """Copy *index* to *copy* and sync it to the disk, as a build does with a new index."""
    shutil.copyfile(index, copy)
    with copy.open("rb+") as file:
        os.fsync(file.fileno())


def any_word(db: sqlite3.Connection) -> Callable[[str], object]:
    """Return a function that answers a query with FTS5 alone: any of its words, by bm25, the best DEPTH."""

    def answer(query: str) -> object:
        words = " OR ".join(f'"{word}"' for word in extract_keywords(query))
        return db.execute(ANY_WORD, (words,)).fetchall() if words else []

    return answer


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.name.endswith(".md"):
                yield entry


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"parsed": read_and_parse(Path(sys.argv[1]))}) + "\n")
