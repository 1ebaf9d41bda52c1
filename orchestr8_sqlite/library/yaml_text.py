"""YAML text → nodes with their lines, and their values.

PyYAML's composer keeps the lines. YAML that does not parse is repaired line by line if quoting a value is enough.
"""

import re
from collections.abc import Sequence

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from orchestr8_sqlite.library.notes import Notes, shown

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # pragma: no cover - depends on how PyYAML was built
    from yaml import SafeLoader  # type: ignore[assignment]

MAX_REPAIRS = 20
TEXT_TAG = "tag:yaml.org,2002:str"
LIST_TAG = "tag:yaml.org,2002:seq"
MERGE_TAG = "tag:yaml.org,2002:merge"
MERGE = "<<"
MAX_MERGED = 10_000
CONSTRUCTOR = SafeConstructor()
READERS = {
    "tag:yaml.org,2002:null": CONSTRUCTOR.construct_yaml_null,
    "tag:yaml.org,2002:bool": CONSTRUCTOR.construct_yaml_bool,
    "tag:yaml.org,2002:int": CONSTRUCTOR.construct_yaml_int,
    "tag:yaml.org,2002:float": CONSTRUCTOR.construct_yaml_float,
}
"""Tag → reader, for the scalars other than text that JSON can represent."""

KINDS = {"tag:yaml.org,2002:timestamp": "date", "tag:yaml.org,2002:int": "number", "tag:yaml.org,2002:float": "number"}
YAML_PROBLEMS = (yaml.YAMLError, ValueError, RecursionError)
ENTRY = re.compile(r"(?P<lead>\s*(?:- +)?(?:[\w.-]+: +|(?<=- )))(?P<value>\S(?:.*\S)?)\s*$")


HINT, QUOTE = "argument-hint", "'"
HINT_LINE = re.compile(rf"^(?P<lead>{HINT}:[ \t]+)(?P<value>\[.*\S)[ \t]*$", re.MULTILINE)
"""A field whose documented form, [one] [other], is not YAML, or is a list although a text is meant."""

LONGEST_WORD = len("false")
"""Length of the longest word that YAML does not read as text (true, no, null and the like)."""


class _Loader(SafeLoader):
    """Resolves a scalar as text at once if its first character and length leave no doubt."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a node without an explicit one."""
        if kind is yaml.ScalarNode and value:
            first = value[0]
            if not implicit[0] or (len(value) > LONGEST_WORD and first.isalpha()):
                return TEXT_TAG
            if first not in self.yaml_implicit_resolvers:
                return TEXT_TAG
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:
        """Do not track the path to the current node: no tag depends on it."""

    def ascend_resolver(self) -> None:
        """Do not track the path."""

    last: yaml.Node | None = None
    """The node whose value is being constructed."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.text = stream
        self.misread: list[tuple[int, str]] = []

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Return the value of a node; its source text if that only looks like a date or number."""
        self.last = node
        try:
            return super().construct_object(node, deep)
        except RecursionError:
            raise
        except Exception:  # PyYAML's constructors raise nearly anything
            if not isinstance(node, yaml.ScalarNode) or self.text[node.start_mark.index] == "!":
                raise
        self.misread.append((node_line(node), f"{shown(node.value)} is not a {KINDS.get(node.tag, 'valid value')}"))
        node.tag = TEXT_TAG
        self.recursive_objects.pop(node, None)
        self.constructed_objects[node] = node.value
        return node.value


def node_line(node: yaml.Node) -> int:
    """Return the line of the file on which *node* begins; the opening `---` is line 1."""
    return int(node.start_mark.line) + 1


def first_styled_line(text: str) -> int | None:
    """Return the first line of the YAML *text* with an [a, b] list, an {a: b} map, an &anchor or a !tag."""
    if not any(character in text for character in "[{&!"):
        return None
    for event in yaml.parse(text, Loader=SafeLoader):
        styled = getattr(event, "flow_style", False) or getattr(event, "tag", None) or getattr(event, "anchor", None)
        if styled and event.start_mark is not None:
            return int(event.start_mark.line) + 1
    return None


def load_repairing(front: str, notes: Notes) -> tuple[yaml.Node | None, object, str] | None:
    """Return (node, value, text) of the YAML text *front*, quoting values that do not parse; None if that fails."""
    repairs = Notes(notes.root, notes.path)
    if HINT in front:
        front = HINT_LINE.sub(lambda line: f"{line['lead']}'{line['value'].replace(QUOTE, QUOTE * 2)}'", front)
    while True:
        try:
            node, value, misread = _compose(front)
        except YAML_PROBLEMS as problem:
            line, text = _problem_line(problem), _problem_text(problem)
        else:
            for at, what in misread:
                repairs.warn("yaml-repaired", f"{what}; kept as text", "put the value in quotes", line=at)
            notes.diagnostics.extend(repairs.diagnostics)
            return node, value, front
        repair = None if line is None or len(repairs.diagnostics) == MAX_REPAIRS else _repair(front, line)
        if repair is None:
            notes.error(
                "yaml",
                f"the front matter is not YAML: {text}",
                "correct the line; quote values that hold ': ', '#', '@' or brackets",
                line=None if line is None else line + 1,
            )
            return None
        begin, repaired = repair
        found = front.split("\n")[begin].strip()
        repairs.warn(
            "yaml-repaired",
            f"{text}; read as quoted text: {shown(found)}",
            "put the value in quotes",
            line=begin + 1,
            field=found.partition(":")[0] if not found.startswith("- ") else None,
        )
        front = repaired


def _repair(front: str, line: int) -> tuple[int, str] | None:
    """Return the line of a value whose quoting removes the problem on *line* or moves it down, and the new text."""
    for start in range(line, max(line - MAX_REPAIRS, -1), -1):
        quoted = _quote(front, start)
        if quoted is None:
            continue
        try:
            _compose(quoted)
        except YAML_PROBLEMS as problem:
            next_line = _problem_line(problem)
            if next_line is None or next_line <= line:
                continue
        return start, quoted
    return None


def _compose(front: str) -> tuple[yaml.Node | None, object, Sequence[tuple[int, str]]]:
    """Return the node and value of YAML text, and (line, message) for each malformed value that was kept as text."""
    loader = _Loader(front)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, None, ()
        if MERGE in front:
            _check_merged(node)
        values = _plain_values(node)
        return node, _construct(loader, node) if values is None else values, loader.misread
    finally:
        loader.dispose()


def _construct(loader: _Loader, node: yaml.Node) -> object:
    """Return the value of a document.

    Raises:
        YAMLError: A value does not match its tag or form; PyYAML's constructors raise nearly anything then.
    """
    try:
        return loader.construct_document(node)
    except (yaml.YAMLError, RecursionError):
        raise
    except Exception as problem:
        last = loader.last or node
        kind = last.tag.rpartition(":")[2]
        what = (
            f"{shown(last.value)} is not a valid {kind}"
            if isinstance(last.value, str)
            else f"this is not a valid {kind}"
        )
        raise ConstructorError(None, None, what, last.start_mark) from problem


def _check_merged(root: yaml.Node) -> None:
    """Raise ValueError if merge keys unfold a mapping to more than MAX_MERGED fields.

    Other aliases share one value and cost nothing.
    """
    counts: dict[int, int] = {}

    def count(node: yaml.Node) -> int:
        """Return the number of fields of a mapping, or of the mappings in a list, after unfolding."""
        if id(node) not in counts:
            fields = 0
            for item in () if isinstance(node, yaml.ScalarNode) else node.value:
                if not isinstance(node, yaml.MappingNode):
                    fields += count(item)
                    continue
                key, value = item
                inside = count(value)
                fields += inside if key.tag == MERGE_TAG else 1
            if fields > MAX_MERGED:
                raise ValueError(f"merge keys ({MERGE}) unfold to more than {MAX_MERGED:,} fields")
            counts[id(node)] = fields
        return counts[id(node)]

    count(root)


def _plain_values(node: yaml.Node) -> dict[str, object] | None:
    """Return the values of a mapping of texts, numbers and lists of them, which most front matter is.

    None means that *node* is something else or cannot be read; PyYAML's constructor, half as fast, then takes over.
    """
    if not isinstance(node, yaml.MappingNode):
        return None
    values: dict[str, object] = {}
    try:
        for key, value in node.value:
            if key.tag != TEXT_TAG or type(key) is not yaml.ScalarNode:
                return None
            if value.tag == LIST_TAG and type(value) is yaml.SequenceNode:
                values[key.value] = [_plain_scalar(item) for item in value.value]
            else:
                values[key.value] = _plain_scalar(value)
    except (LookupError, ValueError):
        return None
    return values


def _plain_scalar(node: yaml.Node) -> object:
    """Return the value of a text or number.

    Raises:
        LookupError, ValueError: It is neither.
    """
    if type(node) is not yaml.ScalarNode:
        raise KeyError(node.tag)
    return node.value if node.tag == TEXT_TAG else READERS[node.tag](node)


def _problem_line(problem: Exception) -> int | None:
    mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
    return None if mark is None else int(mark.line)


def _problem_text(problem: Exception) -> str:
    return str(getattr(problem, "problem", None) or str(problem).partition("\n")[0] or type(problem).__name__)


def _quote(front: str, start: int) -> str | None:
    """Return *front* with the value that begins on line *start* in single quotes, or None if none begins there.

    A value continues over following lines that are blank or indented deeper than its key.
    """
    lines = front.expandtabs(2).split("\n")
    entry = ENTRY.match(lines[start]) if start < len(lines) else None
    if entry is None:
        return None
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > _indent(lines[start])):
        end += 1
    value = "\n".join([entry["value"], *lines[start + 1 : end]])
    tail = value[len(value.rstrip()) :]
    value = value.rstrip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    quoted = entry["lead"] + "'" + value.replace("'", "''") + "'" + tail
    return "\n".join([*lines[:start], *quoted.split("\n"), *lines[end:]])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
