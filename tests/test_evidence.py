"""What an index keeps of its fragments for the default ranker: terms, evidence, bodies, topics, synonyms."""

import math
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TOPICS, WORDS, libraries, open_in_memory, topical_libraries
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import average_lengths, fragment_texts, hold, weigh, write_synonyms
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers.expansion import read_request
from orchestr8_sqlite.tiers.explanation import held_forms
from orchestr8_sqlite.tiers.weights import CAPABILITY, DESCRIPTION, NAME, SCENARIO, TAG, TITLE
from orchestr8_sqlite.wordlists import Synonym

EVIDENCE = """
SELECT f.name, t.stem, e.fields, e.weight
  FROM evidence e JOIN term t ON t.id = e.term_id JOIN fragment f ON f.id = e.fragment_id
"""
BODIES = """
SELECT f.name, t.stem, b.weight
  FROM body_evidence b JOIN term t ON t.id = b.term_id JOIN fragment f ON f.id = b.fragment_id
"""
TOPIC = "SELECT f.name, t.stem FROM topic o JOIN term t ON t.id = o.term_id JOIN fragment f ON f.id = o.fragment_id"
NAME_SHARES = """
SELECT f.name, t.stem, e.name_share
  FROM evidence e JOIN term t ON t.id = e.term_id JOIN fragment f ON f.id = e.fragment_id WHERE e.name_share
"""
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
(off is a stop word), description 1; so the average lengths are 9/8, 1, 1/4, 1/4, 1/8 and 1/8."""


def rows(db: sqlite3.Connection, sql: str) -> set[tuple[object, ...]]:
    return set(db.execute(sql))


def test_fields_of_a_fragment_are_read_in_words() -> None:
    texts = fragment_texts(make_fragment("a_b-c", "one", "two", tags=("x", "y"), capabilities=("z",), body="text"))
    assert texts == {
        NAME: "a b c", TITLE: "a_b-c", TAG: "x\ny", CAPABILITY: "z", SCENARIO: "one\ntwo", DESCRIPTION: "", 0: "text",
    }  # fmt: skip


def test_average_length_counts_keywords_over_all_fragments() -> None:
    averages = average_lengths([hold(fragment_texts(one)) for one in SMALL])
    assert averages == {NAME: 9 / 8, TITLE: 1, TAG: 1 / 4, CAPABILITY: 1 / 4, SCENARIO: 1 / 8, DESCRIPTION: 1 / 8}
    assert set(average_lengths([]).values()) == {0.0}


def test_average_lengths_are_kept_as_they_were(make_catalog: MakeCatalog) -> None:
    meta = make_catalog(*SMALL).meta
    assert {key: float(meta[key]) for key in meta if key.startswith("average_length_")} == {
        "average_length_32": 9 / 8,
        "average_length_16": 1.0,
        "average_length_1": 1 / 4,
        "average_length_2": 1 / 4,
        "average_length_4": 1 / 8,
        "average_length_8": 1 / 8,
    }


def test_term_counts_the_fragments_that_hold_it_anywhere(make_catalog: MakeCatalog) -> None:
    db = make_catalog(*SMALL).db
    counts = dict(db.execute("SELECT stem, fragment_count FROM term"))
    assert {stem: count for stem, count in counts.items() if not stem.startswith("other")} == {
        "retri": 2, "call": 1, "back": 1, "resili": 2, "budget": 1, "jitter": 2, "timeout": 1, "never": 1,
        "unlik": 6, "rest": 6,
    }  # fmt: skip
    assert [id_ for (id_,) in db.execute("SELECT id FROM term ORDER BY id")] == list(range(1, len(counts) + 1))


def test_term_is_as_rare_as_few_fragments_hold_it(make_catalog: MakeCatalog) -> None:
    found = {
        stem: rest for stem, *rest in make_catalog(*SMALL).db.execute("SELECT stem, rarity, topic_rarity FROM term")
    }
    assert found["retri"] == pytest.approx([math.log(1 + 6.5 / 2.5), math.log(8.5 / 1.5)])
    assert found["resili"] == pytest.approx([math.log(1 + 6.5 / 2.5), math.log(8.5 / 2.5)])
    assert found["unlik"] == pytest.approx([math.log(1 + 2.5 / 6.5), math.log(8.5 / 6.5)])
    assert found["jitter"][1] == pytest.approx(math.log(8.5 / 0.5))


def test_weight_is_what_the_fields_and_the_body_give_together(make_catalog: MakeCatalog) -> None:
    """By hand, a field of length n giving weight / (.5 + .5 n / average) and x of evidence x / (x + 4).

    call    name 6 / (.5 + 1/1.125) = 4.32                                   → 4.32 / 8.32 = .51923
    retri   name 4.32, title 4 / 1, capability 2 / (.5 + 4) = .4444, description 2 / (.5 + 4) = .4444,
            body 2 * 3 / 5 = 1.2; in all 10.4089                             → .72239
    resili  tag 4 / (.5 + 2) = 1.6 in both                                   → .28571
    budget  capability .4444                                                 → .1
    back    scenario 2 / (.5 + 4) = .4444                                    → .1
    timeout name 6 / (.5 + .5 / 1.125) = 6.3529, title 4; in all 10.3529     → .72131
    """
    found = rows(make_catalog(*SMALL).db, EVIDENCE)
    assert {row for row in found if not str(row[0]).startswith("other")} == {
        ("retry-calls", "call", NAME, 519),
        ("retry-calls", "retri", NAME | TITLE | CAPABILITY | DESCRIPTION, 722),
        ("retry-calls", "resili", TAG, 286),
        ("retry-calls", "budget", CAPABILITY, 100),
        ("retry-calls", "back", SCENARIO, 100),
        ("timeouts", "timeout", NAME | TITLE, 721),
        ("timeouts", "resili", TAG, 286),
    }


def test_bodies_keep_what_no_field_holds_and_at_most_a_quarter_of_the_fragments(make_catalog: MakeCatalog) -> None:
    """One occurrence gives 2 / 3 of evidence and earns .14286 of the rarity, two give 1 and earn .2; six of eight
    fragments hold "rest"."""
    assert rows(make_catalog(*SMALL).db, BODIES) == {
        ("retry-calls", "jitter", 143),
        ("timeouts", "jitter", 200),
        ("timeouts", "retri", 143),
        ("timeouts", "never", 143),
    }


def test_topic_holds_the_words_that_two_fragments_are_about(make_catalog: MakeCatalog) -> None:
    assert rows(make_catalog(*SMALL).db, TOPIC) == {
        ("retry-calls", "resili"),
        ("timeouts", "resili"),
        *((f"other{number}", "unlik") for number in range(6)),
    }


def test_name_share_is_the_part_of_the_name_that_a_word_is(make_catalog: MakeCatalog) -> None:
    """Of retry-calls, retri weighs ln(3.6) = 1.28093 and call ln(6) = 1.79176: .41687 and .58313 of 3.07269."""
    found = rows(make_catalog(*SMALL).db, NAME_SHARES)
    assert {row for row in found if not str(row[0]).startswith("other")} == {
        ("retry-calls", "retri", 417),
        ("retry-calls", "call", 583),
        ("timeouts", "timeout", 1000),
    }


def test_empty_library_and_empty_fragment_have_no_evidence(make_catalog: MakeCatalog) -> None:
    for fragments in ((), (make_fragment("x", title=""),)):
        db = make_catalog(*fragments).db
        assert db.execute("SELECT count(*) FROM term").fetchone() == (0,)
        assert [*rows(db, EVIDENCE), *rows(db, BODIES), *rows(db, TOPIC)] == []


def test_weigh_tells_the_same_of_a_fragment_alone_by_the_averages_of_its_library() -> None:
    averages = average_lengths([hold(fragment_texts(one)) for one in SMALL])
    found = {stem: (fields, weight) for stem, fields, weight in weigh(fragment_texts(SMALL[0]), averages)}
    assert found["retri"] == (NAME | TITLE | CAPABILITY | DESCRIPTION, 722)
    assert found["jitter"] == (0, 143)


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries())
def test_name_shares_add_up_to_the_whole_name(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        found = catalog.db.execute(
            "SELECT sum(name_share), count(*), min(fields & 32) FROM evidence WHERE name_share GROUP BY fragment_id"
        ).fetchall()
    named = [f for f in library if extract_keywords(f.name.replace("-", " ").replace("_", " "))]
    assert len(found) == len(named)
    for total, count, bit in found:
        assert abs(total - 1000) <= count / 2
        assert bit == 32


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries())
def test_every_word_of_a_fragment_has_one_row_unless_only_bodies_hold_it_too_often(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        held = catalog.db.execute(
            "SELECT term_id, fragment_id FROM evidence UNION ALL SELECT term_id, fragment_id FROM body_evidence"
        ).fetchall()
        counts = dict(catalog.db.execute("SELECT id, fragment_count FROM term"))
    assert len(held) == len(set(held))
    for term_id, count in counts.items():
        rows_ = sum(one == term_id for one, _ in held)
        assert rows_ == count or (rows_ < count and count > len(library) / 4)


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries(), word=st.sampled_from([*TOPICS, *WORDS]))
def test_view_shows_what_the_ranker_counts_for_exact_words(library: list[Fragment], word: str) -> None:
    with open_in_memory(library) as catalog:
        reading = read_request(catalog.db, extract_keywords(word))
        exact = [form for form in reading.forms if form.how == "exact"]
        stems = [form.word.stem for form in exact]
        shown = dict(catalog.db.execute(DETAIL, ('["' + '", "'.join(stems) + '"]',)))
        ids = dict(catalog.db.execute("SELECT id, uri FROM fragment"))
        held = held_forms(catalog.db, reading, list(ids))
    earned = {ids[id_]: sum(one.points for one in forms if one.form in exact) for id_, forms in held.items() if forms}
    assert {uri: points for uri, points in earned.items() if points} == pytest.approx(shown)


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


def test_view_names_the_fields(make_catalog: MakeCatalog) -> None:
    shown = make_catalog(*SMALL).db.execute("SELECT uri, fields, weight FROM evidence_detail WHERE stem = 'retri'")
    assert set(shown) == {
        ("orchestr8://skills/retry-calls", "name title capability description", 0.722),
        ("orchestr8://skills/timeouts", "body", 0.143),
    }


def test_synonyms_are_kept_with_the_place_of_the_forms_that_the_index_knows(make_catalog: MakeCatalog) -> None:
    slots = (frozenset({"slow", "laggi"}), frozenset({"site"}))
    with open_in_memory(SMALL) as catalog:
        write_synonyms(
            catalog.db,
            [
                Synonym(slots, ("absent", "resili", "jitter", "timeout"), "related"),
                Synonym(slots, ("absent", "jitter"), "related"),
                Synonym((frozenset({"retri"}),), ("call",), "synonym"),
            ],
        )
        assert rows(catalog.db, "SELECT * FROM synonym") == {(1, "related", 2), (2, "synonym", 1)}
        assert rows(catalog.db, "SELECT * FROM synonym_word") == {
            ("slow", 1, 0), ("laggi", 1, 0), ("site", 1, 1), ("retri", 2, 0),
        }  # fmt: skip
        assert rows(
            catalog.db, "SELECT synonym_id, ordinal, stem FROM synonym_form f JOIN term t ON t.id = f.term_id"
        ) == {(1, 1, "resili"), (1, 3, "timeout"), (2, 0, "call")}
