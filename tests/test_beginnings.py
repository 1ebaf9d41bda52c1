"""What tests copy into an index is what a build writes there."""

from pathlib import Path

import pytest
from support import MakeLibrary, build, markdown, rows

from orchestr8_sqlite.builder import build as building
from orchestr8_sqlite.builder import writer

HEADER = "SELECT * FROM pragma_application_id, pragma_user_version, pragma_page_size, pragma_journal_mode"
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
TABLES = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"
FRAGMENT = {"skills/a.md": markdown("useWhen: [Retrying a call]")}


@pytest.mark.parametrize(
    "own", [{}, {"synonyms.txt": "call = phone\n"}], ids=["shipped synonyms", "synonyms of its own"]
)
def test_an_index_with_a_copied_beginning_is_what_a_build_writes(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    root = make_library({**FRAGMENT, **own})
    copied = build(root, tmp_path / "copied.db")
    monkeypatch.setattr(building, "create_schema", writer.create_schema)
    monkeypatch.setattr(building, "write_synonyms", writer.write_synonyms)
    written = build(root, tmp_path / "written.db")
    assert copied.read_bytes() != written.read_bytes()  # or nothing was copied
    for sql in (HEADER, SCHEMA, *(f"SELECT * FROM {table}" for (table,) in rows(written, TABLES))):
        assert rows(copied, sql) == rows(written, sql), sql
    assert len(rows(written, "SELECT * FROM rank_synonym_word")) > 10_000
    assert build(root, tmp_path / "again.db").read_bytes() == written.read_bytes()
