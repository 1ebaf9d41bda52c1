"""The tools that a model sees: definitions, and arguments → answers."""

from collections.abc import Mapping

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.model import CATEGORY_FOLDERS, Mode
from orchestr8_sqlite.parameters import MAX_QUERY_LENGTH, make_request
from orchestr8_sqlite.service import MAX_URIS, Answer, Service

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
MAX_BUDGET = 200_000

SEARCH = Tool(
    name="search",
    title="Search the library",
    description=(
        "Find curated agents, skills, examples, patterns, guides and workflows that fit a task. Ask before you "
        "start work in an unfamiliar area. Returns URIs, best first; read the ones you choose with `load`. "
        "Says so when nothing fits."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_QUERY_LENGTH,
                "description": "The task or problem in a few words, technologies named",
            },
            "mode": {
                "enum": [mode.value for mode in Mode],
                "default": "catalog",
                "description": "index: URIs only; catalog: with tags and purpose; full: with contents",
            },
            "categories": {"type": "array", "items": {"enum": list(CATEGORY_FOLDERS)}},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "All are required"},
            "maxResults": {"type": "integer", "minimum": 1, "maximum": 100},
            "maxTokens": {"type": "integer", "minimum": 1, "maximum": MAX_BUDGET, "default": 3000},
            "minScore": {"type": "number", "minimum": 0, "default": 10},
            "explain": {"type": "boolean", "default": False, "description": "Catalog: what each score is made of"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    annotations=READ_ONLY,
)

LOAD = Tool(
    name="load",
    title="Load from the library",
    description="Read what `search` found. Several URIs at once are cheaper than several calls.",
    input_schema={
        "type": "object",
        "properties": {
            "uris": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": MAX_URIS,
                "description": "As printed by `search`: orchestr8://skills/…",
            },
            "maxTokens": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_BUDGET,
                "description": "Budget for all; long texts are cut at sections",
            },
            "related": {"type": "boolean", "default": False, "description": "Also name linked fragments"},
        },
        "required": ["uris"],
        "additionalProperties": False,
    },
    annotations=READ_ONLY,
)

TOOLS = {tool.name: tool for tool in (SEARCH, LOAD)}


def call_tool(service: Service, name: str, arguments: Mapping[str, object]) -> CallToolResult:
    """Return the result of a tool; a mistake in the arguments is a result too, which says what to send instead."""
    try:
        answer = _search(service, arguments) if name == SEARCH.name else _load(service, arguments)
    except RequestError as problem:
        return CallToolResult(content=[TextContent(text=str(problem))], is_error=True)
    return CallToolResult(content=[TextContent(text=answer.text)])


def _search(service: Service, arguments: Mapping[str, object]) -> Answer:
    return service.search(make_request(arguments))


def _load(service: Service, arguments: Mapping[str, object]) -> Answer:
    known = LOAD.input_schema["properties"]
    for name in arguments:
        if name not in known:
            raise RequestError(f"Unknown parameter {name!r}. Known: {', '.join(known)}.")
    uris = arguments.get("uris")
    if isinstance(uris, str):
        uris = [uris]
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise RequestError("'uris' must be a list of texts such as orchestr8://skills/….")
    budget = arguments.get("maxTokens")
    if budget is not None and (
        isinstance(budget, bool) or not isinstance(budget, int) or not 1 <= budget <= MAX_BUDGET
    ):
        raise RequestError(f"'maxTokens' must be a whole number from 1 to {MAX_BUDGET:,}.")
    related = arguments.get("related", False)
    if not isinstance(related, bool):
        raise RequestError("'related' must be true or false.")
    return service.load(uris, max_tokens=budget, related=related)
