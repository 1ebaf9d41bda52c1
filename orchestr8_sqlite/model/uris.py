"""URI text ⇄ the request that it stands for.

    orchestr8://skills/retry                     Read("skills/retry")
    orchestr8://match?query=retry                Match(MatchRequest("retry"))
    orchestr8://agents/match?query=typescript    Match(MatchRequest("typescript", categories=("agent",)))
    orchestr8://agents                           Listing("agent")
    orchestr8:// · orchestr8://registry          Listing(None)

Variants accepted: a leading `@` or `@<server>:`, `_fragments/` segments, singular and plural category names in any
case, composed and decomposed accented letters. Percent escapes are decoded exactly once; `+` is a space only in
queries.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.model.parameters import make_request, parse_category, storable
from orchestr8_sqlite.model.requests import CATEGORIES, CATEGORY_FOLDERS, SCHEME, MatchRequest
from orchestr8_sqlite.text.normal_forms import normalize

ACCEPTED = re.compile(rf"(?:@(?:[\w.:-]+:)?)?{SCHEME}:(?://)?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
MAX_URI_LENGTH = 16_384
MAX_SEGMENTS = 100
"""Most segments of a path. Every prefix is looked up, so the work grows with the square of their number."""

PATH_SAFE = "/-._~!$*+,;=:@"
"""Characters not escaped in the URIs we give out; parentheses and quotes would end a Markdown link."""


@dataclass(frozen=True, slots=True)
class Read:
    """One fragment, by its id such as `skills/retry`."""

    id: str


@dataclass(frozen=True, slots=True)
class Match:
    """A search."""

    request: MatchRequest


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of a category's fragments or, for None, of the categories."""

    category: str | None


def parse_uri(text: str) -> Read | Match | Listing:
    """Return the request that the URI *text* stands for.

    Raises:
        UnknownResource: It is not an orchestr8 URI, or its category does not exist.
        RequestError: A part of it is not acceptable.
    """
    text = storable(text)
    if len(text) > MAX_URI_LENGTH:
        raise RequestError(f"The URI has {len(text):,} characters, at most {MAX_URI_LENGTH:,} are read.")
    accepted = ACCEPTED.fullmatch(text.strip())
    if accepted is None:
        raise UnknownResource(f"Not an {SCHEME} URI: send {SCHEME}://<category>/<name> or {SCHEME}://match?query=….")
    path, question, query = accepted["rest"].partition("#")[0].partition("?")
    segments = _segments(path)
    if segments and segments[-1].casefold() == "match" and len(segments) <= 2:
        category = parse_category(segments[0]) if len(segments) == 2 else None
        return Match(make_request(_query_parameters(query), category=category))
    if question:
        raise RequestError(f"Only match URIs take parameters: {SCHEME}://match?query=….")
    if not segments or [segment.casefold() for segment in segments] == ["registry"]:
        return Listing(None)
    folder = CATEGORY_FOLDERS[_category(segments[0])]
    if len(segments) == 1:
        return Listing(CATEGORIES[folder])
    return Read(compose("/".join([folder, *segments[1:]])))


def _category(name: str) -> str:
    try:
        return parse_category(name)
    except RequestError as problem:
        raise UnknownResource(str(problem)) from None


def fragment_uri(fragment_id: str) -> str:
    """Return the URI of a fragment, valid by RFC 3986 for any file name."""
    return f"{SCHEME}://{quote(fragment_id, safe=PATH_SAFE)}"


def compose(text: str) -> str:
    """Return *text* in NFC, the form of all ids; some systems decompose accented letters in file names."""
    return normalize("NFC", text)


def decode_segments(path: str) -> list[str]:
    """Return the segments of a URI path, with percent escapes decoded once.

    Raises:
        RequestError: A decoded segment is empty, `.` or `..`, or contains a slash, a backslash or NUL; or there are
            more than MAX_SEGMENTS.
    """
    if path.count("/") >= MAX_SEGMENTS:
        raise RequestError(f"A URI path may have at most {MAX_SEGMENTS} segments.")
    segments = [_decode(raw) for raw in path.split("/")]
    for segment in segments:
        if segment in ("", ".", "..") or any(character in segment for character in "/\\\0"):
            raise RequestError(
                "A URI path must not hold empty, '.' or '..' segments, back slashes, escaped slashes or NUL."
            )
    return segments


def _segments(path: str) -> list[str]:
    path = path.strip("/")
    return [segment for segment in decode_segments(path) if segment != "_fragments"] if path else []


def _query_parameters(query: str) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for pair in query.split("&"):
        if not pair:
            continue
        name, _, value = pair.partition("=")
        name = _decode(name, plus=True)
        if name in parameters:
            raise RequestError(f"The parameter {name!r} is given twice.")
        parameters[name] = _decode(value, plus=True)
    return parameters


def _decode(raw: str, *, plus: bool = False) -> str:
    if BAD_ESCAPE.search(raw):
        raise RequestError("A '%' in a URI must be followed by two hex digits; write %25 for the sign itself.")
    try:
        return (unquote_plus if plus else unquote)(raw, errors="strict")
    except UnicodeDecodeError:
        raise RequestError("The percent escapes of the URI are not UTF-8.") from None
