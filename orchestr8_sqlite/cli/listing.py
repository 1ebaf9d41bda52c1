"""`list`: shows the categories, tags, fragments or prompts of an index."""

import json
from itertools import groupby
from operator import itemgetter
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, print_json, print_rows
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.settings import read_settings

CATEGORIES = gathered(
    "SELECT category, count(*) AS fragments, sum(token_estimate) AS tokens FROM fragment GROUP BY 1 ORDER BY 1",
    added=1,
    order=[1],
)
TAGS = gathered(
    "SELECT tag, count(*) AS fragments FROM tag GROUP BY 1 ORDER BY 2 DESC, 1",
    added=1,
    order=[-2, 1],
)
FRAGMENTS = gathered(
    """
SELECT uri, token_estimate AS tokens, title FROM fragment f
 WHERE (:category IS NULL OR category = :category)
   AND NOT EXISTS (SELECT 1 FROM json_each(:tags) w
                    WHERE NOT EXISTS (SELECT 1 FROM tag t WHERE t.fragment_id = f.id AND t.tag = w.value))
 ORDER BY uri
""",
    order=[1],
)
PROMPTS = """
SELECT p.name, a.name AS arguments, p.title
  FROM prompt p LEFT JOIN prompt_argument a ON a.prompt_id = p.id
 ORDER BY p.name, a.ordinal
"""
"""One row for each argument."""

WHOLE = {"categories": CATEGORIES, "tags": TAGS, "fragments": FRAGMENTS, "prompts": PROMPTS}


def list_contents(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]",
            help="categories | tags | fragments | prompts, or a category.",
            autocompletion=lambda: [*WHOLE],
        ),
    ] = "categories",
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Only with this tag; repeatable.")] = None,
    db: Database = None,
    as_json: Json = False,
) -> None:
    """List the categories, tags, fragments or prompts of an index.

    Example: orchestr8-sqlite list skills --tag git
    """
    from orchestr8_sqlite.index.catalog import Catalog
    from orchestr8_sqlite.model.parameters import fold_tag, parse_category

    category = None
    if what not in WHOLE:
        try:
            category = parse_category(what)
        except RequestError as problem:
            raise RequestError(f"{problem} Or one of {', '.join(WHOLE)}.") from None
        what = "fragments"
    if tag and what in ("tags", "prompts"):
        raise RequestError("--tag selects fragments; use it with fragments or a category.")
    if tag:
        what = "fragments"
    values = {"category": category, "tags": json.dumps([fold_tag(one) for one in tag or ()])}
    with Catalog.open(read_settings(db).database) as catalog:
        found = catalog.reader.execute(WHOLE[what], values)
        columns, rows = [column[0] for column in found.description], found.fetchall()
    if what == "prompts":
        named = groupby(rows, itemgetter(0, 2))
        rows = [(name, ", ".join(row[1] for row in own if row[1]) or None, title) for (name, title), own in named]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_rows(columns, rows)
