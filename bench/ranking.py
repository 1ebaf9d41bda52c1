"""Measures the rankers on judged queries and writes the tables of docs/ranking.md.

Needs the judged sets and their libraries beside the checkout (../shared, or the folder in ORCHESTR8_SHARED), and
takes about ten minutes: most of it goes into cross-validation, which asks every query once for each setting.
"""

import argparse
import importlib
import itertools
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median

from orchestr8_sqlite.builder import build_index
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.evaluation import (
    NO_ANSWER,
    JudgedQuery,
    Qrels,
    Run,
    document_names,
    false_answers,
    false_refusals,
    present_only,
    read_qrels,
    read_queries,
    run_queries,
    score_run,
)
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest, Ranker
from orchestr8_sqlite.parameters import MAX_QUERY_LENGTH
from orchestr8_sqlite.tiers import expansion, weighted, weights

SHARED = Path(os.environ.get("ORCHESTR8_SHARED", Path(__file__).parents[2] / "shared"))
DOCUMENT = Path(__file__).parents[1] / "docs" / "ranking.md"
BEGIN, END = "<!-- written by `make eval` from here -->", "<!-- to here -->"
SETS = {
    "orchestr8": ("dev/orchestr8", "orchestr8"),
    "skills": ("dev/skills", "skills"),
    "metatool": ("metatool", "metatool"),
}
STRATA = ("kw", "nl", "prob", "syn", "typo", "morph", "single", "known")
BM25 = """
SELECT f.uri FROM fragment_text JOIN fragment f ON f.id = fragment_text.rowid
 WHERE fragment_text MATCH ? ORDER BY bm25(fragment_text), f.uri LIMIT 100
"""
FOLDS = 5
GRID: Mapping[str, Sequence[float]] = {
    "NAME_BONUS": (0.2, 0.4, 0.6),
    "FEEDBACK": (0.15, 0.3, 0.45),
    "related": (0.5, 0.7, 0.9),
    "synonym": (0.7, 0.8, 0.9),
    "EVERYDAY": (0.5, 0.7, 0.9),
}
"""Settings to choose from: the product's, and every change of one or two values to a neighbour."""

WITHOUT: Mapping[str, Mapping[str, float]] = {
    "other names": {"synonym": 0.0},
    "needs": {"related": 0.0},
    "typo repair": {"typo": 0.0},
    "joined words": {"joined": 0.0},
    "the rarity bound of forms": {"RARITY_BOUND": 99.0},
    "the name's share": {"NAME_BONUS": 0.0},
    "what is learnt": {"FEEDBACK": 0.0},
    "everyday words": {"EVERYDAY": 1.0},
}
"""What can be left out when a request is answered, and the weights that do so."""

CHANGES = 2
REPEATS = 3


@dataclass(frozen=True)
class JudgedSet:
    """An open index with its queries and judgements."""

    name: str
    catalog: Catalog
    queries: Sequence[JudgedQuery]
    qrels: Qrels
    names: Mapping[str, str]

    @property
    def answerable(self) -> list[JudgedQuery]:
        """Return the queries that have an answer."""
        return [query for query in self.queries if query.stratum != NO_ANSWER]


def main() -> None:
    """Measure, print, and write the tables into the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print-only", action="store_true", help="leave the document as it is")
    parser.add_argument("--no-cross-validation", action="store_true")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"{SHARED} is missing: the judged sets are no part of this project; name them in ORCHESTR8_SHARED.")
    with tempfile.TemporaryDirectory() as folder:
        sets = [open_set(name, Path(folder)) for name in SETS]
        validated = {} if options.no_cross_validation else cross_validate(sets)
        text = "\n\n".join([quality(sets, validated), strata(sets), without(sets), confidence(sets), speed(sets)])
        for judged in sets:
            judged.catalog.close()
    sys.stdout.write(text + "\n")
    if not options.print_only:
        document = DOCUMENT.read_text(encoding="utf-8")
        head, rest = document.split(BEGIN)
        tail = rest.split(END)[1]
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")


def open_set(name: str, folder: Path) -> JudgedSet:
    """Return the judged set *name*, its index built in *folder*; judgements of missing documents are dropped."""
    queries, library = SETS[name]
    path = folder / f"{name}.db"
    build_index([SHARED / "corpora" / library], path, category="skill")
    catalog = Catalog.open(path)
    qrels = read_qrels(SHARED / "eval" / queries / "qrels.tsv")
    renamed = _metatool_names(catalog) if name == "metatool" else None
    if renamed is None:
        qrels, _ = present_only(catalog, qrels)
    names = renamed or document_names(catalog, qrels)
    return JudgedSet(name, catalog, read_queries(SHARED / "eval" / queries / "queries.jsonl"), qrels, names)


def _metatool_names(catalog: Catalog) -> dict[str, str]:
    """Return the name of each document of metatool, whose judgements go by tool and not by file."""
    lines = (SHARED / "corpora" / "metatool.ids.tsv").read_text(encoding="utf-8").splitlines()
    tools = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    return {uri: tools.get(name, name) for uri, name in document_names(catalog, {}).items()}


def ndcg(judged: JudgedSet, run: Run) -> dict[str, float]:
    """Return stratum → nDCG@10."""
    return {score.stratum: score.means["nDCG@10"] for score in score_run(judged.queries, judged.qrels, run)}


def ranked(judged: JudgedSet, ranker: Ranker) -> Run:
    """Return what *ranker* answers."""
    return run_queries(judged.catalog, judged.queries, judged.names, ranker).run


def bm25(judged: JudgedSet) -> Run:
    """Return what FTS5 answers by itself: any of the words, all columns alike."""
    run = {}
    for query in judged.queries:
        found = judged.catalog.db.execute(BM25, (_any_word(query.text),)) if _any_word(query.text) else ()
        run[query.id] = [(judged.names[uri], -float(rank)) for rank, (uri,) in enumerate(found)]
    return run


def published(judged: JudgedSet) -> dict[str, Run]:
    """Return the runs of other systems that come with the judgements."""
    runs: dict[str, Run] = {}
    for path in sorted((SHARED / "eval" / "runs" / judged.name).glob("*.run")):
        run: dict[str, list[tuple[str, float]]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            query, _, document, _, score, _ = line.split()
            run.setdefault(query, []).append((document, float(score)))
        runs[path.stem] = {query: sorted(docs, key=lambda doc: -doc[1]) for query, docs in run.items()}
    return runs


def quality(sets: Sequence[JudgedSet], validated: Mapping[str, float]) -> str:
    """Return the table of nDCG@10 of every system on every set."""
    table: dict[str, dict[str, str]] = {}
    for judged in sets:
        runs = {
            "default": ranked(judged, Ranker.DEFAULT),
            "classic": ranked(judged, Ranker.CLASSIC),
            "FTS5 bm25, equal weights": bm25(judged),
            **published(judged),
        }
        for system, run in runs.items():
            table.setdefault(system, {})[judged.name] = f"{ndcg(judged, run)['ALL']:.3f}"
    if validated:
        figures = {name: f"{figure:.3f}" for name, figure in validated.items()}
        table = {"default, cross-validated": figures, **table}
    return _table(("nDCG@10", *(judged.name for judged in sets)), table)


def strata(sets: Sequence[JudgedSet]) -> str:
    """Return the table of nDCG@10 of the default ranker by stratum, where a set has strata."""
    table = {}
    for judged in sets:
        found = ndcg(judged, ranked(judged, Ranker.DEFAULT))
        if len(found) > 1:
            table[judged.name] = {stratum: f"{found[stratum]:.3f}" for stratum in STRATA}
    return _table(("default, nDCG@10", *STRATA), table)


def without(sets: Sequence[JudgedSet]) -> str:
    """Return the table of what nDCG@10 loses when an ingredient is left out."""
    whole = _measure(sets, {})
    table = {}
    for name, setting in WITHOUT.items():
        found = _measure(sets, setting)
        losses = {judged.name: _mean(whole[judged.name]) - _mean(found[judged.name]) for judged in sets}
        row = {set_name: f"{loss:+.3f}" for set_name, loss in losses.items()}
        table[name] = {**row, "mean": f"{mean(losses.values()):+.3f}"}
    return _table(("loss of nDCG@10 without", *(judged.name for judged in sets), "mean"), table)


def _mean(values: Mapping[str, float]) -> float:
    return mean(values.values())


def confidence(sets: Sequence[JudgedSet]) -> str:
    """Return the table of how often an answer stands that should not, or the other way round."""
    columns = ("threshold", "no-answer queries answered", "answerable queries refused")
    table = {}
    for judged in sets:
        report = run_queries(judged.catalog, judged.queries, judged.names, Ranker.DEFAULT)
        wrong = false_answers(judged.queries, report)
        figures = (
            f"{judged.catalog.least_coverage:.2f}",
            "none asked" if wrong is None else f"{wrong:.3f}",
            f"{false_refusals(judged.queries, report):.3f}",
        )
        table[judged.name] = dict(zip(columns, figures, strict=True))
    return _table(("confidence", *columns), table)


def speed(sets: Sequence[JudgedSet]) -> str:
    """Return the table of median times of the same queries, each the best of REPEATS, in one run."""
    columns = ("default, ms", "FTS5 bm25, ms", "ratio")
    table = {}
    for judged in sets:
        queries = [" ".join(query.text.split())[:MAX_QUERY_LENGTH] for query in judged.queries[:200]]
        queries = [query for query in queries if _any_word(query)]
        ours = median(_best(partial(_rank, judged.catalog, query)) for query in queries)
        floor = median(_best(partial(_full_text, judged.catalog.db, query)) for query in queries)
        figures = (f"{ours * 1000:.1f}", f"{floor * 1000:.1f}", f"{ours / floor:.1f}")
        table[judged.name] = dict(zip(columns, figures, strict=True))
    return _table(("time of a query, median", *columns), table)


def _rank(catalog: Catalog, query: str) -> None:
    reading = expansion.read_request(catalog.db, extract_keywords(query))
    weighted.match_weighted(catalog.db, MatchRequest(query), reading)


def _full_text(db: sqlite3.Connection, query: str) -> None:
    db.execute(BM25.replace("LIMIT 100", "LIMIT 15"), (_any_word(query),)).fetchall()


def _best(action: Callable[[], None]) -> float:
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def _any_word(text: str) -> str:
    return " OR ".join(f'"{keyword}"' for keyword in extract_keywords(text) if keyword.replace("'", "").isascii())


def cross_validate(sets: Sequence[JudgedSet]) -> dict[str, float]:
    """Return nDCG@10 on queries that had no part in choosing the setting.

    The queries of every set are dealt into FOLDS; for each fold the setting that is best on the other folds of all
    sets (the mean of their means) answers this one.
    """
    settings = list(_settings())
    measured = [_measure(sets, setting) for setting in settings]
    dealer = random.Random(1)  # noqa: S311 - statistics, and the same every time
    folds = {judged.name: {query.id: dealer.randrange(FOLDS) for query in judged.answerable} for judged in sets}
    outcome: dict[str, list[float]] = {judged.name: [] for judged in sets}
    for fold in range(FOLDS):
        best = max(measured, key=lambda values: _mean_elsewhere(values, folds, fold))
        for judged in sets:
            outcome[judged.name] += [best[judged.name][id_] for id_, at in folds[judged.name].items() if at == fold]
    return {name: mean(values) for name, values in outcome.items()}


def _mean_elsewhere(
    values: Mapping[str, Mapping[str, float]], folds: Mapping[str, Mapping[str, int]], fold: int
) -> float:
    return mean(
        mean(values[name][id_] for id_, at in assigned.items() if at != fold) for name, assigned in folds.items()
    )


def _settings() -> Iterator[dict[str, float]]:
    """Yield the product's setting and those that differ from it in up to CHANGES values."""
    usual = {name: values[1] for name, values in GRID.items()}
    yield usual
    for count in range(1, CHANGES + 1):
        for names in itertools.combinations(GRID, count):
            for changed in itertools.product(*((GRID[name][0], GRID[name][2]) for name in names)):
                yield {**usual, **dict(zip(names, changed, strict=True))}


def _measure(sets: Sequence[JudgedSet], setting: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return set → query → nDCG@10 under *setting*."""
    import ir_measures  # noqa: PLC0415 - slow to import

    metric = ir_measures.nDCG @ 10
    values = {}
    with _weights(setting):
        for judged in sets:
            run = {}
            for query in judged.answerable:
                request = MatchRequest(" ".join(query.text.split())[:MAX_QUERY_LENGTH])
                candidates = find(judged.catalog, request, quick=False).candidates
                run[query.id] = {judged.names[c.uri]: -float(rank) for rank, c in enumerate(candidates)}
            found = dict.fromkeys((query.id for query in judged.answerable), 0.0)
            judgements = {id_: dict(judged.qrels.get(id_, {})) for id_ in found}
            for value in ir_measures.iter_calc([metric], judgements, run):
                found[value.query_id] = float(value.value)
            values[judged.name] = found
    return values


@contextmanager
def _weights(setting: Mapping[str, float]) -> Iterator[None]:
    """Let the ranker use *setting*: the statements are put together anew from it, and restored afterwards."""
    before = {name: weights.FACTORS.get(name, getattr(weights, name, 0.0)) for name in setting}
    _set(setting)
    try:
        yield
    finally:
        _set(before)


def _set(setting: Mapping[str, float]) -> None:
    for name, value in setting.items():
        if name in weights.FACTORS:
            weights.FACTORS[name] = value
        else:
            setattr(weights, name, value)
    importlib.reload(expansion)
    importlib.reload(weighted)


def _table(head: Sequence[str], rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table; a figure that does not exist is a dash."""
    lines = [f"| {' | '.join(head)} |", f"|---{'|--:' * (len(head) - 1)}|"]
    lines += [f"| {name} | {' | '.join(row.get(column, '–') for column in head[1:])} |" for name, row in rows.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
