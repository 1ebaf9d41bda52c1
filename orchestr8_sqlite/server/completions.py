"""Completions of what a person has typed into an argument of a prompt or a URI template."""

import re

import mcp_types as types

from orchestr8_sqlite.answers.completion import Completion, complete_argument, complete_parameter
from orchestr8_sqlite.answers.prompts import find_prompt
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import parse_category
from orchestr8_sqlite.model.requests import CATEGORIES, SCHEME
from orchestr8_sqlite.server.guard import Context, Guard, note
from orchestr8_sqlite.server.resources import templates
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.text.wording import one_line

EXPRESSION = re.compile(r"\{[+?]?([\w,]+)\}")


class Completions:
    """The handler of `completion/complete`."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Return at most 100 values, most likely first, and the total number."""
        note(argument=one_line(params.argument.name))
        found = await self._guard.run(context, lambda: self._found(self._service.catalog, params))
        more = found.total > len(found.values)
        return types.CompleteResult(
            completion=types.Completion(values=list(found.values), total=found.total, has_more=more)
        )

    def _found(self, catalog: Catalog, params: types.CompleteRequestParams) -> Completion:
        name, value = params.argument.name, params.argument.value
        if isinstance(params.ref, types.PromptReference):
            _check(name, [argument.name for argument in find_prompt(catalog, params.ref.name).arguments])
            return complete_argument(catalog, params.ref.name, name, value)
        known = {template.uri_template: template for template in templates(catalog)}
        if params.ref.uri not in known:
            raise RequestError(
                f"There is no template {one_line(params.ref.uri, 200)!r}; call resources/templates/list."
            )
        _check(name, ",".join(EXPRESSION.findall(params.ref.uri)).split(","))
        chosen = (params.context.arguments or {}) if params.context else {}
        return complete_parameter(catalog, name, value, category=_category(params.ref.uri, chosen.get("category")))


def _category(template: str, chosen: str | None) -> str | None:
    """Return the category that a template searches or the client has chosen, or None for all."""
    folder = template.removeprefix(f"{SCHEME}://").partition("/")[0]
    if folder in CATEGORIES:
        return CATEGORIES[folder]
    return parse_category(chosen) if chosen else None


def _check(name: str, known: list[str]) -> None:
    if name not in known:
        raise RequestError(f"There is no argument {one_line(name)!r}; known arguments: {', '.join(known) or 'none'}.")
