"""Every promise of SECURITY.md names tests, and these exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TEXT = (TESTS.parent / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
ROWS = [line.split("|")[1:-1] for line in TEXT.split("| promise | tests |")[1].splitlines() if line.startswith("| ")]


@cache
def functions_of(name: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((TESTS / name).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions)


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip() for row in ROWS])
def test_every_promise_names_tests_that_exist(row: list[str]) -> None:
    promise, tests = row
    assert promise.strip()
    named = NAMED.findall(tests)
    assert named
    assert [f"{file}::{test}" for file, test in named if test not in functions_of(file)] == []
    assert len(named) == tests.count("`") // 2


@pytest.mark.parametrize("page", sorted((TESTS.parent / "docs").glob("*.md")), ids=lambda page: str(page.name))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [f"{file}::{test}" for file, test in named if test not in functions_of(file)] == []


def test_there_are_promises() -> None:
    assert len(ROWS) >= 20
