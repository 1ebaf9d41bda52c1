"""The code in the shipped library is code: every block is parsed, and run or compiled where its author lets it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from content.blocks import Block, read_blocks
from content.parsing import schema_problems, sqlite_problems, syntax_problems, undefined_names

RESOURCES = Path(__file__).parents[1] / "resources"
DOCUMENTS = sorted(RESOURCES.rglob("*.md"))
BLOCKS = [block for document in DOCUMENTS for block in read_blocks(document)]

SOUND: Mapping[str, str] = {
    "python": "x = [1, 2]\n",
    "json": '{"a": 1}',
    "jsonc": '{"a": 1, // why\n}',
    "jsonl": '{"a": 1}\n{"a": 2}\n',
    "toml": "a = 1\n",
    "yaml": "a: [1, 2]\nb: !Ref c\n",
    "ini": "[a]\nb = 1\n",
    "bash": 'for f in ./*.txt; do echo "$f"; done\n',
    "dockerfile": 'FROM alpine:3.22\nCMD ["true"]\n',
    "sql": "SELECT 1;",
    "sql mysql": "SELECT `a` FROM t;",
    "go": "x := 1\nfmt.Println(x)\n",
    "rust": "fn main() { let x = 1; }",
    "java": "record P(int x) {}",
    "csharp": "public record P(int X);",
    "css": "a { color: red }",
    "php": "function f(int $x): int { return $x; }",
    "typescript": "const x: number = 1;",
    "tsx": "const x = <b>1</b>;",
    "hcl": 'resource "a" "b" {\n  c = 1\n}\n',
    "proto": 'syntax = "proto3";\nmessage A { int32 b = 1; }\n',
    "graphql": "type Query { a: Int! }",
    "ruby": "def f(x) = x\n",
    "kotlin": "fun f(x: Int) = x\n",
    "swift": "func f(x: Int) -> Int { x }\n",
    "cpp": "int f(int x) { return x; }\n",
    "html": "<p>a</p>",
    "make": "a: b\n\ttouch a\n",
}
BROKEN: Mapping[str, str] = {
    "python": "x = [1, 2\n",
    "json": '{"a": 1,}',
    "jsonc": '{"a": 1 "b"}',
    "jsonl": '{"a": 1}\n{a}\n',
    "toml": "a = \n",
    "yaml": "a: [1, 2\nb: 1\n",
    "ini": "[a\nb = 1\n",
    "bash": "for f in *.txt; do echo $f\n",
    "dockerfile": "FROM alpine\nRUNN true\n",
    "sql": "SELEC 1;",
    "sql mysql": "SELECT FROM WHERE;",
    "go": "x := := 1\n",
    "rust": "fn main( { let x = 1; }",
    "java": "record P(int x {}",
    "csharp": "public record P(int X;",
    "css": "a { color: red",
    "php": "function f(int $x: int { return $x; }",
    "typescript": "const x: = 1;",
    "tsx": "const x = <b>1;",
    "hcl": 'resource "a" "b" {\n  c = \n',
    "proto": "message A { int32 = 1; }\n",
    "graphql": "type Query { a: }",
    "ruby": "def f(x\n",
    "kotlin": "fun f(x: Int = x\n",
    "swift": "func f(x: Int -> Int { x }\n",
    "cpp": "int f(int x { return x; }\n",
    "html": "<p>a</b></",
    "make": "ifeq (a\n",
    "cobol": "MOVE 1 TO X",
    "": "what is this",
}


def block_of(info: str, text: str) -> Block:
    language, *words = info.split() or [""]
    return Block(Path("skills/a.md"), 7, language, frozenset(words), "", text)


@pytest.mark.parametrize("info", SOUND)
def test_a_sound_block_has_no_problem(info: str) -> None:
    assert syntax_problems(block_of(info, SOUND[info])) == []


@pytest.mark.parametrize("info", BROKEN)
def test_a_broken_block_is_named_with_its_place(info: str) -> None:
    found = syntax_problems(block_of(info, BROKEN[info]))
    assert found
    assert found[0].startswith("skills/a.md:7 ")


def test_blocks_carry_their_line_and_a_continuation_belongs_to_its_language(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(
        "---\nid: a\n---\n\n# A\n\n```py\nx = 1\n```\n\n```sql sqlite\nSELECT 1;\n```\n\n- in a list\n\n"
        "  ```python continued\n  y = x\n  ```\n\n```ts file=src/a.ts\nlet z = 1\n```\n"
    )
    assert [(b.language, b.line, b.file, b.text) for b in read_blocks(document)] == [
        ("python", 7, "", "x = 1\n\ny = x\n"),
        ("sql", 11, "", "SELECT 1;\n"),
        ("typescript", 21, "src/a.ts", "let z = 1\n"),
    ]


def test_names_that_nothing_defines_are_found_unless_the_block_is_only_to_be_parsed() -> None:
    text = "print(missing)\n"
    assert len(undefined_names([block_of("python", text), block_of("python syntax", text)])) == 1


def test_manifests_and_pipelines_are_held_to_their_schemas() -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: eighty}]}\n"
    workflow = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps: [{runs: make}]\n"
    compose = "services:\n  a:\n    image: a\n    portz: []\n"
    custom = "apiVersion: example.com/v1\nkind: Anything\nspec: {any: thing}\n"
    for broken in (service, workflow, compose):
        assert schema_problems([block_of("yaml", broken)]), broken
    assert schema_problems([block_of("yaml", custom)]) == []
    assert schema_problems([block_of("yaml", workflow.replace("runs:", "run:"))]) == []


def test_blocks_for_sqlite_are_run_in_their_order_in_one_database() -> None:
    create, insert = block_of("sql sqlite", "CREATE TABLE a (b);"), block_of("sql sqlite", "INSERT INTO a VALUES (1);")
    assert list(sqlite_problems([create, insert])) == []
    assert "no such table" in next(sqlite_problems([insert, create]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_block_of_a_document_is_well_formed(document: Path) -> None:
    blocks = read_blocks(document)
    assert [problem for block in blocks for problem in syntax_problems(block)] == []
    assert list(sqlite_problems(blocks)) == []


def test_no_python_block_uses_a_name_that_nothing_defines() -> None:
    assert undefined_names(BLOCKS) == []


def test_every_manifest_and_pipeline_fits_its_schema() -> None:
    assert schema_problems(BLOCKS) == []
