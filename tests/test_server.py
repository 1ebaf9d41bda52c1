"""The MCP server through the SDK's own client, in memory, in both protocol eras. Promises of ours, not of the spec."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from serving import HANDSHAKE, MODERN, Era, both_eras, connected, text_of
from support import build, markdown, write_files
from tokenizer import true_tokens

from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

PROMPT = """---
name: fix-bug
title: Fix a bug
description: Finds and fixes
arguments:
  - name: symptom
    description: What goes wrong
    required: true
---
Fix ${symptom}. Read orchestr8://match?query=${symptom}&mode=index first.
"""


FILES = {
    "skills/retry.md": markdown(
        "title: Retrying\ndescription: Retry well\ntags: [retry]\nuseWhen:\n  - Retrying a flaky call"
    ),
    "skills/breaker.md": markdown("tags: [retry, breaker]\nuseWhen:\n  - Stopping calls to a dead service"),
    "agents/api.md": markdown("useWhen:\n  - Designing a REST API"),
    "prompts/workflows/fix-bug.md": PROMPT,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """Return an index of FILES that the test may move."""
    return Path(shutil.copy(built, tmp_path))


@pytest.fixture
def service(index: Path) -> Iterator[Service]:
    service = Service(Settings(index, "info", 200))
    yield service
    service.close()


@both_eras
def test_unknown_value_of_explain_in_a_uri_is_invalid_params(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as client:
            with pytest.raises(MCPError, match="'explain' must be true or false, not 'yes'") as caught:
                await client.read_resource("orchestr8://match?query=retry&explain=yes")
            assert caught.value.code == -32602

    anyio.run(scenario)


@both_eras
def test_resources_are_the_registry_the_categories_and_every_fragment(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as client:
            listed = await client.list_resources()
            assert [resource.uri for resource in listed.resources] == [
                "orchestr8://registry",
                "orchestr8://agents",
                "orchestr8://skills",
                "orchestr8://agents/api",
                "orchestr8://skills/breaker",
                "orchestr8://skills/retry",
            ]
            for resource in listed.resources:
                content = (await client.read_resource(resource.uri)).contents[0]
                if resource.size is not None:
                    assert len(text_of(content).encode()) == resource.size

    anyio.run(scenario)


@pytest.mark.parametrize(("era", "code"), [(HANDSHAKE, -32002), (MODERN, -32602)])
def test_unknown_resource_has_the_code_of_the_revision_and_names_the_nearest(
    service: Service, era: Era, code: int
) -> None:
    async def scenario() -> None:
        async with connected(service, era) as client:
            with pytest.raises(MCPError, match=r"Nearest: orchestr8://skills/retry") as caught:
                await client.read_resource("orchestr8://skills/retrying")
            assert (caught.value.code, caught.value.data) == (code, {"uri": "orchestr8://skills/retrying"})
            with pytest.raises(MCPError, match=r"Not an orchestr8 URI: send orchestr8://") as caught:
                await client.read_resource("file:///etc/passwd")
            assert (caught.value.code, caught.value.data) == (code, {"uri": "file:///etc/passwd"})
            with pytest.raises(MCPError, match="Unknown category 'nope'") as caught:
                await client.read_resource("orchestr8://nope/nope")
            assert (caught.value.code, caught.value.data) == (code, {"uri": "orchestr8://nope/nope"})

    anyio.run(scenario)


@both_eras
@pytest.mark.parametrize(
    "uri",
    [
        "orchestr8://skills/../../etc/passwd",
        "orchestr8://skills/%2e%2e/x",
        "orchestr8://match?query=",
    ],
)
def test_unacceptable_uri_is_invalid_params(service: Service, era: Era, uri: str) -> None:
    async def scenario() -> None:
        async with connected(service, era) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == -32602

    anyio.run(scenario)


def test_templates_search_and_read_all_and_each_category_that_has_fragments(service: Service) -> None:
    async def scenario() -> None:
        async with connected(service, MODERN) as client:
            templates = (await client.list_resource_templates()).resource_templates
            match = "{?query,terms,mode,categories,tags,maxResults,maxTokens,minScore,ranker,explain}"
            assert [template.uri_template for template in templates] == [
                f"orchestr8://match{match}",
                "orchestr8://{category}/{+name}",
                f"orchestr8://agents/match{match}",
                "orchestr8://agents/{+name}",
                f"orchestr8://skills/match{match}",
                "orchestr8://skills/{+name}",
            ]
            content = (await client.read_resource("orchestr8://skills/match?query=retry&mode=index")).contents[0]
            assert "orchestr8://skills/retry" in text_of(content)

    anyio.run(scenario)


@both_eras
def test_prompt_is_listed_with_its_arguments_and_filled_with_values(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as client:
            prompt = (await client.list_prompts()).prompts[0]
            assert (prompt.name, prompt.title, prompt.description) == ("fix-bug", "Fix a bug", "Finds and fixes")
            assert prompt.arguments is not None
            assert [(a.name, a.required) for a in prompt.arguments] == [("symptom", True)]
            got = await client.get_prompt("fix-bug", {"symptom": "a & b"})
            expected = "Fix a & b. Read orchestr8://match?query=a+%26+b&mode=index first."
            assert text_of(got.messages[0].content) == expected

    anyio.run(scenario)


@pytest.mark.parametrize(
    ("name", "arguments", "advice"),
    [("fix-bug", {}, "needs the argument 'symptom' .What goes wrong."), ("fix-bugs", {}, "Nearest: fix-bug")],
)
def test_wrong_prompt_request_is_invalid_params(
    service: Service, name: str, arguments: dict[str, str], advice: str
) -> None:
    async def scenario() -> None:
        async with connected(service, MODERN) as client:
            with pytest.raises(MCPError, match=advice) as caught:
                await client.get_prompt(name, arguments)
            assert caught.value.code == -32602

    anyio.run(scenario)


def test_instructions_name_the_real_categories_in_at_most_120_tokens(service: Service) -> None:
    async def scenario() -> None:
        async with connected(service, HANDSHAKE) as client:
            assert client.instructions is not None
            assert "1 agent, 2 skills" in client.instructions
            assert true_tokens(client.instructions) <= 120

    anyio.run(scenario)


def test_missing_index_is_an_error_without_a_path_and_the_server_recovers(index: Path) -> None:
    hidden = index.with_suffix(".hidden")
    index.rename(hidden)
    service = Service(Settings(index, "info", 10))

    async def scenario() -> None:
        async with connected(service, MODERN) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "load"]
            failed = await client.call_tool("search", {"query": "retry"})
            assert failed.is_error
            assert text_of(failed.content[0]) == "The library's index cannot be read; see the server's log."
            hidden.rename(index)
            assert not (await client.call_tool("search", {"query": "retry"})).is_error

    anyio.run(scenario)
    service.close()


def test_bug_in_a_handler_reaches_the_client_as_internal_error_only(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("/secret/path")

    monkeypatch.setattr(service, "read", fail)

    async def scenario() -> None:
        async with connected(service, HANDSHAKE) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource("orchestr8://registry")
            assert (caught.value.code, caught.value.message) == (-32603, "Internal error; see the server's log.")

    anyio.run(scenario)
