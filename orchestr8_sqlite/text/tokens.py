"""Estimates how many tokens a language model reads in a text, without a tokenizer.

Counting runs of letters, punctuation and digits follows what byte-pair tokenizers do to prose,
code and URIs. Mean absolute error against o200k_base on 2,906 real Markdown files (2,294 skills,
413 fragments, 199 tool descriptions), five-fold cross-validated: 2.7 %. For 99 of 100 files the
estimate is at least 0.91 of the true count. For comparison, four characters per token: 12.8 %.
`tests/test_tokens.py` repeats the measurement.
"""

import codecs
import json
import math
import string
from collections import Counter
from functools import lru_cache

LOWER, UPPER, PUNCTUATION, DIGIT = 1, 2, 4, 8
LETTER = LOWER | UPPER
"""Kinds of characters, each a bit; a letter beyond ASCII is both lower and upper case."""

RUN_WEIGHTS = ((LETTER, 0.99, 8, 0.33), (PUNCTUATION, 0.92, 4, 0.54), (DIGIT, 1.82, 3, 1.46))
"""(kind of run, tokens per run, N, tokens per N further characters); all weights have two decimals."""

HEADROOM = 1.1
"""Budgets bound `estimate * HEADROOM`, which covers the underestimate of 99 of 100 texts."""


def _kind(character: str) -> int:
    if character.isascii():
        kinds = (string.ascii_lowercase, string.ascii_uppercase, string.punctuation, string.digits)
        return sum(1 << bit for bit, kind in enumerate(kinds) if character in kind)
    if _is_wide(character) or character.isspace():
        return 0
    return LETTER if character.isalpha() else DIGIT if character.isdigit() else PUNCTUATION


def _is_wide(character: str) -> bool:
    """Tell whether a character is CJK; such characters are counted one by one."""
    return "\u2e80" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7af"


@lru_cache(maxsize=10_000)
def _like(character: str) -> str:
    """Return a Latin-1 character of the same kind, or two spaces for a wide one: the extra length counts those."""
    if _is_wide(character):
        return "  "
    return {LETTER: "\xaa", DIGIT: "\xb2", PUNCTUATION: "\xbf"}.get(_kind(character), " ")


def _all_like(problem: UnicodeError) -> tuple[str, int]:
    assert isinstance(problem, UnicodeEncodeError)
    return "".join(map(_like, problem.object[problem.start : problem.end])), problem.end


LIKE = "orchestr8.like"
codecs.register_error(LIKE, _all_like)

MASK_STEP = 4096
"""Mask lengths are multiples of this, so that texts of similar length share one."""

HEX_DIGITS = bytes(ord(f"{_kind(chr(code)):x}") for code in range(256))
"""Each Latin-1 character's kind as a hexadecimal digit."""


def estimate_tokens(text: str) -> int:
    """Return the estimated number of o200k tokens of *text*, rounded up; 0 for the empty text.

    Source: weights by least squares on relative error over the files named in the module docstring.
    """
    if not text:
        return 0
    characters = text.encode("latin-1", LIKE)
    wide = len(characters) - len(text)
    others = 0 if text.isascii() else len(text) - wide - len(text.encode("ascii", "ignore"))
    digits = characters.translate(HEX_DIGITS)
    humps, runs = _count_kinds(digits)
    tokens = 0.93 * text.count("\n") - 1.56 * text.count("\n\n") + 0.62 * humps + (0.39 * others + 0.72 * wide)
    hundredths = round(100 * tokens)
    for (_, per_run, _, per_step), (count, steps) in zip(RUN_WEIGHTS, runs, strict=True):
        hundredths += round(100 * per_run) * count + round(100 * per_step) * steps
    if hundredths % 100 == 0:  # only here can float error change the rounded-up result
        hundredths = math.ceil(_add_runs(tokens, digits)) * 100
    return max(math.ceil(hundredths / 100), 1)


def _count_kinds(digits: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of camel humps, and the result of `_count_runs` for each kind of run."""
    kinds = int(digits, 16)
    every = _lowest_bits(len(digits) // MASK_STEP + 1)
    lower, upper = kinds & every, kinds >> 1 & every
    humps = (lower & ~upper) >> 4 & upper & ~lower
    marks = lower | upper, kinds >> 2 & every, kinds >> 3 & every
    return humps.bit_count(), [_count_runs(one, step) for one, (_, _, step, _) in zip(marks, RUN_WEIGHTS, strict=True)]


@lru_cache(maxsize=16)
def _lowest_bits(steps: int) -> int:
    """Return a number whose hexadecimal digits are all 1: MASK_STEP digits per step."""
    return (1 << 4 * MASK_STEP * steps) // 15


def _count_runs(marks: int, step: int) -> tuple[int, int]:
    """Return the number of runs of ones in *marks*, and the number of whole *steps* of ones after each run's first one.

    The ones are the lowest bits of hexadecimal digits. All runs are counted in parallel, by doubling: from the first
    one of each run, mark the ones at a distance of one step, then of two, of four and so on.
    """
    firsts = marks & ~(marks >> 4)
    reached, width = marks, 1
    while width <= step:
        more = min(width, step + 1 - width)
        reached &= reached >> 4 * more
        width += more
    landed, distance = firsts, 4 * step
    while reached:
        landed |= landed >> distance & reached
        reached &= reached >> distance
        distance *= 2
    runs = firsts.bit_count()
    return runs, landed.bit_count() - runs


def _add_runs(tokens: float, digits: bytes) -> float:
    """Return *tokens* plus the tokens of all runs, added one by one.

    Float error may lift a whole number to the next one, and stored estimates depend on that.
    """
    for kind, per_run, step, per_step in RUN_WEIGHTS:
        kept = bytes(code if int(chr(code), 16) & kind else ord(" ") for code in b"0123456789abcdef")
        table = bytes.maketrans(b"0123456789abcdef", kept)
        for length, runs in Counter(map(len, digits.translate(table).split())).items():
            tokens += runs * (per_run + per_step * ((length - 1) // step))
    return tokens


def sent_tokens(text: str) -> int:
    """Return the estimated tokens of *text*, plain or as a JSON string, whichever is more."""
    return max(estimate_tokens(text), estimate_tokens(compact_json(text)))


def compact_json(value: object) -> str:
    """Return *value* as JSON without spaces, the form that clients pass to their model."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fits(text: str, max_tokens: float) -> bool:
    """Tell whether *text* stays within *max_tokens*, with headroom for the estimate's error."""
    return estimate_tokens(text) * HEADROOM <= max_tokens
