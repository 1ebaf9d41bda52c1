"""The token estimate against a real tokenizer (o200k_base)."""

from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED, needs_shared
from tokenizer import true_tokens

from orchestr8_sqlite.tokens import HEADROOM, estimate_tokens, fits

RESOURCES = Path(__file__).parents[1] / "resources"

PINNED = {
    "Hello, world!": 4,
    "Retry the call with exponential backoff and jitter; give up after five attempts.": 16,
    "orchestr8://skills/error-handling-resilience": 10,
    "def f(x: int) -> int:\n    return x + 1\n": 16,
    "SELECT uri, sum(points) FROM score_evidence GROUP BY uri;": 14,
    "数据库连接池在高并发下耗尽。": 11,
}


def relative_errors(texts: list[str]) -> list[float]:
    return [estimate_tokens(text) / true_tokens(text) - 1 for text in texts if text.strip()]


@pytest.mark.parametrize(("text", "tokens"), PINNED.items())
def test_pinned_samples_have_the_count_of_the_real_tokenizer(text: str, tokens: int) -> None:
    assert true_tokens(text) == tokens


@pytest.mark.parametrize(("text", "tokens"), PINNED.items())
def test_short_samples_are_estimated_within_four_tokens_or_a_third(text: str, tokens: int) -> None:
    assert abs(estimate_tokens(text) - tokens) <= max(4, tokens / 3)


def test_shipped_library_is_estimated_within_5_percent_on_average() -> None:
    errors = relative_errors([path.read_text(encoding="utf-8") for path in sorted(RESOURCES.rglob("*.md"))])
    assert mean(abs(error) for error in errors) < 0.05


@needs_shared
@pytest.mark.slow
def test_real_libraries_are_estimated_within_the_error_that_the_docs_state() -> None:
    files = [path for name in ("orchestr8", "skills", "metatool") for path in (SHARED / "corpora" / name).rglob("*.md")]
    errors = sorted(relative_errors([path.read_text(encoding="utf-8-sig") for path in files]))
    assert len(errors) == 2906
    assert mean(abs(error) for error in errors) < 0.035
    assert 1 + errors[len(errors) // 100] > 1 / HEADROOM


def test_empty_text_has_no_tokens() -> None:
    assert estimate_tokens("") == 0


@given(st.text(min_size=1))
def test_any_other_text_has_at_least_one(text: str) -> None:
    assert estimate_tokens(text) >= 1


@given(st.text(), st.text())
def test_texts_on_separate_lines_cost_about_the_sum_of_both(first: str, second: str) -> None:
    together = estimate_tokens(f"{first}\n{second}")
    assert abs(together - estimate_tokens(first) - estimate_tokens(second)) <= 4


def test_budget_is_kept_with_headroom_for_the_error() -> None:
    text = "word " * 100
    assert estimate_tokens(text) == 99
    assert fits(text, 109)
    assert not fits(text, 108)
