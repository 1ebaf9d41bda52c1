"""The tools: which a client sees, and arguments → answers, as text, as JSON and with links."""

import logging
from collections.abc import Callable, Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

from orchestr8_sqlite.errors import CatalogError, RequestError
from orchestr8_sqlite.model.parameters import check_names, make_request, read_number, read_texts, read_truth
from orchestr8_sqlite.server.definitions import LOAD, LOAD_SKILL, MAX_BUDGET, SEARCH, SEARCH_SKILL, SKILL_TOOLS, TOOLS
from orchestr8_sqlite.server.guard import UNREADABLE, Context, Guard, note, note_answer, translated
from orchestr8_sqlite.server.paging import Pages
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.text.wording import one_line

STRUCTURED_SINCE = "2025-06-18"
"""The revision that brought structured content, resource links and titles of tools."""

GENERAL = [tool for name, tool in TOOLS.items() if name not in SKILL_TOOLS]
"""The tools that every library offers."""

FOR_PEOPLE = types.Annotations(audience=["user"])
"""Links are for a client's user: the text already names every URI to the model."""

SKILLS_SHOWN = 5

logger = logging.getLogger(__name__)

Arguments = Mapping[str, object]


class Tools:
    """The handlers of `tools/…`."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard
        self._calls: dict[str, Callable[[Arguments], Answer]] = {
            SEARCH.name: self._search,
            LOAD.name: self._load,
            SEARCH_SKILL.name: self._search_skill,
            LOAD_SKILL.name: self._load_skill,
        }

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return all tools on one page; those for skills where the library has any.

        While there is no index, a client need not wait: it is told of the others once there are any.
        """

        def page() -> list[types.Tool]:
            Pages("tools", self._service.catalog.generation).after(params)
            return self._offered()

        tools = GENERAL
        if self._guard.is_ready:
            with translated(context):
                try:
                    tools = await self._guard.in_thread(page)
                except CatalogError as problem:
                    logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
        if context.protocol_version < STRUCTURED_SINCE:
            tools = [tool.model_copy(update={"title": None, "output_schema": None}) for tool in tools]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the result of a tool; a mistake in its arguments is a result too, which says what to send instead.

        So is an index that cannot be read: a model is shown the result of a tool, but no error of the protocol.
        """
        note(tool=one_line(params.name))
        call = self._calls.get(params.name)
        if call is None:
            offered = ", ".join(tool.name for tool in await self._guard.run(context, self._offered))
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {one_line(params.name)!r}; there are {offered}.")
        arguments = params.arguments or {}
        with translated(context):
            try:
                answer = await self._guard.in_thread(lambda: _attempt(call, arguments))
            except CatalogError as problem:
                logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
                note(error=types.INTERNAL_ERROR)
                return _failure(UNREADABLE)
        if isinstance(answer, RequestError):
            note(mistake=str(answer))
            return _failure(str(answer))
        note_answer(answer)
        return _result(answer, structured=context.protocol_version >= STRUCTURED_SINCE)

    def _offered(self) -> list[types.Tool]:
        return list(TOOLS.values()) if self._service.catalog.has_skills else GENERAL

    def _search(self, arguments: Arguments) -> Answer:
        return self._service.search(make_request(arguments))

    def _load(self, arguments: Arguments) -> Answer:
        check_names(arguments, list(LOAD.input_schema["properties"]))
        if arguments.get("uris") is None:
            raise RequestError("The parameter 'uris' is missing: send a list of URIs, as `search` gives them.")
        uris = read_texts("uris", arguments.get("uris"))
        related = read_truth("related", arguments.get("related"))
        return self._service.load(uris, max_tokens=_budget(arguments), related=related)

    def _search_skill(self, arguments: Arguments) -> Answer:
        self._check_skills()
        check_names(arguments, list(SEARCH_SKILL.input_schema["properties"]))
        limit = arguments.get("maxResults", SKILLS_SHOWN)
        asked = {"query": arguments.get("query"), "terms": arguments.get("terms"), "maxResults": limit}
        request = make_request(asked)
        return self._service.search_skills(request._replace(agent_skills=True))

    def _load_skill(self, arguments: Arguments) -> Answer:
        self._check_skills()
        check_names(arguments, list(LOAD_SKILL.input_schema["properties"]))
        name = arguments.get("name")
        if name is not None and not isinstance(name, str):
            raise RequestError(f"'name' must be text, not {one_line(repr(name), 60)}.")
        if name is None or not name.strip():
            raise RequestError("The parameter 'name' is missing: send the name of a skill, as `search_skill` gives it.")
        files = read_texts("files", arguments.get("files"))
        return self._service.load_skill(name, files, max_tokens=_budget(arguments))

    def _check_skills(self) -> None:
        """Raise RequestError where the tools for skills are called though they are not offered."""
        if not self._service.catalog.has_skills:
            raise RequestError("The library has no Agent Skills; use `search` and `load`.")


def _attempt(call: Callable[[Arguments], Answer], arguments: Arguments) -> Answer | RequestError:
    try:
        return call(arguments)
    except RequestError as mistake:
        return mistake


def _failure(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=sentence)], is_error=True)


def _budget(arguments: Arguments) -> int | None:
    given = arguments.get("maxTokens")
    return None if given is None else int(read_number("maxTokens", given, 0, 1, MAX_BUDGET, whole=True))


def _result(answer: Answer, *, structured: bool) -> types.CallToolResult:
    text = types.TextContent(text=answer.text)
    if not structured:
        return types.CallToolResult(content=[text])
    links = [
        types.ResourceLink(uri=link.uri, name=link.name, mime_type=link.mime_type, annotations=FOR_PEOPLE)
        for link in answer.links
    ]
    return types.CallToolResult(content=[text, *links], structured_content=answer.content)
