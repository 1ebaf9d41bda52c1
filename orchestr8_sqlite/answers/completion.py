"""Values that complete what somebody has begun to type: parameters of a search, names, URIs."""

import json
from dataclasses import dataclass

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.catalog import Catalog, escape_like
from orchestr8_sqlite.model.parameters import fold_tag, parse_category
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, SCHEME, Mode, Ranker

MOST_VALUES = 100
"""Values of one completion. Source: the protocol's schema, CompleteResult."""

LONGEST_BEGUN = 10_000
"""Characters that are looked for: escaped, they stay below the 50,000 bytes of the longest pattern of SQLite."""

TAGS_MATCHING = """
SELECT t.tag, count(*) OVER ()
  FROM tag t
 WHERE t.tag LIKE :part ESCAPE '\\'
   AND (:category IS NULL OR EXISTS (SELECT 1 FROM fragment f WHERE f.id = t.fragment_id AND f.category = :category))
   AND t.tag NOT IN (SELECT value FROM json_each(:given))
 GROUP BY t.tag ORDER BY t.tag NOT LIKE :start ESCAPE '\\', count(*) DESC, t.tag LIMIT :limit
"""
SCENARIOS_MATCHING = """
SELECT s.text, count(*) OVER ()
  FROM scenario s
 WHERE s.text LIKE :part ESCAPE '\\'
   AND (:category IS NULL OR EXISTS (SELECT 1 FROM fragment f WHERE f.id = s.fragment_id AND f.category = :category))
 GROUP BY s.text ORDER BY s.text NOT LIKE :start ESCAPE '\\', s.text LIMIT :limit
"""
URIS_MATCHING = """
SELECT f.uri, count(*) OVER ()
  FROM fragment f
 WHERE f.uri LIKE :part ESCAPE '\\'
 ORDER BY f.uri NOT LIKE :start ESCAPE '\\', f.uri LIMIT :limit
"""
URIS_OF_CATEGORY = """
SELECT f.uri, count(*) OVER ()
  FROM fragment f
 WHERE f.category = :category AND f.uri LIKE :part ESCAPE '\\'
 ORDER BY f.uri NOT LIKE :start ESCAPE '\\', f.uri LIMIT :limit
"""

DECLARED_VALUES = """
SELECT value.atom
  FROM prompt p, json_each(p.metadata, '$.arguments') argument, json_each(argument.value) field,
       json_each(iif(field.type = 'array', field.value, '[]')) value
 WHERE p.name = :prompt AND json_type(p.metadata, '$.arguments') = 'array' AND argument.type = 'object'
   AND json_extract(argument.value, '$.name') = :name AND field.key IN ('choices', 'enum', 'values', 'options')
   AND value.type IN ('text', 'integer', 'real')
"""

FIXED = {
    "mode": tuple(mode.value for mode in Mode),
    "ranker": tuple(ranker.value for ranker in Ranker),
    "explain": ("false", "true"),
}
OF_PROMPTS = {"category": "categories", "tag": "tags", "fragment": "uri", "resource": "uri"}
"""What an argument of a prompt with such a name is taken for."""


@dataclass(frozen=True, slots=True)
class Completion:
    """At most 100 values, the likeliest first, and how many there are in all."""

    values: tuple[str, ...] = ()
    total: int = 0


def complete_parameter(catalog: Catalog, name: str, value: str, *, category: str | None = None) -> Completion:
    """Return what may complete *value* as the parameter *name* of a search or of a URI template.

    Args:
        name: A parameter such as `tags`; `name` is what follows the category in a URI, `uri` a whole URI.
        category: Look at the fragments of this category only.
    """
    given, comma, begun = value.rpartition(",") if name in ("categories", "tags", "terms") else ("", "", value)
    match name:
        case "categories" | "category":
            choices = [CATEGORY_FOLDERS[known] for known in catalog.category_counts()]
            found = _choose([choice for choice in choices if choice not in given.split(",")], begun)
        case "tags" | "terms":
            found = _tags(catalog, begun, given.split(","), category)
        case "query":
            found = _select(catalog, SCENARIOS_MATCHING, begun, category=category)
        case "uri":
            found = _uris(catalog, begun, category)
        case "name" if category is not None:
            found = _names(catalog, begun, category)
        case _:
            found = _choose(FIXED.get(name, ()), begun)
    return Completion(tuple(f"{given}{comma}{choice}" for choice in found.values), found.total)


def complete_argument(catalog: Catalog, prompt: str, name: str, value: str) -> Completion:
    """Return what may complete *value* as the argument *name* of *prompt*.

    That is what its author offers as `choices` (or `enum`, `values`, `options`), else what the name tells.
    """
    offered = _offered(catalog, prompt, name)
    if offered:
        return _choose([choice for choice in offered if choice.casefold().startswith(value.casefold())], "")
    folded = name.strip().casefold()
    try:
        return complete_parameter(catalog, "name", value, category=parse_category(folded))
    except RequestError:
        return complete_parameter(catalog, OF_PROMPTS.get(folded, folded), value)


def _offered(catalog: Catalog, prompt: str, name: str) -> list[str]:
    """Return the values that the front matter of *prompt* lists for its argument *name*."""
    rows = catalog.rows(DECLARED_VALUES, {"prompt": prompt, "name": name})
    return [str(atom) for (atom,) in rows]


def _choose(choices: list[str] | tuple[str, ...], begun: str) -> Completion:
    fitting = [choice for choice in choices if choice.startswith(begun.casefold())]
    return Completion(tuple(fitting[:MOST_VALUES]), len(fitting))


def _tags(catalog: Catalog, begun: str, given: list[str], category: str | None) -> Completion:
    folded = json.dumps([fold_tag(tag) for tag in given])
    return _select(catalog, TAGS_MATCHING, fold_tag(begun), category=category, given=folded)


def _uris(catalog: Catalog, begun: str, category: str | None, *, start: str = "") -> Completion:
    sql = URIS_MATCHING if category is None else URIS_OF_CATEGORY
    return _select(catalog, sql, begun, start=start, category=category)


def _names(catalog: Catalog, begun: str, category: str) -> Completion:
    """Return names as they stand in URIs, behind the category."""
    folder = f"{SCHEME}://{CATEGORY_FOLDERS[category]}/"
    found = _uris(catalog, begun, category, start=folder)
    return Completion(tuple(uri.removeprefix(folder) for uri in found.values), found.total)


def _select(catalog: Catalog, sql: str, begun: str, *, start: str = "", **parameters: str | None) -> Completion:
    """Return the rows of *sql* that hold what was begun, those that start with it first."""
    if len(begun) > LONGEST_BEGUN:
        return Completion()
    escaped = escape_like(begun)
    like = {"part": f"{start}%{escaped}%", "start": f"{start}{escaped}%", "limit": MOST_VALUES}
    rows = catalog.rows(sql, {**like, **parameters})
    return Completion(tuple(row[0] for row in rows), rows[0][1] if rows else 0)
