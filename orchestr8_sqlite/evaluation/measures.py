"""Measures how well an index answers judged queries, or those of its own library.

Measures come from ir_measures (the optional dependency `orchestr8-sqlite[eval]`): nDCG with linear gain, reciprocal
rank and recall with grade 1 as relevant. Success@1 is stricter than usual: the first result must have the best grade
that any document has for the query.
"""

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestr8_sqlite.answers.render import render
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.evaluation.judgements import (
    ALL,
    ELSEWHERE,
    NO_ANSWER,
    JudgedQuery,
    Qrels,
    count_copies_once,
)
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import DEFAULT_RESULTS, make_request
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Ranker
from orchestr8_sqlite.ranking.holdout import HeldOut
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.tokens import estimate_tokens

MEASURES = ("nDCG@10", "nDCG@5", "MRR@10", "recall@5", "recall@15", "success@1")
DEPTH = 100
RESAMPLES = 2000

LIBRARY_QUERIES = """
SELECT q.id, q.text, q.origin, q.terms,
       (SELECT json_group_array(a.fragment_id) FROM library_answer a WHERE a.query_id = q.id)
  FROM library_query q ORDER BY q.id
"""
Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id → (document, score), best first."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """The answers of a ranker and their cost: milliseconds and tokens are means over all queries.

    `weak` has the queries whose answer says that nothing fits; the run still lists the closest documents.
    """

    run: Run
    weak: frozenset[str]
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


def run_queries(
    catalog: Catalog, queries: Iterable[JudgedQuery], names: Mapping[str, str], ranker: Ranker
) -> RunReport:
    """Return the answers of *ranker* to *queries*, DEPTH documents deep, and the cost of answers of default size."""
    recorder = _Recorder(names, ranker, DEPTH)
    for query in queries:
        recorder.ask(catalog, query)
    return recorder.report()


def run_self(catalog: Catalog, ranker: Ranker) -> tuple[list[JudgedQuery], dict[str, dict[str, int]], RunReport]:
    """Return the index's own queries, the fragments that answer each, and the run.

    Stratum `scenario`: each scenario is asked while its own line is hidden from the index. Strata `queries` and
    `queries.jsonl`: the requests that authors listed there are asked of the whole index.
    """
    _, names = count_copies_once(catalog, {}, dict(catalog.reader.execute("SELECT uri, path FROM fragment")))
    ids = {id_: names[uri] for id_, uri in catalog.reader.execute("SELECT id, uri FROM fragment")}
    recorder = _Recorder(names, ranker, DEFAULT_RESULTS[Mode.CATALOG])
    queries, qrels = [], {}
    with HeldOut.copy(catalog) as held_out:
        for number, scenario in enumerate(held_out.scenarios(), start=1):
            query = JudgedQuery(f"scenario-{number}", scenario.text, "scenario")
            with held_out.without(scenario, whole=True):
                recorder.ask(held_out.catalog, query)
            queries.append(query)
            qrels[query.id] = {ids[scenario.fragment_id]: 1}
    for id_, text, origin, terms, answers in catalog.reader.execute(LIBRARY_QUERIES):
        found = {ids[fragment]: 1 for fragment in json.loads(answers)}
        query = JudgedQuery(f"query-{id_}", text, origin if found else NO_ANSWER, tuple(json.loads(terms)))
        recorder.ask(catalog, query)
        queries.append(query)
        qrels[query.id] = found
    if not any(qrels.values()):
        raise RequestError("The index holds neither scenarios nor queries with an answer to ask.")
    return queries, qrels, recorder.report()


class _Recorder:
    """Asks queries and records the answers and their cost."""

    def __init__(self, names: Mapping[str, str], ranker: Ranker, depth: int) -> None:
        self._names = names
        self._ranker = ranker
        self._depth = depth
        self._run: dict[str, list[tuple[str, float]]] = {}
        self._weak: set[str] = set()
        self._seconds: list[float] = []
        self._tokens: dict[Mode, list[int]] = defaultdict(list)

    def ask(self, catalog: Catalog, query: JudgedQuery) -> None:
        usual = make_request({"query": query.text, "terms": [*query.terms], "ranker": self._ranker.value})
        started = time.perf_counter()
        result = find(catalog, usual, quick=False)
        self._seconds.append(time.perf_counter() - started)
        deep = result
        if self._depth > usual.max_results:
            deep = find(catalog, usual._replace(max_results=self._depth, min_score=0), quick=False)
        found: dict[str, float] = {}
        for candidate in deep.candidates:  # the classic ranker lists near-copies, which may have one name
            found.setdefault(self._names[candidate.uri], candidate.score)
        self._run[query.id] = [*found.items()]
        if not result.confident:
            self._weak.add(query.id)
        for mode in (Mode.INDEX, Mode.CATALOG):
            listed = result.candidates[: DEFAULT_RESULTS[mode]]
            shown = result._replace(request=_in_mode(usual, mode), candidates=listed)
            self._tokens[mode].append(estimate_tokens(render(shown, catalog.body).text))

    def report(self) -> RunReport:
        return RunReport(
            run=self._run,
            weak=frozenset(self._weak),
            milliseconds=fmean(self._seconds) * 1000,
            index_tokens=fmean(self._tokens[Mode.INDEX]),
            catalog_tokens=fmean(self._tokens[Mode.CATALOG]),
        )


def score_run(queries: Sequence[JudgedQuery], qrels: Qrels, run: Run) -> list[StratumScore]:
    """Return the score of all answerable queries together, then of each stratum by name.

    Raises:
        RequestError: ir_measures is not installed.
    """
    answerable = [query for query in queries if query.stratum not in (NO_ANSWER, ELSEWHERE)]
    values = _measure(answerable, qrels, run)
    strata = sorted({query.stratum for query in answerable} - {ALL})
    groups = {ALL: answerable, **{name: [query for query in answerable if query.stratum == name] for name in strata}}
    return [
        StratumScore(
            stratum=name,
            queries=len(group),
            means={measure: fmean(values[measure][query.id] for query in group) for measure in MEASURES},
            interval=bootstrap_interval([values["nDCG@10"][query.id] for query in group]),
        )
        for name, group in groups.items()
        if group
    ]


def false_answers(queries: Iterable[JudgedQuery], report: RunReport) -> float | None:
    """Return the share of no-answer queries that were answered with confidence; None if there are no such queries."""
    answered = [
        bool(report.run.get(query.id)) and query.id not in report.weak
        for query in queries
        if query.stratum == NO_ANSWER
    ]
    return fmean(answered) if answered else None


def false_refusals(queries: Iterable[JudgedQuery], report: RunReport) -> float:
    """Return the share of answerable queries whose answer said that nothing fits."""
    return fmean(
        query.id in report.weak or not report.run.get(query.id)
        for query in queries
        if query.stratum not in (NO_ANSWER, ELSEWHERE)
    )


def false_triggers(queries: Iterable[JudgedQuery], qrels: Qrels, report: RunReport) -> float | None:
    """Return the share of queries for other documents whose answer begins with the judged ones; None without such."""
    begun = [
        query.id not in report.weak and any(document in qrels[query.id] for document, _ in report.run[query.id][:1])
        for query in queries
        if query.stratum == ELSEWHERE
    ]
    return fmean(begun) if begun else None


def shares_of(queries: Sequence[JudgedQuery], qrels: Qrels, report: RunReport) -> dict[str, float | None]:
    """Return the shares of wrong answers and refusals by name."""
    return {
        "false-answers": false_answers(queries, report),
        "false-refusals": false_refusals(queries, report),
        "false-triggers": false_triggers(queries, qrels, report),
    }


def unmet_bounds(bounds: Iterable[str], scores: Sequence[StratumScore]) -> list[str]:
    """Return a sentence for each lower bound that the scores do not reach.

    Args:
        bounds: `recall@5=0.9` for all queries, `queries.jsonl:recall@5=0.9` for one stratum.

    Raises:
        RequestError: A bound has an unknown measure or stratum, or is not a number.
    """
    by_name = {score.stratum.casefold(): score for score in scores}
    known = {name.casefold(): name for name in MEASURES}
    problems = []
    for bound in bounds:
        place, least = _read_bound("--fail-under", bound, "recall@5=0.9")
        stratum, _, alias = place.rpartition(":")
        if alias not in known:
            raise RequestError(f"--fail-under knows no measure {alias!r}; it is one of {', '.join(known)}.")
        if (stratum or ALL.casefold()) not in by_name:
            raise RequestError(f"There are no queries {stratum!r}; there are {', '.join(by_name)}.")
        mean_value = by_name[stratum or ALL.casefold()].means[known[alias]]
        if mean_value < least:
            where = f" of {stratum}" if stratum else ""
            problems.append(f"{known[alias]}{where} is {mean_value:.3f}, below {least:g}")
    return problems


def exceeded_bounds(bounds: Iterable[str], shares: Mapping[str, float | None]) -> list[str]:
    """Return a sentence for each upper bound such as `false-answers=0.1` that one of *shares* exceeds.

    Raises:
        RequestError: A bound names a share that was not measured, or is not a number.
    """
    problems = []
    for bound in bounds:
        name, most = _read_bound("--fail-over", bound, "false-answers=0.1")
        share = shares.get(name)
        if share is None:
            measured = ", ".join(name for name, value in shares.items() if value is not None)
            raise RequestError(f"--fail-over has no {name!r} to judge; it has {measured}.")
        if share > most:
            problems.append(f"{name} is {share:.3f}, above {most:g}")
    return problems


def _read_bound(option: str, bound: str, example: str) -> tuple[str, float]:
    name, _, number = bound.partition("=")
    try:
        return name.strip().casefold(), float(number)
    except ValueError:
        raise RequestError(f"{option} wants a name, = and a number, such as {example}; not {bound!r}.") from None


def bootstrap_interval(values: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean of *values* over resamples with replacement."""
    choose = random.Random(1)  # noqa: S311 - statistics, and the same every time
    means = sorted(fmean(choose.choices(values, k=len(values))) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


def format_run(report: RunReport, tag: str) -> str:
    """Return a run in TREC form: `query Q0 document rank score tag`, with scores that fall strictly with the rank.

    The tag ends in `-weak` if the answer said that nothing fits.
    """
    return "".join(
        f"{query} Q0 {document} {rank} {DEPTH + 1 - rank} {tag}{'-weak' if query in report.weak else ''}\n"
        for query, documents in report.run.items()
        for rank, (document, _) in enumerate(documents, start=1)
    )


def _in_mode(request: MatchRequest, mode: Mode) -> MatchRequest:
    return request._replace(mode=mode, max_results=DEFAULT_RESULTS[mode])


def _measure(queries: Iterable[JudgedQuery], qrels: Qrels, run: Run) -> dict[str, dict[str, float]]:
    """Return measure → query id → value; a query without judgements or results counts 0."""
    try:
        import ir_measures  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        where = f"install it with: {sys.executable} -m pip install ir-measures (uvx: --with ir-measures)"
        raise RequestError(f"eval needs the package ir-measures; {where}.") from None
    ids = [query.id for query in queries]
    ranked = {id_: {doc: -rank for rank, (doc, _) in enumerate(run.get(id_, ()))} for id_ in ids}
    judged = {id_: dict(qrels[id_]) for id_ in ids if id_ in qrels}
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(ids, 0.0) for name in MEASURES}
    wanted = {
        ir_measures.nDCG @ 10: "nDCG@10",
        ir_measures.nDCG @ 5: "nDCG@5",
        ir_measures.RR @ 10: "MRR@10",
        ir_measures.R @ 5: "recall@5",
        ir_measures.R @ 15: "recall@15",
    }
    for metric in ir_measures.iter_calc(list(wanted), judged, ranked):
        values[wanted[metric.measure]][metric.query_id] = float(metric.value)
    for id_ in ids:
        best = max(qrels.get(id_, {}).values(), default=0)
        first = next((doc for doc, _ in run.get(id_, ())), None)
        values["success@1"][id_] = float(best > 0 and first is not None and qrels[id_].get(first, 0) == best)
    return values
