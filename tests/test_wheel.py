"""The built wheel in an empty environment: a search from the bundled index, and MCP spoken to its server."""

import subprocess
import zipfile
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

pytestmark = pytest.mark.slow

TOOLS = ["search", "load"]


def test_wheel_holds_the_bundled_index_the_schema_and_the_type_marker(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    page = ("inspection/page/template.html", "inspection/page/style.css", "inspection/page/vendor/d3-hierarchy.js")
    wanted = ("bundled.db", "py.typed", "index/schema.sql", "text/words/names.txt", *page)
    assert {f"orchestr8_sqlite/{name}" for name in wanted} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "build", "resources"))]


def test_installed_command_answers_from_the_bundled_index(installed: Path, tmp_path: Path) -> None:
    command = [str(installed / "orchestr8-sqlite"), "search", "rotate jwt refresh tokens", "--mode", "index"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "orchestr8://skills/security-authentication-jwt" in done.stdout
    assert done.stderr == ""


def test_installed_server_speaks_both_eras_with_the_official_client(installed: Path, tmp_path: Path) -> None:
    parameters = StdioServerParameters(command=str(installed / "orchestr8-sqlite"), args=["serve"], cwd=str(tmp_path))

    async def scenario() -> None:
        for era in ("legacy", "2026-07-28"):
            async with Client(parameters, mode=era) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
                found = await client.call_tool("search", {"query": "node docker image too large", "mode": "index"})
                assert isinstance(found.content[0], TextContent)
                assert "orchestr8://examples/docker-multistage-nodejs" in found.content[0].text
                for resource in (await client.list_resources()).resources:
                    assert (await client.read_resource(resource.uri)).contents
                prompts = (await client.list_prompts()).prompts
                assert {"fix-bug", "add-feature", "new-project"} <= {prompt.name for prompt in prompts}

    anyio.run(scenario)
