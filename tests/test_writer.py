"""The rows of files: the same in whatever batches they are written, and gone when they are deleted."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from beginnings import begin_empty
from dumps import Dump, check_full_texts, dump
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import POOL, libraries

from orchestr8_sqlite.builder.writer import IndexWriter, prepare
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.model.records import Diagnostic, Fragment, LibraryQuery, Reference, Severity, Skill, SkillFile
from orchestr8_sqlite.ranking.evidence import read_typical_lengths

HELD = """fragment fragment_body tag capability scenario keyword posting field_posting reference library_query
    library_answer skill_file diagnostic source rank_stem rank_topic rank_length fragment_text keyword_text""".split()
"""Tables that have rows of files."""


def judged(fragment: Fragment) -> Verdict:
    """Return a fragment as a file with everything beside it that a file may have."""
    choice = random.Random(fragment.id)
    source = fragment.source
    bundled = replace(source, path=f"{source.path}.sh")
    found = Diagnostic(Severity.INFO, "a-code", source.root, source.path, 1, None, "what", "fix")
    whole = replace(
        fragment,
        references=(Reference(f"skills/{choice.randint(0, 3)}", "uri", 3),),
        skill_files=(SkillFile("SKILL.md", b"x", "0", source), SkillFile("x.sh", b"y", "1", bundled)),
        skill=Skill(f"folder/{fragment.name}", {"name": fragment.name}) if choice.random() < 0.5 else None,
    )
    return Verdict(
        source=source,
        outcome="fragment",
        record=whole,
        prepared=prepare(whole),
        diagnostics=(found,),
        sources=((bundled, "skill_file"),),
        queries=(LibraryQuery(f"ask {fragment.id}", (fragment.id,), "queries"),),
    )


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield the index at *path*, which is begun where there is none, to be written to in one transaction."""
    is_new = not path.exists()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if is_new:
            begin_empty(db)
        db.execute("BEGIN")
        yield db
        db.execute("COMMIT")


def write(path: Path, *batches: Sequence[Fragment], gone: Sequence[Fragment] = ()) -> Dump:
    """Delete the files of some fragments, write those of others, and return what the index says then."""
    keys = {("library", path) for one in gone for path in (one.source.path, f"{one.source.path}.sh")}
    with opened(path) as db:
        writer = IndexWriter(db)
        if gone:
            writer.delete(keys, keys)
        for batch in batches:
            writer.write(map(judged, batch))
        meta = dict(db.execute("SELECT key, value FROM meta"))
        writer.close(read_typical_lengths(meta) if meta else None, must_stay=True)
    check_full_texts(path)
    return dump(path)


@settings(max_examples=20)
@given(library=libraries())
def test_rows_are_the_same_in_whatever_batches_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, library: list[Fragment]
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    assert write(folder / "single.db", *([one] for one in library)) == write(folder / "whole.db", library)


@settings(max_examples=20)
@given(library=libraries(), gone=st.sets(st.integers(0, 8)))
def test_files_that_are_deleted_leave_no_row(
    tmp_path_factory: pytest.TempPathFactory, library: list[Fragment], gone: set[int]
) -> None:
    """Where texts have become longer or shorter on the whole, words weigh what they did."""
    folder = tmp_path_factory.mktemp("deleted")
    stay = [one for number, one in enumerate(library) if number not in gone]
    write(folder / "less.db", library)
    found = write(folder / "less.db", gone=[one for one in library if one not in stay])
    expected = write(folder / "fresh.db", stay)
    if found["meta"] != expected["meta"]:
        for rows in (found, expected):
            rows["meta"] = []
            rows["field_posting"] = [row[:3] for row in rows["field_posting"]]  # without the weight
            rows["rank_length"] = [row[:-1] for row in rows["rank_length"]]  # without the norm of the weights
    assert found == expected


@settings(max_examples=20)
@given(library=libraries())
def test_files_that_are_deleted_and_written_again_have_the_rows_they_had(
    tmp_path_factory: pytest.TempPathFactory, library: list[Fragment]
) -> None:
    path = tmp_path_factory.mktemp("again") / "index.db"
    before = write(path, library)
    assert write(path, library[::2], gone=library[::2]) == before


def test_index_without_files_has_no_rows(tmp_path: Path) -> None:
    library = [*{fragment.id: fragment for fragment in POOL[:40]}.values()]
    whole = write(tmp_path / "index.db", library)
    assert [table for table in HELD if not whole[table]] == []
    emptied = write(tmp_path / "index.db", gone=library)
    assert [table for table, held in emptied.items() if held] == ["meta"]
