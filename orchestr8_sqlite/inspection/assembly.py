"""Makes the page: one HTML text with its style, its scripts and its data, which may load nothing from elsewhere.

A server serves the page without data; that page may ask the server for them, and nothing else.
"""

import base64
import hashlib
import re
from pathlib import Path

from orchestr8_sqlite.inspection.packing import pack

PAGE = Path(__file__).with_name("page")
MAIN = "main.js"
SLOT = re.compile(r"\{\{(\w+)\}\}")


def render_page(data: object) -> str:
    """Return the page that shows *data*, an `Inspection`, as HTML."""
    return _render("", base64.b64encode(pack(data)).decode("ascii"))


def render_served_page() -> str:
    """Return the page that asks the server it came from for its data and for live answers, as HTML."""
    return _render("; connect-src 'self'", "")


def _render(allowed: str, data: str) -> str:
    style, script = _read("style.css"), read_script()
    policy = f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'{allowed}"
    parts = {"policy": policy, "style": style, "script": script, "data": data}
    return SLOT.sub(lambda slot: parts[slot[1]], _read("template.html"))


def read_script() -> str:
    """Return the scripts of the page in one: the vendored ones, our own by name, and MAIN, which starts it."""
    vendored, own = sorted((PAGE / "vendor").glob("*.js")), sorted(PAGE.glob("*.js"), key=_order)
    return "\n".join(file.read_text(encoding="utf-8") for file in (*vendored, *own))


def _order(file: Path) -> tuple[bool, str]:
    return file.name == MAIN, file.name


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """Return what a content security policy calls an inline style or script with exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
