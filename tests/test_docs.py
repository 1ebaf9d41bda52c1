"""The documents show what the programs really print, and name what really exists."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import docs_output
import pytest

from orchestr8_sqlite.builder.writer import create_schema

README = Path(__file__).parents[1] / "README.md"
SCHEMA = README.with_name("docs") / "schema.md"
SHADOW = re.compile(r"(fragment|keyword)_text_\w+")
"""Tables that FTS5 keeps for itself."""


@pytest.mark.parametrize(
    "document",
    [path if path == README else pytest.param(path, marks=pytest.mark.slow) for path in docs_output.DOCUMENTS],
    ids=lambda path: path.name,
)
def test_generated_output_in_the_documents_is_what_the_commands_print(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert docs_output.renewed(text) == text, "renew it with: make docs"


@pytest.mark.parametrize("command", ["search retry", "stats", "list tags"])
def test_commands_print_the_same_beside_an_index_that_was_just_built(tmp_path: Path, command: str) -> None:
    beside, alone = tmp_path / "beside", tmp_path / "alone"
    for folder in (beside, alone):
        folder.mkdir()
    shutil.copy(docs_output.ROOT / "orchestr8_sqlite" / "bundled.db", beside / "index.db")
    answers = {docs_output.run(f"orchestr8-sqlite {command}", folder) for folder in (beside, alone)}
    assert len(answers) == 1


def test_a_table_of_rows_shows_signs_of_markdown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_output, "run", lambda _: '[{"a": "x|<b>", "b": null}, {"a": "two\\nlines", "b": 3}]')
    assert docs_output.rows_of("SELECT 1") == "| a | b |\n| --- | --- |\n| x\\|&lt;b> |  |\n| two lines | 3 |\n"


def test_every_table_view_and_column_of_an_index_is_in_the_document_of_the_schema() -> None:
    sections = dict(
        re.findall(r"^### (\w+)\n(.*?)(?=^### |^<!-- end)", SCHEMA.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
    with closing(sqlite3.connect(":memory:")) as db:
        create_schema(db)
        made = db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')").fetchall()
        names = {name for (name,) in made if not SHADOW.fullmatch(name)}
        assert sections.keys() == names
        for name in names:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
            assert [column for column in columns if f"`{column}`" not in sections[name]] == []


def test_first_screen_of_the_readme_holds_the_two_commands_and_no_more_than_40_lines_of_start() -> None:
    start = README.read_text(encoding="utf-8").split("\n## ")[0].splitlines()
    assert any(line.strip().startswith("make run") for line in start)
    assert any(line.strip().startswith("make test") for line in start)
    assert len(start) <= 60


def test_tracked_texts_name_no_path_of_a_machine() -> None:
    root = README.parent
    files = [*root.glob("*.md"), *root.glob("orchestr8_sqlite/**/*.py"), *root.glob("build/*.py"), root / "Makefile"]
    for path in files:
        assert not re.search(r"/(work|root|tmp|home)/", path.read_text(encoding="utf-8")), path.name
