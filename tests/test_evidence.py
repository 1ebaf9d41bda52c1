"""What an index keeps of its fragments for the default ranker: terms, evidence, bodies, topics, synonyms."""

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import POOL, TOPICAL_POOL, TOPICS, WORDS, libraries, open_in_memory, topical_libraries
from support import MakeCatalog, blocks_of, make_fragment, needs_logarithm

from orchestr8_sqlite import runs
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import LengthSums, fragment_texts, hold, read_typical_lengths, weigh
from orchestr8_sqlite.evidence_rows import replace_evidence, write_bytes, write_synonyms
from orchestr8_sqlite.evidence_writer import EvidenceWriter
from orchestr8_sqlite.inversion import invert_terms
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers.expansion import read_request
from orchestr8_sqlite.tiers.explanation import held_forms
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.weights import CAPABILITY, DESCRIPTION, NAME, SCENARIO, TAG, TITLE
from orchestr8_sqlite.wordlists import Synonym
from orchestr8_sqlite.writer import create_schema

EVIDENCE = "SELECT f.name, e.stem, e.fields, e.weight FROM evidence_posting e JOIN fragment f ON f.id = e.fragment_id"
BODIES = "SELECT f.name, b.stem, b.count, b.weight FROM body_posting b JOIN fragment f ON f.id = b.fragment_id"
TOPICS_OF = "SELECT f.name, t.stems FROM topic t JOIN fragment f ON f.id = t.fragment_id"
NAME_SHARES = "SELECT f.name, n.stem, n.share FROM name_posting n JOIN fragment f ON f.id = n.fragment_id"
DETAIL = "SELECT uri, sum(points) FROM evidence_detail WHERE stem IN (SELECT value FROM json_each(?)) GROUP BY uri"

SMALL = (
    make_fragment(
        "retry-calls",
        "Backing off",
        title="Retrying",
        tags=("resilience",),
        capabilities=("Retry budgets",),
        description="Retries",
        body="Retry, retry, retry. Jitter.",
    ),
    make_fragment("timeouts", title="Timeouts", tags=("resilience",), body="Retry never; jitter; jitter."),
    *(make_fragment(f"other{number}", title="Unlike", body="Rest") for number in range(6)),
)
"""Eight fragments. Keywords in all: name 2 + 1 + 6 = 9, title 1 + 1 + 6 = 8, tag 2, capability 2, scenario 1
(off is a stop word), description 1; so the mean lengths are 9/8, 1, 1/4, 1/4, 1/8 and 1/8, and the typical one of
the names is 1."""


Rows = set[tuple[object, ...]]


def rows(db: sqlite3.Connection, sql: str) -> Rows:
    return set(db.execute(sql))


def test_fields_of_a_fragment_are_read_in_words() -> None:
    texts = fragment_texts(make_fragment("a_b-c", "one", "two", tags=("x", "y"), capabilities=("z",), body="text"))
    assert texts == {
        NAME: "a b c", TITLE: "a_b-c", TAG: "x\ny", CAPABILITY: "z", SCENARIO: "one\ntwo", DESCRIPTION: "", 0: "text",
    }  # fmt: skip


def test_typical_length_is_the_mean_over_all_fragments_as_the_nearest_power_of_two() -> None:
    """Nearest as a factor: 2.8 is less than 1.42 times 2, and 2.9 less than 1.42 times less than 4."""
    sums = {NAME: 28, TITLE: 29, TAG: 10, CAPABILITY: 7, SCENARIO: 240, DESCRIPTION: 0}
    assert LengthSums(10, sums).typical == {
        NAME: 2, TITLE: 4, TAG: 1, CAPABILITY: 0.5, SCENARIO: 32, DESCRIPTION: 1,
    }  # fmt: skip
    assert set(LengthSums().typical.values()) == {1.0}


def test_lengths_are_counted_in_and_out_in_the_first_block_alone() -> None:
    sums, first, second = LengthSums(), *(hold(fragment_texts(one)) for one in SMALL[:2])
    for number, held in ((1, first), (65_535, second), (65_536, first)):
        sums.add(number, held.lengths)
    counted = {NAME: 3, TITLE: 2, TAG: 2, CAPABILITY: 2, SCENARIO: 1, DESCRIPTION: 1}
    assert (sums.fragments, sums.sums) == (2, counted)
    sums.add(65_536, first.lengths, -1)
    sums.add(1, first.lengths, -1)
    assert (sums.fragments, sums.sums) == (1, {NAME: 1, TITLE: 1, TAG: 1, CAPABILITY: 0, SCENARIO: 0, DESCRIPTION: 0})


def test_lengths_are_kept_with_the_typical_ones(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*SMALL)
    assert {key: float(value) for key, value in catalog.meta.items() if "length" in key} == {
        "length_sum_32": 9, "length_sum_16": 8, "length_sum_8": 1, "length_sum_4": 1, "length_sum_2": 2,
        "length_sum_1": 2,
        "typical_length_32": 1, "typical_length_16": 1, "typical_length_8": 1 / 8, "typical_length_4": 1 / 8,
        "typical_length_2": 1 / 4, "typical_length_1": 1 / 4,
    }  # fmt: skip
    kept = LengthSums.read(catalog.db)
    assert (kept.fragments, kept.sums[NAME], kept.sums[TAG]) == (8, 9, 2)
    assert kept.typical == read_typical_lengths(catalog.meta)


def test_term_counts_the_fragments_that_hold_it_anywhere_in_short_texts_and_in_topics(
    make_catalog: MakeCatalog,
) -> None:
    found = {stem: counts for stem, *counts in make_catalog(*SMALL).db.execute("SELECT * FROM term")}
    assert {stem: counts for stem, counts in found.items() if not stem.startswith("other")} == {
        "retri": [2, 1, 1], "call": [1, 1, 1], "back": [1, 1, 0], "resili": [2, 2, 2], "budget": [1, 1, 0],
        "jitter": [2, 0, 0], "timeout": [1, 1, 1], "never": [1, 0, 0], "unlik": [6, 6, 6], "rest": [6, 0, 0],
    }  # fmt: skip


def test_weight_is_what_the_fields_and_the_body_give_together(make_catalog: MakeCatalog) -> None:
    """By hand, a field of length n giving weight / (.5 + .5 n / typical) and x of evidence x / (x + 4).

    call    name 6 / (.5 + 1) = 4                                            → 4 / 8 = .5
    retri   name 4, title 4 / 1, capability 2 / (.5 + 4) = .4444, description 2 / (.5 + 4) = .4444,
            body 2 * 3 / 5 = 1.2; in all 10.0889                             → .71609
    resili  tag 4 / (.5 + 2) = 1.6 in both                                   → .28571
    budget  capability .4444                                                 → .1
    back    scenario 2 / (.5 + 4) = .4444                                    → .1
    timeout name 6 / 1, title 4; in all 10                                   → .71429
    """
    found = rows(make_catalog(*SMALL).db, EVIDENCE)
    assert {row for row in found if not str(row[0]).startswith("other")} == {
        ("retry-calls", "call", NAME, 500),
        ("retry-calls", "retri", NAME | TITLE | CAPABILITY | DESCRIPTION, 716),
        ("retry-calls", "resili", TAG, 286),
        ("retry-calls", "budget", CAPABILITY, 100),
        ("retry-calls", "back", SCENARIO, 100),
        ("timeouts", "timeout", NAME | TITLE, 714),
        ("timeouts", "resili", TAG, 286),
    }


def test_bodies_keep_what_no_short_text_holds_and_how_often(make_catalog: MakeCatalog) -> None:
    """One occurrence gives 2 / 3 of evidence and earns .14286 of the rarity, two give 1 and earn .2."""
    assert rows(make_catalog(*SMALL).db, BODIES) == {
        ("retry-calls", "jitter", 1, 143),
        ("timeouts", "jitter", 2, 200),
        ("timeouts", "retri", 1, 143),
        ("timeouts", "never", 1, 143),
        *((f"other{number}", "rest", 1, 143) for number in range(6)),
    }


def test_topic_holds_the_words_that_a_fragment_is_about(make_catalog: MakeCatalog) -> None:
    found = {name: set(stems.split(" ")) for name, stems in make_catalog(*SMALL).db.execute(TOPICS_OF)}
    assert found == {
        "retry-calls": {"retri", "call", "resili"},
        "timeouts": {"timeout", "resili"},
        **{f"other{number}": {f"other{number}", "unlik"} for number in range(6)},
    }


def test_name_share_is_the_part_of_the_letters_of_a_name_that_a_word_has(make_catalog: MakeCatalog) -> None:
    """Of retry-calls, retri has five letters and call four; half a thousandth counts as a whole one."""
    found = rows(make_catalog(*SMALL, make_fragment("go-kubernetes-rollout")).db, NAME_SHARES)
    assert {row for row in found if not str(row[0]).startswith("other")} == {
        ("retry-calls", "retri", 556),
        ("retry-calls", "call", 444),
        ("timeouts", "timeout", 1000),
        ("go-kubernetes-rollout", "go", 118),
        ("go-kubernetes-rollout", "kubernet", 471),
        ("go-kubernetes-rollout", "rollout", 412),
    }


def test_empty_library_and_empty_fragment_have_no_evidence(make_catalog: MakeCatalog) -> None:
    for fragments in ((), (make_fragment("x", title=""),)):
        db = make_catalog(*fragments).db
        assert db.execute("SELECT count(*) FROM term").fetchone() == (0,)
        assert [*rows(db, EVIDENCE), *rows(db, BODIES), *rows(db, NAME_SHARES)] == []
        assert rows(db, TOPICS_OF) == {(fragment.name, "") for fragment in fragments}


def test_weigh_tells_the_same_of_a_fragment_alone_by_the_typical_lengths_of_its_library() -> None:
    typical = {NAME: 1.0, TITLE: 1.0, TAG: 1 / 4, CAPABILITY: 1 / 4, SCENARIO: 1 / 8, DESCRIPTION: 1 / 8}
    held = hold(fragment_texts(SMALL[0]))
    assert weigh(held, typical)["retri"] == (NAME | TITLE | CAPABILITY | DESCRIPTION, 716)
    assert held.fields["retri"] == (NAME | TITLE | CAPABILITY | DESCRIPTION, 3)
    assert held.body == {"jitter": 1}


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries())
def test_name_shares_add_up_to_the_whole_name(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        found = catalog.db.execute(
            "SELECT sum(n.share), count(*), min(e.fields & 32) FROM name_posting n"
            "  JOIN evidence_posting e ON (e.stem, e.fragment_id) = (n.stem, n.fragment_id) GROUP BY n.fragment_id"
        ).fetchall()
    named = [f for f in library if extract_keywords(f.name.replace("-", " ").replace("_", " "))]
    assert len(found) == len(named)
    for total, count, bit in found:
        assert abs(total - 1000) <= count / 2
        assert bit == 32


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries())
def test_every_word_of_a_fragment_has_one_row_and_terms_count_them(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        short = catalog.db.execute("SELECT stem, fragment_id, fields FROM evidence_posting").fetchall()
        body = catalog.db.execute("SELECT stem, fragment_id FROM body_posting").fetchall()
        counts = {stem: tuple(rest) for stem, *rest in catalog.db.execute("SELECT * FROM term")}
    held = [(stem, id_) for stem, id_, _ in short] + body
    assert len(held) == len(set(held))
    everywhere, outside = Counter(stem for stem, _ in held), Counter(stem for stem, _, _ in short)
    topics = Counter(stem for stem, _, fields in short if fields & (NAME | TITLE | TAG))
    assert counts == {stem: (count, outside[stem], topics[stem]) for stem, count in everywhere.items()}


@needs_logarithm
@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries(), word=st.sampled_from([*TOPICS, *WORDS]))
def test_view_shows_what_the_ranker_counts_for_exact_words(library: list[Fragment], word: str) -> None:
    with open_in_memory(library) as catalog:
        reading = read_request(catalog.db, extract_keywords(word))
        exact = [form for form in reading.forms if form.how == "exact"]
        stems = [form.word.stem for form in exact]
        shown = dict(catalog.db.execute(DETAIL, ('["' + '", "'.join(stems) + '"]',)))
        ids = dict(catalog.db.execute("SELECT id, uri FROM fragment"))
        holders = Holders(catalog.db)
        holders.read(reading)
        held = held_forms(reading, holders, list(ids))
    earned = {ids[id_]: sum(one.points for one in forms if one.form in exact) for id_, forms in held.items() if forms}
    assert {uri: points for uri, points in earned.items() if points} == pytest.approx(shown)


@needs_logarithm
def test_view_reproduces_the_score_of_a_word_that_nothing_else_adds_to(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*SMALL)
    rarity = math.log(1 + 6.5 / 2.5)
    shown = dict(catalog.db.execute(DETAIL, ('["jitter"]',)))
    assert shown == pytest.approx({
        "orchestr8://skills/retry-calls": 0.143 * rarity,
        "orchestr8://skills/timeouts": 0.2 * rarity,
    })  # fmt: skip
    catalog = make_catalog(*SMALL[2:], make_fragment("a", title="Sundry", capabilities=("Budgets",)))
    found = find(catalog, MatchRequest("budget", min_score=0, explain=True))
    (budget,) = catalog.db.execute("SELECT points FROM evidence_detail WHERE stem = 'budget'").fetchone()
    score = 100 * budget / (budget + 0.5 * math.log(1 + 6.5 / 1.5))
    assert found.candidates[0].score == pytest.approx(score, abs=0.005)
    assert [(part.how, part.points) for part in found.parts[found.candidates[0].fragment_id]] == [
        ("exact", found.candidates[0].score)
    ]


@needs_logarithm
@settings(max_examples=25, deadline=None)
@given(library=topical_libraries(), word=st.sampled_from(TOPICS))
def test_view_reproduces_what_an_explained_word_earns(library: list[Fragment], word: str) -> None:
    """The score is a scale of its own, so what is compared is the part that the word has in it."""
    with open_in_memory(library) as catalog:
        found = find(catalog, MatchRequest(word, min_score=0, max_results=100, explain=True))
        reading = read_request(catalog.db, extract_keywords(word))
        shown = dict(catalog.db.execute(DETAIL, (f'["{reading.words[0].stem}"]',)))
    half = 0.5 * reading.words[0].rarity
    for candidate in found.candidates:
        exact = [part.points for part in found.parts[candidate.fragment_id] if part.how == "exact"]
        if exact:
            total = half * candidate.score / (100 - candidate.score)
            assert sum(exact) * total / candidate.score == pytest.approx(shown[candidate.uri], rel=0.01, abs=0.001)


@needs_logarithm
def test_view_shows_no_word_of_a_body_that_bodies_are_not_searched_for(make_catalog: MakeCatalog) -> None:
    db = make_catalog(*SMALL).db
    assert db.execute("SELECT count(*) FROM evidence_detail WHERE stem = 'rest'").fetchone() == (0,)  # six of eight


@needs_logarithm
def test_view_names_the_fields(make_catalog: MakeCatalog) -> None:
    shown = make_catalog(*SMALL).db.execute("SELECT uri, fields, weight FROM evidence_detail WHERE stem = 'retri'")
    assert set(shown) == {
        ("orchestr8://skills/retry-calls", "name title capability description", 0.716),
        ("orchestr8://skills/timeouts", "body", 0.143),
    }


def test_synonyms_are_kept_whether_the_index_knows_their_forms_or_not(make_catalog: MakeCatalog) -> None:
    slots = (frozenset({"slow", "laggi"}), frozenset({"site"}))
    with open_in_memory(SMALL) as catalog:
        known = Synonym(slots, ("absent", "resili"), "related")
        write_synonyms(catalog.db, [known, Synonym((frozenset({"retri"}),), ("call",), "synonym")])
        assert rows(catalog.db, "SELECT stem, synonym_id, slot, slots FROM synonym_word") == {
            ("slow", 1, 0, 2), ("laggi", 1, 0, 2), ("site", 1, 1, 2), ("retri", 2, 0, 1),
        }  # fmt: skip
        assert rows(catalog.db, "SELECT synonym_id, ordinal, how, stem FROM synonym_form") == {
            (1, 0, "related", "absent"), (1, 1, "related", "resili"), (2, 0, "synonym", "call"),
        }  # fmt: skip


# Fragments that come and go, and lists in several blocks


def evidence_of(db: sqlite3.Connection, paths: Mapping[int, str], block: int = 1 << 16) -> dict[str, Rows]:
    """Return terms, evidence and topics by the paths of fragments; the views count 65,536 numbers a block."""

    def path(id_: int) -> str:
        return paths[block * (id_ // 65_536) + id_ % 65_536]

    found: dict[str, Rows] = {"term": rows(db, "SELECT * FROM term")}
    for view in ("evidence_posting", "name_posting", "body_posting"):
        known = [(path(id_), *row) for id_, *row in db.execute(f"SELECT fragment_id, * FROM {view}")]
        found[view] = {tuple(value for at, value in enumerate(row) if at != 2) for row in known}
        assert len(found[view]) == len(known)
    found["topic"] = {(paths[id_], stems) for id_, stems in db.execute("SELECT * FROM topic")}
    found["meta"] = rows(db, "SELECT * FROM meta WHERE key LIKE '%length%'")
    return found


def write_evidence(fragments: Mapping[int, Fragment]) -> sqlite3.Connection:
    """Return a database with the evidence of fragments by their numbers, which the caller closes."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(db)
    write_bytes(db)
    writer = EvidenceWriter(db)
    held = [(number, hold(fragment_texts(fragment))) for number, fragment in sorted(fragments.items())]
    for batch in (held[:2], held[2:]):
        writer.add([number for number, _ in batch], invert_terms([one for _, one in batch]))
    writer.close()
    return db


def edits() -> st.SearchStrategy[list[tuple[int, Fragment | None]]]:
    """Return one to four edits at a time: (number of a place, the fragment that is put there, None to take it out)."""
    pool = [*POOL[:50], *TOPICAL_POOL[:50]]
    fragments = st.integers(0, len(pool) - 1).map(lambda drawn: pool[drawn])
    edit = st.tuples(st.integers(1, 12), st.none() | fragments)
    return st.lists(edit, min_size=1, max_size=4, unique_by=lambda edit: edit[0])


@settings(max_examples=30, deadline=None)
@given(library=libraries() | topical_libraries(most=12), block=st.sampled_from([2, 5, 1 << 16]))
def test_evidence_is_the_same_however_little_of_it_is_in_memory(library: list[Fragment], block: int) -> None:
    numbered = dict(enumerate(library, start=1))
    with blocks_of(block), closing(write_evidence(numbered)) as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MOST_KEYS", 3)
        with closing(write_evidence(numbered)) as other:
            for table in ("term", "evidence", "body_evidence", "topic", "meta"):
                sql = f"SELECT * FROM {table}"
                assert other.execute(sql).fetchall() == db.execute(sql).fetchall()


@settings(max_examples=40, deadline=None)
@given(
    library=libraries() | topical_libraries(most=12),
    sequence=st.lists(edits(), min_size=1, max_size=6),
    block=st.sampled_from([2, 5, 1 << 16]),
)
def test_evidence_after_any_edits_is_that_of_the_last_library(
    library: list[Fragment], sequence: Sequence[list[tuple[int, Fragment | None]]], block: int
) -> None:
    """Edits that change a typical length are left out: with them all evidence is written anew."""
    now = dict(enumerate(library, start=1))
    with blocks_of(block), closing(write_evidence(now)) as db:
        lengths = LengthSums()
        for number, fragment in now.items():
            lengths.add(number, hold(fragment_texts(fragment)).lengths)
        for edits_ in sequence:
            then = {n: one for n, one in (now | dict(edits_)).items() if one is not None}
            gone, come = ([(n, hold(fragment_texts(side[n]))) for n, _ in edits_ if n in side] for side in (now, then))
            after = LengthSums(lengths.fragments, lengths.sums)
            for change, fragments in ((-1, gone), (1, come)):
                for number, held in fragments:
                    after.add(number, held.lengths, change)
            if after.typical == lengths.typical:
                was, now_held = dict(gone), dict(come)
                numbers = dict.fromkeys(number for number, _ in (*gone, *come))
                replaced = [(n, was.get(n), now_held.get(n)) for n in numbers]
                replace_evidence(db, replaced, lengths.typical)
                now, lengths = then, after
        lengths.write(db)
        found = evidence_of(db, named(now), block)
        with closing(write_evidence(now)) as scratch:
            assert found == evidence_of(scratch, named(now), block)
    if block > max(now, default=0):  # else other fragments are in the first block, which lengths are counted of
        renumbered = dict(enumerate(sorted(now.values(), key=lambda one: one.id), start=1))
        with closing(write_evidence(renumbered)) as scratch:
            assert unplaced(found) == unplaced(evidence_of(scratch, named(renumbered)))


def named(fragments: Mapping[int, Fragment]) -> dict[int, str]:
    """Return what to call the fragment of each number; edits put the same one in several places."""
    return {number: f"{number}/{fragment.id}" for number, fragment in fragments.items()}


def unplaced(found: Mapping[str, Rows]) -> dict[str, list[str]]:
    """Return the rows of *found* without the numbers that `named` put before the paths."""

    def plain(row: tuple[object, ...]) -> str:
        return repr((str(row[0]).partition("/")[2] or row[0], *row[1:]))

    return {table: sorted(map(plain, rows_)) for table, rows_ in found.items()}


@settings(max_examples=40, deadline=None)
@given(library=libraries() | topical_libraries(), block=st.integers(2, 9), gap=st.integers(0, 20))
def test_lists_in_several_blocks_say_what_one_block_says(library: list[Fragment], block: int, gap: int) -> None:
    """Where the typical lengths are the same: they are those of the first block. A block may hold nothing at all."""
    numbered = {number + gap * (number > len(library) // 2): one for number, one in enumerate(library, start=1)}
    with closing(write_evidence(numbered)) as db:
        whole = evidence_of(db, named(numbered))
        typical = rows(db, "SELECT * FROM meta WHERE key LIKE 'typical%'")
    with blocks_of(block), closing(write_evidence(numbered)) as db:
        parts = evidence_of(db, named(numbered), block)
        if rows(db, "SELECT * FROM meta WHERE key LIKE 'typical%'") != typical:
            parts["evidence_posting"] = {row[:-1] for row in parts["evidence_posting"]}
            whole["evidence_posting"] = {row[:-1] for row in whole["evidence_posting"]}
        blocks = rows(db, "SELECT block FROM evidence UNION SELECT block FROM body_evidence")
    del whole["meta"], parts["meta"]
    assert parts == whole
    assert blocks <= {(number // block,) for number in numbered}
