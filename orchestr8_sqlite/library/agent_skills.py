"""Checks a SKILL.md against the Agent Skills format, and so decides which skills may be offered over MCP.

The verdict agrees with `skills-ref validate`, the format's reference validator: a skill that it accepts gets no
warning, and one that it rejects always gets a diagnostic. Two differences are intended. This module warns about demands
of the format that the validator does not check (a text in `license`, a map of texts in `metadata`, a name that YAML
reads as a number). It only informs if the validator rejects something that the format allows (YAML's [a, b] style) or
that this program reads (`tags`).

Source: https://agentskills.io/specification; skills-ref 0.1.1.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from orchestr8_sqlite.library.document import ParsedDocument
from orchestr8_sqlite.library.notes import Notes, shown
from orchestr8_sqlite.library.references import RELATED_FIELDS
from orchestr8_sqlite.library.verbatim import NotJson, verbatim_fields
from orchestr8_sqlite.library.walk import SKILL_FILE, FoundFile
from orchestr8_sqlite.library.yaml_text import TEXT_TAG, first_styled_line
from orchestr8_sqlite.model.records import Skill, SkillFile
from orchestr8_sqlite.model.uris import compose
from orchestr8_sqlite.text.normal_forms import normalize
from orchestr8_sqlite.text.wording import counted

FORMAT_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
OWN_FIELDS = frozenset(
    {"id", "title", "category", "tags", "capabilities", "useWhen", "estimatedTokens", "version", "queries"}
    | {*RELATED_FIELDS}
)
"""Fields that this program reads; other readers of the format may still refuse them."""

NAME_LENGTH = 64
TEXTS = {"description": 1024, "compatibility": 500, "license": None, "allowed-tools": None}
"""Fields that must hold a text → its maximum length in characters."""

MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""Size of a skill that every client of the skills extension must accept. Source: SEP-2640, "Limits"."""

DATE_TAG = "tag:yaml.org,2002:timestamp"
SHARED_PATH = "skill-path"
KEPT = "; the skill stays searchable, but is not offered over MCP"


@dataclass
class _Faults:
    """Notes the reasons why a skill cannot be offered, and counts them."""

    document: ParsedDocument
    notes: Notes
    count: int = 0

    def add(self, code: str, message: str, fix: str, *, field: str | None = None, fault: bool = True) -> None:
        """Note a reason: as a warning, or as information if the skill is valid and only its URI cannot be formed."""
        line = (self.document.line_of(field) if field else None) or 1
        note = self.notes.warn if fault else self.notes.inform
        note(code, message + KEPT, fix, line=line, field=field)
        self.count += 1


def check_described(document: ParsedDocument, description: str | None, notes: Notes) -> bool:
    """Tell whether a skill has a description; one without it must be left out, and an error is noted."""
    if description is not None:
        return True
    missing = f"a {SKILL_FILE} without description cannot be offered; the skill is left out"
    if not document.has_front_matter:
        missing = f"a {SKILL_FILE} must begin with front matter between --- lines; the skill is left out"
    notes.error(
        "skill-description",
        missing,
        "say in 'description' what it does and when to use it",
        line=document.line_of("description") or 1,
        field="description",
    )
    return False


def read_skill(found: FoundFile, document: ParsedDocument, files: Sequence[SkillFile], notes: Notes) -> Skill | None:
    """Return the skill to offer over MCP, or None with a note of the reason if it cannot be offered.

    Args:
        files: All files of the skill, SKILL.md first, including those of nested skills.
    """
    faults = _Faults(document, notes)
    _check_beginning(files[0].content, faults)
    _check_name(compose((found.skill or found.skill_path).rpartition("/")[2]), faults)
    _check_texts(faults)
    _check_metadata(faults)
    _check_files(files, faults)
    frontmatter = _frontmatter(faults)
    _inform(document, notes)
    return None if faults.count or frontmatter is None else Skill(found.skill_path, frontmatter)


class Offered(NamedTuple):
    """A skill that conforms: its path in `skill://` URIs, the number of its root, and its file."""

    path: str
    order: int
    root: str
    file: str


def settle_skill_paths(offered: Iterable[Offered]) -> Iterator[tuple[Offered, Notes]]:
    """Yield each skill that cannot be offered beside the others, with a warning: its path or folder overlaps theirs.

    A skill's path holds its own folder and nothing else, so its list of files is complete. The skill of the first root
    wins; within one root, the one nearest the top.
    """
    taken: dict[str, Offered] = {}
    above: dict[str, Offered] = {}
    for skill in sorted(offered, key=lambda one: (one.order, one.path, one.file.split("/"))):
        path, prefixes = skill.path, _prefixes(skill.path)
        around = next((taken[prefix] for prefix in prefixes if prefix in taken), None)
        other = taken.get(path) or above.get(path) or around
        if other is not None and (other is not around or not _holds(around, skill)):
            notes = Notes(skill.root, skill.file)
            what = f"its path {path!r} is, holds or lies in that of {other.root}/{other.file}"
            notes.warn(SHARED_PATH, what + KEPT, "rename one of the folders", line=1)
            yield skill, notes
            continue
        taken[path] = skill
        above.update(dict.fromkeys(prefixes, skill))


def _prefixes(path: str) -> list[str]:
    """Return the paths above *path*, the nearest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def _holds(outer: Offered, inner: Offered) -> bool:
    """Tell whether the folder of the skill *inner* lies in that of *outer*."""
    return inner.root == outer.root and inner.file.startswith(outer.file.removesuffix(SKILL_FILE))


def _check_beginning(content: bytes, faults: _Faults) -> None:
    """Note a SKILL.md whose front matter other readers miss; a UTF-8 byte order mark does not keep it from MCP."""
    if content.startswith(codecs.BOM_UTF8):
        faults.notes.warn(
            "skill-beginning",
            f"the {SKILL_FILE} begins with a byte order mark, behind which some readers miss the front matter",
            "save it as UTF-8 without byte order mark",
            line=1,
        )
    elif not content.startswith(b"---"):
        what = f"the {SKILL_FILE} is not UTF-8 or has something before the first ---"
        faults.add("skill-beginning", what, "save it as UTF-8 with --- as its first line")


def _check_name(folder: str, faults: _Faults) -> None:
    written = _text(faults.document, "name")
    if written is None or not written.strip():
        what = "the skill has no name, or one that YAML does not read as text"
        faults.add("skill-name", what, f"write 'name: {folder}', in quotes if need be", field="name")
        return
    wrong = list(_name_faults(written, folder))
    if wrong:
        what = f"name {shown(written)} {'; it '.join(wrong)}"
        faults.add("skill-name", what, "rename the skill or its folder so that both agree", field="name")
    elif written != folder:
        what = f"name {shown(written)} and folder {shown(folder)} agree, but not letter for letter"
        faults.add("skill-name", what, "write both alike, without spaces around them", field="name", fault=False)
    elif not written.isascii():
        what = f"name {shown(written)} has letters besides a-z, which clients refuse though the validator does not"
        faults.add("skill-name", what, "write it with a-z, 0-9 and hyphens", field="name", fault=False)


def _name_faults(written: str, folder: str) -> Iterable[str]:
    name = normalize("NFKC", written.strip())
    if len(name) > NAME_LENGTH:
        yield f"has {len(name)} characters, at most {NAME_LENGTH} are allowed"
    if name != name.lower():
        yield "must be lower-case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield "must not begin or end with a hyphen, nor hold two in a row"
    if not all(character.isalnum() or character == "-" for character in name):
        yield "must hold letters, digits and hyphens only"
    if name != normalize("NFKC", folder):
        yield f"must equal its folder's name {shown(folder)}"


def _check_texts(faults: _Faults) -> None:
    """Note texts that are too long, and fields that must hold a text but do not."""
    for name, longest in TEXTS.items():
        if name not in faults.document.fields:
            continue
        text = _text(faults.document, name)
        if text is None:
            fix = "write one text (several tools with spaces between them), or remove the field"
            faults.add(f"skill-{name}", f"{name} is not a text", fix, field=name)
        elif longest is not None and not 1 <= len(text) <= longest:
            what = f"{name} has {len(text):,} characters, the format allows 1 to {longest:,}"
            faults.add(f"skill-{name}", what, "shorten it; move the rest into the text below", field=name)


def _check_metadata(faults: _Faults) -> None:
    node = faults.document.fields.get("metadata")
    if node is None:
        return
    fix = "write 'key: \"value\"' lines below it"
    if not isinstance(node, yaml.MappingNode):
        faults.add("skill-metadata", "metadata is not a map of texts", fix, field="metadata")
        return
    wrong = [str(key.value) for key, value in node.value if not _is_text(value)]
    if wrong:
        what = f"metadata must be a map of texts; not a text: {', '.join(map(shown, wrong))}"
        faults.add("skill-metadata", what, "put numbers, dates and true or false in quotes", field="metadata")


def _check_files(files: Sequence[SkillFile], faults: _Faults) -> None:
    size = sum(file.source.size for file in files)
    if len(files) > MAX_FILES or size > MAX_BYTES:
        found = f"{counted(len(files), 'file')} of {size:,} bytes"
        what = f"the skill has {found}, {MAX_FILES} of {MAX_BYTES:,} are allowed"
        faults.add("skill-limits", what, "move what an agent does not read out of the skill's folder")
    odd = next((file.path for file in files if "\\" in file.path), None)
    if odd is not None:
        faults.add("skill-file-name", f"no URI can name {shown(odd)} for its back slash", "rename the file")


def _frontmatter(faults: _Faults) -> dict[str, object] | None:
    """Return the verbatim front matter, or None and note a warning if other readers would read it differently."""
    code, fix = "skill-front-matter", "correct the front matter"
    if any(note.code == "yaml-repaired" for note in faults.notes.diagnostics):
        faults.add(code, "the front matter is not YAML and was read only by repairing it", fix)
    elif faults.document.mapping is not None:
        try:
            return verbatim_fields(faults.document.mapping)
        except NotJson as problem:
            faults.add(code, f"the front matter {problem}", fix)
    return None


def _inform(document: ParsedDocument, notes: Notes) -> None:
    """Note fields that the format does not define, and YAML styles that its validator does not read."""
    fix = "put it below 'metadata' if other programs must read the skill too"
    own = [name for name in document.fields if name in OWN_FIELDS]
    if own:
        what = f"{', '.join(own)}: read here, but not part of the Agent Skills format"
        notes.inform("skill-field", what, fix, line=document.line_of(own[0]), field=own[0])
    foreign = [name for name in document.fields if name not in FORMAT_FIELDS | OWN_FIELDS]
    if foreign:
        what = f"{', '.join(map(shown, foreign))}: not part of the Agent Skills format"
        notes.warn("skill-field", what, fix, line=document.line_of(foreign[0]), field=foreign[0])
    styled = first_styled_line(document.yaml_text)
    if styled is not None:
        what = "[a, b], {a: b}, &anchors and !tags are not read by the format's own validator"
        notes.inform("skill-yaml", what, "write one '- item' or 'key: value' line for each", line=styled)


def _is_text(node: yaml.Node) -> bool:
    """Tell whether *node* is a text; a date counts as one, as in YAML 1.2."""
    return isinstance(node, yaml.ScalarNode) and node.tag in (TEXT_TAG, DATE_TAG)


def _text(document: ParsedDocument, name: str) -> str | None:
    """Return the field *name* exactly as YAML reads it, or None if it is missing or not a text."""
    node = document.fields.get(name)
    return str(node.value) if node is not None and _is_text(node) else None
