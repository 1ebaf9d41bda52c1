"""Opens the judged sets; their indexes are built for each run."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.evaluation.judgements import (
    NO_ANSWER,
    JudgedQuery,
    Qrels,
    count_copies_once,
    document_names,
    present_only,
    read_qrels,
    read_queries,
)
from orchestr8_sqlite.index.catalog import Catalog

SHARED = Path(os.environ.get("ORCHESTR8_SHARED", Path(__file__).parents[2] / "shared"))
SETS = {
    "orchestr8": ("dev/orchestr8", "orchestr8"),
    "skills": ("dev/skills", "skills"),
    "metatool": ("metatool", "metatool"),
}


@dataclass(frozen=True)
class JudgedSet:
    """An open index with its queries and judgements.

    `names` maps URIs, and `once` maps documents as others name them, to documents of which near-copies are one.
    """

    name: str
    catalog: Catalog
    queries: Sequence[JudgedQuery]
    qrels: Qrels
    names: Mapping[str, str]
    once: Mapping[str, str]

    @property
    def answerable(self) -> list[JudgedQuery]:
        """Return the queries that have an answer."""
        return [query for query in self.queries if query.stratum != NO_ANSWER]

    @property
    def has_terms(self) -> bool:
        """Tell whether the queries come with the terms that an assistant would add."""
        return any(query.terms for query in self.queries)

    @property
    def plain(self) -> "JudgedSet":
        """Return the set with its queries as users ask them, without terms."""
        return replace(self, queries=[replace(query, terms=()) for query in self.queries])


def open_set(name: str, folder: Path) -> JudgedSet:
    """Return the judged set *name*; build its index in *folder* and drop judgements of missing documents."""
    queries, library = SETS[name]
    path = folder / f"{name}.db"
    build_index([SHARED / "corpora" / library], path, category="skill")
    catalog = Catalog.open(path)
    qrels = read_qrels(SHARED / "eval" / queries / "qrels.tsv")
    renamed = _metatool_names(catalog) if name == "metatool" else None
    if renamed is None:
        qrels, _ = present_only(catalog, qrels)
    each = renamed or document_names(catalog, qrels)
    qrels, names = count_copies_once(catalog, qrels, each)
    terms = _terms()
    asked = [
        replace(query, terms=terms.get(f"{name}/{query.id}", ()))
        for query in read_queries(SHARED / "eval" / queries / "queries.jsonl")
    ]
    return JudgedSet(name, catalog, asked, qrels, names, once={each[uri]: names[uri] for uri in each})


def _terms() -> dict[str, tuple[str, ...]]:
    """Return the terms that an assistant would add to each query, by set and id."""
    lines = (SHARED / "eval" / "dev" / "terms.tsv").read_text(encoding="utf-8").splitlines()
    return {id_: tuple(terms.split("; ")) for id_, terms in (line.split("\t") for line in lines if line.strip())}


def _metatool_names(catalog: Catalog) -> dict[str, str]:
    """Return URI → tool for the documents of metatool, whose judgements name tools instead of files."""
    lines = (SHARED / "corpora" / "metatool.ids.tsv").read_text(encoding="utf-8").splitlines()
    tools = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    return {uri: tools.get(name, name) for uri, name in document_names(catalog, {}).items()}
