"""Prompts: the library's templates, listed in pages and filled with arguments."""

from typing import TYPE_CHECKING

import mcp_types as types

from orchestr8_sqlite.server.guard import Context, Guard, note
from orchestr8_sqlite.server.paging import PAGE_SIZE, Pages
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.text.tokens import estimate_tokens
from orchestr8_sqlite.text.wording import one_line

if TYPE_CHECKING:
    from orchestr8_sqlite.answers.prompts import PromptRow

VERSION_KEY = "orchestr8/version"
"""Key in `_meta` for the version that the author gave a prompt."""

TITLE_LENGTH = 200
DESCRIPTION_LENGTH = 1_000


class Prompts:
    """The handlers of `prompts/…`."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard

    async def list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Return a page of prompts by name."""

        def page() -> types.ListPromptsResult:
            from orchestr8_sqlite.answers.prompts import list_prompts  # noqa: PLC0415 - few clients list prompts

            catalog = self._service.catalog
            pages = Pages("prompts", catalog.generation)
            rows = list_prompts(catalog, after=pages.after(params) or "", limit=PAGE_SIZE + 1)
            prompts = [_prompt(row) for row in rows[:PAGE_SIZE]]
            return types.ListPromptsResult(prompts=prompts, next_cursor=pages.next_cursor([row.name for row in rows]))

        return await self._guard.run(context, page)

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in."""
        note(prompt=one_line(params.name))
        row, text = await self._guard.run(context, lambda: self._service.prompt(params.name, params.arguments or {}))
        note(tokens=estimate_tokens(text))
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(
            description=one_line(row.description or row.title, DESCRIPTION_LENGTH), messages=[message]
        )


def _prompt(row: "PromptRow") -> types.Prompt:
    return types.Prompt(
        name=row.name,
        title=one_line(row.title, TITLE_LENGTH),
        description=one_line(row.description, DESCRIPTION_LENGTH) or None,
        arguments=[
            types.PromptArgument(
                name=a.name, description=one_line(a.description, DESCRIPTION_LENGTH) or None, required=a.required
            )
            for a in row.arguments
        ],
        _meta={VERSION_KEY: row.version} if row.version else None,
    )
