"""Pointers from one document to others: URIs, related lists and sections, links, `→ Fragment:` lines."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.library.document import Document
from orchestr8_sqlite.library.markdown import Body
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.model import CATEGORIES, CATEGORY_FOLDERS, SCHEME, Diagnostic, Fragment, Reference
from orchestr8_sqlite.parameters import parse_category

URI = re.compile(rf"@?{SCHEME}://[^\s\"'`<>()\[\]{{}}|*$…]*")
AFTER_PLACEHOLDER = "[{<$*…"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s#?:]+\.md)(?:#[^)]*)?\)")
CODE_NAME = re.compile(r"`(?P<name>[\w./-]+?)(?:\.md)?`")
FRAGMENT_LINE = re.compile(r"\*\*→\s*Fragment:?\*\*(?P<rest>.*)")
FRAGMENT_NAME = re.compile(r"[`\s](?P<name>[\w./-]+)\.md\b")
RELATED = ("related", "see also", "relatedresources")
RELATED_FIELDS = ("relatedResources", "relatedSkills", "relatedAgents", "relatedPatterns", "relatedExamples")


def find_references(
    fragment_id: str, path: str, document: Document, related: Iterable[tuple[str, int]]
) -> tuple[Reference, ...]:
    """Return what the document points to, each target once, in the order of appearance.

    Args:
        related: The items of its related lists, each with its line.
    """
    found = [Reference(target, "related", line) for name, line in related if (target := _target(name))]
    body = document.body
    in_text = [*_uris(body), *_links(body, path), *_fragment_lines(body), *_related_sections(body)]
    for position, target, kind in sorted(in_text):
        found.append(Reference(target, kind, document.body_line + body.line_at(position)))
    unique = {reference.target: reference for reference in reversed(found) if reference.target != fragment_id}
    return tuple(reversed(unique.values()))


def resolve_references(fragments: Iterable[Fragment]) -> tuple[list[Fragment], list[Diagnostic]]:
    """Return the fragments with targets as ids of the library, and a diagnostic for each dangling one.

    A target may be a full id or a bare name that only one fragment has. Targets that only appear
    inside code are examples: they are kept where they resolve and dropped where they do not.
    """
    fragments = list(fragments)
    ids = {fragment.id for fragment in fragments}
    names: dict[str, set[str]] = defaultdict(set)
    for fragment in fragments:
        names[fragment.name].add(fragment.id)
    resolved, diagnostics = [], []
    for fragment in fragments:
        notes = Notes(fragment.source.root, fragment.source.path)
        references = tuple(_resolve(fragment, ids, names, notes))
        resolved.append(replace(fragment, references=references))
        diagnostics += notes.diagnostics
    return resolved, diagnostics


def _resolve(fragment: Fragment, ids: set[str], names: dict[str, set[str]], notes: Notes) -> Iterator[Reference]:
    seen = {fragment.id}
    for reference in fragment.references:
        target = reference.target
        same_name = names.get(target.rpartition("/")[2], set())
        if target not in ids and len(same_name) == 1:
            target = next(iter(same_name))
        if target in seen or (reference.kind == "code" and target not in ids):
            continue
        if target not in ids:
            notes.warn(
                "dangling-reference",
                f"points to {target}, which the library does not have",
                "correct the reference or remove it",
                line=reference.line,
            )
        seen.add(target)
        yield replace(reference, target=target)


def _uris(body: Body) -> Iterator[tuple[int, str, str]]:
    """Yield (position, target, kind) of each URI of a fragment."""
    for match in URI.finditer(body.text) if f"{SCHEME}://" in body.text else ():
        if body.text[match.end() : match.end() + 1] in set(AFTER_PLACEHOLDER):
            continue
        if target := _target(match[0].rstrip(".,;:!?&=")):
            yield match.start(), target, "code" if body.is_code(match.start()) else "uri"


def _links(body: Body, path: str) -> Iterator[tuple[int, str, str]]:
    for match in LINK.finditer(body.text) if "](" in body.text else ():
        below = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(match["target"])))
        if not below.startswith("..") and not body.is_code(match.start()):
            yield match.start(), _path_target(below), "link"


def _fragment_lines(body: Body) -> Iterator[tuple[int, str, str]]:
    for line in FRAGMENT_LINE.finditer(body.text) if "→" in body.text else ():
        for match in FRAGMENT_NAME.finditer(line["rest"]):
            yield line.start(), _path_target(match["name"]), "fragment"


def _related_sections(body: Body) -> Iterator[tuple[int, str, str]]:
    """Yield what the bullets of "Related" sections name in back quotes."""
    for section in body.sections(*RELATED):
        for bullet in body.bullets(section):
            name = CODE_NAME.match(bullet["text"].lstrip("*"))
            if name and ("/" in name["name"] or "-" in name["name"]) and (target := _target(name["name"])):
                yield bullet.start(), target, "related"


def _target(name: str) -> str | None:
    """Return the fragment id that a URI, path or bare name means; None for searches and lists."""
    rest = name.strip().removeprefix("@")
    is_uri = rest.startswith(f"{SCHEME}://")
    rest = rest.removeprefix(f"{SCHEME}://")
    if not rest or "?" in rest or any(character in rest for character in AFTER_PLACEHOLDER + " "):
        return None
    target = _path_target(rest.strip("/"))
    if is_uri and (target in CATEGORIES or target.rpartition("/")[2] in ("match", "registry", "")):
        return None
    return target


def _path_target(path: str) -> str:
    parts = [part for part in path.removesuffix(".md").split("/") if part not in ("", ".", "_fragments", "resources")]
    if len(parts) > 1:
        with suppress(RequestError):
            parts[0] = CATEGORY_FOLDERS[parse_category(parts[0])]
    return "/".join(parts)
