"""Keywords: one extraction for fragments and queries, measured against naive readings of its rules."""

import itertools
import re
import sqlite3
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.builder.writer import create_schema
from orchestr8_sqlite.text.keywords import (
    MAX_KEYWORD_LENGTH,
    PEER_STOP_WORDS,
    STOP_WORDS,
    SYMBOLS,
    _read_keywords,
    extract_keywords,
    iterate_keywords,
    stem,
    words_beside,
)

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
@settings(max_examples=100, derandomize=True)
def test_plain_words_are_themselves_without_stop_words_and_blobs(words: list[str]) -> None:
    wanted = dict.fromkeys(word for word in words if 2 <= len(word) <= MAX_KEYWORD_LENGTH and word not in STOP_WORDS)
    assert extract_keywords(" ".join(words)) == list(wanted)


@given(CJK_RUN)
@settings(max_examples=60, derandomize=True)
def test_cjk_text_becomes_all_pairs_of_neighbours(run: str) -> None:
    pairs = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    assert extract_keywords(run) == list(dict.fromkeys(pairs))


@given(MIXED)
@settings(max_examples=150, derandomize=True)
def test_a_keyword_finds_itself(text: str) -> None:
    for keyword in extract_keywords(text):
        assert keyword in extract_keywords(keyword)


@given(MIXED)
@settings(max_examples=150, derandomize=True)
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
@settings(max_examples=100, derandomize=True)
def test_a_text_has_the_keywords_of_its_lines(one: str, two: str) -> None:
    together = dict.fromkeys(itertools.chain(extract_keywords(one), extract_keywords(two)))
    assert extract_keywords(f"{one}\n{two}") == list(together)


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
@settings(max_examples=300, derandomize=True)
def test_a_text_cut_into_words_has_the_keywords_that_the_pattern_finds_in_the_whole(text: str) -> None:
    assert list(iterate_keywords(text)) == list(_read_keywords(unicodedata.normalize("NFKC", text)))


# What the full text is given beside a text


@pytest.fixture(scope="module")
def full_text() -> Iterator[sqlite3.Connection]:
    """Return a full-text index of no fragments, with its tokens."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        create_schema(db)
        db.execute("CREATE VIRTUAL TABLE temp.instance USING fts5vocab (main, fragment_text, instance)")
        yield db


def give(db: sqlite3.Connection, body: str, also: str = "") -> None:
    """Let the full text hold one fragment with that body."""
    db.execute("INSERT INTO fragment_text (fragment_text) VALUES ('delete-all')")
    db.execute("INSERT INTO fragment_text (rowid, body, also) VALUES (1, ?, ?)", (body, also))


def missing(db: sqlite3.Connection, text: str) -> list[str]:
    """Return the keywords of *text* that the full text does not find in it and the words beside it."""
    give(db, text, words_beside(text))
    search = "SELECT rowid FROM fragment_text WHERE fragment_text MATCH ?"
    return [keyword for keyword in extract_keywords(text) if not db.execute(search, (f'"{keyword}"',)).fetchall()]


PIECES = st.sampled_from(
    """setUserId HTTPServer parseJSON2Xml iOSApp URLs xÉa éUrl MüllerService c++ C++11 c# #python issue#retry Ctrl+C ++
    ## .net node.js CI/CD snake_case a.b r&d don't User's rock'n'roll’s O'Reilly ’90s — … → ✓ 再試行 試 カタカナ 検索API
    v再試2 한국어 ﾃﾞｰﾀ Straße λόγος ΛΌΓΟΣ İstanbul ﬁle ＲＥＴＲＹ ＣamelＣase cafe\u0301 Ångström हिन्दी ไม่ได้ ½ x² ①
    Ⅳ ①ﬁ K8s 3.11 300k e\u0301tat\u0323 ﷺ ﬀ""".split()
)
BETWEEN = st.sampled_from(["", "", " ", "\n", ", ", ". ", "(", "-", "/", "_", "'", "’", "`", "*", "\u3000", "…"])
TEXTS = st.lists(st.tuples(PIECES | MIXED, BETWEEN), max_size=8).map(
    lambda pieces: "".join(piece + end for piece, end in pieces)
)


@given(TEXTS)
@settings(max_examples=500)
def test_the_full_text_finds_a_text_by_each_of_its_keywords(full_text: sqlite3.Connection, text: str) -> None:
    assert missing(full_text, text) == []


@given(st.lists(TEXTS, max_size=4))
@settings(max_examples=100)
def test_words_beside_several_texts_are_enough_for_each(full_text: sqlite3.Connection, texts: list[str]) -> None:
    """They are taken from all texts of a fragment at once."""
    beside = words_beside("\n".join(texts))
    search = "SELECT rowid FROM fragment_text WHERE fragment_text MATCH ?"
    for text in texts:
        give(full_text, text, beside)
        for keyword in extract_keywords(text):
            assert full_text.execute(search, (f'"{keyword}"',)).fetchall(), keyword


def test_nothing_is_given_beside_plain_english(full_text: sqlite3.Connection) -> None:
    text = "Retry a call\nwith *backoff*, then  stop! Node.js, error-handling, CI/CD, C++ and TypeScript on K8s: 3.11."
    assert words_beside(text) == ""
    assert missing(full_text, text) == []


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        ("setUserId", "id set user"),
        ("a 再試行 b", "再試 試行"),
        ("TypeScript and GitHub", ""),
        ("HTTPServer HTTPServer", "http server"),
    ],
)
def test_beside_a_text_stands_what_its_keywords_have_and_its_words_have_not(text: str, beside: str) -> None:
    assert words_beside(text).split() == beside.split()


def test_symbols_that_are_left_out_are_nothing_to_the_full_text(full_text: sqlite3.Connection) -> None:
    symbols = [chr(code) for code in range(sys.maxunicode + 1) if SYMBOLS.fullmatch(chr(code))]
    assert {"—", "→", "│", "✓", "⚠"} <= set(symbols)
    give(full_text, "".join(f"a{symbol}b " for symbol in symbols))
    found = full_text.execute("SELECT offset, term FROM temp.instance ORDER BY offset").fetchall()
    assert found == list(enumerate("ab" * len(symbols)))


# Stems


def test_stems_of_the_words_of_the_shipped_library_are_those_that_the_full_text_has(
    full_text: sqlite3.Connection,
) -> None:
    """But for words in -logy and -bly, and a bare -ies: there the two versions of Porter's algorithm differ."""
    texts = (path.read_text(encoding="utf-8") for path in (Path(__file__).parents[1] / "resources").rglob("*.md"))
    words = sorted({word for text in texts for word in re.findall(r"[a-z0-9]+", text.casefold())})
    give(full_text, " ".join(words))
    terms = [term for (term,) in full_text.execute("SELECT term FROM temp.instance ORDER BY offset")]
    others = {word: stem(word) for word, term in zip(words, terms, strict=True) if stem(word) != term}
    assert len(words) > 5000
    assert {"js", "k8s", "retries"} <= set(words) - set(others)
    assert [word for word, one in others.items() if not one.endswith(("logi", "bli")) and word != "ies"] == []


@pytest.mark.parametrize("word", ["js", "ts", "os", "c++", "node.js", "müllers", "再試", "don't"])
def test_words_of_two_letters_and_those_with_other_signs_are_their_own_stems(word: str) -> None:
    assert stem(word) == word
