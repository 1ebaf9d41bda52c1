"""How well an index answers judged queries.

Measures come from ir_measures (the optional dependency `orchestr8-sqlite[eval]`): nDCG with linear gain, reciprocal
rank and recall with grade 1 as relevant. Success@1 asks more than its usual form: the first result must
have the best grade that any document has for the query.
"""

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest, Mode, Ranker
from orchestr8_sqlite.parameters import DEFAULT_RESULTS, make_request
from orchestr8_sqlite.render import render
from orchestr8_sqlite.tokens import estimate_tokens

NO_ANSWER = "none"
"""The stratum of queries that nothing in the library fits."""

ALL = "ALL"
MEASURES = ("nDCG@10", "nDCG@5", "MRR@10", "R@5", "R@15", "S@1")
DEPTH = 100
RESAMPLES = 2000

SOURCE_PATHS = "SELECT f.uri, s.path FROM fragment f JOIN source s ON s.id = f.source_id"

Qrels = Mapping[str, Mapping[str, int]]
"""Query id → document → grade: 2 exactly what is needed, 1 useful, 0 not."""

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id → (document, score), best first."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """One query of a judged set."""

    id: str
    text: str
    stratum: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a ranker answered, and what it cost: milliseconds and tokens are means over all queries."""

    run: Run
    milliseconds: float
    index_tokens: float
    catalog_tokens: float


@dataclass(frozen=True, slots=True)
class StratumScore:
    """Means over the answerable queries of a stratum; `interval` is the 95 % bootstrap interval of nDCG@10."""

    stratum: str
    queries: int
    means: Mapping[str, float]
    interval: tuple[float, float]


def read_queries(path: Path) -> list[JudgedQuery]:
    """Return the queries of a JSON Lines file with `id`, `text` and, where it has them, `stratum`.

    Raises:
        RequestError: A line is not of that form, or there is no answerable query.
    """
    queries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            queries.append(JudgedQuery(str(value["id"]), str(value["text"]), str(value.get("stratum") or ALL)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RequestError(f'{path.name}:{number}: expected {{"id": …, "text": …, "stratum": …}}.') from None
    if all(query.stratum == NO_ANSWER for query in queries):
        raise RequestError(f"{path.name} holds no query that has an answer.")
    return queries


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return the judgements of a file with lines `query<TAB>document<TAB>grade`; `#` begins a comment.

    Raises:
        RequestError: A line is not of that form.
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
    """Return how each URI is named in *qrels*: by the URI, by its id, or by its path below the root without `.md`."""
    judged = {document for judgements in qrels.values() for document in judgements}
    names = {}
    for uri, path in catalog.db.execute(SOURCE_PATHS):
        below = path.removesuffix("/SKILL.md").removesuffix(".md")
        spellings = (uri, uri.partition("://")[2], below)
        names[uri] = next((spelling for spelling in spellings if spelling in judged), below)
    return names


def run_queries(
    catalog: Catalog, queries: Iterable[JudgedQuery], names: Mapping[str, str], ranker: Ranker
) -> RunReport:
    """Return what *ranker* answers to *queries*, DEPTH documents deep, with its times and token costs."""
    run, seconds = {}, []
    tokens: dict[Mode, list[int]] = defaultdict(list)
    for query in queries:
        request = make_request({"query": query.text[:1000], "maxResults": DEPTH, "ranker": ranker.value})
        started = time.perf_counter()
        result = find(catalog, request)
        seconds.append(time.perf_counter() - started)
        run[query.id] = [(names[candidate.uri], candidate.score) for candidate in result.candidates]
        for mode in (Mode.INDEX, Mode.CATALOG):
            listed = result.candidates[: DEFAULT_RESULTS[mode]]
            shown = replace(result, request=_in_mode(request, mode), candidates=listed)
            tokens[mode].append(estimate_tokens(render(shown, catalog.body)))
    return RunReport(run, mean(seconds) * 1000, mean(tokens[Mode.INDEX]), mean(tokens[Mode.CATALOG]))


def score_run(queries: Sequence[JudgedQuery], qrels: Qrels, run: Run) -> list[StratumScore]:
    """Return the score of all answerable queries together, then of each stratum by name.

    Raises:
        RequestError: ir_measures is not installed.
    """
    answerable = [query for query in queries if query.stratum != NO_ANSWER]
    values = _measure(answerable, qrels, run)
    strata = sorted({query.stratum for query in answerable} - {ALL})
    groups = {ALL: answerable, **{name: [query for query in answerable if query.stratum == name] for name in strata}}
    return [
        StratumScore(
            stratum=name,
            queries=len(group),
            means={measure: mean(values[measure][query.id] for query in group) for measure in MEASURES},
            interval=bootstrap_interval([values["nDCG@10"][query.id] for query in group]),
        )
        for name, group in groups.items()
        if group
    ]


def false_answers(queries: Iterable[JudgedQuery], run: Run) -> float | None:
    """Return the share of no-answer queries that were answered all the same, None where there are none."""
    answered = [bool(run.get(query.id)) for query in queries if query.stratum == NO_ANSWER]
    return mean(answered) if answered else None


def bootstrap_interval(values: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean of *values* over resamples with replacement."""
    choose = random.Random(1)  # noqa: S311 - statistics, and the same every time
    means = sorted(mean(choose.choices(values, k=len(values))) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


def format_run(run: Run, tag: str) -> str:
    """Return *run* in TREC form: `query Q0 document rank score tag`, scores falling strictly with the rank."""
    return "".join(
        f"{query} Q0 {document} {rank} {DEPTH + 1 - rank} {tag}\n"
        for query, documents in run.items()
        for rank, (document, _) in enumerate(documents, start=1)
    )


def _in_mode(request: MatchRequest, mode: Mode) -> MatchRequest:
    return replace(request, mode=mode, max_results=DEFAULT_RESULTS[mode])


def _measure(queries: Iterable[JudgedQuery], qrels: Qrels, run: Run) -> dict[str, dict[str, float]]:
    """Return measure → query id → value; a query without judgements or results counts 0."""
    try:
        import ir_measures  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise RequestError("eval needs ir_measures; install it with: pip install 'orchestr8-sqlite[eval]'.") from None
    ids = [query.id for query in queries]
    ranked = {id_: {doc: -rank for rank, (doc, _) in enumerate(run.get(id_, ()))} for id_ in ids}
    judged = {id_: dict(qrels[id_]) for id_ in ids if id_ in qrels}
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(ids, 0.0) for name in MEASURES}
    wanted = {
        ir_measures.nDCG @ 10: "nDCG@10",
        ir_measures.nDCG @ 5: "nDCG@5",
        ir_measures.RR @ 10: "MRR@10",
        ir_measures.R @ 5: "R@5",
        ir_measures.R @ 15: "R@15",
    }
    for metric in ir_measures.iter_calc(list(wanted), judged, ranked):
        values[wanted[metric.measure]][metric.query_id] = float(metric.value)
    for id_ in ids:
        best = max(qrels.get(id_, {}).values(), default=0)
        first = next((doc for doc, _ in run.get(id_, ())), None)
        values["S@1"][id_] = float(best > 0 and first is not None and qrels[id_].get(first, 0) == best)
    return values
