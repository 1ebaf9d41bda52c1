"""True token counts, from a real tokenizer."""

import warnings
from functools import cache

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the library opens its data in an old way
    import bpe_openai


@cache
def _o200k() -> bpe_openai.Encoding:
    return bpe_openai.get_encoding("o200k_base")


def true_tokens(text: str) -> int:
    """Return how many o200k_base tokens *text* has."""
    return len(_o200k().encode(text, disallowed_special=()))
