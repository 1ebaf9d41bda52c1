"""Measures the rankers on judged queries and writes the tables of docs/ranking.md.

Needs the judged sets and their libraries beside the checkout (../shared, or the folder in ORCHESTR8_SHARED), and
takes about ten minutes, mostly for cross-validation, which asks every query once per setting.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median

from contest import PYTHON
from judged import SETS, SHARED, JudgedSet, open_set, open_untuned
from settings import GRID_OF_TERMS, cross_validate, measure_queries

from orchestr8_sqlite.answers.render import render
from orchestr8_sqlite.evaluation.judgements import ALL
from orchestr8_sqlite.evaluation.measures import Run, false_answers, false_refusals, run_queries, score_run
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Ranker
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.keywords import extract_keywords
from orchestr8_sqlite.text.tokens import estimate_tokens

DOCUMENT = Path(__file__).parents[1] / "docs" / "ranking.md"
BEGIN, END = "<!-- written by `make eval` from here -->", "<!-- to here -->"
STRATA = ("kw", "nl", "prob", "syn", "typo", "morph", "single", "known")
BM25 = """
SELECT f.uri FROM fragment_text JOIN fragment f ON f.id = fragment_text.rowid
 WHERE fragment_text MATCH ? ORDER BY bm25(fragment_text), f.uri LIMIT 100
"""
WITHOUT: Mapping[str, Mapping[str, float]] = {
    "other names": {"synonym": 0.0},
    "needs": {"related": 0.0},
    "typo repair": {"typo": 0.0},
    "joined words": {"joined": 0.0},
    "the rarity bound of forms": {"RARITY_BOUND": 99.0},
    "the name's share": {"NAME_BONUS": 0.0},
    "what is learnt": {"FEEDBACK": 0.0},
    "everyday words": {"EVERYDAY": 1.0},
    "bodies": {"BODY_WEIGHT": 0},
}
"""Ingredient of an answer → the weights that switch it off."""

ANSWERS = {
    "index, 5": (Mode.INDEX, 5),
    "catalog, 5": (Mode.CATALOG, 5),
    "catalog, 8": (Mode.CATALOG, 8),
    "catalog, 15": (Mode.CATALOG, 15),
}
"""Candidates for the default answer, for a model that does not ask for a mode: name → (mode, results)."""

RIGHT = 2
"""Lowest grade at which a document answers a request."""

REPEATS = 3
WITH_TERMS = "default, with terms"
HELP = ("plain", "with terms")


def main() -> None:
    """Measure, print, and write the tables into the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print-only", action="store_true", help="do not change the document")
    parser.add_argument("--no-cross-validation", action="store_true")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"{SHARED} is missing: the judged sets are not part of this project; set ORCHESTR8_SHARED.")
    with tempfile.TemporaryDirectory() as folder:
        asked = [open_set(name, Path(folder)) for name in SETS]
        sets = [judged.plain for judged in asked]
        helped = [judged for judged in asked if judged.has_terms]
        unseen = open_untuned(Path(folder))
        validated: dict[str, dict[str, float]] = {}
        if not options.no_cross_validation:
            validated = {"default": cross_validate(sets), WITH_TERMS: cross_validate(helped, GRID_OF_TERMS)}
        whole = {"default": sets, WITH_TERMS: helped}
        text = "\n\n".join(
            [
                quality(sets, helped, validated),
                strata(whole),
                untuned(unseen),
                without([*sets, *(judged.plain for judged in unseen)]),
                confidence(whole),
                costs(sets),
                speed(whole),
            ]
        )
        if not options.print_only:
            draw_strata(whole, Path(folder))
        for judged in (*sets, *unseen):
            judged.catalog.close()
    sys.stdout.write(text + "\n")
    if not options.print_only:
        document = DOCUMENT.read_text(encoding="utf-8")
        head, rest = document.split(BEGIN)
        tail = rest.split(END)[1]
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")


def draw_strata(sets: Mapping[str, Sequence[JudgedSet]], folder: Path) -> None:
    """Draw nDCG@10 by stratum with its intervals, beside the document; *folder* is for the figures."""
    found = {}
    for name, judged in _named(sets):
        scores = {
            score.stratum: score for score in score_run(judged.queries, judged.qrels, ranked(judged, Ranker.DEFAULT))
        }
        if len(scores) > 1:
            found[name] = {one: (scores[one].means["nDCG@10"], *scores[one].interval) for one in STRATA}
    figures = folder / "strata.json"
    figures.write_text(json.dumps(found), encoding="utf-8")
    plots = Path(__file__).with_name("plots.py")
    subprocess.run([str(PYTHON), str(plots), "strata", str(figures), str(DOCUMENT.parent)], check=True)


def ndcg(judged: JudgedSet, run: Run) -> dict[str, float]:
    """Return stratum → nDCG@10."""
    return {score.stratum: score.means["nDCG@10"] for score in score_run(judged.queries, judged.qrels, run)}


def ranked(judged: JudgedSet, ranker: Ranker) -> Run:
    """Return the answers of *ranker*."""
    return run_queries(judged.catalog, judged.queries, judged.names, ranker).run


def bm25(judged: JudgedSet) -> Run:
    """Return the answers of FTS5 alone: any of the words, all columns weighted alike."""
    run = {}
    for query in judged.queries:
        found = judged.catalog.db.execute(BM25, (_any_word(query.text),)) if _any_word(query.text) else ()
        run[query.id] = _places(judged.names[uri] for (uri,) in found)
    return run


def published(judged: JudgedSet) -> dict[str, Run]:
    """Return the runs of other systems that come with the judgements."""
    runs: dict[str, Run] = {}
    for path in sorted((SHARED / "eval" / "runs" / judged.name).glob("*.run")):
        run: dict[str, list[tuple[str, float]]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            query, _, document, _, score, _ = line.split()
            run.setdefault(query, []).append((document, float(score)))
        runs[path.stem] = {
            query: _places(judged.once.get(doc, doc) for doc, _ in sorted(docs, key=lambda doc: -doc[1]))
            for query, docs in run.items()
        }
    return runs


def _places(documents: Iterable[str]) -> list[tuple[str, float]]:
    """Return each document once, with a score that falls with its place."""
    return [(document, -float(place)) for place, document in enumerate(dict.fromkeys(documents))]


def quality(
    sets: Sequence[JudgedSet], helped: Sequence[JudgedSet], validated: Mapping[str, Mapping[str, float]]
) -> str:
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
    with_terms = {judged.name: f"{ndcg(judged, ranked(judged, Ranker.DEFAULT))['ALL']:.3f}" for judged in helped}
    table = {"default": table["default"], WITH_TERMS: with_terms, **table}
    for system, means in reversed([*validated.items()]):
        table = {f"{system}, cross-validated": {name: f"{mean:.3f}" for name, mean in means.items()}, **table}
    return _table(("nDCG@10", *(judged.name for judged in sets)), table)


def strata(sets: Mapping[str, Sequence[JudgedSet]]) -> str:
    """Return the table of nDCG@10 of the default ranker by stratum, where a set has strata."""
    table = {}
    for name, judged in _named(sets):
        found = ndcg(judged, ranked(judged, Ranker.DEFAULT))
        if len(found) > 1:
            table[name] = {stratum: f"{found[stratum]:.3f}" for stratum in STRATA}
    return _table(("default, nDCG@10", *STRATA), table)


def _named(sets: Mapping[str, Sequence[JudgedSet]]) -> Iterator[tuple[str, JudgedSet]]:
    """Yield every set of queries with the name of its row."""
    for system, asked in sets.items():
        yield from ((judged.name + system.removeprefix("default"), judged) for judged in asked)


def untuned(sets: Sequence[JudgedSet]) -> str:
    """Return the table of the sets that no weight was chosen by."""
    table = {}
    for judged in sets:
        runs = {
            "plain": ranked(judged.plain, Ranker.DEFAULT),
            "with terms": ranked(judged, Ranker.DEFAULT) if judged.has_terms else None,
            "classic": ranked(judged.plain, Ranker.CLASSIC),
            "FTS5 bm25": bm25(judged),
        }
        means = {system: ndcg(judged, run) for system, run in runs.items() if run is not None}
        plain, helped = (_wrong(one) for one in (judged.plain, judged))
        problems = [f"{means[one]['prob']:.3f}" for one in HELP if "prob" in means.get(one, {})]
        table[f"{judged.name}, {len(judged.answerable)} requests"] = {
            **{system: f"{found['ALL']:.3f}" for system, found in means.items()},
            "prob": " / ".join(problems) or "–",
            "right in five": " / ".join(
                found_right(judged, runs[one] or {}, "recall@5") for one in HELP if one in means
            ),
            "right first": " / ".join(
                found_right(judged, runs[one] or {}, "success@1") for one in HELP if one in means
            ),
            "judged@10": f"{judged_share(judged, runs['plain'] or {}):.2f}",
            "answered in vain": " / ".join(one[0] for one in (plain, helped)),
            "refused": " / ".join(one[1] for one in (plain, helped)),
        }
    columns = ("plain", "with terms", "classic", "FTS5 bm25", "prob")
    shares = ("right in five", "right first", "judged@10", "answered in vain", "refused")
    return _table(("not tuned on, nDCG@10", *columns, *shares), table)


def found_right(judged: JudgedSet, run: Run, measure: str) -> str:
    """Return the mean of *measure* if only right documents count, of the requests that have one."""
    right = {
        query.id: found
        for query in judged.answerable
        if (found := {name: grade for name, grade in judged.qrels.get(query.id, {}).items() if grade >= RIGHT})
    }
    asked = [query for query in judged.answerable if query.id in right]
    return next(f"{score.means[measure]:.3f}" for score in score_run(asked, right, run) if score.stratum == ALL)


def judged_share(judged: JudgedSet, run: Run) -> float:
    """Return the share of the first ten documents of each answer that somebody judged."""
    shares = [
        mean(document in judged.qrels[query.id] for document, _ in run[query.id][:10])
        for query in judged.answerable
        if run.get(query.id)
    ]
    return mean(shares)


def _wrong(judged: JudgedSet) -> tuple[str, str]:
    """Return the shares of foreign requests answered and of answerable requests refused."""
    report = run_queries(judged.catalog, judged.queries, judged.names, Ranker.DEFAULT)
    wrong = false_answers(judged.queries, report)
    return "–" if wrong is None else f"{wrong:.3f}", f"{false_refusals(judged.queries, report):.3f}"


def without(sets: Sequence[JudgedSet]) -> str:
    """Return the table of how much nDCG@10 drops without each ingredient."""
    whole = measure_queries(sets, {})
    table = {}
    for name, setting in WITHOUT.items():
        found = measure_queries(sets, setting)
        losses = {judged.name: _mean(whole[judged.name]) - _mean(found[judged.name]) for judged in sets}
        row = {set_name: f"{loss:+.3f}" for set_name, loss in losses.items()}
        table[name] = {**row, "mean": f"{mean(losses.values()):+.3f}"}
    return _table(("loss of nDCG@10 without", *(judged.name for judged in sets), "mean"), table)


def _mean(values: Mapping[str, float]) -> float:
    return mean(values.values())


def confidence(sets: Mapping[str, Sequence[JudgedSet]]) -> str:
    """Return the table of false answers and false refusals, as shares of the queries concerned."""
    columns = ("threshold", "no-answer queries answered", "answerable queries refused")
    table = {}
    for name, judged in _named(sets):
        report = run_queries(judged.catalog, judged.queries, judged.names, Ranker.DEFAULT)
        wrong = false_answers(judged.queries, report)
        figures = (
            f"{judged.catalog.least_coverage:.2f}",
            "none asked" if wrong is None else f"{wrong:.3f}",
            f"{false_refusals(judged.queries, report):.3f}",
        )
        table[name] = dict(zip(columns, figures, strict=True))
    return _table(("confidence", *columns), table)


def costs(sets: Sequence[JudgedSet]) -> str:
    """Return the table of what an answer costs a model, and how often it lists a right document.

    "Tokens until found" assumes that a model that sees no right document asks again, for 15 in catalog mode.
    """
    columns = ("tokens", "right one listed", "tokens until found")
    table = {}
    for judged in sets:
        best = {
            query.id: min(RIGHT, max(judged.qrels[query.id].values(), default=RIGHT)) for query in judged.answerable
        }
        again = _answers(judged, ANSWERS["catalog, 15"])
        for name, answer in ANSWERS.items():
            given = _answers(judged, answer)
            listed = {
                id_: any(judged.qrels[id_].get(document, 0) >= least for document in given[id_][1])
                for id_, least in best.items()
            }
            until = [given[id_][0] + (0 if found else again[id_][0]) for id_, found in listed.items()]
            figures = (
                f"{mean(given[id_][0] for id_ in best):.0f}",
                f"{mean(listed.values()):.3f}",
                f"{mean(until):.0f}",
            )
            table[f"{judged.name}: {name}"] = dict(zip(columns, figures, strict=True))
    return _table(("an answer of", *columns), table)


def _answers(judged: JudgedSet, answer: tuple[Mode, int]) -> dict[str, tuple[int, list[str]]]:
    """Return query id → (tokens of the answer, documents it lists), for each query that has an answer."""
    mode, most = answer
    given = {}
    for query in judged.answerable:
        text = " ".join(query.text.split())
        rendering = render(find(judged.catalog, MatchRequest(text, mode, max_results=most)), judged.catalog.body)
        given[query.id] = estimate_tokens(rendering.text), [judged.names[one.uri] for one in rendering.shown]
    return given


def speed(sets: Mapping[str, Sequence[JudgedSet]]) -> str:
    """Return the table of median times over the same queries, in one run; each time is the best of REPEATS."""
    columns = ("default, ms", "FTS5 bm25, ms", "ratio")
    table = {}
    for name, judged in _named(sets):
        requests = [
            MatchRequest(" ".join(query.text.split()), terms=query.terms)
            for query in judged.queries[:200]
            if _any_word(query.text)
        ]
        ours = median(_best(partial(_rank, judged.catalog, request)) for request in requests)
        floor = median(
            _best(partial(_full_text, judged.catalog.db, " ".join((one.query, *one.terms)))) for one in requests
        )
        figures = (f"{ours * 1000:.1f}", f"{floor * 1000:.1f}", f"{ours / floor:.1f}")
        table[name] = dict(zip(columns, figures, strict=True))
    return _table(("time of a query, median", *columns), table)


def _rank(catalog: Catalog, request: MatchRequest) -> None:
    find(catalog, request, quick=False)


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


def _table(head: Sequence[str], rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table; a missing figure is a dash."""
    lines = [f"| {' | '.join(head)} |", f"|---{'|--:' * (len(head) - 1)}|"]
    lines += [f"| {name} | {' | '.join(row.get(column, '–') for column in head[1:])} |" for name, row in rows.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
