"""Sums of what fragments earn: in a dictionary, a list and with NumPy, against a look at every fragment."""

import sys
from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestr8_sqlite.model import COUNTED
from orchestr8_sqlite.tiers import sums
from orchestr8_sqlite.tiers.arrays import ArraySums
from orchestr8_sqlite.tiers.sums import (
    LARGE,
    SCARCE,
    ListSums,
    PlainSums,
    Points,
    Sums,
    highest,
    load_arrays,
    new_sums,
)

HIGHEST = 40
GAINS = 0.25, 0.5
"""What a form gains, the common one and the other."""

Form = dict[int, int]
"""Fragment → the weight of a form in it."""


def forms() -> st.SearchStrategy[list[list[tuple[Form, bool]]]]:
    """Return words, each a list of (form, whether it gains the other of GAINS)."""
    form = st.dictionaries(st.integers(0, HIGHEST), st.integers(0, 5), max_size=12)
    return st.lists(st.lists(st.tuples(form, st.booleans()), max_size=3), max_size=4)


def points_of(form: Form, other: bool, first: int) -> Points:
    members = sorted(number for number in form if number >= first)
    weights = [form[number] for number in members]
    return Points(first, array("H", [number - first for number in members]), weights, GAINS[other])


def empty() -> tuple[Sums, Sums, Sums]:
    return PlainSums(), ListSums([0.0] * (HIGHEST + 1)), ArraySums(np.zeros(HIGHEST + 1))


def add(words: Iterable[list[tuple[Form, bool]]], ways: Sequence[Sums]) -> Sequence[Sums]:
    """Return *ways* with *words* added; the fragments from 7 on are told by their distance from it."""
    for word in words:
        parts = [({n: v for n, v in form.items() if n < 7}, how, 0) for form, how in word]
        parts += [({n: v for n, v in form.items() if n >= 7}, how, 7) for form, how in word]
        points = [points_of(*part) for part in parts]
        for one in ways:
            if len(word) == 1:
                one.add_apart(points)
            elif word:
                one.add_word(points)
    return ways


def every(words: Iterable[list[tuple[Form, bool]]]) -> Sequence[Sums]:
    """Return the sums of *words* each way."""
    return add(words, empty())


def raised(words: list[list[tuple[Form, bool]]], names: list[list[tuple[Form, bool]]]) -> list[Sums]:
    """Return the sums of *words* each way, raised by the shares *names*."""
    shares = add(names, [one.new_shares() for one in empty()])
    return [one.raised(share, 0.4) for one, share in zip(every(words), shares, strict=True)]


def expected(words: Iterable[list[tuple[Form, bool]]]) -> dict[int, float]:
    totals = dict.fromkeys(range(HIGHEST + 1), 0.0)
    for word in words:
        for number in totals:
            worths = [GAINS[other] * form[number] for form, other in word if number in form]
            totals[number] += max(worths, default=0.0)
    return {number: total for number, total in totals.items() if total}


@given(forms())
def test_each_word_adds_the_most_that_any_of_its_forms_gives(words: list[list[tuple[Form, bool]]]) -> None:
    for found in every(words):
        assert {number: found.of(number) for number in range(HIGHEST + 1) if found.of(number)} == expected(words)


@given(forms(), forms(), st.integers(1, 12), st.floats(0.1, 9))
def test_every_way_chooses_counts_cuts_and_raises_alike(
    words: list[list[tuple[Form, bool]]], names: list[list[tuple[Form, bool]]], depth: int, least: float
) -> None:
    ways = raised(words, names)
    sums_of = {number: ways[0].of(number) for number in range(HIGHEST + 1) if ways[0].of(number)}
    lowest = sorted(sums_of.values(), reverse=True)[:depth][-1:] or [0.0]
    best = {number: value for number, value in sums_of.items() if value >= lowest[0]}
    below = {number: value for number, value in sums_of.items() if value < least}
    chosen = {number: value for number, value in sums_of.items() if number in range(0, HIGHEST, 3)}
    for one in ways:
        assert positive(one.best(depth)) == best
        assert one.count(least) == sum(value >= least for value in sums_of.values())
        assert positive(one.best(depth)) == best  # once they are counted too
        assert positive(one.below(least).best(99)) == below
        assert positive(one.among(range(0, HIGHEST, 3)).best(99)) == chosen


def positive(values: dict[int, float]) -> dict[int, float]:
    return {number: value for number, value in values.items() if value}


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
    for sums_ in raised([[({3: 3}, True)]], [[({3: 5}, True)]]):
        assert sums_.of(3) == 1.5 * 1.4


def test_counting_ends_where_nobody_counts_further() -> None:
    numbers = list(range(COUNTED + 5))
    word = [Points(0, numbers, [1] * len(numbers), 1.0)]
    for one in (PlainSums(), ListSums([0.0] * len(numbers)), ArraySums(np.zeros(len(numbers)))):
        one.add_word(word)
        assert one.count(0.5) == COUNTED


def test_arrays_are_for_large_indexes_where_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(new_sums(LARGE, LARGE, lambda: LARGE), ArraySums)
    assert isinstance(new_sums(LARGE - 1, LARGE, lambda: LARGE), ListSums)
    monkeypatch.delitem(sys.modules, "numpy")
    assert isinstance(new_sums(LARGE, LARGE, lambda: LARGE), ListSums)


def test_request_that_names_few_fragments_needs_no_place_for_all() -> None:
    assert isinstance(new_sums(800, 800 // SCARCE, lambda: 800), ListSums)
    assert isinstance(new_sums(800, 800 // SCARCE - 1, lambda: 800), PlainSums)


def test_small_index_needs_no_arrays_and_a_large_one_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(sums, "import_module", missing)
    assert load_arrays(LARGE - 1)
    assert not load_arrays(LARGE)


def test_fragment_that_has_earned_nothing_is_not_among_those_chosen() -> None:
    for one in every([[({2: 3}, True)]]):
        assert one.among([1, 2]).best(9) == {2: 1.5}
