"""Other people's clients against the installed wheel over stdio: whatever the server says, they understand it.

Their programs come from package registries: once into tests/node_modules and tests/clients/.venv, and again when the
locked versions change. Where that cannot be done the tests are skipped, but not in CI.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from environments import cached_environment, node_command
from support import brought, build, markdown, write_files

CLIENTS = Path(__file__).parent / "clients"
Report = dict[str, Any]
Inspect = Callable[..., Report]

pytestmark = pytest.mark.slow

SKILL = """---
name: wait-and-retry
description: Waits between attempts; use it when a call fails now and then
license: MIT
metadata:
  tags: retry, backoff
---

# Wait and retry

Read [how long](references/how-long.md) first.
"""
SKILL_FILES: Mapping[str, bytes] = {
    "SKILL.md": SKILL.encode(),
    "assets/curve.png": bytes.fromhex("89504e470d0a1a0a00ff00fe"),
    "references/how-long.md": "# Wie lange?\r\n\r\nEine Sekunde – then two, four, …\r\n".encode(),
}
PROMPT = """---
name: fix-bug
title: Fix a bug
description: Finds the cause and mends it
arguments:
  - name: symptom
    description: What goes wrong
    required: true
  - name: category
    description: Where to look
---
Fix ${symptom}. Read orchestr8://match?query=${symptom}&mode=index first.
"""
GUIDES = {
    f"guides/roses/week-{n:03}.md": markdown(f"title: Week {n}\nuseWhen:\n  - Pruning roses in week {n}")
    for n in range(120)
}
"""More than one page of them."""

LIBRARY: Mapping[str, str | bytes] = {
    **GUIDES,
    "patterns/retry.md": markdown(
        "title: Retry\ndescription: Try again\ntags: [retry]\nuseWhen:\n  - Retrying a flaky call",
        "# Retry\n\nTry thrice.\n",
    ),
    "prompts/fix-bug.md": PROMPT,
    **{f"skills/wait-and-retry/{path}": content for path, content in SKILL_FILES.items()},
}
RETRY = "orchestr8://patterns/retry"
SKILL_URI = "skill://wait-and-retry/SKILL.md"
CHECKSUMS = {
    f"skill://wait-and-retry/{path}": {
        "size": len(content),
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
    }
    for path, content in SKILL_FILES.items()
}
ASKED = {
    "read": RETRY,
    "missing": "orchestr8://patterns/retrie",
    "search": {"query": "retrying a flaky call", "mode": "index"},
    "mistake": {"query": "retry", "mode": "everything"},
    "prompt": {"name": "fix-bug", "arguments": {"symptom": "slow & flaky"}},
    "completion": {
        "ref": {"type": "ref/resource", "uri": "orchestr8://{category}/{+name}"},
        "argument": {"name": "category", "value": "p"},
    },
    "skill": SKILL_URI,
    "files": list(CHECKSUMS),
    "directory": "skill://wait-and-retry/references",
}

HANDSHAKE = ("handshake.mjs", "fastmcp legacy")
MODERN = ("modern.mjs", "fastmcp auto")
"""Clients that settle on 2026-07-28."""

all_clients = pytest.mark.parametrize("client", [*HANDSHAKE, *MODERN])
skill_clients = pytest.mark.parametrize("client", ["handshake.mjs", *MODERN])  # FastMCP wants 2026-07-28 for skills
both_eras = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.fixture(scope="module")
def serve(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command that starts the installed server over LIBRARY."""
    folder = tmp_path_factory.mktemp("clients")
    index = build(write_files(folder / "library", LIBRARY), folder / "index.db")
    return [str(installed / "orchestr8-sqlite"), "serve", "--db", str(index)]


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    environment.pop("PYTHONPATH", None)  # the installed package is meant, not this checkout
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def learn(serve: list[str]) -> Callable[[str], Report]:
    """Return a function that returns what a client learns from the server in one connection."""

    @cache
    def report(client: str) -> Report:
        script, _, era = client.partition(" ")
        if script == "fastmcp":
            programs = brought(lambda: cached_environment(CLIENTS / ".venv", CLIENTS / "requirements.txt"))
            command = [str(programs / "python"), str(CLIENTS / "fastmcp_client.py"), era]
        else:
            command = brought(lambda: node_command(str(CLIENTS / script)))
        learnt: Report = json.loads(run([*command, json.dumps(ASKED), *serve]).stdout)
        return learnt

    return report


@pytest.fixture
def report(client: str, learn: Callable[[str], Report]) -> Report:
    """Return what *client* learns."""
    return learn(client)


@all_clients
def test_client_learns_who_the_server_is_and_what_it_can_do(report: Report) -> None:
    assert report["server"]["name"] == "orchestr8"
    assert {"tools", "resources", "prompts", "completions"} <= set(report["capabilities"])
    assert "120 guides" in report["instructions"]
    assert report["capabilities"]["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}


@all_clients
def test_client_lists_every_fragment_once_from_two_pages(client: str, report: Report) -> None:
    assert report["resources"]["pages"] == (1 if client == "modern.mjs" else 2)  # that one turns them by itself
    uris = [resource["uri"] for resource in report["resources"]["entries"]]
    fragments = {f"orchestr8://{path.removesuffix('.md')}" for path in GUIDES}
    assert {*fragments, RETRY, "orchestr8://skills/wait-and-retry", "orchestr8://registry"} <= set(uris)
    assert len(uris) == len(set(uris))
    retry = next(resource for resource in report["resources"]["entries"] if resource["uri"] == RETRY)
    assert (retry["title"], retry["description"], retry["mimeType"]) == ("Retry", "Try again", "text/markdown")


@all_clients
def test_client_lists_tools_templates_and_prompts(report: Report) -> None:
    assert [tool["name"] for tool in report["tools"]["entries"]] == ["search", "load"]
    assert all(tool["annotations"]["readOnlyHint"] for tool in report["tools"]["entries"])
    templates = {template["uriTemplate"] for template in report["templates"]["entries"]}
    assert "orchestr8://{category}/{+name}" in templates
    assert any(template.startswith("orchestr8://guides/match{?query") for template in templates)
    (prompt,) = report["prompts"]["entries"]
    assert (prompt["name"], prompt["title"]) == ("fix-bug", "Fix a bug")
    assert [(a["name"], a["description"], a["required"]) for a in prompt["arguments"]] == [
        ("symptom", "What goes wrong", True),
        ("category", "Where to look", False),
    ]


@all_clients
def test_client_reads_a_fragment(report: Report) -> None:
    (contents,) = report["read"]["contents"]
    assert (contents["uri"], contents["mimeType"]) == (RETRY, "text/markdown")
    assert "Try thrice." in contents["text"]


@all_clients
def test_client_is_told_the_nearest_when_a_fragment_is_missing(client: str, report: Report) -> None:
    assert report["missing"]["refused"]["code"] == (-32602 if client in MODERN else -32002)
    assert RETRY in report["missing"]["refused"]["message"]


@all_clients
def test_client_searches_with_the_tool_and_is_told_what_to_send_instead(report: Report) -> None:
    (text,) = report["search"]["content"]
    assert RETRY in text["text"]
    assert RETRY in json.dumps(report["search"]["structuredContent"])
    assert report["mistake"]["isError"] is True
    assert "index, catalog, full" in report["mistake"]["content"][0]["text"]


@all_clients
def test_client_gets_a_prompt_with_its_argument(report: Report) -> None:
    (message,) = report["prompt"]["messages"]
    assert message["role"] == "user"
    assert "Fix slow & flaky." in message["content"]["text"]
    assert "orchestr8://match?query=slow%20%26%20flaky&mode=index" in message["content"]["text"].replace("+", "%20")
    assert report["unfilled"]["refused"]["code"] == -32602
    assert "symptom" in report["unfilled"]["refused"]["message"]


@all_clients
def test_client_completes_an_argument(report: Report) -> None:
    assert report["completion"]["completion"]["values"] == ["patterns"]


@all_clients
def test_client_reads_the_files_of_a_skill_byte_for_byte(report: Report) -> None:
    assert report["files"] == CHECKSUMS


@skill_clients
def test_client_lists_skills_with_their_front_matter_and_the_digests_of_all_files(report: Report) -> None:
    (skill,) = report["skills"]["entries"]
    assert report["skill"]["skill"] == skill
    assert skill["uri"] == SKILL_URI
    assert skill["frontmatter"] == {
        "name": "wait-and-retry",
        "description": "Waits between attempts; use it when a call fails now and then",
        "license": "MIT",
        "metadata": {"tags": "retry, backoff"},
    }
    assert {file["uri"]: {"size": file["size"], "digest": file["digest"]} for file in skill["resources"]} == CHECKSUMS


@pytest.mark.parametrize("client", ["modern.mjs"])
def test_client_verifies_the_files_of_a_skill(report: Report) -> None:
    assert report["verified"] == list(CHECKSUMS)


@pytest.mark.parametrize("client", ["handshake.mjs", "modern.mjs"])
def test_client_lists_a_directory_of_a_skill(report: Report) -> None:
    assert [entry["uri"] for entry in report["directory"]["resources"]] == [
        "skill://wait-and-retry/references/how-long.md"
    ]


@pytest.fixture
def inspect(era: str, serve: list[str], tmp_path: Path) -> Inspect:
    """Return a function that runs a method with MCP Inspector on a server of its own, and returns what it prints."""
    inspector = brought(lambda: node_command("mcp-inspector"))

    def run_method(method: str, *options: str) -> Report:
        command = [*inspector, "--cli", *serve, "--protocol-era", era, "--format", "json", "--quiet"]
        printed: Report = json.loads(run([*command, "--method", method, *options], HOME=str(tmp_path)).stdout)
        return printed

    return run_method


@both_eras
def test_inspector_finds_no_fault_with_the_schemas_of_tools(inspect: Inspect) -> None:
    tools = inspect("tools/list", "--strict")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["search", "load"]


@both_eras
def test_inspector_lists_resources_templates_and_prompts(inspect: Inspect) -> None:
    assert RETRY in {resource["uri"] for resource in inspect("resources/list")["result"]["resources"]}
    assert inspect("resources/templates/list")["result"]["resourceTemplates"]
    assert [prompt["name"] for prompt in inspect("prompts/list")["result"]["prompts"]] == ["fix-bug"]


@both_eras
def test_inspector_reads_searches_and_gets_a_prompt(inspect: Inspect) -> None:
    assert "Try thrice." in inspect("resources/read", "--uri", RETRY)["result"]["contents"][0]["text"]
    found = inspect("tools/call", "--tool-name", "search", "--tool-args-json", json.dumps(ASKED["search"]))["result"]
    assert RETRY in found["content"][0]["text"]
    prompt = inspect("prompts/get", "--prompt-name", "fix-bug", "--prompt-args", "symptom=rust")["result"]
    assert "Fix rust." in prompt["messages"][0]["content"]["text"]


@both_eras
def test_inspector_verifies_the_skill_against_the_specification_and_its_digests(inspect: Inspect) -> None:
    verified = inspect("skills/list", "--verify")
    assert (verified["uri"], verified["outcome"]) == (SKILL_URI, "verified")
    assert (verified["conformance"], verified["frontmatter"]) == ([], [])
    assert inspect("skills/get", "--uri", SKILL_URI)["result"]["skill"]["frontmatter"]["license"] == "MIT"
