"""Reads judged queries: texts, and the documents that people judged to answer them."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.gathering import Step, gathered

NO_ANSWER = "none"
"""The stratum of queries that nothing in the library answers."""

ELSEWHERE = "elsewhere"
"""The stratum of queries whose answer must not begin with the documents judged for them, all graded 0."""

ALL = "ALL"
SOURCE_PATHS = "SELECT f.uri, s.path FROM fragment f JOIN source s ON s.id = f.source_id"
NEAR_COPIES = gathered(
    """
SELECT f.uri, o.uri FROM near_copy n JOIN fragment f ON f.id = n.fragment_id JOIN fragment o ON o.id = n.first_id
""",
    Step("near_copy", "SELECT fragment_id, first_id FROM near_copy"),
    Step("fragment", "SELECT id, uri FROM fragment WHERE id IN (SELECT fragment_id FROM near_copy)"),
)

Qrels = Mapping[str, Mapping[str, int]]
"""Query id → document → grade: 2 exactly what is needed, 1 useful, 0 not useful."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """One query of a judged set."""

    id: str
    text: str
    stratum: str
    terms: tuple[str, ...] = ()


def read_queries(path: Path) -> list[JudgedQuery]:
    """Return the queries of a JSON Lines file with `id`, `text` and, optionally, `stratum` and `terms`.

    Raises:
        RequestError: A line is not in that form, or there is no answerable query.
    """
    queries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            id_, text, stratum = str(value["id"]), str(value["text"]), str(value.get("stratum") or ALL)
            queries.append(JudgedQuery(id_, text, stratum, _read_terms(value)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            expected = '{"id": …, "text": …, "stratum": …, "terms": […]}, the last two if there are any'
            raise RequestError(f"{path.name}:{number}: expected {expected}.") from None
    if all(query.stratum == NO_ANSWER for query in queries):
        raise RequestError(f"{path.name} holds no query that has an answer.")
    return queries


def _read_terms(value: Mapping[str, object]) -> tuple[str, ...]:
    terms = value.get("terms") or []
    if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
        raise TypeError
    return tuple(terms)


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return the judgements of a file with lines `query<TAB>document<TAB>grade`; `#` begins a comment.

    Raises:
        RequestError: A line is not in that form.
    """
    qrels: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            query, document, grade = line.split("\t")
            qrels[query][document] = int(grade)
        except ValueError:
            raise RequestError(f"{path.name}:{number}: expected query, document and grade between tabs.") from None
    return dict(qrels)


def document_names(catalog: Catalog, qrels: Qrels) -> dict[str, str]:
    """Return the name of each URI in *qrels*: the URI, its id, or its path below the root without `.md`."""
    judged = {document for judgements in qrels.values() for document in judgements}
    names = {}
    for uri, path in catalog.reader.execute(SOURCE_PATHS):
        below = path.removesuffix("/SKILL.md").removesuffix(".md")
        spellings = (uri, uri.partition("://")[2], below)
        names[uri] = next((spelling for spelling in spellings if spelling in judged), below)
    return names


def count_copies_once(
    catalog: Catalog, qrels: Qrels, names: Mapping[str, str]
) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Return *qrels* and *names* in which near-copies are one document, with the best grade that any of them has.

    An answer lists one of them and names the others beside it. The document has the name of the first by URI.
    """
    firsts = {names[uri]: names[first] for uri, first in catalog.reader.execute(NEAR_COPIES)}
    judged: dict[str, dict[str, int]] = {}
    for query, grades in qrels.items():
        once = judged[query] = dict[str, int]()
        for document, grade in grades.items():
            name = firsts.get(document, document)
            once[name] = max(grade, once.get(name, grade))
    return judged, {uri: firsts.get(name, name) for uri, name in names.items()}


def present_only(catalog: Catalog, qrels: Qrels) -> tuple[dict[str, dict[str, int]], int]:
    """Return *qrels* without the documents that the index lacks, and the number of these documents."""
    held = set(document_names(catalog, qrels).values())
    kept = {query: {doc: grade for doc, grade in docs.items() if doc in held} for query, docs in qrels.items()}
    return kept, len({doc for docs in qrels.values() for doc in docs} - held)
