"""Overlaps that lint names: fragments described nearly alike, and fragments that answer each other's scenarios."""

import time
from pathlib import Path

import pytest
from support import SHARED, Invoke, MakeLibrary, markdown, needs_shared

from orchestr8_sqlite.builder.build import lint_library


def overlaps(root: Path, *, overlap: bool = False) -> list[tuple[str, str]]:
    found = lint_library([root], similar=True, overlap=overlap, category="skill").diagnostics
    return [(one.path, one.message) for one in found if one.code == "overlap"]


def others(count: int = 30) -> dict[str, str]:
    """Return documents that have nothing to do with each other."""
    return {
        f"skills/s{number}.md": markdown(
            f"description: thing{number} plus part{number}\nuseWhen: [moving thing{number} of kind{number}]"
        )
        for number in range(count)
    }


def test_fragments_that_are_described_nearly_alike_are_said_the_most_alike_first(make_library: MakeLibrary) -> None:
    words = "Calls remote services again after failures with backoff jitter budgets deadlines idempotency "
    words += "breakers quotas hedging queues batches sessions tokens throttles"
    root = make_library(
        {
            **others(),
            "skills/a/retry.md": markdown(f"description: {words} and logging"),
            "skills/b/retry.md": markdown(f"description: {words} and metrics"),
            "skills/c/tea.md": markdown("description: Brewing green tea leaves"),
            "skills/d/tea.md": markdown("description: Brewing green tea leaves"),
            "skills/e/tea.md": markdown("description: Pouring black coffee from a machine"),
        }
    )
    (path, first), (other, second) = overlaps(root)
    assert (path, first) == ("skills/d/tea.md", "name and description are nearly those of skills/c/tea (100%)")
    assert other == "skills/b/retry.md"
    assert second.startswith("name and description are nearly those of skills/a/retry (9")


def test_fragments_that_answer_scenarios_of_each_other_are_said_if_asked_for(make_library: MakeLibrary) -> None:
    root = make_library(
        {
            **others(),
            "skills/a.md": markdown(
                "description: Clusters\ntags: [kubernetes]\nuseWhen: [rolling back a helm release, drain a node]"
            ),
            "skills/b.md": markdown(
                "description: Packages\ntags: [helm]\nuseWhen: [a kubernetes rollout hangs, upgrade a chart]"
            ),
        }
    )
    assert overlaps(root) == []
    assert overlaps(root, overlap=True) == [
        (
            "skills/b.md",
            "its 'a kubernetes rollout hangs' finds skills/a; the other's 'rolling back a helm release' finds skills/b",
        )
    ]


def test_overlaps_come_last_and_can_be_ignored(make_library: MakeLibrary, invoke: Invoke) -> None:
    text = markdown("description: Brewing green tea leaves\ntags: []\nnoSuch: 1\nuseWhen:")
    root = make_library({"skills/a/tea.md": text, "skills/b/tea.md": text, "skills/z.md": markdown("useWhen:")})
    lines = invoke("lint", root, "--overlap")[1].splitlines()
    assert ["[overlap]" in line for line in lines[:-1]].index(True) == len(lines) - 2
    assert "[overlap]" not in invoke("lint", root, "--ignore", "overlap")[1]


def test_many_texts_of_one_template_take_little_time(make_library: MakeLibrary) -> None:
    root = make_library(
        {
            f"skills/p{number}/part.md": markdown("description: Parts numbers lists charts tables")
            for number in range(400)
        }
    )
    started = time.process_time()
    assert len(overlaps(root)) == 399
    assert time.process_time() - started < 20


@pytest.mark.slow
@needs_shared
def test_near_identical_pairs_of_a_real_library_come_first() -> None:
    found = overlaps(SHARED / "corpora" / "skills")
    assert len(found) >= 80
    assert all("name and description are nearly those of" in message for _, message in found)
    assert sum("(100%)" in message for _, message in found[:60]) == 60
