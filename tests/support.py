"""Builders that tests share: records, libraries on disk, and open indexes."""

import hashlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from environments import MissingProgram

from orchestr8_sqlite.builder import build_index
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.content import Fragment, SourceFile
from orchestr8_sqlite.fragment_rows import prepare_batch
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.library.walk import Found, Layout, list_files
from orchestr8_sqlite.model import CATEGORY_FOLDERS
from orchestr8_sqlite.resolution import settle_library
from orchestr8_sqlite.tokens import estimate_tokens
from orchestr8_sqlite.writer import IndexWriter, write_meta

SHARED = Path(os.environ.get("ORCHESTR8_SHARED", Path(__file__).parents[2] / "shared"))
"""Corpora and judged queries that are no part of the project; tests that want them skip where they are missing."""

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared corpora are not beside this checkout")
needs_sqlite_shell = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 shell here")


def _has_logarithm() -> bool:
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("SELECT ln(2)")
        except sqlite3.OperationalError:
            return False
    return True


needs_logarithm = pytest.mark.skipif(not _has_logarithm(), reason="this SQLite has no mathematical functions")

MakeCatalog = Callable[..., Catalog]
"""`make_catalog(*fragments, least_coverage=0.0)` returns the open index of these fragments; no answer is too weak
for it unless a share of the request is given that answers must cover."""

MakeIndex = Callable[..., Catalog]
"""`make_index(*fragments, synonyms=(…))` returns the index of these fragments, in memory, with these synonyms."""

MakeLibrary = Callable[[Mapping[str, str | bytes]], Path]
"""`make_library({"agents/a.md": "text"})` writes the files and returns the root folder."""


T = TypeVar("T")

Invoke = Callable[..., tuple[int, str, str]]
"""`invoke("search", "retry")` runs a command in this process and returns (exit code, stdout, stderr)."""


def make_fragment(
    name: str,
    *use_when: str,
    category: str = "skill",
    title: str | None = None,
    description: str = "",
    tags: tuple[str, ...] = (),
    capabilities: tuple[str, ...] = (),
    body: str = "",
    token_estimate: int | None = None,
) -> Fragment:
    """Return a fragment record as the library reader would make it."""
    fragment_id = f"{CATEGORY_FOLDERS[category]}/{name}"
    path = f"{fragment_id}.md"
    source = SourceFile(
        "library", path, 1_700_000_000_000_000_000, len(body), hashlib.sha256(path.encode()).hexdigest()
    )
    return Fragment(
        id=fragment_id,
        category=category,
        name=name.rpartition("/")[2],
        title=title if title is not None else name,
        description=description,
        version=None,
        tags=tags,
        capabilities=capabilities,
        use_when=use_when,
        author_tokens=None,
        token_estimate=estimate_tokens(body) if token_estimate is None else token_estimate,
        metadata={},
        body=body,
        references=(),
        source=source,
    )


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write *files* (path → content) below *root* and return it."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


GARDENING = {
    f"guides/g{number}.md": f"---\nuseWhen: [Pruning roses in week {number}]\n---\n\n# Gardening {number}\n\nRoses.\n"
    for number in range(20)
}
"""Files to put beside others: words of those are rare then, and a build measures what an answer must cover."""


@contextmanager
def blocks_of(size: int) -> Iterator[None]:
    """Let lists be packed in blocks of *size* numbers, so that a small library has several.

    The views of the index go on to count 65,536 numbers a block.
    """
    packing = [module for name, module in sys.modules.items() if name.startswith("orchestr8_sqlite.")]
    with pytest.MonkeyPatch.context() as patch:
        for module in packing:
            if hasattr(module, "BLOCK"):
                patch.setattr(module, "BLOCK", size)
        yield


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of *sql* on the database at *path*."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def brought(bring: Callable[[], T]) -> T:
    """Return what *bring* returns; skip the test, but not in CI, where a program is not to be had here."""
    try:
        return bring()
    except MissingProgram as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"a program cannot be brought here: {problem}")


def find_files(root: Path, notes: Notes) -> list[Found]:
    """Return the files below *root* that belong to its library, sorted by path; what is wrong with others is noted."""
    paths = list_files(root, notes).paths
    layout = Layout(root, paths)
    layout.note_suffixes(paths, notes)
    return [found for path in paths if (found := layout.classify(path))]


def write_fragments(db: sqlite3.Connection, fragments: Iterable[Fragment], settings: Mapping[str, str]) -> None:
    """Write the index of *fragments*, numbered in their order, to a database that has its tables."""
    writer = IndexWriter(db)
    fragments = list(fragments)
    verdicts = (Verdict(f.source, "fragment", f, place, ()) for place, f in enumerate(fragments))
    writer.write(verdicts, prepare_batch(fragments))
    writer.close()
    settle_library(db, ())
    write_meta(db, settings)


def build(root: Path, target: Path, *, strict: bool = False) -> Path:
    """Build the index of *root* at *target* and return its path."""
    build_index([root], target, strict=strict, full=True)
    return target


def markdown(front_matter: str, body: str = "# Title\n\nText.\n") -> str:
    """Return a document with that front matter (without the --- lines) and body."""
    return f"---\n{front_matter.strip()}\n---\n\n{body}"
