"""The code in the shipped library runs and compiles, with the packages and compilers that it is written for.

They come from package registries: once into tests/content, and again when the locked versions change.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from content.blocks import Block, read_blocks
from content.running import go_problems, python_problems, rust_problems, typescript_problems
from environments import cached_environment, node_programs
from support import brought

RESOURCES = Path(__file__).parents[1] / "resources"
CONTENT = Path(__file__).parent / "content"
BLOCKS = [block for document in sorted(RESOURCES.rglob("*.md")) for block in read_blocks(document)]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def programs() -> Path:
    """Return the folder with the Python and the Go of the library's code."""
    return brought(lambda: cached_environment(CONTENT / ".venv", CONTENT / "requirements.txt"))


@pytest.fixture(scope="module")
def compiler() -> Sequence[str]:
    """Return the command that starts the TypeScript compiler."""
    programs = brought(lambda: node_programs(CONTENT))
    return [str(programs / "tsc")]


def block_of(info: str, text: str, file: str = "") -> Block:
    language, *words = info.split()
    return Block(Path("skills/a.md"), 7, language, frozenset(words), file, text)


def test_python_that_fails_is_named_and_what_is_only_parsed_is_not_run(programs: Path) -> None:
    python = programs / "python"
    assert python_problems([block_of("python", "assert 1 == 1")], python) == []
    assert python_problems([block_of("python syntax", "assert 1 == 2")], python) == []
    (found,) = python_problems([block_of("python", "assert 1 == 2")], python)
    assert found.startswith("skills/a.md:7 exit 1:")


def test_files_of_a_python_project_are_tested_together(programs: Path) -> None:
    module = block_of("python", "def twice(x):\n    return 2 * x\n", "double.py")
    right = block_of(
        "python", "from double import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n", "test_a.py"
    )
    wrong = block_of("python", right.text.replace("4", "5"), "test_a.py")
    assert python_problems([module, right], programs / "python") == []
    assert len(python_problems([module, wrong], programs / "python")) == 1


def test_typescript_of_a_wrong_type_is_named_and_files_of_a_project_see_each_other(compiler: Sequence[str]) -> None:
    packages = CONTENT / "node_modules"
    module = block_of("typescript", "export const one: number = 1;\n", "src/one.ts")
    user = block_of("typescript", 'import { one } from "./one.js";\nexport const text: string = one;\n', "src/two.ts")
    (found,) = typescript_problems([module, user], packages, compiler)
    assert found.startswith("skills/a.md:7 line 2: TS2322")
    assert (
        typescript_problems([module, block_of("javascript", "export const f = (a) => a;\n")], packages, compiler) == []
    )


def test_go_and_rust_that_do_not_compile_are_named(programs: Path) -> None:
    assert go_problems([block_of("go", "package a\n\nvar x int = 1\n")], programs / "go") == []
    assert go_problems([block_of("go", 'package a\n\nvar x int = "1"\n')], programs / "go")
    if rustc := shutil.which("rustc"):
        assert rust_problems([block_of("rust", "fn main() { let _x: u8 = 1; }\n")], rustc) == []
        assert rust_problems([block_of("rust", 'fn main() { let _x: u8 = "1"; }\n')], rustc)


def test_every_python_block_of_the_library_runs(programs: Path) -> None:
    assert python_problems(BLOCKS, programs / "python") == []


def test_every_typescript_block_of_the_library_has_the_right_types(compiler: Sequence[str]) -> None:
    assert typescript_problems(BLOCKS, CONTENT / "node_modules", compiler) == []


def test_every_go_block_of_the_library_that_needs_no_module_compiles(programs: Path) -> None:
    assert go_problems(BLOCKS, programs / "go") == []


@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no Rust compiler here")
def test_every_rust_block_of_the_library_that_needs_no_crate_compiles() -> None:
    assert rust_problems(BLOCKS, shutil.which("rustc") or "") == []
