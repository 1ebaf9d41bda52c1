"""Texts as sentences hold them."""

import pytest

from orchestr8_sqlite.text.wording import counted, nearest, one_line


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 fragments"), (1, "1 fragment"), (2, "2 fragments"), (1200, "1,200 fragments")]
)
def test_a_number_stands_with_the_noun_in_its_number(count: int, expected: str) -> None:
    assert counted(count, "fragment") == expected


def test_an_irregular_plural_is_given() -> None:
    assert counted(1, "best-practice", "best-practices") == "1 best-practice"
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("text", "expected"), [("a\n b\t c", "a b c"), ("one two three", "one two…"), ("x" * 20, "x" * 9 + "…")]
)
def test_a_text_is_put_on_one_line_and_cut_at_a_word(text: str, expected: str) -> None:
    assert one_line(text, 10) == expected


def test_the_most_alike_come_first_and_three_at_most() -> None:
    known = ["retrying", "retry", "retries", "retired", "cooking"]
    assert nearest("retry", known) == ["retry", "retrying", "retries"]
    assert nearest("zzz", known) == []


def test_a_long_name_is_compared_by_its_beginning() -> None:
    beginning = "a/" * 100
    assert nearest(beginning + "b/" * 8000, [beginning, "c"]) == [beginning]
