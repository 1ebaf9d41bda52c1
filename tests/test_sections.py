"""Splitting a body at its headings, and cutting it to a budget."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.answers.sections import Sections, fair_shares, share_out, split_sections
from orchestr8_sqlite.text.keywords import extract_keywords
from orchestr8_sqlite.text.tokens import estimate_tokens

LINES = st.sampled_from(
    [
        "# One",
        "## Two words",
        "### Three",
        "#hash",
        "",
        "Some text about retry.",
        "```",
        "```sh",
        "~~~",
        "    # code",
        "x",
    ]
)
PROSE = st.sampled_from(["Some text.", "", "## Retry", "# Cache", "### Time", "- a bullet", "#no-heading"])
CODE = st.sampled_from(["# a comment", "## another", "### third", "run --now", ""])


@st.composite
def fenced_code(draw: st.DrawFn) -> str:
    """Return a code block whose comments look like headings, and which may show shorter fences."""
    mark = draw(st.sampled_from("`~"))
    length = draw(st.integers(3, 5))
    shown = st.sampled_from([mark * shorter for shorter in range(3, length)] or [mark])
    inner = draw(st.lists(CODE | shown if length > 3 else CODE, max_size=5))
    return "\n".join([mark * length + draw(st.sampled_from(["", "bash"])), *inner, mark * length])


def note(sections: int, tokens: int) -> str:
    return f"[cut: {sections} sections, ~{tokens:,} tokens left out]"


def cut_to_budget(body: str, keywords: list[str], budget: int, say: Callable[[int, int], str]) -> str:
    """Return what is left and, in a line of its own, what is said of the rest."""
    if estimate_tokens(body) <= budget:
        return body
    cut = Sections(body, keywords, say, estimate_tokens).cut(budget)
    return "\n".join(filter(None, (cut.text, cut.note)))


@settings(max_examples=100)
@given(body=st.lists(LINES).map("\n".join) | st.text(alphabet="#`~ \n\rab\t"))
def test_joined_sections_are_the_body_again(body: str) -> None:
    assert "\n".join(section.text for section in split_sections(body)) == body


@settings(max_examples=100)
@given(parts=st.lists(PROSE | fenced_code(), max_size=6))
def test_no_heading_is_seen_inside_code(parts: list[str]) -> None:
    headings = [part for part in parts if part.startswith(("# ", "## ", "### ")) and "\n" not in part]
    sections = split_sections("\n".join(parts))
    assert [s.text.split("\n")[0] for s in sections if s.title] == headings


def test_fence_that_shows_a_fence_stays_in_one_piece() -> None:
    body = "# Title\n\n````md\n```sh\n# a comment\n```\n# shown heading\n````\n\n# Next"
    assert [section.title for section in split_sections(body)] == ["Title", "Next"]


def test_fence_that_is_never_closed_reaches_the_end() -> None:
    assert [section.title for section in split_sections("# Title\n```\n# a comment\n# another")] == ["Title"]


def test_text_before_the_first_heading_is_a_section() -> None:
    sections = split_sections("Intro.\n\n# One\n\nText.\n## Two\nMore.")
    assert [(s.title, s.text) for s in sections] == [
        ("", "Intro.\n"),
        ("One", "# One\n\nText."),
        ("Two", "## Two\nMore."),
    ]


def section(title: str, words: str, repeats: int) -> str:
    return f"## {title}\n\n" + f"{words}. " * repeats


SECTIONS = st.lists(
    st.tuples(st.sampled_from(["retry", "backoff", "retry backoff", "other"]), st.integers(1, 40)),
    min_size=1,
    max_size=8,
).map(lambda drawn: [section(f"S{n} {words}", words, repeats) for n, (words, repeats) in enumerate(drawn)])


@settings(max_examples=100)
@given(sections=SECTIONS, budget=st.integers(1, 600))
def test_cut_text_keeps_its_budget_and_its_order_and_counts_what_is_missing(sections: list[str], budget: int) -> None:
    body = "\n".join(sections)
    text = cut_to_budget(body, ["retry", "backoff"], budget, note)
    kept = [number for number, whole in enumerate(sections) if whole.rstrip() in text]
    if estimate_tokens(body) <= budget:
        assert text == body
        return
    assert estimate_tokens(text) <= max(budget, estimate_tokens(note(len(sections), estimate_tokens(body))) + 3)
    last = text.split("\n")[-1]
    assert last.startswith(f"[cut: {len(sections) - len(kept)} sections, ~")
    assert "\n".join([*(sections[number].rstrip() for number in kept), last]) == text


@settings(max_examples=60)
@given(sections=SECTIONS, budget=st.integers(40, 600))
def test_best_matching_section_is_kept_where_it_fits(sections: list[str], budget: int) -> None:
    wanted = {"retry", "backoff"}
    best = max(sections, key=lambda text: len(wanted & set(extract_keywords(text))))
    text = cut_to_budget("\n".join(sections), list(wanted), budget, note)
    if estimate_tokens(best) + estimate_tokens(note(99, 9999)) + 3 <= budget:
        assert best.rstrip() in text


@pytest.mark.parametrize("keyword", ["first", "second", "third"])
def test_section_that_matches_goes_before_others(keyword: str) -> None:
    titles = ["first", "second", "third"]
    sections = {title: section(title, f"All about {title} things", 20) for title in titles}
    text = cut_to_budget("\n".join(sections.values()), [keyword], estimate_tokens(sections[keyword]) + 40, note)
    assert [title for title in titles if sections[title].rstrip() in text] == [keyword]


def test_title_goes_first_where_nothing_matches() -> None:
    sections = [section(f"S{n}", "Some words", 20) for n in range(3)]
    text = cut_to_budget("\n".join(sections), ["retry"], estimate_tokens(sections[0]) + 40, note)
    assert sections[0].rstrip() in text
    assert sections[1].rstrip() not in text


def test_heading_with_nothing_below_stands_only_above_a_section_that_is_kept() -> None:
    long = "Long text of no use here. " * 40
    body = f"# Title\n\nIntro.\n## Empty\n### Long\n\n{long}\n## Holder\n### Short\n\nAbout retry."
    text = cut_to_budget(body, ["retry"], 60, note)
    assert text.split("\n")[:-1] == ["# Title", "", "Intro.", "## Holder", "### Short", "", "About retry."]
    assert text.endswith("tokens left out]")


def cutter(parts: tuple[int, ...]) -> Callable[[float], tuple[tuple[int, ...], float]]:
    """Return what keeps of some numbers the first ones that fit together."""

    def cut(share: float) -> tuple[tuple[int, ...], float]:
        kept: tuple[int, ...] = ()
        for part in parts:
            kept += (part,) if sum(kept) + part <= share else ()
        return kept, sum(kept)

    return cut


def shared(items: list[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    sizes = [sum(item) for item in items]
    return share_out(items, sizes, fair_shares(sizes, budget), budget, cutter)


@settings(max_examples=300)
@given(
    items=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=6).map(tuple), min_size=1, max_size=5),
    budget=st.integers(0, 400),
)
def test_nothing_is_cut_off_for_which_the_cuts_leave_room(items: list[tuple[int, ...]], budget: int) -> None:
    given = shared(items, budget)
    left = budget - sum(map(sum, given))
    assert left >= 0
    for item, parts in zip(items, given, strict=True):
        assert sum(parts) <= sum(item)
        if parts != item:
            assert cutter(item)(sum(parts) + left)[1] <= sum(parts) + left
            assert cutter(item)(sum(parts) + left)[0] == parts
    if sum(map(sum, items)) <= budget:
        assert given == items


def test_what_a_cut_leaves_goes_to_the_best() -> None:
    items: list[tuple[int, ...]] = [(60, 60), (150,), (30,)]
    assert shared(items, 210) == [(60, 60), (), (30,)]
    assert shared(items[:2], 120) == [(60, 60), ()]
