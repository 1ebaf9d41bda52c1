"""Raw parameters from a URI, a tool call or a command line → a validated `MatchRequest`.

Names and rules are the same for MCP and CLI; an error message says what to send instead.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.model.requests import (
    AGENT_SKILL,
    CATEGORIES,
    CATEGORY_FOLDERS,
    DEFAULT_SCORE,
    DEFAULT_TOKENS,
    MatchRequest,
    Mode,
    Ranker,
)
from orchestr8_sqlite.text.normal_forms import normalize

E = TypeVar("E", Mode, Ranker)

MAX_TERMS = 10
MAX_TERMS_LENGTH = 500
"""Most characters of all terms together; they are meant for three to six names of a few words."""

MAX_TAGS_LENGTH = 1000
BETWEEN_TERMS = re.compile(r"[,;\n]")
LONGEST_TEXT = 65_536
"""Most characters of a text, spaces included. A longer one is refused unread; of a long request, the rarest words
count."""

DEFAULT_RESULTS = {Mode.INDEX: 5, Mode.CATALOG: 15, Mode.FULL: 15}
PARAMETERS = (
    "query",
    "terms",
    "mode",
    "categories",
    "tags",
    "maxResults",
    "maxTokens",
    "minScore",
    "ranker",
    "explain",
)


def make_request(
    raw: Mapping[str, object], *, category: str | None = None, usual_mode: Mode = Mode.CATALOG
) -> MatchRequest:
    """Return the request that *raw* describes, with defaults filled in.

    Args:
        raw: Parameters by their public names (`maxResults`); values may be text, numbers or lists.
        category: A category given outside the parameters, as in `orchestr8://agents/match`.
        usual_mode: The mode of a request that gives none.

    Raises:
        RequestError: A parameter is unknown, missing or out of bounds.
    """
    check_names(raw, PARAMETERS)
    mode = _choice("mode", raw.get("mode"), Mode, usual_mode)
    categories = [_parse_filter(name) for name in _items("categories", raw.get("categories"))]
    if category is not None:
        categories = [name for name in categories or [category] if name == category]
        if not categories:
            raise RequestError(
                f"'categories' excludes the category of the URI ({CATEGORY_FOLDERS[category]}); leave one of them out."
            )
    return MatchRequest(
        query=_query(raw.get("query")),
        mode=mode,
        categories=tuple(dict.fromkeys(name for name in categories if name != AGENT_SKILL)),
        tags=_tags(raw.get("tags")),
        max_results=int(read_number("maxResults", raw.get("maxResults"), DEFAULT_RESULTS[mode], 1, 100, whole=True)),
        max_tokens=int(read_number("maxTokens", raw.get("maxTokens"), DEFAULT_TOKENS, 1, 200_000, whole=True)),
        min_score=read_number("minScore", raw.get("minScore"), DEFAULT_SCORE, 0, 1_000_000),
        ranker=_choice("ranker", raw.get("ranker"), Ranker, Ranker.DEFAULT),
        explain=read_truth("explain", raw.get("explain")),
        agent_skills=AGENT_SKILL in categories,
        terms=_terms(raw.get("terms")),
    )


def check_names(raw: Iterable[str], known: Sequence[str]) -> None:
    """Raise RequestError if *raw* has a parameter that is not *known*; the message suggests the nearest."""
    for name in raw:
        if name not in known:
            raise RequestError(f"Unknown parameter {_shown(name)}. {_suggestion(name, known)}")


def parse_category(name: str) -> str:
    """Return the category that *name* means: `Agents`, `agent` and `AGENT` are all `agent`.

    Raises:
        RequestError: There is no such category; the message lists those that exist.
    """
    folded = _fold_category(name)
    category = CATEGORIES.get(folded, folded)
    if category not in CATEGORY_FOLDERS:
        raise RequestError(f"Unknown category {_shown(name)}. {_suggestion(folded, CATEGORIES)}")
    return category


def _parse_filter(name: str) -> str:
    """Return the category that *name* means, or AGENT_SKILL."""
    return AGENT_SKILL if _fold_category(name).removesuffix("s") == AGENT_SKILL else parse_category(name)


def _fold_category(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")


def fold_tag(tag: str) -> str:
    """Return *tag* as it is stored and compared: NFKC, casefolded, single spaces."""
    folded = normalize("NFKC", tag).casefold()
    return " ".join(normalize("NFKC", folded).split())  # a folded letter may combine with the mark after it


def storable(text: str) -> str:
    """Return *text* with lone surrogates as question marks, since a database cannot store them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _query(value: object) -> str:
    if value is None:
        raise RequestError("The parameter 'query' is missing: say in a few words what you need.")
    if not isinstance(value, str):
        raise RequestError(f"'query' must be text, not {_shown(value)}.")
    if len(value) > LONGEST_TEXT:
        raise RequestError(f"'query' has {len(value):,} characters, at most {LONGEST_TEXT:,} are read; shorten it.")
    query = " ".join(storable(value).replace("\0", " ").split())
    if not query:
        raise RequestError("The parameter 'query' is empty: say in a few words what you need.")
    return query


def _tags(value: object) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(fold_tag(tag) for tag in _items("tags", value)))
    if sum(map(len, tags)) > MAX_TAGS_LENGTH:
        raise RequestError(f"'tags' may have {MAX_TAGS_LENGTH:,} characters in all; name fewer.")
    return tags


def _terms(value: object) -> tuple[str, ...]:
    """Return the distinct terms of a list or a text, ignoring case; commas separate terms within list items too."""
    parts = (part for item in _items("terms", value) for part in BETWEEN_TERMS.split(item))
    written = (" ".join(part.replace("\0", " ").split()) for part in parts)
    terms = tuple({term.casefold(): term for term in written if term}.values())
    if len(terms) > MAX_TERMS or sum(map(len, terms)) > MAX_TERMS_LENGTH:
        raise RequestError(
            f"'terms' may hold {MAX_TERMS} names of {MAX_TERMS_LENGTH} characters in all; keep the best."
        )
    return terms


def _choice(name: str, value: object, kind: type[E], default: E) -> E:
    if value is None:
        return default
    names = [member.value for member in kind]
    if value not in names:
        raise RequestError(f"'{name}' must be one of {', '.join(names)}, not {_shown(value)}.")
    return kind(value)


def read_truth(name: str, value: object) -> bool:
    """Return a truth value, given as a boolean or as text; False if none is given."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if value not in ("true", "false"):
        raise RequestError(f"'{name}' must be true or false, not {_shown(value)}.")
    return value == "true"


def _items(name: str, value: object) -> list[str]:
    if value is None:
        return []
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise RequestError(f"'{name}' must be a comma-separated text or a list of texts.")
    if isinstance(value, str):
        parts = value[: LONGEST_TEXT + 1].split(",")
    if sum(map(len, parts)) + len(parts) - 1 > LONGEST_TEXT:
        raise RequestError(f"'{name}' has more than {LONGEST_TEXT:,} characters; name fewer.")
    return [storable(part.strip()) for part in parts if part.strip()]


def read_texts(name: str, value: object) -> list[str]:
    """Return a list of texts; a single text counts as a list of one, none as an empty list."""
    if value is None:
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RequestError(f"'{name}' must be a list of texts, not {_shown(value)}.")
    return texts


def read_number(name: str, value: object, default: float, low: int, high: int, *, whole: bool = False) -> float:
    """Return a number within bounds, given as a number or as text; *default* if none is given."""
    if value is None:
        return default
    kind = "a whole number" if whole else "a number"
    problem = RequestError(f"'{name}' must be {kind} from {low:,} to {high:,}, not {_shown(value)}.")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise problem
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise problem from None
    if not low <= number <= high or (whole and number != int(number)):
        raise problem
    return number


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = {choice.casefold(): choice for choice in known}
    nearest = difflib.get_close_matches(name.casefold(), names, n=1)
    hint = f"Did you mean {names[nearest[0]]!r}? " if nearest else ""
    return f"{hint}Known: {', '.join(names.values())}."


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…'"
