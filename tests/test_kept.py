"""What is kept of an index between requests: the same as reading it anew, and no more than so much of it."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import open_in_memory, queries
from support import MakeCatalog, MakeLibrary, build, make_fragment

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers import kept as module
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.kept import Kept, kept_by

FRAGMENTS = [
    make_fragment(f"f{number}", f"{first} {second}", title=f"{second} {number % 3}", tags=(first,))
    for number, (first, second) in enumerate(
        random.Random(7).sample(["retry", "api", "cache", "login", "golang", "node.js", "timeout"], 2)
        for _ in range(12)
    )
]


@settings(deadline=None)
@given(st.lists(queries(), min_size=1, max_size=5), st.integers(0, 9))
def test_later_requests_are_answered_as_if_each_were_the_first(asked: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch, open_in_memory(FRAGMENTS) as catalog:
        for bound in ("MOST_TOPICS", "MOST_TERMS", "MOST_WORDS"):
            patch.setattr(module, bound, most)
        for query in asked:
            request = MatchRequest(query, min_score=0)
            anew = find(catalog, request, holders=Holders(catalog.db), quick=False)
            assert find(catalog, request, quick=False) == anew


def test_no_more_is_kept_than_the_bound(make_catalog: MakeCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOPICS", 2)
    monkeypatch.setattr(module, "MOST_TERMS", 2)
    catalog = make_catalog(*(make_fragment(name, name) for name in ("alpha", "beta", "gamma")))
    kept = Kept(catalog.db)
    for number in (1, 2, 3, 1):
        assert kept.topics([number]) == Kept(catalog.db).topics([number]) != {}
    for stem in ("alpha", "beta", "gamma", "alpha"):
        assert list(kept.terms([stem])) == [stem]
    assert len(kept._topics) <= 2
    assert len(kept._terms) <= 2


def test_what_is_kept_is_kept_by_the_connection_to_a_file_and_not_where_rows_may_change(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    with Catalog.open(build(make_library({"agents/a.md": "# A"}), tmp_path / "index.db")) as opened:
        assert kept_by(opened.db) is kept_by(opened.db)
    with closing(sqlite3.connect(":memory:")) as changing:
        assert kept_by(changing) is not kept_by(changing)
