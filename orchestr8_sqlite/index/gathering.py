"""How a statement is asked of several shards, each of which has some of the fragments.

A statement that reads no table of fragments has the same rows on every shard, so one is asked. Any other is asked of
all, and their rows are put together. If they need an order, a limit or sums, the statement says so where it is defined.
If a row depends on fragments of several shards, steps before collect the rows that it needs: a later step, and at last
the statement, finds what a step has collected as a table with the name of the step, instead of the shard's own.

On a file, none of this has an effect.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Self

OWNED = frozenset(
    """fragment fragment_body fragment_text tag capability scenario posting field_posting near_copy reference skill
    skill_file library_answer quick_lookup rank_topic rank_length""".split()
)
"""Tables of which each shard has its own rows."""

READ_TABLE = re.compile(r"\b(?:FROM|JOIN) +(\w+)")
NEEDS_ALL = re.compile(r"^\s*SELECT DISTINCT\b|\bORDER BY\b|\bLIMIT :|\bGROUP BY\b|\b(?:count|sum)\(")
OF_ONE = re.compile(r"\b\w*(?:id|path) = :(?:id|path)\b")
"""A statement about a single fragment, whose rows are all on one shard."""

Row = tuple[Any, ...]


class Step(NamedTuple):
    """A statement whose rows the following ones find as the table *name*; *alone*: one shard has them all."""

    name: str
    sql: str
    alone: bool = False


class Gathered(str):
    """A statement that says how the rows of several shards become one answer; see `gathered`."""

    __slots__ = ("added", "alone", "last", "order", "steps", "total")

    steps: Sequence[Step]
    last: str
    alone: bool
    order: Sequence[int]
    total: int | None
    added: int | None

    def __new__(cls, sql: str) -> Self:
        """Return *sql*, to be asked of all shards."""
        statement = super().__new__(cls, sql)
        statement.steps, statement.last, statement.order = (), sql, ()
        statement.alone, statement.total, statement.added = False, None, None
        return statement

    def put_together(self, parts: Sequence[Sequence[Row]], limit: int | None) -> list[Row]:
        """Return the rows of all shards as one answer."""
        rows = [row for part in parts for row in part]
        if self.added is not None:
            rows = _add(rows, self.added)
        if self.total is not None:
            total = sum(part[0][self.total - 1] for part in parts if part)
            rows = [(*row[: self.total - 1], total, *row[self.total :]) for row in rows]
        for column in reversed(self.order):
            rows.sort(key=itemgetter(abs(column) - 1), reverse=column < 0)
        return rows if limit is None or not self.order else rows[:limit]


def gathered(
    sql: str,
    *steps: Step,
    last: str | None = None,
    order: Sequence[int] = (),
    total: int | None = None,
    added: int | None = None,
) -> Gathered:
    """Return *sql*, with what several shards need to know.

    Args:
        steps: What collects rows before.
        last: What is asked after the steps, instead of *sql*; with steps but without it, *sql* of one shard.
        order: Columns that the rows are in the order of, from 1 on, negative for falling values. At most `:limit`
            rows are returned, if the statement has that parameter.
        total: The column that has the same total in each row; the totals of the shards are added.
        added: How many columns tell rows apart; if several shards have such a row, its other columns are added.
    """
    statement = Gathered(sql)
    statement.steps, statement.last, statement.order = steps, last or sql, order
    statement.alone, statement.total, statement.added = bool(steps) and last is None, total, added
    return statement


def plan_of(sql: str) -> Gathered:
    """Return how *sql* is asked of several shards.

    Raises:
        ValueError: It does not say how, and needs to.
    """
    if isinstance(sql, Gathered):
        return sql
    plan = Gathered(sql)
    plan.alone = not OWNED.intersection(READ_TABLE.findall(sql))
    if not plan.alone and NEEDS_ALL.search(sql) and not OF_ONE.search(sql):
        raise ValueError(f"no answer of several shards is known for: {sql}")
    return plan


def with_tables(sql: str, tables: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return *sql* so that it finds the tables, each with its columns and their types, in parameters of their names."""
    used = {name: columns for name, columns in tables.items() if re.search(rf"\b{name}\b", sql)}
    made = [
        f"{name} ({', '.join(column for column, _ in columns)}) AS MATERIALIZED (SELECT "  # noqa: S608 - names of steps and columns
        + ", ".join(f"(row ->> {place})::{kind}" for place, (_, kind) in enumerate(columns))
        + f" FROM json_array_elements(:{parameter_of(name)}::json) AS row)"
        for name, columns in used.items()
    ]
    if not made:
        return sql
    own = sql.strip()
    return f"WITH {', '.join(made)}{',' + own.removeprefix('WITH') if own.startswith('WITH') else ' ' + own}"


def parameter_of(table: str) -> str:
    """Return the name of the parameter that has the rows of a table."""
    return f"rows_of_{table}"


def _add(rows: Sequence[Row], key: int) -> list[Row]:
    sums: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        sums[row[:key]].append(row[key:])
    return [(*same, *map(sum, zip(*others, strict=True))) for same, others in sums.items()]
