"""Agent Skills as the tools return them: found by name, with the files beside their SKILL.md."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orchestr8_sqlite.answers.documents import Document
from orchestr8_sqlite.answers.mediatypes import as_text
from orchestr8_sqlite.answers.render import render
from orchestr8_sqlite.answers.skill_files import MAIN_FILE, fragment_of, is_skill_uri
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog, FragmentRow
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.model.parameters import storable
from orchestr8_sqlite.model.requests import LookupResult
from orchestr8_sqlite.model.uris import Read, fragment_uri, parse_uri
from orchestr8_sqlite.text.tokens import compact_json, fits
from orchestr8_sqlite.text.wording import SUGGESTIONS, counted, nearest, one_line

ALL_FILES = "*"
DESCRIPTION_LENGTH = 160
NAME_LENGTH = 200
LISTED_FILES = 40

SKILLS_NAMED = gathered(
    """
SELECT f.path, f.name <> :name, f.uri FROM skill_file b CROSS JOIN fragment f ON f.id = b.fragment_id
 WHERE b.path = 'SKILL.md' AND (f.name = :name OR json_extract(f.metadata, '$.name') = :name)
 ORDER BY f.name <> :name, f.uri
""",
    order=[2, 3],
)
SKILL_NAMES = gathered(
    """
SELECT f.name FROM skill_file b CROSS JOIN fragment f ON f.id = b.fragment_id WHERE b.path = 'SKILL.md' ORDER BY f.name
""",
    order=[1],
)
DESCRIPTIONS = "SELECT id, description FROM fragment WHERE id IN (SELECT value FROM json_each(:ids))"
FILES = "SELECT path, size FROM skill_file WHERE fragment_id = :id AND path <> 'SKILL.md' ORDER BY path"
CONTENT = "SELECT content FROM skill_file WHERE fragment_id = :id AND path = :path"
FILE_BELOW = """
SELECT b.content FROM json_each(:splits) s JOIN fragment f ON f.path = json_extract(s.value, '$[0]')
  JOIN skill_file b ON b.fragment_id = f.id AND b.path = json_extract(s.value, '$[1]')
"""


class SkillBundle(NamedTuple):
    """A skill and its other files, each (path, size in bytes), in alphabetical order."""

    skill: FragmentRow
    path: str
    files: tuple[tuple[str, int], ...]

    def uri(self, file: str) -> str:
        """Return the URI of a bundled file."""
        return fragment_uri(f"{self.path}/{file}")


def find_bundle(catalog: Catalog, name: str) -> SkillBundle:
    """Return the skill with the given *name*, which may also be a URI of either scheme.

    Raises:
        UnknownResource: There is no such skill; the message names the nearest.
        RequestError: Several skills have the name; the message lists their URIs.
    """
    if is_skill_uri(name):
        path = fragment_of(catalog, name)
        paths = [] if path is None else [path]
    elif "://" in name:
        target = parse_uri(name)
        paths = [target.id] if isinstance(target, Read) else []
    else:
        paths = [row[0] for row in catalog.rows(SKILLS_NAMED, {"name": storable(name).strip()})]
    if len(paths) > 1:
        uris = ", ".join(fragment_uri(path) for path in paths[:SUGGESTIONS])
        raise RequestError(f"{len(paths)} skills are named {one_line(name)!r}; give the URI of one: {uris}.")
    bundle = _bundle(catalog, paths[0]) if paths else None
    if bundle is None:
        names = [row[0] for row in catalog.rows(SKILL_NAMES)]
        alike = nearest(name.strip().casefold(), names)
        hint = f"Nearest: {', '.join(map(one_line, alike))}." if alike else "Find one with `search_skill`."
        raise UnknownResource(f"There is no skill {one_line(name)!r}. {hint}")
    return bundle


def bundle_at(catalog: Catalog, uri: str) -> SkillBundle | None:
    """Return the Agent Skill at *uri*; None if there is no fragment or it is not a skill.

    Raises:
        RequestError: The URI is not acceptable.
    """
    target = None if is_skill_uri(uri) else parse_uri(uri)
    return _bundle(catalog, target.id) if isinstance(target, Read) else None


def _bundle(catalog: Catalog, path: str) -> SkillBundle | None:
    skill = catalog.fragment(path)
    if skill is None or not catalog.rows(CONTENT, {"id": skill.id, "path": MAIN_FILE}):
        return None
    files = catalog.rows(FILES, {"id": skill.id})
    return SkillBundle(skill, path, tuple((file, size) for file, size in files))


def documents_of(catalog: Catalog, bundle: SkillBundle, wanted: Sequence[str]) -> list[Document]:
    """Return a skill's instructions with the list of its other files, then the *wanted* files in alphabetical order.

    SKILL.md contains the instructions, so it is always included. The list gives a binary file's URI.

    Raises:
        RequestError: The skill has no file at a wanted path; the message names the nearest.
    """
    known = [path for path, _ in bundle.files]
    wanted = [path for path in wanted if path != MAIN_FILE]
    for path in wanted:
        if path not in known and path != ALL_FILES:
            alike = nearest(path, known) or known[:SUGGESTIONS]
            hint = f"Nearest: {', '.join(map(one_line, alike))}." if alike else "It has none but SKILL.md."
            raise RequestError(f"The skill {bundle.skill.name!r} has no file {one_line(path)!r}. {hint}")
    chosen = known if ALL_FILES in wanted else sorted(set(wanted))
    texts = {path: as_text(catalog.rows(CONTENT, {"id": bundle.skill.id, "path": path})[0][0]) for path in chosen}
    documents = [Document(bundle.skill.uri, catalog.body(bundle.skill.id), _list_of(bundle, texts))]
    return documents + [Document(bundle.uri(path), text) for path, text in texts.items() if text is not None]


def file_below(catalog: Catalog, path: str) -> bytes | None:
    """Return the bundled file at *path* (a skill's id and the file's path in it), or None."""
    parts = path.split("/")
    splits = [("/".join(parts[:cut]), "/".join(parts[cut:])) for cut in range(2, len(parts))]
    rows = catalog.rows(FILE_BELOW, {"splits": json.dumps(splits, ensure_ascii=False)})
    return bytes(rows[0][0]) if rows else None


def list_skills(catalog: Catalog, result: LookupResult) -> tuple[str, dict[str, Any]]:
    """Return the skills of an answer, best first, as Markdown and as JSON: name, URI, description."""
    if not result.candidates or not result.confident:
        note = render(result, catalog.body).text
        return note, {"skills": [], "note": note}
    ids = json.dumps([candidate.fragment_id for candidate in result.candidates])
    descriptions: Mapping[int, str] = dict(catalog.rows(DESCRIPTIONS, {"ids": ids}))
    entries = [
        {"uri": c.uri, "name": c.name, "does": one_line(descriptions[c.fragment_id], DESCRIPTION_LENGTH)}
        for c in result.candidates
    ]
    names = Counter(entry["name"] for entry in entries)
    shown = [entry["name"] if names[entry["name"]] == 1 else entry["uri"] for entry in entries]
    for count in range(len(entries), 0, -1):
        lines = [
            f"{n}. {one_line(shown[n - 1], NAME_LENGTH)}: {entry['does']}"
            for n, entry in enumerate(entries[:count], start=1)
        ]
        text = "\n".join([f"# Skills: {count} of {result.total:,}, best first", *lines, "To load: tool `load_skill`."])
        content = {"total": result.total, "skills": entries[:count]}
        if fits(text, result.request.max_tokens) and fits(compact_json(content), result.request.max_tokens):
            break
    return text, content


def _list_of(bundle: SkillBundle, shown: Mapping[str, str | None]) -> str:
    """Return the lines that name a skill's files that are not shown; empty if all are."""
    binary = [
        f"{one_line(path, 200)} is binary: read {bundle.uri(path)}" for path, text in shown.items() if text is None
    ]
    others = [(path, size) for path, size in bundle.files if path not in shown]
    listed = "; ".join(f"{one_line(path, 200)} ({counted(size, 'byte')})" for path, size in others[:LISTED_FILES])
    more = f"; and {len(others) - LISTED_FILES:,} more" if len(others) > LISTED_FILES else ""
    lines = binary + ([f"Files of this skill, for `files`: {listed}{more}"] if others else [])
    return "\n\n".join(lines)
