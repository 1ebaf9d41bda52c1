"""The questions to an index in stored_queries.sql, with what the comment above each says of it."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

QUERY = re.compile(r"^-- ([a-z-]+): (.+)\n((?:-- .*\n)+)((?:(?!-- ).*\n)+?.*;)$", re.MULTILINE)
EXAMPLE = re.compile(r"^-- (\w+) = (.+)\n", re.MULTILINE)


class StoredQuery(NamedTuple):
    """One question: `parameters` has a value to try for each parameter of the statement."""

    name: str
    title: str
    description: str
    parameters: Mapping[str, str]
    sql: str


def read_stored_queries() -> list[StoredQuery]:
    """Return the questions in the order of the file."""
    text = files("orchestr8_sqlite.index").joinpath("stored_queries.sql").read_text(encoding="utf-8")
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
