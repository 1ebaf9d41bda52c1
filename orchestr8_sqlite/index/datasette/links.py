"""A plugin that Datasette loads from the exported folder: links URIs to the fragments, and shows their texts whole.

This program never imports it: it is copied, and Datasette provides what it imports.
"""

import re
from urllib.parse import quote

from datasette import hookimpl
from markupsafe import Markup, escape

DATABASE = "library"
LINKED = {"uri", "uris", "from_uri", "to_uri", "links", "fragment"}
WHOLE = "text"
"""The column of the stored query `read`; Datasette shortens other long cells."""

URI = re.compile(r"(orchestr8://[\w./%+~-]*\w)")


@hookimpl  # type: ignore[untyped-decorator]
def render_cell(value: object, column: str, table: str | None, database: str, datasette: object) -> Markup | None:
    """Return the cell with its URIs as links, None to leave it to Datasette."""
    is_whole = table is None and column == WHOLE
    if database != DATABASE or not isinstance(value, str) or not (is_whole or column in LINKED):
        return None
    read = datasette.urls.path(f"/{DATABASE}/read")  # type: ignore[attr-defined]
    parts = URI.split(value)
    link = Markup('<a href="{}?fragment={}">{}</a>')
    shown = [link.format(read, quote(part), part) if URI.fullmatch(part) else escape(part) for part in parts]
    return Markup('<span style="white-space: pre-wrap">{}</span>').format(Markup("").join(shown))
