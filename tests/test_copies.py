"""Fragments that say what others say already: the same text, the same scenario, or nearly the same text."""

import random
import time
from pathlib import Path

import pytest
from support import MakeLibrary, markdown

from orchestr8_sqlite.builder.build import build_index, lint_library
from orchestr8_sqlite.library.near_copies import find_near_copies

WORDS = [f"word{number}" for number in range(5_000)]


def text(seed: int, length: int = 600) -> str:
    """Return words by chance, on lines of ten."""
    words = random.Random(seed).choices(WORDS, k=length)
    return "\n".join(" ".join(words[at : at + 10]) for at in range(0, length, 10))


def with_changes(original: str, share: float, seed: int = 0) -> str:
    """Return a text in which that *share* of the lines is another one."""
    chance = random.Random(seed)
    lines = original.split("\n")
    return "\n".join(f"other {seed} {at}" if chance.random() < share else line for at, line in enumerate(lines))


def said(root: Path, *codes: str) -> list[tuple[str, str]]:
    found = lint_library([root], similar=True).diagnostics
    return [(one.path, one.message) for one in found if one.code in codes]


def test_fragment_with_the_text_of_another_one_is_said_whatever_its_front_matter(make_library: MakeLibrary) -> None:
    root = make_library(
        {
            "guides/a.md": markdown("title: A", text(1)),
            "guides/b.md": markdown("title: Other title", text(1)),
            "guides/c.md": markdown("title: C", text(2)),
        }
    )
    assert said(root, "same-text", "similar-text") == [("guides/b.md", "has the text of guides/a")]


def test_few_words_in_common_are_no_copy(make_library: MakeLibrary) -> None:
    root = make_library({"guides/a.md": "# A\n\nTo be written.\n", "guides/b.md": "# A\n\nTo be written.\n"})
    assert said(root, "same-text", "similar-text") == []


def test_scenarios_that_two_fragments_share_are_said_once_for_both(make_library: MakeLibrary) -> None:
    root = make_library(
        {
            "guides/a.md": markdown("useWhen: [undo a commit, lost a branch]"),
            "guides/b.md": markdown("useWhen: [undo a commit, lost a branch, other]"),
            "guides/c.md": markdown("useWhen: [undo a merge]"),
        }
    )
    found = [("guides/b.md", "'undo a commit' and 1 more are scenarios of guides/a too")]
    assert said(root, "same-scenario") == found


def test_build_says_the_same_of_copies_however_it_came_about(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"guides/b.md": text(1), **{f"guides/x{number}.md": text(9 + number) for number in range(9)}})
    build_index([root], tmp_path / "index.db")
    (root / "guides" / "a.md").write_text(text(1))
    updated = build_index([root], tmp_path / "index.db")
    assert updated.how.value == "updated"
    assert [(one.path, one.code) for one in updated.diagnostics] == [("guides/b.md", "same-text")]
    (root / "guides" / "a.md").unlink()
    assert build_index([root], tmp_path / "index.db").diagnostics == ()


@pytest.mark.parametrize(("share", "found"), [(0.02, True), (0.05, True), (0.35, False), (0.9, False)])
def test_text_with_few_changes_is_found_and_one_with_many_is_not(share: float, found: bool) -> None:
    texts = [text(1), text(2), with_changes(text(1), share)]
    assert [(one.place, one.other) for one in find_near_copies(texts)] == ([(2, 0)] if found else [])


def test_every_copy_of_a_text_is_found_beside_a_paragraph_that_all_share() -> None:
    """Each is compared with a few others only."""
    licence = text(0, 150)
    texts = [f"{licence}\n{text(seed)}" for seed in range(1, 200)]
    copies = [with_changes(texts[0], 0.03, seed) for seed in range(1, 60)]
    assert [one.place for one in find_near_copies([*texts, *copies])] == list(range(199, 258))


def test_time_for_near_copies_grows_with_the_number_of_texts() -> None:
    texts = [f"{text(0, 100)}\n{text(seed, 300)}" for seed in range(1, 1_601)]

    def seconds(count: int) -> float:
        started = time.process_time()
        assert not list(find_near_copies(texts[:count]))
        return time.process_time() - started

    assert min(seconds(1_600), seconds(1_600)) < 12 * min(seconds(400), seconds(400)) + 0.1


def test_lint_names_the_fragment_that_a_text_is_nearly_that_of(make_library: MakeLibrary) -> None:
    root = make_library({"guides/a.md": text(1), "guides/b.md": with_changes(text(1), 0.04), "guides/c.md": text(2)})
    [(path, message)] = said(root, "similar-text")
    assert path == "guides/b.md"
    assert message.endswith("% of its text is in guides/a")
