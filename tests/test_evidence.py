"""What an index keeps of its fragments for the default ranker: keywords, postings, counts, topics, lengths."""

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing

import pytest
from beginnings import begin_empty
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import TOPIC, Oracle, cut, stemmed, stems
from strategies import (
    POOL,
    TOPICAL_POOL,
    libraries,
    open_in_memory,
    topical_libraries,
    with_twins,
)
from support import MakeCatalog, make_fragment, write_fragments

from orchestr8_sqlite.builder.writer import IndexWriter, OtherLengths, prepare, write_synonyms
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking.evidence import fragment_texts, read_typical_lengths
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.weights import CAPABILITY, DESCRIPTION, FIELD_WEIGHTS, NAME, SCENARIO, TAG, TITLE
from orchestr8_sqlite.text.keywords import extract_keywords, iterate_keywords
from orchestr8_sqlite.text.wordlists import Synonym

FIELDS = """
SELECT f.path, k.text, p.fields, p.weight
  FROM field_posting p JOIN keyword k ON k.id = p.keyword_id JOIN fragment f ON f.id = p.fragment_id
"""
POSTINGS = """
SELECT f.path, k.text, p.ordinal
  FROM posting p JOIN keyword k ON k.id = p.keyword_id JOIN fragment f ON f.id = p.fragment_id
"""
KEYWORDS = "SELECT text, stem, scenario_count, fragment_count FROM keyword"
STEMS = "SELECT stem, fragment_count, topic_count, topic_rarity FROM rank_stem"
TOPICS_OF = "SELECT f.path, t.stem, t.share FROM rank_topic t JOIN fragment f ON f.id = t.fragment_id"
LENGTHS = """
SELECT f.path, l.name, l.title, tag, capability, scenario, l.description
  FROM rank_length l JOIN fragment f ON f.id = l.fragment_id
"""
TOKENS = "SELECT f.path, i.term, i.col, i.offset FROM temp.instance i JOIN fragment f ON f.id = i.doc"
ALIKE = "INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)"

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
    """Return the rows of a statement, none of which comes twice."""
    found = db.execute(sql).fetchall()
    assert len(set(found)) == len(found)
    return set(found)


def of_the_first_two(found: Rows) -> Rows:
    """Return *found* without the rows of the fragments that are alike."""
    return {
        tuple(str(value).removeprefix("skills/") if at == 0 else value for at, value in enumerate(row))
        for row in found
        if "other" not in str(row[0])
    }


# By hand


def test_fields_of_a_fragment_are_read_in_words() -> None:
    texts = fragment_texts(make_fragment("a_b-c", "one", "two", tags=("x", "y"), capabilities=("z",), body="text"))
    assert texts == {
        NAME: "a b c", TITLE: "a_b-c", TAG: "x\ny", CAPABILITY: "z", SCENARIO: "one\ntwo", DESCRIPTION: "", 0: "text",
    }  # fmt: skip


@pytest.mark.parametrize(("words", "typical"), [(28, 2), (29, 4), (10, 1), (7, 0.5), (240, 32), (0, 1)])
def test_typical_length_is_the_mean_over_all_fragments_as_the_nearest_power_of_two(
    make_catalog: MakeCatalog, words: int, typical: float
) -> None:
    """Of ten fragments. Nearest as a factor: 2.8 is less than 1.41 times 2, and 2.9 no longer."""
    first = make_fragment("a", description="retry " * words)
    catalog = make_catalog(first, *(make_fragment(f"b{number}") for number in range(9)))
    assert read_typical_lengths(catalog.meta)[DESCRIPTION] == typical


def test_lengths_of_texts_are_kept(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*SMALL)
    assert of_the_first_two(rows(catalog.db, LENGTHS)) == {
        ("retry-calls", 2, 1, 1, 2, 1, 1),
        ("timeouts", 1, 1, 1, 0, 0, 0),
    }
    assert read_typical_lengths(catalog.meta) == {
        NAME: 1, TITLE: 1, TAG: 1 / 4, CAPABILITY: 1 / 4, SCENARIO: 1 / 8, DESCRIPTION: 1 / 8,
    }  # fmt: skip


def test_stem_counts_the_fragments_that_hold_it_anywhere_and_in_topics(make_catalog: MakeCatalog) -> None:
    """Its topic rarity is ln(8.5 / (topics + .5))."""
    found = {row for row in rows(make_catalog(*SMALL).db, STEMS) if not str(row[0]).startswith("other")}
    rare, common = round(1000 * math.log(8.5 / 1.5)), round(1000 * math.log(8.5 / 6.5))
    assert found == {
        ("retri", 2, 1, rare), ("call", 1, 1, rare), ("back", 1, 0, 0), ("budget", 1, 0, 0), ("timeout", 1, 1, rare),
        ("resili", 2, 2, round(1000 * math.log(8.5 / 2.5))), ("unlik", 6, 6, common),
    }  # fmt: skip


def test_keyword_counts_the_scenarios_and_fragments_that_hold_it(make_catalog: MakeCatalog) -> None:
    found = {row for row in rows(make_catalog(*SMALL).db, KEYWORDS) if not str(row[0]).startswith("other")}
    assert found == {
        ("retry", "retri", 0, 1), ("retrying", "retri", 0, 1), ("retries", "retri", 0, 1), ("calls", "call", 0, 1),
        ("backing", "back", 1, 1), ("resilience", "resili", 0, 2), ("budgets", "budget", 0, 1),
        ("timeouts", "timeout", 0, 1), ("unlike", "unlik", 0, 6),
    }  # fmt: skip


def test_weight_is_what_the_fields_give_together_and_stands_at_the_first_keyword_of_a_stem(
    make_catalog: MakeCatalog,
) -> None:
    """By hand, a field of length n giving weight / (.5 + .5 n / typical) and x of evidence x / (x + 4).

    call    name 6 / (.5 + 1) = 4                                            → 4 / 8 = .5
    retri   name 4, title 4 / 1, capability 2 / (.5 + 4) = .4444, description 2 / (.5 + 4) = .4444;
            in all 8.8889                                                    → .68966
    resili  tag 4 / (.5 + 2) = 1.6 in both                                   → .28571
    budget  capability .4444                                                 → .1
    back    scenario 2 / (.5 + 4) = .4444                                    → .1
    timeout name 6 / 1, title 4; in all 10                                   → .71429
    """
    assert of_the_first_two(rows(make_catalog(*SMALL).db, FIELDS)) == {
        ("retry-calls", "calls", NAME, 500),
        ("retry-calls", "retry", NAME | CAPABILITY, 690),
        ("retry-calls", "retrying", TITLE, 0),
        ("retry-calls", "retries", DESCRIPTION, 0),
        ("retry-calls", "resilience", TAG, 286),
        ("retry-calls", "budgets", CAPABILITY, 100),
        ("retry-calls", "backing", SCENARIO, 100),
        ("timeouts", "timeouts", NAME | TITLE, 714),
        ("timeouts", "resilience", TAG, 286),
    }


def test_postings_tell_the_place_of_each_scenario_that_holds_a_keyword(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Retry a call", "Call, call again"), make_fragment("b", "Retry"))
    assert rows(catalog.db, POSTINGS) == {
        ("skills/a", "retry", 0), ("skills/a", "call", 0), ("skills/a", "call", 1), ("skills/a", "again", 1),
        ("skills/b", "retry", 0),
    }  # fmt: skip


def test_topic_holds_the_words_that_a_fragment_is_about_with_their_share_of_the_name(
    make_catalog: MakeCatalog,
) -> None:
    """Of retry-calls, retri has five letters and call four; half a thousandth counts as a whole one."""
    found = rows(make_catalog(*SMALL, make_fragment("go-kubernetes-rollout", title="x")).db, TOPICS_OF)
    assert of_the_first_two(found) == {
        ("retry-calls", "retri", 556), ("retry-calls", "call", 444), ("retry-calls", "resili", 0),
        ("timeouts", "timeout", 1000), ("timeouts", "resili", 0),
        ("go-kubernetes-rollout", "go", 118), ("go-kubernetes-rollout", "kubernet", 471),
        ("go-kubernetes-rollout", "rollout", 412),
    }  # fmt: skip


def test_empty_library_and_empty_fragment_have_no_evidence(make_catalog: MakeCatalog) -> None:
    for fragments in ((), (make_fragment("x", title=""),)):
        db = make_catalog(*fragments).db
        assert [sql for sql in (KEYWORDS, FIELDS, POSTINGS, STEMS, TOPICS_OF) if rows(db, sql)] == []


def test_view_names_the_fields(make_catalog: MakeCatalog) -> None:
    db = make_catalog(*SMALL).db
    shown = rows(db, "SELECT keyword, uri, fields, weight FROM field_detail WHERE stem = 'retri'")
    assert shown == {
        ("retry", "orchestr8://skills/retry-calls", "name capability", 690),
        ("retrying", "orchestr8://skills/retry-calls", "title", 0),
        ("retries", "orchestr8://skills/retry-calls", "description", 0),
    }


def test_weights_of_the_view_make_the_score_of_a_word_that_nothing_else_adds_to(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*SMALL[2:], make_fragment("a", title="Sundry", capabilities=("Budgets",)))
    (weight,) = catalog.db.execute("SELECT weight FROM field_detail WHERE keyword = 'budgets'").fetchone()
    found = find(catalog, MatchRequest("budget", min_score=0, explain=True))
    rarity = math.log(1 + 6.5 / 1.5)
    points = 1.6 * weight / 1000 * rarity  # the only match has the largest focus
    score = 100 * points / (points + 0.5 * rarity)
    assert found.candidates[0].score == pytest.approx(score, abs=0.005)
    stem, focus = found.parts[found.candidates[0].fragment_id]
    assert (stem.how, focus.how) == ("stem", "focus")
    assert focus.points / stem.points == pytest.approx(0.6, abs=0.002)


def test_synonyms_are_kept_whether_the_index_knows_their_forms_or_not() -> None:
    slots = (frozenset({"slow", "laggi"}), frozenset({"site"}))
    with open_in_memory(SMALL) as catalog:
        known = Synonym(slots, ("absent", "resili"), "related")
        write_synonyms(catalog.db, [known, Synonym((frozenset({"retri"}),), ("call",), "synonym")])
        assert rows(catalog.db, "SELECT stem, synonym_id, slot, slots FROM rank_synonym_word") == {
            ("slow", 1, 0, 2), ("laggi", 1, 0, 2), ("site", 1, 1, 2), ("retri", 2, 0, 1),
        }  # fmt: skip
        assert rows(catalog.db, "SELECT synonym_id, ordinal, how, stem FROM rank_synonym_form") == {
            (1, 0, "related", "absent"), (1, 1, "related", "resili"), (2, 0, "synonym", "call"),
        }  # fmt: skip


# Against a naive reading of the texts


def naive_rows(library: Sequence[Fragment]) -> dict[str, Rows]:
    """Return the rows of FIELDS, POSTINGS, KEYWORDS, STEMS and TOPICS_OF, by reading each fragment by itself."""
    oracle = Oracle(library)
    fields: Rows = set()
    for at, fragment in enumerate(library):
        first: set[str] = set()
        keywords = {keyword: None for bit in FIELD_WEIGHTS for keyword in iterate_keywords(oracle.fields[at][bit])}
        for keyword in keywords:
            bits = sum(bit for bit, text in oracle.fields[at].items() if keyword in extract_keywords(text))
            is_first = stemmed(keyword) not in first
            first.add(stemmed(keyword))
            fields.add((fragment.id, keyword, bits, oracle.weight(at, stemmed(keyword)) if is_first else 0))
    postings: Rows = {
        (fragment.id, keyword, place)
        for fragment in library
        for place, line in enumerate(fragment.use_when)
        for keyword in extract_keywords(line)
    }
    in_scenarios = Counter(keyword for _, keyword, _ in postings)
    counts: Rows = {(word, stemmed(word), in_scenarios[word], used) for word, used in oracle.used.items()}
    rare = {
        stem: oracle.to_whole(1000 * math.log((len(library) + 0.5) / (count + 0.5)))
        for stem, count in oracle.topic_counts.items()
    }
    stems_: Rows = {
        (stem, oracle.count(words[0]), oracle.topic_counts[stem], rare.get(stem, 0))
        for stem, words in oracle.keywords.items()
    }
    topics: Rows = {
        (fragment.id, stem, round(1000 * oracle.name_share(at, {stem})))
        for at, fragment in enumerate(library)
        for stem in {stem for bit in TOPIC for stem in stems(oracle.fields[at][bit])}
    }
    found = {FIELDS: fields, POSTINGS: postings, KEYWORDS: counts, STEMS: stems_, TOPICS_OF: topics}
    return found if oracle.clear else {}


@settings(max_examples=60)
@given(library=with_twins(libraries() | topical_libraries()))
def test_rows_are_those_of_a_look_at_every_text(library: list[Fragment]) -> None:
    expected = naive_rows(library)
    with open_in_memory(library) as catalog:
        assert {sql: rows(catalog.db, sql) for sql in expected} == expected


@settings(max_examples=25)
@given(library=libraries() | topical_libraries())
def test_name_shares_add_up_to_the_whole_name(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        found = catalog.db.execute(
            "SELECT sum(share), count(*) FROM rank_topic WHERE share > 0 GROUP BY fragment_id"
        ).fetchall()
    named = [f for f in library if extract_keywords(f.name.replace("-", " ").replace("_", " "))]
    assert len(found) == len(named)
    assert all(abs(total - 1000) <= count / 2 for total, count in found)


@settings(max_examples=25)
@given(
    library=libraries() | topical_libraries(),
    word=st.sampled_from("user setUserId 試行 再試行 node.js c++ ci/cd Müller cache kubernetes technology js".split()),
)
def test_full_text_finds_what_fragments_hold_in_any_field(library: list[Fragment], word: str) -> None:
    texts = {one.id: "\n".join(fragment_texts(one).values()) for one in library}
    with open_in_memory(library) as catalog:
        found = catalog.db.execute(
            "SELECT f.path FROM fragment_text t JOIN fragment f ON f.id = t.rowid WHERE fragment_text MATCH ?",
            (f'"{word}"',),
        ).fetchall()
        for table in ("fragment_text", "keyword_text"):
            catalog.db.execute(ALIKE.format(table=table))
    keywords = {id_: {stemmed(keyword) for keyword in iterate_keywords(text)} for id_, text in texts.items()}
    assert {path for (path,) in found} >= {id_ for id_, held in keywords.items() if stemmed(word.casefold()) in held}
    assert all(set(cut(word)) <= set(cut(f"{texts[path]} {' '.join(keywords[path])}")) for (path,) in found)


# Fragments that come and go


def evidence_of(db: sqlite3.Connection) -> dict[str, Rows]:
    """Return all that is kept, by the paths of fragments, and see that what FTS5 has is what the tables have."""
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instance USING fts5vocab (main, fragment_text, instance)")
    for table in ("fragment_text", "keyword_text"):
        db.execute(ALIKE.format(table=table))
    return {sql: rows(db, sql) for sql in (FIELDS, POSTINGS, KEYWORDS, STEMS, TOPICS_OF, LENGTHS, TOKENS)}


def edits() -> st.SearchStrategy[list[tuple[int, Fragment | None]]]:
    """Return one to four edits at a time: (number of a fragment, the one that takes its place, None for no other)."""
    pool = st.sampled_from([*POOL[:50], *TOPICAL_POOL[:50]])
    return st.lists(st.tuples(st.integers(0, 30), st.none() | pool), min_size=1, max_size=4)


@settings(max_examples=60)
@given(library=libraries() | topical_libraries(most=12), sequence=st.lists(edits(), min_size=1, max_size=5))
def test_evidence_after_any_edits_is_that_of_the_last_library(
    library: list[Fragment], sequence: Sequence[list[tuple[int, Fragment | None]]]
) -> None:
    """Where an edit changes a typical length, all is written anew."""
    now = {fragment.id: fragment for fragment in library}
    with closing(written(now)) as first:
        db = first
        for edits_ in sequence:
            gone, come = {}, {}
            for number, fragment in edits_:
                old = sorted(now)[number % len(now)] if now else ""
                gone.update({id_: now[id_] for id_ in (old, fragment.id if fragment else "") if id_ in now})
                come.update({fragment.id: fragment} if fragment else {})
            now = {**{id_: one for id_, one in now.items() if id_ not in gone}, **come}
            try:
                edit(db, gone, come)
            except OtherLengths:
                db = written(now)
        with closing(written(now)) as scratch:
            assert evidence_of(db) == evidence_of(scratch)
        db.close()


def written(fragments: Mapping[str, Fragment]) -> sqlite3.Connection:
    """Return a database with the rows of *fragments*, which the caller closes."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    begin_empty(db)
    write_fragments(db, fragments.values(), {})
    return db


def edit(db: sqlite3.Connection, gone: Mapping[str, Fragment], come: Mapping[str, Fragment]) -> None:
    """Delete the rows of fragments and write those of others, as a build does that brings an index up to date."""
    typical = read_typical_lengths(dict(db.execute("SELECT key, value FROM meta")))
    writer = IndexWriter(db)
    writer.delete([(one.source.root, one.source.path) for one in gone.values()], [])
    writer.write(Verdict(one.source, "fragment", one, prepare(one), ()) for one in come.values())
    writer.close(typical)
