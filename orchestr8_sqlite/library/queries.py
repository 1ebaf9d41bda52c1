"""Requests that authors expect their fragments to answer: `queries:` in front matter, and a queries.jsonl in a root.

Each line of queries.jsonl is {"text": "…", "documents": ["skills/retry", …]}. Name documents by id, by URI, or by path
below the root without `.md`. No documents means that nothing in the library fits. "terms": ["…"] adds the terms that an
assistant would send with the request.
"""

import json
from collections.abc import Iterator

from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.library.references import Documents
from orchestr8_sqlite.model.records import Fragment, LibraryQuery
from orchestr8_sqlite.model.requests import SCHEME

FILE_NAME = "queries.jsonl"
FIELD = "queries"


def own_queries(fragment: Fragment, notes: Notes) -> Iterator[LibraryQuery]:
    """Yield the requests in a fragment's front matter; note what is wrong with invalid ones."""
    written = fragment.metadata.get(FIELD)
    if written is None:
        return
    texts = [written] if isinstance(written, str) else written
    if not isinstance(texts, list | tuple):
        notes.warn("queries-form", f"{FIELD} is not a list of texts; left out", "write a list of requests", field=FIELD)
        return
    for text in texts:
        if isinstance(text, str) and text.strip():
            yield LibraryQuery(" ".join(text.split()), (fragment.id,), FIELD)
        else:
            notes.warn(
                "queries-form", f"{shown(repr(text))} is not a request; left out", "write it as text", field=FIELD
            )


def listed_queries(content: bytes, library: Documents, notes: Notes) -> Iterator[LibraryQuery]:
    """Yield the requests in *content*, a root's queries.jsonl; note what is wrong with invalid ones.

    Args:
        notes: Collects the diagnostics of the file.
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        notes.warn("queries-form", "cannot be read as UTF-8; left out", "save it as UTF-8")
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            text, documents, terms = value["text"], value["documents"], value.get("terms") or []
            lists = isinstance(documents, list) and isinstance(terms, list)
            well_formed = (
                lists and all(isinstance(one, str) for one in (text, *documents, *terms)) and text.strip() != ""
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            well_formed = False
        if not well_formed:
            fix = 'write {"text": "…", "documents": ["skills/…"]}'
            notes.warn("queries-form", f"{shown(line)} is not a judged request; left out", fix, line=number)
            continue
        answers = {document: find_document(document, notes.root, library) for document in documents}
        unknown = [document for document, answer in answers.items() if answer is None]
        if unknown:
            what = f"there is no document {shown(unknown[0])}; the request is left out"
            notes.warn("queries-document", what, "name a fragment by its id", line=number)
            continue
        found = tuple(answer for answer in answers.values() if answer)
        yield LibraryQuery(" ".join(text.split()), found, FILE_NAME, tuple(terms))


def find_document(written: str, root: str, library: Documents) -> str | None:
    """Return the id of the fragment that a query list in *root* names as *written*, or None if there is none."""
    id_ = written.removeprefix(f"{SCHEME}://")
    if (whole := library.whole_id(id_)) is not None:
        return whole
    paths = (f"{written}.md", f"{written}/SKILL.md")
    return next((found for path in paths if (found := library.id_of_file(root, path)) is not None), None)
