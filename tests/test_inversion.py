"""What the fragments of a batch hold, by word: against a plain list of who holds what."""

import pickle
from array import array
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import libraries

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.evidence import fragment_texts, hold, hold_keywords
from orchestr8_sqlite.inversion import (
    FIELD_BITS,
    OTHER_BITS,
    SHORT_BITS,
    Postings,
    invert_keywords,
    invert_terms,
)

LISTS = st.dictionaries(
    st.text("abc日é", min_size=1, max_size=3), st.sets(st.integers(0, 7), min_size=1).map(sorted), max_size=6
)


def read(postings: Postings) -> dict[str, list[int]]:
    return {key: list(found) for key, found in postings.lists()}


def numbered(placed: Mapping[str, Sequence[int]], numbers: Sequence[int | None]) -> dict[str, list[int]]:
    """Return *placed* by numbers, each key and posting looked at by itself."""
    found: dict[str, list[int]] = {}
    for key, postings in placed.items():
        for posting in postings:
            place, rest = divmod(posting, 16)
            number = numbers[place]
            if number is not None:
                found.setdefault(key, []).append(number * 16 + rest)
    return found


@given(lists=LISTS)
def test_postings_are_the_lists_they_were_joined_from(lists: dict[str, list[int]]) -> None:
    postings = Postings.join(lists)
    assert read(postings) == lists
    assert list(postings.keys) == list(lists)
    assert pickle.loads(pickle.dumps(postings)) == postings


@settings(deadline=None)
@given(
    lists=LISTS,
    first=st.integers(0, 100),
    left_out=st.sets(st.integers(0, 7)),
    gaps=st.lists(st.sampled_from([0, 0, 0, 5]), min_size=8, max_size=8),
)
def test_renumbered_postings_lead_to_the_numbers_and_to_nothing_left_out(
    lists: dict[str, list[int]], first: int, left_out: set[int], gaps: list[int]
) -> None:
    placed = {key: [place * 16 + len(key) for place in places] for key, places in lists.items()}
    numbers = [None if place in left_out else first + place + sum(gaps[:place]) for place in range(8)]
    assert read(Postings.join(placed).renumbered(numbers, 4)) == numbered(placed, numbers)


@settings(max_examples=30, deadline=None)
@given(library=libraries())
def test_terms_lead_to_the_fragments_that_hold_them(library: list[Fragment]) -> None:
    held = [hold(fragment_texts(fragment)) for fragment in library]
    terms = invert_terms(held)
    short = {(stem, at, *found) for at, one in enumerate(held) for stem, found in one.fields.items()}
    names = {(stem, at, share) for at, one in enumerate(held) for stem, share in one.name.items()}
    body = {(stem, at, count) for at, one in enumerate(held) for stem, count in one.body.items()}
    rest = (1 << OTHER_BITS) - 1
    found = [(stem, posting) for stem, postings in terms.short.lists() for posting in postings]
    assert {(stem, p >> SHORT_BITS, p >> 8 & 63, p & 255) for stem, p in found} == short
    for postings, expected in ((terms.names, names), (terms.body, body)):
        found = [(stem, posting) for stem, one in postings.lists() for posting in one]
        assert len(found) == len(expected)
        assert {(stem, posting >> OTHER_BITS, posting & rest) for stem, posting in found} == expected


@settings(max_examples=30, deadline=None)
@given(library=libraries())
def test_keywords_lead_to_the_fields_and_scenarios_that_hold_them(library: list[Fragment]) -> None:
    held = list(map(hold_keywords, library))
    inverted = invert_keywords(held)
    texts = [keywords for one in held for keywords in one.scenarios]
    known = {keyword for one in held for keyword in one.fields}
    fields = {
        keyword: [place << FIELD_BITS | one.fields[keyword] for place, one in enumerate(held) if keyword in one.fields]
        for keyword in known
    }
    scenarios = {keyword: [row for row, text in enumerate(texts) if keyword in text] for keyword in known}
    assert read(inverted.fields) == fields
    assert list(inverted.fields.keys) == list(dict.fromkeys(keyword for one in held for keyword in one.fields))
    assert read(inverted.scenarios) == {keyword: rows for keyword, rows in scenarios.items() if rows}
    assert list(inverted.counts) == [len(fragment.use_when) for fragment in library]


def test_postings_of_nothing_are_empty() -> None:
    assert Postings.join({}) == ([], array("I"), array("I"))
    assert read(Postings.join({}).renumbered([])) == {}
    assert read(Postings.join({"a": [1]}).renumbered([None, None])) == {}
