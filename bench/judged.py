"""Opens the judged sets; their indexes are built for each run.

Three sets lie beside the checkout, and the ranking was tuned on them. Those in bench/judgements/ were written and
judged after the ranking stood, and no weight was chosen by them: requests to the shipped library, short and long, long
ones to the set of skills beside the checkout, and requests to a public collection of rules for editors.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
"""Set that the ranking was tuned on → its folder of queries, its library."""

UNTUNED = Path(__file__).with_name("judgements")
RULES_URL = os.environ.get("CURSOR_RULES", "https://github.com/PatrickJS/awesome-cursorrules")
RULES_COMMIT = "b044f956f021b6e8877f16781bcfc466a6a120e9"
"""257 rules for editors in the public domain (CC0); CURSOR_RULES names a copy of the repository."""


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
    once: Mapping[str, str] = field(default_factory=dict)

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


def open_untuned(folder: Path) -> list[JudgedSet]:
    """Return the sets in bench/judgements/; without a connection, the one for the public collection is left out."""
    opened = []
    for place in sorted(path.parent for path in UNTUNED.glob("*/queries.jsonl")):
        library = library_of(place.name, folder)
        if library is None:
            sys.stderr.write(f"{place.name} is left out: {RULES_URL} cannot be fetched.\n")
            continue
        index = folder / f"untuned-{place.name}.db"
        build_index([library], index, category="skill" if library.name == "skills" else "guide")
        catalog = Catalog.open(index)
        qrels, _ = present_only(catalog, read_qrels(place / "qrels.tsv"))
        queries = read_queries(place / "queries.jsonl")
        qrels, names = count_copies_once(catalog, qrels, document_names(catalog, qrels))
        opened.append(JudgedSet(place.name, catalog, queries, qrels, names))
    return opened


def library_of(name: str, folder: Path) -> Path | None:
    """Return the library that a set in bench/judgements/ asks; None if it cannot be fetched."""
    if name == "rules":
        return fetch_rules(folder / "rules")
    return SHARED / "corpora" / "skills" if name == "skills-long" else UNTUNED.parents[1] / "resources"


def fetch_rules(folder: Path) -> Path | None:
    """Return the folder of the public collection, its files named as Markdown; None without a connection."""
    git = ("git", "-C", str(folder))
    folder.mkdir()
    try:
        for command in (("init", "--quiet"), ("fetch", "--quiet", "--depth=1", RULES_URL, RULES_COMMIT)):
            subprocess.run((*git, *command), check=True, capture_output=True)
        subprocess.run((*git, "checkout", "--quiet", RULES_COMMIT, "--", "rules"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    for rule in folder.glob("rules/*.mdc"):
        rule.rename(rule.with_suffix(".md"))
    return folder


def _terms() -> dict[str, tuple[str, ...]]:
    """Return the terms that an assistant would add to each query, by set and id."""
    lines = (SHARED / "eval" / "dev" / "terms.tsv").read_text(encoding="utf-8").splitlines()
    return {id_: tuple(terms.split("; ")) for id_, terms in (line.split("\t") for line in lines if line.strip())}


def _metatool_names(catalog: Catalog) -> dict[str, str]:
    """Return URI → tool for the documents of metatool, whose judgements name tools instead of files."""
    lines = (SHARED / "corpora" / "metatool.ids.tsv").read_text(encoding="utf-8").splitlines()
    tools = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    return {uri: tools.get(name, name) for uri, name in document_names(catalog, {}).items()}
