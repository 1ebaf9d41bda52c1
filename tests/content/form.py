"""The form that documents of the shipped library have, beyond what any library must have."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import frontmatter

from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS
from orchestr8_sqlite.text.tokens import estimate_tokens

SCENARIOS, TAGS, CAPABILITIES, LINKS = (4, 12), (3, 8), (3, 6), (2, 5)
TOKENS = (300, 1500)
TOKEN_TOLERANCE = 10
"""`estimatedTokens` is the project's own estimate, rounded to tens."""

LINK = re.compile(r"orchestr8://(?P<id>(?:" + "|".join(CATEGORY_FOLDERS.values()) + r")/[a-z0-9][a-z0-9/-]*)(?!\S*\?)")
RELATED = re.compile(r"^## Related\n(?P<list>.*)\Z", re.MULTILINE | re.DOTALL)
GLUED = re.compile(r"^(?:- .*[.:;)`]- [`*A-Z]|1\. .*[.:;)] 2\. )|(?<=[^\n`]\n)#{2,3} ", re.MULTILINE)
"""A list item in the line of the one before, or a heading right under a paragraph."""
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
TYPOGRAPHY = re.compile("[\u2018\u2019\u201c\u201d\u2013\u2014\u00a0]")
"""Quotes, dashes and spaces that cost a token more than their plain spelling."""


def fragment_files(resources: Path) -> list[Path]:
    """Return the files of all fragments of a library: one a document, the SKILL.md of each Agent Skill."""
    files = []
    for folder in CATEGORY_FOLDERS.values():
        for path in sorted((resources / folder).rglob("*.md")):
            inside = next((one for one in path.parents if (one / "SKILL.md").is_file()), None)
            if inside is None or path == inside / "SKILL.md":
                files.append(path)
    return files


def fragment_id(resources: Path, path: Path) -> str:
    """Return the id of the fragment in *path*: the path below the library without suffix."""
    return path.relative_to(resources).as_posix().removesuffix("/SKILL.md").removesuffix(".md")


def read_fields(path: Path) -> tuple[dict[str, Any], str]:
    """Return the front matter of a document, lists of an Agent Skill's metadata among it, and its body."""
    post = frontmatter.load(str(path))
    fields: dict[str, Any] = dict(post.metadata)
    if path.name == "SKILL.md":
        written = fields.get("metadata", {})
        fields |= {key: _lines(written.get(key, "")) for key in ("useWhen", "capabilities")}
        fields["tags"] = [tag.strip() for tag in written.get("tags", "").split(",") if tag.strip()]
    return fields, post.content


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def form_problems(resources: Path, path: Path) -> Iterator[str]:
    """Yield where a fragment departs from the form: sizes of lists, length, its own links."""
    fields, body = read_fields(path)
    own = fragment_id(resources, path)
    for name, (least, most) in (("useWhen", SCENARIOS), ("tags", TAGS), ("capabilities", CAPABILITIES)):
        values = fields.get(name) or []
        if not least <= len(values) <= most or not all(isinstance(value, str) for value in values):
            yield f"{own}: {name} has {len(values)} texts, wanted are {least} to {most}"
    tokens = estimate_tokens(body)
    if not TOKENS[0] <= tokens <= TOKENS[1]:
        yield f"{own}: the body has about {tokens} tokens, wanted are {TOKENS[0]} to {TOKENS[1]}"
    if path.name != "SKILL.md":
        if abs((fields.get("estimatedTokens") or 0) - tokens) > TOKEN_TOLERANCE:
            yield f"{own}: estimatedTokens is {fields.get('estimatedTokens')}, the text has about {tokens}"
        if fields.get("id") != path.stem:
            yield f"{own}: id is {fields.get('id')!r}"
    if found := sorted(set(TYPOGRAPHY.findall(path.read_text(encoding="utf-8")))):
        yield f"{own}: characters that have a plain spelling: {' '.join(found)}"
    for match in GLUED.finditer(CODE.sub("", body)):
        yield f"{own}: an item or heading stands right after other text: {match[0][-40:]}"
    yield from _link_problems(own, fields, body)


def _link_problems(own: str, fields: Mapping[str, Any], body: str) -> Iterator[str]:
    section = RELATED.search(body)
    listed = {match["id"] for match in LINK.finditer(section["list"])} if section else set()
    related = {str(one).removeprefix("orchestr8://") for one in fields.get("relatedResources") or []}
    if related and related != listed:
        yield f"{own}: relatedResources and the section Related differ in {', '.join(sorted(related ^ listed))}"
    if not LINKS[0] <= len(listed) <= LINKS[1]:
        yield f"{own}: {len(listed)} links under Related, wanted are {LINKS[0]} to {LINKS[1]}"
    if own in listed:
        yield f"{own}: links to itself"


def links_of(path: Path) -> set[str]:
    """Return the ids of all fragments that a document names, in its body and its metadata."""
    return {match["id"] for match in LINK.finditer(path.read_text(encoding="utf-8"))}


def shared_scenarios(scenarios: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield scenarios that more than one fragment has, letter case, order and small words aside."""
    owners: dict[frozenset[str], list[str]] = {}
    for owner, texts in scenarios.items():
        for text in texts:
            owners.setdefault(frozenset(re.findall(r"[a-z0-9]+", text.lower())), []).append(f"{owner} ({text})")
    return (" and ".join(found) for found in owners.values() if len(found) > 1)


def counts(ids: Iterable[str]) -> Counter[str]:
    """Return how many fragments each category folder has."""
    return Counter(id_.partition("/")[0] for id_ in ids)
