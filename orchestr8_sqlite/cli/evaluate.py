"""`eval`: how well an index answers judged queries."""

from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, print_json, print_rows


def evaluate(
    queries: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="JSON Lines: id, text, stratum (none: nothing fits).")
    ],
    qrels: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Judgements: query, document, grade between tabs.")
    ],
    db: Database = None,
    ranker: Annotated[str, typer.Option(help="default | classic")] = "default",
    run: Annotated[Path | None, typer.Option(help="Write the ranking here, in TREC form.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Measure the answers to judged queries.

    Example: orchestr8-sqlite eval --queries queries.jsonl --qrels qrels.tsv --db index.db
    """
    from orchestr8_sqlite import evaluation
    from orchestr8_sqlite.catalog import Catalog
    from orchestr8_sqlite.parameters import make_request
    from orchestr8_sqlite.settings import read_settings

    chosen = make_request({"query": "any", "ranker": ranker}).ranker
    asked, judged = evaluation.read_queries(queries), evaluation.read_qrels(qrels)
    with Catalog.open(read_settings(db).database) as catalog:
        report = evaluation.run_queries(catalog, asked, evaluation.document_names(catalog, judged), chosen)
    scores = evaluation.score_run(asked, judged, report.run)
    wrong = evaluation.false_answers(asked, report.run)
    if run is not None:
        run.write_text(evaluation.format_run(report.run, chosen.value), encoding="utf-8")
    costs = {
        "indexTokens": round(report.index_tokens, 1),
        "catalogTokens": round(report.catalog_tokens, 1),
        "milliseconds": round(report.milliseconds, 2),
    }
    if as_json:
        values = [
            {"stratum": s.stratum, "queries": s.queries, **s.means, "nDCG@10 interval": s.interval} for s in scores
        ]
        print_json({"ranker": chosen.value, "scores": values, "falseAnswers": wrong, **costs})
        return
    rows = []
    for s in scores:
        low, high = s.interval
        figures = (f"{s.means[name]:.3f}" for name in evaluation.MEASURES)
        rows.append((s.stratum, s.queries, *figures, f"{low:.3f}-{high:.3f}"))
    print_rows(("stratum", "queries", *evaluation.MEASURES, "nDCG@10 95 %"), rows)
    if wrong is not None:
        typer.echo(f"no-answer queries answered all the same: {wrong:.3f}")
    typer.echo("means: " + ", ".join(f"{name} {value}" for name, value in costs.items()))
