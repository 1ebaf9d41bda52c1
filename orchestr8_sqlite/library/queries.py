"""Requests that authors say their fragments answer: `queries:` in front matter, and a queries.jsonl in a root.

Each line of queries.jsonl is {"text": "…", "documents": ["skills/retry", …]}; documents are named by their id, by
their URI, or by their path below the root without `.md`. No documents means that nothing in the library fits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orchestr8_sqlite.content import Diagnostic, Fragment, LibraryQuery
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.model import SCHEME

FILE_NAME = "queries.jsonl"
FIELD = "queries"


def read_queries(
    roots: Sequence[tuple[Path, str]], fragments: Sequence[Fragment]
) -> tuple[list[LibraryQuery], list[Diagnostic]]:
    """Return the queries of a library in the order of fragments and files, and what is wrong with them.

    Args:
        roots: Folder and name of each root.
    """
    queries: list[LibraryQuery] = []
    diagnostics: list[Diagnostic] = []
    for fragment in fragments:
        notes = Notes(fragment.source.root, fragment.source.path)
        queries += _of_fragment(fragment, notes)
        diagnostics += notes.diagnostics
    for root, label in roots:
        path = root / FILE_NAME
        if path.is_file():
            notes = Notes(label, FILE_NAME)
            names = {name: fragment.id for fragment in fragments for name in _names(fragment, label)}
            queries += _of_file(path, names, notes)
            diagnostics += notes.diagnostics
    return queries, diagnostics


def _of_fragment(fragment: Fragment, notes: Notes) -> Iterator[LibraryQuery]:
    written = fragment.metadata.get(FIELD)
    if written is None:
        return
    texts = [written] if isinstance(written, str) else written
    if not isinstance(texts, list | tuple):
        notes.warn("queries-form", f"{FIELD} is no list of texts; left out", "write a list of requests", field=FIELD)
        return
    for text in texts:
        if isinstance(text, str) and text.strip():
            yield LibraryQuery(" ".join(text.split()), (fragment.id,), FIELD)
        else:
            notes.warn("queries-form", f"{shown(repr(text))} is no request; left out", "write it as text", field=FIELD)


def _of_file(path: Path, names: Mapping[str, str], notes: Notes) -> Iterator[LibraryQuery]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        notes.warn("queries-form", "cannot be read as UTF-8; left out", "save it as UTF-8")
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            text, documents = value["text"], value["documents"]
            named = isinstance(documents, list) and all(isinstance(document, str) for document in documents)
            well_formed = named and isinstance(text, str) and text.strip()
        except (ValueError, KeyError, TypeError):
            well_formed = False
        if not well_formed:
            fix = 'write {"text": "…", "documents": ["skills/…"]}'
            notes.warn("queries-form", f"{shown(line)} is no judged request; left out", fix, line=number)
            continue
        unknown = [document for document in documents if document not in names]
        if unknown:
            what = f"there is no document {shown(unknown[0])}; the request is left out"
            notes.warn("queries-document", what, "name a fragment by its id", line=number)
            continue
        yield LibraryQuery(" ".join(text.split()), tuple(names[document] for document in documents), FILE_NAME)


def _names(fragment: Fragment, label: str) -> Iterator[str]:
    yield fragment.id
    yield f"{SCHEME}://{fragment.id}"
    if fragment.source.root == label:
        yield fragment.source.path.removesuffix("/SKILL.md").removesuffix(".md")
