"""Texts of others between two lines that they cannot contain, so that nothing in them passes for a line of ours.

    ~~~~
    the text, whatever it holds
    ~~~~

A line of the text that would close the fence is indented, which Markdown takes for code.
"""

import re

FENCE = "~~~~"

FENCE_TOKENS = 6
"""Tokens of two fences and their line feeds, at most."""

BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
INDENT = "    "


def fenced(text: str) -> str:
    """Return *text* in its fence."""
    return f"{FENCE}\n{_held(text)}\n{FENCE}"


def holds_fence(text: str) -> bool:
    """Tell whether a line of *text* looks like a fence of ours."""
    return _held(text) != text


def _held(text: str) -> str:
    if FENCE not in text:
        return text
    return re.sub(rf"(?<![^{BREAKS}])(?=[^\S{BREAKS}]*~{{4,}}[^\S{BREAKS}]*(?:[{BREAKS}]|\Z))", INDENT, text)
