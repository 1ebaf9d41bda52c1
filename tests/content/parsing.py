"""What can be said of a code block without running it: whether it is well-formed, and known mistakes.

Each checker takes the text of a block and returns problems, one line each.
"""

import configparser
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import check_jsonschema
import json5
import kubernetes_validate
import pglast
import sqlglot
import tree_sitter_language_pack
import yaml
from click.testing import CliRunner
from tree_sitter import Node

from content.blocks import UNCHECKED, Block

PROGRAMS = Path(sys.executable).parent
GRAMMARS = frozenset(
    "c cpp csharp css dart elixir go graphql hcl html java javascript kotlin lua make php powershell proto ruby rust"
    " scala swift tsx typescript vue xml".split()
)
"""Languages that are parsed with a grammar of tree-sitter."""

WRAPPINGS: Mapping[str, tuple[str, ...]] = {
    "go": ("{}", "package p\n{}", "package p\nfunc _() {{\n{}\n}}"),
    "java": ("{}", "class C {{\n{}\n}}", "class C {{ void m() {{\n{}\n}} }}"),
    "csharp": ("{}", "class C {{\n{}\n}}"),
    "css": ("{}", ":root {{ {} }}"),
    "php": ("<?php\n{}",),
}
"""Texts that a snippet may stand in; it is well-formed when one of them is."""

PROSE = frozenset({"text", "markdown", "mermaid", "console", "csv", "diff", "http"})
"""Info strings of what is read by people: output, trees, tables, letters."""

SQL_DIALECTS = frozenset("mysql tsql duckdb bigquery clickhouse snowflake oracle".split())
SHELLCHECK_IGNORED = "SC1091,SC2034,SC2154,SC2164"
"""Files that are not here, variables that the rest of a script would use or set, and a `cd` whose failure one sees."""

HADOLINT_IGNORED = ("DL3008", "DL3013", "DL3018", "DL3059")
"""Pinned versions of system packages, which go stale sooner than the text."""

WORKFLOW, COMPOSE, GITLAB, DEPENDABOT = "github-workflows", "compose-spec", "gitlab-ci", "dependabot"


class _AnyTag(yaml.SafeLoader):
    """Reads tags such as `!Ref` of CloudFormation as their plain values."""


def _plain_value(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node)
    return loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else None


_AnyTag.add_multi_constructor("!", _plain_value)


def syntax_problems(block: Block) -> list[str]:
    """Return what is wrong with the form of a block, each with its place; SQL for SQLite is run elsewhere."""
    if UNCHECKED in block.words or block.language in PROSE:
        return []
    if not block.language:
        return [f"{block.place} the fence names no language; write text for what is no code"]
    if block.language in GRAMMARS or (block.only_syntax and block.language == "dockerfile"):
        found: Iterable[str] = _grammar_problems(block.language, block.text)
    elif block.language == "sql":
        found = _sql_problems(block)
    elif block.language in CHECKERS:
        found = CHECKERS[block.language](block.text)
    else:
        found = [f"nothing here can check {block.language}; say so with {UNCHECKED}"]
    return [f"{block.place} {problem}" for problem in found]


def sqlite_problems(blocks: Iterable[Block]) -> Iterator[str]:
    """Run the blocks of a document that are for SQLite in one database, in their order, and yield what fails."""
    database = sqlite3.connect(":memory:")
    for block in blocks:
        if block.language == "sql" and "sqlite" in block.words:
            try:
                database.executescript(block.text)
            except sqlite3.Error as error:
                yield f"{block.place} SQLite {sqlite3.sqlite_version}: {error}"
    database.close()


def undefined_names(blocks: Iterable[Block]) -> list[str]:
    """Return names that Python blocks use and nothing defines, and other mistakes that a linter is sure of."""
    with tempfile.TemporaryDirectory() as folder:
        places = {}
        for number, block in enumerate(blocks):
            if block.language == "python" and not block.only_syntax and UNCHECKED not in block.words:
                path = Path(folder) / f"block{number}.py"
                path.write_text(block.text, encoding="utf-8")
                places[path.name] = block.place
        command = [_program("ruff"), "check", "--isolated", "--select=F63,F7,F82", "--output-format=json", folder]
        found = json.loads(subprocess.run(command, capture_output=True, check=False, text=True).stdout or "[]")
    return [f"{places[Path(one['filename']).name]} line {one['location']['row']}: {one['message']}" for one in found]


def schema_problems(blocks: Iterable[Block]) -> list[str]:
    """Return where manifests and pipelines in YAML do not fit the published schemas of their programs."""
    problems, files = [], dict[str, list[tuple[str, object]]]()
    for block in blocks:
        if block.language != "yaml" or block.only_syntax or UNCHECKED in block.words:
            continue
        for value in _yaml_values(block.text):
            if schema := _schema_of(value):
                files.setdefault(schema, []).append((block.place, value))
            elif isinstance(value, dict) and {"apiVersion", "kind"} <= value.keys():
                problems += [f"{block.place} {problem}" for problem in _kubernetes_problems(value)]
    for schema, values in files.items():
        problems += _json_schema_problems(schema, values)
    return problems


def _python_problems(text: str) -> Iterator[str]:
    try:
        compile(text, "block", "exec", dont_inherit=True)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"


def _json_problems(text: str) -> Iterator[str]:
    try:
        json.loads(text)
    except ValueError as error:
        yield str(error)


def _jsonc_problems(text: str) -> Iterator[str]:
    try:
        json5.loads(text)
    except ValueError as error:
        yield str(error)


def _json_lines_problems(text: str) -> Iterator[str]:
    for line in filter(str.strip, text.splitlines()):
        yield from _json_problems(line)


def _toml_problems(text: str) -> Iterator[str]:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        yield str(error)


def _yaml_problems(text: str) -> Iterator[str]:
    try:
        list(_yaml_values(text))
    except yaml.YAMLError as error:
        yield " ".join(str(error).split())


def _yaml_values(text: str) -> Iterator[Any]:
    return yaml.load_all(text, Loader=_AnyTag)  # a subclass of SafeLoader


def _ini_problems(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text if text.lstrip().startswith("[") else f"[settings]\n{text}")
    except configparser.Error as error:
        yield " ".join(str(error).split())


def _bash_problems(text: str) -> Iterator[str]:
    command = [_program("shellcheck"), "--shell=bash", "--severity=warning", f"--exclude={SHELLCHECK_IGNORED}"]
    done = subprocess.run([*command, "--format=gcc", "-"], input=text, capture_output=True, check=False, text=True)
    yield from done.stdout.splitlines()


def _dockerfile_problems(text: str) -> Iterator[str]:
    ignored = [f"--ignore={rule}" for rule in HADOLINT_IGNORED]
    command = [_program("hadolint"), "--no-color", "--failure-threshold=warning", *ignored, "-"]
    done = subprocess.run(command, input=text, capture_output=True, check=False, text=True)
    if done.returncode:
        yield from (done.stdout + done.stderr).splitlines()


def _sql_problems(block: Block) -> Iterator[str]:
    if "sqlite" in block.words:
        return
    dialects = block.words & SQL_DIALECTS
    try:
        if dialects:
            sqlglot.parse(block.text, dialect=min(dialects))
        else:
            pglast.parse_sql(block.text)
    except (sqlglot.errors.SqlglotError, pglast.parser.ParseError) as error:
        yield " ".join(str(error).split())


def _grammar_problems(language: str, text: str) -> Iterator[str]:
    parser = tree_sitter_language_pack.get_parser(language)  # type: ignore[arg-type]
    lines = []
    for wrapping in WRAPPINGS.get(language, ("{}",)):
        root = parser.parse(wrapping.format(text.removeprefix("<?php")).encode()).root_node
        if not root.has_error:
            return
        lines.append(_first_error(root).start_point[0] + 1 - wrapping.partition("{}")[0].count("\n"))
    yield f"line {max(lines)}: this is not {language}"


def _first_error(node: Node) -> Node:
    """Return the first node of a tree that the grammar has no rule for, or that it missed."""
    for child in node.children:
        if child.has_error or child.is_missing:
            return child if child.is_error or child.is_missing else _first_error(child)
    return node


def _schema_of(value: object) -> str:
    """Return the schema that a YAML document is to fit, or nothing where it is of no known kind."""
    if not isinstance(value, dict):
        return ""
    if "jobs" in value and ("on" in value or True in value):  # YAML 1.1 reads the key `on` as true
        return WORKFLOW
    if "services" in value and all(isinstance(one, dict) for one in value["services"].values()):
        return COMPOSE
    if "stages" in value and any(isinstance(one, dict) and "script" in one for one in value.values()):
        return GITLAB
    return DEPENDABOT if "updates" in value and value.get("version") == 2 else ""


def _kubernetes_problems(value: Mapping[str, object]) -> Iterator[str]:
    try:
        kubernetes_validate.validate(value, "1.34", strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message}"
    except (kubernetes_validate.SchemaNotFoundError, kubernetes_validate.InvalidSchemaError):
        return  # a resource that an operator defines


def _json_schema_problems(schema: str, values: Iterable[tuple[str, object]]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        places = {}
        for number, (place, value) in enumerate(values):
            path = Path(folder) / f"{number}.json"
            path.write_text(json.dumps(_with_text_keys(value), default=str), encoding="utf-8")
            places[str(path)] = place
        arguments = [f"--builtin-schema=vendor.{schema}", "--output-format=json", *places]
        report = json.loads(CliRunner().invoke(check_jsonschema.main, arguments).stdout)
    return [f"{places[one['filename']]} {one['path']}: {one['message']}" for one in report["errors"]]


def _with_text_keys(value: object) -> object:
    """Return a YAML value as GitHub reads it, with the key `on` that YAML 1.1 takes for true."""
    if isinstance(value, dict):
        return {"on" if key is True else str(key): _with_text_keys(one) for key, one in value.items()}
    return [_with_text_keys(one) for one in value] if isinstance(value, list) else value


def _program(name: str) -> str:
    """Return the path of a program that is installed beside this Python."""
    found = shutil.which(name, path=str(PROGRAMS))
    assert found is not None, f"{name} is missing from the environment"
    return found


CHECKERS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "python": _python_problems,
    "json": _json_problems,
    "jsonc": _jsonc_problems,
    "json5": _jsonc_problems,
    "jsonl": _json_lines_problems,
    "toml": _toml_problems,
    "yaml": _yaml_problems,
    "ini": _ini_problems,
    "bash": _bash_problems,
    "dockerfile": _dockerfile_problems,
}
