"""How many examples property tests try."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tried: list[int] = []


@settings(max_examples=60, database=None)
@given(st.integers())
def test_an_integer_is_tried(number: int) -> None:
    tried.append(number)


def test_a_fifth_of_the_examples_is_tried_or_all_where_that_is_asked_for(pytestconfig: pytest.Config) -> None:
    tried.clear()
    test_an_integer_is_tried()
    assert len(tried) == (60 if pytestconfig.getoption("--hypothesis-profile") == "thorough" else 12)
