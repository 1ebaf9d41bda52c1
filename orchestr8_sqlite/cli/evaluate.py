"""`eval`: measures how well an index answers judged queries, or its own scenarios."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, print_json, print_rows
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.evaluation.failures import Failure
    from orchestr8_sqlite.evaluation.judgements import JudgedQuery
    from orchestr8_sqlite.evaluation.measures import RunReport, StratumScore
    from orchestr8_sqlite.index.catalog import Catalog


def evaluate(
    queries: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="JSON Lines: id, text, stratum (none if nothing fits), terms. Without --qrels: a BEIR folder, a JSON "
            "file with evals or triggers of a skill, or a folder of such.",
        ),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Judgements: query, document and grade, separated by tabs."),
    ] = None,
    own: Annotated[
        bool,
        typer.Option("--self", help="Ask the library's own queries, and its scenarios, each with its line hidden."),
    ] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STRATUM:]MEASURE=N", help="Exit with 1 below N, e.g. queries.jsonl:recall@5=0.9; repeatable."
        ),
    ] = None,
    fail_over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SHARE=N", help="Exit with 1 above N: false-answers, false-refusals or false-triggers; repeatable."
        ),
    ] = None,
    present_only: Annotated[
        bool, typer.Option("--present-only", help="Ignore judgements of documents that the index lacks.")
    ] = False,
    failures: Annotated[int, typer.Option(min=0, help="Maximum failed queries to list, worst first.")] = 10,
    config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Bounds. Default: orchestr8.toml here.", show_default=False),
    ] = None,
    db: Database = None,
    ranker: Annotated[str, typer.Option(help="default | classic")] = "default",
    run: Annotated[Path | None, typer.Option(help="Write the ranking here in TREC format.", show_default=False)] = None,
    badge: Annotated[
        Path | None, typer.Option(help="Write recall@5 here as a badge of shields.io.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure answers to judged queries, or to the library's own.

    Example: orchestr8-sqlite eval --self --fail-under recall@5=0.9 --db index.db
    """
    from orchestr8_sqlite.evaluation import judgements, measures
    from orchestr8_sqlite.evaluation.failures import FIRST, find_failures
    from orchestr8_sqlite.index.catalog import Catalog
    from orchestr8_sqlite.model.parameters import make_request
    from orchestr8_sqlite.settings import read_settings

    chosen = make_request({"query": "any", "ranker": ranker}).ranker
    if own == (queries is not None) or (queries is None and qrels is not None) or _lacks_qrels(queries, qrels):
        raise RequestError("Give either --queries and --qrels, or --self.")
    missing = 0
    database = read_settings(db).database
    with Catalog.open(database) as catalog:
        if queries is None:
            asked, judged, report = measures.run_self(catalog, chosen)
        else:
            asked, judged = _read_judged(queries, qrels, catalog)
            present, missing = judgements.present_only(catalog, judged)
            judged = present if present_only else judged
            names = judgements.document_names(catalog, judged)
            judged, names = judgements.count_copies_once(catalog, judged, names)
            report = measures.run_queries(catalog, asked, names, chosen)
        index = {"index": str(database), "fragments": catalog.size}
    scores = measures.score_run(asked, judged, report.run)
    if run is not None:
        run.write_text(measures.format_run(report, chosen.value), encoding="utf-8")
    shares = measures.shares_of(asked, judged, report)
    if own and not (fail_under or fail_over):
        fail_under, fail_over = read_bounds(config)
    below = measures.unmet_bounds(fail_under or (), scores)
    unmet = below + measures.exceeded_bounds(fail_over or (), shares)
    needs_first = any(not problem.startswith("recall") for problem in below)  # what these measures count against it
    failed = find_failures(asked, judged, report, 1 if needs_first else FIRST)
    if badge is not None:
        _write_badge(badge, scores, bounded=bool(fail_under or fail_over), unmet=unmet)
    judged_whole = {**shares, "missingDocuments": missing}
    if as_json:
        rows = [{"stratum": s.stratum, "queries": s.queries, **s.means, "nDCG@10 interval": s.interval} for s in scores]
        print_json(
            {**index, "ranker": chosen.value, "scores": rows, **judged_whole, **_costs(report), "unmet": unmet}
            | _listed(failed, failures)
        )
    else:
        _print(scores, judged_whole, _costs(report))
        echo(f"asked: {database}, {counted(catalog.size, 'fragment')}")
        _print_failures(failed, failures)
        for problem in unmet:
            echo(problem, err=True)
    raise typer.Exit(1 if unmet else 0)


def _lacks_qrels(queries: Path | None, qrels: Path | None) -> bool:
    """Tell whether *queries* are JSON Lines without judgements; other forms hold their own."""
    return queries is not None and qrels is None and not queries.is_dir() and queries.suffix != ".json"


def _read_judged(
    queries: Path, qrels: Path | None, catalog: "Catalog"
) -> tuple[list["JudgedQuery"], dict[str, dict[str, int]]]:
    """Return queries and judgements, from JSON Lines with *qrels* or in a form that others use."""
    from orchestr8_sqlite.evaluation.formats import read_collection
    from orchestr8_sqlite.evaluation.judgements import read_qrels, read_queries

    if qrels is None:
        return read_collection(queries, catalog)
    if queries.is_dir():
        raise RequestError("With --qrels, --queries must be a file of JSON Lines; leave --qrels out for a folder.")
    return read_queries(queries), read_qrels(qrels)


def _write_badge(path: Path, scores: "Sequence[StratumScore]", *, bounded: bool, unmet: Sequence[str]) -> None:
    import json

    from orchestr8_sqlite.evaluation.badge import make_badge

    path.write_text(json.dumps(make_badge(scores, bounded=bounded, unmet=unmet)) + "\n", encoding="utf-8")


def read_bounds(config: Path | None) -> tuple[list[str], list[str]]:
    """Return the bounds from a library's settings: those in *config*, else those in the working folder."""
    if config is None and not Path("orchestr8.toml").is_file():
        return [], []
    from orchestr8_sqlite.library.project import find_project

    project = find_project((), config)
    return [*project.fail_under], [*project.fail_over]


def _listed(failed: "Sequence[Failure]", most: int) -> dict[str, object]:
    rows = [
        {
            "what": one.what,
            "text": one.query.text,
            "stratum": one.query.stratum,
            "wanted": one.wanted,
            "place": one.place,
            "first": one.first,
        }
        for one in failed[:most]
    ]
    return {"failed": len(failed), "failures": rows}


def _print_failures(failed: "Sequence[Failure]", most: int) -> None:
    if not failed or not most:
        return
    echo("")
    rows = [(one.what, one.query.text, ", ".join(one.wanted), one.first or "") for one in failed[:most]]
    print_rows(("failed", "query", "wanted", "first instead"), rows)
    if len(failed) > most:
        echo(f"… and {len(failed) - most:,} more; list all with: --failures {len(failed)}")


def _costs(report: "RunReport") -> dict[str, float]:
    return {
        "indexTokens": round(report.index_tokens, 1),
        "catalogTokens": round(report.catalog_tokens, 1),
        "milliseconds": round(report.milliseconds, 2),
    }


def _print(
    scores: "Sequence[StratumScore]", judged_whole: Mapping[str, float | None], costs: Mapping[str, float]
) -> None:
    rows = []
    for s in scores:
        low, high = s.interval
        rows.append((s.stratum, s.queries, *(f"{value:.3f}" for value in s.means.values()), f"{low:.3f}-{high:.3f}"))
    print_rows(("stratum", "queries", *scores[0].means, "nDCG@10 95 %"), rows)
    if judged_whole["false-answers"] is not None:
        echo(f"false-answers {judged_whole['false-answers']:.3f}: answered although nothing fits")
    echo(f"false-refusals {judged_whole['false-refusals']:.3f}: refused although something fits")
    if judged_whole["false-triggers"] is not None:
        echo(f"false-triggers {judged_whole['false-triggers']:.3f}: begins with a skill that should not trigger")
    echo("means: " + ", ".join(f"{name} {value}" for name, value in costs.items()))
    if missing := judged_whole["missingDocuments"]:
        lacking = counted(int(missing), "judged document")
        echo(f"The index lacks {lacking}; --present-only ignores such judgements.")
