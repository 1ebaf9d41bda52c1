"""Builders that tests share: records, libraries on disk, and open indexes."""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from environments import MissingProgram

from orchestr8_sqlite.builder.build import build_index, lint_library
from orchestr8_sqlite.builder.job import write_meta
from orchestr8_sqlite.builder.references import settle_library
from orchestr8_sqlite.builder.writer import IndexWriter, prepare
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import nothing, read_files
from orchestr8_sqlite.library.roots import open_roots
from orchestr8_sqlite.library.verdicts import Holding, Verdict, judge, name_of
from orchestr8_sqlite.library.walk import FoundFile, Layout, list_files
from orchestr8_sqlite.model.records import Diagnostic, Fragment, Prompt, SourceFile
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS
from orchestr8_sqlite.settings import read_limits
from orchestr8_sqlite.text.tokens import estimate_tokens

SHARED = Path(os.environ.get("ORCHESTR8_SHARED", Path(__file__).parents[2] / "shared"))
"""Corpora and judged queries that are no part of the project; tests that want them skip where they are missing."""

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared corpora are not beside this checkout")
needs_sqlite_shell = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 shell here")


MakeCatalog = Callable[..., Catalog]
"""`make_catalog(*fragments, least_coverage=0.0)` returns the open index of these fragments; no answer is too weak
for it unless a share of the request is given that answers must cover."""

MakeIndex = Callable[..., Catalog]
"""`make_index(*fragments, synonyms=(…))` returns the index of these fragments, in memory, with these synonyms."""

CorpusIndex = Callable[[str], Path]
"""`corpus_index("skills")` returns the index of a shared corpus, built once for all tests of a process to read."""

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


def write_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """Write a program to *path* and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


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


def find_files(root: Path, notes: Notes) -> list[FoundFile]:
    """Return the files below *root* that belong to its library, sorted by path; what is wrong with others is noted."""
    paths = list_files(root, notes).paths
    layout = Layout(root, paths)
    layout.note_suffixes(paths, notes)
    return [found for path in paths if (found := layout.classify(path))]


class Library(NamedTuple):
    """What a build takes from a library: its records by their names, files that are no records, and what is said."""

    fragments: tuple[Fragment, ...]
    prompts: tuple[Prompt, ...]
    rejected: tuple[SourceFile, ...]
    ignored: tuple[SourceFile, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def codes(self) -> list[str]:
        """Return the kinds of what is said."""
        return [diagnostic.code for diagnostic in self.diagnostics]


def read_library(folders: Sequence[Path], *, category: str | None = None) -> Library:
    """Read the library in *folders* file by file, and ask lint what is wrong with it."""
    records: dict[tuple[str, str], Fragment | Prompt] = {}
    places: dict[tuple[str, str], Holding] = {}
    sources: list[tuple[SourceFile, str]] = []
    tasks = [task for root in open_roots(folders, read_limits()) for task in root.tasks(category, None)]
    for task, outcome in zip(tasks, read_files(tasks, nothing), strict=True):
        verdict = judge(task, outcome, lambda record: places.get(name_of(record)))
        sources += [*verdict.sources, (verdict.source, verdict.outcome)]
        if verdict.record is not None:
            records[name_of(verdict.record)] = verdict.record
            places[name_of(verdict.record)] = Holding("/".join(task.key), verdict.source.sha256)
    named = [record for _, record in sorted(records.items())]
    return Library(
        fragments=tuple(record for record in named if isinstance(record, Fragment)),
        prompts=tuple(record for record in named if isinstance(record, Prompt)),
        rejected=tuple(source for source, outcome in sources if outcome == "rejected"),
        ignored=tuple(source for source, outcome in sources if outcome == "ignored"),
        diagnostics=lint_library(folders, category=category).diagnostics,
    )


def write_fragments(db: sqlite3.Connection, fragments: Iterable[Fragment], settings: Mapping[str, str]) -> None:
    """Write the index of *fragments*, numbered in their order, to a database that has its tables."""
    writer = IndexWriter(db)
    writer.write(Verdict(one.source, "fragment", one, prepare(one), ()) for one in fragments)
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
