"""What a model is told about the tools: names, purposes, inputs and outputs."""

from typing import Any

from mcp_types import Tool, ToolAnnotations

from orchestr8_sqlite.model.parameters import MAX_TERMS
from orchestr8_sqlite.model.requests import AGENT_SKILL, CATEGORY_FOLDERS, DEFAULT_TOKENS, Mode
from orchestr8_sqlite.service.service import MAX_URIS
from orchestr8_sqlite.settings import Profile

READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
MAX_BUDGET = 200_000

USUAL_MODE = Mode.INDEX
"""The mode that costs a model the fewest tokens to get the right document: docs/ranking.md, "What an answer costs"."""

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
COUNT = {"type": "integer"}
"""Without bounds: they cost more tokens in each conversation than the error message for a value beyond them."""


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
        query={**TEXT, "description": "The task as the user puts it, or a whole error message"},
        terms={
            **TEXTS,
            "maxItems": MAX_TERMS,
            "description": "3-6 expert keywords the user did not say",
        },
        mode={
            "type": "string",
            "enum": [mode.value for mode in Mode],
            "default": USUAL_MODE.value,
            "description": "5 URIs, what 15 give, or texts",
        },
        categories={"type": "array", "items": {"type": "string", "enum": [*CATEGORY_FOLDERS, AGENT_SKILL]}},
        tags={**TEXTS, "description": "All are required"},
        maxResults=COUNT,
        maxTokens={**COUNT, "default": DEFAULT_TOKENS},
    ),
    output_schema=_gives("matches"),
    annotations=READ_ONLY,
)

LOAD = Tool(
    name="load",
    title="Load from library",
    description="Read what `search` found; several URIs in one call are cheaper.",
    input_schema=_takes(
        "uris",
        uris={**TEXTS, "maxItems": MAX_URIS},
        maxTokens={**COUNT, "description": "Of all; long texts are cut at sections"},
        files={**TEXTS, "description": 'Of one skill: paths it lists, "*" for all'},
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
        query=TEXT,
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

PROFILES = {Profile.LIBRARY: (SEARCH, LOAD), Profile.SKILLS: (SEARCH_SKILL, LOAD_SKILL)}
"""The tools that each profile lists; every server answers calls to all of them.

Source: shared/seeds/skills-server-architecture.md for the tools of `skills`.
"""

TOOLS = {tool.name: tool for tools in PROFILES.values() for tool in tools}
