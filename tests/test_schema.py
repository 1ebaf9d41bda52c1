"""The tables and views that SQL users see, and the ids of scenarios."""

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from strategies import libraries, open_in_memory, queries
from support import MakeCatalog, make_fragment

from orchestr8_sqlite import vocabulary
from orchestr8_sqlite.content import Fragment, Reference
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import MatchRequest, Ranker
from orchestr8_sqlite.tiers.postings import match_keywords
from orchestr8_sqlite.vocabulary import scenario_ids
from orchestr8_sqlite.writer import create_schema

TABLES = """fragment tag capability scenario keyword posting quick_lookup reference prompt prompt_argument skill_file
    diagnostic source meta""".split()
EVIDENCE = """
SELECT uri, max(score) FROM (
    SELECT uri, scenario, sum(points) AS score FROM score_evidence
     WHERE keyword IN (SELECT value FROM json_each(?)) GROUP BY uri, scenario HAVING max(points) = 20)
 GROUP BY uri
"""
COLLIDING = ("Case 698659", "Case 24048258")
"""Scenarios of skills/retry whose SHA-256 share the first twelve hex digits and no more than these."""


@pytest.fixture
def empty() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    create_schema(connection)
    yield connection
    connection.close()


def digest(fragment_id: str, text: str) -> str:
    return hashlib.sha256(f"{fragment_id}:{text}".encode()).hexdigest()


def test_every_table_of_the_contract_exists_and_is_strict(empty: sqlite3.Connection) -> None:
    strict = {name: bool(flag) for name, flag in empty.execute("SELECT name, strict FROM pragma_table_list")}
    assert [name for name in TABLES if not strict.get(name, False)] == []


def test_every_column_has_a_comment(empty: sqlite3.Connection) -> None:
    tables = empty.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%STRICT%'")
    lines = [f"{line} of {sql.split()[2]}" for (sql,) in tables for line in sql.splitlines()]
    bare = [line for line in lines if re.match(r"\s+\w+\s+(TEXT|INTEGER|REAL|BLOB)\b", line) and "--" not in line]
    assert bare == []


def test_wrong_type_is_refused(empty: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        empty.execute("INSERT INTO keyword VALUES (1, 'retry', 'retri', 'many', 1, NULL)")


@pytest.mark.parametrize("field", ["title", "tags", "capabilities", "scenarios", "description", "body"])
def test_full_text_covers_the_field(make_catalog: MakeCatalog, field: str) -> None:
    fragment = make_fragment("a", "x")
    value = {"tags": ("zebra",), "capabilities": ("Zebra",), "scenarios": ("Zebra",)}.get(field, "A zebra")
    changed = replace(fragment, **{"use_when" if field == "scenarios" else field: value})  # type: ignore[arg-type]
    catalog = make_catalog(changed, make_fragment("b"))
    sql = f"SELECT rowid FROM fragment_text WHERE {field} MATCH '\"zebras\"'"
    assert catalog.db.execute(sql).fetchall() == [(1,)]


def test_index_says_what_it_is(empty: sqlite3.Connection) -> None:
    values = [empty.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    assert all(value > 0 for value in values)


def test_fragment_detail_shows_a_fragment_with_its_lists(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", "Tuning it", title="A", tags=("z", "b"), capabilities=("One", "Two"))
    )
    sql = "SELECT uri, category, title, tags, capabilities, scenarios, source FROM fragment_detail"
    lists = ("z, b", "One; Two", "Adding retry; Tuning it")
    assert catalog.db.execute(sql).fetchall() == [("orchestr8://skills/a", "skill", "A", *lists, "library/skills/a.md")]


def test_fragment_detail_keeps_a_fragment_without_lists(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a"))
    assert catalog.db.execute("SELECT uri FROM fragment_detail").fetchall() == [("orchestr8://skills/a",)]


def test_keyword_detail_shows_scenarios_and_fragments_of_a_keyword(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", "Tuning retry"), make_fragment("b", "Other", tags=("retry",))
    )
    sql = "SELECT scenario, uri, scenario_count, fragment_count FROM keyword_detail WHERE keyword = 'retry' ORDER BY 1"
    assert catalog.db.execute(sql).fetchall() == [
        ("Adding retry", "orchestr8://skills/a", 2, 2),
        ("Tuning retry", "orchestr8://skills/a", 2, 2),
    ]


def test_reference_detail_shows_pointers_and_where_they_dangle(make_catalog: MakeCatalog) -> None:
    references = (Reference("skills/b", "uri", 7), Reference("skills/gone", "link", 9))
    catalog = make_catalog(replace(make_fragment("a"), references=references), make_fragment("b"))
    sql = "SELECT from_uri, to_uri, target, kind, line FROM reference_detail ORDER BY line"
    assert catalog.db.execute(sql).fetchall() == [
        ("orchestr8://skills/a", "orchestr8://skills/b", "skills/b", "uri", 7),
        ("orchestr8://skills/a", None, "skills/gone", "link", 9),
    ]


def test_score_evidence_explains_the_worked_example(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry with timeouts"), make_fragment("b", "Setting a timeout"))
    sql = (
        "SELECT keyword, how, matched, points FROM score_evidence WHERE uri LIKE '%/a' AND keyword IN (?, ?) ORDER BY 1"
    )
    assert catalog.db.execute(sql, ("retry", "timeout")).fetchall() == [
        ("retry", "exact", "retry", 20),
        ("timeout", "partial", "timeouts", 10),
    ]


@settings(max_examples=25, deadline=None)
@given(library=libraries(), query=queries())
def test_score_evidence_adds_up_to_the_classic_score(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        known = {row[0] for row in catalog.db.execute("SELECT text FROM keyword")}
        keywords = [keyword for keyword in extract_keywords(query) if keyword in known]
        request = MatchRequest(query, max_results=100, min_score=0, ranker=Ranker.CLASSIC)
        found = match_keywords(catalog.db, request, keywords)
        explained = catalog.db.execute(EVIDENCE, (str(keywords).replace("'", '"'),)).fetchall()
    assert dict(explained) == {candidate.uri: candidate.score for candidate in found.candidates}


def test_scenario_id_is_the_hash_of_path_and_text() -> None:
    texts = [("skills/retry", "Adding retry"), ("skills/other", "Adding retry"), ("skills/ü", "再試行")]
    assert scenario_ids(texts) == [f"scenario-{digest(*text)[:12]}" for text in texts]


def test_scenarios_with_the_same_twelve_digits_get_longer_ids(make_catalog: MakeCatalog) -> None:
    digests = [digest("skills/retry", text) for text in COLLIDING]
    assert digests[0][:12] == digests[1][:12]
    catalog = make_catalog(make_fragment("retry", *COLLIDING, "Another case"))
    rows = dict(catalog.db.execute("SELECT text, scenario_id FROM scenario").fetchall())
    assert len(set(rows.values())) == 3
    for text, hashed in zip(COLLIDING, digests, strict=True):
        assert len(rows[text]) > len("scenario-") + 12
        assert f"scenario-{hashed}".startswith(rows[text])
    assert rows["Another case"] == f"scenario-{digest('skills/retry', 'Another case')[:12]}"


def test_each_id_is_long_enough_to_name_one_scenario_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {"p:a": "0" * 12 + "1" * 52, "p:b": "0" * 20 + "2" * 44, "p:c": "0" * 21 + "3" * 43}

    def sha256(text: bytes) -> SimpleNamespace:
        return SimpleNamespace(hexdigest=lambda: hashes[text.decode()])

    monkeypatch.setattr(vocabulary, "hashlib", SimpleNamespace(sha256=sha256))
    ids = [found.removeprefix("scenario-") for found in scenario_ids([("p", "a"), ("p", "b"), ("p", "c")])]
    for found, hashed in zip(ids, hashes.values(), strict=True):
        assert [other for other in hashes.values() if other.startswith(found)] == [hashed]
