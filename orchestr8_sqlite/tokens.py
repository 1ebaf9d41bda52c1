"""An estimate of how many tokens a language model reads in a text, without a tokenizer.

Counting runs of letters, punctuation and digits follows what byte-pair tokenizers do to prose,
code and URIs. Mean absolute error against o200k_base on 2,906 real Markdown files (2,294 skills,
413 fragments, 199 tool descriptions), five-fold cross-validated: 2.7 %; 99 of 100 files are
estimated at 0.91 of their true count or more. Four characters a token, for comparison: 12.8 %.
`tests/test_tokens.py` measures it again.
"""

import json
import math
import re
import string
from collections import Counter

NON_ASCII = re.compile(r"[^\x00-\x7f]")
CAMEL_HUMP = re.compile(r"[a-z][A-Z]")

HEADROOM = 1.1
"""Budgets are kept on `estimate * HEADROOM`: it covers the underestimate of 99 texts of 100."""


def _keep(kept: str) -> dict[int, str]:
    """Return a translation of ASCII that turns everything but *kept* into spaces."""
    return {code: chr(code) if chr(code) in kept else " " for code in range(128)}


RUN_WEIGHTS = (
    (_keep(string.ascii_letters), 0.99, 8, 0.33),
    (_keep(string.punctuation), 0.92, 4, 0.54),
    (_keep(string.digits), 1.82, 3, 1.46),
)
"""For each kind of run: what it consists of, tokens a run, and tokens for every so many characters more."""


def estimate_tokens(text: str) -> int:
    """Return about how many o200k tokens *text* has, rounded up; 0 for the empty text.

    Source: weights by least squares on relative error over the files named in the module docstring.
    """
    tokens = 0.93 * text.count("\n") - 1.56 * text.count("\n\n") + 0.62 * len(CAMEL_HUMP.findall(text))
    if not text.isascii():
        others = NON_ASCII.findall(text)
        wide = sum(map(_is_wide, others))
        tokens += 0.39 * (len(others) - wide) + 0.72 * wide
        text = NON_ASCII.sub(_ascii_like, text)
    for table, per_run, step, per_step in RUN_WEIGHTS:
        for length, runs in Counter(map(len, text.translate(table).split())).items():
            tokens += runs * (per_run + per_step * ((length - 1) // step))
    return max(math.ceil(tokens), 1 if text else 0)


def _is_wide(character: str) -> bool:
    """Tell whether a character is CJK, which is counted by the character."""
    return "\u2e80" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7af"


def _ascii_like(match: re.Match[str]) -> str:
    """Return an ASCII character of the same kind; a wide one becomes a space."""
    character = match[0]
    if _is_wide(character) or character.isspace():
        return " "
    if character.isalpha():
        return "x"
    return "0" if character.isdigit() else "!"


def sent_tokens(text: str) -> int:
    """Return about how many tokens *text* has in the form that has more: as it is, or as a string in JSON."""
    return max(estimate_tokens(text), estimate_tokens(compact_json(text)))


def compact_json(value: object) -> str:
    """Return *value* as JSON without spaces, as clients hand it to their model."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fits(text: str, max_tokens: float) -> bool:
    """Tell whether *text* keeps a promise of *max_tokens*, with headroom for the estimate's error."""
    return estimate_tokens(text) * HEADROOM <= max_tokens
