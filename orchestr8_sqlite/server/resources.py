"""Resources: registry, categories, the first skills and every fragment, in pages; URI templates; reads of any URI."""

import base64
from datetime import UTC, datetime

import mcp_types as types

from orchestr8_sqlite.answers.skill_files import DirectoryEntry, list_skills
from orchestr8_sqlite.index.catalog import Catalog, FragmentRow
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, SCHEME
from orchestr8_sqlite.server.guard import Context, Guard, note, note_answer
from orchestr8_sqlite.server.paging import PAGE_SIZE, Pages
from orchestr8_sqlite.server.skills import FIRST_PAGE
from orchestr8_sqlite.service.service import MARKDOWN, Answer, Service
from orchestr8_sqlite.text.wording import counted, one_line

TOKENS_KEY = "orchestr8/tokens"
"""Key in `_meta` for the token estimate of a resource."""

MATCH_PARAMETERS = "{?query,terms,mode,categories,tags,maxResults,maxTokens,minScore,ranker,explain}"
DESCRIPTION_LENGTH = 200


class Resources:
    """The handlers of `resources/…`."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return a page of resources: registry, categories, the skills that listings begin with, fragments by URI."""

        def page() -> types.ListResourcesResult:
            catalog = self._service.catalog
            pages = Pages("resources", catalog.generation)
            after = pages.after(params)
            rows = catalog.fragments(after=after or "", limit=PAGE_SIZE + 1)
            resources = [_resource(row) for row in rows[:PAGE_SIZE]]
            if after is None:
                resources = [*_lists(catalog), *map(_skill, listed_skills(catalog)), *resources]
            return types.ListResourcesResult(
                resources=resources, next_cursor=pages.next_cursor([row.uri for row in rows])
            )

        return await self._guard.run(context, page)

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the URI templates, all on one page."""

        def page() -> types.ListResourceTemplatesResult:
            catalog = self._service.catalog
            Pages("templates", catalog.generation).after(params)
            return types.ListResourceTemplatesResult(resource_templates=templates(catalog))

        return await self._guard.run(context, page)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the text behind a URI, or the raw file of a skill."""
        note(uri=one_line(params.uri.partition("?")[0], DESCRIPTION_LENGTH))  # what follows is noted as a query
        answer: Answer = await self._guard.run(context, lambda: self._service.read(params.uri))
        note_answer(answer)
        return types.ReadResourceResult(contents=[_contents(params.uri, answer)])


def _contents(uri: str, answer: Answer) -> types.TextResourceContents | types.BlobResourceContents:
    if answer.data is None:
        return types.TextResourceContents(uri=uri, mime_type=answer.mime_type, text=answer.text)
    blob = base64.b64encode(answer.data).decode()
    return types.BlobResourceContents(uri=uri, mime_type=answer.mime_type, blob=blob)


def templates(catalog: Catalog) -> list[types.ResourceTemplate]:
    """Return the templates for search and for one fragment, first over all, then for each category with fragments."""
    counts = catalog.category_counts()
    listed = [
        (f"{SCHEME}://match{MATCH_PARAMETERS}", "match", "Search", "Search the whole library"),
        (f"{SCHEME}://{{category}}/{{+name}}", "fragment", "Fragment", "One fragment of any category"),
    ]
    for category, count in counts.items():
        folder = CATEGORY_FOLDERS[category]
        title = folder.replace("-", " ")
        listed += [
            (
                f"{SCHEME}://{folder}/match{MATCH_PARAMETERS}",
                f"{folder}-match",
                f"Search {title}",
                f"Search the {title}",
            ),
            (f"{SCHEME}://{folder}/{{+name}}", category, title.capitalize(), f"One of {count:,}, by name"),
        ]
    return [
        types.ResourceTemplate(uri_template=uri, name=name, title=title, description=text, mime_type=MARKDOWN)
        for uri, name, title, text in listed
    ]


def _lists(catalog: Catalog) -> list[types.Resource]:
    lists = [("registry", "Registry", "Categories, counts, and how to ask")]
    for category, count in catalog.category_counts().items():
        folder = CATEGORY_FOLDERS[category]
        lists.append((folder, folder.replace("-", " ").capitalize(), f"{counted(count, 'fragment')} of this category"))
    return [
        types.Resource(uri=f"{SCHEME}://{name}", name=name, title=title, description=text, mime_type=MARKDOWN)
        for name, title, text in lists
    ]


def listed_skills(catalog: Catalog) -> list[DirectoryEntry]:
    """Return the SKILL.md of each skill that `skills/list` begins with."""
    return [skill.main_file for _, skill in list_skills(catalog, limit=FIRST_PAGE.skills)]


def _skill(file: DirectoryEntry) -> types.Resource:
    """Return a SKILL.md as a resource, without `_meta`: SEP-2640 reserves its keys there."""
    return types.Resource(
        uri=file.uri, name=file.name, description=file.description, mime_type=file.mime_type, size=file.size
    )


def _resource(row: FragmentRow) -> types.Resource:
    changed = datetime.fromtimestamp(row.mtime_ns // 1_000_000_000, UTC)
    return types.Resource(
        uri=row.uri,
        name=row.uri.removeprefix(f"{SCHEME}://"),
        title=one_line(row.title, DESCRIPTION_LENGTH),
        description=one_line(row.description, DESCRIPTION_LENGTH) or None,
        mime_type=MARKDOWN,
        size=row.size,
        annotations=types.Annotations(last_modified=changed.strftime("%Y-%m-%dT%H:%M:%SZ")),
        _meta={TOKENS_KEY: row.token_estimate},
    )
