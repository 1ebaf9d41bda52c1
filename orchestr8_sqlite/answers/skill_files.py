"""Agent Skills as a client of the skills extension sees them: entries, folders and files at `skill://` URIs.

    skill://acme/refunds/SKILL.md    the skill acme/refunds, and the text of its SKILL.md
    skill://acme/refunds/scripts     a folder of the skill; skill://acme is a folder too
    skill://acme/refunds/a%20b.py    any other file

Names are percent-encoded as RFC 3986 requires, accepted in any equivalent spelling, and decoded exactly once.

Source: SEP-2640, stable specification of io.modelcontextprotocol/skills.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from orchestr8_sqlite.answers.mediatypes import DIRECTORY, as_text, media_type, served_type
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import PINNED, Catalog, escape_like
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.model.parameters import storable
from orchestr8_sqlite.model.uris import MAX_URI_LENGTH, PATH_SAFE, decode_segments, fragment_uri
from orchestr8_sqlite.text.wording import nearest

SCHEME = "skill"
MAIN_FILE = "SKILL.md"
ACCEPTED = re.compile(rf"(?:@(?:[\w.:-]+:)?)?{SCHEME}://(?P<path>.*)", re.IGNORECASE | re.DOTALL)
AUTHORITY_SAFE = PATH_SAFE.translate({ord(character): None for character in "/:@"})
"""The first segment is where other URIs have a host; there `:` would begin a port and `@` end a user name."""

MOST_COMPARED = 2000

SKILLS_AFTER = gathered(
    """
WITH listed AS MATERIALIZED (
     SELECT k.fragment_id, k.path, row_number() OVER (
            ORDER BY p.key IS NULL, p.key, o.location <> '',
                     (SELECT count(DISTINCT r.fragment_id) FROM reference r
                       WHERE r.target_id = k.fragment_id AND r.fragment_id <> k.fragment_id) DESC,
                     k.path) AS place
       FROM skill k
       JOIN fragment f ON f.id = k.fragment_id
       JOIN source s ON s.id = f.source_id
       JOIN root o ON o.name = s.root
       LEFT JOIN json_each(:pinned) p ON p.value = k.path)
SELECT l.place, l.fragment_id, l.path, k.frontmatter FROM listed l JOIN skill k ON k.fragment_id = l.fragment_id
 WHERE l.place > coalesce((SELECT place FROM listed WHERE path = :after), 0) ORDER BY l.place LIMIT :limit
""",
    Step("skill", "SELECT fragment_id, path, frontmatter FROM skill"),
    Step("fragment", "SELECT id, source_id FROM fragment WHERE id IN (SELECT fragment_id FROM skill)"),
    Step(
        "reference",
        "SELECT DISTINCT fragment_id, target_id FROM reference WHERE target_id IN (SELECT fragment_id FROM skill)",
    ),
)
"""Skills in the order of a listing: pinned ones as orchestr8.toml has them, then those of the library's own folders
before those of fetched sources, then those that most other fragments refer to, then by path."""

SKILL_COUNT = gathered(
    "SELECT count(*) FROM skill",
    added=0,
)
SKILL_BY_PATH = "SELECT fragment_id, path, frontmatter FROM skill WHERE path = :path"
FRAGMENT_AT = "SELECT f.path FROM skill s JOIN fragment f ON f.id = s.fragment_id WHERE s.path = :path"
MANIFEST = "SELECT path, sha256, size FROM skill_file WHERE fragment_id = :id ORDER BY path"
INNERMOST_SKILL = gathered(
    """
SELECT fragment_id, path, frontmatter FROM skill WHERE path IN (SELECT value FROM json_each(:paths))
 ORDER BY length(path) DESC LIMIT 1
""",
    order=[-2],
)
FILES_BELOW = """
SELECT path, size FROM skill_file WHERE fragment_id = :id AND path > :low AND path < :high ORDER BY path
"""
FOLDERS_BELOW = gathered(
    """
SELECT DISTINCT substr(path, length(:low) + 1, instr(substr(path, length(:low) + 1) || '/', '/') - 1) FROM skill
 WHERE path > :low AND path < :high
""",
    added=1,
)
FILE = "SELECT content FROM skill_file WHERE fragment_id = :id AND path = :path"
PATHS_NAMED = gathered(
    "SELECT path FROM skill WHERE path = :name OR path LIKE :pattern ESCAPE '\\' ORDER BY path LIMIT :limit",
    order=[1],
)
ALL_PATHS = gathered(
    "SELECT path FROM skill ORDER BY path LIMIT :limit",
    order=[1],
)


class SkillResource(NamedTuple):
    """One file of a skill: `digest` is `sha256:` with 64 hex digits, `size` in bytes, both of the raw content."""

    uri: str
    digest: str
    size: int


class SkillEntry(NamedTuple):
    """A skill with its verbatim front matter and all its files."""

    uri: str
    path: str
    frontmatter: Mapping[str, Any]
    resources: tuple[SkillResource, ...]

    @property
    def main_file(self) -> "DirectoryEntry":
        """Return its SKILL.md as a resource."""
        size = next(one.size for one in self.resources if one.uri == self.uri)
        name, description = self.frontmatter["name"], self.frontmatter["description"]
        return DirectoryEntry(self.uri, MAIN_FILE, name, media_type(MAIN_FILE), size, description)


class DirectoryEntry(NamedTuple):
    """A direct child of a folder: a file with its size in bytes, or a folder without size.

    `segment` is the last segment of the URI, decoded; listings are sorted by it. `name` is the same, except that a
    SKILL.md has the name and description of its skill. `mime_type` is None if the file's name does not tell.
    """

    uri: str
    segment: str
    name: str
    mime_type: str | None
    size: int | None = None
    description: str | None = None


class SkillContent(NamedTuple):
    """The raw bytes of a file; `text` is the same as text, or None for a binary file."""

    uri: str
    mime_type: str
    content: bytes
    text: str | None


def is_skill_uri(text: str) -> bool:
    """Tell whether *text* is a skill URI; the skill need not exist."""
    return ACCEPTED.fullmatch(text.strip()) is not None


def skill_uri(path: str) -> str:
    """Return the URI of the skill, folder or file at *path*, valid by RFC 3986 for any name."""
    first, slash, rest = path.partition("/")
    return f"{SCHEME}://{quote(first, safe=AUTHORITY_SAFE)}{slash}{quote(rest, safe=PATH_SAFE)}"


def parse_skill_uri(text: str) -> str:
    """Return the path that the URI *text* names.

    Raises:
        RequestError: It is not a skill URI, or a part of it is not acceptable.
    """
    if len(text) > MAX_URI_LENGTH:
        raise RequestError(f"The URI has {len(text):,} characters, at most {MAX_URI_LENGTH:,} are read.")
    accepted = ACCEPTED.fullmatch(text.strip())
    if accepted is None:
        raise RequestError(f"Not a skill URI: send {SCHEME}://<path>/{MAIN_FILE}.")
    if "?" in accepted["path"] or "#" in accepted["path"]:
        raise RequestError("A skill URI has no query and no fragment; write %3F and %23 for the signs themselves.")
    return "/".join(decode_segments(storable(accepted["path"])))


def list_skills(catalog: Catalog, *, after: str = "", limit: int = 100) -> Iterator[tuple[int, SkillEntry]]:
    """Yield up to *limit* skills with their places, from 1, in the order of a listing.

    The files of a skill are read when it is asked for.

    Args:
        after: The path of the skill before the first one; if no skill has it, the listing begins at its start.
    """
    parameters = {"pinned": catalog.meta.get(PINNED, "[]"), "after": after, "limit": limit}
    for place, id_, path, frontmatter in catalog.rows(SKILLS_AFTER, parameters):
        yield place, _entry(catalog, id_, path, frontmatter)


def count_skills(catalog: Catalog) -> int:
    """Return how many skills are served."""
    return int(catalog.rows(SKILL_COUNT)[0][0])


def get_skill(catalog: Catalog, uri: str) -> SkillEntry:
    """Return the skill whose SKILL.md is at *uri*.

    Raises:
        RequestError: The URI is not acceptable.
        UnknownResource: No skill is served there; the message names the nearest.
    """
    path = parse_skill_uri(uri)
    folder, _, name = path.rpartition("/")
    rows = catalog.rows(SKILL_BY_PATH, {"path": folder}) if name == MAIN_FILE else []
    if not rows:
        raise UnknownResource(f"No skill is served at {skill_uri(path)}.{_hint(catalog, path)}")
    return _entry(catalog, *rows[0])


def fragment_of(catalog: Catalog, uri: str) -> str | None:
    """Return the fragment id of the skill at *uri* (its SKILL.md or its folder), or None if there is none.

    Raises:
        RequestError: The URI is not acceptable.
    """
    folder = parse_skill_uri(uri).removesuffix(f"/{MAIN_FILE}")
    rows = catalog.rows(FRAGMENT_AT, {"path": folder})
    return str(rows[0][0]) if rows else None


def read_directory(catalog: Catalog, uri: str, *, after: str = "", limit: int = 100) -> list[DirectoryEntry]:
    """Return up to *limit* direct children of the folder at *uri* whose names sort after *after*, in name order.

    Raises:
        RequestError: The URI is not acceptable, or names a file.
        UnknownResource: There is no such folder; the message names the nearest skills.
    """
    path = parse_skill_uri(uri)
    skill = _skill_around(catalog, path)
    children = _folders_below(catalog, path) if skill is None else _children(catalog, path, *skill)
    if not children:
        if skill is not None and catalog.rows(FILE, {"id": skill[0], "path": _below(path, skill[1])}):
            raise RequestError(f"{skill_uri(path)} is a file, not a directory; read it with resources/read.")
        raise UnknownResource(f"No directory is served at {skill_uri(path)}.{_hint(catalog, path)}")
    return [children[name] for name in sorted(children) if name > after][:limit]


def read_skill_file(catalog: Catalog, uri: str) -> SkillContent:
    """Return the file at *uri*.

    Raises:
        RequestError: The URI is not acceptable, or names a directory.
        UnknownResource: No skill has that file; the message names the nearest skills.
    """
    path = parse_skill_uri(uri)
    skill = _skill_around(catalog, path)
    rows = catalog.rows(FILE, {"id": skill[0], "path": _below(path, skill[1])}) if skill else []
    if not rows:
        if _children(catalog, path, *skill) if skill else _folders_below(catalog, path):
            raise RequestError(f"{skill_uri(path)} is a directory; list it with resources/directory/read.")
        raise UnknownResource(f"No file of a skill is served at {skill_uri(path)}.{_hint(catalog, path)}")
    content: bytes = rows[0][0]
    text = as_text(content)
    return SkillContent(skill_uri(path), served_type(path, text), content, text)


def _entry(catalog: Catalog, id_: int, path: str, frontmatter: str) -> SkillEntry:
    base = skill_uri(path)
    resources = tuple(
        SkillResource(f"{base}/{quote(file, safe=PATH_SAFE)}", f"sha256:{digest}", size)
        for file, digest, size in catalog.rows(MANIFEST, {"id": id_})
    )
    return SkillEntry(f"{base}/{MAIN_FILE}", path, json.loads(frontmatter), resources)


def _skill_around(catalog: Catalog, path: str) -> tuple[int, str, str] | None:
    """Return (fragment, path, front matter) of the innermost skill at or above *path*, or None."""
    parts = path.split("/")
    paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    rows = catalog.rows(INNERMOST_SKILL, {"paths": json.dumps(paths)})
    return rows[0] if rows else None


def _children(catalog: Catalog, path: str, id_: int, skill: str, frontmatter: str) -> dict[str, DirectoryEntry]:
    """Return, by name, the files and folders directly below *path*, a folder of the skill at *skill*."""
    below = _below(path, skill)
    low, high = (f"{below}/", f"{below}0") if below else ("", "\U0010ffff")
    children: dict[str, DirectoryEntry] = {}
    for file, size in catalog.rows(FILES_BELOW, {"id": id_, "low": low, "high": high}):
        name, slash, _ = file[len(low) :].partition("/")
        uri = skill_uri(f"{path}/{name}")
        if slash:
            children[name] = DirectoryEntry(uri, name, name, DIRECTORY)
        else:
            children[name] = DirectoryEntry(uri, name, name, media_type(name), size)
    if not below:
        fields = json.loads(frontmatter)
        main = children[MAIN_FILE]._replace(name=fields["name"], description=fields["description"])
        children[MAIN_FILE] = main
    return children


def _folders_below(catalog: Catalog, path: str) -> dict[str, DirectoryEntry]:
    """Return, by name, the folders directly below *path*, which is above all skills."""
    rows = catalog.rows(FOLDERS_BELOW, {"low": f"{path}/", "high": f"{path}0"})
    return {name: DirectoryEntry(skill_uri(f"{path}/{name}"), name, name, DIRECTORY) for (name,) in rows}


def _below(path: str, folder: str) -> str:
    return path[len(folder) + 1 :]


def _hint(catalog: Catalog, path: str) -> str:
    """Return a hint for the unknown *path*: the skill around it, its fragment, or the nearest skills."""
    if skill := _skill_around(catalog, path):
        return f" Ask for the skill and its files with skills/get of {skill_uri(skill[1])}/{MAIN_FILE}."
    folder = path.removesuffix(f"/{MAIN_FILE}")
    if catalog.fragment(f"skills/{folder}"):
        return f" It is in the library, but no Agent Skill to offer; read {fragment_uri(f'skills/{folder}')} instead."
    name = folder.rpartition("/")[2]
    parameters = {"name": name, "pattern": f"%/{escape_like(name)}", "limit": MOST_COMPARED}
    paths = [row[0] for row in catalog.rows(PATHS_NAMED, parameters) or catalog.rows(ALL_PATHS, parameters)]
    uris = [f"{skill_uri(alike)}/{MAIN_FILE}" for alike in nearest(folder, paths)]
    return f" Nearest: {', '.join(uris)}." if uris else ""
