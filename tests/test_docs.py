"""README shows what the programs really print, and names what really exists."""

import re
from pathlib import Path

import docs_output

from orchestr8_sqlite.cli.app import COMMANDS

README = Path(__file__).parents[1] / "README.md"


def test_generated_output_in_the_readme_is_what_the_commands_print() -> None:
    text = README.read_text(encoding="utf-8")
    assert docs_output.renewed(text) == text


def test_first_screen_of_the_readme_holds_the_two_commands_and_no_more_than_40_lines_of_start() -> None:
    start = README.read_text(encoding="utf-8").split("\n## ")[0].splitlines()
    assert any(line.strip().startswith("make run") for line in start)
    assert any(line.strip().startswith("make test") for line in start)
    assert len(start) <= 60


def test_every_command_is_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    table = text.split("## Commands")[1].split("\n## ")[0]
    for name in COMMANDS:
        assert re.search(rf"`{name}\b", table), name


def test_tracked_texts_name_no_path_of_a_machine() -> None:
    root = README.parent
    files = [*root.glob("*.md"), *root.glob("orchestr8_sqlite/**/*.py"), *root.glob("build/*.py"), root / "Makefile"]
    for path in files:
        assert not re.search(r"/(work|root|tmp|home)/", path.read_text(encoding="utf-8")), path.name
