"""`search`, `explain` and `load`: the same answers that the MCP server gives."""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, Partial, print_json
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import DEFAULT_SCORE, DEFAULT_TOKENS, LookupResult, Mode, Ranker, Tier

Terms = Annotated[
    str | None, typer.Option(help="Names an expert would look it up by, separated by commas.", show_default=False)
]


def search(
    query: Annotated[list[str], typer.Argument(help="What you need, in a few words.", show_default=False)],
    db: Database = None,
    terms: Terms = None,
    mode: Annotated[
        str, typer.Option(help="index | catalog | full", autocompletion=lambda: [*map(str, Mode)])
    ] = "catalog",
    category: Annotated[
        list[str] | None, typer.Option("--category", "-c", help="Only this category; repeatable.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Only with this tag; repeatable.")] = None,
    max_results: Annotated[
        int | None, typer.Option(help="1 to 100.  [default: index 5, else 15]", show_default=False)
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens of the answer.")] = DEFAULT_TOKENS,
    min_score: Annotated[float, typer.Option(help="Leave out matches that score less.")] = DEFAULT_SCORE,
    ranker: Annotated[str, typer.Option(help="default | classic")] = "default",
    explain: Annotated[bool, typer.Option("--explain", help="Print the parts of each score.")] = False,
    partial: Partial = False,
    as_json: Json = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL that ran and its parameters, to paste into sqlite3.")
    ] = False,
) -> None:
    """Find the fragments that fit a task.

    Example: orchestr8-sqlite search "the site is slow at noon" --terms "caching, load testing" --mode index
    """
    from orchestr8_sqlite.answers.render import to_json
    from orchestr8_sqlite.service.service import Service
    from orchestr8_sqlite.settings import read_settings

    request = make_request(
        {
            "query": " ".join(query),
            "terms": terms,
            "mode": mode,
            "categories": category,
            "tags": tag,
            "maxResults": max_results,
            "maxTokens": max_tokens,
            "minScore": min_score,
            "ranker": ranker,
            "explain": explain,
        }
    )
    settings = read_settings(db).partial() if partial else read_settings(db)
    with closing(Service(settings)) as service:
        answer = service.search(request, whole=as_json)
    assert answer.result is not None
    if sql:
        echo(_paste(answer.result))
    elif as_json:
        print_json(to_json(answer.result))
    else:
        echo(answer.text)


def explain(
    query: Annotated[list[str], typer.Argument(help="What you need, in a few words.", show_default=False)],
    db: Database = None,
    terms: Terms = None,
    max_results: Annotated[int, typer.Option(help="1 to 100.")] = 5,
    ranker: Annotated[str, typer.Option(help="default | classic")] = "default",
    as_json: Json = False,
) -> None:
    """Print the parts of the best scores; `search --explain` has more options.

    Example: orchestr8-sqlite explain "retry with exponential backoff"
    """
    search(query, db, terms, max_results=max_results, ranker=ranker, explain=True, as_json=as_json)


def load(
    uris: Annotated[list[str], typer.Argument(metavar="URI...", help="orchestr8://… of fragments, lists or searches.")],
    db: Database = None,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum tokens of the answer.", show_default=False)] = None,
    related: Annotated[
        bool, typer.Option("--related", help="List the fragments that each one links to or from.")
    ] = False,
    source: Annotated[
        bool, typer.Option("--source", help="Print where each text comes from: file, commit, SHA-256.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the text of one or more URIs.

    Example: orchestr8-sqlite load orchestr8://skills/error-handling-resilience
    """
    from orchestr8_sqlite.service.service import Service
    from orchestr8_sqlite.settings import read_settings

    with closing(Service(read_settings(db))) as service:
        answer = service.load(uris, max_tokens=max_tokens, related=related, shown=source)
    if as_json:
        sources = [one._asdict() for one in answer.sources]
        print_json({"uris": uris, "tokens": answer.tokens, "text": answer.text, "sources": sources})
    else:
        echo(answer.text)


def _paste(result: LookupResult) -> str:
    """Return the statements that ran and their parameters, ready to paste into the sqlite3 shell."""
    note = "; Python scores its rows" if _is_weighed(result) else ""
    pasted = (f"{_parameters(one.parameters)}\n{one.sql.strip()};" for one in result.statements)
    return "\n".join((f"-- tier: {result.tier.value}{note}", *pasted))


def _is_weighed(result: LookupResult) -> bool:
    return result.tier is Tier.FUZZY and result.request.ranker is Ranker.CLASSIC


def _parameters(parameters: Mapping[str, object]) -> str:
    rows = ",\n".join(f"  (':{name}', {_literal(value)})" for name, value in parameters.items())
    return f".parameter init\nINSERT OR REPLACE INTO temp.sqlite_parameters (key, value) VALUES\n{rows};"


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
