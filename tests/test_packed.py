"""The packed postings say what the rows say, whatever comes and goes, and rank as the statement over the rows does."""

import random
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np  # noqa: F401 - loaded, so that it is used
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import filters, full_scans, libraries, open_in_memory, queries
from support import blocks_of, build, make_fragment, write_files

from orchestr8_sqlite import keyword_changes, packing, runs, scenario_sets, vocabulary
from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.connections import kept_of
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import hold_keywords
from orchestr8_sqlite.keyword_changes import add_scenarios, remove_scenarios, replace_fields, settle_keywords
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.model import COUNTED, Candidate, MatchRequest, Ranker, Statement
from orchestr8_sqlite.packing import (
    BLOCK,
    OFFSETS,
    SET_BLOCK,
    change_set,
    pack_bits,
    pack_members,
    pack_set,
    unpack_bits,
    unpack_members,
)
from orchestr8_sqlite.tiers import fuzzy, numbers, order, packed, postings, sets
from orchestr8_sqlite.tiers.found import Found, query_parameters
from orchestr8_sqlite.tiers.postings import match_keywords
from orchestr8_sqlite.vocabulary import longest_prefixes, suffix_rows, write_places

POSTINGS = "SELECT keyword_id, scenario_id FROM posting ORDER BY 1, 2"
PREFIXES = "SELECT k.text, other.text FROM keyword k LEFT JOIN keyword other ON other.id = k.prefix_id ORDER BY 1"
FIELDS = """
SELECT k.text, f.uri, p.fields
  FROM field_posting p JOIN keyword k ON k.id = p.keyword_id JOIN fragment f ON f.id = p.fragment_id
"""
SOME = st.sets(st.integers(0, SET_BLOCK - 1), min_size=1, max_size=40)
NUMBERS = st.sets(st.integers(0, 600), max_size=40)
MEMBERS = st.sets(st.integers(0, BLOCK - 1), max_size=40)


def unpack_set(places: bytes, bits: bytes) -> list[int]:
    """Return the numbers that `pack_set` was given, ascending."""
    held = zip(unpack_members(places), bits, strict=True) if places else enumerate(bits)
    return [8 * place + offset for place, byte in held if byte for offset in OFFSETS[byte]]


def match_by_rows(db: sqlite3.Connection, request: MatchRequest, query: str) -> Found:
    """Return the answer of tier 2, found by the statement that people can run."""
    statement = Statement(postings.CLASSIC_MATCHES, lambda: query_parameters(request, extract_keywords(query)))
    rows = db.execute(statement.sql, statement.parameters).fetchall()
    return Found(tuple(Candidate(*row[:-1]) for row in rows), rows[0][-1] if rows else 0, statement)


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be several blocks of a few scenarios, and sets of both kinds among them."""
    for module in (packing, scenario_sets, packed, sets):
        monkeypatch.setattr(module, "SET_BLOCK", 32, raising=False)
    monkeypatch.setattr(packing, "MANY_BYTES", 2)
    for module in (packing, vocabulary, keyword_changes, numbers, order):
        monkeypatch.setattr(module, "PLACED", 8, raising=False)
    monkeypatch.setattr(order, "BYTES", 1)
    monkeypatch.setattr(order, "NOTHING", b"\0")


def packed_set(numbers: set[int]) -> tuple[bytes, bytes]:
    return pack_set(sorted(numbers)) if numbers else (b"", b"")


def packed_sets(db: sqlite3.Connection, table: str) -> list[tuple[int, int]]:
    """Return (keyword, scenario) of all that a table of packed sets says."""
    rows = db.execute(f"SELECT keyword_id, block, places, bits FROM {table}").fetchall()
    for _, _, places, bits in rows:
        held = unpack_set(places, bits)
        assert held, "no set is empty"
        assert (places, bits) == pack_set(held), "a set is packed in one way alone"
    return sorted(
        (keyword, block * packing.SET_BLOCK + number)
        for keyword, block, places, bits in rows
        for number in unpack_set(places, bits)
    )


def check_sets(db: sqlite3.Connection) -> None:
    """Compare what is packed, and what is said of parts, with the postings and the texts of the keywords."""
    texts = dict(db.execute("SELECT id, text FROM keyword").fetchall())
    postings = db.execute(POSTINGS).fetchall()
    parts = [(one, part) for one in texts for part in texts if part != one and texts[part] in texts[one]]
    longer = {(part, scenario) for one, part in parts for keyword, scenario in postings if keyword == one}
    assert sorted(db.execute("SELECT * FROM keyword_part")) == sorted(parts)
    assert packed_sets(db, "posting_block") == postings
    assert packed_sets(db, "containing_block") == sorted(longer)


@given(members=MEMBERS)
def test_members_come_out_as_they_went_in(members: set[int]) -> None:
    assert list(unpack_members(pack_members(sorted(members)))) == sorted(members)
    assert unpack_bits(pack_bits(members)) == sorted(members)


@given(numbers=SOME | st.sets(st.integers(0, 300), min_size=1, max_size=300))
def test_sets_come_out_as_they_went_in(numbers: set[int]) -> None:
    places, bits = pack_set([*numbers, min(numbers)])
    assert unpack_set(places, bits) == sorted(numbers)
    assert len(places) in (0, 2 * len(bits))


@pytest.mark.parametrize("arrays", [True, False])
@given(sets_=st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 3_000), min_size=1)), min_size=1, max_size=6))
def test_many_sets_are_united_as_a_few_are(arrays: bool, sets_: list[tuple[int, set[int]]]) -> None:
    rows = [(block, *pack_set(sorted(numbers))) for block, numbers in sets_]
    every = {block * packing.SET_BLOCK + number for block, numbers in sets_ for number in numbers}
    with pytest.MonkeyPatch.context() as patch:
        if arrays:
            pytest.importorskip("numpy")
        else:
            patch.delitem(sys.modules, "numpy", raising=False)
        patch.setattr(packed, "MANY_ROWS", 2)
        assert packed.members(packed.union(rows)) == sorted(every)
        assert len(packed.folded(rows)) == len({block for block, _ in sets_})


@given(before=NUMBERS, gone=NUMBERS, come=NUMBERS)
def test_changed_set_is_packed_as_if_it_had_never_been_another(
    before: set[int], gone: set[int], come: set[int]
) -> None:
    after = before - gone | come
    assert change_set(*packed_set(before), gone, come) == packed_set(after)


@given(members=MEMBERS)
def test_members_of_a_set_are_its_bits(members: set[int]) -> None:
    assert packed.members(sum(1 << member for member in members)) == sorted(members)


@given(words=st.sets(st.text("ab", min_size=1, max_size=4), max_size=12))
def test_longest_prefix_is_the_longest_other_keyword_that_one_begins_with(words: set[str]) -> None:
    expected = {}
    for word in words:
        starts = [other for other in words if other != word and word.startswith(other)]
        if starts:
            expected[word] = max(starts, key=len)
    assert dict(longest_prefixes(words)) == expected


@given(words=st.lists(st.text("ab試é", min_size=1, max_size=4), max_size=12, unique=True), most=st.integers(1, 30))
def test_suffixes_are_sorted_however_few_are_sorted_together(words: list[str], most: int) -> None:
    ids = {word: number for number, word in enumerate(words, start=1)}
    expected = [
        (word[start:], number)
        for word, number in ids.items()
        for start in range(len(word))
        if len(word) - start > 1 or not word[start].isascii()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "MOST_SUFFIXES", most)
        assert list(suffix_rows(ids)) == sorted(expected)


@settings(max_examples=30, deadline=None)
@given(library=libraries(), block=st.sampled_from([2, 5, 1 << 16]))
def test_keyword_tables_are_the_same_however_little_of_them_is_in_memory(library: list[Fragment], block: int) -> None:
    tables = (
        *("keyword", "keyword_suffix", "keyword_part", "posting", "posting_block", "containing_block"),
        *("field_block", "scenario_owner", "scenario_order"),
    )
    with blocks_of(block), open_in_memory(library) as catalog, pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MOST_KEYS", 3)
        patch.setattr(vocabulary, "TOGETHER", 4)
        with open_in_memory(library) as other:
            for table in tables:
                sql = f"SELECT * FROM {table}"
                assert other.db.execute(sql).fetchall() == catalog.db.execute(sql).fetchall()


@pytest.mark.usefixtures("_small_blocks")
@settings(max_examples=40, deadline=None)
@given(
    library=libraries(most=30),
    asked=st.lists(st.tuples(queries(), filters()), min_size=3, max_size=6),
    block=st.sampled_from([8, 1 << 16]),
)
def test_packed_postings_rank_as_the_statement_does(
    library: list[Fragment], asked: list[tuple[str, dict[str, object]]], block: int
) -> None:
    with blocks_of(block), open_in_memory(library) as catalog:
        check_sets(catalog.db)
        for query, options in asked:
            request = MatchRequest(query, ranker=Ranker.CLASSIC, **options)  # type: ignore[arg-type]
            keywords = extract_keywords(query)
            expected = match_by_rows(catalog.db, request, query)
            for most_parts, probe, arrays_pay in ((1000, 8, 256), (0, 0, 1), (1000, -100, 256)):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sets, "MOST_PARTS", most_parts)
                    patch.setattr(sets, "PROBE", probe)
                    patch.setattr(packed, "ARRAYS_PAY", arrays_pay)
                    found = match_keywords(catalog.db, request, keywords)
                assert (found.candidates, found.total) == (expected.candidates, expected.total)


def test_a_fragment_whose_scenarios_reach_into_the_next_block_is_counted() -> None:
    library = [make_fragment("a", "retry once", *(f"cache number{letter}" for letter in "abcdefghij"))]
    with blocks_of(8), open_in_memory(library) as catalog:
        request = MatchRequest("retry", ranker=Ranker.CLASSIC)
        assert match_keywords(catalog.db, request, ["retry"]).total == 1


@pytest.mark.usefixtures("_small_blocks")
@settings(max_examples=25, deadline=None)
@given(library=libraries(most=20), seed=st.integers(0, 1000))
def test_fragments_that_come_and_go_leave_what_a_build_without_them_writes(library: list[Fragment], seed: int) -> None:
    choice = random.Random(seed)
    with open_in_memory(library) as changed:
        db = changed.db
        numbers = dict(db.execute("SELECT path, id FROM fragment"))
        gone = choice.sample(library, choice.randint(0, len(library)))
        kept = [fragment for fragment in library if fragment not in gone]
        back = choice.sample(gone, choice.randint(0, len(gone)))
        touched = set()
        rows = {}
        for fragment in gone:
            number = numbers[fragment.id]
            held = hold_keywords(fragment)
            own_rows = db.execute(
                "SELECT id FROM scenario WHERE fragment_id = ? ORDER BY ordinal", (number,)
            ).fetchall()
            pairs = zip(own_rows, held.scenarios, strict=True)
            touched |= remove_scenarios(db, ((row, keywords) for (row,), keywords in pairs))
            touched |= replace_fields(db, number, held.fields, {})
            rows[fragment.id] = db.execute("SELECT * FROM fragment WHERE id = ?", (number,)).fetchone()
            db.execute("DELETE FROM scenario WHERE fragment_id = ?", (number,))
            db.execute("DELETE FROM tag WHERE fragment_id = ?", (number,))
            db.execute("DELETE FROM fragment WHERE id = ?", (number,))
        for fragment in back:
            number = numbers[fragment.id]
            db.execute(f"INSERT INTO fragment VALUES ({','.join('?' * len(rows[fragment.id]))})", rows[fragment.id])
            first = db.execute("SELECT coalesce(max(id), 0) + 1 FROM scenario").fetchone()[0]
            own = list(enumerate(fragment.use_when, start=first))
            for ordinal, (row, text) in enumerate(own):
                db.execute("INSERT INTO scenario VALUES (?, ?, ?, ?, ?)", (row, f"s{row}", number, ordinal, text))
            db.executemany("INSERT INTO tag VALUES (?, ?, ?)", ((number, t, i) for i, t in enumerate(fragment.tags)))
            held = hold_keywords(fragment)
            touched |= replace_fields(db, number, {}, held.fields)
            pairs = zip(own, held.scenarios, strict=True)
            touched |= add_scenarios(db, number, ((row, keywords) for (row, _), keywords in pairs))
        settle_keywords(db, touched)
        write_places(db)
        check_sets(db)
        with open_in_memory([*kept, *back]) as fresh:
            assert db.execute(PREFIXES).fetchall() == fresh.db.execute(PREFIXES).fetchall()
            assert sorted(db.execute(FIELDS)) == sorted(fresh.db.execute(FIELDS))
            for query in ("retry api", "timeout go error", "log db cache node"):
                request = MatchRequest(query, ranker=Ranker.CLASSIC, min_score=0, max_results=50)
                assert ranked(changed, request) == ranked(fresh, request)


def ranked(catalog: Catalog, request: MatchRequest) -> list[tuple[str, float, str | None]]:
    found = match_keywords(catalog.db, request, extract_keywords(request.query))
    return [(candidate.uri, candidate.score, candidate.scenario) for candidate in found.candidates]


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_what_a_connection_keeps_of_a_file_answers_as_the_file_does(
    tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "MOST_KEPT", kept)
    scenarios = [f"[Adding retry to call {number}, Tuning cache {number % 3}]" for number in range(40)]
    files = {f"skills/s{at}.md": f"---\nuseWhen: {listed}\n---\n\n# S\n" for at, listed in enumerate(scenarios)}
    with Catalog.open(build(write_files(tmp_path / "library", files), tmp_path / "index.db")) as catalog:
        for query in ("retry cache", "cache call", "retries", "tuning", "retry cache"):
            request = MatchRequest(query, ranker=Ranker.CLASSIC)
            expected = match_by_rows(catalog.db, request, query)
            found = match_keywords(catalog.db, request, extract_keywords(query))
            assert (found.candidates, found.total) == (expected.candidates, expected.total)
        assert kept_of(catalog.db, "owners")


def test_of_a_database_that_may_change_nothing_is_kept() -> None:
    with open_in_memory([make_fragment("a", "Adding retry")]) as catalog:
        kept_of(catalog.db, "owners")[0] = "stale"
        assert kept_of(catalog.db, "owners") == {}


def test_matches_are_counted_up_to_a_thousand() -> None:
    with open_in_memory(
        [make_fragment(f"f{number}", "Adding retry", tags=("api",)) for number in range(1100)]
    ) as catalog:
        for request in (MatchRequest("retry"), MatchRequest("retry", tags=("api",))):
            found = match_keywords(catalog.db, request, ["retry"])
            assert found.total == match_by_rows(catalog.db, request, "retry").total == COUNTED == 1000
            assert fuzzy.match_fuzzy(catalog.db, request, ["retry"]).total == COUNTED
            uris = [candidate.uri for candidate in found.candidates]
            assert len(uris) == 15
            assert all(one < other for one, other in pairwise(uris))


STATEMENTS = [
    *(postings.CLASSIC_MATCHES, sets.HOLDERS, sets.KIN_HOLDERS),
    *(sets.KIN, sets.CONTAINING, sets.CONTAINED),
    *(fuzzy.EVIDENCE, fuzzy.FITTING, fuzzy.BEST_SCENARIOS, *numbers.NUMBERS.values()),
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_no_statement_of_the_classic_ranker_reads_a_whole_table(sql: str) -> None:
    filtered: dict[str, object] = {"categories": '["skill"]', "tags": '["api"]', "agent_skills": True}
    values: dict[str, object] = {
        "keywords": '["retry"]',
        "keyword": "retry",
        "short": 1000,
        "ids": "[1]",
        "blocks": "[0]",
        "parts": '["re"]',
    }
    with open_in_memory([make_fragment("a", "Adding retry", tags=("api",))]) as catalog:
        parameters = {**filtered, **values, "points": '{"1": 5}', "min_score": 10, "limit": 5}
        assert full_scans(catalog.db, sql, parameters) == []
