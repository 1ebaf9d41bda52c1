"""What is written of many files: how it is gathered before it reaches the index."""

import sqlite3
from contextlib import closing
from dataclasses import replace

from support import make_fragment

from orchestr8_sqlite.content import Diagnostic, LibraryQuery, Reference, Severity
from orchestr8_sqlite.fragment_rows import prepare_batch
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.writer import IndexWriter, create_schema

MANY = 130
"""More than twice as many rows as one statement writes."""


def test_full_text_of_several_batches_is_gathered_before_any_of_it_is_written() -> None:
    """FTS5 writes what it has before some statements; here every table gets many rows in each batch."""
    lines = tuple(f"word{number} of many" for number in range(MANY))
    problems = tuple(
        Diagnostic(Severity.INFO, f"code-{number}", "a", "b.md", 1, "id", "m", "f") for number in range(MANY)
    )
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        create_schema(db)
        db.execute("BEGIN")
        writer = IndexWriter(db)
        for batch in range(3):
            names = [f"f{batch}-{number}" for number in range(MANY)]
            pointers = tuple(Reference(name, "related", 1) for name in names)
            fragments = [make_fragment(name, name, tags=(name,), body="text") for name in names]
            fragments = [replace(fragment, references=pointers) for fragment in fragments]
            fragments.append(make_fragment(f"long{batch}", *lines, tags=lines, capabilities=lines))
            verdicts = [
                Verdict(f.source, "fragment", f, place, problems, queries=(LibraryQuery("q", (f.id,), "queries"),))
                for place, f in enumerate(fragments)
            ]
            writer.write(verdicts, prepare_batch(fragments))
        segments = "SELECT count(*) FROM fragment_text_idx"
        assert db.execute(segments).fetchone() == (0,)
        writer.close()
        assert db.execute(segments).fetchone() > (0,)
