"""The skills extension through the SDK's own client, in both protocol eras: what SEP-2640 asks of a server."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, Request, TextResourceContents
from pydantic import RootModel
from support import MakeLibrary, build, write_files

from orchestr8_sqlite.server.app import LibraryServer
from orchestr8_sqlite.server.paging import PAGE_SIZE
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

Era = Literal["legacy", "2026-07-28"]
both_eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])

FRONT = (
    "name: pdf\r\ndescription: Fills PDF forms\r\nmetadata:\r\n  updated: 2026-01-31\r\n"
    "x-null: null\r\nx-number: 7\r\nx-map: {b: 1, a: [yes, null]}\r\n"
)
PDF = b"\xef\xbb\xbf---\r\n" + FRONT.encode() + b"---\r\n\r\n# PDF\r\n"
SIGN = b"---\nname: sign\ndescription: Signs PDF files\n---\n\n# Sign\n"
FILES: dict[str, bytes] = {
    "skills/pdf/SKILL.md": PDF,
    "skills/pdf/forms/a b.md": b"caf\xc3\xa9\r\n",
    "skills/pdf/forms/latin.txt": b"caf\xe9",
    "skills/pdf/logo.png": b"\x89PNG\r\n\0\xff",
    "skills/pdf/sign/SKILL.md": SIGN,
    "skills/Broken/SKILL.md": b"---\nname: Broken\ndescription: Has a bad name\n---\n\n# Broken\n",
    "agents/api.md": b"---\nuseWhen:\n  - Designing an API\n---\n\n# API\n",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("skills")
    service = Service(Settings(build(write_files(folder / "library", FILES), folder / "index.db"), "info", 200))
    yield service
    service.close()


class Raw(RootModel[dict[str, Any]]):
    """Any result, as it came."""


class Connection:
    """A client that also sends requests that it has no method for."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result as it came, without what the SDK adds to every one."""
        request = Request[dict[str, Any], str](method=method, params=params)
        result = await self.client.session.send_request(request, Raw)
        return {key: value for key, value in result.root.items() if key != "_meta"}

    async def refusal(self, method: str, **params: object) -> tuple[int, str]:
        """Return code and message of the error that the request is answered with."""
        with pytest.raises(MCPError) as caught:
            await self.ask(method, **params)
        return caught.value.code, caught.value.message

    async def read(self, uri: str) -> tuple[bytes, str | None]:
        """Return (bytes, MIME type) of a resource."""
        [contents] = (await self.client.read_resource(uri)).contents
        assert contents.uri == uri
        if isinstance(contents, BlobResourceContents):
            return base64.b64decode(contents.blob), contents.mime_type
        assert isinstance(contents, TextResourceContents)
        return contents.text.encode(), contents.mime_type


@asynccontextmanager
async def connected(service: Service, era: Era) -> AsyncIterator[Connection]:
    with ThreadPoolExecutor(2) as executor:
        async with Client(LibraryServer(service, executor), mode=era) as client:
            yield Connection(client)


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def test_the_extension_is_declared_with_directory_reading_beside_resources(service: Service) -> None:
    async def scenario() -> None:
        async with connected(service, "2026-07-28") as connection:
            capabilities = (await connection.ask("server/discover"))["capabilities"]
            assert capabilities["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
            assert "resources" in capabilities

    anyio.run(scenario)


@both_eras
def test_a_listing_has_the_shape_of_the_specification(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            listed = await connection.ask("skills/list")
            assert listed.keys() == {"resultType", "skills", "ttlMs", "cacheScope"}
            assert (listed["resultType"], listed["cacheScope"]) == ("complete", "public")
            assert listed["ttlMs"] > 0
            assert [skill["uri"] for skill in listed["skills"]] == ["skill://pdf/SKILL.md", "skill://pdf/sign/SKILL.md"]
            for skill in listed["skills"]:
                assert skill.keys() == {"uri", "frontmatter", "resources", "_meta"}
                assert all(one.keys() == {"uri", "digest", "size"} for one in skill["resources"])

    anyio.run(scenario)


@both_eras
def test_one_skill_is_answered_as_it_is_listed(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            listed = await connection.ask("skills/list")
            for skill in listed["skills"]:
                got = await connection.ask("skills/get", uri=skill["uri"])
                assert got.pop("skill") == skill
                assert got == {key: listed[key] for key in ("resultType", "ttlMs", "cacheScope")}

    anyio.run(scenario)


@both_eras
def test_front_matter_arrives_verbatim_with_nulls_and_the_authors_order(service: Service, era: Era) -> None:
    expected = {
        "name": "pdf",
        "description": "Fills PDF forms",
        "metadata": {"updated": "2026-01-31"},
        "x-null": None,
        "x-number": 7,
        "x-map": {"b": 1, "a": [True, None]},
    }

    async def scenario() -> None:
        async with connected(service, era) as connection:
            got = await connection.ask("skills/get", uri="skill://pdf/SKILL.md")
            assert got["skill"]["frontmatter"] == expected
            assert list(got["skill"]["frontmatter"]) == list(expected)

    anyio.run(scenario)


@both_eras
def test_every_file_of_a_manifest_is_read_as_the_bytes_that_it_promises(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            got = await connection.ask("skills/get", uri="skill://pdf/SKILL.md")
            found = {}
            for one in got["skill"]["resources"]:
                content, _ = await connection.read(one["uri"])
                assert (digest(content), len(content)) == (one["digest"], one["size"])
                found[unquote(one["uri"]).replace("skill://", "skills/")] = content
            assert found == {path: content for path, content in FILES.items() if path.startswith("skills/pdf/")}

    anyio.run(scenario)


@both_eras
@pytest.mark.parametrize(
    ("uri", "kind", "mime_type"),
    [
        ("skill://pdf/SKILL.md", "text", "text/markdown"),
        ("skill://pdf/forms/a%20b.md", "text", "text/markdown"),
        ("skill://pdf/forms/latin.txt", "blob", "text/plain"),
        ("skill://pdf/logo.png", "blob", "image/png"),
    ],
)
def test_a_file_is_text_where_it_is_utf_8_else_a_blob(
    service: Service, era: Era, uri: str, kind: str, mime_type: str
) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            raw = await connection.ask("resources/read", uri=uri)
            [contents] = raw["contents"]
            assert contents.keys() == {"uri", "mimeType", kind}
            assert (contents["uri"], contents["mimeType"]) == (uri, mime_type)
            assert (raw.get("ttlMs", 0) > 0) == (era == "2026-07-28")

    anyio.run(scenario)


@both_eras
def test_a_directory_lists_its_direct_children_as_resources(service: Service, era: Era) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            read = await connection.ask("resources/directory/read", uri="skill://pdf")
            assert read == {
                "resultType": "complete",
                "ttlMs": 60_000,
                "cacheScope": "public",
                "resources": [
                    {
                        "uri": "skill://pdf/SKILL.md",
                        "name": "pdf",
                        "description": "Fills PDF forms",
                        "mimeType": "text/markdown",
                        "size": len(PDF),
                    },
                    {"uri": "skill://pdf/forms", "name": "forms", "mimeType": "inode/directory"},
                    {"uri": "skill://pdf/logo.png", "name": "logo.png", "mimeType": "image/png", "size": 8},
                    {"uri": "skill://pdf/sign", "name": "sign", "mimeType": "inode/directory"},
                ],
            }

    anyio.run(scenario)


@both_eras
@pytest.mark.parametrize(
    ("method", "uri", "advice"),
    [
        ("skills/get", "skill://pdff/SKILL.md", "No skill is served at skill://pdff/SKILL.md. Nearest: skill://pdf/SK"),
        ("skills/get", "skill://Broken/SKILL.md", "read orchestr8://skills/Broken instead"),
        ("skills/get", "skill://pdf", "No skill is served at skill://pdf."),
        ("skills/get", "skill://pdf/../pdf/SKILL.md", "'..'"),
        ("skills/get", "orchestr8://skills/pdf", "Not a skill URI"),
        ("resources/directory/read", "skill://pdf/SKILL.md", "skill://pdf/SKILL.md is a file, not a directory"),
        ("resources/directory/read", "skill://none", "No directory is served at skill://none."),
        ("resources/directory/read", "orchestr8://skills", "Not a skill URI"),
        ("resources/read", "skill://pdf/%2e%2e/x", "'..'"),
        ("resources/read", "skill://pdf/forms", "is a directory"),
    ],
)
def test_what_is_not_served_is_invalid_params_in_every_revision(
    service: Service, era: Era, method: str, uri: str, advice: str
) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            code, message = await connection.refusal(method, uri=uri)
            assert code == -32602
            assert advice in message

    anyio.run(scenario)


@pytest.mark.parametrize(("era", "expected"), [("legacy", -32002), ("2026-07-28", -32602)])
@pytest.mark.parametrize("uri", ["skill://pdf/none.md", "skill://Broken/SKILL.md"])
def test_file_that_is_not_served_has_the_code_that_the_revision_has_for_resources(
    service: Service, era: Era, expected: int, uri: str
) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            code, message = await connection.refusal("resources/read", uri=uri)
            assert code == expected
            assert f"No file of a skill is served at {uri}." in message

    anyio.run(scenario)


@both_eras
@pytest.mark.parametrize("method", ["skills/get", "resources/directory/read"])
@pytest.mark.parametrize("params", [{}, {"uri": None}, {"uri": 7}, {"uri": ["skill://pdf"]}])
def test_a_request_without_a_uri_is_invalid_params(
    service: Service, era: Era, method: str, params: dict[str, object]
) -> None:
    async def scenario() -> None:
        async with connected(service, era) as connection:
            assert (await connection.refusal(method, **params))[0] == -32602

    anyio.run(scenario)


def test_a_skill_of_512_files_is_served_whole_and_its_directory_in_pages(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    names = [f"{number:03}.txt" for number in range(511)]
    root = make_library({"skills/sign/SKILL.md": SIGN, **{f"skills/sign/t/{name}": name for name in names}})
    large = Service(Settings(build(root, tmp_path / "index.db"), "info", 10))

    async def scenario() -> None:
        async with connected(large, "2026-07-28") as connection:
            [skill] = (await connection.ask("skills/list"))["skills"]
            assert len(skill["resources"]) == 512
            read: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = await connection.ask("resources/directory/read", uri="skill://sign/t", **cursor)
                assert len(page["resources"]) <= PAGE_SIZE
                read += [resource["name"] for resource in page["resources"]]
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert read == names
            name, generation, _ = json.loads(base64.urlsafe_b64decode(cursor["cursor"]))
            torn = json.dumps([name, generation, "\ud800"]).encode()
            code, message = await connection.refusal(
                "resources/directory/read", uri="skill://sign/t", cursor=base64.urlsafe_b64encode(torn).decode()
            )
            assert (code, "not from this list" in message) == (-32602, True)
            deep = {"cursor": base64.urlsafe_b64encode(b"[" * 100_000).decode()}
            for foreign in (cursor, deep):
                code, message = await connection.refusal("resources/directory/read", uri="skill://sign", **foreign)
                assert (code, "not from this list" in message) == (-32602, True)

    anyio.run(scenario)
    large.close()


def test_a_skill_of_513_files_is_found_by_search_but_not_offered(make_library: MakeLibrary, tmp_path: Path) -> None:
    files = {f"skills/sign/t/{number}.txt": "" for number in range(512)}
    index = build(make_library({"skills/sign/SKILL.md": SIGN, **files}), tmp_path / "index.db")
    large = Service(Settings(index, "info", 10))

    async def scenario() -> None:
        async with connected(large, "2026-07-28") as connection:
            assert (await connection.ask("skills/list"))["skills"] == []
            code, message = await connection.refusal("skills/get", uri="skill://sign/SKILL.md")
            assert code == -32602
            assert "read orchestr8://skills/sign instead" in message
            assert (await connection.read("orchestr8://skills/sign"))[0] == b"# Sign"

    anyio.run(scenario)
    large.close()


def test_a_library_without_skills_lists_none(make_library: MakeLibrary, tmp_path: Path) -> None:
    index = build(make_library({"agents/api.md": FILES["agents/api.md"]}), tmp_path / "index.db")
    empty = Service(Settings(index, "info", 10))

    async def scenario() -> None:
        async with connected(empty, "2026-07-28") as connection:
            listed = await connection.ask("skills/list")
            assert (listed["skills"], "nextCursor" in listed) == ([], False)

    anyio.run(scenario)
    empty.close()


def test_an_index_that_cannot_be_read_is_an_internal_error_without_a_path(tmp_path: Path) -> None:
    missing = Service(Settings(tmp_path / "none.db", "info", 10))

    async def scenario() -> None:
        async with connected(missing, "2026-07-28") as connection:
            code, message = await connection.refusal("skills/list")
            assert (code, str(tmp_path) in message) == (-32603, False)

    anyio.run(scenario)
    missing.close()
