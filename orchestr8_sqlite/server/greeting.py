"""The answers to `initialize` and `server/discover` that need no SDK.

A request is answered here only where the SDK would certainly accept it and say the same. Everything
else, right or wrong, is left to the SDK: the checks below may be stricter than its own, never laxer.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from orchestr8_sqlite.server.identity import FRESH_MS, MODERN_REVISIONS, discover_result, initialize_result

Check = Callable[[Any], bool]

MOST_BRACKETS = 100
"""Opening brackets of a line, so that it cannot be nested deeper than the SDK's parser goes."""


def greet(line: bytes, introduce: Callable[[], str], fresh_ms: int = FRESH_MS) -> bytes | None:
    """Return the answer to *line*, with its line feed; None where the SDK must look at it.

    Args:
        line: One line of input.
        introduce: Gives the instructions of the server; called only where there is an answer.
        fresh_ms: Milliseconds for which a client may take the answer for current.
    """
    request = _parse(line)
    if request is None or not REQUEST(request):
        return None
    method, params = request["method"], request["params"]
    if method == "initialize" and INITIALIZE(params):
        result = initialize_result(params["protocolVersion"], introduce())
    elif method == "server/discover" and DISCOVER(params):
        result = discover_result(introduce(), fresh_ms)
    else:
        return None
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON value of *line*; None for what is none, or what parsers are known to differ on."""
    if b"\\u" in line or line.count(b"{") + line.count(b"[") > MOST_BRACKETS:
        return None
    try:
        return json.loads(line.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except ValueError:
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name stands twice")
    return members


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _is(*types: type) -> Check:
    return lambda value: type(value) in types


def _equals(*values: str) -> Check:
    return lambda value: type(value) is str and value in values


def _items(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


def _members(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _record(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    """Return a check of an object: further members are free, optional ones may be null."""

    def fits(value: Any) -> bool:  # noqa: ANN401 - JSON
        if type(value) is not dict or not required.keys() <= value.keys():
            return False
        return all(check(value[name]) for name, check in required.items()) and all(
            value.get(name) is None or check(value[name]) for name, check in optional.items()
        )

    return fits


def _both(*checks: Check) -> Check:
    return lambda value: all(check(value) for check in checks)


def _token_is_not_null(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether `_meta` names a token for progress, or none at all; the SDK refuses null here."""
    return "progressToken" not in value or value["progressToken"] is not None


TEXT = _is(str)
OBJECT = _is(dict)
IDENTIFIER = _is(str, int)

REQUEST_MEMBERS = {"jsonrpc": _equals("2.0"), "id": IDENTIFIER, "method": TEXT, "params": OBJECT}


def REQUEST(value: Any) -> bool:  # noqa: ANN401, N802 - JSON; a check like those below
    """Tell whether *value* is a request and cannot be taken for any other message."""
    return _record(REQUEST_MEMBERS, {})(value) and len(value) == len(REQUEST_MEMBERS)


ICON = _record({"src": TEXT}, {"mimeType": TEXT, "sizes": _items(TEXT), "theme": _equals("light", "dark")})
IMPLEMENTATION = _record(
    {"name": TEXT, "version": TEXT},
    {"title": TEXT, "description": TEXT, "websiteUrl": TEXT, "icons": _items(ICON)},
)
TASK_REQUESTS = {
    "elicitation": _record({}, {"create": OBJECT}),
    "sampling": _record({}, {"createMessage": OBJECT}),
}
CLIENT_CAPABILITIES = _record(
    {},
    {
        "elicitation": _record({}, {"form": OBJECT, "url": OBJECT}),
        "experimental": _members(OBJECT),
        "extensions": _members(OBJECT),
        "roots": _record({}, {"listChanged": _is(bool)}),
        "sampling": _record({}, {"context": OBJECT, "tools": OBJECT}),
        "tasks": _record({}, {"list": OBJECT, "cancel": OBJECT, "requests": _record({}, TASK_REQUESTS)}),
    },
)
INITIALIZE = _record(
    {"protocolVersion": TEXT, "capabilities": CLIENT_CAPABILITIES, "clientInfo": IMPLEMENTATION},
    {"_meta": _both(_record({}, {"progressToken": IDENTIFIER}), _token_is_not_null)},
)
ENVELOPE = "io.modelcontextprotocol/"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
DISCOVER = _record(
    {
        "_meta": _both(
            _record(
                {
                    f"{ENVELOPE}protocolVersion": _equals(*MODERN_REVISIONS),
                    f"{ENVELOPE}clientCapabilities": CLIENT_CAPABILITIES,
                },
                {
                    f"{ENVELOPE}clientInfo": IMPLEMENTATION,
                    f"{ENVELOPE}logLevel": _equals(*LOG_LEVELS),
                    "progressToken": IDENTIFIER,
                },
            ),
            _token_is_not_null,
        )
    },
    {},
)
