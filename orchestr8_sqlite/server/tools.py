"""The tools: which ones a client sees, and arguments → answers, as text and as JSON."""

import logging
from collections.abc import Callable, Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

from orchestr8_sqlite.errors import CatalogError, RequestError
from orchestr8_sqlite.model.parameters import check_names, make_request, read_number, read_texts, read_truth
from orchestr8_sqlite.model.requests import Mode
from orchestr8_sqlite.server.definitions import LOAD, LOAD_SKILL, MAX_BUDGET, PROFILES, SEARCH, SEARCH_SKILL, USUAL_MODE
from orchestr8_sqlite.server.guard import Context, Guard, note, note_answer, translated
from orchestr8_sqlite.server.identity import said_of
from orchestr8_sqlite.server.paging import Pages
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.settings import Profile
from orchestr8_sqlite.text.wording import one_line

STRUCTURED_SINCE = "2025-06-18"
"""The first revision with structured content and titles of tools."""

SKILLS_SHOWN = 5

logger = logging.getLogger(__name__)

Arguments = Mapping[str, object]


class Tools:
    """The handlers of `tools/…`."""

    def __init__(self, service: Service, guard: Guard, profile: Profile) -> None:
        self._service = service
        self._guard = guard
        self._offered = PROFILES[profile]
        self._calls: dict[str, Callable[[Arguments], Answer]] = {
            SEARCH.name: self._search,
            LOAD.name: self._load,
            SEARCH_SKILL.name: self._search_skill,
            LOAD_SKILL.name: self._load_skill,
        }

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return the tools that the profile offers, on one page."""
        with translated(context):
            Pages("tools", "").after(params)
        tools = list(self._offered)
        if context.protocol_version < STRUCTURED_SINCE:
            tools = [tool.model_copy(update={"title": None, "output_schema": None}) for tool in tools]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the result of a tool; for a mistake in its arguments, the result says what to send instead.

        An index that cannot be read gives a result too: a model sees results of tools, but not protocol errors.
        """
        note(tool=one_line(params.name))
        call = self._calls.get(params.name)
        if call is None:
            offered = ", ".join(tool.name for tool in self._offered)
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {one_line(params.name)!r}; use one of {offered}.")
        arguments = params.arguments or {}
        with translated(context):
            try:
                answer = await self._guard.in_thread(lambda: _attempt(call, arguments))
            except CatalogError as problem:
                logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
                note(error=types.INTERNAL_ERROR)
                return _failure(said_of(problem))
        if isinstance(answer, RequestError):
            note(mistake=str(answer))
            return _failure(str(answer))
        note_answer(answer)
        return _result(answer, structured=context.protocol_version >= STRUCTURED_SINCE)

    def _search(self, arguments: Arguments) -> Answer:
        usual = Mode.CATALOG if arguments.get("explain") else USUAL_MODE  # a list of URIs has no room for explanations
        return self._service.search(make_request(arguments, usual_mode=usual))

    def _load(self, arguments: Arguments) -> Answer:
        check_names(arguments, list(LOAD.input_schema["properties"]))
        if arguments.get("uris") is None:
            raise RequestError("The parameter 'uris' is missing: send a list of URIs, as `search` gives them.")
        uris = read_texts("uris", arguments.get("uris"))
        files, related = read_texts("files", arguments.get("files")), read_truth("related", arguments.get("related"))
        return self._service.load(uris, files=files, max_tokens=_budget(arguments), related=related)

    def _search_skill(self, arguments: Arguments) -> Answer:
        self._check_skills()
        check_names(arguments, [*SEARCH_SKILL.input_schema["properties"], "terms"])  # answers advise sending terms
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
        """Raise RequestError if a tool for skills is called but the library has none."""
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
    return types.CallToolResult(content=[text], structured_content=answer.content)
