import statistics
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestr8_sqlite.model.parameters import fold_tag
from orchestr8_sqlite.model.uris import compose
from orchestr8_sqlite.text.keywords import extract_keywords
from orchestr8_sqlite.text.normal_forms import normalize

ABOVE, BELOW, HALF_WIDTH = "\u0301", "\u0316", "\uff9e"
JOINER = "\u034f"


@given(st.text("e\u00e9 \u304b\u1100\u1161\u0344\u0f73" + ABOVE + BELOW + HALF_WIDTH, max_size=30))
def test_texts_without_long_rows_of_marks_are_normalized_as_unicode_says(text: str) -> None:
    assert normalize("NFC", text) == unicodedata.normalize("NFC", text)
    assert normalize("NFKC", text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("before", range(35))
def test_a_joiner_stands_behind_thirty_marks_in_a_row_and_nowhere_else(before: int) -> None:
    start, row = "x" * before + "é", ABOVE * 30
    assert normalize("NFC", start + row + "y") == start + row + "y"
    assert normalize("NFC", start + row + ABOVE + "y") == start + row + JOINER + ABOVE + "y"


def test_a_text_that_is_normalized_stays_as_it_is() -> None:
    once = normalize("NFKC", "a" + (ABOVE + BELOW) * 100)
    assert normalize("NFKC", once) == once


def _seconds(work: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    work(text)
    return time.process_time() - start


@pytest.mark.parametrize("work", [fold_tag, compose, extract_keywords])
@pytest.mark.parametrize("marks", [ABOVE + BELOW, BELOW + HALF_WIDTH])
def test_twice_as_many_marks_in_a_row_take_about_twice_the_time(work: Callable[[str], object], marks: str) -> None:
    ratios = [
        _seconds(work, f"{letter}{marks * 8000}") / _seconds(work, f"{letter}{marks * 4000}") for letter in "abcde"
    ]
    assert statistics.median(ratios) < 3
