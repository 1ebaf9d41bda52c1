"""The questions to an index in queries.sql, with what the comment above each says of it."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from orchestr8_sqlite.index.catalog import Catalog

QUERY = re.compile(r"^-- ([a-z-]+): (.+)\n((?:-- .*\n)+)((?:(?!-- ).*\n)+?.*;)$", re.MULTILINE)
EXAMPLE = re.compile(r"^-- (\w+) = (SELECT .+)\n", re.MULTILINE)


class StoredQuery(NamedTuple):
    """One question: `parameters` has a statement that finds an example for each parameter of `sql`."""

    name: str
    title: str
    description: str
    parameters: Mapping[str, str]
    sql: str


def read_stored_queries() -> list[StoredQuery]:
    """Return the questions in the order of the file."""
    text = files("orchestr8_sqlite.index.datasette").joinpath("queries.sql").read_text(encoding="utf-8")
    return [
        StoredQuery(
            name=name,
            title=title,
            description=" ".join(EXAMPLE.sub("", about).replace("-- ", "").split()),
            parameters=dict(EXAMPLE.findall(about)),
            sql=sql.removesuffix(";"),
        )
        for name, title, about, sql in QUERY.findall(text)
    ]


def find_examples(catalog: Catalog, query: StoredQuery) -> dict[str, str]:
    """Return an example for each parameter, empty if the library is too small to have one."""
    found = {name: catalog.rows(sql) for name, sql in query.parameters.items()}
    return {name: str(rows[0][0] or "") if rows else "" for name, rows in found.items()}
