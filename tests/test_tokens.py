"""The token estimate against a real tokenizer (o200k_base)."""

import math
import re
from fractions import Fraction
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED, needs_shared
from tokenizer import true_tokens

from orchestr8_sqlite.text.tokens import HEADROOM, estimate_tokens, fits

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


PIECES = [
    "é",
    "É",
    "再",
    "한",
    "½",
    "٣",
    "\u3000",
    "\u2003",
    "—",
    "😀",
    "\udc80",
    "-----",
    "setUserId",
    "aÉ",
    "Bé",
    "12345678",
    "\n\n",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=20)).map("".join))
def test_the_estimate_is_the_sum_over_all_runs_of_a_text(text: str) -> None:
    """A sum that is a whole number may be rounded to one more."""
    tokens = max(sum_over_runs(text), Fraction(1 if text else 0))
    assert estimate_tokens(text) in {math.ceil(tokens), math.floor(tokens) + 1 if text else 0}


def sum_over_runs(text: str) -> Fraction:
    hundredths = 93 * text.count("\n") - 156 * text.count("\n\n") + 62 * len(re.findall("[a-z][A-Z]", text))
    wide = len(re.findall("[\u2e80-\u9fff\uac00-\ud7af]", text))
    hundredths += 39 * (len(re.findall(r"[^\x00-\x7f]", text)) - wide) + 72 * wide
    kinds = "".join(map(kind, text))
    for name, per_run, step, per_step in (("a", 99, 8, 33), ("!", 92, 4, 54), ("0", 182, 3, 146)):
        hundredths += sum(per_run + per_step * ((len(run) - 1) // step) for run in re.findall(f"{name}+", kinds))
    return Fraction(hundredths, 100)


def kind(character: str) -> str:
    if character.isspace() or re.match("[\x00-\x1f\x7f\u2e80-\u9fff\uac00-\ud7af]", character):
        return " "
    return "a" if character.isalpha() else "0" if character.isdigit() else "!"


def test_budget_is_kept_with_headroom_for_the_error() -> None:
    text = "word " * 100
    assert estimate_tokens(text) == 99
    assert fits(text, 109)
    assert not fits(text, 108)
