"""Sums of what fragments earn: plain and with NumPy, against a look at every fragment."""

import sys
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestr8_sqlite.model import COUNTED
from orchestr8_sqlite.tiers import sums
from orchestr8_sqlite.tiers.sums import LARGE, ArraySums, PlainSums, Points, Sums, highest, load_arrays, new_sums

HIGHEST = 40
TABLE = [0.0, 0.25, 0.5, 1.5, 0.0, 7.0]

Form = dict[int, int]
"""Fragment → what a form gives, as a place in TABLE."""


def forms() -> st.SearchStrategy[list[list[tuple[Form, bool]]]]:
    """Return words, each a list of (form, whether its points are looked up in a table)."""
    form = st.dictionaries(st.integers(0, HIGHEST), st.integers(0, 5), max_size=12)
    return st.lists(st.lists(st.tuples(form, st.booleans()), max_size=3), max_size=4)


def points_of(form: Form, looked_up: bool, first: int) -> Points:
    members = sorted(number for number in form if number >= first)
    given_ = [form[number] for number in members]
    table: list[float] | float = TABLE if looked_up else 0.5
    return Points(first, [number - first for number in members], bytes(given_) if looked_up else given_, table)


def both(words: Iterable[list[tuple[Form, bool]]]) -> tuple[Sums, Sums]:
    """Return the sums of *words* both ways; the fragments from 7 on are told by their distance from it."""
    pair: tuple[Sums, Sums] = PlainSums(), ArraySums(np.zeros(HIGHEST + 1))
    for word in words:
        for one in pair:
            parts = [({n: v for n, v in form.items() if n < 7}, how, 0) for form, how in word]
            parts += [({n: v for n, v in form.items() if n >= 7}, how, 7) for form, how in word]
            one.add_word(points_of(*part) for part in parts)
    return pair


def expected(words: Iterable[list[tuple[Form, bool]]]) -> dict[int, float]:
    totals = dict.fromkeys(range(HIGHEST + 1), 0.0)
    for word in words:
        for number in totals:
            worths = [TABLE[form[number]] if how else 0.5 * form[number] for form, how in word if number in form]
            totals[number] += max(worths, default=0.0)
    return {number: total for number, total in totals.items() if total}


@given(forms())
def test_each_word_adds_the_most_that_any_of_its_forms_gives(words: list[list[tuple[Form, bool]]]) -> None:
    for found in both(words):
        assert {number: found.of(number) for number in range(HIGHEST + 1) if found.of(number)} == expected(words)


@given(forms(), forms(), st.integers(1, 12), st.floats(0.1, 9))
def test_both_ways_choose_count_cut_and_raise_alike(
    words: list[list[tuple[Form, bool]]], names: list[list[tuple[Form, bool]]], depth: int, least: float
) -> None:
    plain, arrays = (one.raised(shares, 0.4) for one, shares in zip(both(words), both(names), strict=True))
    sums_of = {number: plain.of(number) for number in range(HIGHEST + 1) if plain.of(number)}
    lowest = sorted(sums_of.values(), reverse=True)[:depth][-1:] or [0.0]
    best = {number: value for number, value in sums_of.items() if value >= lowest[0]}
    assert {n: v for n, v in plain.best(depth).items() if v} == arrays.best(depth) == best
    assert plain.count(least) == arrays.count(least) == sum(value >= least for value in sums_of.values())
    below = {number: value for number, value in sums_of.items() if value < least}
    assert {n: v for n, v in plain.below(least).best(99).items() if v} == arrays.below(least).best(99) == below
    chosen = {number: value for number, value in sums_of.items() if number % 3 == 0}
    among = [one.among(range(0, HIGHEST, 3)).best(99) for one in (plain, arrays)]
    assert [{n: v for n, v in found.items() if v} for found in among] == [chosen, chosen]


@given(
    st.lists(st.integers(0, 30).map(float) | st.floats(0, 30), min_size=1, max_size=400),
    st.integers(1, 20),
    st.sampled_from([1, 4]),
    st.sampled_from([2, 8, 512]),
)
def test_place_among_many_values_is_that_in_their_order(
    values: list[float], place: int, many: int, sample: int
) -> None:
    place = min(place, len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "MANY", many)
        patch.setattr(sums, "SAMPLE", sample)
        assert highest(values, place) == sorted(values)[-place]


def test_share_of_a_name_counts_whole_at_most() -> None:
    for sums_, shares in zip(both([[({3: 3}, True)]]), both([[({3: 5}, True)]]), strict=True):
        assert sums_.raised(shares, 0.4).of(3) == 1.5 * 1.4


def test_counting_ends_where_nobody_counts_further() -> None:
    numbers = list(range(COUNTED + 5))
    word = [Points(0, numbers, [1] * len(numbers), 1.0)]
    plain, arrays = PlainSums(), ArraySums(np.zeros(len(numbers)))
    plain.add_word(word)
    arrays.add_word(word)
    assert (plain.count(0.5), arrays.count(0.5)) == (COUNTED, COUNTED)


def test_arrays_are_for_large_indexes_where_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(new_sums(LARGE, lambda: LARGE), ArraySums)
    assert isinstance(new_sums(LARGE - 1, lambda: LARGE), PlainSums)
    monkeypatch.delitem(sys.modules, "numpy")
    assert isinstance(new_sums(LARGE, lambda: LARGE), PlainSums)


def test_small_index_needs_no_arrays_and_a_large_one_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(sums, "import_module", missing)
    assert load_arrays(LARGE - 1)
    assert not load_arrays(LARGE)
