"""The methods of the skills extension (SEP-2640): `skills/list`, `skills/get` and `resources/directory/read`.

Every client gets results and error codes in the form of revision 2026-07-28, for which the extension is specified.
Source: stable specification of io.modelcontextprotocol/skills.
"""

from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import PaginatedRequestParams, RequestParams

from orchestr8_sqlite.answers import skill_files
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.server.guard import Context, Guard, note
from orchestr8_sqlite.server.identity import CACHE_SCOPE, EXTENSIONS
from orchestr8_sqlite.server.paging import PAGE_SIZE, Pages
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.text.wording import one_line

Result = dict[str, Any]
"""A result as it is sent; the SDK has no types for this extension."""

URI_LENGTH = 200
"""Most characters of a URI in the log."""


class GetSkillParams(RequestParams):
    """The URI of a skill's SKILL.md."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """The URI of a directory resource."""

    uri: str


def serve_skills(server: Server[dict[str, Any]], service: Service, guard: Guard, fresh_ms: int) -> None:
    """Add the methods to *server* and declare the extension.

    Args:
        fresh_ms: How long a client may treat an entry as current, in milliseconds.
    """
    fixed = {"resultType": "complete", "ttlMs": fresh_ms, "cacheScope": CACHE_SCOPE}

    async def list_skills(context: Context, params: PaginatedRequestParams) -> Result:
        return await guard.run(context, lambda: _list_skills(service.catalog, params)) | fixed

    async def get_skill(context: Context, params: GetSkillParams) -> Result:
        note(uri=one_line(params.uri, URI_LENGTH))
        return await guard.run(context, lambda: _get_skill(service.catalog, params.uri)) | fixed

    async def read_directory(context: Context, params: ReadDirectoryParams) -> Result:
        note(uri=one_line(params.uri, URI_LENGTH))
        return await guard.run(context, lambda: _read_directory(service.catalog, params)) | fixed

    server.add_request_handler("skills/list", PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", GetSkillParams, get_skill)
    server.add_request_handler("resources/directory/read", ReadDirectoryParams, read_directory)
    server.extensions.update(EXTENSIONS)


def _list_skills(catalog: Catalog, params: PaginatedRequestParams) -> Result:
    pages = Pages("skills", catalog.generation)
    entries = skill_files.list_skills(catalog, after=pages.after(params) or "", limit=PAGE_SIZE)
    last = entries[-1].path if entries else ""
    more = bool(entries) and skill_files.skill_follows(catalog, last)
    return {"skills": [_skill(entry) for entry in entries], **_next(pages.cursor_behind(last) if more else None)}


def _get_skill(catalog: Catalog, uri: str) -> Result:
    return {"skill": _skill(skill_files.get_skill(catalog, uri))}


def _read_directory(catalog: Catalog, params: ReadDirectoryParams) -> Result:
    pages = Pages(f"directory {skill_files.parse_skill_uri(params.uri)}", catalog.generation)
    entries = skill_files.read_directory(catalog, params.uri, after=pages.after(params) or "", limit=PAGE_SIZE + 1)
    cursor = pages.next_cursor([entry.segment for entry in entries])
    return {"resources": [_resource(entry) for entry in entries[:PAGE_SIZE]], **_next(cursor)}


def _next(cursor: str | None) -> Result:
    return {} if cursor is None else {"nextCursor": cursor}


def _skill(entry: skill_files.SkillEntry) -> Result:
    resources = [{"uri": one.uri, "digest": one.digest, "size": one.size} for one in entry.resources]
    return {"uri": entry.uri, "frontmatter": dict(entry.frontmatter), "resources": resources}


def _resource(entry: skill_files.DirectoryEntry) -> Result:
    known = {"description": entry.description, "mimeType": entry.mime_type, "size": entry.size}
    return {"uri": entry.uri, "name": entry.name, **{name: value for name, value in known.items() if value is not None}}
