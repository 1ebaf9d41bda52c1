"""Keywords: one extraction for fragments and queries, measured against naive readings of its rules."""

import itertools
import re
import sqlite3
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.keywords import (
    CJK,
    MAX_KEYWORD_LENGTH,
    PEER_STOP_WORDS,
    SIGN,
    STOP_WORDS,
    SYMBOLS,
    _bigrams,
    _camel_parts,
    _read_keywords,
    count_stems,
    extract_keywords,
    index_text,
    iterate_keywords,
    stem,
)
from orchestr8_sqlite.writer import create_schema

MIXED = st.text(alphabet="abcdeXYZ 0129 -./_'’&+# éüßñ ŁΣЖ 再試行カ한국 ①ﬁＡ", max_size=40)
"""Letters of several scripts, digits, connectors, and characters that NFKC rewrites."""

PLAIN_WORD = st.text(alphabet="abcdefghijklmnopqrstuvwxyzéü0123456789", min_size=1, max_size=70)
CJK_RUN = st.text(alphabet="再試行検索設計カタナ한국어", min_size=1, max_size=12)
CONNECTED = st.lists(
    st.sampled_from(
        ["error-handling", "setUserId", "node.js", "CI/CD", "snake_case", "HTTPServer", "再試行", "Müller", "db"]
    )
)


@pytest.mark.parametrize("name", ["c++", "c#", ".net", "node.js", "ci/cd", "k8s"])
def test_technology_names_are_kept_whole(name: str) -> None:
    assert name in extract_keywords(f"Use {name.upper()} today")
    assert name in extract_keywords(f"({name}), then more")
    assert name in extract_keywords(name)


@pytest.mark.parametrize("name", ["TypeScript", "JavaScript", "GitHub", "GraphQL", "PostgreSQL"])
def test_camel_case_names_of_technologies_are_not_taken_apart(name: str) -> None:
    assert extract_keywords(name) == [name.lower()]


def test_several_technology_names_in_one_breath() -> None:
    assert extract_keywords("C#/.NET or C/C++") == ["c#", ".net", "net", "c/c++", "c++"]


def test_sharp_and_plus_signs_do_not_stick_to_other_words() -> None:
    assert extract_keywords("retry+backoff") == ["retry", "backoff"]
    assert extract_keywords("#retry ##backoff") == ["retry", "backoff"]


def test_hyphenated_words_are_kept_whole_and_in_parts() -> None:
    assert extract_keywords("multi-agent error-handling") == [
        "multi-agent",
        "multi",
        "agent",
        "error-handling",
        "error",
        "handling",
    ]


def test_camel_case_words_are_kept_whole_and_in_parts() -> None:
    assert extract_keywords("setUserId") == ["setuserid", "set", "user", "id"]
    assert extract_keywords("HTTPServer") == ["httpserver", "http", "server"]


def test_camel_case_words_with_accents_are_cut_at_capitals_only() -> None:
    assert extract_keywords("MüllerService") == ["müllerservice", "müller", "service"]


def test_words_joined_from_many_parts_are_kept_in_parts_only() -> None:
    assert extract_keywords("red/green/blue/black/white") == ["red", "green", "blue", "black", "white"]


@pytest.mark.parametrize("word", ["go", "ci", "ai", "ts", "db"])
def test_two_letter_words_are_kept(word: str) -> None:
    assert extract_keywords(word) == [word]
    assert extract_keywords(f"The {word.upper()} of it") == [word]


def test_single_letters_are_no_keywords() -> None:
    assert extract_keywords("a b c x 1") == []


def test_letters_beyond_ascii_keep_their_words_together() -> None:
    assert extract_keywords("Müller 再試行 C++") == ["müller", "再試", "試行", "c++"]


@pytest.mark.parametrize("word", ["हिन्दी", "தமிழ்", "ไม่ได้", "עִבְרִית"])
def test_words_of_scripts_with_vowel_signs_are_kept_together(word: str) -> None:
    assert extract_keywords(word) == [unicodedata.normalize("NFKC", word).casefold()]


def test_compatibility_forms_and_case_do_not_matter() -> None:
    assert extract_keywords("ＲＥＴＲＹ ﬁle cafe\u0301") == ["retry", "file", "café"]
    assert extract_keywords("STRASSE") == extract_keywords("Straße")


def test_half_width_katakana_is_the_same_as_full_width() -> None:
    assert extract_keywords("ﾃﾞｰﾀ") == extract_keywords("データ") == ["デー", "ータ"]


def test_a_cjk_character_alone_is_a_keyword() -> None:
    assert extract_keywords("猫 API") == ["猫", "api"]


def test_katakana_words_are_separated_at_the_middle_dot() -> None:
    assert extract_keywords("マイク・サーバ") == ["マイ", "イク", "サー", "ーバ"]


def test_the_47_stop_words_of_the_peer_are_left_out() -> None:
    assert len(PEER_STOP_WORDS) == 47
    text = " ".join(sorted(PEER_STOP_WORDS))
    assert extract_keywords(text) == extract_keywords(text.upper()) == extract_keywords(text.title()) == []


def test_stop_words_are_left_out_of_the_parts_too() -> None:
    assert extract_keywords("end-to-end") == ["end-to-end", "end"]


def test_an_ellipsis_sticks_to_no_word() -> None:
    assert extract_keywords("wait...then …retry") == ["wait", "retry"]


def test_contractions_and_possessives_leave_no_crumbs() -> None:
    assert extract_keywords("don’t don't it's Don't DON’T") == []
    assert extract_keywords("the server's client’s") == ["server", "client"]


def test_keywords_come_once_in_the_order_of_the_text() -> None:
    assert extract_keywords("retry backoff RETRY Backoff timeout") == ["retry", "backoff", "timeout"]


def test_blobs_are_no_keywords() -> None:
    assert extract_keywords("x" * (MAX_KEYWORD_LENGTH + 1)) == []
    assert extract_keywords("x" * MAX_KEYWORD_LENGTH) == ["x" * MAX_KEYWORD_LENGTH]


@given(st.lists(PLAIN_WORD, max_size=12))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_plain_words_are_themselves_without_stop_words_and_blobs(words: list[str]) -> None:
    wanted = dict.fromkeys(word for word in words if 2 <= len(word) <= MAX_KEYWORD_LENGTH and word not in STOP_WORDS)
    assert extract_keywords(" ".join(words)) == list(wanted)


@given(CJK_RUN)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_cjk_text_becomes_all_pairs_of_neighbours(run: str) -> None:
    pairs = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    assert extract_keywords(run) == list(dict.fromkeys(pairs))


@given(MIXED)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_keyword_finds_itself(text: str) -> None:
    for keyword in extract_keywords(text):
        assert keyword in extract_keywords(keyword)


@given(MIXED)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_keywords_are_distinct_folded_bounded_and_no_stop_words(text: str) -> None:
    keywords = extract_keywords(text)
    assert len(keywords) == len(set(keywords))
    for keyword in keywords:
        assert keyword == keyword.casefold()
        assert not any(character.isspace() for character in keyword)
        assert len(keyword) <= MAX_KEYWORD_LENGTH
        assert len(keyword) >= 2 or unicodedata.name(keyword).startswith(("CJK", "KATAKANA", "HANGUL"))
        assert keyword not in PEER_STOP_WORDS


@given(MIXED, MIXED)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_text_has_the_keywords_of_its_lines(one: str, two: str) -> None:
    together = dict.fromkeys(itertools.chain(extract_keywords(one), extract_keywords(two)))
    assert extract_keywords(f"{one}\n{two}") == list(together)


def missing_in_full_text(text: str) -> list[str]:
    """Return the keywords of *text* that the full-text index of an otherwise empty database does not find in it."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        create_schema(db)
        db.execute("INSERT INTO fragment_text (rowid, body) VALUES (1, ?)", (index_text(text),))
        search = "SELECT rowid FROM fragment_text WHERE fragment_text MATCH ?"
        return [keyword for keyword in extract_keywords(text) if not db.execute(search, (f'"{keyword}"',)).fetchall()]
    finally:
        db.close()


@given(CONNECTED)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_full_text_index_finds_every_keyword_of_a_text(words: list[str]) -> None:
    assert missing_in_full_text(" ".join(words)) == []


@pytest.mark.parametrize(
    "text", ["C++11", "Ctrl+C twice", "issue#retry", "#python", "Straße", "λόγος", "MüllerService"]
)
def test_the_full_text_index_cuts_words_where_the_keywords_do(text: str) -> None:
    assert missing_in_full_text(text) == []


def test_index_text_leaves_the_words_of_plain_english_as_they_are() -> None:
    assert index_text("Retry a call\nwith *backoff*, then  stop!") == "Retry a call with backoff then stop"


WRITTEN = st.lists(
    st.sampled_from(
        [
            "setUserId",
            "HTTPServer",
            "URL",
            "xÉa",
            "éUrl",
            "c++",
            "c#",
            "#b",
            "+#",
            "’s",
            ".net",
            "a.b",
            "r&d",
            "—",
            "再試",
        ]
    )
    | MIXED,
    max_size=8,
).map("".join)


@given(WRITTEN)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_text_cut_into_words_has_the_keywords_that_the_pattern_finds_in_the_whole(text: str) -> None:
    assert list(iterate_keywords(text)) == list(_read_keywords(unicodedata.normalize("NFKC", text)))


@given(WRITTEN)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_stems_are_counted_and_ordered_as_their_keywords_are_read(text: str) -> None:
    read = [stem(keyword) for keyword in iterate_keywords(text)]
    assert list(count_stems(text).items()) == list(Counter(read).items())


@pytest.fixture(scope="module")
def full_text() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(db)
    db.execute("CREATE VIRTUAL TABLE temp.instance USING fts5vocab (main, fragment_text, instance)")
    yield db
    db.close()


def indexed_tokens(db: sqlite3.Connection, text: str) -> list[tuple[int, str]]:
    """Return the (position, stem) of what the full-text index makes of *text*."""
    db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('delete-all')")
    db.execute("INSERT INTO fragment_text (rowid, body) VALUES (1, ?)", (text,))
    return db.execute("SELECT offset, term FROM temp.instance ORDER BY offset, term").fetchall()


BETWEEN_WORDS = st.sampled_from(
    [" ", "  ", "\n", "\t", "!", "(", "=", "*", "`", "\u0301", "\u0338", "\u3000", "…", "⺀"]
)


@given(st.lists(WRITTEN | BETWEEN_WORDS, max_size=8).map("".join))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_text_cut_into_words_is_to_the_full_text_index_what_the_whole_is(
    full_text: sqlite3.Connection, text: str
) -> None:
    assert indexed_tokens(full_text, index_text(text)) == indexed_tokens(full_text, index_text_run_by_run(text))


def test_symbols_that_are_left_out_are_nothing_to_the_full_text_index(full_text: sqlite3.Connection) -> None:
    symbols = [chr(code) for code in range(sys.maxunicode + 1) if SYMBOLS.fullmatch(chr(code))]
    assert {"—", "→", "│", "✓", "⚠"} <= set(symbols)
    text = "".join(f"a{symbol}b " for symbol in symbols)
    assert indexed_tokens(full_text, text) == list(enumerate("ab" * len(symbols)))
    assert index_text("a — b→c") == "a   b c"


def index_text_run_by_run(text: str) -> str:
    """Return what the words of `index_text` come to: every run of letters, of CJK and of signs is looked at."""
    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"[^\W\d_]+", lambda run: " ".join((run[0], *_camel_parts(run[0]))), text)
    if not text.isascii():
        text = re.sub(f"[{CJK}]+", lambda run: f" {' '.join(_bigrams(run[0]))} ", text).casefold()
    return SIGN.sub(lambda sign: f"{sign['suffix'] or ''} ", text)
