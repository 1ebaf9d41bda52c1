"""What FastMCP's client learns from the server, as one JSON document on standard output.

Arguments: the era (`legacy` or `auto`), what to ask as JSON, then the server's command.
"""

import asyncio
import base64
import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from fastmcp import Client  # type: ignore[import-not-found]  # it lives in an environment of its own
from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found]
from fastmcp.skills import SkillsClientExtension  # type: ignore[import-not-found]

Model = Any
"""A Pydantic model of the protocol."""

Document = Any
"""JSON values."""


def plain(model: Model) -> Document:
    """Return *model* as JSON values under the protocol's own names."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def answer(request: Awaitable[Model]) -> Document:
    """Return the answer of *request*, or how it was refused: one refusal leaves the rest of the document standing."""
    try:
        result = await request
    except Exception as error:  # noqa: BLE001 - whatever the client raises is looked at
        return {"refused": {"code": getattr(error, "code", None), "message": str(error)}}
    return result if isinstance(result, dict) else plain(result)


async def walk(page: Callable[..., Awaitable[Any]], key: str) -> dict[str, Any]:
    """Return all entries of a list and the number of pages they came on."""
    entries, pages, cursor = [], 0, None
    while pages == 0 or cursor is not None:
        result = plain(await page(cursor=cursor))
        entries += result[key]
        cursor = result.get("nextCursor")
        pages += 1
    return {"entries": entries, "pages": pages}


async def checksums(client: Client, uris: list[str]) -> dict[str, Any]:
    """Return size and digest of each file, from the bytes that a read gives."""
    files = {}
    for uri in uris:
        content = plain(await client.read_resource_mcp(uri))["contents"][0]
        data = base64.b64decode(content["blob"]) if "blob" in content else content["text"].encode()
        files[uri] = {"size": len(data), "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}
    return files


async def report(client: Client, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the document."""
    prompt, completion = asked["prompt"], asked["completion"]
    template = types.ResourceTemplateReference(uri=completion["ref"]["uri"])
    requests = {
        "tools": walk(client.list_tools_mcp, "tools"),
        "resources": walk(client.list_resources_mcp, "resources"),
        "templates": walk(client.list_resource_templates_mcp, "resourceTemplates"),
        "prompts": walk(client.list_prompts_mcp, "prompts"),
        "read": client.read_resource_mcp(asked["read"]),
        "missing": client.read_resource_mcp(asked["missing"]),
        "search": client.call_tool_mcp("search", asked["search"]),
        "mistake": client.call_tool_mcp("search", asked["mistake"]),
        "prompt": client.get_prompt_mcp(prompt["name"], prompt["arguments"]),
        "unfilled": client.get_prompt_mcp(prompt["name"]),
        "completion": client.complete_mcp(template, completion["argument"]),
        "files": checksums(client, asked["files"]),
        "skills": walk(client.list_skills_mcp, "skills"),
        "skill": client.get_skill_mcp(asked["skill"]),
    }
    return {
        "server": plain(client.server_info),
        "capabilities": plain(client.server_capabilities),
        "instructions": client.instructions,
        **{name: await answer(request) for name, request in requests.items()},
    }


async def main() -> None:
    """Connect, ask, write."""
    era, asked, command, *arguments = sys.argv[1:]
    transport = StdioTransport(command=command, args=arguments)
    async with Client(transport, mode=era, extensions=[SkillsClientExtension()]) as client:
        sys.stdout.write(json.dumps(await report(client, json.loads(asked))))


asyncio.run(main())
