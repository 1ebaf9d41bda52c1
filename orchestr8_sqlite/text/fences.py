"""Puts library texts between two fence lines that they cannot contain, so that none of their lines passes for ours.

    ~~~~
    the text, whatever it contains
    ~~~~

A line of the text that would close the fence is indented, which Markdown reads as code.
"""

import re

FENCE = "~~~~"

FENCE_TOKENS = 6
"""Upper bound of the tokens of two fence lines and their line feeds."""

BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
INDENT = "    "


def fenced(text: str) -> str:
    """Return *text* between two fence lines."""
    return f"{FENCE}\n{_held(text)}\n{FENCE}"


def holds_fence(text: str) -> bool:
    """Tell whether a line of *text* looks like our fence."""
    return _held(text) != text


def _held(text: str) -> str:
    if FENCE not in text:
        return text
    return re.sub(rf"(?<![^{BREAKS}])(?=[^\S{BREAKS}]*~{{4,}}[^\S{BREAKS}]*(?:[{BREAKS}]|\Z))", INDENT, text)
