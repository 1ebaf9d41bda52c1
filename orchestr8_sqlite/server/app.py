"""The protocol's requests → calls of `Service` → the protocol's results and errors."""

import logging
from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from orchestr8_sqlite import __version__
from orchestr8_sqlite.catalog import FragmentRow, PromptRow
from orchestr8_sqlite.errors import Orchestr8Error, RequestError, UnknownResource
from orchestr8_sqlite.model import CATEGORY_FOLDERS, SCHEME
from orchestr8_sqlite.render import one_line
from orchestr8_sqlite.server.identity import DESCRIPTION, NAME, TITLE, instructions
from orchestr8_sqlite.server.paging import PAGE_SIZE, Pages
from orchestr8_sqlite.server.skills import read_skill_resource, serve_skills
from orchestr8_sqlite.server.tools import TOOLS, call_tool
from orchestr8_sqlite.service import Answer, Service
from orchestr8_sqlite.skills import is_skill_uri

logger = logging.getLogger(__name__)

MARKDOWN = "text/markdown"
RESOURCE_NOT_FOUND = -32002
"""What revisions before 2026-07-28 answer for an unknown resource; since then it is invalid params."""

MATCH_PARAMETERS = "{?query,mode,categories,tags,maxResults,maxTokens,minScore,explain}"
R = TypeVar("R")
Context = Any


def make_server(service: Service, executor: Executor) -> Server[dict[str, Any]]:
    """Return the server over *service*; blocking work runs in *executor*."""
    handlers = _Handlers(service, executor)
    server = Server(
        NAME,
        version=__version__,
        title=TITLE,
        description=DESCRIPTION,
        instructions=instructions(service),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    handlers.serve_skills(server)
    return server


class _Handlers:
    """One method a request; every error leaves as the protocol's own, without paths or tracebacks."""

    def __init__(self, service: Service, executor: Executor) -> None:
        self._service = service
        self._executor = executor

    async def _run(self, context: Context, work: Callable[[], R]) -> R:
        try:
            return await get_running_loop().run_in_executor(self._executor, work)
        except MCPError:
            raise
        except UnknownResource as problem:
            handshake = context.method == "resources/read" and context.protocol_version < "2026"
            raise MCPError(RESOURCE_NOT_FOUND if handshake else types.INVALID_PARAMS, str(problem)) from None
        except RequestError as problem:
            raise MCPError(types.INVALID_PARAMS, str(problem)) from None
        except Orchestr8Error as problem:
            logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
            raise MCPError(types.INTERNAL_ERROR, "The library's index cannot be read; see the server's log.") from None
        except Exception:
            logger.exception("internal error in %s", context.method)
            raise MCPError(types.INTERNAL_ERROR, "Internal error; see the server's log.") from None

    def serve_skills(self, server: Server[dict[str, Any]]) -> None:
        """Add the methods of the skills extension to *server*."""
        serve_skills(server, self._service, self._run)

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return all tools on one page."""
        return types.ListToolsResult(tools=list(TOOLS.values()))

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the result of a tool."""
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}; there are {', '.join(TOOLS)}.")
        return await self._run(context, lambda: call_tool(self._service, params.name, params.arguments or {}))

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return a page of resources: the registry and the categories, then every fragment by URI."""

        def page() -> types.ListResourcesResult:
            pages = Pages("resources", self._service.catalog.generation)
            after = pages.after(params)
            rows = self._service.catalog.fragments(after=after or "", limit=PAGE_SIZE + 1)
            resources = [_resource(row) for row in rows[:PAGE_SIZE]]
            if after is None:
                resources = [*self._lists(), *resources]
            return types.ListResourcesResult(
                resources=resources, next_cursor=pages.next_cursor([row.uri for row in rows])
            )

        return await self._run(context, page)

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the URI templates: search over all, search in each category, and one fragment."""

        def templates() -> types.ListResourceTemplatesResult:
            return types.ListResourceTemplatesResult(resource_templates=self._templates())

        return await self._run(context, templates)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the text behind a URI, or the raw file of a skill."""
        if is_skill_uri(params.uri):
            return await self._run(context, lambda: read_skill_resource(self._service.catalog, params.uri))
        answer: Answer = await self._run(context, lambda: self._service.read(params.uri))
        contents = types.TextResourceContents(uri=params.uri, mime_type=MARKDOWN, text=answer.text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Return a page of prompts by name."""

        def page() -> types.ListPromptsResult:
            pages = Pages("prompts", self._service.catalog.generation)
            rows = self._service.catalog.prompts(after=pages.after(params) or "", limit=PAGE_SIZE + 1)
            prompts = [_prompt(row) for row in rows[:PAGE_SIZE]]
            return types.ListPromptsResult(prompts=prompts, next_cursor=pages.next_cursor([row.name for row in rows]))

        return await self._run(context, page)

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return a prompt with its arguments put in."""
        row, text = await self._run(context, lambda: self._service.prompt(params.name, params.arguments or {}))
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=row.description or row.title, messages=[message])

    def _lists(self) -> list[types.Resource]:
        counts = self._service.catalog.category_counts()
        lists = [("registry", "Registry", "Categories, counts, and how to ask")]
        lists += [
            (
                CATEGORY_FOLDERS[category],
                CATEGORY_FOLDERS[category].capitalize(),
                f"The {count} fragments of this category",
            )
            for category, count in counts.items()
        ]
        return [
            types.Resource(uri=f"{SCHEME}://{name}", name=name, title=title, description=text, mime_type=MARKDOWN)
            for name, title, text in lists
        ]

    def _templates(self) -> list[types.ResourceTemplate]:
        folders = [CATEGORY_FOLDERS[category] for category in self._service.catalog.category_counts()]
        templates = [(f"{SCHEME}://match{MATCH_PARAMETERS}", "match", "Search the whole library")]
        templates += [
            (f"{SCHEME}://{name}/match{MATCH_PARAMETERS}", f"{name}-match", f"Search the {name}") for name in folders
        ]
        templates.append((f"{SCHEME}://{{category}}/{{+name}}", "fragment", "One fragment"))
        return [
            types.ResourceTemplate(uri_template=uri, name=name, description=text, mime_type=MARKDOWN)
            for uri, name, text in templates
        ]


def _resource(row: FragmentRow) -> types.Resource:
    return types.Resource(
        uri=row.uri,
        name=row.uri.removeprefix(f"{SCHEME}://"),
        title=row.title,
        description=one_line(row.description, 200) or None,
        mime_type=MARKDOWN,
        size=row.size,
    )


def _prompt(row: PromptRow) -> types.Prompt:
    return types.Prompt(
        name=row.name,
        title=row.title,
        description=row.description or None,
        arguments=[
            types.PromptArgument(name=a.name, description=a.description or None, required=a.required)
            for a in row.arguments
        ],
    )
