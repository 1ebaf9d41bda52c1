"""What the body of a document tells: headings, sections, bullets, sentences, and which parts are code."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.library.fallbacks import (
    MAX_DESCRIPTION,
    MAX_ITEMS,
    MAX_TAGS,
    first_paragraph,
    first_title,
    heading_tags,
    needs,
    section_bullets,
    sentences,
)
from orchestr8_sqlite.text.markdown import Body, plain_text


def first_heading(body: Body) -> str | None:
    found = first_title(body)
    return found and found.text


def test_the_title_is_the_first_heading_of_level_1_without_markup() -> None:
    assert (
        first_heading(Body("Text\n\n## Other\n\n# **Retry** with `backoff` ##\n\n# Another\n")) == "Retry with backoff"
    )
    assert first_heading(Body("Text\n\n## Purpose\n")) is None
    assert first_heading(Body("No heading.\n#hashtag\n####### seven\n")) is None


@pytest.mark.parametrize("name", ["C#", "F#", "C# and F#"])
def test_a_sharp_that_belongs_to_a_name_stays_in_the_heading(name: str) -> None:
    assert first_heading(Body(f"# Async in {name}\n")) == f"Async in {name}"


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "   ```"])
def test_headings_in_code_are_none(fence: str) -> None:
    assert first_heading(Body(f"{fence}bash\n# a comment\n{fence}\n\n# Title\n")) == "Title"


def test_a_fence_closes_only_with_its_own_mark() -> None:
    assert first_heading(Body("````md\n```\n# no\n```\n~~~\n# no\n````\n# Yes\n")) == "Yes"
    assert first_heading(Body("```\n# no\n```python\n# still no\n```\n# Yes\n")) == "Yes"


def test_code_that_is_never_closed_lasts_to_the_end() -> None:
    assert first_heading(Body("```\n# no\n\n# no\n")) is None


def test_inline_code_in_three_back_quotes_opens_no_block() -> None:
    assert first_heading(Body("```npm test``` runs it.\n\n# Title\n")) == "Title"


@given(st.lists(st.sampled_from(["```", "```py", "~~~", "# H", "text", ""]), max_size=12))
@settings(max_examples=80, derandomize=True)
def test_code_is_what_stands_between_fences(lines: list[str]) -> None:
    fence = ""
    headings = []
    for line in lines:
        if not fence:
            fence = line[:3] if line[:3] in ("```", "~~~") else ""
            headings += ["H"] if line == "# H" else []
        elif line == fence:
            fence = ""
    assert [heading.title for heading in Body("\n".join(lines)).headings] == headings


def test_a_section_ends_at_the_next_heading_of_its_level_or_above() -> None:
    body = Body("# A\n\n## When to Use\n- Adding retry\n\n### Also\n- Tuning backoff\n\n## Next\n- Other things\n")
    assert section_bullets(body, "when to use") == ("Adding retry", "Tuning backoff")


@pytest.mark.parametrize("title", ["When to Use", "when to use this skill", "**When To Use**", "When to use:"])
def test_a_section_is_found_by_how_its_title_begins(title: str) -> None:
    assert section_bullets(Body(f"## {title}\n\n- Adding retry\n"), "when to use") == ("Adding retry",)


@pytest.mark.parametrize("mark", ["-", "*", "+", "1.", "2)", "  -"])
def test_every_kind_of_bullet_is_read(mark: str) -> None:
    assert section_bullets(Body(f"## Capabilities\n{mark} Adding **retry**\n"), "capabilities") == ("Adding retry",)


def test_bullets_in_code_and_without_words_are_left_out() -> None:
    body = Body("## Capabilities\n- One thing\n```\n- code\n```\n- ---\n- One thing\n- Two things\n")
    assert section_bullets(body, "capabilities") == ("One thing", "Two things")


def test_bullets_are_bounded() -> None:
    body = Body("## Capabilities\n" + "".join(f"- Thing number{number}\n" for number in range(50)))
    assert len(section_bullets(body, "capabilities")) == MAX_ITEMS


def test_the_first_paragraph_is_the_first_prose() -> None:
    body = Body(
        "# Title\n\n```\ncode\n```\n\n- bullet\n\n| a |\n\n<br>\n\nThe **first** [link](x.md)\nparagraph.\n\nNext.\n"
    )
    assert first_paragraph(body) == "The first link paragraph."
    assert first_paragraph(Body("# Title\n\n- only\n- bullets\n")) is None


@pytest.mark.parametrize("line", ["+ an item", "title: Disk full", "tags:"])
def test_bullets_and_fields_are_no_prose(line: str) -> None:
    assert first_paragraph(Body(f"# Title\n\n{line}\n\nThe pods are slow.\n")) == "The pods are slow."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Status: accepted.", ()),
        ("Date: 2024-03-01. We keep orders in Postgres.", ("We keep orders in Postgres.",)),
        ("1. kubectl -n orders get pods.", ()),
        ("Disk full.", ()),
        ("Postgresの接続が切れる。", ("Postgresの接続が切れる。",)),
        ("The consumer lag grows for hours.", ("The consumer lag grows for hours.",)),
    ],
)
def test_needs_are_sentences_and_no_items_of_lists_or_forms(text: str, found: tuple[str, ...]) -> None:
    assert needs(text) == found


def test_a_long_paragraph_is_cut_at_a_word() -> None:
    text = first_paragraph(Body("word " * 200))
    assert text is not None
    assert text.endswith("word…")
    assert MAX_DESCRIPTION - 10 < len(text) <= MAX_DESCRIPTION + 1


def test_a_long_paragraph_without_spaces_is_cut_too() -> None:
    text = first_paragraph(Body("再試行の設計" * 100))
    assert text is not None
    assert text.startswith("再試行の設計" * 10)
    assert len(text) <= MAX_DESCRIPTION + 1


def test_plain_text_is_what_a_reader_sees() -> None:
    assert plain_text("**bold** *and* `code` _em_ [text](url) ![alt](pic.png) <br>") == "bold and code em text alt"


@pytest.mark.parametrize(
    "text", ["Index snake_case names", "keep user_id_map as it is", "p95 < 200 ms and rate > 1 %", "2 * 3 * 4"]
)
def test_signs_that_are_no_markup_stay(text: str) -> None:
    assert plain_text(text) == text


def test_sentences_need_two_keywords() -> None:
    assert sentences("Adds retry to a client. Use it! Handles timeouts and backoff.") == (
        "Adds retry to a client.",
        "Handles timeouts and backoff.",
    )


def test_tags_come_from_the_first_heading_and_from_technologies_in_the_text() -> None:
    tags = heading_tags("Retry in Go", Body("# Retry in Go\n\nUse it with PostgreSQL and some luck on Kubernetes.\n"))
    assert tags == ("retry", "go", "postgresql", "kubernetes")


def test_tags_are_bounded() -> None:
    title = " ".join(f"word{number}" for number in range(30))
    assert len(heading_tags(title, Body(""))) == MAX_TAGS


@given(text=st.text(st.sampled_from("a\n")), position=st.integers(0, 30))
def test_lines_are_counted_as_line_ends_before_a_position(text: str, position: int) -> None:
    assert Body(text).line_at(position) == text[:position].count("\n")
