"""A plugin that Datasette loads from the exported folder: links cells to pages, and shows texts of fragments whole.

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
PAGES = {
    "tag": ("tag", "tag"),
    "code": ("diagnostic", "code"),
    "field": ("front-matter-value", "field"),
    "word": ("search", "words"),
}
"""The page that a column of a stored query leads to, and which parameter takes the value."""

LINK = Markup('<a href="{}?{}={}">{}</a>')


@hookimpl  # type: ignore[untyped-decorator]
def render_cell(value: object, column: str, table: str | None, database: str, datasette: object) -> Markup | None:
    """Return the cell with links, None to leave it to Datasette."""
    if database != DATABASE or not isinstance(value, str):
        return None
    root = datasette.urls.path(f"/{DATABASE}")  # type: ignore[attr-defined]
    if table is None and column in PAGES:
        page, parameter = PAGES[column]
        return LINK.format(f"{root}/{page}", parameter, quote(value), value)
    if column not in LINKED and not (table is None and column == WHOLE):
        return None
    shown = [
        LINK.format(f"{root}/read", "fragment", quote(part), part) if URI.fullmatch(part) else escape(part)
        for part in URI.split(value)
    ]
    return Markup('<span style="white-space: pre-wrap">{}</span>').format(Markup("").join(shown))
