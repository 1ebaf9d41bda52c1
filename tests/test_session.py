"""Builds one after the other: the same rows as a build from scratch, the last good version of what is refused."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dumps import dump
from strategies import TAGS, TOPICS, WORDS
from support import GARDENING, MakeLibrary, build, markdown, rows, write_files

from orchestr8_sqlite import builder
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.session import BuildSession

ALL_WORDS = [*WORDS, *TOPICS]


@pytest.fixture
def fixed_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no build measure what an answer must cover: that takes most of the time of a small one."""
    monkeypatch.setattr(builder, "measure_least_coverage", lambda _: 0.3)


def some_words(choice: random.Random, most: int = 4) -> str:
    return " ".join(choice.choices(ALL_WORDS, k=choice.randint(1, most)))


def some_document(choice: random.Random) -> str:
    """Return a document with anything in it that a table has rows for."""
    lines = [f"title: {some_words(choice)}", f"description: {some_words(choice, 8)}"]
    lines += [f"tags: [{', '.join(choice.sample(TAGS, choice.randint(0, 3)))}]"]
    lines += ["useWhen:", *(f"  - {some_words(choice, 5)}" for _ in range(choice.randint(1, 3)))]
    if choice.random() < 0.3:
        lines += ["capabilities:", *(f"  - {some_words(choice)}" for _ in range(2))]
    if choice.random() < 0.3:
        lines += [f"relatedResources: [skills/s{choice.randint(0, 9)}, agents/a{choice.randint(0, 9)}]"]
    if choice.random() < 0.2:
        lines += [f"queries: [{some_words(choice)}]"]
    if choice.random() < 0.2:
        lines += [f"id: {choice.choice(['x', 'y'])}"]
    return markdown("\n".join(lines), f"# {some_words(choice)}\n\n{some_words(choice, 60)}.\n")


def some_path(choice: random.Random) -> str:
    number = choice.randint(0, 9)
    return choice.choice(
        [
            f"agents/a{number}.md",
            f"skills/s{number}.md",
            f"skills/deep/s{number}.md",
            f"skills/pack{number % 3}/SKILL.md",
            f"skills/pack{number % 3}/notes{number}.txt",
            f"prompts/workflows/p{number}.md",
            f"guides/{some_words(choice, 2).replace('/', '-')}.md",
        ]
    )


def edit(choice: random.Random, root: Path) -> None:
    """Create, change, move or delete one file."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    what = choice.random()
    if what < 0.6 or len(files) < 4:
        write_files(root, {some_path(choice): some_document(choice)})
    elif what < 0.8:
        choice.choice(files).unlink()
    else:
        target = root / some_path(choice)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(choice.choice(files), target)


@pytest.mark.usefixtures("fixed_coverage")
@pytest.mark.parametrize("seed", range(8))
def test_every_build_of_a_session_holds_the_rows_of_a_build_from_scratch(
    make_library: MakeLibrary, tmp_path: Path, seed: int
) -> None:
    choice = random.Random(seed)
    root = make_library({some_path(choice): some_document(choice) for _ in range(choice.choice([12, 24, 40]))})
    write_files(root, {"agents/always.md": some_document(choice)})
    session = BuildSession([root], tmp_path / "session.db")
    for _ in range(12):
        session.build()
        oracle = dump(build(root, tmp_path / "scratch.db"))
        found = dump(tmp_path / "session.db")
        for table, expected in oracle.items():
            assert found[table] == expected, table
        for _ in range(choice.choice([1, 1, 1, 2, 3])):
            edit(choice, root)
    session.close()
