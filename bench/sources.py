"""Reads the documents of a real library, from which a corpus grows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import frontmatter
import yaml

CATEGORIES = ("agents", "skills", "examples", "patterns", "guides", "workflows", "best-practices")
PROMPTS = ("prompts", "commands")
SKILL = "SKILL.md"


@dataclass(frozen=True, slots=True)
class Document:
    """The searchable fields of a document; `tokens` is an estimate for the body."""

    path: str
    title: str
    description: str
    tags: tuple[str, ...]
    capabilities: tuple[str, ...]
    scenarios: tuple[str, ...]
    tokens: int

    @property
    def name(self) -> str:
        """Return the name of the file without its suffix, or of the folder of an Agent Skill."""
        place = Path(self.path)
        return place.parent.name if place.name == SKILL else place.stem

    @property
    def category(self) -> str:
        """Return the category's folder, in the plural."""
        return self.path.partition("/")[0]

    def as_json(self) -> Mapping[str, object]:
        """Return the fields by name."""
        return {"name": self.name, "category": self.category, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the library: its front matter, its body, and its bytes."""

    document: Document
    body: str = field(repr=False)
    content: bytes = field(repr=False)


class EmptyLibrary(Exception):
    """A folder contains nothing to grow a corpus from."""


def read_sources(library: Path) -> list[Source]:
    """Return the fragments in *library* by path, without prompts and bundled files of skills.

    Raises:
        EmptyLibrary: There are none.
    """
    skills = {path.parent for path in library.rglob(SKILL)}
    sources = []
    for path in sorted(library.rglob("*.md")):
        below = path.relative_to(library)
        bundled = path.name != SKILL and any(parent in skills for parent in path.parents)
        if below.parts[0] not in PROMPTS and not bundled and (source := _read_source(path, below)):
            sources.append(source)
    if not sources:
        raise EmptyLibrary(f"{library} holds no Markdown file with front matter; name the folder of a library.")
    return sources


def _read_source(path: Path, below: Path) -> Source | None:
    content = path.read_bytes()
    try:
        metadata, body = frontmatter.parse(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, yaml.YAMLError):
        return None
    place = below if below.parts[0] in CATEGORIES else Path("skills", below)
    document = Document(
        path=place.as_posix(),
        title=str(metadata.get("title") or metadata.get("name") or path.stem),
        description=str(metadata.get("description") or ""),
        tags=_texts(metadata.get("tags")),
        capabilities=_texts(metadata.get("capabilities")),
        scenarios=_texts(metadata.get("useWhen")),
        tokens=len(body) // 4,
    )
    return Source(document, body, content) if metadata else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else ()
