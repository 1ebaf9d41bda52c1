"""The manifests of registries, plugins and bundles: the published rules hold, and they name this package as it is."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from orchestr8_sqlite import __version__
from orchestr8_sqlite.settings import LOG_LEVELS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = PROJECT["name"]
REPOSITORY = PROJECT["urls"]["Repository"]


def uvx_server(source: str) -> dict[str, object]:
    """Return the entry that runs the package in *source* with uv; no registry has it."""
    return {"type": "stdio", "command": "uvx", "args": ["--from", source, "orchestr8-sqlite", "serve"]}


def read(path: str) -> dict[str, Any]:
    value = json.loads((ROOT / path).read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("path", ["server.json", ".claude-plugin/plugin.json", "mcpb/manifest.json"])
def test_every_manifest_has_the_version_of_the_package(path: str) -> None:
    assert read(path)["version"] == __version__


def test_the_command_that_the_manifests_run_is_one_of_the_package() -> None:
    assert PROJECT["scripts"][NAME] == "orchestr8_sqlite.cli:main"


def test_whoever_opens_the_repository_in_a_client_gets_the_server() -> None:
    assert read(".mcp.json") == {"mcpServers": {"orchestr8": uvx_server(".")}}


def test_registry_entry_keeps_the_rules_of_the_server_schema() -> None:
    """Source: static.modelcontextprotocol.io, server.schema.json of 2025-12-11, and the registry's package types."""
    entry = read("server.json")
    assert entry["$schema"] == "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    assert entry.keys() <= {"$schema", "name", "title", "description", "version", "repository", "packages"}
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert entry["repository"] == {"url": REPOSITORY, "source": "github"}
    owner = REPOSITORY.removeprefix("https://github.com/").partition("/")[0]
    assert entry["name"].startswith(f"io.github.{owner}/")  # else the registry does not let it in
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["title"]) <= 100
    assert 1 <= len(entry["description"]) <= 100


def test_registry_package_is_the_one_on_pypi_over_stdio() -> None:
    (package,) = read("server.json")["packages"]
    assert (package["registryType"], package["identifier"], package["version"]) == ("pypi", NAME, __version__)
    assert (package["runtimeHint"], package["transport"]) == ("uvx", {"type": "stdio"})
    assert package["packageArguments"] == [{"type": "positional", "value": "serve"}]
    variables = {variable["name"]: variable for variable in package["environmentVariables"]}
    assert variables.keys() == {"ORCHESTR8_DB", "LOG_LEVEL"}
    assert variables["ORCHESTR8_DB"]["format"] == "filepath"
    assert variables["LOG_LEVEL"]["choices"] == list(LOG_LEVELS)


def test_plugin_manifest_keeps_the_rules_and_runs_its_own_folder() -> None:
    """Source: code.claude.com/docs/en/plugins/manifest-reference, "Fields" and "Path rules"."""
    plugin = read(".claude-plugin/plugin.json")
    known = {"name", "version", "description", "author", "license", "keywords", "homepage", "repository"}
    assert plugin.keys() == {*known, "mcpServers"}
    assert plugin["homepage"] == plugin["repository"] == REPOSITORY
    assert plugin["name"] == NAME
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", plugin["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", plugin["version"])
    assert (plugin["license"], plugin["author"]["name"]) == (PROJECT["license"], PROJECT["authors"][0]["name"])
    assert plugin["mcpServers"] == {"orchestr8": uvx_server("${CLAUDE_PLUGIN_ROOT}")}


def test_marketplace_offers_the_plugin_of_this_repository() -> None:
    """Source: code.claude.com/docs/en/plugins/marketplace-reference, "Top-level fields" and "Plugin entries"."""
    marketplace = read(".claude-plugin/marketplace.json")
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", marketplace["name"])
    assert marketplace["owner"]["name"]
    (plugin,) = marketplace["plugins"]
    assert (plugin["name"], plugin["source"]) == (read(".claude-plugin/plugin.json")["name"], "./")
    assert "version" not in plugin


def test_bundle_manifest_keeps_the_rules_of_its_version() -> None:
    """Source: mcpb-manifest-v0.4.schema.json of the npm package @anthropic-ai/mcpb; MANIFEST.md, "UV Runtime"."""
    manifest = read("mcpb/manifest.json")
    assert manifest["manifest_version"] == "0.4"
    assert {"name", "version", "description", "author", "server"} <= manifest.keys()
    assert manifest["name"] == NAME
    assert (manifest["homepage"], manifest["repository"]["url"]) == (REPOSITORY, REPOSITORY)
    server = manifest["server"]
    assert (server["type"], server["entry_point"]) == ("uv", "server.py")
    assert server["mcp_config"]["command"] == "uv"
    assert server["mcp_config"]["args"] == ["run", "--directory", "${__dirname}", "server.py"]
    assert manifest["compatibility"]["runtimes"]["python"] == PROJECT["requires-python"]
    assert set(manifest["compatibility"]["platforms"]) <= {"darwin", "linux", "win32"}
    assert {"search", "load"} <= {tool["name"] for tool in manifest["tools"]}
    for option in manifest["user_config"].values():
        assert {"type", "title", "description"} <= option.keys()


def test_bundle_without_a_chosen_index_serves_the_one_in_the_wheel() -> None:
    """An option that is not set has its default put in, and an empty ORCHESTR8_DB means the bundled index."""
    manifest = read("mcpb/manifest.json")
    assert manifest["server"]["mcp_config"]["env"] == {"ORCHESTR8_DB": "${user_config.index}"}
    assert manifest["user_config"]["index"]["default"] == ""


def test_bundle_project_installs_the_wheel_that_lies_beside_it() -> None:
    project = tomllib.loads((ROOT / "mcpb" / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == __version__
    assert project["project"]["requires-python"] == PROJECT["requires-python"]
    assert project["project"]["dependencies"] == [NAME]
    wheel = f"orchestr8_sqlite-{__version__}-py3-none-any.whl"
    assert project["tool"]["uv"]["sources"] == {NAME: {"path": wheel}}


def test_bundle_entry_point_serves() -> None:
    tree = ast.parse((ROOT / "mcpb" / "server.py").read_text(encoding="utf-8"))
    text = ast.unparse(tree)
    assert "from orchestr8_sqlite.cli import main" in text
    assert "sys.argv[1:] = ['serve']" in text


def test_recipe_packs_what_the_bundle_needs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.split("\nmcpb: ")[1].split("\n\n")[0]
    for file in (ROOT / "mcpb").iterdir():
        assert f"mcpb/{file.name} " in recipe
    assert "wheel ." in recipe
    assert "$(MCPB) validate" in recipe
    assert "$(MCPB) pack" in recipe
