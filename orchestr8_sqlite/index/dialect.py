"""The statements of the program as PostgreSQL reads them: what differs is listed here, and in docs/postgresql.md.

The names of functions that PostgreSQL lacks are defined in each schema that is published; see FUNCTIONS.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple


class Difference(NamedTuple):
    """What is written for SQLite, as a pattern, and what PostgreSQL gets instead."""

    pattern: re.Pattern[str]
    instead: str


DIFFERENCES = {
    "%": Difference(re.compile("%"), "%%"),
    "fragment_text MATCH ….body": Difference(
        re.compile(r"\b(\w+\.)fragment_text MATCH (\w+\.body)\b"), r"ts_filter(\1words, '{d}') @@ (\2)::tsquery"
    ),
    "fragment_text MATCH": Difference(
        re.compile(r"(\b\w+\.)?\bfragment_text MATCH (json_extract\([^)]*\)|[:\w.]+)"), r"\1words @@ (\2)::tsquery"
    ),
    "rowid": Difference(re.compile(r"\browid\b"), "fragment_id"),
    "keyword_text MATCH": Difference(
        re.compile(r"\b(\w+)\.keyword_text MATCH ([:\w.]+)"), r"trigrams(\1.text) @@ trigram_query(\2)"
    ),
    "keyword_text": Difference(
        re.compile(r"\bkeyword_text (\w+)\b"), r"(SELECT id AS fragment_id, text FROM keyword) AS \1"
    ),
    "LIKE": Difference(re.compile(r"\bLIKE\b"), "ILIKE"),
    "CROSS JOIN … ON": Difference(re.compile(r"\bCROSS JOIN ((?:\w+\([^()]*\)|\w+)(?: \w+)?) ON\b"), r"JOIN \1 ON"),
    "json_each(:ids)": Difference(re.compile(r"\bjson_each\(:ids\)"), "json_numbers(:ids)"),
}
"""In this order; parameters, `:name` → `%(name)s` with the type of its value, come last."""

PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")
TYPES = {bool: "boolean", int: "bigint", float: "double precision", str: "text", type(None): "text"}

LEXEME = r"'''' || replace(replace(substr({}, at, 3), '\', '\\'), '''', '''''') || ''''"
"""Three letters as a tsvector has them. No function of the schema may call another: an index is also renewed by
processes that do not search the schema."""

FUNCTIONS = {
    "json_valid": "(text) RETURNS boolean IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::json IS NOT NULL'",
    "json_each": "(text) RETURNS TABLE (key bigint, value text) IMMUTABLE LANGUAGE sql ROWS 10 AS "
    "'SELECT ordinality - 1, value FROM json_array_elements_text($1::json) WITH ORDINALITY'",
    "json_numbers": "(text) RETURNS TABLE (key bigint, value bigint) IMMUTABLE LANGUAGE sql ROWS 10 AS "
    "'SELECT ordinality - 1, value::bigint FROM json_array_elements_text($1::json) WITH ORDINALITY'",
    "json_extract": "(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS "
    "$$SELECT $1::json #>> ('{' || btrim($2, '$.[]') || '}')::text[]$$",
    "json_array_length": "(text) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT json_array_length($1::json)::bigint'",
    "instr": "(text, text) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT strpos($1, $2)'",
    "min": "(double precision, double precision) RETURNS double precision IMMUTABLE LANGUAGE sql AS "
    "'SELECT CASE WHEN $1 < $2 THEN $1 ELSE $2 END'",
    "round": "(double precision, integer) RETURNS double precision IMMUTABLE LANGUAGE sql AS "
    "'SELECT round($1::text::numeric, $2)::double precision'",
    "trigrams": "(text) RETURNS tsvector IMMUTABLE LANGUAGE sql AS "  # noqa: S608 - a constant
    f"$$SELECT coalesce(string_agg({LEXEME.format('$1')} || ':' || at, ' '), '')::tsvector "
    "FROM generate_series(1, length($1) - 2) AS at$$",
    "trigram_query": "(text) RETURNS tsquery IMMUTABLE LANGUAGE sql AS "  # noqa: S608 - a constant
    f"$$SELECT string_agg((SELECT '(' || string_agg({LEXEME.format('word')}, ' <-> ' ORDER BY at) || ')' "
    "FROM generate_series(1, length(word) - 2) AS at), ' | ')::tsquery "
    "FROM regexp_split_to_table(btrim($1, '\"'), '\" OR \"') AS word$$",
}
"""Functions that each published schema has, by name; those of SQLite do there what they do here."""


def translate(sql: str, parameters: Mapping[str, object]) -> str:
    """Return *sql* as PostgreSQL reads it, with placeholders of psycopg for the *parameters*."""
    return _translate(sql, tuple((name, TYPES[type(value)]) for name, value in parameters.items()))


@lru_cache(maxsize=500)
def _translate(sql: str, types: tuple[tuple[str, str], ...]) -> str:
    for difference in DIFFERENCES.values():
        sql = difference.pattern.sub(difference.instead, sql)
    known = dict(types)
    return PARAMETER.sub(lambda found: f"%({found[1]})s::{known[found[1]]}", sql)
