"""The methods of the skills extension (SEP-2640): `skills/list`, `skills/get` and `resources/directory/read`.

Their results have the shape of revision 2026-07-28, in which the extension is specified, for every client; so have
the error codes. Source: stable specification of io.modelcontextprotocol/skills.
"""

from typing import Any, Literal

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp_types import CacheableResult, PaginatedRequestParams, PaginatedResult, RequestParams
from pydantic import BaseModel

from orchestr8_sqlite import skills
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.server.guard import Context, Guard, note
from orchestr8_sqlite.server.identity import CACHE_SCOPE, EXTENSIONS
from orchestr8_sqlite.server.paging import PAGE_SIZE, Pages
from orchestr8_sqlite.service import Service
from orchestr8_sqlite.wording import one_line

URI_LENGTH = 200
"""Characters of a URI in the log."""


class GetSkillParams(RequestParams):
    """The URI of a skill's SKILL.md."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """The URI of a directory resource."""

    uri: str


class SkillResource(BaseModel):
    """A file of a skill with the digest and size of its raw bytes."""

    uri: str
    digest: str
    size: int


class Skill(BaseModel):
    """The entry for one skill."""

    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource]


class ListSkillsResult(PaginatedResult, CacheableResult):
    """A page of entries."""

    skills: list[Skill]
    result_type: Literal["complete"] = "complete"


class GetSkillResult(CacheableResult):
    """One entry."""

    skill: Skill
    result_type: Literal["complete"] = "complete"


class ReadDirectoryResult(PaginatedResult, CacheableResult):
    """A page of the direct children of a directory; the specification asks for no freshness here, clients do."""

    resources: list[types.Resource]
    result_type: Literal["complete"] = "complete"


def serve_skills(server: Server[dict[str, Any]], service: Service, guard: Guard, fresh_ms: int) -> None:
    """Add the methods to *server* and declare the extension.

    Args:
        fresh_ms: Milliseconds for which a client may take an entry for current.
    """

    async def list_skills(context: Context, params: PaginatedRequestParams) -> ListSkillsResult:
        return await guard.run(context, lambda: _list_skills(service.catalog, params, fresh_ms))

    async def get_skill(context: Context, params: GetSkillParams) -> GetSkillResult:
        note(uri=one_line(params.uri, URI_LENGTH))
        return await guard.run(context, lambda: _get_skill(service.catalog, params.uri, fresh_ms))

    async def read_directory(context: Context, params: ReadDirectoryParams) -> ReadDirectoryResult:
        note(uri=one_line(params.uri, URI_LENGTH))
        return await guard.run(context, lambda: _read_directory(service.catalog, params, fresh_ms))

    server.add_request_handler("skills/list", PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", GetSkillParams, get_skill)
    server.add_request_handler("resources/directory/read", ReadDirectoryParams, read_directory)
    server.extensions.update(EXTENSIONS)


def _list_skills(catalog: Catalog, params: PaginatedRequestParams, fresh_ms: int) -> ListSkillsResult:
    pages = Pages("skills", catalog.generation)
    entries = skills.list_skills(catalog, after=pages.after(params) or "", limit=PAGE_SIZE)
    last = entries[-1].path if entries else ""
    return ListSkillsResult(
        skills=[_skill(entry) for entry in entries],
        next_cursor=pages.cursor_behind(last) if entries and skills.skill_follows(catalog, last) else None,
        ttl_ms=fresh_ms,
        cache_scope=CACHE_SCOPE,
    )


def _get_skill(catalog: Catalog, uri: str, fresh_ms: int) -> GetSkillResult:
    entry = skills.get_skill(catalog, uri)
    return GetSkillResult(skill=_skill(entry), ttl_ms=fresh_ms, cache_scope=CACHE_SCOPE)


def _read_directory(catalog: Catalog, params: ReadDirectoryParams, fresh_ms: int) -> ReadDirectoryResult:
    pages = Pages(f"directory {skills.parse_skill_uri(params.uri)}", catalog.generation)
    entries = skills.read_directory(catalog, params.uri, after=pages.after(params) or "", limit=PAGE_SIZE + 1)
    return ReadDirectoryResult(
        resources=[_resource(entry) for entry in entries[:PAGE_SIZE]],
        next_cursor=pages.next_cursor([entry.segment for entry in entries]),
        ttl_ms=fresh_ms,
        cache_scope=CACHE_SCOPE,
    )


def _skill(entry: skills.SkillEntry) -> Skill:
    resources = [SkillResource(uri=one.uri, digest=one.digest, size=one.size) for one in entry.resources]
    return Skill(uri=entry.uri, frontmatter=dict(entry.frontmatter), resources=resources)


def _resource(entry: skills.DirectoryEntry) -> types.Resource:
    return types.Resource(
        uri=entry.uri,
        name=entry.name,
        description=entry.description,
        mime_type=entry.mime_type,
        size=entry.size,
    )
