"""Counting keywords of a text: the same as reading all of it word by word."""

from hypothesis import given
from hypothesis import strategies as st
from strategies import WORDS

from orchestr8_sqlite.text.keywords import count_held, extract_keywords

PIECES = [
    *WORDS,
    "don't",
    "users'",
    "User's-guide",
    "rock'n'roll",
    "ＦＵＬＬ",
    "Straße",
    "ﬁle",
    "—",
    "\n",
    "e\u0301t\u00e9",
]


def texts() -> st.SearchStrategy[str]:
    piece = st.sampled_from(PIECES) | st.text(alphabet="aAbé'’-./_&+# \n再", max_size=8)
    return st.lists(st.tuples(piece, st.sampled_from([" ", "\n", "", ", "])), max_size=12).map(
        lambda pairs: "".join(text + end for text, end in pairs)
    )


@given(texts(), texts())
def test_keywords_are_counted_as_by_reading_every_word(text: str, other: str) -> None:
    wanted = dict.fromkeys(extract_keywords(text)[::2] + extract_keywords(other))
    assert count_held(text, wanted) == len(set(wanted) & set(extract_keywords(text)))


def test_part_of_a_word_is_no_keyword_of_it() -> None:
    assert count_held("retrying\nentry", ["retry", "try", "entry"]) == 1


def test_apostrophe_is_no_letter_of_a_keyword() -> None:
    assert count_held("Playing rock'n'roll\nby the book", ["rocknroll", "bye"]) == 1
