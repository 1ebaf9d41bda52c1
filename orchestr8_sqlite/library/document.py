"""Bytes → text → front matter and body, with the line of every field.

python-frontmatter finds the end of the front matter.
"""

import codecs
from dataclasses import dataclass, field

import yaml
from frontmatter.default_handlers import YAMLHandler

from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.yaml_text import load_repairing, node_line
from orchestr8_sqlite.text.markdown import Body

HANDLER = YAMLHandler()


BREAKS = str.maketrans(dict.fromkeys("\x85\u2028\u2029", " "))
"""Line breaks in YAML 1.1 but not in editors; replaced so that diagnostics give the line numbers of editors."""

MAX_FRONT_MATTER = 65_536
MAX_NESTING = 5_000
NESTING = ("[", "{", "- ", "? ")
"""Text that opens a YAML level; the C parser overruns its stack somewhere between 20,000 and 200,000 levels."""


@dataclass(frozen=True)
class ParsedDocument:
    """A parsed Markdown file.

    `fields` maps each front-matter key to its YAML node (with marks), `values` to its Python value; `mapping` is the
    node that holds all fields. `body_line` is the line of the file on which `body` starts.
    """

    body: Body
    body_line: int
    has_front_matter: bool
    fields: dict[str, yaml.Node] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    yaml_text: str = ""
    mapping: yaml.MappingNode | None = None

    def line_of(self, name: str) -> int | None:
        """Return the line of the field *name* in the file, or None if the field is missing."""
        node = self.fields.get(name)
        return None if node is None else node_line(node)


def decode(content: bytes, notes: Notes) -> str | None:
    """Return the text of *content* with LF line ends, or None and note an error if the encoding is not supported.

    Supported are UTF-8 with or without a byte order mark, and UTF-16 with one.
    """
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if wide else "utf-8"
    try:
        text = content.decode(encoding) if wide else content.removeprefix(codecs.BOM_UTF8).decode(encoding)
    except UnicodeDecodeError as problem:
        read = problem.object  # without the byte order mark of UTF-8
        line = read[: problem.start].count(b"\n") + 1
        what = f"byte 0x{read[problem.start]:02x} is not {encoding.upper()}"
        notes.error("encoding", what, "save the file as UTF-8", line=line)
        return None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        notes.error("encoding", "the file holds NUL characters, so it is not text", "save the file as UTF-8", line=line)
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def parse_document(text: str, notes: Notes) -> ParsedDocument | None:
    """Return the parsed *text*, or None and note an error if its front matter cannot be read."""
    start = len(text) - len(text.lstrip())
    if not HANDLER.detect(text[start:]):
        return _without_front_matter(text)
    try:
        front, body = HANDLER.split(text[start:])
    except ValueError:
        notes.warn(
            "unclosed-front-matter",
            "the file opens with --- but no second --- follows",
            "close the front matter with a line ---",
            line=text[:start].count("\n") + 1,
        )
        return _without_front_matter(text)
    body_line = text.count("\n", 0, len(text) - len(body)) + 1 + _leading_lines(body)
    if len(front) > MAX_FRONT_MATTER or sum(map(front.count, NESTING)) > MAX_NESTING:
        notes.error(
            "front-matter-size",
            f"the front matter has {len(front):,} characters or too many lists to be read safely; the file is left out",
            f"keep it below {MAX_FRONT_MATTER:,} characters; move the rest into the text",
            line=1,
        )
        return None
    if front:
        front = "\n" * text.count("\n", 0, text.index(front, start)) + front.translate(BREAKS)
    return _with_front_matter(front, body.strip(), body_line, text, notes)


def _with_front_matter(front: str, body: str, body_line: int, text: str, notes: Notes) -> ParsedDocument | None:
    parsed = load_repairing(front, notes)
    if parsed is None:
        return None
    node, values, front = parsed
    if node is None:
        return ParsedDocument(Body(body), body_line, has_front_matter=True)
    if not isinstance(node, yaml.MappingNode) or not isinstance(values, dict):
        notes.warn(
            "front-matter-no-mapping",
            "the lines between --- and --- are not a list of fields; read as part of the text",
            "write 'name: value' lines between them, or use another rule than ---",
            line=1,
        )
        return _without_front_matter(text)
    fields = _fields(node, notes)
    return ParsedDocument(Body(body), body_line, True, fields, {str(k): v for k, v in values.items()}, front, node)


def _without_front_matter(text: str) -> ParsedDocument:
    return ParsedDocument(Body(text.strip()), 1 + _leading_lines(text), has_front_matter=False)


def _leading_lines(text: str) -> int:
    return text[: len(text) - len(text.lstrip())].count("\n")


def _fields(node: yaml.MappingNode, notes: Notes) -> dict[str, yaml.Node]:
    fields: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = str(key.value)
        if name in fields:
            notes.warn(
                "duplicate-field",
                f"{name} is given twice; the last one counts",
                "remove one",
                line=node_line(key),
                field=name,
            )
        fields[name] = value
    return fields
