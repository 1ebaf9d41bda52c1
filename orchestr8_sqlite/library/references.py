"""Pointers from one document to others: URIs, related lists and sections, links, `→ Fragment:` lines."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Protocol
from urllib.parse import unquote

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.library.document import ParsedDocument
from orchestr8_sqlite.model.records import Reference
from orchestr8_sqlite.model.requests import CATEGORIES, SCHEME
from orchestr8_sqlite.model.uris import Read, compose, parse_uri
from orchestr8_sqlite.text.markdown import Body

URI = re.compile(rf"{SCHEME}://[^\s\"'`<>()\[\]{{}}|*$…]*")
PLACEHOLDER = frozenset("[{<$*…")
LINK = re.compile(
    r"\[(?<!!\[)[^\[\]]{0,500}+\]\((?P<target>[^)\s#?:]{1,500}\.md)(?:#[^)\s]{0,500}+)?(?:\s{1,9}[\"'][^)]{0,500}+)?\)"
)
"""A Markdown link; its parts have bounded length, so matching never takes quadratic time."""

PLAIN_ID = re.compile(rf"(?:{'|'.join(CATEGORIES)})(?!/(?i:match)$)(?:/(?!_fragments\b)[A-Za-z0-9_-]{{1,200}}){{1,9}}")
"""Ids that appear unchanged as the path of their URI."""

CODE_NAME = re.compile(r"`(?P<name>[\w./-]+?)(?:\.md)?`")
FRAGMENT_LINE = re.compile(r"\*\*→\s*Fragment:?\*\*(?P<rest>.*)")
FRAGMENT_NAME = re.compile(r"[`\s](?P<name>[\w./-]+)\.md\b")
RELATED = ("related", "see also", "relatedresources")
RELATED_FIELDS = ("relatedResources", "relatedSkills", "relatedAgents", "relatedPatterns", "relatedExamples")

Pointer = tuple[int, str, str]
"""(position in the body, target, kind). A target is an id or name, or a link's path below the root without .md."""


def find_references(
    fragment_id: str, path: str, document: ParsedDocument, related: Iterable[tuple[str, int]]
) -> tuple[Reference, ...]:
    """Return the references of the document, each target once, those in *related* first, then in order of appearance.

    Args:
        related: The items of its related lists, each with its line.
    """
    found = [Reference(target, "related", line) for name, line in related if (target := _target(name))]
    body = document.body
    pointers = sorted([*_uris(body), *_links(body, path), *_fragment_lines(body), *_related_sections(body)])
    found += [Reference(target, kind, document.body_line + body.line_at(at)) for at, target, kind in pointers]
    unique: dict[tuple[str, bool], Reference] = {}
    for reference in found:
        if reference.kind == "link" or reference.target != fragment_id:
            unique.setdefault((reference.target, reference.kind == "link"), reference)
    return tuple(unique.values())


class Documents(Protocol):
    """A lookup of a library's fragments by id or file."""

    def whole_id(self, written: str) -> str | None:
        """Return the id of the fragment that an id in the root names, or None."""

    def id_of_file(self, root: str, path: str) -> str | None:
        """Return the id of the fragment in this file, or None."""


def _uris(body: Body) -> Iterator[Pointer]:
    end = 0
    while (start := body.text.find(f"{SCHEME}://", end)) >= 0:
        match = URI.match(body.text, start)
        assert match is not None
        end = match.end()
        if body.text[end : end + 1] in PLACEHOLDER:
            continue
        if target := _target(match[0].rstrip(".,;:!?&=")):
            yield start, target, "code" if body.is_code(start) else "uri"


def _links(body: Body, path: str) -> Iterator[Pointer]:
    for match in LINK.finditer(body.text) if ".md" in body.text else ():
        below = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(match["target"])))
        if not below.startswith("..") and not body.is_code(match.start()):
            yield match.start(), below.removesuffix(".md"), "link"


def _fragment_lines(body: Body) -> Iterator[Pointer]:
    for line in FRAGMENT_LINE.finditer(body.text) if "**→" in body.text else ():
        for match in FRAGMENT_NAME.finditer(line["rest"]):
            kind = "code" if body.is_code(line.start()) else "fragment"
            yield line.start(), match["name"].removeprefix("./"), kind


def _related_sections(body: Body) -> Iterator[Pointer]:
    """Yield the names in back quotes that open the bullets of "Related" sections."""
    for section in body.sections(*RELATED):
        for bullet in body.bullets(section):
            name = CODE_NAME.match(bullet["text"].lstrip("*"))
            if name and ("/" in name["name"] or "-" in name["name"]) and (target := _target(name["name"])):
                yield bullet.start(), target, "related"


@lru_cache(maxsize=4096)
def _target(written: str) -> str | None:
    """Return the id or bare name that a URI, path or name refers to; None for searches, lists and placeholders."""
    written = compose(written.strip())
    if not written or not PLACEHOLDER.isdisjoint(written):
        return None
    path = written.removesuffix(".md")
    if PLAIN_ID.fullmatch(path.removeprefix(f"{SCHEME}://")):
        return path.removeprefix(f"{SCHEME}://")
    if "://" not in written:
        if "/" not in path or path.partition("/")[0] not in CATEGORIES:
            return path.rpartition("/")[2] or None
        path = f"{SCHEME}://{path}"
    try:
        asked = parse_uri(path)
    except RequestError:
        return path.partition("://")[2] or None
    return asked.id if isinstance(asked, Read) else None
