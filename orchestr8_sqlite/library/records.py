"""One decoded document → a `Fragment` or a `Prompt`, its metadata repaired or taken from the body."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.library.agent_skills import FORMAT_FIELDS, OWN_FIELDS, check_described, read_skill
from orchestr8_sqlite.library.arguments import read_template
from orchestr8_sqlite.library.client_folders import library_path
from orchestr8_sqlite.library.document import ParsedDocument
from orchestr8_sqlite.library.fallbacks import (
    first_paragraph,
    first_title,
    heading_tags,
    needs,
    section_bullets,
    sentences,
)
from orchestr8_sqlite.library.fields import json_values, read_list, read_number, read_plain, read_text
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.library.references import PLAIN_ID, RELATED_FIELDS, find_references
from orchestr8_sqlite.library.walk import FoundFile, Kind, plain_id
from orchestr8_sqlite.model.parameters import fold_tag, parse_category
from orchestr8_sqlite.model.records import Fragment, Prompt, SkillFile, SourceFile
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS
from orchestr8_sqlite.model.uris import Read, compose, fragment_uri, parse_uri
from orchestr8_sqlite.text.keywords import has_keywords
from orchestr8_sqlite.text.tokens import estimate_tokens

TOKEN_FACTOR = 2.0
"""Report an author's token estimate that is off by more than this factor."""

SHOWN_KEYS = frozenset({"title", "description", "tags", "capabilities", "useWhen"})
"""Fields that have columns or tables of their own; all others are kept as JSON."""


def read_fragment(
    found: FoundFile,
    document: ParsedDocument,
    source: SourceFile,
    skill_files: Sequence[SkillFile],
    nested_files: Sequence[SkillFile],
    notes: Notes,
    *,
    fallback_category: str | None,
    own: Mapping[str, str] = MappingProxyType({}),
) -> Fragment | None:
    """Return the fragment in *document*, or None and note an error if it must be left out.

    Args:
        skill_files: The files of a skill, SKILL.md first.
        nested_files: Files of the skills inside it, which belong to it too if it is offered over MCP.
        own: The library's own categories → the built-in category of each; the name becomes a tag.
    """
    written = read_text(document, "category", notes)
    own_name = next((name for name in own if written and _is_called(written, name)), "" if written else found.own)
    category = _category(found, document, written, own.get(own_name), notes, fallback_category)
    fragment_id = plain_id(found, category)
    if not _has_uri(fragment_id, notes):
        return None
    name = fragment_id.rpartition("/")[2]
    described = read_text(document, "description", notes)
    skill = None
    if found.kind is Kind.SKILL:
        if not check_described(document, described, notes):
            return None
        skill = read_skill(found, document, [*skill_files, *nested_files], notes)
    _check_id(document, name, notes)
    _check_names(document, notes)
    if not document.body.text:
        notes.warn("empty-body", "there is no text below the front matter", "write the text or remove the file", line=1)
    title = _title(document, name, notes)
    description = described or first_paragraph(document.body) or ""
    related = [(item, document.line_of(key) or 1) for key in RELATED_FIELDS for item in read_list(document, key, notes)]
    author_tokens = read_number(document, "estimatedTokens", notes)
    token_estimate = estimate_tokens(document.body.text)
    _check_tokens(document, author_tokens, token_estimate, notes)
    return Fragment(
        id=fragment_id,
        category=category,
        name=name,
        title=title,
        description=description,
        version=read_text(document, "version", notes),
        tags=_tags(document, title, own_name, notes),
        capabilities=read_list(document, "capabilities", notes)
        or section_bullets(document.body, "capabilities", "core capabilities"),
        use_when=_scenarios(document, described, description, notes),
        author_tokens=author_tokens,
        token_estimate=token_estimate,
        metadata=json_values(document, SHOWN_KEYS),
        body=document.body.text,
        references=find_references(fragment_id, found.path, document, related),
        source=source,
        skill_files=tuple([*skill_files, *nested_files] if skill else [one for one in skill_files if one.sha256]),
        skill=skill,
    )


def _check_names(document: ParsedDocument, notes: Notes) -> None:
    """Note fields that only case, `-`, `_` or a final s tell from one that is read."""
    known = {_folded(name): name for name in (*OWN_FIELDS, *FORMAT_FIELDS)}
    for name in document.fields:
        meant = known.get(_folded(name), name)
        if meant != name:
            what = f"{shown(name)} is not read; {meant} is"
            notes.warn("field-name", what, f"write {meant}", line=document.line_of(name), field=name)


def _folded(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").removesuffix("s")


def _title(document: ParsedDocument, stem: str, notes: Notes) -> str:
    """Return the title: `title`, a level-1 heading that opens the document, `name`, another level-1 heading, or *stem*.

    Lower headings name only parts of the document.
    """
    heading = first_title(document.body)
    if title := read_text(document, "title", notes):
        return title
    if heading and (heading.opens or "name" not in document.fields):
        return heading.text
    if named := read_plain(document, "name"):
        return _words(named)
    return heading.text if heading else _words(stem)


def _is_called(written: str, own: str) -> bool:
    """Tell whether the category *written* names the library's *own* category, in singular or plural."""
    return written.casefold().removesuffix("s") == own.casefold().removesuffix("s")


def _tags(document: ParsedDocument, title: str, own: str, notes: Notes) -> tuple[str, ...]:
    """Return the tags of the front matter, or else of the title and text, plus the library's *own* category."""
    tags = [*(read_list(document, "tags", notes) or heading_tags(title, document.body)), own]
    return tuple(dict.fromkeys(folded for tag in tags if (folded := fold_tag(tag))))


def _scenarios(document: ParsedDocument, described: str | None, first_words: str, notes: Notes) -> tuple[str, ...]:
    """Return the scenarios of the front matter, else of a "When to use" section, else sentences.

    The sentences come from the description or, without one, from needs named in the first paragraph.
    """
    written = _reachable(read_list(document, "useWhen", notes), document, notes)
    bullets = written or section_bullets(document.body, "when to use", "use when")
    return bullets or (sentences(described) if described else needs(first_words))


def read_prompt(found: FoundFile, document: ParsedDocument, source: SourceFile, notes: Notes) -> Prompt:
    """Return the prompt in *document*."""
    path = library_path(found.path)
    stem = compose(path.rpartition("/")[2].removesuffix(".md"))
    name = read_text(document, "name", notes) or stem
    name = f"{found.namespace}.{name}" if found.namespace else name
    folders = path.split("/")[1:-1]
    category = "workflow"
    if folders and folders[0] in CATEGORY_FOLDERS.values():
        category = parse_category(folders[0])
    template = read_template(document, notes)
    return Prompt(
        name=name,
        title=_title(document, stem, notes),
        description=read_text(document, "description", notes) or first_paragraph(document.body) or "",
        version=read_text(document, "version", notes),
        category=category,
        arguments=tuple(template.arguments),
        metadata=json_values(document, SHOWN_KEYS | {"name"}),
        body=template.text,
        token_estimate=estimate_tokens(template.text),
        source=source,
    )


def _has_uri(fragment_id: str, notes: Notes) -> bool:
    """Tell whether a URI can name the fragment; note an error if it cannot, or if it would mean a search or list."""
    if PLAIN_ID.fullmatch(fragment_id):
        return True
    with suppress(RequestError):
        if parse_uri(fragment_uri(fragment_id)) == Read(fragment_id):
            return True
    notes.error("file-name", f"{fragment_id!r} cannot be read by a URI; the file is left out", "rename it")
    return False


def _category(
    found: FoundFile,
    document: ParsedDocument,
    written: str | None,
    named: str | None,
    notes: Notes,
    fallback: str | None,
) -> str:
    """Return the category of a file.

    Args:
        written: The category in its front matter.
        named: The built-in category of *written*, if that is one of the library's own.
        fallback: Category of a file that names none and lies in no category folder.
    """
    if written is not None and named is None:
        with suppress(RequestError):
            named = parse_category(written)
    in_layout = found.category is not None and found.id.startswith(f"{CATEGORY_FOLDERS[found.category]}/")
    if found.category is not None and in_layout:
        if written is not None and named != found.category:
            notes.warn(
                "category-mismatch",
                f"category is {shown(written)}, the folder says {found.category!r}; the folder counts",
                "make them agree",
                line=document.line_of("category"),
                field="category",
            )
        return found.category
    if written is not None and named is None:
        notes.inform(
            "unknown-category",
            f"{shown(written)} is not a category of this index; kept in the metadata",
            f"use one of {', '.join(CATEGORY_FOLDERS)}, or name it in orchestr8.toml",
            line=document.line_of("category"),
            field="category",
        )
    return named or fallback or found.category or _suggested_category(document)


def _suggested_category(document: ParsedDocument) -> str:
    """Return `agent` if the keys are those of a subagent file, `skill` if those of a skill, else `guide`."""
    keys = document.fields.keys()
    if "name" in keys and keys & {"tools", "model"}:
        return "agent"
    return "skill" if {"name", "description"} <= keys else "guide"


def _reachable(scenarios: Sequence[str], document: ParsedDocument, notes: Notes) -> tuple[str, ...]:
    """Return the scenarios that hold a keyword; note the others, which no search could find."""
    reachable = []
    for text in scenarios:
        if has_keywords(text):
            reachable.append(text)
        else:
            notes.warn(
                "unreachable-scenario",
                f"{shown(text)} holds no word to search for; left out",
                "name the need in words",
                line=document.line_of("useWhen"),
                field="useWhen",
            )
    return tuple(reachable)


def _check_id(document: ParsedDocument, name: str, notes: Notes) -> None:
    written = read_text(document, "id", notes)
    if written is not None and written.rpartition("/")[2] != name:
        notes.warn(
            "id-mismatch",
            f"id is {shown(written)}, the file is named {name!r}; the file name counts",
            "make them agree",
            line=document.line_of("id"),
            field="id",
        )


def _check_tokens(document: ParsedDocument, author: int | None, estimate: int, notes: Notes) -> None:
    if author is not None and not 1 / TOKEN_FACTOR <= (author or 1) / max(estimate, 1) <= TOKEN_FACTOR:
        notes.warn(
            "token-estimate",
            f"estimatedTokens is {author:,}, the text has about {estimate:,}",
            f"write {round(estimate, -1):,} or remove the field".replace(",", ""),
            line=document.line_of("estimatedTokens"),
            field="estimatedTokens",
        )


def _words(name: str) -> str:
    """Return the name of a file or skill as words; one with capitals or spaces is already written for readers."""
    if " " in name or name != name.casefold():
        return name.replace("_", " ").strip() or name
    return name.replace("-", " ").replace("_", " ").strip().capitalize() or name
