"""The methods of the skills extension (SEP-2640): `skills/list`, `skills/get` and `resources/directory/read`.

Every client gets results and error codes in the form of revision 2026-07-28, for which the extension is specified.
Source: stable specification of io.modelcontextprotocol/skills.
"""

from typing import Any, NamedTuple

from mcp.server.lowlevel import Server
from mcp_types import PaginatedRequestParams, RequestParams

from orchestr8_sqlite.answers import skill_files
from orchestr8_sqlite.answers.provenance import state_of
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.server.guard import Context, Guard, note
from orchestr8_sqlite.server.identity import CACHE_SCOPE, EXTENSIONS
from orchestr8_sqlite.server.paging import PAGE_SIZE, Pages
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Profile
from orchestr8_sqlite.text.tokens import compact_json
from orchestr8_sqlite.text.wording import counted, one_line

Result = dict[str, Any]
"""A result as it is sent; the SDK has no types for this extension."""

URI_LENGTH = 200
"""Most characters of a URI in the log."""

SHA256_KEY, COMMIT_KEY, UNREVIEWED_KEY = "orchestr8/sha256", "orchestr8/commit", "orchestr8/unreviewed"
"""Keys in `_meta` of a skill's entry for the parts of its `SkillState`."""

TOTAL_KEY, REST_KEY = "orchestr8/total", "orchestr8/rest"
"""Keys in `_meta` of a page for the number of all skills, and how to reach those that it lacks."""


class Room(NamedTuple):
    """The most skills of a page, and bytes of their entries; a page has at least one entry."""

    skills: int
    bytes: int


FIRST_PAGE, FURTHER_PAGE = Room(25, 32 << 10), Room(PAGE_SIZE, 128 << 10)
"""The first page is what a client reads at each start. A client that wants all gets thousands of skills in fewer pages
than clients follow: the TypeScript client 2.4.0 gives up after 64."""


class GetSkillParams(RequestParams):
    """The URI of a skill's SKILL.md."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """The URI of a directory resource."""

    uri: str


def serve_skills(
    server: Server[dict[str, Any]], service: Service, guard: Guard, profile: Profile, fresh_ms: int
) -> None:
    """Add the methods to *server* and declare the extension.

    Args:
        profile: The profile of tools that the server offers.
        fresh_ms: How long a client may treat an entry as current, in milliseconds.
    """
    search = "search" if profile is Profile.LIBRARY else "search_skill"
    fixed = {"resultType": "complete", "ttlMs": fresh_ms, "cacheScope": CACHE_SCOPE}

    async def list_skills(context: Context, params: PaginatedRequestParams) -> Result:
        return await guard.run(context, lambda: _list_skills(service.catalog, params, search)) | fixed

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


def _list_skills(catalog: Catalog, params: PaginatedRequestParams, search: str) -> Result:
    pages = Pages("skills", catalog.generation)
    after = pages.after(params)
    room, total = FIRST_PAGE if after is None else FURTHER_PAGE, skill_files.count_skills(catalog)
    skills: list[Result] = []
    end, last, size = 0, "", 0
    for place, entry in skill_files.list_skills(catalog, after=after or "", limit=room.skills):
        skill = _skill(catalog, entry)
        size += len(compact_json(skill).encode())
        if skills and size > room.bytes:
            break
        skills.append(skill)
        end, last = place, entry.path
    page: Result = {"skills": skills, "_meta": {TOTAL_KEY: total}}
    if end < total:
        page["_meta"][REST_KEY] = _rest(total - end, search)
        page["nextCursor"] = pages.cursor_behind(last)
    return page


def _rest(count: int, search: str) -> str:
    """Return how to reach the skills after a page."""
    return (
        f"{counted(count, 'more skill')}: find those for a task with the tool {search}, get one by its URI with "
        "skills/get, or list on with nextCursor."
    )


def _get_skill(catalog: Catalog, uri: str) -> Result:
    return {"skill": _skill(catalog, skill_files.get_skill(catalog, uri))}


def _read_directory(catalog: Catalog, params: ReadDirectoryParams) -> Result:
    pages = Pages(f"directory {skill_files.parse_skill_uri(params.uri)}", catalog.generation)
    entries = skill_files.read_directory(catalog, params.uri, after=pages.after(params) or "", limit=PAGE_SIZE + 1)
    cursor = pages.next_cursor([entry.segment for entry in entries])
    return {"resources": [_resource(entry) for entry in entries[:PAGE_SIZE]], **_next(cursor)}


def _next(cursor: str | None) -> Result:
    return {} if cursor is None else {"nextCursor": cursor}


def _skill(catalog: Catalog, entry: skill_files.SkillEntry) -> Result:
    resources = [{"uri": one.uri, "digest": one.digest, "size": one.size} for one in entry.resources]
    state = state_of(catalog, entry)
    said = {COMMIT_KEY: state.commit, UNREVIEWED_KEY: state.unreviewed}
    meta = {SHA256_KEY: state.sha256, **{key: value for key, value in said.items() if value}}
    return {"uri": entry.uri, "frontmatter": dict(entry.frontmatter), "resources": resources, "_meta": meta}


def _resource(entry: skill_files.DirectoryEntry) -> Result:
    known = {"description": entry.description, "mimeType": entry.mime_type, "size": entry.size}
    return {"uri": entry.uri, "name": entry.name, **{name: value for name, value in known.items() if value is not None}}
