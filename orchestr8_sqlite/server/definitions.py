"""What a model is told of the tools: names, purposes, what they take and what they give."""

from typing import Any

from mcp_types import Tool, ToolAnnotations

from orchestr8_sqlite.model.parameters import MAX_QUERY_LENGTH, MAX_TERMS
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, DEFAULT_TOKENS, Mode
from orchestr8_sqlite.service.service import MAX_URIS

READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
MAX_BUDGET = 200_000

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
QUERY = {"type": "string", "maxLength": MAX_QUERY_LENGTH}
TERMS = {**TEXTS, "maxItems": MAX_TERMS}
COUNT = {"type": "integer"}
"""The other bounds cost more in each conversation than the sentence by which a value beyond them is answered."""


def _takes(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required]}


def _gives(name: str) -> dict[str, Any]:
    """Return the schema of an answer that lists objects under *name*."""
    return {"type": "object", "properties": {name: {"type": "array"}}, "required": [name]}


SEARCH = Tool(
    name="search",
    title="Search library",
    description=(
        "Find expert instructions (agents, skills, examples, patterns, guides, workflows) before you start on "
        "a task. Gives URIs, best first, for `load`, or says that nothing fits."
    ),
    input_schema=_takes(
        "query",
        query={**QUERY, "description": "The task, as the user puts it"},
        terms={**TERMS, "description": "3-6 names an expert would look it up by: technology, technique, cause, fix"},
        mode={
            "type": "string",
            "enum": [mode.value for mode in Mode],
            "default": "catalog",
            "description": "URIs only, what each gives, or contents",
        },
        categories={"type": "array", "items": {"type": "string", "enum": list(CATEGORY_FOLDERS)}},
        tags={**TEXTS, "description": "All are required"},
        maxResults=COUNT,
        maxTokens={**COUNT, "default": DEFAULT_TOKENS},
    ),
    output_schema=_gives("matches"),
    annotations=READ_ONLY,
)

LOAD = Tool(
    name="load",
    title="Load",
    description="Read what `search` found; several URIs in one call are cheaper.",
    input_schema=_takes(
        "uris",
        uris={**TEXTS, "maxItems": MAX_URIS},
        maxTokens={**COUNT, "description": "Of all; long texts are cut at sections"},
        related={"type": "boolean", "description": "Name linked ones too"},
    ),
    output_schema=_gives("documents"),
    annotations=READ_ONLY,
)

SEARCH_SKILL = Tool(
    name="search_skill",
    title="Search skills",
    description="Find Agent Skills: instructions with scripts and references.",
    input_schema=_takes(
        "query",
        query=QUERY,
        terms=TERMS,
        maxResults={**COUNT, "default": 5},
    ),
    output_schema=_gives("skills"),
    annotations=READ_ONLY,
)

LOAD_SKILL = Tool(
    name="load_skill",
    title="Load skill",
    description="Read a skill's instructions and list of files; with `files`, those too.",
    input_schema=_takes(
        "name",
        name={**TEXT, "description": "From `search_skill`, or a URI"},
        files={**TEXTS, "description": 'Paths from the list, "*" for all'},
        maxTokens=COUNT,
    ),
    output_schema=_gives("documents"),
    annotations=READ_ONLY,
)

TOOLS = {tool.name: tool for tool in (SEARCH, LOAD, SEARCH_SKILL, LOAD_SKILL)}
SKILL_TOOLS = frozenset({SEARCH_SKILL.name, LOAD_SKILL.name})
"""Tools that only a library with Agent Skills offers."""
