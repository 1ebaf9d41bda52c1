"""Completes what a user has begun to type: search parameters, names, URIs."""

import json
from dataclasses import dataclass

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.catalog import Catalog, escape_like
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.model.parameters import fold_tag, parse_category
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, SCHEME, Mode, Ranker

MOST_VALUES = 100
"""Most values of one completion. Source: the protocol's schema, CompleteResult."""

LONGEST_BEGUN = 10_000
"""Most characters to complete: escaped, they stay below SQLite's limit of 50,000 bytes for a LIKE pattern."""

OF_CATEGORY = Step("fragment", "SELECT id, category FROM fragment WHERE category = :category")
TAGS_MATCHING = gathered(
    """
SELECT t.tag, count(*) OVER ()
  FROM tag t
 WHERE t.tag LIKE :part ESCAPE '\\'
   AND (:category IS NULL OR EXISTS (SELECT 1 FROM fragment f WHERE f.id = t.fragment_id AND f.category = :category))
   AND t.tag NOT IN (SELECT value FROM json_each(:given))
 GROUP BY t.tag ORDER BY t.tag NOT LIKE :start ESCAPE '\\', count(*) DESC, t.tag LIMIT :limit
""",
    Step("tag", "SELECT fragment_id, tag FROM tag WHERE tag LIKE :part ESCAPE '\\'"),
    OF_CATEGORY,
)
SCENARIOS_MATCHING = gathered(
    """
SELECT s.text, count(*) OVER ()
  FROM scenario s
 WHERE s.text LIKE :part ESCAPE '\\'
   AND (:category IS NULL OR EXISTS (SELECT 1 FROM fragment f WHERE f.id = s.fragment_id AND f.category = :category))
 GROUP BY s.text ORDER BY s.text NOT LIKE :start ESCAPE '\\', s.text LIMIT :limit
""",
    Step("scenario", "SELECT fragment_id, text FROM scenario WHERE text LIKE :part ESCAPE '\\'"),
    OF_CATEGORY,
)
URIS_MATCHING = gathered(
    """
SELECT f.uri, count(*) OVER (), f.uri NOT LIKE :start ESCAPE '\\'
  FROM fragment f
 WHERE f.uri LIKE :part ESCAPE '\\'
 ORDER BY 3, f.uri LIMIT :limit
""",
    order=[3, 1],
    total=2,
)
URIS_OF_CATEGORY = gathered(
    """
SELECT f.uri, count(*) OVER (), f.uri NOT LIKE :start ESCAPE '\\'
  FROM fragment f
 WHERE f.category = :category AND f.uri LIKE :part ESCAPE '\\'
 ORDER BY 3, f.uri LIMIT :limit
""",
    order=[3, 1],
    total=2,
)

PROMPT_METADATA = "SELECT metadata FROM prompt WHERE name = :name"
OFFERING = ("choices", "enum", "values", "options")
"""Fields of an argument in the front matter of a prompt that list its values."""

FIXED = {
    "mode": tuple(mode.value for mode in Mode),
    "ranker": tuple(ranker.value for ranker in Ranker),
    "explain": ("false", "true"),
}
OF_PROMPTS = {"category": "categories", "tag": "tags", "fragment": "uri", "resource": "uri"}
"""Prompt arguments with these names are completed as these parameters."""


@dataclass(frozen=True, slots=True)
class Completion:
    """At most 100 values, the likeliest first, and the total number of matches."""

    values: tuple[str, ...] = ()
    total: int = 0


def complete_parameter(catalog: Catalog, name: str, value: str, *, category: str | None = None) -> Completion:
    """Return completions of *value* for the parameter *name* of a search or a URI template.

    Args:
        name: A parameter such as `tags`; `name` is the part of a URI after the category, `uri` a whole URI.
        category: Only complete from the fragments of this category.
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
    """Return completions of *value* for the argument *name* of *prompt*.

    They come from the author's `choices` (or `enum`, `values`, `options`), else from what the argument's name suggests.
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
    for (metadata,) in catalog.rows(PROMPT_METADATA, {"name": prompt}):
        declared = json.loads(metadata).get("arguments")
        arguments = [one for one in declared if isinstance(one, dict)] if isinstance(declared, list) else []
        lists = [one[field] for one in arguments if one.get("name") == name for field in one if field in OFFERING]
        values = [value for one in lists if isinstance(one, list) for value in one]
        return [str(value) for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)]
    return []


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
    """Return names in the form that follows the category in a URI."""
    folder = f"{SCHEME}://{CATEGORY_FOLDERS[category]}/"
    found = _uris(catalog, begun, category, start=folder)
    return Completion(tuple(uri.removeprefix(folder) for uri in found.values), found.total)


def _select(catalog: Catalog, sql: str, begun: str, *, start: str = "", **parameters: str | None) -> Completion:
    """Return the rows of *sql* that contain *begun*, those that start with it first."""
    if len(begun) > LONGEST_BEGUN:
        return Completion()
    escaped = escape_like(begun)
    like = {"part": f"{start}%{escaped}%", "start": f"{start}{escaped}%", "limit": MOST_VALUES}
    rows = catalog.rows(sql, {**like, **parameters})
    return Completion(tuple(row[0] for row in rows), rows[0][1] if rows else 0)
